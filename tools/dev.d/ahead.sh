# shellcheck shell=bash
# Tests wait for most of their time. Meanwhile `tools/dev test --all` makes what its later steps will need, with
# whatever processor time is left over: by itself, and only then, in the lowest priority, because tests have deadlines.
# Nothing depends on it: each step does its work as if nobody had begun it, and finds what is done in a cache.

AHEAD=""

# start_ahead WORK...: in the background, one after the other. WORK: asan or tsan (what their tests are built of),
# kubernetes (what the chart is tried with), fuzz (its targets, once build_fuzz has been called), tidy (what clang-tidy
# says of all sources).
start_ahead() {
  [[ $# -gt 0 ]] || return 0
  LOCKSTEP_AHEAD="$(run_bazel info output_base 2>/dev/null)-ahead"
  export LOCKSTEP_AHEAD
  # A session of its own: the kernel deals out time to sessions first, and to the processes of each then
  # (sched_autogroup).
  setsid nice -n 19 "$ROOT/tools/dev" ahead "$@" >"$LOGS/ahead" 2>&1 </dev/null &
  AHEAD=$!
}

stop_ahead() {
  [[ -n "$AHEAD" ]] || return 0
  kill -- "-$AHEAD" 2>/dev/null || true
  wait "$AHEAD" 2>/dev/null || true
  AHEAD=""
}

# What start_ahead runs.
cmd_ahead() {
  local work
  { echo 19 >/proc/self/autogroup; } 2>/dev/null || true
  for work in "$@"; do ("ahead_$work") || true; done
}

ahead_asan() { build_ahead --config=asan "${NOT_SANITIZED[@]}"; }
ahead_tsan() { build_ahead --config=tsan "${NOT_SANITIZED[@]}" "${NOT_IN_TSAN[@]}"; }
ahead_kubernetes() { make_kubernetes; }
ahead_tidy() { check_tidy; }

ahead_fuzz() {
  [[ -n "${FUZZ_PROGRAM:-}" ]] || return 0
  local -a names
  mapfile -t names < <(fuzz_names)
  FUZZ_SLOWNESS=10 run_targets "$FUZZ_SECONDS" "${names[@]}"
}

# build_ahead CONFIG EXCLUDED...: into the disk cache. Without a server, which would outlive this, and in an output base
# of its own, because the tests hold theirs.
build_ahead() {
  local config="$1"
  shift
  env -u JAVA_HOME bazel --batch --output_base="$LOCKSTEP_AHEAD" build "$config" --keep_going --build_tests_only -- \
    //... "$@"
}
