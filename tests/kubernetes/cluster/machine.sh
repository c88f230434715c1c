# shellcheck shell=bash
# shellcheck source=tests/kubernetes/cluster/env.sh
# Machines that are not there: namespaces of their own for network, processes, mounts and the host name, in which
# programs have the paths that they have on a real one. A machine goes whole when its first process ends, and
# takes with it what its programs have mounted, made and started.

# make_machine NAME: its folder $RUN/NAME holds run/ and var/, which it sees as /run and /var, and log/.
make_machine() {
  local name="$1" folder="$RUN/$1" namespace
  namespace="$(namespace_of "$name")"
  mkdir -p "$folder"/{run,var/lib,var/log,log,sysctl,etc}
  ip netns add "$namespace"
  nsenter --net="/run/netns/$namespace" setsid unshare --mount --propagation private --pid --fork --mount-proc \
    --uts -- "$HERE/first_process.sh" "$name" >"$folder/log/first_process" 2>&1 </dev/null &
  wait_for "first process of $name" "$folder/log/first_process" has_first_process "$name" $!
  in_machine "$name" ip link set lo up
}

# has_first_process NAME PARENT: notes its number, as it is called outside, once it is what it shall be.
has_first_process() {
  local pid
  pid="$(cat "/proc/$2/task/$2/children" 2>/dev/null)" || return 1
  pid="${pid// /}"
  [[ -n "$pid" && "$(readlink "/proc/$pid/exe")" == "$BIN/pause" ]] || return 1
  printf '%s\n' "$pid" >"$RUN/$1/pid"
}

# in_machine NAME COMMAND...
in_machine() {
  local pid
  pid="$(cat "$RUN/$1/pid")"
  shift
  nsenter --target "$pid" --net --mount --pid --uts -- "$@"
}

# start_daemon MACHINE NAME COMMAND...: its log is $RUN/MACHINE/log/NAME. It becomes a child of the first process.
start_daemon() {
  local machine="$1" log="$RUN/$1/log/$2"
  shift 2
  in_machine "$machine" setsid --fork "$@" >"$log" 2>&1 </dev/null
}

# wait_for WHAT LOG COMMAND...: if the command does not succeed in time, the end of the log says why.
wait_for() {
  local what="$1" log="$2" deadline=$((SECONDS + 60))
  shift 2
  until "$@" >/dev/null 2>&1; do
    if ((SECONDS > deadline)); then
      tail -n 20 "$log" | cut -c 1-400 >&2
      fail "no $what after a minute; above: the end of $log"
    fi
    sleep 0.1
  done
}
