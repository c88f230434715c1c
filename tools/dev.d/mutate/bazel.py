"""Bazel in the copy: which tests depend on a file, and what they say of it."""

import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.parse
import xml.etree.ElementTree as ElementTree

# What a mutant may take: memory of each process, without what it shares; and of the disk, until it is stopped. (A limit
# on files would meet the memory that workers share, too: files of more than all memory, most of which is never used.)
DATA_BYTES = 8 << 30
DISK_BYTES = 8 << 30
LOOK_EVERY_S = 2
OPTIONS = (
    # What mutants are made of is of no use to others.
    "--remote_upload_local_results=false",
    # Nothing is left there by a test that is killed.
    "--sandbox_tmpfs_path=/dev/shm",
    # The first test case that fails is enough.
    "--test_env=GTEST_FAIL_FAST=1",
    f"--run_under=/usr/bin/prlimit --data={DATA_BYTES}",
    "--test_output=summary",
    "--noshow_progress",
    "--color=no",
)
# Bazel's exit statuses; and that it was stopped.
PASSED, NOT_BUILT, FAILED, LATE = 0, 1, 3, -1
# What a program of tests takes, as long as it has not been measured.
SECONDS = {"small": 10.0, "medium": 60.0, "large": 300.0, "enormous": 900.0}
# That Bazel gets for stopping.
PATIENCE_S = 60
LOG_BYTES = 4000

CASE_FAILED = re.compile(r"^\[  FAILED  \] ([\w./]+)", re.MULTILINE)
CASE_RUN = re.compile(r"^\[ RUN      \] ([\w./]+)", re.MULTILINE)


class Broken(Exception):
    """Bazel could not do its work; the text has the end of what it said."""


@dataclasses.dataclass(frozen=True)
class Test:
    """A program of tests."""

    label: str
    size: str = "medium"
    tags: frozenset[str] = frozenset()

    @property
    def package(self) -> str:
        return self.label.removeprefix("//").split(":")[0]


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What a run of tests came to."""

    status: int  # PASSED, NOT_BUILT, FAILED, or LATE, also where too much was written
    label: str = ""  # of the program that failed
    case: str = ""  # its first case that did
    timed_out: bool = False  # it did not end
    at: float = dataclasses.field(default_factory=time.monotonic)  # when it was there


class Bazel:
    """Runs in `folder` with outputs in `output_base`. Threads: one."""

    def __init__(self, folder: str, output_base: str, log: str, jobs: int):
        self._folder = folder
        self._start = ["bazel", f"--output_base={output_base}"]
        self._log = log
        self._events = log + ".events"
        self._jobs = jobs
        # An exported one would silently choose another JDK than the distribution's.
        self._environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}

    def tests_of(self, path: str) -> list[Test]:
        """The programs of tests that are built from this file."""
        with open(self._log, "w", encoding="utf-8") as log:
            result = subprocess.run(
                [*self._start, "query", "--noshow_progress", "--output=xml", f"tests(rdeps(//tests/..., {path}))"],
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                check=False,
            )
        if result.returncode != 0:
            raise Broken(f"bazel does not know which tests depend on {path}: {self.end_of_log()}")
        return tests_in(result.stdout)

    def test(self, labels: list[str], limit_s: float) -> Verdict:
        """Builds and runs tests, for so long at most; those that have passed with the same sources are not run."""
        if os.path.exists(self._events):
            os.remove(self._events)
        command = [*self._start, "test", *OPTIONS, f"--jobs={self._jobs}", f"--build_event_json_file={self._events}"]
        command += ["--notest_keep_going"]
        status = self._run([*command, "--", *labels], limit_s)
        if status == FAILED:
            return self._failure()
        if status not in (PASSED, NOT_BUILT, LATE):
            raise Broken(f"bazel test ended with status {status}: {self.end_of_log()}")
        return Verdict(status)

    def close(self) -> None:
        """Ends Bazel's server."""
        subprocess.run(
            [*self._start, "shutdown"],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def _run(self, command: list[str], limit_s: float) -> int:
        """The exit status; LATE where it took too long, or too much of the disk, and was stopped."""
        deadline = time.monotonic() + limit_s
        free = shutil.disk_usage(self._folder).free
        with open(self._log, "w", encoding="utf-8") as log:
            process = subprocess.Popen(  # pylint: disable=consider-using-with
                command, cwd=self._folder, env=self._environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
            try:
                while time.monotonic() < deadline and shutil.disk_usage(self._folder).free > free - DISK_BYTES:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        return process.wait(min(LOOK_EVERY_S, max(0, deadline - time.monotonic())))
                self._stop(process)
                return LATE
            except BaseException:
                self._stop(process)
                raise

    @staticmethod
    def _stop(process: subprocess.Popen) -> None:
        """What runs in Bazel's server ends, too, before this returns."""
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            # Its third ends the server.
            for _ in range(2):
                process.send_signal(signal.SIGINT)
            process.wait()

    def _failure(self) -> Verdict:
        with open(self._events, encoding="utf-8") as file:
            events = [json.loads(line) for line in file if line.strip()]
        for event in events:
            identity, result = event["id"].get("testResult"), event.get("testResult")
            if identity and result and result.get("status") not in ("PASSED", "NO_STATUS"):
                case = failed_case(_log_of(result))
                return Verdict(FAILED, identity["label"], case, result["status"] == "TIMEOUT")
        raise Broken(f"bazel says that a test failed, and not which: {self.end_of_log()}")

    def end_of_log(self) -> str:
        """Of what the last command said."""
        with open(self._log, encoding="utf-8", errors="replace") as file:
            return file.read()[-LOG_BYTES:]


def tests_in(xml: bytes) -> list[Test]:
    """The tests of a query's answer."""
    found = []
    for rule in ElementTree.fromstring(xml).iter("rule"):
        sizes = [node.get("value") for node in rule.iter("string") if node.get("name") == "size"]
        tags = [node for node in rule.iter("list") if node.get("name") == "tags"]
        words = frozenset(item.get("value") for node in tags for item in node.iter("string"))
        found.append(Test(rule.get("name"), sizes[0] if sizes else "medium", words))
    return found


def failed_case(log: str) -> str:
    """The case that failed first; else the one that a crash or a timeout ended; nothing if none was begun."""
    failed = CASE_FAILED.search(log)
    begun = CASE_RUN.findall(log)
    return failed[1] if failed else begun[-1] if begun else ""


def _log_of(result: dict) -> str:
    for output in result.get("testActionOutput", []):
        if output["name"] == "test.log":
            path = urllib.parse.unquote(urllib.parse.urlparse(output["uri"]).path)
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(64 << 20)
    return ""
