# shellcheck shell=bash
# tools/dev fuzz, and its part in tools/dev test: libFuzzer runs the harnesses of //tests/fuzz.

# Of one input; and of the whole process, with what AddressSanitizer keeps of freed memory.
readonly FUZZ_LIMITS=(-max_len=65536 -timeout=20 -rss_limit_mb=2560)
# At a time: each has threads of its own.
readonly FUZZ_JOBS=2

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

# fuzz_targets SECONDS CORPUS [TARGET...]: runs each target (without any: all) for so long. What is new goes to
# CORPUS/TARGET. Every finding is kept, and said how to be repeated. FUZZ_PASSED and FUZZ_FAILED count the targets.
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
  step "Building the fuzz targets" sanitized_bazel build --config=asan //tests/fuzz:fuzz || {
    FUZZ_FAILED=${#names[@]}
    return 1
  }
  local bin
  bin="$(sanitized_bazel info --config=asan bazel-bin 2>/dev/null)/tests/fuzz/fuzz"
  local outcomes="$LOGS/fuzz"
  mkdir -p "$outcomes"
  step "Fuzzing ${#names[@]} targets for $seconds s each" \
    run_targets "$seconds" "$corpus" "$bin" "$outcomes" "${names[@]}" || true
  for name in "${names[@]}"; do
    if [[ -f "$outcomes/$name.passed" ]]; then
      FUZZ_PASSED=$((FUZZ_PASSED + 1))
    else
      FUZZ_FAILED=$((FUZZ_FAILED + 1))
      tell_finding "$name" "$bin" "$outcomes"
    fi
  done
  [[ $FUZZ_FAILED -eq 0 ]]
}

# run_targets SECONDS CORPUS BIN OUTCOMES NAME...: some at a time; all take equally long.
run_targets() {
  local seconds="$1" corpus="$2" bin="$3" outcomes="$4" name pid failed=0
  shift 4
  local -a pids=()
  for name in "$@"; do
    run_target "$seconds" "$corpus/$name" "$bin" "$outcomes" "$name" &
    pids+=($!)
    [[ ${#pids[@]} -eq $FUZZ_JOBS ]] || continue
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    pids=()
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return "$failed"
}

run_target() {
  local seconds="$1" corpus="$2" bin="$3" outcomes="$4" name="$5"
  mkdir -p "$corpus" "$(fuzz_findings)"
  # libFuzzer may wait for itself when it reports that memory has run out.
  if timeout --kill-after=5 $((seconds + 120)) \
    env "LOCKSTEP_FUZZ_TARGET=$name" "$bin" "-max_total_time=$seconds" "${FUZZ_LIMITS[@]}" -print_final_stats=1 \
    "-artifact_prefix=$(fuzz_findings)/$name-" "$corpus" "tests/fuzz/corpus/$name" \
    >"$outcomes/$name.log" 2>&1 </dev/null; then
    touch "$outcomes/$name.passed"
    printf '%s: %s\n' "$name" "$(grep -a '^Done ' "$outcomes/$name.log")"
  else
    printf '%s: failed\n' "$name"
    return 1
  fi
}

# Where inputs are kept that were found to break something.
fuzz_findings() { printf '%s' "$HOME/.cache/lockstep/fuzz/findings"; }

tell_finding() {
  local name="$1" bin="$2" log="$3/$1.log" input
  # shellcheck disable=SC2034 # common.sh reads it
  KEEP_LOGS=1
  failed "fuzz target $name" "$log"
  note "    FAILED  $name: $(grep -aE 'ERROR:|runtime error:|SUMMARY:' "$log" | head -n 1)"
  note "            its log: $log"
  input="$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
  [[ -n "$input" ]] || return 0
  note "            its input: $input"
  note "            again: LOCKSTEP_FUZZ_TARGET=$name $bin $input"
}
