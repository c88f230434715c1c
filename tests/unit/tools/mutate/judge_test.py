"""Which tests are asked about a mutation, and when their answer counts."""

import os
import tempfile
import unittest

from mutate.bazel import FAILED, LATE, NOT_BUILT, PASSED, Broken, Test, Verdict, failed_case, tests_in
from mutate.judge import KILLED, NOT_ANSWERED, NOT_COMPILED, SURVIVED, UNTESTED
from mutate.judge import Judge, Outcome, Times, includers_of, ladder
from mutate.operators import mutations_of
from mutate.report import counts, row, survivors
from mutate.sources import Copy

PATH = "runtime/base/a.cc"
TEXT = "bool F(int a) {\n  return a < 2;\n}\n"
UNIT = Test("//tests/unit/runtime/base:base_test", "small")
OTHER = Test("//tests/unit/runtime/client:client_test", "small")
WHOLE = Test("//tests/integration:smoke_test")


class LadderTest(unittest.TestCase):
    def labels(self, path, tests, includers=(), with_slow=False):
        seconds = {WHOLE.label: 5.0}
        rungs = ladder(path, tests, set(includers), lambda test: seconds.get(test.label, 10.0), with_slow)
        return [[test.label for test in rung] for rung in rungs]

    def test_the_folders_own_come_first_together_then_unit_tests_then_others(self):
        files = Test("//tests/unit/runtime/base:files_test", "small")
        self.assertEqual(
            self.labels(PATH, [WHOLE, OTHER, files, UNIT]),
            [[files.label, UNIT.label], [OTHER.label], [WHOLE.label]],
        )

    def test_a_folder_without_tests_has_those_of_the_one_around_it(self):
        self.assertEqual(self.labels("runtime/base/deep/a.cc", [OTHER, UNIT])[0], [UNIT.label])

    def test_those_that_include_the_header_come_before_the_rest(self):
        third = Test("//tests/unit/runtime/tensor:tensor_test", "small")
        rungs = self.labels(PATH, [OTHER, third, UNIT], includers=["tests/unit/runtime/tensor"])
        self.assertEqual(rungs, [[UNIT.label], [third.label], [OTHER.label]])

    def test_the_slow_are_asked_last_if_at_all_and_what_needs_the_machine_never(self):
        slow = Test("//tests/unit/a:slow_test", "small", frozenset({"slow"}))
        local = Test("//tests/unit/a:local_test", "small", frozenset({"local"}))
        self.assertEqual(self.labels(PATH, [slow, local, WHOLE, UNIT]), [[UNIT.label], [WHOLE.label]])
        self.assertEqual(
            self.labels(PATH, [slow, local, WHOLE, UNIT], with_slow=True),
            [[UNIT.label], [WHOLE.label], [slow.label]],
        )


class FakeBazel:
    """Fails what it is told to: `with_mutation` and `without`, by label, each a list of verdicts that are used up."""

    def __init__(self, file, tests=(UNIT, OTHER), with_mutation=None, without=None):
        self._file = file
        self._tests = list(tests)
        self._with_mutation = with_mutation or {}
        self._without = without or {}
        self.asked = []
        self.limits = []
        self.limits_without = []

    def tests_of(self, _path):
        return self._tests

    def test(self, labels, limit_s):
        with open(self._file, encoding="utf-8") as file:
            is_mutated = file.read() != TEXT
        (self.limits if is_mutated else self.limits_without).append(limit_s)
        if is_mutated:
            self.asked += labels
        for label in labels:
            verdicts = (self._with_mutation if is_mutated else self._without).get(label)
            if verdicts and verdicts[0].status != PASSED:
                return verdicts.pop(0)
            if verdicts:
                verdicts.pop(0)
        return Verdict(PASSED)

    def end_of_log(self):
        return "what it said"


def failures(label, count=2, **facts):
    return {label: [Verdict(FAILED, label, "ATest.B", **facts) for _ in range(count)]}


class JudgeTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = directory.name + "/root"
        os.makedirs(self.root + "/runtime/base")
        with open(f"{self.root}/{PATH}", "w", encoding="utf-8") as file:
            file.write(TEXT)
        self.copy = Copy(self.root, [PATH], directory.name + "/sources")
        self.addCleanup(self.copy.close)
        self.times = Times(directory.name + "/times.json")
        self.mutation = mutations_of(PATH, TEXT)[0]
        self.told = []

    def judge(self, **behaviour):
        self.bazel = FakeBazel(f"{self.copy.folder}/{PATH}", **behaviour)
        judge = Judge(self.copy, self.bazel, self.times, 60, False, self.told.append)
        outcome = judge.judge(self.mutation)
        with open(f"{self.copy.folder}/{PATH}", encoding="utf-8") as file:
            self.assertEqual(file.read(), TEXT)
        return outcome

    def test_the_first_test_that_fails_kills(self):
        outcome = self.judge(with_mutation=failures(UNIT.label))
        self.assertEqual((outcome.kind, outcome.by), (KILLED, UNIT.label + " ATest.B"))
        self.assertNotIn(OTHER.label, self.bazel.asked)

    def test_one_that_does_not_end_kills_and_is_not_repeated(self):
        outcome = self.judge(with_mutation=failures(UNIT.label, 1, timed_out=True))
        self.assertEqual((outcome.kind, outcome.by), (KILLED, UNIT.label + " ATest.B (did not end)"))

    def test_what_all_pass_survives(self):
        outcome = self.judge()
        self.assertEqual((outcome.kind, outcome.by), (SURVIVED, "2 programs of tests passed: all"))
        self.assertEqual(self.bazel.asked, [UNIT.label, OTHER.label])

    def test_what_is_not_known_when_the_time_is_over_survives(self):
        outcome = self.judge(with_mutation={OTHER.label: [Verdict(LATE)]})
        self.assertEqual(outcome.kind, SURVIVED)
        self.assertEqual(outcome.by, f"1 programs of tests passed; the time was over at {OTHER.label}")

    def test_the_limit_is_the_mutations_and_not_that_of_the_first_build(self):
        self.judge()
        self.assertLessEqual(max(self.bazel.limits), 60)
        self.assertGreaterEqual(min(self.bazel.limits_without), 3600)

    def test_what_no_test_has_answered_has_not_survived(self):
        self.assertEqual(self.judge(with_mutation={UNIT.label: [Verdict(LATE)]}).kind, NOT_ANSWERED)

    def test_what_does_not_compile_is_not_killed(self):
        self.assertEqual(self.judge(with_mutation={UNIT.label: [Verdict(NOT_BUILT)]}).kind, NOT_COMPILED)

    def test_a_failure_that_is_not_repeated_does_not_count(self):
        self.assertEqual(self.judge(with_mutation=failures(UNIT.label, 1)).kind, SURVIVED)
        self.assertEqual(self.told, [UNIT.label + " ATest.B failed, and passed when repeated: not counted"])

    def test_a_test_that_fails_without_a_mutation_is_not_asked(self):
        outcome = self.judge(with_mutation=failures(UNIT.label, 9), without=failures(UNIT.label, 9))
        self.assertEqual(outcome.kind, SURVIVED)
        self.assertEqual(self.told, [UNIT.label + " is not asked: ATest.B failed without a mutation"])

    def test_what_no_sound_test_was_asked_about_is_not_counted(self):
        outcome = self.judge(tests=[UNIT], with_mutation=failures(UNIT.label, 9), without=failures(UNIT.label, 9))
        self.assertEqual(outcome.kind, UNTESTED)

    def test_sources_that_do_not_build_are_an_error(self):
        with self.assertRaisesRegex(Broken, "is not built from the unchanged sources: what it said"):
            self.judge(without={UNIT.label: [Verdict(NOT_BUILT)]})

    def test_a_file_that_no_test_is_built_from_is_told(self):
        self.assertEqual(self.judge(tests=[]).kind, UNTESTED)

    def test_times_are_remembered(self):
        self.assertEqual(self.times.of(WHOLE), 60.0)
        self.times.passed(WHOLE.label, 3.21)
        self.assertEqual(Times(os.path.dirname(self.root) + "/times.json").of(WHOLE), 3.2)

    def test_includers_are_the_folders_of_tests_that_name_the_header(self):
        for name, text in (("tests/a/x.cc", '#include "runtime/base/a.h"\n'), ("tests/b/x.cc", "\n")):
            os.makedirs(os.path.dirname(f"{self.root}/{name}"), exist_ok=True)
            with open(f"{self.root}/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        self.assertEqual(includers_of(PATH, self.root), {"tests/a"})


class AnswersTest(unittest.TestCase):
    def test_tests_are_read_from_a_query(self):
        xml = b"""<query><rule class="cc_test" name="//tests/a:b_test"><string name="size" value="small"/>
            <list name="tags"><string value="slow"/></list></rule><rule class="sh_test" name="//tests/c:d"/></query>"""
        self.assertEqual(
            tests_in(xml), [Test("//tests/a:b_test", "small", frozenset({"slow"})), Test("//tests/c:d", "medium")]
        )

    def test_a_log_names_the_case_that_failed_or_the_one_that_it_ends_in(self):
        self.assertEqual(failed_case("[ RUN      ] A.B\n[  FAILED  ] A.B (1 ms)\n[ RUN      ] A.C\n"), "A.B")
        self.assertEqual(failed_case("[ RUN      ] A.B\n[       OK ] A.B\n[ RUN      ] A.C/0\nSIGSEGV\n"), "A.C/0")
        self.assertEqual(failed_case("cannot start\n"), "")


class ReportTest(unittest.TestCase):
    def outcome(self, kind, seconds=1.0):
        return Outcome(mutations_of(PATH, TEXT)[0], kind, seconds, "//tests:a_test A.B")

    def test_a_row_says_where_what_and_by_which_test(self):
        cells = row(self.outcome(KILLED, 4.25)).split()
        self.assertEqual(cells[:4], ["killed", "4.2", "runtime/base/a.cc:2", "boundary"])
        self.assertEqual(cells[-5:], ["<", "->", "<=", "//tests:a_test", "A.B"])

    def test_only_what_compiles_and_is_tested_is_counted(self):
        kinds = [KILLED, SURVIVED, NOT_COMPILED, KILLED, UNTESTED, KILLED, NOT_ANSWERED]
        self.assertEqual(
            counts([self.outcome(kind, seconds) for seconds, kind in enumerate(kinds)]),
            "3 of 4 killed, in the median after 3.0 s; 1 survived; replaced: 1 that did not compile,"
            " 1 of files without tests, 1 that no test answered in time",
        )
        self.assertTrue(counts([]).startswith("0 of 0 killed; 0 survived"))

    def test_survivors_are_told_with_their_line(self):
        lines = survivors([self.outcome(KILLED), self.outcome(SURVIVED)], {PATH: TEXT})
        self.assertEqual(lines[0], "survived runtime/base/a.cc:2 (boundary): return a < 2;")
