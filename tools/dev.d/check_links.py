"""Checks the relative links of Markdown files: usage: check_links.py FILE.md...

A link must lead to a file or folder of the repository; a #fragment to a heading of that document.
Links to other sites are not followed.
"""

import os
import re
import sys

FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
REFERENCE = re.compile(r"^\[[^\]]+\]:\s*(\S+)", re.MULTILINE)
HEADING = re.compile(r"^#{1,6}\s+(.*?)\s*#*$", re.MULTILINE)
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return FENCE.sub("", file.read())


def anchors(path):
    """The anchors that GitHub makes from a document's headings."""
    made = set()
    for heading in HEADING.findall(text_of(path)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        anchor = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        repeated, count = anchor, 0
        while repeated in made:
            count += 1
            repeated = f"{anchor}-{count}"
        made.add(repeated)
    return made


def complaint(path, link):
    """What is wrong with a link, or None."""
    target, _, fragment = link.partition("#")
    if target.startswith("/"):
        resolved = target[1:]
    else:
        resolved = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
    if not os.path.exists(resolved):
        return f"{path}: {link}: no such file"
    if fragment and resolved.endswith(".md") and fragment not in anchors(resolved):
        return f"{path}: {link}: no such heading"
    return None


def main():
    found = []
    for path in sys.argv[1:]:
        text = CODE.sub("", text_of(path))
        for link in LINK.findall(text) + REFERENCE.findall(text):
            if not SCHEME.match(link):
                found.append(complaint(path, link))
    found = [line for line in found if line]
    print("\n".join(found))
    print(f"{len(sys.argv) - 1} documents, {len(found)} complaints")
    raise SystemExit(1 if found else 0)


if __name__ == "__main__":
    main()
