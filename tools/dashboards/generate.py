#!/usr/bin/env python3
"""Writes charts/lockstep/dashboards/*.json, one for each table of panels in this folder.

usage: generate.py [--check]

--check: writes nothing, and fails if a file is not what would be written.
"""

import importlib
import json
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDER = os.path.join(ROOT, "charts", "lockstep", "dashboards")
NAMES = ("cluster", "worker", "collectives", "memory", "control", "fragments", "gpu")


def files():
    """The text of each file that has to be there, by its name."""
    return {
        f"{name}.json": json.dumps(importlib.import_module(name).DASHBOARD, indent=2) + "\n" for name in NAMES
    }


def out_of_step():
    """The files that are not what the tables say, those that are too many included."""
    wanted = files()
    there = set(os.listdir(FOLDER)) if os.path.isdir(FOLDER) else set()
    return sorted(
        name
        for name in there | set(wanted)
        if name not in there or name not in wanted or read(os.path.join(FOLDER, name)) != wanted[name]
    )


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    if sys.argv[1:] == ["--check"]:
        wrong = out_of_step()
        for name in wrong:
            print(f"charts/lockstep/dashboards/{name} is out of step: run tools/dashboards/generate.py", file=sys.stderr)
        return 1 if wrong else 0
    if sys.argv[1:]:
        print(__doc__, file=sys.stderr)
        return 2
    os.makedirs(FOLDER, exist_ok=True)
    for name, text in files().items():
        with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
