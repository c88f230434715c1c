# shellcheck shell=bash
# What happens to clusters.

# The node that takes no pods for now, and the one whose link is cut.
CORDONED="" CUT_OFF=""
UNDO+=(uncordon plug_in)

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
  local node draining there most=0
  # The one that has most.
  node="$(nodes_of lockstep.dev/pod=rank | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')"
  CORDONED="$node"
  kubectl drain "$node" --ignore-daemonsets --delete-emptydir-data --pod-selector "app.kubernetes.io/instance=$RELEASE" \
    --timeout=3m >"$WORK/drain" 2>&1 &
  draining=$!
  while kill -0 "$draining" 2>/dev/null; do
    there="$(nodes_of lockstep.dev/pod=rank | wc -w)" || continue
    [[ $((WORKERS - there)) -le $most ]] || most=$((WORKERS - there))
    sleep 0.2
  done
  wait "$draining" || fail "drain: $(cat "$WORK/drain")"
  [[ $most -le 1 ]] || fail "$most pods were away at a time"
  is_whole
  [[ -z "$(k get pods --field-selector "spec.nodeName=$node" --selector lockstep.dev/pod=rank --output name)" ]] ||
    fail "there are pods on $node yet"
  helm_test
  uncordon
}

uncordon() {
  [[ -n $CORDONED ]] || return 0
  kubectl uncordon "$CORDONED" >/dev/null
  CORDONED=""
}

# Its pod comes back with it; the ranks elsewhere have kept what they had.
loses_a_node() {
  [[ -n "${NODE_LINK:-}" ]] || { skip "no way to cut a node's link was given (NODE_LINK)" && return; }
  local node
  node="$(nodes_of app.kubernetes.io/component=worker | grep -vx "$(k get pod "$RELEASE-lockstep-head-0" --output jsonpath='{.spec.nodeName}')" | head -n 1)"
  [[ -n $node ]] || fail "all pods are on the head's node"
  CUT_OFF="$node"
  $NODE_LINK "$node" down
  wait_for "sign of the loss" 60 is_not_ready "$RELEASE-lockstep-head-0"
  plug_in
  is_whole
  helm_test
}

plug_in() {
  [[ -n $CUT_OFF ]] || return 0
  $NODE_LINK "$CUT_OFF" up
  CUT_OFF=""
}

# nodes_of SELECTOR: the node of each of these pods that has not been told to go.
nodes_of() {
  k get pods --selector "$1" --output go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}
    {{- with .spec.nodeName}}{{.}}{{"\n"}}{{end}}{{end}}{{end}}'
}

is_not_ready() {
  [[ "$(k get pod "$1" --output jsonpath='{.status.conditions[?(@.type=="Ready")].status}')" == False ]]
}
