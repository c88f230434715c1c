# shellcheck shell=bash
# What tools/dev test has counted, over all suites, and the end of its output: where the time went, what failed,
# and the count.

# A lint step counts as one test, a build that fails as one failed test.
PASSED=0 FAILED=0 SKIPPED=0
# What failed, and the end of what it said. Thousands of lines may come after the place where it happened.
readonly FAILURES="$LOGS/failures"

# add_counts "PASSED FAILED SKIPPED"
add_counts() {
  local passed failed skipped
  read -r passed failed skipped <<<"$1"
  PASSED=$((PASSED + passed)) FAILED=$((FAILED + failed)) SKIPPED=$((SKIPPED + skipped))
}

# count_step NAME COMMAND...: a command whose last step() is one test.
count_step() {
  local name="$1"
  shift
  if "$@"; then
    PASSED=$((PASSED + 1))
  else
    FAILED=$((FAILED + 1))
    failed "$name" "$LAST_LOG"
  fi
}

# skip NAME REASON
skip() {
  note "    skipped $1: $2"
  SKIPPED=$((SKIPPED + 1))
}

# failed NAME LOG. In one write: series of steps go on beside each other.
failed() {
  local text
  text="$(printf '    FAILED  %s\n' "$1" && tail -n 40 "$2" | cut -c 1-400 | sed 's/^/            /')"
  printf '%s\n' "$text" >>"$FAILURES"
}

fail_and_report() {
  note "$*"
  FAILED=$((FAILED + 1))
  report
}

# Where the time went: the steps, longest first (some go on beside others, so they may add up to more), and the slowest
# tests of those that were run and not remembered.
# Short, so that who sees only the end of a long output sees all of it.
report_times() {
  local seconds what rest=0
  note "Where the $SECONDS s went:"
  while read -r seconds what; do
    if [[ $seconds -ge 10 ]]; then printf '%8d s  %s\n' "$seconds" "$what"; else rest=$((rest + seconds)); fi
  done < <(sort -rn "$LOGS/times")
  printf '%8d s  steps of less than 10 s each\n' "$rest"
  [[ -s "$LOGS/test_times" ]] || return 0
  note "The slowest tests:"
  sort -rn "$LOGS/test_times" | sed -n '1,10p' | while read -r seconds what; do
    printf '%8.1f s  %s\n' "$seconds" "$what"
  done
}

# Where the time went, what failed, the count line, last of all, and the exit status.
report() {
  report_times
  if [[ -s "$FAILURES" ]]; then
    note "What failed:"
    cat "$FAILURES"
  fi
  printf '%d passed, %d failed, %d skipped\n' "$PASSED" "$FAILED" "$SKIPPED"
  if [[ $FAILED -gt 0 ]]; then exit 1; else exit 0; fi
}
