#!/usr/bin/env bash
# The first process of a machine, started by machine.sh in the machine's namespaces: mounts what is the machine's
# own, and waits.
#
# usage: first_process.sh MACHINE
set -euo pipefail

# shellcheck source=tests/kubernetes/cluster/env.sh
source "$(dirname "${BASH_SOURCE[0]}")/env.sh"

# What a kubelet sets for the whole of a machine, and there is but one kernel here. It finds them set as it wants
# them, in files, and leaves the kernel's alone.
SYSCTLS=(vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1
  kernel/keys/root_maxkeys=1000000 kernel/keys/root_maxbytes=25000000)
readonly SYSCTLS

main() {
  local folder="$RUN/$1" setting file
  hostname "$1"
  for setting in "${SYSCTLS[@]}"; do
    file="$folder/sysctl/$(basename "${setting%=*}")"
    printf '%s\n' "${setting#*=}" >"$file"
    mount --bind "$file" "/proc/sys/${setting%=*}"
  done
  ln -s /run "$folder/var/run"
  mount --bind "$folder/run" /run
  mount --bind "$folder/var" /var
  exec "$BIN/pause"
}

main "$@"
