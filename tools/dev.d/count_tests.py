"""Counts the test cases of one `bazel test` from its build event file.

usage: count_tests.py EVENTS.json BAZEL_EXIT_STATUS

Prints the failed and the skipped cases, and as its last line "PASSED FAILED SKIPPED". The count is
pessimistic: a test that crashes, times out or cannot be built is a failure, whatever its XML says.
"""

import json
import re
import sys
import urllib.parse
import xml.etree.ElementTree as ElementTree


class Tally:
    """Counts, and the lines that say what was not simply passed."""

    def __init__(self):
        self.passed = 0
        self.failed = 0
        self.skipped = 0
        self.lines = []

    def fail(self, name, reason):
        self.failed += 1
        self.lines.append(f"    FAILED  {name}: {reason}")

    def skip(self, name, reason):
        self.skipped += 1
        self.lines.append(f"    skipped {name}: {reason}")


def read_events(path):
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file if line.strip()]
    except FileNotFoundError:
        return []  # Bazel stopped before its first event; its exit status tells.


def xml_path(result):
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.xml":
            return urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
    return None


def skip_reason(case):
    """GoogleTest writes "file:line\\nthe text of GTEST_SKIP()" into <skipped message=...>."""
    message = case.find("skipped").get("message") or ""
    return " ".join(re.sub(r"^\S+:\d+\s*", "", message).split()) or "no reason given"


def count_cases(label, path, tally):
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        # Without a class it is Bazel's own summary of a test that wrote no results (it crashed).
        suite = case.get("classname")
        name = f"{label} {suite}.{case.get('name')}" if suite else label
        if case.find("failure") is not None or case.find("error") is not None:
            tally.fail(name, "see its log above")
        elif case.find("skipped") is not None:
            tally.skip(name, skip_reason(case))
        elif case.get("status") == "notrun":
            tally.skip(name, "disabled")
        else:
            tally.passed += 1


def count_result(label, result, tally):
    """One run of one test target (or of one of its shards)."""
    failed_before = tally.failed
    passed = result.get("status") == "PASSED"
    path = xml_path(result)
    if path:
        try:
            count_cases(label, path, tally)
        except (OSError, ElementTree.ParseError) as error:
            tally.fail(label, f"its results cannot be read: {error}")
    elif passed:
        tally.passed += 1
    # For example a sanitizer's report after the last case, or a leak.
    if not passed and tally.failed == failed_before:
        tally.fail(label, result.get("status", "no status"))


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
    for line in tally.lines:
        print(line)
    print(tally.passed, tally.failed, tally.skipped)


if __name__ == "__main__":
    main()
