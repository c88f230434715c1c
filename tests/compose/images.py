"""Builds the images that are tested, from the checkout as it is."""

import contextlib
import fcntl
import os
import signal
import sys

from engine import BASE, CACHE, ROOT, Engine, check, run

HERE = os.path.dirname(os.path.abspath(__file__))
PROMETHEUS = "localhost/lockstep-test/prometheus"


@contextlib.contextmanager
def alone():
    """While no other process has an engine: its folder is one engine's. Raises Unavailable where there can be none."""
    check()
    # As for a time-out: what was started is ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    os.makedirs(CACHE, exist_ok=True)
    with open(f"{CACHE}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build():
    with Engine(network=True) as engine:
        engine.make_base()
        run(
            [
                *("tools/dev", "image", "controller", "worker", "worker-fragments", "cli", "worker-cuda"),
                *("--", "--network=host"),
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


def version():
    with open(os.path.join(ROOT, "runtime/base/version.h"), encoding="utf-8") as file:
        return file.read().split('kBuildVersion[] = "')[1].split('"')[0]
