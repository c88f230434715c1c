"""Counts the test cases of one `bazel test` from its build event file.

usage: count_tests.py EVENTS.json BAZEL_EXIT_STATUS TIMES SUITE

Appends "SECONDS NAME (SUITE)" to the file TIMES for every case that was run now, and not remembered. Prints the failed cases with what they said, why others were skipped, and as its last line "PASSED FAILED SKIPPED".
The count is pessimistic: a test that crashes, times out or cannot be built is a failure, whatever its XML says.
"""

import collections
import json
import re
import sys
import textwrap
import urllib.parse
import xml.etree.ElementTree as ElementTree

# Of what a failed test said: enough to begin with. The whole is in its log.
SAID_LINES = 40
LINE_BYTES = 400


class Tally:
    """Counts, and says what was not simply passed."""

    def __init__(self):
        self.passed = 0
        self.failures = []  # lines
        self.failed = 0
        self.times = []  # (seconds, name) of what was run now
        self.skipped = collections.defaultdict(collections.Counter)  # by reason, then by label

    def fail(self, name, reason, said=""):
        self.failed += 1
        self.failures.append(f"    FAILED  {name}: {reason}")
        self.failures += ["            " + line[:LINE_BYTES] for line in said.splitlines()[-SAID_LINES:]]

    def skip(self, label, reason):
        self.skipped[reason][label] += 1

    def skips(self):
        """A line for each reason, and whom it concerns: a missing GPU is one reason of hundreds of cases."""
        for reason, labels in self.skipped.items():
            yield f"    skipped {sum(labels.values())}: {reason}"
            cases = ", ".join(f"{label}({count})" for label, count in sorted(labels.items()))
            yield from textwrap.wrap(cases, 118, initial_indent=" " * 12, subsequent_indent=" " * 12,
                                     break_on_hyphens=False)


def read_events(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    except FileNotFoundError:
        return []  # Bazel stopped before its first event; its exit status tells.


def output_path(result, name):
    for output in result.get("testActionOutput", []):
        if output["name"] == name:
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def skip_reason(case):
    """GoogleTest writes "file:line\\nthe text of GTEST_SKIP()" into <skipped message=...>."""
    message = case.find("skipped").get("message") or ""
    return " ".join(re.sub(r"^\S+:\d+\s*", "", message).split()) or "no reason given"


def was_run(result):
    """Not remembered from an earlier run."""
    return not result.get("cachedLocally") and not result.get("executionInfo", {}).get("cachedRemotely")


def end_of_log(result):
    path = output_path(result, "test.log")
    try:
        with open(path or "", encoding="utf-8", errors="replace") as file:
            return "".join(collections.deque(file, SAID_LINES))
    except OSError as error:
        return f"its log cannot be read: {error}"


def count_cases(label, result, path, tally):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # Without a class it is Bazel's own summary of a test that wrote no results (it crashed).
        suite = case.get("classname")
        name = f"{label} {suite}.{case.get('name')}" if suite else label
        problem = case.find("failure")
        if problem is None:
            problem = case.find("error")
        if problem is not None:
            tally.fail(name, "failed", (suite and problem.get("message")) or end_of_log(result))
        elif case.find("skipped") is not None:
            tally.skip(label, skip_reason(case))
        elif case.get("status") == "notrun":
            tally.skip(label, "disabled")
        else:
            tally.passed += 1
        if was_run(result):
            tally.times.append((float(case.get("time") or 0), name))


def count_result(label, result, tally):
    """One run of one test target (or of one of its shards)."""
    failed_before = tally.failed
    passed = result.get("status") == "PASSED"
    path = output_path(result, "test.xml")
    if path:
        try:
            count_cases(label, result, path, tally)
        except (OSError, ElementTree.ParseError) as error:
            tally.fail(label, f"its results cannot be read: {error}")
    elif passed:
        tally.passed += 1
    # For example a sanitizer's report after the last case, or a leak.
    if not passed and tally.failed == failed_before:
        tally.fail(label, result.get("status", "no status"), end_of_log(result))


def main():
    events = read_events(sys.argv[1])
    bazel_status = int(sys.argv[2])
    tally = Tally()
    expected, seen = set(), set()
    for event in events:
        identity = event["id"]
        if "targetConfigured" in identity and "testSize" in event.get("configured", {}):
            expected.add(identity["targetConfigured"]["label"])
        elif "testResult" in identity and "testResult" in event:
            label = identity["testResult"]["label"]
            seen.add(label)
            count_result(label, event["testResult"], tally)
    for label in sorted(expected - seen):
        tally.fail(label, "was not built or not run")
    if bazel_status != 0 and not tally.failed:
        tally.fail("bazel test", f"exit status {bazel_status}")
    with open(sys.argv[3], "a", encoding="utf-8") as file:
        file.writelines(f"{seconds} {name} ({sys.argv[4]})\n" for seconds, name in tally.times)
    for line in (*tally.failures, *tally.skips()):
        print(line)
    print(tally.passed, tally.failed, sum(sum(labels.values()) for labels in tally.skipped.values()))


if __name__ == "__main__":
    main()
