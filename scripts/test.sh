#!/usr/bin/env bash
# Every test: formatting, the suites of the release build, then the rooms that know no torch again under sanitizers, and a
# short run of each fuzzer. Fetches the one public model some tests use; where it cannot be had they skip.
set -euo pipefail
cd "$(dirname "$0")/.."

git ls-files '*.cpp' '*.h' '*.cu' '*.cuh' 2>/dev/null | xargs -r clang-format --dry-run --Werror ||
  { echo "tests: some files are not formatted; run make format"; exit 1; }

build/openwork fetch smollm2-135m --quiet >/dev/null 2>build/fetch.log ||
  echo "tests: smollm2-135m cannot be had here ($(head -n 1 build/fetch.log)); tests that need it skip"

# run_suites BUILD: all its suites, then what they skipped and why, and how many tests that were. One more at a time than there
# are cores: some wait, for a browser, a rank or a signal.
run_suites() {
  ctest --test-dir "$1" --output-on-failure -j 3 --timeout 900
  local log=$1/Testing/Temporary/LastTest.log
  grep -A 1 -h 'Skipped$' "$log" | grep -vE '^--|Skipped$|^$' | sort | uniq -c || true
  grep -h '^SKIPPED' "$log" | sed 's/^SKIPPED *\[[0-9]*\] //' | sort | uniq -c || true
  awk '/^\[  PASSED  \] [0-9]+ test/ {passed += $4} /^\[  SKIPPED \] [0-9]+ test/ {skipped += $4}
       / passed.* in [0-9.]+s/ {for (n = 2; n <= NF; ++n) {if ($n ~ /^passed/) passed += $(n - 1); if ($n ~ /^skipped/) skipped += $(n - 1)}}
       END {printf "%d passed, 0 failed, %d skipped\n", passed, skipped}' "$log"
}

run_suites build
cmake --preset fuzz --no-warn-unused-cli >build/fuzz-configure.log || { cat build/fuzz-configure.log; exit 1; }
cmake --build build/fuzz -j "${JOBS:-$(nproc)}" -- --quiet
run_suites build/fuzz
