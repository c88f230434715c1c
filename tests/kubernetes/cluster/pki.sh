# shellcheck shell=bash
# shellcheck source=tests/kubernetes/cluster/env.sh
# Identities in the cluster: an authority, a certificate and a kubeconfig for each part. Made anew for each cluster.

# The authority, the key that signs the tokens of service accounts, and the control plane's certificates.
make_pki() {
  mkdir -m 700 "$RUN/pki"
  new_key "$RUN/pki/ca.key"
  openssl req -x509 -new -key "$RUN/pki/ca.key" -subj "/CN=$CLUSTER" -days 30 -out "$RUN/pki/ca.crt"
  new_key "$RUN/pki/service-accounts.key"
  openssl pkey -in "$RUN/pki/service-accounts.key" -pubout -out "$RUN/pki/service-accounts.pub"

  local service=kubernetes.default.svc
  new_certificate apiserver /CN=kube-apiserver \
    "DNS:kubernetes,DNS:kubernetes.default,DNS:$service,DNS:$service.cluster.local,IP:$HUB_IP,IP:$API_SERVICE_IP"
  new_certificate apiserver-to-kubelet /O=system:masters/CN=kube-apiserver
  new_user admin /O=system:masters/CN=admin
  new_user controller-manager /CN=system:kube-controller-manager
  new_user scheduler /CN=system:kube-scheduler
  new_user proxy /CN=system:kube-proxy
}

# new_key FILE
new_key() { openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1"; }

# new_certificate NAME SUBJECT [OTHER_NAMES]: $RUN/pki/NAME.crt, and its key beside it.
new_certificate() {
  local file="$RUN/pki/$1" subject="$2" names="${3:-}"
  new_key "$file.key"
  openssl req -new -key "$file.key" -subj "$subject" -out "$file.csr"
  printf 'extendedKeyUsage=clientAuth,serverAuth\n%s\n' "${names:+subjectAltName=$names}" >"$file.extensions"
  openssl x509 -req -in "$file.csr" -CA "$RUN/pki/ca.crt" -CAkey "$RUN/pki/ca.key" -CAcreateserial -days 30 \
    -extfile "$file.extensions" -out "$file.crt" 2>/dev/null
}

# new_user NAME SUBJECT [OTHER_NAMES]: a certificate, and $RUN/pki/NAME.conf, which tells where the API server is.
new_user() {
  new_certificate "$@"
  cat >"$RUN/pki/$1.conf" <<CONF
apiVersion: v1
kind: Config
clusters: [{name: $CLUSTER, cluster: {server: "$API_SERVER", certificate-authority: $RUN/pki/ca.crt}}]
users: [{name: $1, user: {client-certificate: $RUN/pki/$1.crt, client-key: $RUN/pki/$1.key}}]
contexts: [{name: $CLUSTER, context: {cluster: $CLUSTER, user: $1}}]
current-context: $CLUSTER
CONF
}
