#!/usr/bin/env bash
# Draws every figure of docs/gallery from the models: SmolLM2-135M and openwork-8m, each beside its sparse twin.
# Every command is the one its caption in docs/gallery/README.md gives. Names of figures may be given to draw only
# those; OPENWORK, SMOLLM2_SPARSE and SMALL_SPARSE name the program and the sparse models where they are elsewhere;
# COPY_CIRCUIT is the JSON of `circuit smollm2-135m smollm2-135m-sparse --task copy`, found before (it takes long on a CPU):
# the record of the shipped twin, unless another is named; COPY_CIRCUIT= finds it anew.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)   # paths that are given are of where this was typed
openwork=${OPENWORK:-$root/build/openwork}
large=smollm2-135m
large_sparse=${SMOLLM2_SPARSE:-smollm2-135m-sparse}
small=openwork-8m
small_sparse=${SMALL_SPARSE:-openwork-8m-sparse}
out=${OUT:-$root/docs/gallery}
copy=${COPY_CIRCUIT-$root/docs/results/smollm2-135m-sparse/copy-head.json}
mary="When Mary and John went to the store, John gave a drink to"
opposite="The opposite of 'large' is '"
text=$(head -c 330 "$root/tests/data/held_out.txt")  # one sentence and a half: 80 tokens or so
mkdir -p "$out"

# wanted NAME: whether this figure was asked for (all are where none is named).
names=("$@")
wanted() {
  [ "${#names[@]}" -eq 0 ] && return 0
  local name
  for name in "${names[@]}"; do [ "$name" = "$1" ] && return 0; done
  return 1
}

# figure NAME VERB ...: one figure as PNG, with what was drawn as JSON beside it in build/gallery.
figure() {
  local name=$1
  shift
  wanted "$name" || return 0
  echo "$name: openwork $*"
  mkdir -p "$root/build/gallery"
  "$openwork" "$@" --out "$out/$name.png" --dpi "${DPI:-110}" --json "$root/build/gallery/$name.json"
}

figure smollm2-text heads "$large" "$large_sparse" "$text" --preset sample
figure smollm2-sample heads "$large" "$large_sparse" "$mary" --preset sample
figure smollm2-copy heads "$large" "$large_sparse" --preset task --task copy ${copy:+--circuit "$copy"}
figure smollm2-prompt heads "$large" "$large_sparse" "$opposite" --preset prompt --order importance --top 24 --columns 6
figure smollm2-scatter scatter "$large" "$large_sparse" "$mary"
figure smollm2-trace trace "$large" "$large_sparse" "$opposite" --target small --from large --transcoder none --transcoder none
if wanted smollm2-features; then   # of graphs that were kept: nothing is computed
  graphs=$root/docs/results/smollm2-135m-sparse/graphs
  "$openwork" trace --from-graph "$graphs/opposite-base.json" --from-graph "$graphs/opposite-sparse.json" \
    --out "$out/smollm2-features.png" --dpi "${DPI:-110}"
fi
figure small-heads heads "$small" "$small_sparse" "$mary"
figure small-copy heads "$small" "$small_sparse" --preset task --task copy
figure small-prompt heads "$small" "$small_sparse" "$opposite" --preset prompt --order importance --top 12 --columns 4
figure small-scatter scatter "$small" "$small_sparse" "$mary" --heads L4H7,L5H6,L6H0,L6H3,L2H0
figure small-trace trace "$small" "$small_sparse" "$mary"
