"""Loads a real Prometheus with what three clusters export at the same time, and asks it what panels
ask: all of it at once is the answers for each cluster, and nothing is added up or mixed.

The clusters differ by name or by namespace only, and their processes have the same addresses. What they export is made
up from docs/metrics.md, which has every metric with its labels.

usage: clusters_apart_test.py
"""

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "compose"))
from questions import as_asked, dashboards, queries, read  # noqa: E402

# lockstep_cluster and namespace.
CLUSTERS = [("demo", "train"), ("demo", "serve"), ("other", "train")]
RANKS = (0, 1)
INTERVAL_S, SAMPLES = 10, 30
# What labels may say; others say "a" or "b".
LABELS = {
    "state": ("ready", "lost"),
    "stage": ("batching", "executing"),
    "backend": ("shm", "nccl", "socket"),
    "kind": ("call", "uncorrected"),
    "by": ("heat", "power"),
    "stream": ("compute", "communication"),
    "clock": ("sm", "memory"),
    "version": ("0.1.0",),
    "le": ("0.001", "1", "+Inf"),
}


def metrics():
    """(section, name, kind, labels) of each metric of docs/metrics.md."""
    section = ""
    for line in read("docs", "metrics.md").splitlines():
        if line.startswith("## "):
            section = line.removeprefix("## ")
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) >= 3 and re.fullmatch(r"`lockstep_\w+`", cells[0]):
            yield section, cells[0].strip("`"), cells[1], re.findall(r"`(\w+)`", cells[2])


def combinations(labels, values):
    """Every combination of the labels' values."""
    if not labels:
        return [{}]
    rest = combinations(labels[1:], values)
    return [{labels[0]: value, **others} for value in values(labels[0]) for others in rest]


def series():
    """(metric, labels, samples) of all that all clusters export."""
    for number, (cluster, namespace) in enumerate(CLUSTERS):
        # A cluster of each size, so that none is taken for another.
        ranks = range(len(RANKS) + number)
        by_label = {**LABELS, "rank": [str(rank) for rank in ranks]}
        for section, name, kind, labels in metrics():
            of_controller = section == "The controller"
            for process in [None] if of_controller else ranks:
                where = {
                    "lockstep_cluster": cluster,
                    "namespace": namespace,
                    "instance": "10.0.0.1:9400" if of_controller else f"10.0.0.1:{9401 + process}",
                }
                suffixes = {"histogram": ("_bucket", "_sum", "_count")}.get(kind, ("",))
                for suffix in suffixes:
                    named = [*labels, "le"] if suffix == "_bucket" else labels
                    for values in combinations(named, lambda label: by_label.get(label, ("a", "b"))):
                        # Something else for each cluster, process and label.
                        step = 1 + number + (process or 0) + sum(map(ord, "".join(values.values()))) % 7
                        if name == "lockstep_worker_rank":
                            samples = [process] * SAMPLES
                        elif name.endswith("_info"):
                            samples = [1] * SAMPLES
                        elif kind == "gauge":
                            # 60 and some percent of what has "capacity" in its name.
                            samples = [1000 if "capacity" in name else 600 + step] * SAMPLES
                        else:
                            samples = [i * step for i in range(SAMPLES)]
                        yield name + suffix, {**where, **values}, samples


def write_openmetrics(path, end):
    """All samples until `end`, in the form from which promtool makes blocks."""
    by_name = {}
    for name, labels, samples in series():
        by_name.setdefault(name, {})[tuple(sorted(labels.items()))] = samples
    with open(path, "w", encoding="utf-8") as file:
        for name, rows in by_name.items():
            file.write(f"# TYPE {name} unknown\n")
            for labels, samples in rows.items():
                text = ",".join(f'{key}="{value}"' for key, value in labels)
                for i, sample in enumerate(samples):
                    file.write(f"{name}{{{text}}} {sample} {end - (SAMPLES - 1 - i) * INTERVAL_S}\n")
        file.write("# EOF\n")


@contextlib.contextmanager
def prometheus(folder):
    """The address of one that has these blocks, and scrapes nothing."""
    with open(f"{folder}/prometheus.yaml", "w", encoding="utf-8") as file:
        file.write("scrape_configs: []\n")
    log = f"{folder}/log"
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(
            [
                *("prometheus", f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"),
                *("--web.listen-address=127.0.0.1:0", "--log.format=logfmt"),
            ],
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + 30
        while True:
            with open(log, encoding="utf-8") as file:
                text = file.read()
            listening = re.search(r'msg="Listening on" address=(\S+)', text)
            if listening and "Server is ready" in text:
                break
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"Prometheus does not start: {text}")
            time.sleep(0.02)
        yield f"http://{listening.group(1)}"
    finally:
        process.terminate()
        process.wait()


def ask(address, query, at):
    """{labels: value} of a query."""
    url = f"{address}/api/v1/query?{urllib.parse.urlencode({'query': query, 'time': at})}"
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            found = json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        raise ValueError(json.load(error)["error"]) from error
    return {tuple(sorted(one["metric"].items())): one["value"][1] for one in found}


def problems(address, at):
    """What is wrong with which panel's query."""
    empty = 0
    asked = queries(sorted(dashboards()))
    for where, title, query in asked:
        try:
            at_once = ask(address, as_asked(query, rank=1, cluster=".*"), at)
            apart = {}
            for cluster, namespace in CLUSTERS:
                of_one = ask(address, as_asked(query, rank=1, cluster=cluster, namespace=namespace), at)
                if not of_one:
                    empty += 1
                apart.update(of_one)
                whose = {("lockstep_cluster", cluster), ("namespace", namespace)}
                unnamed = [labels for labels in of_one if not whose <= set(labels)]
                if unnamed:
                    yield f"{where}: {title}: these do not say whose they are: {unnamed}"
        except ValueError as error:
            yield f"{where}: {title}: {error}"
            continue
        if at_once != apart:
            yield f"{where}: {title}: all at once: {at_once}, one by one: {apart}"
    if len(asked) < 80 or empty > 0:
        yield f"of {len(asked)} queries {empty} find nothing"
    # What the memory dashboard says of two arenas that are filled by about 60 % each.
    panel = ("memory.json", "How full is each rank's arena?")
    (filled,) = {query for where, title, query in asked if (where, title) == panel}
    found = ask(address, as_asked(filled, rank=1, cluster=".*"), at)
    if len(found) != sum(len(RANKS) + number for number in range(len(CLUSTERS))):
        yield f"arenas: {found}"
    if not all(0.6 <= float(value) < 0.7 for value in found.values()):
        yield f"arenas are filled by 60 to 70 %, and shown as {found}"


def main():
    with tempfile.TemporaryDirectory(prefix="lockstep-clusters.") as folder:
        end = int(time.time()) // INTERVAL_S * INTERVAL_S - 60
        write_openmetrics(f"{folder}/samples", end)
        subprocess.run(
            ["promtool", "tsdb", "create-blocks-from", "openmetrics", f"{folder}/samples", f"{folder}/data"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        with prometheus(folder) as address:
            found = list(problems(address, end))
        if found:
            sys.exit("\n".join(found))
        print("No panel mixes clusters.")


if __name__ == "__main__":
    main()
