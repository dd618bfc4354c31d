#!/usr/bin/env bash
# Every test: the suite of the release build, then the rooms that know no torch again under sanitizers, and a
# short run of each fuzzer. Fetches the one public model some tests use; where it cannot be had they skip.
set -euo pipefail
cd "$(dirname "$0")/.."

build/openwork fetch smollm2-135m --quiet >/dev/null 2>build/fetch.log ||
  echo "tests: smollm2-135m cannot be had here ($(head -n 1 build/fetch.log)); tests that need it skip"

ctest --test-dir build --output-on-failure -j 2 --timeout 900

cmake --preset fuzz >build/fuzz-configure.log || { cat build/fuzz-configure.log; exit 1; }
cmake --build build/fuzz -j "${JOBS:-$(nproc)}" -- --quiet
ctest --test-dir build/fuzz --output-on-failure -j 2 --timeout 900
