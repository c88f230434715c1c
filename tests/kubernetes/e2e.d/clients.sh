# shellcheck shell=bash
# Clients: a Job in the cluster, and a program outside of it.

readonly DIGITS=/usr/lib/lockstep/examples/digits/digits
FORWARDING=""
UNDO+=(stop_forwarding)

# The example's network, trained by a Job: the module comes from an image, too.
trains_inside() {
  upgrade --set program.enabled=true --set program.image="$REPOSITORY/cli:$TAG" --set-json "program.command=[\"/bin/sh\", \"-c\",
    \"$DIGITS --quiet --epochs 5 --connect \$LOCKSTEP_ENDPOINT --key \$LOCKSTEP_KEY --controller-key \$LOCKSTEP_CONTROLLER_KEY\"]"
  local job
  job="$(k get jobs --selector app.kubernetes.io/instance="$RELEASE" --output name)"
  wait_for "end of $job" 120 has_ended "$job"
  k logs "$job" >"$WORK/digits"
  grep -q 'held-out accuracy' "$WORK/digits" || fail "the Job has not trained: $(cat "$WORK/digits")"
  upgrade --set program.enabled=false
}

has_ended() { [[ "$(k get "$1" --output jsonpath='{.status.succeeded}{.status.failed}')" == 1 ]]; }

# The same from where kubectl runs, by a forwarded port.
trains_outside() {
  [[ -n "${LOCKSTEP_BINARIES:-}" ]] || { skip "no client was given (LOCKSTEP_BINARIES)" && return; }
  forward
  "$LOCKSTEP_BINARIES/tools/cli/lockstep" status --output json >"$WORK/status" || fail "lockstep status: $(cat "$WORK/status")"
  # Pods share no memory: what the ranks exchange goes through the network.
  grep -qE '"backend": ?"tcp"' "$WORK/status" || fail "no network backend: $(cat "$WORK/status")"
  "$LOCKSTEP_BINARIES/examples/digits/digits" --quiet --epochs 5 --connect "$LOCKSTEP_ENDPOINT" --key "$LOCKSTEP_KEY" \
    --controller-key "$LOCKSTEP_CONTROLLER_KEY" >"$WORK/digits" 2>&1 ||
    fail "the client outside fails: $(cat "$WORK/digits")"
  stop_forwarding
}

# A person with a key comes in, and then no more, while everything runs.
lets_others_in() {
  [[ -n "${LOCKSTEP_BINARIES:-}" ]] || { skip "no client was given (LOCKSTEP_BINARIES)" && return; }
  local before own
  before="$(uid_of "$RELEASE-lockstep-head-0")"
  "$LOCKSTEP_BINARIES/tools/cli/lockstep" keys new ada --out "$WORK/ada.key" >/dev/null
  own="$("$LOCKSTEP_BINARIES/tools/cli/lockstep" keys show "$WORK/ada.key")"
  forward
  ! answers_to "$WORK/ada.key" || fail "a key that was not allowed is let in"
  upgrade --set-json "keys.allowed=[{\"role\": \"client\", \"name\": \"ada\", \"key\": \"$own\"}]"
  wait_for "answer to the key that was allowed" 150 answers_to "$WORK/ada.key"
  upgrade --set-json "keys.allowed=[]"
  wait_for "refusal of the key that is allowed no more" 150 refuses "$WORK/ada.key"
  stop_forwarding
  [[ "$(uid_of "$RELEASE-lockstep-head-0")" == "$before" ]] || fail "the head has started anew"
}

answers_to() { LOCKSTEP_KEY="$1" "$LOCKSTEP_BINARIES/tools/cli/lockstep" status >/dev/null 2>&1; }
refuses() { ! answers_to "$1"; }

# What NOTES.txt says.
forward() {
  save_client_keys "$WORK/keys"
  export LOCKSTEP_ENDPOINT=tcp://127.0.0.1:7400 LOCKSTEP_KEY="$WORK/keys/client.key" \
    LOCKSTEP_CONTROLLER_KEY="$WORK/keys/controller.pub"
  kubectl --namespace "$NAMESPACE" port-forward "service/$RELEASE-lockstep-client" 7400 7404 >"$WORK/forward" 2>&1 &
  FORWARDING=$!
  wait_for "forwarded port" 20 grep -q 'from 127.0.0.1:7404' "$WORK/forward"
}

stop_forwarding() {
  [[ -n $FORWARDING ]] || return 0
  kill "$FORWARDING" 2>/dev/null || true
  wait "$FORWARDING" 2>/dev/null || true
  FORWARDING=""
}

# save_client_keys FOLDER
save_client_keys() {
  (umask 077 && mkdir -p "$1")
  local name
  for name in client.key controller.pub; do
    (umask 077 && k get secret "$RELEASE-lockstep-client" --output jsonpath="{.data['${name/./\\.}']}" | base64 -d >"$1/$name")
  done
}
