# shellcheck shell=bash
# tools/dev demo, bench and chaos: the built programs, run directly.

# A cluster of service processes, and a client that trains on it.
cmd_demo() {
  cmd_setup
  # What runs, and no tests: a newcomer waits for this.
  build_targets //services/... //tools/cli/... //examples/... || exit 1
  local bin lockstep endpoint cluster="demo-$$"
  bin="$(binaries)"
  lockstep="$bin/tools/cli/lockstep"
  # Whatever happens to the training, the cluster goes down with this script.
  # shellcheck disable=SC2064 # both are known now, and not in the trap
  trap "'$lockstep' down '$cluster' || true; cleanup" EXIT
  "$lockstep" up --name "$cluster" --workers 4 --module-path "$bin/examples/digits" --detach
  endpoint="$("$lockstep" status --name "$cluster" --output json |
    /usr/bin/python3 -c 'import json, sys; print(json.load(sys.stdin)["endpoint"])')"
  "$bin/examples/digits/digits" --connect "$endpoint"
}

cmd_bench() {
  cmd_setup
  if [[ "${1:-}" == --kubernetes ]]; then
    # Whose images, and what is a client outside.
    build_targets //services/... //tools/... //examples/... || exit 1
    tests/kubernetes/on_own_cluster.sh "$(binaries)" bench.sh "${@:2}"
    return
  fi
  build_targets //tools/bench || exit 1
  "$(binaries)/tools/bench/bench" "$@"
}

cmd_chaos() {
  cmd_setup
  build_targets //tests/chaos:chaos_test || exit 1
  "$(binaries)/tests/chaos/chaos_test" "$@"
}
