#!/usr/bin/env bash
# A first look: the models that come with openwork, and the dense one beside its sparse twin on one page,
# report/index.html, with what was found printed here.
set -euo pipefail
cd "$(dirname "$0")/.."
show() { printf '\n$ openwork %s\n' "$(printf '%q ' "$@")"; build/openwork "$@"; }

# Held-out text: the corpus where it lies beside the project, else the small sample of the tests.
if [ -f ../shared/corpus/valid.txt.xz ]; then
  data=(--data ../shared/corpus/valid.txt.xz --context 512 --blocks 40)
else
  data=(--data tests/data/held_out.txt --context 128)
fi

show models
show inspect openwork-8m
show run openwork-8m "The city of Paris is the capital of" --top 5
show compare "${data[@]}" --out report
printf '\nopen report/index.html; figures and numbers lie beside it\n'
