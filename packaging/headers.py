"""Copies the headers that some headers include, and themselves, to a folder.

usage: headers.py FOLDER:FOLDER... TARGET HEADER...

Paths in the target are those that the sources write in their includes. They are looked for in the folders: this
repository, where the build puts what it makes, and other projects whose headers are to go with ours.
"""

import os
import re
import shutil
import sys

INCLUDE = re.compile(r'^\s*#\s*include ["<]([^">]+)[">]', re.MULTILINE)


def main(folders: str, target: str, *wanted: str) -> None:
    todo = list(wanted)
    copied = set()
    while todo:
        header = todo.pop()
        if header in copied:
            continue
        found = [path for folder in folders.split(":") if os.path.isfile(path := os.path.join(folder, header))]
        if not found:
            if header.startswith(("runtime/", "services/", "schemas/")):
                sys.exit(f"headers.py: {header} is in none of {folders}")
            continue  # of the compiler, or of a project whose package ours depends on
        copied.add(header)
        destination = os.path.join(target, header)
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        shutil.copyfile(found[0], destination)
        with open(found[0], encoding="utf-8") as file:
            todo += INCLUDE.findall(file.read())
    print(f"{len(copied)} headers")


main(*sys.argv[1:])
