#!/usr/bin/env bash
# Unplugs a node's cable, or plugs it in again.
#
# usage: link.sh NODE down|up
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

must_be_running
# The hub's end, at the bridge: addresses and routes stay.
nsenter --net="/run/netns/$CLUSTER" ip link set "${1:?which node}" "${2:?down or up}"
