#!/usr/bin/env bash
# Checks and times the GPU kernels of gated attention on a machine with an NVIDIA GPU: the GPU tests, the same
# under compute-sanitizer where it is installed, and `openwork bench attention` (dense, plain and ours in one
# run). Numbers go to docs/results/attention_h200.md by hand, with the device's name.
#   scripts/device_attention.sh [BUILD [OUT]]      BUILD: a build folder made with -DOPENWORK_CUDA=ON
# A build made elsewhere runs too: set LD_LIBRARY_PATH to this machine's torch/lib and to the folder of cudart.
set -euo pipefail
build=${1:-build}
out=${2:-$build/device_attention}
mkdir -p "$out"
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tee "$out/device.txt"

"$build/tests/ops_cuda_tests" | tee "$out/tests.txt"

# racecheck without the cases that only add size: a kernel checked so runs a hundred times slower.
if command -v compute-sanitizer > /dev/null; then
  for check in 'memcheck *' 'racecheck CudaFused.*:*AgreesInBFloat16:*RepeatsBitForBit*'; do
    tool=${check%% *}
    compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/ops_cuda_tests" --gtest_filter="${check#* }" \
      > "$out/$tool.txt" 2>&1 || { tail -20 "$out/$tool.txt"; exit 9; }
    tail -1 "$out/$tool.txt"
  done
fi

"$build/openwork" bench attention --device cuda --long --json "$out/attention.json" | tee "$out/attention.txt"
