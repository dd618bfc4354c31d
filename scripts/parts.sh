# For scripts of many long parts, each a command with a file of its own: what is done is skipped, so that the same script goes
# on where it was. Sourced by circuits.sh and twin.sh.
#   LIMIT=540   seconds, then the command is interrupted, which every long verb survives, and the script ends with 130

# limited COMMAND...
limited() {
  local left=$((${LIMIT:-1000000000} - SECONDS))
  [ "$left" -gt 0 ] || exit 130
  timeout --foreground --signal INT "$left" "$@"
}

# part FILE COMMAND...: once; what it printed stays beside FILE. One that is refused or fails is passed over with its reason; a
# signal ends the script.
part() {
  local file=$1 start=$SECONDS code=0
  shift
  [ -s "$file" ] && return 0
  limited "$@" >"${file%.*}.txt" 2>"${file%.*}.log" || code=$?
  case $code in
    0) echo "$(basename "$file"): $((SECONDS - start)) s" >&2 ;;
    1 | 2) echo "$(basename "$file"): $(tail -n 1 "${file%.*}.log")" >&2 ;;
    124) exit 130 ;;
    *) exit "$code" ;;
  esac
}
