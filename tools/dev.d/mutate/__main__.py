"""Makes mutations in a copy of this checkout, one at a time, and says which of them a test notices.

Called by tools/dev mutate, in a process namespace of its own: whatever a mutant does to other processes is done to the
tests' alone, and when this ends, everything that it has started ends.
"""

import argparse
import itertools
import os
import re
import signal
import sys

from mutate import report
from mutate.bazel import Bazel, Broken
from mutate.judge import KILLED, SURVIVED, Judge, Outcome, Times
from mutate.sample import BadPlace, at_line, drawn, sources_below
from mutate.sources import Busy, Copy

PLACE_WITH_LINE = re.compile(r"(.*):(\d+)")


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/dev mutate",
        description="Changes single places of the C++ of runtime and services, in a copy, and looks whether a test"
        " notices: the tests that mirror the file's folder first, then all others that are built from it.",
    )
    parser.add_argument("place", nargs="?", default=".", metavar="PLACE", help="a folder, FILE or FILE:LINE (all)")
    parser.add_argument("--sample", type=int, metavar="N", help="how many mutations (20; all of a LINE)")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="which (1)")
    parser.add_argument("--limit", type=float, default=600, metavar="SECONDS", help="for each mutation (600)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="of Bazel (one per core)")
    parser.add_argument("--slow", action="store_true", help="ask the tests, too, that take minutes or run alone")
    parser.add_argument("--list", action="store_true", help="say what would be tried, and do not try it")
    parser.add_argument("--files", required=True, help=argparse.SUPPRESS)  # the checkout's, NUL-separated
    parser.add_argument("--folder", required=True, help=argparse.SUPPRESS)  # where the copy and its outputs are
    flags = parser.parse_args()
    if (flags.sample is not None and flags.sample < 1) or flags.limit <= 0 or flags.jobs < 1:
        parser.error("--sample, --limit and --jobs are 1 or more")
    return flags


def try_all(mutations, sample: int | None, judge: Judge, outcomes: list[Outcome]) -> None:
    """Until so many were killed or have survived: others are replaced."""
    for mutation in mutations:
        if sample is not None and sum(o.kind in (KILLED, SURVIVED) for o in outcomes) >= sample:
            break
        outcomes.append(judge.judge(mutation))
        say(report.row(outcomes[-1]))


def say(text: str) -> None:
    print(text, flush=True)


def run(flags: argparse.Namespace, sources: dict[str, str], mutations, sample: int | None, listed: list[str]) -> None:
    copy = Copy(os.getcwd(), listed, os.path.join(flags.folder, "sources"))
    bazel = Bazel(
        copy.folder, os.path.join(flags.folder, "outputs"), os.path.join(flags.folder, "bazel.log"), flags.jobs
    )
    times = Times(os.path.join(flags.folder, "times.json"))
    judge = Judge(copy, bazel, times, flags.limit, flags.slow, say)
    outcomes: list[Outcome] = []
    say(report.heading())
    try:
        try_all(mutations, sample, judge, outcomes)
    finally:
        # Also of what was interrupted: every outcome stands for itself.
        for line in report.survivors(outcomes, sources):
            say(line)
        say(report.counts(outcomes))
        bazel.close()
        copy.close()


def main() -> None:
    flags = parsed()
    # As ^C: what is begun is put back.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with open(flags.files, encoding="utf-8") as file:
        listed = [path for path in file.read().split("\0") if path]
    line = PLACE_WITH_LINE.fullmatch(flags.place)
    try:
        sources = sources_below(line[1] if line else flags.place, listed, os.getcwd())
        mutations = list(at_line(sources, int(line[2])) if line else drawn(sources, flags.seed))
        sample = flags.sample if line else flags.sample or 20
        if flags.list:
            for mutation in itertools.islice(mutations, sample):
                say(f"{mutation.path}:{mutation.line} ({mutation.operator}): {mutation.change}")
        else:
            run(flags, sources, mutations, sample, listed)
    except (BadPlace, Busy, Broken) as error:
        sys.exit(f"tools/dev mutate: {error}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
