"""What a mutation is, and the ways to change a source that a mistake could have written it in.

Each operator reads a source and yields its mutations. Two of them never change more than one place, and none changes
what a reader would not take for a mistake: a text, a wait's length, the size of a buffer.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator

from mutate.tokens import Source

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
LOGICAL = {"&&": "||", "||": "&&"}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "%": "*", "&": "|", "|": "&", ">>": "<<"}
ASSIGNING = {"+=": "-=", "-=": "+=", "*=": "/=", "/=": "*=", "|=": "&=", "&=": "|="}
STEPS = {"++": "--", "--": "++"}
ORDERS = re.compile(r"memory_order_(acquire|release|acq_rel|seq_cst)")
WEAKER = "memory_order_relaxed"

# Without these, a program does the same a little slower.
ONLY_FASTER = {"reserve", "shrink_to_fit", "yield", "sleep_for", "Pause", "CpuRelax", "_mm_pause", "__builtin_prefetch"}
# What a statement begins with that is more than an expression.
NOT_EXPRESSIONS = set("if for while do switch return throw delete goto case default using".split())
INTEGER = re.compile(r"(0[xX][\da-fA-F']+|[1-9][\d']*|0)([uUlLzZ]*)")
DURATIONS = {"nanoseconds", "microseconds", "milliseconds", "seconds", "minutes", "hours"}
# From here on, a constant is a limit or a size, and one more of it is no mistake that shows.
LARGE = 64
# Of tokens: a declaration and what follows it.
NEAR = 60


@dataclasses.dataclass(frozen=True)
class Mutation:
    """`text[start:end]` of the file becomes `replacement`."""

    path: str
    line: int
    start: int
    end: int
    replacement: str
    operator: str  # its name
    change: str  # for people, in one line: "before -> after"

    def apply(self, text: str) -> str:
        return text[: self.start] + self.replacement + text[self.end :]


def _change(source: Source, first: int, last: int, replacement: str, operator: str, shown: str = "") -> Mutation:
    """The tokens from `first` to `last` become `replacement`, which people are told as `shown`."""
    start, end = source.tokens[first].start, source.tokens[last].end
    before = " ".join(source.text[start:end].split())
    change = f"{before} -> {shown or replacement}"
    return Mutation(source.path, source.tokens[first].line, start, end, replacement, operator, change)


def _swapped(source: Source, table: dict[str, str], operator: str) -> Iterator[Mutation]:
    for index, token in enumerate(source.tokens):
        if token.kind == "operator" and token.text in table and source.is_spaced(index):
            yield _change(source, index, index, table[token.text], operator)


def comparison(source: Source) -> Iterator[Mutation]:
    """Asks for the opposite."""
    yield from _swapped(source, NEGATED, "comparison")


def boundary(source: Source) -> Iterator[Mutation]:
    """Is wrong by one."""
    yield from _swapped(source, BOUNDARY, "boundary")


def logical(source: Source) -> Iterator[Mutation]:
    """All for any."""
    yield from _swapped(source, LOGICAL, "logical")


def arithmetic(source: Source) -> Iterator[Mutation]:
    """Computes something else; texts are not computed with."""
    for index, token in enumerate(source.tokens):
        word, before, after = token.text, source.kind(index - 1), source.kind(index + 1)
        if token.kind != "operator" or "string" in (before, after) or "character" in (before, after):
            continue
        if word in STEPS and source.code[index]:
            yield _change(source, index, index, STEPS[word], "arithmetic")
        elif not source.is_spaced(index):
            continue
        elif word in ARITHMETIC:
            yield _change(source, index, index, ARITHMETIC[word], "arithmetic")
        elif word in ASSIGNING and source.code[index]:
            yield _change(source, index, index, ASSIGNING[word], "arithmetic")
        elif word == "<<" and (before == "number" or source.word(index - 1) == "}"):
            # Others are streams for the most part.
            yield _change(source, index, index, ">>", "arithmetic")


def negation(source: Source) -> Iterator[Mutation]:
    """Forgets a `!`."""
    for index, token in enumerate(source.tokens):
        if token.text == "!" and source.code[index]:
            yield _change(source, index, index, "", "negation", "left out")


def condition(source: Source) -> Iterator[Mutation]:
    """Leaves a condition out: what depends on it always happens, or never."""
    for index, token in enumerate(source.tokens):
        if token.text not in ("if", "while") or index + 1 not in source.closing or source.word(index + 1) != "(":
            continue
        first, last = index + 1, source.closing[index + 1]
        inside = [source.word(at) for at in range(first + 1, last)]
        # One that declares something, and what is no condition.
        if "=" in inside or ";" in inside or inside == ["true"]:
            continue
        text = source.text[source.tokens[first].start : source.tokens[last].end]
        yield _change(source, first, last, f"(false && {text})", "condition", "never")
        if token.text == "if":
            yield _change(source, first, last, f"(true || {text})", "condition", "always")


def statement(source: Source) -> Iterator[Mutation]:
    """Leaves a statement out: a call, an assignment, a jump."""
    for index in range(len(source.tokens)):
        if not source.code[index] or not _begins_statement(source, index):
            continue
        last = _statement_end(source, index)
        if last is not None:
            # Braces, because the statement may be all that an `if` has.
            yield _change(source, index, last, "{}", "statement", "left out")


def _begins_statement(source: Source, index: int) -> bool:
    before = source.word(index - 1)
    if before in (";", "{", "}", "else", "do"):
        return True
    if before != ")":
        return False
    # `if (...) here`: the bracket belongs to a keyword.
    return source.word(source.opening.get(index - 1, 0) - 1) in ("if", "for", "while")


def _statement_end(source: Source, index: int) -> int | None:
    """The index of the `;` of an expression that is a statement; None if it is something else."""
    if source.word(index) in ("break", "continue", "return"):
        return index + 1 if source.word(index + 1) == ";" else None
    at = index
    while source.word(at) in ("++", "--", "*"):
        at += 1
    if source.kind(at) != "name" or source.word(at) in NOT_EXPRESSIONS:
        return None
    called, callee = False, ""
    while True:
        word = source.word(at)
        if source.kind(at) == "name":
            callee = word
            at += 1
            # Two names in a row: a declaration.
            if source.kind(at) == "name":
                return None
        elif word in ("::", ".", "->"):
            at += 1
        elif word in ("(", "["):
            called = called or word == "("
            at = source.closing.get(at, at) + 1
        elif word == "<" and not source.is_spaced(at) and source.after_arguments(at) > at:
            at = source.after_arguments(at)
            if source.kind(at) == "name":
                return None
        elif word in ("++", "--"):
            called = True
            at += 1
        else:
            break
    if source.word(at) == ";":
        is_statement = called or source.word(index) in ("++", "--")
        return at if is_statement and callee not in ONLY_FASTER else None
    if source.word(at) != "=" and source.word(at) not in ASSIGNING:
        return None
    while at < len(source.tokens) and source.word(at) != ";":
        at = source.closing.get(at, at) + 1
    return at if source.word(at) == ";" else None


def constant(source: Source) -> Iterator[Mutation]:
    """One more, half as much, or the other of true and false."""
    for index, token in enumerate(source.tokens):
        if token.text in ("true", "false"):
            yield _change(source, index, index, "false" if token.text == "true" else "true", "constant")
        elif token.kind == "number" and not _is_size(source, index) and not _is_overwritten(source, index):
            match = INTEGER.fullmatch(token.text)
            if match:
                value = int(match[1].replace("'", ""), 0)
                other = value + 1 if value < LARGE else value // 2
                yield _change(source, index, index, f"{other}{match[2]}", "constant")


def _is_size(source: Source, index: int) -> bool:
    """A length: of time, of an array that is declared, or as an argument of a template."""
    if DURATIONS & {source.word(at) for at in range(index - 4, index)}:
        return True
    before, after = source.word(index - 1), source.word(index + 1)
    if after in (">", ">>") and not source.is_spaced(index + 1):
        return True
    return before == "[" and after == "]" and source.kind(index - 3) == "name"


def _is_overwritten(source: Source, index: int) -> bool:
    """What a variable of a function holds until another function, or a stream, has put something there."""
    name = source.word(index - 2)
    if not source.code[index] or source.word(index - 1) != "=" or source.word(index + 1) not in (";", ","):
        return False
    near = range(index + 1, index + NEAR)
    return any(source.word(at) in ("&", ">>") and source.word(at + 1) == name for at in near)


def memory_order(source: Source) -> Iterator[Mutation]:
    """Lets other threads see things in another order."""
    for index, token in enumerate(source.tokens):
        if token.kind == "name" and ORDERS.fullmatch(token.text):
            yield _change(source, index, index, WEAKER, "memory order")


OPERATORS: tuple[Callable[[Source], Iterator[Mutation]], ...] = (
    comparison,
    boundary,
    logical,
    arithmetic,
    negation,
    condition,
    statement,
    constant,
    memory_order,
)


def mutations_of(path: str, text: str) -> list[Mutation]:
    """All mutations of a source, in its order."""
    source = Source(path, text)
    places = {source.tokens[index].start for index in source.inert}
    found = [m for operator in OPERATORS for m in operator(source) if m.start not in places]
    return sorted(found, key=lambda m: (m.start, m.end, m.operator, m.replacement))
