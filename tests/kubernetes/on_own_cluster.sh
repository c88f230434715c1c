#!/usr/bin/env bash
# Runs e2e.sh or bench.sh on a cluster that it starts, with images of this checkout, and ends it.
#
# usage: on_own_cluster.sh BINARIES e2e.sh|bench.sh [ARGUMENT...]
#
# BINARIES: Bazel's folder of the optimised build, whose programs are clients outside. ARGUMENT: for the script. Needs
# root, `tools/dev setup --kubernetes --deployments`, and what cluster/up.sh --check asks for.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly CLUSTER="$ROOT/tests/kubernetes/cluster"
readonly NODES=3

main() {
  local version script="${2:?e2e.sh or bench.sh}"
  LOCKSTEP_BINARIES="$(realpath "${1:?BINARIES}")"
  export LOCKSTEP_BINARIES
  FOLDER="$(mktemp -d)"
  trap 'rm -rf "$FOLDER"' EXIT
  # Without these a signal would end the shell and skip the EXIT trap's work.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  version="$(PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$ROOT/tests/compose/save_images.py" "$FOLDER")"
  "$CLUSTER/up.sh" "$NODES"
  trap '"$CLUSTER/down.sh"; rm -rf "$FOLDER"' EXIT
  "$CLUSTER/load_image.sh" "$FOLDER"/*.tar
  local -a arguments=(--tag "$version")
  [[ "$script" != e2e.sh ]] || arguments+=(--other-tag "$version-again" --prometheus localhost/lockstep-test/prometheus)
  NODE_LINK="$CLUSTER/link.sh" "$CLUSTER/run.sh" "$ROOT/tests/kubernetes/$script" "${arguments[@]}" "${@:3}"
}

main "$@"
