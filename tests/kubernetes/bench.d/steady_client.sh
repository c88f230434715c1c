# shellcheck shell=bash
# What a program on the cluster notices: //tools/bench:steady_client, which writes a line whenever it begins to work,
# or stops.

STEADY_CLIENT=""
UNDO+=(stop_steady_client)

# By the service's own address: a forwarded port would be one more thing to break.
start_steady_client() {
  save_client_keys "$WORK/keys"
  "$LOCKSTEP_BINARIES/tools/bench/steady_client" \
    --key "$WORK/keys/client.key" --controller-key "$WORK/keys/controller.pub" \
    --connect "tcp://$(k get service "$RELEASE-lockstep-client" --output jsonpath='{.spec.clusterIP}'):7400" \
    >"$WORK/steady_client" 2>"$WORK/steady_client.errors" &
  STEADY_CLIENT=$!
  wait_for "steady client" 30 grep -q works "$WORK/steady_client"
}

stop_steady_client() {
  [[ -n $STEADY_CLIENT ]] || return 0
  # It may wait for an answer that never comes.
  kill -KILL "$STEADY_CLIENT" 2>/dev/null || true
  wait "$STEADY_CLIENT" 2>/dev/null || true
  STEADY_CLIENT=""
}

# await_client_after TIME: until it has failed since then, and works again.
await_client_after() { wait_for "steady client after a fault" 120 works_again_after "$1"; }

works_again_after() { awk -v begin="$1" '$1 > begin && $2 == "fails" { failed = 1 } { last = $2 } END { exit !(failed && last == "works") }' "$WORK/steady_client"; }

# Seconds from TIME to the first failure after it.
client_failed_after() { awk -v begin="$1" '$1 > begin && $2 == "fails" { printf "%.2f", $1 - begin; exit }' "$WORK/steady_client"; }

# The longest time that it stood still since TIME: it counts from its last success.
client_longest_since() { awk -v begin="$1" '$1 > begin && $2 == "works" && $4 > most { most = $4 } END { print most + 0 }' "$WORK/steady_client"; }

# Seconds from TIME until it worked again, at the last.
client_works_since() { awk -v begin="$1" '$2 == "works" { at = $1 } END { printf "%.2f", at - begin }' "$WORK/steady_client"; }
