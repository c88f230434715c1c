"""Whether a test notices a mutation: which tests are asked, in which order, and when their answer counts."""

import dataclasses
import json
import os
import time
from collections.abc import Callable

from mutate.bazel import FAILED, LATE, NOT_BUILT, PASSED, SECONDS, Bazel, Broken, Test, Verdict
from mutate.operators import Mutation
from mutate.sources import Copy

UNIT_TESTS = "tests/unit/"
# They need the machine itself: networks of its own, a GPU; or are started by hand.
NOT_ASKED = {"local", "gpu", "manual"}
# They take minutes, or the machine for themselves.
SLOW = {"slow", "exclusive"}

# Without a mutation, everything may have to be built first.
UNCHANGED_LIMIT_S = 3600.0

KILLED, SURVIVED, NOT_COMPILED, NOT_ANSWERED, UNTESTED = "killed", "SURVIVED", "not compiled", "no answer", "no tests"


@dataclasses.dataclass(frozen=True)
class Outcome:
    mutation: Mutation
    kind: str  # one of the above
    seconds: float  # from the beginning of the build to the answer
    by: str = ""  # the test that killed it; of one that survived, how many were asked


def ladder(
    path: str, tests: list[Test], includers: set[str], seconds: Callable[[Test], float], with_slow: bool
) -> list[list[Test]]:
    """The programs to ask: together those that belong to the file's folder, then others one by one.

    The first are the unit tests of the nearest folder around the file that has any. Then come unit tests before others,
    and of either those in `includers`, the packages whose tests include the file's header, before the rest; the quick
    ones before the slow.
    """
    leave_out = NOT_ASKED if with_slow else NOT_ASKED | SLOW
    asked = [test for test in tests if not test.tags & leave_out]
    packages = {test.package for test in asked}
    folder = os.path.dirname(path)
    while folder and UNIT_TESTS + folder not in packages:
        folder = os.path.dirname(folder)
    mirror = [test for test in asked if folder and test.package == UNIT_TESTS + folder]

    def order(test: Test) -> tuple:
        is_slow, is_unit = bool(test.tags & SLOW), test.package.startswith(UNIT_TESTS)
        return is_slow, not is_unit, test.package not in includers, seconds(test), test.label

    others = sorted((test for test in asked if test not in mirror), key=order)
    return ([mirror] if mirror else []) + [[test] for test in others]


def includers_of(path: str, root: str) -> set[str]:
    """The folders below tests/ with a file that includes this file's header."""
    line = f'#include "{os.path.splitext(path)[0]}.h"'
    found = set()
    for folder, _, names in os.walk(os.path.join(root, "tests")):
        for name in names:
            if name.endswith((".cc", ".h")):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    if line in file.read():
                        found.add(os.path.relpath(folder, root))
                        break
    return found


class Times:
    """How long programs of tests took to build and to pass when they were asked last, kept in a file."""

    def __init__(self, path: str):
        self._path = path
        self._seconds: dict[str, float] = {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                self._seconds = json.load(file)

    def of(self, test: Test) -> float:
        return self._seconds.get(test.label, SECONDS[test.size])

    def passed(self, label: str, seconds: float) -> None:
        self._seconds[label] = round(seconds, 1)
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(self._seconds, file, indent=1, sort_keys=True)


class Judge:
    """Tries mutations one at a time. Threads: one."""

    def __init__(
        self, copy: Copy, bazel: Bazel, times: Times, limit_s: float, with_slow: bool, tell: Callable[[str], None]
    ):
        self._copy = copy
        self._bazel = bazel
        self._times = times
        self._limit_s = limit_s
        self._with_slow = with_slow
        self._tell = tell  # what should be known besides the outcomes
        self._ladders: dict[str, list[list[Test]]] = {}
        self._sound: dict[str, bool] = {}  # whether a program passes without a mutation

    def judge(self, mutation: Mutation) -> Outcome:
        rungs = self._rungs(mutation.path)
        if not rungs:
            return Outcome(mutation, UNTESTED, 0, "no test is built from this file")
        # Built before, so that a mutation is charged with what it changes alone.
        for test in rungs[0]:
            self._is_sound(test.label)
        start = time.monotonic()
        asked = 0
        for rung in rungs:
            verdict, labels = self._ask(mutation, rung, start + self._limit_s)
            seconds = verdict.at - start
            if verdict.status == NOT_BUILT:
                return Outcome(mutation, NOT_COMPILED, seconds)
            if verdict.status == FAILED:
                by = f"{verdict.label} {verdict.case}" + (" (did not end)" if verdict.timed_out else "")
                return Outcome(mutation, KILLED, seconds, by)
            if verdict.status == LATE:
                late = f"{asked} programs of tests passed; the time was over at {labels[0]}"
                return Outcome(mutation, SURVIVED if asked else NOT_ANSWERED, seconds, late)
            asked += len(labels)
        if not asked:
            return Outcome(mutation, UNTESTED, 0, "every test that is built from this file fails without a mutation")
        return Outcome(mutation, SURVIVED, time.monotonic() - start, f"{asked} programs of tests passed: all")

    def _rungs(self, path: str) -> list[list[Test]]:
        if path not in self._ladders:
            tests, includers = self._bazel.tests_of(path), includers_of(path, self._copy.folder)
            self._ladders[path] = ladder(path, tests, includers, self._times.of, self._with_slow)
        return self._ladders[path]

    def _ask(self, mutation: Mutation, rung: list[Test], deadline: float) -> tuple[Verdict, list[str]]:
        """What the sound ones of these programs say, and which they are. A failure counts if it is repeated with the
        mutation and does not come without it."""
        while True:
            labels = [test.label for test in rung if self._sound.get(test.label, True)]
            if not labels:
                return Verdict(PASSED), labels
            begun = time.monotonic()
            with self._copy.mutated(mutation):
                verdict = self._bazel.test(labels, max(1, deadline - begun))
                if verdict.status == PASSED and len(labels) == 1:
                    self._times.passed(labels[0], verdict.at - begun)
                if verdict.status != FAILED:
                    return verdict, labels
                # What it says now is remembered, should it pass.
                if not verdict.timed_out and self._bazel.test([verdict.label], self._limit_s).status != FAILED:
                    self._tell(f"{verdict.label} {verdict.case} failed, and passed when repeated: not counted")
                    continue
            if self._is_sound(verdict.label):
                return verdict, labels

    def _is_sound(self, label: str) -> bool:
        if label not in self._sound:
            verdict = self._bazel.test([label], UNCHANGED_LIMIT_S)
            if verdict.status == NOT_BUILT:
                raise Broken(f"{label} is not built from the unchanged sources: {self._bazel.end_of_log()}")
            self._sound[label] = verdict.status == PASSED
            if not self._sound[label]:
                why = "took too long" if verdict.status == LATE else f"{verdict.case} failed"
                self._tell(f"{label} is not asked: {why} without a mutation")
        return self._sound[label]
