# shellcheck shell=bash
# What a program on the cluster notices: //tools/bench:pulse, which writes a line whenever it begins to work, or stops.

PULSE=""
UNDO+=(stop_pulse)

# By the service's own address: a forwarded port would be one more thing to break.
start_pulse() {
  save_client_keys "$WORK/keys"
  "$LOCKSTEP_BINARIES/tools/bench/pulse" --key "$WORK/keys/client.key" --controller-key "$WORK/keys/controller.pub" \
    --connect "tcp://$(k get service "$RELEASE-lockstep-client" --output jsonpath='{.spec.clusterIP}'):7400" \
    >"$WORK/pulse" 2>"$WORK/pulse.errors" &
  PULSE=$!
  wait_for "pulse" 30 grep -q works "$WORK/pulse"
}

stop_pulse() {
  [[ -n $PULSE ]] || return 0
  # It may wait for an answer that never comes.
  kill -KILL "$PULSE" 2>/dev/null || true
  wait "$PULSE" 2>/dev/null || true
  PULSE=""
}

# await_pulse_after TIME: until it has failed since then, and works again.
await_pulse_after() { wait_for "pulse after a fault" 120 works_again_after "$1"; }

works_again_after() { awk -v begin="$1" '$1 > begin && $2 == "fails" { failed = 1 } { last = $2 } END { exit !(failed && last == "works") }' "$WORK/pulse"; }

# Seconds from TIME to the first failure after it.
pulse_failed_after() { awk -v begin="$1" '$1 > begin && $2 == "fails" { printf "%.2f", $1 - begin; exit }' "$WORK/pulse"; }

# The longest time that it stood still since TIME: it counts from its last success.
pulse_longest_since() { awk -v begin="$1" '$1 > begin && $2 == "works" && $4 > most { most = $4 } END { print most + 0 }' "$WORK/pulse"; }

# Seconds from TIME until it worked again, at the last.
pulse_works_since() { awk -v begin="$1" '$2 == "works" { at = $1 } END { printf "%.2f", at - begin }' "$WORK/pulse"; }
