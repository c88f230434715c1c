"""Takes each default of the chart out, one after another, as `--set KEY=null` does. Each is refused by a message that
names the key, or values.yaml says what null means: in the comment of the key, or of one that it is in.

usage: null_values_test.py CHART HELM...

Of the second helm and others, only sections and what is outside of them: their schemas' messages differ, and not more.
"""

import concurrent.futures
import os
import re
import subprocess
import sys

import yaml

BASE = ["--set", "image.repository=registry.example/lockstep"]
# So that templates of what is turned off by default are rendered, too.
ALL_ON = [
    *("--set", "metrics.podMonitor.enabled=true", "--set", "metrics.rules.enabled=true"),
    *("--set", "metrics.dashboards.enabled=true", "--set", "program.enabled=true", "--set-json"),
    'program.files={"program.yaml": "steps: []"}',
]


def keys_of(values, above=()):
    """The path of every key: those that have keys of their own, too."""
    for name, value in values.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from keys_of(value, (*above, name))


def meanings(text):
    """The paths of the keys whose comment says what null means. A comment is of the key below it."""
    found, path, comment = set(), [], ""
    for line in text.splitlines():
        key = re.match(r"( *)([A-Za-z]\w*):", line)
        if line.lstrip().startswith("# --"):
            comment = line
        elif key:
            path = [*path[: len(key[1]) // 2], key[2]]
            if re.search(r"\bnull\b", comment):
                found.add(tuple(path))
            comment = ""
    return found


def problem(helm, chart, path, has_meaning):
    """What is wrong with taking this key out, or nothing."""
    key = ".".join(path)
    done = subprocess.run(
        [helm, "template", "demo", chart, *ALL_ON, *BASE, "--set", f"{key}=null"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 0:
        return None if has_meaning else f"{helm}: {key}=null is taken, and values.yaml does not say what it means"
    if "nil pointer" in done.stderr or not re.search(rf"\b{re.escape(path[-1])}\b", done.stderr):
        return f"{helm}: {key}=null is refused, but not by its name: {done.stderr.strip()}"
    return None


def main():
    chart, *helms = sys.argv[1:]
    with open(os.path.join(chart, "values.yaml"), encoding="utf-8") as file:
        text = file.read()
    said = meanings(text)
    tasks = [
        (helm, chart, path, any(path[:length] in said for length in range(1, len(path) + 1)))
        for helm in helms
        for path in keys_of(yaml.safe_load(text))
        if helm == helms[0] or len(path) == 1
    ]
    if len(tasks) < 100:
        sys.exit(f"only {len(tasks)} keys were found")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(filter(None, pool.map(lambda task: problem(*task), tasks)))
    if problems:
        sys.exit("\n".join(problems))
    print(f"{len(tasks)} keys were taken out.")


if __name__ == "__main__":
    main()
