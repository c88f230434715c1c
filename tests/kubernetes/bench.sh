#!/usr/bin/env bash
# Measures the chart on the Kubernetes that $KUBECONFIG leads to: how long what operators wait for takes, and what an
# idle cluster costs. docs/performance.md says what each line means.
#
# usage: bench.sh --tag TAG [--repository PREFIX] [--rounds N]
#
# It needs kubectl, helm and jq, nodes that have the images, a way from here to services' addresses, $LOCKSTEP_BINARIES
# (Bazel's folder, with //tools/bench:steady_client), and workers whose processes are this machine's. Numbers are
# medians of the rounds.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly CHART="$ROOT/charts/lockstep"
readonly NAMESPACE=lockstep-bench
readonly RELEASE=benchmark
readonly WORKERS=4
readonly IDLE_SECONDS=30
REPOSITORY=localhost/lockstep TAG="" ROUNDS=5

# shellcheck source=tests/kubernetes/e2e.d/release.sh
source "$ROOT/tests/kubernetes/e2e.d/release.sh"
# shellcheck source=tests/kubernetes/e2e.d/clients.sh
source "$ROOT/tests/kubernetes/e2e.d/clients.sh"
# shellcheck source=tests/kubernetes/e2e.d/faults.sh
source "$ROOT/tests/kubernetes/e2e.d/faults.sh"
# shellcheck source=tests/kubernetes/bench.d/steady_client.sh
source "$ROOT/tests/kubernetes/bench.d/steady_client.sh"

# Name, unit, goal and words of each line, in the order in which they are printed.
LINES=(
  "whole|s||helm install until all pods are ready"
  "tested|s|20|helm install until helm test has passed"
  "worker_seen|s|2|a worker's pod killed: until a session knows"
  "worker_stood|s||... how long sessions stood still"
  "worker_again|s|3|... from the new pod until sessions work"
  "process_again|s||... from the new worker's process until sessions work"
  "head_seen|s||the head's pod deleted: until a session knows"
  "head_stood|s||... how long programs stood still"
  "rolled|s||another setting for 4 workers: until all have it and the cluster is whole"
  "rolled_stood|s||... the longest time that sessions stood still"
  "head_cpu|% of a core||idle for $IDLE_SECONDS s: processor time of the head's pod (controller and worker-0)"
  "worker_cpu|% of a core||... of a worker's pod, on the mean"
  "head_memory|MiB||... memory of the head's pod (working set)"
  "worker_memory|MiB||... of a worker's pod, on the mean"
)
readonly LINES

main() {
  while [[ $# -gt 0 ]]; do
    case "$1" in
      --repository) REPOSITORY="$2" && shift ;;
      --tag) TAG="$2" && shift ;;
      --rounds) ROUNDS="$2" && shift ;;
      *) echo "usage: bench.sh --tag TAG [--repository PREFIX] [--rounds N]" >&2 && exit 2 ;;
    esac
    shift
  done
  make_namespace
  for ((ROUND = 1; ROUND <= ROUNDS; ++ROUND)); do
    echo "round $ROUND ..." >&2
    measure_installation
    start_steady_client
    measure_lost_worker
    measure_rolling
    measure_lost_head
    stop_steady_client
    measure_idleness
    helm uninstall --namespace "$NAMESPACE" "$RELEASE" --wait --timeout 2m >/dev/null
    wait_for "end of all pods" 90 no_pods
  done
  print_report
}

# record NAME VALUE
record() { printf '%s\n' "$2" >>"$WORK/values.$1"; }

measure_installation() {
  local begin
  begin="$(now)"
  install_release
  is_whole "$WORKERS"
  record whole "$(since "$begin")"
  helm_test
  record tested "$(since "$begin")"
}

