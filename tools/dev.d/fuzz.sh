# shellcheck shell=bash
# tools/dev fuzz, and its part in tools/dev test: libFuzzer runs the harnesses of //tests/fuzz.

# A target, for tools/dev test.
# shellcheck disable=SC2034 # test.sh and ahead.sh read it
readonly FUZZ_SECONDS=20
# Of one input, in seconds that pass; and of the whole process, with what AddressSanitizer keeps of freed memory.
readonly FUZZ_INPUT_SECONDS=20
readonly FUZZ_LIMITS=(-max_len=65536 -rss_limit_mb=2560)
# At a time: each has threads of its own.
readonly FUZZ_JOBS=2
# How many times longer an input may take: ahead.sh runs targets in what time is left over.
FUZZ_SLOWNESS=1

cmd_fuzz() {
  local seconds=60
  local -a targets=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --seconds)
        [[ $# -ge 2 && "$2" =~ ^[0-9]+$ ]] || usage_error "fuzz: --seconds needs a number"
        seconds="$2"
        shift
        ;;
      -*) usage_error "fuzz: unknown option $1" ;;
      *) targets+=("$1") ;;
    esac
    shift
  done
  cmd_setup
  # What was found interesting is kept for the next time.
  fuzz_targets "$seconds" "$HOME/.cache/lockstep/fuzz/corpus" "${targets[@]}" || exit 1
}

# The names of all targets.
fuzz_names() { sed -n 's/^ *{"\([a-z_]*\)", .*/\1/p' tests/fuzz/targets.cc; }

