# shellcheck shell=bash
# The release, and its namespace: as strict as Kubernetes can be told to be.

# What takes back, when the script ends, what steps have done to others than the release.
UNDO=()

k() { kubectl --namespace "$NAMESPACE" "$@"; }

# With $WORK, a folder for what is in between. From here on, what the script has made or changed is taken back when it
# ends.
make_namespace() {
  WORK="$(mktemp -d)"
  trap 'rm -rf "$WORK"' EXIT
  ! kubectl get namespace "$NAMESPACE" >/dev/null 2>&1 || fail "there is a namespace $NAMESPACE already"
  trap clean_up EXIT
  # Without these a signal would end the shell and skip the EXIT trap's work.
  trap 'exit 130' INT
  trap 'exit 143' TERM
  kubectl create --filename - >/dev/null <<MANIFEST
apiVersion: v1
kind: Namespace
metadata:
  name: $NAMESPACE
  labels: {pod-security.kubernetes.io/enforce: restricted}
---
# Every container has to say what it takes.
apiVersion: v1
kind: ResourceQuota
metadata: {name: quota, namespace: $NAMESPACE}
spec:
  hard: {requests.cpu: "16", limits.cpu: "64", requests.memory: 16Gi, limits.memory: 64Gi, pods: "32",
         requests.ephemeral-storage: 32Gi, limits.ephemeral-storage: 64Gi}
MANIFEST
  # Which Kubernetes makes in every namespace, a moment later.
  wait_for "the namespace's own objects" 30 k get configmap/kube-root-ca.crt serviceaccount/default
  everything >"$WORK/at_first"
}

# The names of what is in the namespace, but for what Kubernetes writes by itself.
everything() {
  k get "$(kubectl api-resources --verbs=list --namespaced --output name | grep -vE '^(events|endpoint|lease|controllerrev)' | paste -sd ,)" \
    --ignore-not-found --output name | grep -vE '^event' | sort
}

install_release() {
  release install --values "$ROOT/tests/kubernetes/e2e.d/values.yaml" --set image.repository="$REPOSITORY" \
    --set image.tag="$TAG" --set workers="$WORKERS" --set modules.image="$REPOSITORY/cli:$TAG"
}

# All values that are given once stay until they are given anew.
upgrade() { release upgrade --reuse-values "$@"; }

# release ACTION ARGUMENT...
release() {
  helm "$1" --namespace "$NAMESPACE" "$RELEASE" "$CHART" --wait --timeout 3m "${@:2}" >"$WORK/helm" 2>&1 ||
    fail "helm $1: $(cat "$WORK/helm")"
}

roll_back() {
  helm rollback --namespace "$NAMESPACE" "$RELEASE" --wait --timeout 3m >"$WORK/helm" 2>&1 ||
    fail "helm rollback: $(cat "$WORK/helm")"
}

helm_test() { helm test --namespace "$NAMESPACE" "$RELEASE" --timeout 2m >"$WORK/test" 2>&1 || fail "helm test: $(cat "$WORK/test")"; }

# is_whole [WORKERS]: as many pods as there are ranks, all of them ready.
is_whole() {
  local count="${1:-$WORKERS}"
  wait_for "$count ready pods" 120 has_ready_pods "$count"
}

has_ready_pods() {
  [[ "$(k get pods --selector lockstep.dev/pod=rank --output go-template='{{range .items}}{{if not .metadata.deletionTimestamp}}
    {{- range .status.conditions}}{{if and (eq .type "Ready") (eq .status "True")}}ready {{end}}{{end}}{{end}}{{end}}' |
    wc -w)" == "$1" ]]
}

no_pods() { [[ -z "$(k get pods --output name)" ]]; }

uid_of() { k get pod "$1" --output jsonpath='{.metadata.uid}' 2>/dev/null || true; }

now() { date +%s.%N; }
since() { awk -v begin="$1" -v end="$(now)" 'BEGIN { printf "%.1f", end - begin }'; }

skip() { echo "    skipped: $*"; }

# wait_for WHAT SECONDS COMMAND...
wait_for() {
  local what="$1" deadline=$((SECONDS + $2))
  shift 2
  until "$@" >/dev/null 2>&1; do
    [[ $SECONDS -lt $deadline ]] || fail "there is no $what"
    sleep 0.2
  done
}

fail() {
  {
    echo "tests/kubernetes: $*"
    k get pods --output wide
    k get events --sort-by=.lastTimestamp | tail -n 30
    for pod in $(k get pods --output name); do
      echo "--- $pod"
      k logs "$pod" --all-containers --prefix --tail 15
    done
  } >&2 2>&1 || true
  exit 1
}

clean_up() {
  local undo
  for undo in "${UNDO[@]}"; do "$undo" || echo "tests/kubernetes: could not $undo" >&2; done
  helm uninstall --namespace "$NAMESPACE" "$RELEASE" --ignore-not-found >/dev/null 2>&1 || true
  kubectl delete namespace "$NAMESPACE" --ignore-not-found --timeout=2m >/dev/null 2>&1 || true
  rm -rf "$WORK"
}
