#!/usr/bin/python3
"""The rivals of fragments: the same iterations by NumPy, in one process with one thread, or by Dask, with as many
workers as processes.

    numpy_rival numpy|dask ROWS STEPS WORKERS

Prints "NAME VALUE" a line, in microseconds for a step: the median of STEPS. Dask's array is idle between steps, and its
data lies in the workers' memory before the first one.
"""
import os
import signal
import statistics
import sys
import time

signal.alarm(300)
for threads in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[threads] = "1"

import numpy as np  # noqa: E402: it reads the above

COLUMNS = 64
CLUSTERS = 10


def micros_per_step(step, state, steps):
    state = step(state)
    times = []
    for _ in range(steps):
        start = time.perf_counter()
        state = step(state)
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times)


def with_numpy(rows, steps):
    random = np.random.default_rng(1)
    x = random.standard_normal((rows, COLUMNS))
    y = (x[:, 0] > 0).astype(float)

    def k_means(centres):
        labels = (x @ centres.T - (centres * centres).sum(axis=1) / 2).argmax(axis=1)
        members = np.zeros((rows, CLUSTERS))
        members[np.arange(rows), labels] = 1
        return (members.T @ x) / np.maximum(members.sum(axis=0), 1)[:, None]

    def regression(w):
        return w - 0.5 / rows * ((1 / (1 + np.exp(-(x @ w))) - y) @ x)

    return (micros_per_step(k_means, x[:CLUSTERS].copy(), steps),
            micros_per_step(regression, np.zeros(COLUMNS), steps))


def with_dask(rows, steps, workers):
    import dask
    import dask.array as da
    from distributed import Client, LocalCluster

    with dask.config.set({"distributed.worker.daemon": True}), \
            LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None) as cluster, \
            Client(cluster) as client:
        chunk = (rows + workers - 1) // workers
        random = da.random.default_rng(1)
        x = client.persist(random.standard_normal((rows, COLUMNS), chunks=(chunk, COLUMNS)))
        y = client.persist((x[:, 0] > 0).astype(float))
        x[0].compute(), y.sum().compute()

        def k_means(centres):
            labels = (x @ centres.T - (centres * centres).sum(axis=1) / 2).argmax(axis=1)
            members = (labels[:, None] == np.arange(CLUSTERS)).astype(float)
            sums, counts = dask.compute(members.T @ x, members.sum(axis=0))
            return sums / np.maximum(counts, 1)[:, None]

        def regression(w):
            return w - 0.5 / rows * ((1 / (1 + da.exp(-(x @ w))) - y) @ x).compute()

        return (micros_per_step(k_means, x[:CLUSTERS].compute(), steps),
                micros_per_step(regression, np.zeros(COLUMNS), steps))


def main():
    kind, rows, steps, workers = sys.argv[1], *map(int, sys.argv[2:5])
    k_means, regression = with_numpy(rows, steps) if kind == "numpy" else with_dask(rows, steps, workers)
    print("k_means", k_means)
    print("regression", regression)


if __name__ == "__main__":
    main()
