#!/usr/bin/env bash
# Runs pytest on the package of the build, with the build's torch: tests/python/run.sh [pytest arguments].
# Where torch, pytest or the package is not there, one skipped line says so.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${OPENWORK_BUILD:-$PWD/build}
skip() { printf 'SKIPPED [1] tests/python: %s\n0 passed, 1 skipped in 0s\n' "$1"; exit 0; }
cache() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }

[ -e "$build"/python/openwork/_build.py ] || skip "the Python package was not built (see the configuration's messages)"
python=$(cache Python_EXECUTABLE) torch=$(cache Libtorch_ROOT)
[ -e "$torch/torch/lib" ] || torch=$(dirname "$torch")
bash tests/python/stub_cuda.sh "$torch" "$build/cuda-stubs"
export PYTHONPATH=$build/python:$build/python-packages:$torch
export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$build/cuda-stubs
export OPENWORK_PROGRAM=$build/openwork HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false PYTHONDONTWRITEBYTECODE=1
# One thread each: suites that run side by side would else spin against one another, and sums have one order.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}
why=$("$python" -c 'import torch, pytest' 2>&1) || skip "$(tail -n 1 <<<"$why")"
code=0
"$python" -m pytest -p no:cacheprovider "$@" || code=$?
[ "$code" -ne 5 ] || code=0 # nothing was collected: the whole file was skipped, and said why
exit "$code"
