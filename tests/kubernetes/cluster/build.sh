#!/usr/bin/env bash
# Builds what the cluster runs: kube, which is all of Kubernetes (ten minutes of two cores, once), and pause.
#
# usage: build.sh [--check]
#
# --check: only tells, by the exit status, whether all of it is there. Needs Go 1.25 or newer, and a C compiler.
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

main() {
  case "${1:-}" in
    --check) has_pause && has_kube && [[ -e "$BIN/kubectl" ]] ;;
    "")
      mkdir -p "$BIN" "$ARCHIVES"
      has_pause || build_pause
      has_kube || build_kube
      # A name for the part that people call.
      ln -sfn kube "$BIN/kubectl"
      ;;
    *) fail "build.sh: unknown argument: $1" ;;
  esac
}

has_pause() { [[ -x "$BIN/pause" && -f "$ARCHIVES/pause.tar" ]]; }

build_pause() {
  "${CC:-cc}" -Os -static -s -o "$BIN/pause" "$HERE/pause.c"
  python3 "$HERE/image.py" "$ARCHIVES/pause.tar" "$PAUSE_IMAGE" "$BIN/pause"
}

has_kube() {
  [[ "$("$BIN/kube" kubectl version --client 2>/dev/null)" == *"Client Version: v$KUBERNETES_VERSION"* ]]
}

build_kube() {
  local stamp=k8s.io/component-base/version major minor
  IFS=. read -r major minor _ <<<"$KUBERNETES_VERSION"
  cd "$HERE/kube"
  # Without the stamps it would call itself v0.0.0, which kubelets and charts refuse.
  CGO_ENABLED=0 nice go build -mod=readonly -trimpath -buildvcs=false -o "$BIN/kube.new" -ldflags \
    "-s -w -X $stamp.gitVersion=v$KUBERNETES_VERSION -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" .
  mv "$BIN/kube.new" "$BIN/kube"
}

main "$@"
