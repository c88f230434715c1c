# shellcheck shell=bash
# shellcheck source=tests/kubernetes/cluster/env.sh
# Whether there can be a cluster on this machine.

# Ends the script with what is missing.
must_be_able() {
  local program
  must_be_root
  for program in containerd runc ctr ip iptables openssl /usr/lib/cni/bridge "$BIN/kube" "$BIN/pause"; do
    command -v "$program" >/dev/null || fail "$program is not there (tools/dev setup --kubernetes)"
  done
  # A machine has its own in their place.
  [[ "$STATE/" != @(/run|/var)/* ]] || fail "LOCKSTEP_KUBERNETES cannot be in /run or /var"
  [[ -n "$(cgroup_hierarchies)" ]] || fail "no control groups are mounted (/sys/fs/cgroup)"
  # In namespaces of its own, of which nothing stays.
  unshare --net --mount --pid --fork --uts -- bash -ec "$(declare -f try_kernel) && try_kernel" 2>/dev/null ||
    fail "this kernel, or the container that this is, lacks what nodes need: bridges, veth pairs, iptables' NAT," \
      "overlayfs, or the right to use them"
}

# What nodes, and containers on them, are made of.
try_kernel() {
  local folder
  folder="$(mktemp -d)"
  ip link add lockstep-try type bridge
  ip link add lockstep-one type veth peer name lockstep-two
  iptables --table nat --list --numeric >/dev/null
  # Two layers on a file system that can be below and above.
  mount -t tmpfs none "$folder"
  mkdir "$folder"/{lower,upper,work,both}
  mount -t overlay none -o "lowerdir=$folder/lower,upperdir=$folder/upper,workdir=$folder/work" "$folder/both"
  umount "$folder/both" "$folder"
  rmdir "$folder"
}
