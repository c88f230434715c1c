# shellcheck shell=bash
# What is tried on containers and on a Kubernetes waits for most of its time. One such series of steps may go on beside
# another one. It counts for itself, and what it says comes in one piece, when it is over.

BESIDE=""
readonly BESIDE_OUTPUT="$LOGS/beside" BESIDE_COUNTS="$LOGS/beside_counts"

# start_beside COMMAND...: in the background. What a step says there is seen when finish_beside has been called.
start_beside() {
  rm -f "$BESIDE_COUNTS"
  # A process group of its own, which can be ended with all that it has started.
  set -m
  (
    set +m
    # Only when the step that is under way has cleaned up.
    trap 'exit 143' TERM
    PASSED=0 FAILED=0 SKIPPED=0
    "$@"
    printf '%d %d %d\n' "$PASSED" "$FAILED" "$SKIPPED" >"$BESIDE_COUNTS"
  ) >"$BESIDE_OUTPUT" 2>&1 </dev/null &
  BESIDE=$!
  set +m
}

# finish_beside TITLE: waits for it, and adds what it has counted.
finish_beside() {
  local title="$1"
  step "$title" wait_for_beside || true
  cat "$BESIDE_OUTPUT"
  if [[ ! -f "$BESIDE_COUNTS" ]]; then
    # It said why, and where that is.
    # shellcheck disable=SC2034 # common.sh reads it
    KEEP_LOGS=1
    add_counts "0 1 0"
    failed "$title" "$BESIDE_OUTPUT"
    return
  fi
  # Each step of it that failed has its log, which is kept.
  # shellcheck disable=SC2034 # common.sh reads it
  [[ "$(cut -d ' ' -f 2 "$BESIDE_COUNTS")" -eq 0 ]] || KEEP_LOGS=1
  add_counts "$(cat "$BESIDE_COUNTS")"
}

wait_for_beside() {
  wait "$BESIDE" || true
  BESIDE=""
}

stop_beside() {
  [[ -n "$BESIDE" ]] || return 0
  kill -- "-$BESIDE" 2>/dev/null || true
  wait "$BESIDE" 2>/dev/null || true
  BESIDE=""
}
