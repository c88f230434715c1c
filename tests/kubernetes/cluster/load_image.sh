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

must_be_running
for archive in "$@"; do
  for node in "$RUN"/node*; do import_image "${node##*/}" "$archive"; done
done
