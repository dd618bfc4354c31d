#!/usr/bin/env bash
# Circuits of a base model, its dense control and its sparse twin, as docs/results/circuits.md has them: heads (with spare
# heads dropped too), attention edges and graph edges, per task, at 50, 80, 90 and 95 % of the metric and over all thresholds,
# with all three ratios and intervals. JSON, figures and printed tables go into OUT, the Markdown tables to standard output and
# OUT/table.md. Interrupted runs go on where they were; a task that a model does not do leaves its one-line reason in
# OUT/TASK-LEVEL.log. Where there is no control, give - for it. Of SPARSE alone (- for both others) there are no figures and no
# tables of ratios.
#   scripts/circuits.sh [BASE|- [CONTROL|- [SPARSE [OUT [TASK...]]]]]
#   DEVICE=cuda SEEDS=3 PROMPTS=24 LEVELS="head graph-edge" OPENWORK=build/openwork scripts/circuits.sh ...
#   LIMIT=540   seconds, then it ends with 130; the same command goes on
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)   # paths that are given are of where this was typed
source "$root/scripts/parts.sh"
base=${1:-smollm2-135m} control=${2:--} sparse=${3:-smollm2-135m-sparse} out=${4:-$root/report/circuits}
models=()
for model in "$base" "$control" "$sparse"; do
  [ "$model" = - ] || models+=("$model")
done
tasks=("${@:5}")
[ ${#tasks[@]} -gt 0 ] || tasks=(copy ioi greater-than opposite)
read -r -a levels <<<"${LEVELS:-head attention-edge graph-edge}"
mkdir -p "$out"
for task in "${tasks[@]}"; do
  for level in "${levels[@]}"; do
    file=$out/$task-$level
    options=(--task "$task" --level "$level")
    [ "$level" != head ] || options+=(--greedy)
    options+=(--seeds "${SEEDS:-3}" --prompts "${PROMPTS:-24}" --device "${DEVICE:-auto}" --json "$file.json")
    [ ${#models[@]} -eq 1 ] || options+=(--out "$file.svg")
    part "$file.json" "${OPENWORK:-$root/build/openwork}" circuit "${models[@]}" "${options[@]}"
  done
done
[ ${#models[@]} -eq 1 ] || python3 "$root/scripts/circuit_tables.py" "$out" | tee "$out/table.md"
