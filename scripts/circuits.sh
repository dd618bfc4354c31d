#!/usr/bin/env bash
# Circuits of a dense model beside its sparse twin, as docs/results/circuits.md has them: heads and attention edges at 90 % of the
# metric, per task, with ratios and intervals; JSON and figures into OUT. Interrupted runs go on where they were.
#   scripts/circuits.sh [DENSE [SPARSE [OUT [TASK...]]]]     SEEDS=3 PROMPTS=24 scripts/circuits.sh ...
set -euo pipefail
dense=${1:-smollm2-135m} sparse=${2:-smollm2-135m-sparse} out=${3:-report/circuits}
tasks=("${@:4}")
[ ${#tasks[@]} -gt 0 ] || tasks=(copy ioi greater-than opposite)
mkdir -p "$out"
for task in "${tasks[@]}"; do
  for level in head attention-edge; do
    file=$out/$task-$level
    [ -s "$file.json" ] || build/openwork circuit "$dense" "$sparse" --task "$task" --level "$level" --seeds "${SEEDS:-3}" \
      --prompts "${PROMPTS:-24}" --json "$file.json" --out "$file.svg" >"$file.txt"
  done
done
python3 - "$out" "${tasks[@]}" <<'PYTHON'
import json, sys
out, tasks = sys.argv[1], sys.argv[2:]
print("| task | level | dense | sparse | times fewer | 95 % |\n|---|---|---|---|---|---|")
for task in tasks:
    for level in ("head", "attention-edge"):
        result = json.load(open(f"{out}/{task}-{level}.json"))
        key = "heads_at_threshold" if level == "head" else "edges_at_threshold"
        sizes = [", ".join(str(seed[key]) for seed in model["seeds"]) for model in result["models"]]
        ratio = result["comparison"][0]
        low, high = ratio["interval"]
        print(f"| {task} | {level} | {sizes[0]} | {sizes[1]} | {ratio['ratio']:.2f} | {low:.2f} to {high:.2f} |")
PYTHON
