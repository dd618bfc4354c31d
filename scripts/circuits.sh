#!/usr/bin/env bash
# Circuits of a base model, its dense control and its sparse twin, as docs/results/circuits.md has them: heads (with spare
# heads dropped too), attention edges and graph edges, per task, at 50, 80, 90 and 95 % of the metric and over all thresholds,
# with all three ratios and intervals. JSON, figures and printed tables go into OUT, the Markdown tables to standard output and
# OUT/table.md. Interrupted runs go on where they were; a task that a model does not do leaves its one-line reason in
# OUT/TASK-LEVEL.log. Where there is no control, give - for it.
#   scripts/circuits.sh [BASE [CONTROL|- [SPARSE [OUT [TASK...]]]]]
#   DEVICE=cuda SEEDS=3 PROMPTS=24 LEVELS="head graph-edge" OPENWORK=build/openwork scripts/circuits.sh ...
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-smollm2-135m} control=${2:--} sparse=${3:-smollm2-135m-sparse} out=${4:-report/circuits}
models=("$base" "$control" "$sparse")
[ "$control" != - ] || models=("$base" "$sparse")
tasks=("${@:5}")
[ ${#tasks[@]} -gt 0 ] || tasks=(copy ioi greater-than opposite)
read -r -a levels <<<"${LEVELS:-head attention-edge graph-edge}"
mkdir -p "$out"
for task in "${tasks[@]}"; do
  for level in "${levels[@]}"; do
    file=$out/$task-$level
    [ -s "$file.json" ] && continue
    start=$SECONDS
    greedy=()
    [ "$level" != head ] || greedy=(--greedy)
    if "${OPENWORK:-build/openwork}" circuit "${models[@]}" --task "$task" --level "$level" "${greedy[@]}" \
      --seeds "${SEEDS:-3}" --prompts "${PROMPTS:-24}" --device "${DEVICE:-auto}" --json "$file.json" --out "$file.svg" \
      >"$file.txt" 2>"$file.log"; then
      echo "$task, $level: $((SECONDS - start)) s" >&2
    else
      code=$?
      echo "$task, $level: $(tail -n 1 "$file.log")" >&2
      [ "$code" -le 2 ] || exit "$code" # a signal ends it all; the same command continues
    fi
  done
done
python3 scripts/circuit_tables.py "$out" | tee "$out/table.md"
