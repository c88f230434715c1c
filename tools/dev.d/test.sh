# shellcheck shell=bash
# tools/dev test: every suite in every configuration; the last line counts the tests.

# Whether only tests with certain names were asked for.
NAMED=0

cmd_test() {
  local fast=0 lint=0 gpu=0
  local -a names=() targets=(//...) tsan=(--config=tsan) not_sanitized=() not_in_tsan=()
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --fast) fast=1 ;;
      --lint) lint=1 ;;
      --gpu) gpu=1 ;;
      -*) usage_error "test: unknown option $1" ;;
      *) names+=("$1") ;;
    esac
    shift
  done

  cmd_setup
  if [[ ${#names[@]} -gt 0 ]]; then
    NAMED=1
    mapfile -t targets < <(matching_tests "${names[@]}")
    [[ ${#targets[@]} -gt 0 ]] || fail_and_report "no test's label contains: ${names[*]}"
  else
    # Building for a sanitizer takes longer than running. What measures is not what users run; what
    # only reads and prints text, in one thread, has its integration tests. Fuzzing puts its inputs
    # through sanitized programs of its own.
    not_sanitized=(-//tests/unit/tools/... -//tests/unit/examples/... -//tests/unit/services/config/...
      -//tests/fuzz/...)
    # What a worker's one executing thread does, and programs whose parts are tested elsewhere.
    not_in_tsan=(-//tests/unit/runtime/module/... -//tests/unit/runtime/registers/...
      -//tests/integration/cli/... -//tests/integration/examples/...)
    mapfile -t -O "${#not_in_tsan[@]}" not_in_tsan < <(sed -n 's|^//|-//|p' tools/dev.d/one_thread.txt)
    must_exist "${not_sanitized[@]}" "${not_in_tsan[@]}"
  fi
  build_targets "${targets[@]}" || fail_and_report "the build failed"

  if [[ $gpu == 1 ]]; then
    # What needs a GPU, on this machine's: then nothing may be left out.
    run_suite "Tests on a GPU" run_bazel --test_tag_filters=gpu --cache_test_results=no \
      --test_env=LOCKSTEP_GPU_REQUIRED=1 -- "${targets[@]}"
    report
  fi
  if [[ $fast == 1 ]]; then
    run_suite "Tests" run_bazel --test_tag_filters=-slow -- "${targets[@]}"
  else
    run_suite "Tests" run_bazel -- "${targets[@]}"
    run_suite "Tests under ASan and UBSan" sanitized_bazel --config=asan -- "${targets[@]}" "${not_sanitized[@]}"
    ! needs_fixed_addresses || tsan+=("--run_under=/usr/bin/setarch -R")
    run_suite "Tests under TSan" sanitized_bazel "${tsan[@]}" -- \
      "${targets[@]}" "${not_sanitized[@]}" "${not_in_tsan[@]}"
    if [[ $NAMED == 0 ]]; then
      fuzz_as_tests
      script_as_test packaging/check.sh "$(lacks_root || lacks deployments debootstrap lintian)" \
        make_and_check_packages
      script_as_test tests/slurm/run.sh "$(lacks_root || lacks deployments slurmctld slurmd munged)" \
        check_slurm_example
      containers_as_tests
      script_as_test tests/kubernetes/chart.sh \
        "$(lacks kubernetes helm helm4 kubeconform kube-score helm-docs helm-unittest promtool jq)" check_chart
      script_as_test tests/kubernetes/e2e.sh \
        "$(lacks_root || lacks deployments dockerd debootstrap || lacks kubernetes helm || lacks_cluster)" \
        check_chart_on_cluster
    fi
  fi
  [[ $lint == 0 ]] || lint_as_tests
  report
}

# The labels of all tests that contain one of the names.
matching_tests() {
  local name
  for name in "$@"; do
    run_bazel query --noshow_progress "filter('$name', tests(//...))" 2>"$LOGS/query" ||
      cat "$LOGS/query" >&2
  done | LC_ALL=C sort -u
}

# must_exist -PATTERN...: says at once, not when its suite is over, that a test was moved and is left
# out under its old name.
must_exist() {
  run_bazel query --noshow_progress "set(${*#-})" >/dev/null 2>"$LOGS/query" && return
  cat "$LOGS/query" >&2
  fail_and_report "what the sanitizers leave out names tests that are not there"
}

# run_suite TITLE BAZEL ARGUMENT...: runs tests by run_bazel or sanitized_bazel, and adds what they counted
# to the totals.
run_suite() {
  local title="$1" bazel="$2" events="$LOGS/events.json" status=0 counts
  shift 2
  rm -f "$events"
  step "$title" bazel_test "$bazel" --keep_going --build_event_json_file="$events" "$@" || status=$?
  counts="$(/usr/bin/python3 tools/dev.d/count_tests.py "$events" "$status")" ||
    fail_and_report "the results of '$title' could not be read"
  # What failed, then what was skipped; the last line is three numbers.
  sed '$d' <<<"$counts"
  sed -e '/^    skipped /,$d' -e '$d' <<<"$counts" >>"$FAILURES"
  add_counts "$(tail -n 1 <<<"$counts")"
}

# With NAMEs, a configuration's filters may leave none of the tests over (Bazel's exit status 4).
# Without NAMEs that is an error: then nothing at all was tested.
bazel_test() {
  local bazel="$1" status=0
  shift
  "$bazel" test "$@" || status=$?
  [[ $status -eq 4 && $NAMED == 1 ]] || return "$status"
}

# ThreadSanitizer's runtime cannot place its shadow memory where the kernel randomises addresses by
# more than 28 bits (Ubuntu 24.04's default): there, tests run without randomisation.
needs_fixed_addresses() {
  local bits
  bits="$(cat /proc/sys/vm/mmap_rnd_bits 2>/dev/null || printf 28)"
  [[ "$bits" -gt 28 ]]
}

# Every fuzz target for a moment, each counted as a test. What it finds new is not kept: the next run
# begins with the same inputs.
fuzz_as_tests() {
  fuzz_targets 20 "$LOGS/fuzz-corpus" || true
  PASSED=$((PASSED + FUZZ_PASSED)) FAILED=$((FAILED + FUZZ_FAILED))
}

# script_as_test NAME REASON COMMAND: a script that needs more than the build does, counted as one test. REASON: why it
# cannot be run here; nothing if it can.
script_as_test() {
  if [[ -n "$2" ]]; then skip "$1" "$2"; else count_step "$1" "$3"; fi
}

# These print a reason why a script cannot be run here; they fail if there is none.
lacks_root() { [[ "$(id -u)" -ne 0 ]] && printf 'it needs root'; }

# lacks OPTION PROGRAM...: any of the programs that `tools/dev setup --OPTION` brings.
lacks() {
  local option="$1" program
  shift
  for program in "$@"; do
    PATH="$KUBERNETES/bin:$PATH" command -v "$program" >/dev/null && continue
    printf '%s is not installed (tools/dev setup --%s)' "$program" "$option"
    return
  done
  return 1
}

lacks_cluster() {
  local reason
  ! reason="$(tests/kubernetes/cluster/up.sh --check 2>&1)" && printf '%s' "$reason"
}

make_and_check_packages() { make_packages && check_packages; }

check_slurm_example() { step "Running the example for Slurm" tests/slurm/run.sh "$(binaries)"; }

check_chart() { step "Reading the chart" tests/kubernetes/chart.sh; }

check_chart_on_cluster() {
  step "Trying the chart on a Kubernetes of three nodes" tests/kubernetes/on_own_cluster.sh "$(binaries)" e2e.sh
}

# The images and the compose file, on an engine that the tests start.
containers_as_tests() {
  local log status=0
  step "Tests of images and docker compose" env PYTHONDONTWRITEBYTECODE=1 \
    /usr/bin/python3 tests/compose/run.py "$(binaries)" || status=$?
  log="$(readlink "$LOGS/last")"
  [[ $status -eq 0 ]] || failed tests/compose/run.py "$log"
  grep -E '^ {4}(skipped|FAILED) ' "$log" || true
  [[ "$(tail -n 1 "$log")" =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]] ||
    fail_and_report "the results of tests/compose could not be read (exit status $status)"
  add_counts "$(tail -n 1 "$log")"
}

# lint's steps, each counted as a test.
lint_as_tests() {
  local check
  refresh_compdb || fail_and_report "compile_commands.json, which lint reads, could not be written"
  for check in "${LINT_CHECKS[@]}"; do
    count_step "$check" "$check"
  done
}
