#!/usr/bin/env bash
# Installs the chart on the Kubernetes that $KUBECONFIG leads to, and does to it what happens to clusters. Says of each
# step what was seen, and how long it took.
#
# usage: e2e.sh [--repository PREFIX] [--tag TAG] [--other-tag TAG] [--prometheus IMAGE] [--only STEP]...
#
# It needs kubectl and helm, and nodes that have the images, or find them. --other-tag: the same images once more, to
# upgrade to. --prometheus: one of Prometheus 2 or 3, to watch it all. With $LOCKSTEP_BINARIES, Bazel's folder, a client
# outside of the cluster trains, too. With $NODE_LINK, a command that takes NODE and "down" or "up", a node's link is cut.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly CHART="$ROOT/charts/lockstep"
readonly NAMESPACE=lockstep-e2e
# A name that no other release has: pods of this release are evicted, wherever they are.
readonly RELEASE=end-to-end
readonly WORKERS=4
REPOSITORY=localhost/lockstep TAG="" OTHER_TAG="" PROMETHEUS="" ONLY=()

# shellcheck source=tests/kubernetes/e2e.d/release.sh
source "$ROOT/tests/kubernetes/e2e.d/release.sh"
# shellcheck source=tests/kubernetes/e2e.d/clients.sh
source "$ROOT/tests/kubernetes/e2e.d/clients.sh"
# shellcheck source=tests/kubernetes/e2e.d/faults.sh
source "$ROOT/tests/kubernetes/e2e.d/faults.sh"
# shellcheck source=tests/kubernetes/e2e.d/watcher.sh
source "$ROOT/tests/kubernetes/e2e.d/watcher.sh"

STEPS=(installs computes trains_inside trains_outside lets_others_in loses_a_worker is_watched scales changes_a_setting
  changes_its_image is_drained loses_a_node restarts_its_head changes_its_keys leaves_nothing)
readonly STEPS

main() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --repository) REPOSITORY="$2" && shift ;;
      --tag) TAG="$2" && shift ;;
      --other-tag) OTHER_TAG="$2" && shift ;;
      --prometheus) PROMETHEUS="$2" && shift ;;
      --only) ONLY+=("$2") && shift ;;
      *) sed -n 's/^# usage:/usage:/p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
    esac
    shift
  done
  make_namespace
  local step begin
  for step in "${STEPS[@]}"; do
    # Without a release there is nothing to do the others to.
    if [[ ${#ONLY[@]} -gt 0 && $step != installs && $step != leaves_nothing && " ${ONLY[*]} " != *" $step "* ]]; then
      continue
    fi
    begin="$(now)"
    "$step" || fail "$step"
    printf '%-20s %6s s\n' "$step" "$(since "$begin")"
  done
  echo "The chart is good."
}

installs() {
  install_release
  is_whole
}

computes() { helm_test; }

scales() {
  upgrade --set workers=6
  is_whole 6
  helm_test
  upgrade --set workers="$WORKERS"
  is_whole
}

# The workers start anew, and so does worker-0; then everything is as it was.
changes_a_setting() {
  local before
  before="$(uid_of "$RELEASE-lockstep-worker-0")"
  upgrade --set worker.config.log_level=debug
  is_whole
  [[ "$(uid_of "$RELEASE-lockstep-worker-0")" != "$before" ]] || fail "no worker has started anew"
  helm_test
  roll_back
  is_whole
  ! k get configmap "$RELEASE-lockstep" --output yaml | grep -q 'log_level' || fail "the setting is still there"
  # What only the pods of workers have is no reason to start the head anew.
  before="$(uid_of "$RELEASE-lockstep-head-0")"
  upgrade --set worker.podAnnotations.tried=yes
  is_whole
  [[ "$(uid_of "$RELEASE-lockstep-head-0")" == "$before" ]] || fail "the head has started anew"
}

changes_its_image() {
  [[ -n $OTHER_TAG ]] || { skip "no other tag was given" && return; }
  upgrade --set image.tag="$OTHER_TAG"
  is_whole
  [[ "$(k get pods --selector lockstep.dev/pod=rank --output jsonpath='{.items[*].spec.containers[*].image}') " != *":$TAG "* ]] ||
    fail "pods have the former image"
  helm_test
}

changes_its_keys() {
  save_client_keys "$WORK/before"
  upgrade --set keys.generation=2
  is_whole
  save_client_keys "$WORK/after"
  ! cmp -s "$WORK/before/client.key" "$WORK/after/client.key" || fail "the key is the one from before"
  helm_test
  # The keys from before are gone: a rollback keeps those that there are, and the cluster works with them.
  roll_back
  is_whole
  save_client_keys "$WORK/back"
  cmp -s "$WORK/after/client.key" "$WORK/back/client.key" || fail "a rollback has made other keys"
  helm_test
}

leaves_nothing() {
  helm uninstall --namespace "$NAMESPACE" "$RELEASE" --wait --timeout 2m >/dev/null
  wait_for "end of all pods" 90 no_pods
  local left
  left="$(everything | diff "$WORK/at_first" - || true)"
  [[ -z $left ]] || fail "left, or lost: $left"
}

main "$@"
