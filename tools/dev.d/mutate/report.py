"""The table of outcomes, a row as soon as it is known, and the line of counts."""

import collections
import statistics

from mutate.judge import KILLED, NOT_ANSWERED, NOT_COMPILED, SURVIVED, UNTESTED, Outcome

PLACE, CHANGE = 52, 60


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def heading() -> str:
    return f"{'outcome':12} {'s':>6}  {'where':{PLACE}} {'what':12} {'change':{CHANGE}} by"


def row(outcome: Outcome) -> str:
    mutation = outcome.mutation
    place = f"{mutation.path}:{mutation.line}"
    change = shortened(mutation.change, CHANGE)
    cells = f"{outcome.kind:12} {outcome.seconds:6.1f}  {place:{PLACE}} {mutation.operator:12} {change:{CHANGE}}"
    return f"{cells} {outcome.by}".rstrip()


def survivors(outcomes: list[Outcome], sources: dict[str, str]) -> list[str]:
    """Each survivor with its whole change and its line."""
    lines = []
    for outcome in outcomes:
        if outcome.kind == SURVIVED:
            mutation = outcome.mutation
            line = sources[mutation.path].splitlines()[mutation.line - 1].strip()
            lines += [
                f"survived {mutation.path}:{mutation.line} ({mutation.operator}): {line}",
                f"    {mutation.change}",
                f"    {outcome.by}",
            ]
    return lines


def counts(outcomes: list[Outcome]) -> str:
    """The last line. Only what compiled and was tested is in the sum."""
    by_kind = collections.Counter(outcome.kind for outcome in outcomes)
    killed, survived = by_kind[KILLED], by_kind[SURVIVED]
    seconds = [outcome.seconds for outcome in outcomes if outcome.kind == KILLED]
    median = f", in the median after {statistics.median(seconds):.1f} s" if seconds else ""
    return (
        f"{killed} of {killed + survived} killed{median}; {survived} survived;"
        f" replaced: {by_kind[NOT_COMPILED]} that did not compile, {by_kind[UNTESTED]} of files without tests,"
        f" {by_kind[NOT_ANSWERED]} that no test answered in time"
    )