# fuzz_targets SECONDS CORPUS [TARGET...]: builds the targets and runs each (without any: all) for so many seconds of
# processor time. What is new goes to CORPUS/TARGET. Every finding is kept, and said how to be repeated. FUZZ_PASSED and
# FUZZ_FAILED count the targets.
fuzz_targets() {
  local seconds="$1" corpus="$2" name
  shift 2
  local -a names=("$@")
  FUZZ_PASSED=0 FUZZ_FAILED=0
  [[ ${#names[@]} -gt 0 ]] || mapfile -t names < <(fuzz_names)
  [[ ${#names[@]} -gt 0 ]] || die "tests/fuzz/targets.cc names no target"
  for name in "${names[@]}"; do
    fuzz_names | grep -qxF -- "$name" ||
      usage_error "there is no target $name; there are: $(fuzz_names | paste -sd ' ')"
  done
  build_fuzz "$corpus" || {
    FUZZ_FAILED=${#names[@]}
    return 1
  }
  step "Fuzzing ${#names[@]} targets for $seconds s of processor time each" run_targets "$seconds" "${names[@]}" || true
  for name in "${names[@]}"; do
    if [[ -f "$FUZZ_OUTCOMES/$name.passed" ]]; then
      FUZZ_PASSED=$((FUZZ_PASSED + 1))
    else
      FUZZ_FAILED=$((FUZZ_FAILED + 1))
      tell_finding "$name"
    fi
  done
  [[ $FUZZ_FAILED -eq 0 ]]
}

# build_fuzz CORPUS: the program of all targets, for run_targets, here or ahead (ahead.sh).
build_fuzz() {
  [[ -z "${FUZZ_PROGRAM:-}" ]] || return 0
  step "Building the fuzz targets" sanitized_bazel build --config=asan //tests/fuzz:fuzz || return
  FUZZ_PROGRAM="$(sanitized_bazel info --config=asan bazel-bin 2>/dev/null)/tests/fuzz/fuzz"
  FUZZ_OUTCOMES="$LOGS/fuzz" FUZZ_CORPUS="$1"
  mkdir -p "$FUZZ_OUTCOMES"
  export FUZZ_PROGRAM FUZZ_OUTCOMES FUZZ_CORPUS
}

# run_targets SECONDS NAME...: some at a time; all take equally long. Those that have been run are left out.
run_targets() {
  local seconds="$1" name pid failed=0
  shift
  local -a pids=()
  for name in "$@"; do
    [[ ! -f "$FUZZ_OUTCOMES/$name.passed" ]] || continue
    run_target "$seconds" "$name" &
    pids+=($!)
    [[ ${#pids[@]} -eq $FUZZ_JOBS ]] || continue
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    pids=()
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return "$failed"
}

# run_target SECONDS NAME: of processor time, so that as much is tried on a busy machine as on an idle one. A target that
# has failed once is not run again, and stays failed.
run_target() {
  local seconds="$1" name="$2" status=0 pid
  local log="$FUZZ_OUTCOMES/$name.log"
  [[ ! -f "$FUZZ_OUTCOMES/$name.failed" ]] || return 1
  mkdir -p "$FUZZ_CORPUS/$name" "$(fuzz_findings)"
  LOCKSTEP_FUZZ_TARGET="$name" "$FUZZ_PROGRAM" "${FUZZ_LIMITS[@]}" "-timeout=$((FUZZ_INPUT_SECONDS * FUZZ_SLOWNESS))" \
    -print_final_stats=1 "-artifact_prefix=$(fuzz_findings)/$name-" \
    "$FUZZ_CORPUS/$name" "tests/fuzz/corpus/$name" >"$log" 2>&1 </dev/null &
  pid=$!
  end_after "$seconds" "$pid"
  wait "$pid" || status=$?
  case "$status" in
    0)
      # Else whether that is too long is found out where others do not take the processor.
      [[ "$(of_run "$log" slowest_unit_time_sec)" -ge "$FUZZ_INPUT_SECONDS" ]] || touch "$FUZZ_OUTCOMES/$name.passed"
      printf '%s: %s inputs\n' "$name" "$(of_run "$log" number_of_executed_units)"
      ;;
    72 | 143) return 1 ;; # ended by stop_ahead
    *)
      touch "$FUZZ_OUTCOMES/$name.failed"
      printf '%s: failed\n' "$name"
      return 1
      ;;
  esac
}

# of_run LOG STATISTIC
of_run() { sed -n "s/^stat::$2: *//p" "$1"; }

# end_after SECONDS PROCESS: asks libFuzzer to end when it has used so much processor time, and kills it where it does not
# come to that: it may wait for itself when it reports that memory has run out.
end_after() {
  local seconds="$1" pid="$2" used last=0 since=$SECONDS
  while used="$(processor_seconds "$pid")"; do
    [[ "$used" == "$last" ]] || since=$SECONDS
    last="$used"
    [[ "$used" -lt "$seconds" ]] || kill -USR1 "$pid" 2>/dev/null || true
    [[ $((SECONDS - since)) -lt 300 ]] || kill -KILL "$pid" 2>/dev/null || true
    sleep 0.5
  done
}

# Fails when the process has ended.
processor_seconds() {
  local stat
  local -a fields
  stat="$(cat "/proc/$1/stat" 2>/dev/null)" || return
  # Behind its name, which may have spaces: state, ..., utime and stime, in hundredths.
  read -ra fields <<<"${stat##*) }"
  [[ "${fields[0]}" != Z ]] || return
  printf '%d' $(((fields[11] + fields[12]) / 100))
}

# Where inputs are kept that were found to break something.
fuzz_findings() { printf '%s' "$HOME/.cache/lockstep/fuzz/findings"; }

tell_finding() {
  local name="$1" input
  local log="$FUZZ_OUTCOMES/$name.log"
  # shellcheck disable=SC2034 # common.sh reads it
  KEEP_LOGS=1
  failed "fuzz target $name" "$log"
  note "    FAILED  $name: $(grep -aE 'ERROR:|runtime error:|SUMMARY:' "$log" | head -n 1)"
  note "            its log: $log"
  input="$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
  [[ -n "$input" ]] || return 0
  note "            its input: $input"
  note "            again: LOCKSTEP_FUZZ_TARGET=$name $FUZZ_PROGRAM $input"
}
