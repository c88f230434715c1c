"""Builds the images, runs them and docker/compose.yaml on an engine of its own, and counts.

usage: run.py BINARIES [NAME...]

BINARIES: Bazel's folder of the optimised build, whose command line is the client. NAME: only tests whose names contain
one of these. The last line is "PASSED FAILED SKIPPED", as that of tools/dev.d/count_tests.py.
"""

import os
import sys
import unittest

from compose_test import ComposeTest
from engine import Engine, Unavailable
from images import PROMETHEUS, alone, build, version
from images_test import ImagesTest
from observability_gpu_test import ObservabilityGpuTest
from observability_test import ObservabilityTest
from observability_texts_test import ObservabilityTextsTest


def run_tests(binaries, names):
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{name}*" for name in names] or None
    cases = (ImagesTest, ComposeTest, ObservabilityTextsTest, ObservabilityTest, ObservabilityGpuTest)
    suite = unittest.TestSuite(loader.loadTestsFromTestCase(case) for case in cases)
    if suite.countTestCases() == 0:
        raise LookupError(f"no test's name contains: {' '.join(names)}")
    with Engine(network=False) as engine:
        for case in cases:
            case.engine = engine
            case.binaries = binaries
            case.version = version()
        for case in (ObservabilityTextsTest, ObservabilityTest, ObservabilityGpuTest):
            case.image = PROMETHEUS
        return unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)


def main():
    binaries, *names = sys.argv[1:]
    try:
        with alone():
            build()
            result = run_tests(os.path.abspath(binaries), names)
    except Unavailable as reason:
        print(f"    skipped tests/compose: {reason}")
        print("0 0 1")
        return 0
    except Exception as error:  # pylint: disable=broad-except
        print(f"    FAILED  tests/compose: {error}")
        print("0 1 0")
        return 1
    bad = len(result.failures) + len(result.errors)
    for test, _ in result.failures + result.errors:
        print(f"    FAILED  tests/compose: {test}")
    # What was not run because its class could not be set up is not among those that ran.
    not_run = {test for test, _ in result.failures + result.errors if not isinstance(test, unittest.TestCase)}
    print(max(0, result.testsRun - bad + len(not_run) - len(result.skipped)), bad, len(result.skipped))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
