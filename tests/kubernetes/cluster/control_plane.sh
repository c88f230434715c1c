# shellcheck shell=bash
# shellcheck source=tests/kubernetes/cluster/env.sh
# The hub: the bridge that the nodes hang on, the control plane, the cluster's DNS, and a kube-proxy, by which clients
# that are in no pod reach services.

make_hub() {
  make_machine "$HUB"
  in_machine "$HUB" ip link add nodes type bridge
  in_machine "$HUB" ip address add "$HUB_IP/24" dev nodes
  in_machine "$HUB" ip link set nodes up
  # A service's address is rewritten before the packet leaves, but only if there is a route for it.
  in_machine "$HUB" ip route add "$SERVICES_NET" dev nodes src "$HUB_IP"
  # What goes from node to node is the nodes' business; they need not hear that they could do without the hub.
  in_machine "$HUB" sysctl --quiet --write net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=0 \
    net.ipv4.conf.all.send_redirects=0 net.ipv4.conf.nodes.send_redirects=0
}

start_api_server() {
  local pki="$RUN/pki" here=127.0.0.1
  start_daemon "$HUB" etcd "$BIN/kube" etcd --data-dir /var/lib/etcd --unsafe-no-fsync \
    --listen-client-urls "http://$here:2379" --advertise-client-urls "http://$here:2379" \
    --listen-peer-urls "http://$here:2380"
  start_daemon "$HUB" apiserver "$BIN/kube" kube-apiserver --etcd-servers "http://$here:2379" \
    --bind-address "$HUB_IP" --advertise-address "$HUB_IP" --service-cluster-ip-range "$SERVICES_NET" \
    --client-ca-file "$pki/ca.crt" --tls-cert-file "$pki/apiserver.crt" --tls-private-key-file "$pki/apiserver.key" \
    --kubelet-certificate-authority "$pki/ca.crt" --kubelet-client-certificate "$pki/apiserver-to-kubelet.crt" \
    --kubelet-client-key "$pki/apiserver-to-kubelet.key" --kubelet-preferred-address-types InternalIP \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file "$pki/service-accounts.pub" \
    --service-account-signing-key-file "$pki/service-accounts.key" \
    --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction --allow-privileged \
    --default-not-ready-toleration-seconds "$EVICTION_S" --default-unreachable-toleration-seconds "$EVICTION_S"
}

# Where there is no API server yet, these would look again only after seconds.
start_controllers() {
  local pki="$RUN/pki"
  wait_for "API server" "$RUN/$HUB/log/apiserver" kubectl get --raw /readyz
  start_daemon "$HUB" controller-manager "$BIN/kube" kube-controller-manager --leader-elect=false \
    --kubeconfig "$pki/controller-manager.conf" --bind-address 127.0.0.1 --use-service-account-credentials \
    --service-account-private-key-file "$pki/service-accounts.key" --root-ca-file "$pki/ca.crt" \
    --node-monitor-grace-period "${NODE_GRACE_S}s" --node-monitor-period 1s \
    --flex-volume-plugin-dir /var/lib/kubelet/plugins
  start_daemon "$HUB" scheduler "$BIN/kube" kube-scheduler --leader-elect=false \
    --kubeconfig "$pki/scheduler.conf" --bind-address 127.0.0.1
}

start_dns() {
  cat >"$RUN/$HUB/etc/Corefile" <<CONF
.:53 {
  bind $HUB_IP
  errors
  cache 1
  kubernetes cluster.local in-addr.arpa {
    kubeconfig $RUN/pki/admin.conf
    # As short as it can be: tests make pods anew, and look them up.
    ttl 1
  }
}
CONF
  start_daemon "$HUB" coredns "$BIN/kube" coredns -conf "$RUN/$HUB/etc/Corefile"
  # A service without a selector: what is behind it is no pod.
  kubectl apply --filename - >/dev/null <<YAML
apiVersion: v1
kind: Service
metadata: {name: kube-dns, namespace: kube-system}
spec: {clusterIP: $DNS_SERVICE_IP, ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: kube-dns-hub, namespace: kube-system, labels: {kubernetes.io/service-name: kube-dns}}
addressType: IPv4
ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53}]
endpoints: [{addresses: [$HUB_IP]}]
YAML
}

# start_proxy MACHINE NODE: what rewrites packets for services to packets for pods.
start_proxy() {
  cat >"$RUN/$1/etc/proxy.yaml" <<YAML
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: $RUN/pki/proxy.conf}
mode: iptables
clusterCIDR: $PODS_NET
hostnameOverride: $2
# Its size is the whole kernel's.
conntrack: {maxPerCore: 0}
# The default needs a capability that not every container's root has.
oomScoreAdj: 0
YAML
  start_daemon "$1" proxy "$BIN/kube" kube-proxy --config "$RUN/$1/etc/proxy.yaml"
}
