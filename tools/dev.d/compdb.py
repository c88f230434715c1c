"""Turns `bazel aquery --output=jsonproto` into compile_commands.json.

The commands are made to work in the source tree (not in Bazel's execution root), and for clang's
tools although g++ is what compiles.
"""

import argparse
import json
import os

# Known to g++ only; clang's tools refuse them. Warnings are the compiler's business, not theirs.
GCC_ONLY = {
    "-fno-canonical-system-headers",
    "-Wno-free-nonheap-object",
    "-Wunused-but-set-parameter",
    "-Werror",
}
# Outputs of the compilation, which an editor must not write; both take one argument.
OUTPUT_FLAGS = {"-MF", "-o"}


def absolute(argument, execution_root):
    """Points an argument that names a generated or an external path into the execution root."""
    for prefix in ("", "-I", "-iquote", "-isystem", "-frandom-seed="):
        path = argument[len(prefix):]
        if argument.startswith(prefix) and path.startswith(("bazel-out/", "external/")):
            return prefix + os.path.join(execution_root, path)
    return argument


def entry(arguments, workspace, execution_root):
    """The compile_commands.json entry of one compilation, or None for a file that is not ours."""
    source = arguments[arguments.index("-c") + 1]
    if source.startswith(("bazel-out/", "external/")):
        return None
    command = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument in OUTPUT_FLAGS:
            skip = True
        elif argument not in GCC_ONLY and argument != "-MD":
            command.append(absolute(argument, execution_root))
    return {"directory": workspace, "file": source, "arguments": command}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", required=True)
    parser.add_argument("--workspace", required=True)
    parser.add_argument("--execution_root", required=True)
    parser.add_argument("--output", required=True)
    flags = parser.parse_args()

    with open(flags.actions, encoding="utf-8") as file:
        actions = json.load(file).get("actions", [])
    entries = {}
    for action in actions:
        arguments = action.get("arguments", [])
        if "-c" not in arguments:
            continue
        made = entry(arguments, flags.workspace, flags.execution_root)
        if made:
            entries[made["file"]] = made
    if not entries:
        raise SystemExit("compdb: Bazel knows no compilation of a file in this repository")

    # Written beside and moved: an editor never reads half a file.
    temporary = flags.output + ".new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump([entries[name] for name in sorted(entries)], file, indent=1)
        file.write("\n")
    os.replace(temporary, flags.output)
    print(f"{len(entries)} files")


if __name__ == "__main__":
    main()
