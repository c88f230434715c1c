"""Compares how sources are compiled by themselves and in units (tools/bazel/cc.bzl).

usage: check_units.py FILE_BY_FILE.json UNITS.json, both of `bazel aquery --output=jsonproto`

A unit is compiled with exactly the options of its sources: options that name paths do not reach units, whose paths are
others.
"""

import collections
import json
import sys

# What differs from file to file in any case; each is followed by a path.
OF_ONE_FILE = {"-c", "-o", "-MF"}


def options(arguments):
    kept = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in OF_ONE_FILE:
            skip = True
        elif not argument.startswith("-frandom-seed="):
            kept.append(argument)
    return tuple(kept)


def compilations(path):
    """The options of each target's sources, as {target: {source: options}}."""
    with open(path, encoding="utf-8") as file:
        graph = json.load(file)
    labels = {target["id"]: target["label"] for target in graph["targets"]}
    found = collections.defaultdict(dict)
    for action in graph.get("actions", []):
        arguments = action.get("arguments", [])
        if "-c" in arguments:
            source = arguments[arguments.index("-c") + 1]
            found[labels[action["targetId"]]][source] = options(arguments)
    return found


def main():
    alone, units = compilations(sys.argv[1]), compilations(sys.argv[2])
    complaints = []
    if alone.keys() != units.keys():
        complaints.append(f"not compiled in both ways: {sorted(alone.keys() ^ units.keys())}")
    for label in sorted(alone.keys() & units.keys()):
        for source, wanted in alone[label].items():
            for unit, used in units[label].items():
                if used != wanted:
                    complaints.append(f"{label}: {source} has other options than {unit}: {set(wanted) ^ set(used)}")
    sources = sum(len(of_target) for of_target in alone.values())
    made = sum(len(of_target) for of_target in units.values())
    print("\n".join(complaints))
    print(f"{len(alone)} targets, {sources} sources, {made} units, {len(complaints)} complaints")
    raise SystemExit(1 if complaints or made >= sources else 0)


if __name__ == "__main__":
    main()
