#!/usr/bin/env bash
# Every fuzzer for its share of MINUTES, going on from what it found before, then what each did: executions, paths
# covered, findings. Ends with 1 where there is a finding.   scripts/fuzz.sh MINUTES
set -euo pipefail
cd "$(dirname "$0")/.."
minutes=${1:-10}
cmake --preset fuzz --no-warn-unused-cli >build/fuzz-configure.log || { cat build/fuzz-configure.log; exit 1; }
cmake --build build/fuzz -j "${JOBS:-$(nproc)}" -- --quiet
mapfile -t fuzzers < <(find build/fuzz/tests/fuzz -maxdepth 1 -name '*_fuzz' -type f | sort)
[ "${#fuzzers[@]}" -gt 0 ] || { echo "fuzz: no fuzzers were built"; exit 1; }
seconds=$((minutes * 60 / ${#fuzzers[@]}))
status=0
echo "| fuzzer | executions | paths covered | findings |"
echo "|---|---|---|---|"
for fuzzer in "${fuzzers[@]}"; do
  name=$(basename "$fuzzer" _fuzz)
  found=build/fuzz/tests/fuzz/found/$name
  log=build/fuzz/$name.log
  mkdir -p "$found"
  findings=0
  "$fuzzer" -rss_limit_mb=2048 -timeout=10 -max_total_time="$seconds" -artifact_prefix="$found-" -print_final_stats=1 \
    "$found" "tests/fuzz/corpus/$name" >"$log" 2>&1 || { findings=1; status=1; }
  executions=$(awk '/stat::number_of_executed_units/ {print $2}' "$log")
  covered=$(grep -o 'cov: [0-9]*' "$log" | tail -n 1 | cut -d ' ' -f 2)
  echo "| $name | ${executions:-0} | ${covered:-0} | $findings |"
  [ "$findings" = 0 ] || tail -n 20 "$log"
done
exit $status
