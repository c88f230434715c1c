#!/usr/bin/env bash
# Starts a cluster of Kubernetes on this machine, or says why it cannot.
#
# usage: up.sh NODES
#        up.sh --check      only says what is missing, and exits with 1 if anything is
#
# Needs root, `tools/dev setup --kubernetes`, and a kernel with bridges, overlayfs and iptables.
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=tests/kubernetes/cluster/able.sh
source "$HERE/able.sh"
# shellcheck source=tests/kubernetes/cluster/machine.sh
source "$HERE/machine.sh"
# shellcheck source=tests/kubernetes/cluster/cgroups.sh
source "$HERE/cgroups.sh"
# shellcheck source=tests/kubernetes/cluster/pki.sh
source "$HERE/pki.sh"
# shellcheck source=tests/kubernetes/cluster/control_plane.sh
source "$HERE/control_plane.sh"
# shellcheck source=tests/kubernetes/cluster/node.sh
source "$HERE/node.sh"

main() {
  local nodes="${1:?how many nodes}" number
  must_be_able
  [[ "$nodes" != --check ]] || exit 0
  [[ "$nodes" =~ ^[1-9]$ ]] || fail "there can be 1 to 9 nodes, not $nodes"
  ! is_running || fail "a cluster is running already; end it: $HERE/down.sh"
  mkdir "$RUN" 2>/dev/null || fail "something is left of a cluster; remove it: $HERE/down.sh"
  trap '"$HERE/down.sh"' EXIT
  # Without these a signal would end the shell and skip the EXIT trap's work.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  make_pki
  make_hub
  start_api_server
  # What needs none, while it starts.
  for ((number = 1; number <= nodes; ++number)); do make_node "$number"; done
  for ((number = 1; number <= nodes; ++number)); do give_images "node$number"; done
  start_controllers
  for ((number = 1; number <= nodes; ++number)); do join_node "$number"; done
  start_dns
  # In the name of some node: it asks for one's object, and then stays, even if that node goes.
  start_proxy "$HUB" node1
  for ((number = 1; number <= nodes; ++number)); do
    wait_for "node$number" "$RUN/node$number/log/kubelet" node_is_ready "node$number"
  done
  # Without it no pod is admitted.
  wait_for "service account" "$RUN/$HUB/log/controller-manager" kubectl get serviceaccount default
  trap - EXIT
  printf 'A cluster of %d nodes is up after %d s.\n' "$nodes" "$SECONDS"
}

give_images() {
  local archive
  wait_for "containerd on $1" "$RUN/$1/log/containerd" test -S "$RUN/$1/run/containerd/containerd.sock"
  for archive in "$ARCHIVES"/*.tar; do import_image "$1" "$archive"; done
}

node_is_ready() { kubectl wait --for=condition=Ready "node/$1" --timeout=2s; }

main "$@"
