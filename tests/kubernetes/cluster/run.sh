#!/usr/bin/env bash
# Runs a command where it reaches the cluster: its API server, its nodes, its services and its pods.
#
# usage: run.sh COMMAND [ARGUMENT...]
#
# KUBECONFIG is set, and kubectl and helm are found. Everything but the network is this machine's.
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

must_be_running
export PATH="$BIN:$PATH"
exec nsenter --net="/run/netns/$CLUSTER" -- "${@:?what to run}"
