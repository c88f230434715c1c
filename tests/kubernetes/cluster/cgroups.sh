# shellcheck shell=bash
# The control groups of the nodes' pods: the one thing that does not go with a machine's first process.

# Version 1 has a hierarchy for every resource, version 2 one for all; a machine can have both.
cgroup_hierarchies() { awk '$3 == "cgroup" || $3 == "cgroup2" { print $2 }' /proc/mounts; }

# make_cgroup NAME: in every hierarchy.
make_cgroup() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    mkdir "$hierarchy/$1"
    if grep -qsw cpuset "$hierarchy/cgroup.controllers"; then
      # The resources that a kubelet insists on.
      printf '+cpu +cpuset +memory +pids' >"$hierarchy/cgroup.subtree_control"
    elif [[ -e "$hierarchy/cpuset.cpus" ]]; then
      # Before both are set, this hierarchy takes no process.
      cat "$hierarchy/cpuset.cpus" >"$hierarchy/$1/cpuset.cpus"
      cat "$hierarchy/cpuset.mems" >"$hierarchy/$1/cpuset.mems"
    fi
  done
}

# The control groups that this cluster has left. Once what was in them is killed, they can be removed.
left_cgroups() {
  local hierarchy
  for hierarchy in $(cgroup_hierarchies); do
    find "$hierarchy" -mindepth 1 -depth -type d -path "$hierarchy/$CLUSTER-*"
  done
}
