# shellcheck shell=bash
# Monitoring: a real Prometheus in the cluster, with the chart's alerts.

# It scrapes the ports that the chart's PodMonitor names, and tells of a worker that is lost and cannot come back.
is_watched() {
  [[ -n $PROMETHEUS ]] || { skip "no image of Prometheus was given" && return; }
  start_prometheus
  # The controller beside worker-0, and the workers.
  wait_for "$((WORKERS + 1)) scraped services" 60 answers "sum(up{lockstep_cluster='$NAMESPACE/$RELEASE-lockstep'})" "$((WORKERS + 1))"
  wait_for "ready workers in what is scraped" 30 answers "sum(lockstep_workers{state='ready'})" "$WORKERS"
  wait_for "silence" 120 answers 'count(ALERTS{alertstate="firing"}) or vector(0)' 0
  # The quota is the one way to keep a pod away that disturbs no other.
  allow_pods 1
  k delete pod "$RELEASE-lockstep-worker-1" --force --grace-period=0 >/dev/null 2>&1
  wait_for "alert of the lost worker" 60 answers 'count(ALERTS{alertname="WorkerLost", alertstate="firing"})' 1
  allow_pods 32
  wait_for "the lost worker's pod" 30 is_made_anew "$RELEASE-lockstep-worker-1"
  is_whole
  wait_for "end of the alert" 60 answers 'count(ALERTS{alertname="WorkerLost", alertstate="firing"}) or vector(0)' 0
  k delete pod/prometheus configmap/prometheus --grace-period=1 >/dev/null
}

allow_pods() { k patch resourcequota quota --type merge --patch "{\"spec\": {\"hard\": {\"pods\": \"$1\"}}}" >/dev/null; }

# A StatefulSet that could not make a pod waits twice as long each time until it tries again. One that is changed tries at
# once.
is_made_anew() {
  k annotate statefulset "${1%-*}" --overwrite "lockstep.test/looked-at=$(now)" >/dev/null
  [[ -n "$(uid_of "$1")" ]]
}

start_prometheus() {
  k create configmap prometheus --from-file=alerts.yaml="$CHART/alerts/lockstep.yaml" \
    --from-file=prometheus.yaml=<(prometheus_configuration) >/dev/null
  k create --filename - >/dev/null <<MANIFEST
apiVersion: v1
kind: Pod
metadata: {name: prometheus, labels: {app: prometheus}}
spec:
  automountServiceAccountToken: false
  terminationGracePeriodSeconds: 1
  securityContext: {runAsNonRoot: true, runAsUser: 65534, seccompProfile: {type: RuntimeDefault}}
  containers:
    - name: prometheus
      image: $PROMETHEUS
      imagePullPolicy: IfNotPresent
      args: [--config.file=/etc/watcher/prometheus.yaml, --storage.tsdb.path=/data]
      readinessProbe: {httpGet: {path: /-/ready, port: 9090}, periodSeconds: 1}
      resources:
        limits: {cpu: "1", memory: 512Mi, ephemeral-storage: 256Mi}
        requests: {cpu: 50m, memory: 64Mi, ephemeral-storage: 16Mi}
      securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: config, mountPath: /etc/watcher}, {name: data, mountPath: /data}]
  volumes: [{name: config, configMap: {name: prometheus}}, {name: data, emptyDir: {sizeLimit: 256Mi}}]
MANIFEST
  k wait --for=condition=Ready pod/prometheus --timeout=60s >"$WORK/prometheus" 2>&1 ||
    fail "Prometheus does not start: $(cat "$WORK/prometheus")"
}

# What Prometheus' operator makes of the chart's PodMonitor.
prometheus_configuration() {
  cat <<CONF
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [/etc/watcher/alerts.yaml]
scrape_configs:
  - job_name: lockstep
    # Debian's is built without the service discovery of Kubernetes; the headless Service has an address for each pod.
    dns_sd_configs:
      - {names: [$RELEASE-lockstep.$NAMESPACE.svc.cluster.local], type: A, port: 9401, refresh_interval: 2s}
      - {names: [$RELEASE-lockstep-head-0.$RELEASE-lockstep.$NAMESPACE.svc.cluster.local], type: A, port: 9400, refresh_interval: 2s}
    relabel_configs:
      - {target_label: lockstep_cluster, replacement: $NAMESPACE/$RELEASE-lockstep}
CONF
}

# answers QUERY VALUE
answers() {
  [[ "$(k get --raw "/api/v1/namespaces/$NAMESPACE/pods/prometheus:9090/proxy/api/v1/query?query=$(percent_encoded "$1")")" == *"\"value\":["*",\"$2\"]"* ]]
}

percent_encoded() {
  local at
  for ((at = 0; at < ${#1}; ++at)); do printf '%%%02X' "'${1:at:1}"; done
}
