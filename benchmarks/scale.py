"""Time and memory for large data, and what workers cost and gain; ``--json`` keeps the figures.

Memory is measured in processes of their own, as the largest resident size while an audit runs, less that before it. CPU
time is that of this process. Figures on workers need a machine that does nothing else.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import warnings
from contextlib import contextmanager

import joblib
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import LeaveOneGroupOut

import outofcluster as ooc
from _figures import Figures, run
from outofcluster.problem.folds import make_folds

MEMORY = {"frame": 80e6, "float32": 40e6, "C array": 80e6}
"""Bytes of 200,000 records with 50 columns, by what holds them."""


class Free(RegressorMixin, BaseEstimator):
    """A model that costs nothing."""

    def fit(self, X, y):
        self.fitted_ = True
        return self

    def predict(self, X):
        return np.zeros(len(X))


class Slow(ClassifierMixin, BaseEstimator):
    """A model that takes 50 ms and no processor."""

    def fit(self, X, y):
        time.sleep(0.05)
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


def records(n, clusters, columns, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, clusters, n)
    X = rng.standard_normal((clusters, columns))[groups] + noise * rng.standard_normal((n, columns))
    return X, X[:, 0] + rng.standard_normal(n), groups


def own_time(figures: Figures, quick: bool) -> None:
    n = 100_000 if quick else 1_000_000
    X, y, groups = records(n, n // 10, 20)
    started = time.process_time()
    ooc.audit(Free(), X, y, groups=groups, leakage=0.1, error_model="fragments", n_fits=60, random_state=0)
    what = f"fragments, {n:,} × 20, {n // 10:,} clusters, 60 fits of a free model: CPU seconds"
    figures.at_most(what, time.process_time() - started, 10)


def of_folds(figures: Figures) -> None:
    groups = np.random.default_rng(0).integers(0, 1000, 200_000)
    X = np.zeros((200_000, 1))
    before = time.process_time()
    for _ in LeaveOneGroupOut().split(X, None, groups):
        pass
    theirs = time.process_time() - before
    import tracemalloc

    started = time.process_time()
    make_folds(X, None, groups, LeaveOneGroupOut())
    ours = time.process_time() - started
    tracemalloc.start()
    kept = make_folds(X, None, groups, LeaveOneGroupOut())
    figures.at_most("leave one of 1,000 groups out, 200,000 records: time over scikit-learn's", ours / theirs, 1.5)
    figures.at_most("the same: megabytes", tracemalloc.get_traced_memory()[1] / 1e6, 200)
    tracemalloc.stop()
    del kept


def growth(figures: Figures, quick: bool) -> None:
    def seconds(n):
        X, y, groups = records(n, 40, 10, noise=1.0)
        started = time.process_time()
        options = {"n_fits": 900} if quick else {}
        ooc.audit(LogisticRegression(), X, y > 0, groups=groups, leakage=0.1, random_state=0, **options)
        return time.process_time() - started

    seconds(2000)
    small, large = (2000, 20_000) if quick else (10_000, 100_000)
    name = f"logistic regression, default audit, {large:,} over {small:,} records: time"
    figures.at_most(name, seconds(large) / seconds(small), 10)


def memory_of(kind: str) -> None:
    """In a process of its own: print by how many bytes an audit makes it larger."""
    X, y, groups = records(300, 30, 5)
    ooc.audit(Ridge(), X, y, groups=groups, leakage=0.1, n_fits=60, random_state=0)
    X = np.empty((200_000, 50), dtype=np.float32 if kind == "float32" else np.float64)
    rng = np.random.default_rng(0)
    for column in range(50):
        X[:, column] = rng.standard_normal(200_000)
    y, groups = X[:, 0] + rng.standard_normal(200_000), rng.integers(0, 20_000, 200_000)
    if kind == "frame":
        import pandas as pd

        X = pd.DataFrame(X)
    page, done, largest = os.sysconf("SC_PAGE_SIZE"), threading.Event(), [0]

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * page

    def watch():
        while not done.wait(0.002):
            largest[0] = max(largest[0], resident())

    before = resident()
    watching = threading.Thread(target=watch)
    watching.start()
    ooc.audit(Ridge(), X, y, groups=groups, leakage=0.1, n_fits=60, random_state=0)
    done.set()
    watching.join()
    print(largest[0] - before)


def of_memory(figures: Figures, quick: bool) -> None:
    for kind, size in MEMORY.items():
        out = subprocess.run([sys.executable, __file__, "--memory", kind], capture_output=True, text=True, check=True)
        figures.at_most(f"Ridge, 200,000 × 50, {kind}: added memory over the data", int(out.stdout) / size, 2.5)
        if quick:
            return


@contextmanager
def on_dask():
    import distributed

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster),
        joblib.parallel_config("dask"),
    ):
        yield


@contextmanager
def on_ray():
    import ray
    from ray.util.joblib import register_ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": paths})
        register_ray()
    try:
        with joblib.parallel_config("ray", n_jobs=-1):
            yield
    finally:
        ray.shutdown()


def of_workers(figures: Figures, quick: bool) -> None:
    X, y, groups = records(2000, 200, 20)
    split = {"train": np.arange(1600), "validation": np.arange(1600, 2000), "groups": groups}

    def seconds(model, n_fits, n_jobs):
        def call(fits):
            started = time.perf_counter()
            ooc.sample_losses(model, X, y > 0, **split, n_fits=fits, random_state=0, n_jobs=n_jobs)
            return time.perf_counter() - started

        call(24)  # Workers start, and import what they need.
        return call(n_fits)

    forest, fits = RandomForestClassifier(20), 100 if quick else 400
    alone = seconds(forest, fits, 1)
    figures.at_least(f"forest, {fits} fits, 2 processes over 1: speed-up", alone / seconds(forest, fits, 2), 1.7)
    for name, cluster, speed, cost in (("Dask", on_dask, 1.6, 5), ("Ray", on_ray, None, 15)):
        try:
            with cluster():
                gain = alone / seconds(forest, fits, -1)
                if speed is None:
                    figures.note(f"the same on {name}: speed-up", gain)
                else:
                    figures.at_least(f"the same on {name}: speed-up", gain, speed)
                ideal = fits * 0.05 / 2
                taken = seconds(Slow(), fits, -1)
                figures.at_most(
                    f"{name}, {fits} fits of 50 ms, 2 workers: own cost in %", 100 * (taken / ideal - 1), cost
                )
        except ImportError:
            print(f"       {name} is not installed", flush=True)


def measure(figures: Figures, quick: bool) -> None:
    own_time(figures, quick)
    of_folds(figures)
    of_memory(figures, quick)
    of_workers(figures, quick)
    growth(figures, quick)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        memory_of(sys.argv[2])
        sys.exit(0)
    sys.exit(run(__doc__, measure, ("outofcluster", "numpy", "scipy", "scikit-learn", "joblib")))
