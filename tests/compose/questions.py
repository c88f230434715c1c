"""What the dashboards ask and the alerts look at, read from their files."""

import glob
import json
import os
import re

from engine import ROOT

CHART = os.path.join(ROOT, "charts", "lockstep")
RULES = os.path.join(CHART, "alerts", "lockstep.yaml")
RULE_TESTS = os.path.join(ROOT, "tests", "kubernetes", "alerts")
RUNBOOKS = os.path.join(ROOT, "docs", "runbooks")
# Only where there is a GPU.
OF_GPUS = "lockstep_gpu_"


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def dashboards():
    """By the names of their files."""
    return {
        os.path.basename(path): json.loads(read(path)) for path in sorted(glob.glob(f"{CHART}/dashboards/*.json"))
    }


def queries(names):
    """What the panels of these dashboards ask: (dashboard, title, query)."""
    known = dashboards()
    return [
        (name, panel["title"], target["expr"])
        for name in names
        for panel in known[name]["panels"]
        for target in panel["targets"]
    ]


def as_asked(query, *, rank, cluster, namespace=".*"):
    """The query as Grafana sends it, with what its user has chosen. A text, for there is no Grafana to be had."""
    for variable, value in (
        ("$__rate_interval", "1m"),
        ("$__range", "5m"),
        ("$cluster", cluster),
        ("$namespace", namespace),
        ("$rank", str(rank)),
    ):
        query = query.replace(variable, value)
    if "$" in query:
        raise ValueError(f"a variable that is not set here: {query}")
    return query


def documented():
    """The metrics of docs/metrics.md, by what Prometheus calls their series: {name: labels}."""
    names = {}
    for line in read("docs", "metrics.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not re.fullmatch(r"`lockstep_\w+`", cells[0]):
            continue
        name, kind, labels = cells[0].strip("`"), cells[1], set(re.findall(r"`(\w+)`", cells[2]))
        if kind == "histogram":
            names.update({name + "_bucket": labels | {"le"}, name + "_sum": labels, name + "_count": labels})
        else:
            names[name] = labels
    return names


def metrics_of(query):
    """(metric, the labels that it is selected by) of each selector. Labels that are grouped by are not looked at."""
    found = []
    for name, selector in re.findall(r"\b(lockstep_\w+)(?:\{([^}]*)\})?", query):
        if name != "lockstep_cluster":
            found.append((name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))))
    return found


def alerts():
    """{alert: the text of its rule}. Not a parser of YAML: a rule begins with `- alert:` and ends where the next does."""
    parts = re.split(r"^ *- alert: (\w+)$", re.sub(r"^ *#.*\n", "", read(RULES), flags=re.M), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))
