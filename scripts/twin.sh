#!/usr/bin/env bash
# Trains a sparse twin, or the dense control it is held against, and measures it at once: held-out loss, what it can do, its
# circuits, and the heads behind one prompt. Control and twin may be trained at different times: give both the same DATA and
# steps. What is done is skipped, so the same command goes on where it was; a part that fails leaves its reason in OUT/measured.
#   scripts/twin.sh sparse  BASE OUT [options of sparsify ...]
#   scripts/twin.sh control BASE OUT [options of sparsify without gates ...]
#   DATA="a.txt.xz b.txt.xz" HELD_OUT=valid.txt.xz   texts (needed)        BLOCKS=128 CONTEXT=1024   held-out blocks
#   MEASURE="eval suite circuits trace"              what is measured      DEVICE=auto   SEEDS=3   PROMPTS=24
#   TASKS="copy ioi greater-than opposite docstring" LEVELS="head attention-edge graph-edge"
#   LIMIT=540   seconds, then a checkpoint is written and the script ends with 130; the same command goes on
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)   # paths that are given are of where this was typed
source "$root/scripts/parts.sh"
[ $# -ge 3 ] && [[ $1 == sparse || $1 == control ]] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
kind=$1 base=$2 out=$3
shift 3
read -r -a data <<<"${DATA:?DATA names the training texts}"
openwork=${OPENWORK:-$root/build/openwork} device=${DEVICE:-auto} blocks=${BLOCKS:-128}
measured=$out/measured
context=(${CONTEXT:+--context "$CONTEXT"})
mkdir -p "$measured"

if [ ! -s "$out/report.json" ]; then
  options=(--data "${data[@]}" --held-out "${HELD_OUT:?HELD_OUT names the held-out text}" --held-out-blocks "$blocks" "${context[@]}")
  [ "$kind" = sparse ] || options+=(--gate none)
  [ ! -d "$out/checkpoints" ] || options+=(--resume)
  code=0
  limited "$openwork" sparsify "$base" "${options[@]}" "$@" --device "$device" --out "$out" || code=$?
  [ "$code" -ne 124 ] || code=130
  [ "$code" -eq 0 ] || exit "$code"
fi

wants() { [[ " ${MEASURE-eval suite circuits trace} " == *" $1 "* ]]; }
if wants eval; then
  part "$measured/eval.json" "$openwork" eval "$base" "$out" --data "$HELD_OUT" --blocks "$blocks" "${context[@]}" --device "$device" \
    --json "$measured/eval.json"
fi
if wants suite; then
  part "$measured/suite.json" "$openwork" eval "$base" "$out" --suite --data "$HELD_OUT" --device "$device" \
    --json "$measured/suite.json" --out "$measured/suite.svg"
fi
if wants circuits; then
  read -r -a tasks <<<"${TASKS:-copy ioi greater-than opposite docstring}"
  LIMIT=$((${LIMIT:-1000000000} - SECONDS)) "$root/scripts/circuits.sh" - - "$out" "$measured" "${tasks[@]}"
fi
if wants trace; then
  part "$measured/trace.json" "$openwork" trace "$base" "$out" "The opposite of 'large' is '" --target small --from large \
    --transcoder none --transcoder none --device "$device" --json "$measured/trace.json"
fi
