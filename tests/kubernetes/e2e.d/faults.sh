# shellcheck shell=bash
# What happens to clusters.

loses_a_worker() { comes_back "$RELEASE-lockstep-worker-1" 60 --force --grace-period=0; }

restarts_its_head() { comes_back "$RELEASE-lockstep-head-0" 90 --wait=false; }

# comes_back POD SECONDS ARGUMENT...: that is deleted, with these arguments.
comes_back() {
  local pod="$1" before
  before="$(uid_of "$pod")"
  k delete pod "$pod" "${@:3}" >"$WORK/deleted" 2>&1 || fail "delete: $(cat "$WORK/deleted")"
  wait_for "another pod $pod" "$2" is_another "$pod" "$before"
  is_whole
  helm_test
}

is_another() {
  local uid
  uid="$(uid_of "$1")"
  [[ -n $uid && $uid != "$2" ]]
}

# One after another: the budget lets no second pod go while the first is not back.
is_drained() {
  local node
  node="$(k get pods --selector app.kubernetes.io/component=worker --output jsonpath='{.items[0].spec.nodeName}')"
  kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --pod-selector "app.kubernetes.io/instance=$RELEASE" \
    --timeout=2m >"$WORK/drain" 2>&1 || fail "drain: $(cat "$WORK/drain")"
  is_whole
  [[ -z "$(k get pods --field-selector "spec.nodeName=$node" --selector lockstep.dev/pod=rank --output name)" ]] ||
    fail "there are pods on $node yet"
  helm_test
  kubectl uncordon "$node" >/dev/null
}

# Its pod comes back with it; the ranks elsewhere have kept what they had.
loses_a_node() {
  [[ -n "${NODE_LINK:-}" ]] || { skip "no way to cut a node's link was given (NODE_LINK)" && return; }
  local node pod
  pod="$(k get pods --selector app.kubernetes.io/component=worker --output json |
    jq -r --arg head "$(k get pod "$RELEASE-lockstep-head-0" --output jsonpath='{.spec.nodeName}')" \
      '[.items[] | select(.spec.nodeName != $head)][0].metadata.name')"
  [[ $pod != null ]] || fail "all pods are on the head's node"
  node="$(k get pod "$pod" --output jsonpath='{.spec.nodeName}')"
  $NODE_LINK "$node" down
  wait_for "sign of the loss" 60 is_not_ready "$RELEASE-lockstep-head-0"
  $NODE_LINK "$node" up
  is_whole
  helm_test
}

is_not_ready() {
  [[ "$(k get pod "$1" --output jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" == False ]]
}
