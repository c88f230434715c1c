#!/usr/bin/python3
"""Makes debian_python.txt: `apt-cache dumpavail | ./debian_python.py > debian_python.txt`, on the release in question.

A line for each package of main whose name begins with python3-, in the order of their names: the name, and the numbers
of the lines (from 0) of those others of them that it depends on.
"""
import re
import sys

PREFIX = "python3-"


def main():
    depends = {}
    for paragraph in sys.stdin.read().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        name = fields.get("Package", "")
        if name.startswith(PREFIX) and "/" not in fields.get("Section", ""):
            wanted = re.split(r"[,|]", fields.get("Depends", ""))
            depends[name] = {re.sub(r"[ :(].*", "", item.strip()) for item in wanted} - {name}
    names = sorted(depends)
    number = {name: i for i, name in enumerate(names)}
    for name in names:
        print(name, *sorted(number[other] for other in depends[name] if other in number))


if __name__ == "__main__":
    main()
