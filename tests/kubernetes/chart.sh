#!/usr/bin/env bash
# Reads the chart: what it renders to with the values of each main variant, what it refuses, and whether what is written
# about it is true. Needs what `tools/dev setup --kubernetes` brings.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly CHART="$ROOT/charts/lockstep"
readonly STATE="${LOCKSTEP_KUBERNETES:-$HOME/.cache/lockstep/kubernetes}"
PATH="$STATE/bin:$PATH"
# Their schemas are those of other projects.
readonly FOREIGN_KINDS=PodMonitor,PrometheusRule,LeaderWorkerSet,PodGroup
readonly HELMS=(helm helm4)

main() {
  WORK="$(mktemp -d)"
  trap 'rm -rf "$WORK"' EXIT
  local values
  for values in "$CHART"/ci/*-values.yaml; do
    renders "$values"
    is_scored "$values"
  done
  refuses "workers: 0" workers
  refuses "wrkers: 3" wrkers
  refuses "worker: {config: {arena_bytse: 1GiB}}" arena_bytse
  refuses "keys: {allowed: [{role: admin, name: ada, key: lpk_A}]}" role
  refuses "commonLabels: {app.kubernetes.io/name: x}" app.kubernetes.io/name
  refuses "worker: {arena: 1GB}" 'worker.arena: "1GB" is no amount of memory'
  refuses "keys: {allowed: [{role: client, name: ada, key: lpk_A}]}" key
  refuses "gpu: {nccl: {NCCL_DEBUG: INFO}}" "gpu.enabled is false"
  /usr/bin/python3 -B "$ROOT/tests/kubernetes/null_values_test.py" "$CHART" "${HELMS[@]}" >"$WORK/log" 2>&1 || fail "defaults that are taken out"
  knows_all_settings
  helm-unittest --file 'tests/*_test.yaml' "$CHART" >"$WORK/log" 2>&1 || fail "tests of the templates"
  sh "$ROOT/tests/kubernetes/mint_test.sh" >"$WORK/log" 2>&1 || fail "what mints keys"
  has_a_true_readme
  promtool check rules "$CHART/alerts/lockstep.yaml" >"$WORK/log" 2>&1 || fail "the alerts"
  promtool test rules "$ROOT"/tests/kubernetes/alerts/*.yaml >"$WORK/log" 2>&1 || fail "tests of the alerts"
  /usr/bin/python3 -B "$ROOT/tests/kubernetes/clusters_apart_test.py" >"$WORK/log" 2>&1 || fail "dashboards of several clusters"
  echo "The chart can be read."
}

# With both generations of helm, for each version of Kubernetes that is supported.
renders() {
  local helm version
  for helm in "${HELMS[@]}"; do
    "$helm" lint --strict "$CHART" --values "$1" >"$WORK/log" 2>&1 || fail "$helm lint with $1"
    for version in "$STATE"/schemas/*/; do
      version="$(basename "$version")"
      "$helm" template demo "$CHART" --namespace train --kube-version "$version" --values "$1" >"$WORK/rendered" 2>"$WORK/log" ||
        fail "$helm template with $1"
      kubeconform -strict -skip "$FOREIGN_KINDS" -schema-location "$STATE/schemas/$version/{{.ResourceKind}}{{.KindSuffix}}.json" \
        "$WORK/rendered" >"$WORK/log" 2>&1 || fail "what $helm makes of $1, by the schemas of Kubernetes $version"
    done
  done
}

# But for: images that are always fetched anew, although a tag here is one image for ever. It does not know the kinds of
# other projects, and misses the pods of theirs.
is_scored() {
  ! grep -q 'kind: LeaderWorkerSet' "$WORK/rendered" || return 0
  kube-score score --ignore-test container-image-pull-policy --output-format ci "$WORK/rendered" >"$WORK/log" 2>&1 || true
  ! grep '\[CRITICAL\]' "$WORK/log" >"$WORK/critical" || fail "kube-score, with $1: $(cat "$WORK/critical")"
}

# refuses VALUES TEXT: with a message that has this text.
refuses() {
  local helm
  printf '%s\n' "$1" >"$WORK/values.yaml"
  for helm in "${HELMS[@]}"; do
    ! "$helm" template demo "$CHART" --set image.repository=registry.example/lockstep --values "$WORK/values.yaml" >/dev/null 2>"$WORK/log" || fail "$helm takes $1"
    grep -qF "$2" "$WORK/log" || fail "$helm refuses $1, and does not say: $2"
  done
}

# Those of the services are in the schema, but for the ones that the chart makes; and what each may be.
knows_all_settings() {
  /usr/bin/python3 - "$ROOT/docs/configuration.md" "$CHART" >"$WORK/log" 2>&1 <<'PY' || fail "the schema's settings"
import json, re, sys
import yaml
document, chart = open(sys.argv[1], encoding="utf-8").read(), sys.argv[2]
schema = json.load(open(chart + "/values.schema.json", encoding="utf-8"))["properties"]
template = open(chart + "/templates/_config.tpl", encoding="utf-8").read()
made = set(re.findall(r'"([a-z_0-9]+)" \(', template)) | set(re.findall(r'^ +"([a-z_0-9]+)" "', template, re.M))
limits = yaml.safe_load(open(chart + "/files/settings.yaml", encoding="utf-8"))
by_rank = {"rank", "rank_from", "rank_offset", "bulk_endpoint", "module_path"}
for title, part in (("Controller", "head"), ("Worker", "worker")):
    section = document.split(f"\n## {title}\n")[1].split("\n## ")[0]
    known = set(re.findall(r"^\| `([a-z_0-9]+)` \|", section, re.M))
    given = set(schema[part]["properties"]["config"]["properties"])
    missing, unknown = known - given - made - by_rank, given - known
    assert not missing and not unknown, f"{part}.config: missing {missing}, unknown to the service {unknown}"
    wanted = {}
    for name, kind, allowed in re.findall(r"^\| `([a-z_0-9]+)` \| ([a-z ]+) \| .*? \| (.*?) \|", section, re.M):
        if name in given and kind in ("duration", "size", "integer"):
            least, most = (int(end) if kind == "integer" else end for end in allowed.split(" to "))
            wanted[name] = {"type": kind, "min": least, "max": most}
        elif name in given and kind == "text" and re.fullmatch(r"[a-z+]+(, [a-z+]+)+", allowed):
            wanted[name] = {"type": "text", "allowed": allowed.split(", ")}
    assert limits[part] == wanted, f"files/settings.yaml: {part}: {limits[part]} is not {wanted}"
PY
}

has_a_true_readme() {
  cp -r "$CHART" "$WORK/chart"
  (cd "$WORK/chart" && helm-docs --chart-search-root . --skip-version-footer) >"$WORK/log" 2>&1 || fail "helm-docs"
  diff "$CHART/README.md" "$WORK/chart/README.md" >"$WORK/log" ||
    fail "README.md is not what helm-docs makes of values.yaml (helm-docs --chart-search-root charts/lockstep --skip-version-footer)"
}

fail() {
  {
    echo "tests/kubernetes/chart.sh: $*"
    tail -n 40 "$WORK/log"
  } >&2
  exit 1
}

main
