#!/usr/bin/env bash
# Gives images to every node. A pod uses them with `imagePullPolicy: IfNotPresent` or `Never`.
#
# usage: load_image.sh ARCHIVE...
#
# ARCHIVE: what `docker save` or image.py writes.
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"
# shellcheck source=tests/kubernetes/cluster/node.sh
source "$HERE/node.sh"

# import_images NODE ARCHIVE...
import_images() {
  local archive
  for archive in "${@:2}"; do import_image "$1" "$archive" || return; done
}

must_be_running
imports=()
for node in "$RUN"/node*; do
  import_images "${node##*/}" "$@" &
  imports+=("$!")
done
for import in "${imports[@]}"; do wait "$import"; done
