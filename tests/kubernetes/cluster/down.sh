#!/usr/bin/env bash
# Ends the cluster, and whatever is left of one that did not come up. Nothing of it stays but binaries and images.
#
# usage: down.sh
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=tests/kubernetes/cluster/cgroups.sh
source "$HERE/cgroups.sh"

main() {
  must_be_root
  # Another one, with its files elsewhere, has the same names.
  [[ -d "$RUN" ]] || return 0
  local pid_file namespace
  for pid_file in "$RUN"/*/pid; do
    [[ ! -f "$pid_file" ]] || end_machine "$(cat "$pid_file")"
  done
  remove_cgroups
  for namespace in /run/netns/"$CLUSTER" /run/netns/"$CLUSTER"-*; do
    [[ ! -e "$namespace" ]] || ip netns delete "${namespace##*/}"
  done
  rm -rf "$RUN"
}

# Its processes and its mounts go with its first process. Nothing waits to be written: it is all removed.
end_machine() {
  local pid="$1"
  # The number may be another process's by now.
  [[ "$(readlink "/proc/$pid/exe")" == "$BIN/pause" ]] || return 0
  kill -KILL "$pid"
  while [[ -e "/proc/$pid" ]]; do sleep 0.05; done
}

# The kernel takes a moment to notice that they are empty.
remove_cgroups() {
  local tries=0
  until left_cgroups | xargs -r rmdir 2>/dev/null; do
    ((++tries < 100)) || fail "these control groups stay: $(left_cgroups)"
    sleep 0.1
  done
}

main
