"""Runs clang-tidy on our sources (not on tests), compiles every header by itself, and remembers what passed.

A header is compiled by itself as the first include of a source; one that is not the first include of any is read alone.

A file is read again when it, a header of ours that it includes (through others, too), its compile
command, the installed packages, clang-tidy or its settings change. So the first run takes minutes, the next a second.

Three quarters of the time go to headers. Where many files are to be read, as on a new machine, those of a folder that
are compiled alike are therefore read as one (docs/adr/0020): if there is nothing to say of them together, each has
passed; else, and where few are to be read, each is read alone, which finds an include that only its neighbours have.
"""

import argparse
import concurrent.futures
import hashlib
import json
import itertools
import os
import re
import subprocess
import tempfile

# Without it, a clang of today does not read Cap'n Proto's headers.
READ_FIRST = "third_party/capnp/compare.h"
# Bazel's folder for this checkout, and this checkout: another one that says the same has the same verdicts.
EXECUTION_ROOT = re.compile(r"/[^ \"]*/execroot/")
INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
DIRECTORIES = ("-iquote", "-isystem", "-I")
# Those, and where a compiler puts what it makes.
PLACES = (*DIRECTORIES, "-o", "-MF")
# What every verdict depends on besides the source and its headers.
SETTINGS = (".clang-tidy", ".bazelrc.local", "tools/dev.d/clang_tidy.txt", READ_FIRST)
# Tests are many, are macros for the most part, and would double the time.
SKIPPED = ("tests/",)
# From so many files on they are read together, so many of a folder at most.
MANY = 60
TOGETHER = 8
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
    return [pair for pair in zip(arguments, arguments[1:]) if pair[0] in DIRECTORIES]


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


def marker(entry, cache):
    """The file that says that this file, as it is, has passed."""
    return os.path.join(cache, fingerprint(entry))


def has_passed(entry, cache):
    path = marker(entry, cache)
    if not os.path.exists(path):
        return False
    os.utime(path)
    return True


def note_passed(entry, cache):
    with open(marker(entry, cache), "w", encoding="utf-8"):
        pass


def tidy(entry, program, options=()):
    """Returns clang-tidy's complaints about one file, or None."""
    command = [program, "--quiet", *options, entry["file"]]
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
    # Its error stream only counts suppressed warnings, except where it could not run at all.
    return None if result.returncode == 0 else result.stdout or result.stderr


def is_fine_together(entries, program):
    """Whether clang-tidy has nothing to say of several files, read as one."""
    first = entries[0]
    directories = dict.fromkeys(pair for entry in entries for pair in include_directories(entry["arguments"]))
    with tempfile.NamedTemporaryFile("w", suffix=".cc", encoding="utf-8") as unit:
        for entry in entries:
            unit.write(f'#line 1 "{entry["file"]}"\n{read(entry["file"]).decode("utf-8")}')
        unit.flush()
        words = ["clang", *(word for pair in directories for word in pair), *compiler_options(first)[1:], unit.name]
        # It looks for its settings beside what it reads.
        return tidy({"file": unit.name, "arguments": words}, program, ["--config-file=.clang-tidy"]) is None


def compiler_options(entry):
    """What its compiler is told besides where to find what."""
    words, skip = [], False
    for word in entry["arguments"]:
        if not skip and word not in PLACES and not word.startswith("-frandom-seed") and word != entry["file"]:
            words.append(word)
        skip = word in PLACES
    return words


def compiled_alike(entry):
    """The same for the files of a folder that may be read as one; headers are to be compiled by themselves."""
    path = entry["file"]
    return (path, []) if path.endswith(".h") else (os.path.dirname(path), compiler_options(entry))


def groups(entries):
    """Entries that are read together."""
    if len(entries) < MANY:
        return [[entry] for entry in entries]
    parts = []
    for _, alike in itertools.groupby(sorted(entries, key=compiled_alike), key=compiled_alike):
        alike = list(alike)
        parts += [alike[i : i + TOGETHER] for i in range(0, len(alike), TOGETHER)]
    # The longest first: none of them is waited for alone in the end.
    return sorted(parts, key=len, reverse=True)


def check(entries, program, cache):
    """Returns clang-tidy's complaints about files, together if it can be, and notes what has passed."""
    if len(entries) > 1 and is_fine_together(entries, program):
        complaints = [None] * len(entries)
    else:
        complaints = [tidy(entry, program) for entry in entries]
    for entry, complaint in zip(entries, complaints):
        if complaint is None:
            note_passed(entry, cache)
    return [complaint for complaint in complaints if complaint is not None]


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
    unread = [entry for entry in entries if not has_passed(entry, flags.cache)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda group: check(group, flags.program, flags.cache), groups(unread))
        complaints = list(itertools.chain.from_iterable(results))
    print("\n".join(complaints))
    print(f"{len(entries)} files, {len(complaints)} with complaints")
    raise SystemExit(1 if complaints else 0)


if __name__ == "__main__":
    main()