# Without a farewell, as when a machine has killed it.
measure_lost_worker() {
  local pod="$RELEASE-lockstep-worker-1" before begin appeared
  before="$(uid_of "$pod")"
  begin="$(now)"
  k delete pod "$pod" --force --grace-period=0 >/dev/null 2>&1
  wait_for "another $pod" 60 is_another "$pod" "$before"
  appeared="$(now)"
  await_client_after "$begin"
  record worker_seen "$(client_failed_after "$begin")"
  record worker_stood "$(client_longest_since "$begin")"
  record worker_again "$(client_works_since "$appeared")"
  record process_again "$(client_works_since "$(newest_worker_began)")"
  is_whole "$WORKERS"
}

# When the youngest of the workers' processes was started, in seconds since 1970.
newest_worker_began() {
  awk -v now="$(now)" -v hertz="$(getconf CLK_TCK)" '
    FILENAME == "/proc/uptime" { up = $1; next }
    { sub(/^.*\) /, ""); split($0, field, " "); if (field[20] > newest) newest = field[20] }
    END { printf "%.2f", now - up + newest / hertz }' /proc/uptime \
    <(pgrep --exact lockstep-worker | xargs -I{} cat /proc/{}/stat 2>/dev/null)
}

measure_rolling() {
  local begin
  begin="$(now)"
  upgrade --set worker.config.log_level=warning
  is_whole "$WORKERS"
  record rolled "$(since "$begin")"
  await_client_after "$begin"
  record rolled_stood "$(client_longest_since "$begin")"
}

measure_lost_head() {
  local begin
  begin="$(now)"
  k delete pod "$RELEASE-lockstep-head-0" --wait=false >/dev/null
  await_client_after "$begin"
  record head_seen "$(client_failed_after "$begin")"
  record head_stood "$(client_longest_since "$begin")"
  is_whole "$WORKERS"
}

# By what the kubelets count.
measure_idleness() {
  sleep 5
  consumption >"$WORK/before"
  sleep "$IDLE_SECONDS"
  consumption >"$WORK/after"
  local share mebibytes
  read -r share mebibytes < <(join "$WORK/before" "$WORK/after" | awk '
    $1 ~ /-head-/ { print ($5 - $2) / ($6 - $3) * 100, $7 / 1048576 }')
  record head_cpu "$share"
  record head_memory "$mebibytes"
  read -r share mebibytes < <(join "$WORK/before" "$WORK/after" | awk '
    $1 ~ /-worker-/ { share += ($5 - $2) / ($6 - $3) * 100; bytes += $7; ++pods }
    END { print share / pods, bytes / pods / 1048576 }')
  record worker_cpu "$share"
  record worker_memory "$mebibytes"
}

# For each pod: its name, nanoseconds of processor time, the nanosecond at which they were counted, bytes.
consumption() {
  local node
  for node in $(kubectl get nodes --output jsonpath='{.items[*].metadata.name}'); do
    kubectl get --raw "/api/v1/nodes/$node/proxy/stats/summary" |
      jq -r --arg namespace "$NAMESPACE" '.pods[] | select(.podRef.namespace == $namespace)
        | [.podRef.name, .cpu.usageCoreNanoSeconds, (.cpu.time | fromdateiso8601 * 1000000000), .memory.workingSetBytes]
        | @tsv'
  done | sort
}

print_report() {
  local line name unit goal words value
  printf '%-80s %8s %-12s %s\n' "$WORKERS workers, rounds: $ROUNDS" median "" goal
  for line in "${LINES[@]}"; do
    IFS='|' read -r name unit goal words <<<"$line"
    value="$(sort -n "$WORK/values.$name" | awk '{ v[NR] = $1 } END { printf "%.2f", (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }')"
    printf '%-80s %8s %-12s %s\n' "$words" "$value" "$unit" "${goal:+$(verdict "$value" "$goal" "$unit")}"
  done
}

verdict() { awk -v value="$1" -v goal="$2" -v unit="$3" 'BEGIN { printf "%s %s: %s", goal, unit, value <= goal ? "reached" : "MISSED" }'; }

main "$@"
