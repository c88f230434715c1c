"""Builds the images, runs them and docker/compose.yaml on an engine of its own, and counts.

usage: run.py BINARIES [NAME...]

BINARIES: Bazel's folder of the optimised build, whose command line is the client. NAME: only tests whose names contain
one of these. The last line is "PASSED FAILED SKIPPED", as that of tools/dev.d/count_tests.py.
"""

import fcntl
import os
import signal
import sys
import unittest

from compose_test import ComposeTest
from engine import BASE, CACHE, ROOT, Engine, Unavailable, check, run
from images_test import ImagesTest
from observability_gpu_test import ObservabilityGpuTest
from observability_test import ObservabilityTest
from observability_texts_test import ObservabilityTextsTest

HERE = os.path.dirname(os.path.abspath(__file__))
PROMETHEUS = "lockstep-test/prometheus"


def build_images():
    with Engine(network=True) as engine:
        engine.make_base()
        run(
            [
                *("tools/dev", "image", "controller", "worker", "cli", "worker-cuda", "--", "--network=host"),
                # In the place of NVIDIA's, which is out of reach: one that has none of the worker's libraries.
                f"--build-arg=CUDA_BASE={BASE}",
            ],
            env=engine.environment,
            cwd=ROOT,
            timeout=900,
        )
        engine.docker(
            *("build", "--network=host", "--tag", PROMETHEUS, "--build-arg", f"BASE={BASE}"),
            *("--file", os.path.join(HERE, "prometheus.Dockerfile"), HERE),
        )
        # What earlier runs have made is not kept for ever.
        engine.docker("image", "prune", "--force")
        engine.docker("builder", "prune", "--force", "--keep-storage", "2GB")


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


def version():
    with open(os.path.join(ROOT, "runtime/control/host.h"), encoding="utf-8") as file:
        return file.read().split('kBuildVersion[] = "')[1].split('"')[0]


def main():
    binaries, *names = sys.argv[1:]
    try:
        check()
        os.makedirs(CACHE, exist_ok=True)
        # As for a time-out: what was started is ended.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
        with open(f"{CACHE}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # an engine's folder is one engine's
            build_images()
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
