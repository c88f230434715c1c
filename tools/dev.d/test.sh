# shellcheck shell=bash
# tools/dev test: everything optimised; with --all every suite in every configuration, and whatever else can be checked.
# The last line counts the tests.

# Whether only tests with certain names were asked for, and which targets those are.
NAMED=0

# What measures is not what users run; what only reads and prints text, in one thread, has its integration tests. Fuzzing
# puts its inputs through sanitized programs of its own.
readonly NOT_SANITIZED=(-//tests/unit/tools/... -//tests/unit/examples/... -//tests/unit/services/config/...
  -//tests/fuzz/...)
# What one thread does, and programs whose parts are tested elsewhere.
readonly NOT_IN_TSAN=(-//tests/unit/runtime/module/... -//tests/unit/runtime/plan/... -//tests/unit/runtime/registers/...
  -//tests/integration/cli/... -//tests/integration/examples/...)

cmd_test() {
  local all=0 fast=0 gpu=0 cluster=0
  local -a names=() targets=(//...)
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --all) all=1 ;;
      --fast) fast=1 ;;
      --gpu) gpu=1 ;;
      --kubernetes) cluster=1 ;;
      -*) usage_error "test: unknown option $1" ;;
      *) names+=("$1") ;;
    esac
    shift
  done
  [[ $((all + fast + gpu)) -le 1 ]] || usage_error "test: --all, --fast and --gpu exclude one another"
  [[ $cluster == 0 || $all == 1 ]] || usage_error "test: --kubernetes needs --all"

  # What fake GPUs can test is tested everywhere; to compile for them needs a toolkit, not a GPU.
  cmd_setup --cuda --fragments
  [[ $cluster == 0 ]] || fetch_for_kubernetes
  if [[ ${#names[@]} -gt 0 ]]; then
    NAMED=1
    mapfile -t targets < <(matching_tests "${names[@]}")
    [[ ${#targets[@]} -gt 0 ]] || fail_and_report "no test's label contains: ${names[*]}"
  fi
  prune_disk_cache

  if [[ $gpu == 1 ]]; then
    # What needs a GPU, on this machine's: then nothing may be left out.
    run_suite "tests on a GPU" "" run_bazel --test_tag_filters=gpu --cache_test_results=no \
      --test_env=LOCKSTEP_GPU_REQUIRED=1 -- "${targets[@]}"
  elif [[ $fast == 1 ]]; then
    run_suite "tests" "" run_bazel --test_tag_filters=-slow -- "${targets[@]}"
  else
    local -a meanwhile=()
    if [[ $all == 1 && $NAMED == 0 ]]; then
      must_exist "${NOT_SANITIZED[@]}" "${NOT_IN_TSAN[@]}"
      meanwhile=(asan)
      [[ $cluster == 0 ]] || meanwhile+=(kubernetes)
    fi
    run_suite "tests" "${meanwhile[*]}" run_bazel -- "${targets[@]}"
  fi
  [[ $all == 0 ]] || test_in_depth "$cluster"
  [[ $all == 1 || $fast == 1 || $gpu == 1 || $NAMED == 1 ]] || chart_as_test
  report
}

# test_in_depth CLUSTER: what --all adds: the sanitizers of the tests that cmd_test has chosen; without NAMEs also
# what is more than tests. CLUSTER: 1 if what the chart is tried with is to be made.
test_in_depth() {
  local cluster="$1" during_asan="" during_tsan=""
  local -a tsan=(--config=tsan) not_sanitized=() not_in_tsan=()
  if [[ $NAMED == 0 ]]; then
    not_sanitized=("${NOT_SANITIZED[@]}") not_in_tsan=("${NOT_IN_TSAN[@]}")
    refresh_compdb || fail_and_report "compile_commands.json, which lint reads, could not be written"
    during_asan=tsan during_tsan=tidy
    if [[ $cluster == 1 ]]; then during_asan+=" kubernetes" during_tsan="kubernetes tidy"; fi
  fi
  run_suite "tests under ASan and UBSan" "$during_asan" sanitized_bazel --config=asan -- \
    "${targets[@]}" "${not_sanitized[@]}"
  # Before another configuration makes Bazel forget this one. What fuzzing finds new is not kept: the next run begins
  # with the same inputs.
  [[ $NAMED == 1 ]] || build_fuzz "$LOGS/fuzz-corpus" || true
  ! needs_fixed_addresses || tsan+=("--run_under=/usr/bin/setarch -R")
  run_suite "tests under TSan" "$during_tsan" sanitized_bazel "${tsan[@]}" -- \
    "${targets[@]}" "${not_sanitized[@]}" "${not_in_tsan[@]}"
  [[ $NAMED == 0 ]] || return 0
  [[ $cluster == 0 ]] || install_kubernetes
  local why_no_packages
  why_no_packages="$(lacks_root || lacks deployments debootstrap lintian)" || true
  # Images consist of packages, which are not to be made twice at once.
  [[ -n "$why_no_packages" ]] || make_packages || true
  # These wait: for nodes, packages, jobs, containers.
  start_ahead fuzz tidy
  start_beside kubernetes_as_tests
  script_as_test packaging/check.sh "$why_no_packages" make_and_check_packages
  script_as_test tests/slurm/run.sh "$(lacks_root || lacks deployments slurmctld slurmd munged)" check_slurm_example
  containers_as_tests
  finish_beside "Waiting for the chart and its Kubernetes"
  stop_ahead
  fuzz_as_tests
  lint_as_tests
}

# The chart, read, and tried on nodes.
kubernetes_as_tests() {
  chart_as_test
  script_as_test tests/kubernetes/e2e.sh \
    "$(lacks_root || lacks deployments dockerd debootstrap || lacks kubernetes helm || lacks_cluster)" \
    check_chart_on_cluster
}

# The texts of the chart.
chart_as_test() {
  script_as_test tests/kubernetes/chart.sh \
    "$(lacks kubernetes helm helm4 kubeconform kube-score helm-docs helm-unittest promtool jq)" check_chart
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

# run_suite NAME MEANWHILE BAZEL ARGUMENT...: builds and runs tests by run_bazel or sanitized_bazel, and adds what they
# counted to the totals. What cannot be built counts as failed, and the rest is run. MEANWHILE: the words of
# start_ahead.
run_suite() {
  local name="$1" bazel="$3" events="$LOGS/events.json" status=0 counts
  local -a meanwhile
  read -ra meanwhile <<<"$2"
  shift 3
  rm -f "$events"
  step "Building the $name" "$bazel" build --keep_going --build_tests_only "$@" || true
  start_ahead "${meanwhile[@]}"
  step "Running the $name" bazel_test "$bazel" --keep_going --build_event_json_file="$events" "$@" || status=$?
  stop_ahead
  counts="$(/usr/bin/python3 tools/dev.d/count_tests.py "$events" "$status" "$LOGS/test_times" "$name")" ||
    fail_and_report "the results of the $name could not be read"
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

# Every fuzz target for a moment, each counted as a test. Most have been run meanwhile (ahead.sh).
fuzz_as_tests() {
  fuzz_targets "$FUZZ_SECONDS" "$LOGS/fuzz-corpus" || true
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
  log="$LAST_LOG"
  [[ $status -eq 0 ]] || failed tests/compose/run.py "$log"
  grep -E '^ {4}(skipped|FAILED) ' "$log" || true
  [[ "$(tail -n 1 "$log")" =~ ^[0-9]+\ [0-9]+\ [0-9]+$ ]] ||
    fail_and_report "the results of tests/compose could not be read (exit status $status)"
  add_counts "$(tail -n 1 "$log")"
}

# lint's steps, each counted as a test.
lint_as_tests() {
  local check
  for check in "${LINT_CHECKS[@]}"; do
    count_step "$check" "$check"
  done
}
