# shellcheck shell=bash
# shellcheck source=tests/kubernetes/cluster/env.sh
# A node: a machine with a link to the hub, a containerd, a kubelet and a kube-proxy.

# make_node NUMBER: a node with its container engine and its images, of which the API server need not know yet.
make_node() {
  local name="node$1" etc="$RUN/node$1/etc"
  make_machine "$name"
  make_cgroup "$CLUSTER-$name"
  connect_to_hub "$1"
  write_network_config "$1"
  write_containerd_config "$etc"
  start_daemon "$name" containerd containerd --config "$etc/containerd.toml"
}

# The hub's end of the link has the node's name.
connect_to_hub() {
  local name="node$1"
  ip link add "$name" netns "$(namespace_of "$HUB")" type veth peer name eth0 netns "$(namespace_of "$name")"
  in_machine "$HUB" ip link set "$name" master nodes up
  in_machine "$HUB" ip route add "$(node_pods_net "$1")" via "$(node_ip "$1")"
  in_machine "$name" ip address add "$(node_ip "$1")/24" dev eth0
  in_machine "$name" ip link set eth0 up
  in_machine "$name" ip route add default via "$HUB_IP"
  in_machine "$name" sysctl --quiet --write net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
}

write_network_config() {
  mkdir "$RUN/node$1/etc/cni"
  cat >"$RUN/node$1/etc/cni/bridge.conflist" <<JSON
{"cniVersion": "1.0.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "pods", "isDefaultGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$(node_pods_net "$1")"}]]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
JSON
}

write_containerd_config() {
  cat >"$1/containerd.toml" <<TOML
version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper"]
[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "$PAUSE_IMAGE"
  disable_apparmor = true
  # Root in a container may lack the capability to protect a pod from being killed for memory.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "$1/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
TOML
}

# join_node NUMBER: the API server answers.
join_node() {
  local name="node$1"
  new_user "$name" "/O=system:nodes/CN=system:node:$name" "DNS:$name,IP:$(node_ip "$1")"
  write_kubelet_config "$name"
  start_daemon "$name" kubelet "$BIN/kube" kubelet --config "$RUN/$name/etc/kubelet.yaml" \
    --kubeconfig "$RUN/pki/$name.conf" --node-ip "$(node_ip "$1")"
  start_proxy "$name" "$name"
}

write_kubelet_config() {
  local etc="$RUN/$1/etc"
  : >"$etc/resolv.conf" # a pod that wants its node's names gets none
  cat >"$etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$CLUSTER-$1
failCgroupV1: false
failSwapOn: false
oomScoreAdj: 0
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $RUN/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $RUN/pki/$1.crt
tlsPrivateKeyFile: $RUN/pki/$1.key
clusterDomain: cluster.local
clusterDNS: [$DNS_SERVICE_IP]
resolvConf: $etc/resolv.conf
volumePluginDir: /var/lib/kubelet/plugins
# The disk is this machine's, and may be fuller than Kubernetes likes.
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
imageGCHighThresholdPercent: 100
# Of which every quarter has a sign of life.
nodeLeaseDurationSeconds: $NODE_GRACE_S
nodeStatusUpdateFrequency: 5s
# After which files of Secrets and ConfigMaps are looked at anew; otherwise after a minute to a minute and a half.
syncFrequency: ${SYNC_S}s
YAML
}

# import_image NODE ARCHIVE
import_image() {
  ctr --address "$RUN/$1/run/containerd/containerd.sock" --namespace k8s.io images import "$2" >/dev/null
}
