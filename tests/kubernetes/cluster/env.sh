# shellcheck shell=bash
# shellcheck disable=SC2034 # what is named here is used by the scripts that read this
# Where the cluster's files are, and how its parts are called. Read by every other script.

HERE="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
KUBERNETES_VERSION=1.35.4

STATE="$(realpath --canonicalize-missing "${LOCKSTEP_KUBERNETES:-$HOME/.cache/lockstep/kubernetes}")"
BIN="$STATE/bin"         # kube and what goes with it; stays
ARCHIVES="$STATE/images" # images that every node gets; stays
RUN="$STATE/run"         # of the cluster that is running; goes with it

# Every namespace and control group begins with this.
CLUSTER=lockstep-kube
# Machines: the hub, where the control plane is, and node1, node2 ...
HUB=hub

HUB_IP=10.251.0.1
MACHINES_NET=10.251.0.0/24
PODS_NET=10.252.0.0/16
SERVICES_NET=10.253.0.0/24
API_SERVICE_IP=10.253.0.1 # Kubernetes takes the first one
DNS_SERVICE_IP=10.253.0.10
API_SERVER="https://$HUB_IP:6443"

PAUSE_IMAGE=docker.io/lockstep/pause:1

# Seconds of silence until a node counts as lost, and then until its pods are evicted.
NODE_GRACE_S="${LOCKSTEP_KUBERNETES_NODE_GRACE_S:-10}"
EVICTION_S="${LOCKSTEP_KUBERNETES_EVICTION_S:-5}"
# Seconds until pods see, in their files, that a Secret or a ConfigMap has changed.
SYNC_S="${LOCKSTEP_KUBERNETES_SYNC_S:-5}"

export KUBECONFIG="$RUN/pki/admin.conf"
# What kubectl and helm would leave at home goes with the cluster.
export KUBECACHEDIR="$RUN/clients" HELM_CACHE_HOME="$RUN/clients"
export HELM_CONFIG_HOME="$RUN/clients" HELM_DATA_HOME="$RUN/clients"

fail() {
  printf 'tests/kubernetes/cluster: %s\n' "$*" >&2
  exit 1
}

must_be_root() { [[ "$(id -u)" -eq 0 ]] || fail "a cluster needs root"; }

is_running() { [[ -e "/run/netns/$CLUSTER" ]]; }

must_be_running() { is_running || fail "there is no cluster; start one: $HERE/up.sh NODES"; }

# The network namespace of a machine. The hub's, which tests enter, has the shortest name.
namespace_of() { if [[ "$1" == "$HUB" ]]; then printf '%s' "$CLUSTER"; else printf '%s-%s' "$CLUSTER" "$1"; fi; }

node_ip() { printf '10.251.0.%d' $((10 + $1)); }

# Fixed by the node's number, so that no route has to wait until a node has registered.
node_pods_net() { printf '10.252.%d.0/24' "$1"; }

kubectl() { nsenter --net="/run/netns/$CLUSTER" "$BIN/kube" kubectl "$@"; }
