#!/usr/bin/env bash
# A torch wheel with CUDA does not import without the CUDA libraries it links, two gigabytes of them, even where no GPU is.
# For tests on the CPU it is enough that their names are there: this makes one small library that has every function torch
# would look for in them (each ends the program) and links it under each name.
#   stub_cuda.sh TORCH DIR    TORCH holds torch/lib; prints nothing; does nothing where all libraries are found
set -euo pipefail
lib=$1/torch/lib out=$2
[ -e "$lib/libtorch_cuda.so" ] || exit 0
objects=("$lib"/libtorch_cuda.so "$lib"/libtorch_python.so "$lib"/libtorch_nvshmem.so)
mapfile -t missing < <(ldd "${objects[@]}" 2>/dev/null | awk '/not found/ {print $1}' | sort -u)
[ "${#missing[@]}" -gt 0 ] || exit 0
mkdir -p "$out"
[ -e "$out/stub.so" ] && [ "$out/stub.so" -nt "$lib/libtorch_cuda.so" ] && exit 0
nm -D --undefined-only "${objects[@]}" 2>/dev/null | awk '{sub(/@.*/, "", $NF); print $NF}' | sort -u |
  grep -E '^(cudnn|cublas|cusparse|cufft|cuFile|nccl|curand|nvshmem)[A-Za-z_]' |
  awk 'BEGIN {print "void abort(void);"} {printf "void %s(void) { abort(); }\n", $1}' >"$out/stub.c"
cc -shared -fPIC -w -o "$out/stub.new" "$out/stub.c"
for name in "${missing[@]}"; do ln -sf stub.so "$out/$name"; done
mv "$out/stub.new" "$out/stub.so"
