"""Runs clang-tidy on our sources (not on tests), compiles every header by itself, and remembers what passed.

A header is compiled by itself as the first include of a source; one that is not the first include of any is read alone.

A file is read again when it, a header of ours that it includes (through others, too), its compile
command, the installed packages, clang-tidy or its settings change. So the first run takes minutes, the next a second.
"""

import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import subprocess

# Without it, a clang of today does not read Cap'n Proto's headers.
READ_FIRST = "third_party/capnp/compare.h"
# Bazel's folder for this checkout, and this checkout: another one that says the same has the same verdicts.
EXECUTION_ROOT = re.compile(r"/[^ \"]*/execroot/")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
# What every verdict depends on besides the source and its headers.
SETTINGS = (".clang-tidy", ".bazelrc.local", "tools/dev.d/clang_tidy.txt", READ_FIRST)
# Tests are many, are macros for the most part, and would double the time.
SKIPPED = ("tests/",)
# A header that is compiled by itself: whether it can be, and nothing else.
ERRORS_ALONE = ("--checks=-*", "--allow-no-checks")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def own_headers(path, found):
    """Adds to `found` the files of this repository that `path` includes, directly or not."""
    for name in INCLUDE.findall(read(path).decode("utf-8", "replace")):
        if name.endswith(".capnp.h"):
            name = name[: -len(".h")]  # the schema stands for the header made from it
        if name not in found and os.path.exists(name):
            found.add(name)
            own_headers(name, found)


def include_directories(arguments):
    """The pairs of arguments that name one."""
    return [pair for pair in zip(arguments, arguments[1:]) if pair[0] in ("-iquote", "-isystem", "-I")]


def header_entries(entries):
    """Compilations of the headers that no source includes first: as a source of their folder, with all directories."""
    by_folder, first, directories = {}, set(), {}
    for entry in entries:
        by_folder.setdefault(os.path.dirname(entry["file"]), entry)
        first.update(INCLUDE.findall(read(entry["file"]).decode("utf-8", "replace"))[:1])
        directories.update(dict.fromkeys(include_directories(entry["arguments"])))
    for folder, like in sorted(by_folder.items()):
        for name in sorted(os.listdir(folder or ".")):
            path = os.path.join(folder, name)
            if name.endswith(".h") and path not in first:
                arguments = [path if argument == like["file"] else argument for argument in like["arguments"]]
                where = arguments.index("-c")
                arguments[where:where] = [
                    "-Wno-pragma-once-outside-header",
                    *(word for pair in directories for word in pair),
                    *("-x", "c++"),
                ]
                yield {**like, "file": path, "arguments": arguments}


def fingerprint(entry):
    """Names everything that the verdict on a file depends on."""
    digest = hashlib.sha256(EXECUTION_ROOT.sub("", json.dumps(entry["arguments"])).encode())
    headers = set()
    own_headers(entry["file"], headers)
    for path in (*SETTINGS, entry["file"], *sorted(headers)):
        digest.update(path.encode() + b"\0" + read(path))
    return digest.hexdigest()


def check(entry, program, cache):
    """Returns clang-tidy's complaints about one file, or None."""
    marker = os.path.join(cache, fingerprint(entry))
    if os.path.exists(marker):
        os.utime(marker)
        return None
    command = [program, "--quiet", entry["file"]]
    if entry["file"].endswith(".h"):
        command += ERRORS_ALONE
    # Its own command, not one from compile_commands.json: that has none for headers.
    command += ["--", "-include", READ_FIRST, *entry["arguments"][1:]]
    result = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        with open(marker, "w", encoding="utf-8"):
            pass
        return None
    # Its error stream only counts suppressed warnings, except where it could not run at all.
    return result.stdout or result.stderr


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", required=True, help="clang-tidy")
    parser.add_argument("--cache", required=True, help="the folder of what passed")
    flags = parser.parse_args()
    os.makedirs(flags.cache, exist_ok=True)

    compiled = [entry for entry in json.loads(read("compile_commands.json")) if os.path.exists(entry["file"])]
    entries = [entry for entry in compiled if not entry["file"].startswith(SKIPPED)]
    if not entries:
        raise SystemExit("tidy: compile_commands.json names no source of ours")
    entries += header_entries(compiled)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [c for c in pool.map(lambda e: check(e, flags.program, flags.cache), entries) if c]
    print("\n".join(complaints))
    print(f"{len(entries)} files, {len(complaints)} with complaints")
    raise SystemExit(1 if complaints else 0)


if __name__ == "__main__":
    main()
