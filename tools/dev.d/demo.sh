# shellcheck shell=bash
# tools/dev demo and bench: the built programs, run directly.

cmd_demo() {
  cmd_build
  local bin
  bin="$(binaries)"
  "$bin/tools/cli/lockstep" up --workers 4 --detach
  # Whatever happens to the training, the cluster goes down with this script.
  trap '"'"$bin"'/tools/cli/lockstep" down || true; cleanup' EXIT
  "$bin/examples/digits/digits" --connect
}

cmd_bench() {
  cmd_build
  "$(binaries)/tools/bench/bench" "$@"
}
