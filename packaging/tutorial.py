"""Does what docs/tutorial.md says, as its reader would, and compares what is printed.

usage: tutorial.py PAGE FOLDER_OF_PACKAGES

Runs on a machine that is for nothing else: it installs packages. Code blocks of the page are
  ```sh        commands, in one shell from the first to the last; a line that fails ends it
  ```sh root   the same, in the folder of the packages
  ```LANG NAME a file, written to the shell's folder
  ```text      what the commands before it print: these lines, each perhaps a part of one, in this order
"""

import re
import subprocess
import sys
import tempfile

BLOCK = re.compile(r"^```(\S+)(?: ([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Of one block; compiling takes the longest.
SECONDS = 300


class Shell:
    """One bash for all blocks, so that folders and variables last."""

    def __init__(self) -> None:
        self._output = tempfile.NamedTemporaryFile(mode="w+", errors="replace")
        # Line by line, as in a terminal, so that output and errors come in the order in which they were printed.
        self._bash = subprocess.Popen(
            ["stdbuf", "-oL", "bash", "-eu"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._output,
            text=True,
        )

    def run(self, commands: str) -> str:
        """What the commands print, to standard output and error."""
        self._output.truncate(0)
        self._output.seek(0)
        self._bash.stdin.write(f"{{\n{commands}\n}} >&2\necho done\n")
        self._bash.stdin.flush()
        timer = subprocess.Popen(["sh", "-c", f"sleep {SECONDS} && kill {self._bash.pid}"])
        ended = self._bash.stdout.readline() == "done\n"
        timer.kill()
        timer.wait()
        self._output.seek(0)
        printed = self._output.read()
        if not ended:
            sys.exit(f"{printed}\ntutorial.py: a command failed, or took longer than {SECONDS} s:\n{commands}")
        return printed


def missing_line(wanted: str, printed: str) -> str | None:
    """The first line of `wanted` that does not come in `printed` after those before it."""
    at = 0
    for line in wanted.splitlines():
        found = printed.find(line, at)
        if found < 0:
            return line
        at = found + len(line)
    return None


def main(page: str, packages: str) -> None:
    with open(page, encoding="utf-8") as file:
        blocks = BLOCK.findall(file.read())
    shell = Shell()
    printed = ""
    checked = 0
    for kind, note, body in blocks:
        if kind == "sh":
            printed = shell.run(f"cd '{packages}'\n{body}" if note == "root" else body)
        elif kind == "text":
            line = missing_line(body, printed)
            if line is not None:
                sys.exit(f"{printed}\ntutorial.py: the page promises, and this does not print: {line}")
            checked += 1
        else:
            shell.run(f"cat >'{note}' <<'END OF FILE'\n{body}END OF FILE")
    print(f"{page}: {len(blocks)} blocks done, {checked} outputs as promised")


main(*sys.argv[1:])
