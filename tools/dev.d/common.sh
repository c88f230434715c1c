# shellcheck shell=bash
# How tools/dev talks: one line per step with its seconds; the step's output only when it fails.

# Where the steps of this run write their logs; removed again unless one of them fails.
LOGS="$(mktemp -d "${TMPDIR:-/tmp}/lockstep-dev.XXXXXX")"
readonly LOGS
KEEP_LOGS=0
TICKER=""

cleanup() {
  [[ -z "$TICKER" ]] || kill "$TICKER" 2>/dev/null || true
  stop_ahead
  stop_beside
  [[ "$KEEP_LOGS" == 1 ]] || rm -rf "$LOGS"
}
trap cleanup EXIT
# Without these a signal would end the shell and skip the EXIT trap's work.
trap 'exit 130' INT
trap 'exit 143' TERM

note() { printf '%s\n' "$*"; }

die() {
  printf 'tools/dev: %s\n' "$*" >&2
  exit 1
}

usage_error() {
  printf 'tools/dev: %s\nTry: tools/dev help\n' "$*" >&2
  exit 2
}

# step TITLE COMMAND...: runs a command quietly. Prints "TITLE ... 12 s"; on failure also the end of
# its log, and returns its status. The log is LAST_LOG afterwards, and $LOGS/times has the seconds of every step.
step() {
  local title="$1" start=$SECONDS status=0
  shift
  local log
  log="$(mktemp "$LOGS/step.XXXXXX")"
  # shellcheck disable=SC2034 # tally.sh and test.sh read it
  LAST_LOG="$log"
  printf '%s ... ' "$title"
  start_ticker "$title"
  "$@" >"$log" 2>&1 </dev/null || status=$?
  stop_ticker "$title"
  printf '%d %s\n' $((SECONDS - start)) "$title" >>"$LOGS/times"
  if [[ $status -eq 0 ]]; then
    printf '%d s\n' $((SECONDS - start))
    return 0
  fi
  KEEP_LOGS=1
  printf 'failed after %d s\n' $((SECONDS - start))
  tail -n 200 "$log" | sed 's/^/    /'
  printf '    (exit status %d; the whole log: %s)\n' "$status" "$log"
  return "$status"
}

# On a terminal the seconds run while a step does; elsewhere (CI, a pipe) nothing is added.
start_ticker() {
  [[ -t 1 ]] || return 0
  local title="$1" start=$SECONDS
  while sleep 1; do printf '\r%s ... %d s' "$title" $((SECONDS - start)); done &
  TICKER=$!
}

stop_ticker() {
  [[ -n "$TICKER" ]] || return 0
  kill "$TICKER" 2>/dev/null || true
  wait "$TICKER" 2>/dev/null || true
  TICKER=""
  printf '\r%s ... ' "$1"
}

# Also in another user's checkout: to read it runs nothing from there.
git_here() { git -c "safe.directory=$ROOT" "$@"; }

# own_files NAME_PATTERN...: this repository's files with such names, NUL-separated: tracked or new in
# a git checkout; in an unpacked archive all that are there.
own_files() {
  local file pattern
  if git_here rev-parse --git-dir >/dev/null 2>&1; then
    git_here ls-files -z --cached --others --exclude-standard --deduplicate
  else
    find . -path ./build -prune -o -type f -printf '%P\0'
  fi | while IFS= read -r -d '' file; do
    for pattern in "$@"; do
      # A glob on purpose. A file can be listed and yet be deleted in the working tree.
      # shellcheck disable=SC2053
      if [[ "${file##*/}" == $pattern && -f "$file" ]]; then printf '%s\0' "$file"; fi
    done
  done
}
