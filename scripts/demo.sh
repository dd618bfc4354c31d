#!/usr/bin/env bash
# A first look, on the model that comes with openwork: what it is, what it says, what it attends to, how well it
# predicts. Writes what was found to report/.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p report
show() { printf '\n$ openwork %s\n' "$(printf '%q ' "$@")"; build/openwork "$@"; }

show models
show inspect openwork-8m
show tokenize openwork-8m "The city of Paris is the capital of"
show run openwork-8m "The city of Paris is the capital of" --json report/run.json
show run openwork-8m "The river flows through the old town and" --generate 30
show run openwork-8m "When Mary and John went to the store, John gave a drink to" \
  --save report/pass.safetensors --what logits,attention,hidden --cache blocks.5.attn.hook_z
show inspect report/pass.safetensors --tensors
if [ -f ../shared/corpus/valid.txt.xz ]; then
  show eval openwork-8m --data ../shared/corpus/valid.txt.xz --context 512 --blocks 40 --json report/eval.json
else
  show eval openwork-8m --data tests/data/held_out.txt --context 128 --json report/eval.json
fi
printf '\nresults as JSON and tensors: report/\n'
