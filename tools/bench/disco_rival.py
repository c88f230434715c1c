#!/usr/bin/python3
"""The rival of syncs and calls: TVM Disco, whose workers are processes, too, and read commands from pipes.

    disco_rival WORKERS

Prints "NAME VALUE" a line: sync_p50_us, the median time until all workers have answered; commands_per_s, calls of a
native function without arguments until all workers have executed them.
"""
import ctypes
import importlib.util
import os
import signal
import statistics
import sys
import time

signal.alarm(60)

import tvm_ffi  # noqa: E402, F401: what the libraries below need

# Disco is in a library that `import tvm` does not load in time.
TVM = importlib.util.find_spec("tvm").submodule_search_locations[0]
for library in ("libtvm_runtime.so", "libtvm_runtime_extra.so"):
    ctypes.CDLL(os.path.join(TVM, "lib", library), ctypes.RTLD_GLOBAL)

from tvm.runtime.disco import ProcessSession  # noqa: E402

WARM_UPS = 300
SYNC_SECONDS = 0.4
CALLS = 20_000


def sync_micros(session):
    for _ in range(WARM_UPS):
        session._sync_all()
    times = []
    end = time.perf_counter() + SYNC_SECONDS
    start = time.perf_counter()
    while start < end:
        session._sync_all()
        now = time.perf_counter()
        times.append((now - start) * 1e6)
        start = now
    return statistics.median(times)


def calls_per_second(session):
    function = session.get_global_func("ffi.Shape")
    session._sync_all()
    start = time.perf_counter()
    for _ in range(CALLS):
        session.call_packed(function)
    session._sync_all()
    return CALLS / (time.perf_counter() - start)


def main():
    session = ProcessSession(num_workers=int(sys.argv[1]))
    print("sync_p50_us", sync_micros(session))
    print("commands_per_s", calls_per_second(session))
    session.shutdown()


if __name__ == "__main__":
    main()
