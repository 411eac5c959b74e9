"""Speed of the sampling engine, next to a plain scikit-learn loop in the same run.

    python benchmarks/sampling.py [--json FILE] [--quick]

The plain loop is what one would write: joblib over replicates, each cloning the estimator, fitting it to a bootstrap
of the training rows and scoring it on the validation rows. Compilation is paid before the clock starts, as it is paid
once on a machine, except where a first audit is timed: it starts without compiled code. Data are simulated.
Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import outofcluster as ooc
from _figures import Figures, ratio, run


def data(n_train_rows: int, n_validation_rows: int, d: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_train_rows + n_validation_rows, d))
    y = (X[:, 0] + 0.8 * rng.standard_normal(len(X)) > 0).astype(int)
    return X, y, np.arange(n_train_rows), np.arange(n_train_rows, len(X))


def plain_seconds(estimator: Any, X: Any, y: Any, train: Any, validation: Any, n: int, fits: int) -> float:
    """Seconds for one replicate of the plain loop, 2 workers."""

    def one(seed: int) -> float:
        warnings.simplefilter("ignore")
        rows = np.random.default_rng(seed).choice(train, n)
        return float(clone(estimator).fit(X[rows], y[rows]).score(X[validation], y[validation]))

    with Parallel(2) as parallel:
        parallel(delayed(one)(seed) for seed in range(20))
        start = time.perf_counter()
        parallel(delayed(one)(seed) for seed in range(fits))
        return (time.perf_counter() - start) / fits


def our_seconds(
    estimator: Any, X: Any, y: Any, train: Any, validation: Any, n: int, fits: int, **options: Any
) -> float:
    """Seconds for one replicate of ours, by the kernel, 2 workers."""
    options = {"train": train, "validation": validation, "n_train": n, "n_jobs": 2, "random_state": 0} | options
    options["kernel"] = True
    ooc.sample_losses(estimator, X, y, n_fits=400, **options)
    start = time.perf_counter()
    ooc.sample_losses(estimator, X, y, n_fits=fits, **options)
    return (time.perf_counter() - start) / fits


def kernels(figures: Figures) -> None:
    for name, estimator, rows, n, d, fits, loop, bound in (
        ("LinearSVC, n = 100, d = 12", LinearSVC(), (400, 200), 100, 12, 60_000, 2000, 25),
        ("LinearSVC, n = 100, d = 26", LinearSVC(), (400, 200), 100, 26, 30_000, 2000, 12),
        ("LinearSVC, n = 1000, d = 114", LinearSVC(), (4000, 1000), 1000, 114, 1000, 200, 2),
        ("Ridge, n = 100, d = 12", Ridge(), (400, 200), 100, 12, 60_000, 2000, 20),
        ("LogisticRegression, n = 100, d = 12", LogisticRegression(), (400, 200), 100, 12, 60_000, 2000, 20),
    ):
        X, y, train, validation = data(*rows, d)
        theirs = plain_seconds(estimator, X, y, train, validation, n, loop)
        ours = our_seconds(estimator, X, y, train, validation, n, fits)
        figures.at_least(f"{name}: replicates a second over a plain joblib loop", theirs / ours, bound)
        figures.note("  our replicates a second", 1 / ours)


def overhead(figures: Figures) -> None:
    """All that is not a fit or a prediction, one worker; the bare work fits as many resamples, drawn beforehand."""
    X, y, train, validation = data(450, 150, 8)
    for name, estimator, fits in (
        ("RandomForest, 30 trees", RandomForestClassifier(30, random_state=0), 30),
        ("HistGradientBoosting, 20 rounds", HistGradientBoostingClassifier(max_iter=20, random_state=0), 30),
    ):
        rng = np.random.default_rng(0)
        resamples = [rng.choice(train, 300) for _ in range(fits)]

        def bare(estimator: Any = estimator, resamples: Any = resamples) -> None:
            for rows in resamples:
                clone(estimator).fit(X[rows], y[rows]).predict(X[validation])

        def ours(estimator: Any = estimator, fits: int = fits) -> None:
            ooc.sample_losses(
                estimator,
                X,
                y,
                train=train,
                validation=validation,
                n_train=300,
                n_fits=fits,
                injected=[0.0],
                random_state=0,
            )

        # The overhead is small against the scatter of these learners' times: many short rounds, whose median counts.
        over = ratio(ours, bare, repeats=1, rounds=15)
        figures.at_most(f"{name}: our time over the bare fits and predictions", over, 1.05)


def first_audit(figures: Figures) -> None:
    """A default audit of 1,000 records on a machine without compiled code, in a process of its own each time."""
    code = (
        "import time, numpy as np, outofcluster as ooc; from sklearn.svm import LinearSVC;"
        "rng = np.random.default_rng(0); X = rng.standard_normal((1000, 12)); groups = np.arange(1000) // 20;"
        "y = (X[:, 0] + 0.8 * rng.standard_normal(1000) > 0).astype(int); start = time.perf_counter();"
        "ooc.audit(LinearSVC(), X, y, groups=groups, leakage=0.1, error_model='records', random_state=0, kernel={});"
        "print(time.perf_counter() - start)"
    )

    def seconds(kernel: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, "-W", "ignore", "-c", code.format(kernel)]
            environment = os.environ | {"NUMBA_CACHE_DIR": folder}
            return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)

    rounds = [(seconds("'auto'"), seconds("False")) for _ in range(5)]
    figures.at_most(
        "a first default audit, 1,000 records: its time over that with kernels off",
        statistics.median(first / off for first, off in rounds),
        1.05,
    )
    figures.note("  its seconds", statistics.median(first for first, _ in rounds))
    figures.note("  seconds with a kernel that has to be compiled", seconds("True"))


def memory(figures: Figures) -> None:
    code = (
        "import numpy as np, outofcluster as ooc, resource; from sklearn.linear_model import Ridge;"
        "rng = np.random.default_rng(0); X = rng.standard_normal((600, 4)); y = X[:, 0] + rng.standard_normal(600);"
        "s = ooc.sample_losses(Ridge(), X, y, train=range(400), validation=range(400, 600), n_train=50, n_fits=10**6,"
        "n_jobs=2, random_state=0); assert s.n_fits == 10**6;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    )
    peak = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    figures.at_most("1e6 replicates: peak memory of the whole process, GB", float(peak), 1)


def design(figures: Figures, *, quick: bool) -> None:
    """Variance of e_0 over repeated runs: a cubic, p0 = 0.1, the same budget."""
    X, _, train, validation = data(400, 200, 5)
    target = X[:, 0] + 0.5 * np.random.default_rng(1).standard_normal(len(X))
    budget, runs = 2000, 60 if quick else 200
    ours, equidistant = [], []
    for seed in range(runs):
        options = {"train": train, "validation": validation, "n_train": 30, "n_fits": budget, "random_state": seed}
        options["kernel"] = True
        placed = ooc.sample_losses(Ridge(), X, target, **options)
        spread = ooc.sample_losses(Ridge(), X, target, injected=np.linspace(0, 1, 200), **options)
        ours.append(ooc.PolynomialCurve(3).fit(placed, leakage=0.1).e0_)
        p = 0.1 + 0.9 * spread.injected
        equidistant.append(ooc.PolynomialCurve(3).fit_points(p, spread.means, 30).e0_)
    figures.at_least(
        "variance of e_0, equidistant 200 levels over the optimal design", np.var(equidistant) / np.var(ours), 4
    )


def heart(figures: Figures) -> None:
    """The size of the paper's heart experiment: 479 and 262 rows, 12 features, 200 levels of 1000 replicates."""
    X, y, train, validation = data(479, 262, 12)
    plain = plain_seconds(LinearSVC(), X, y, train, validation, 100, 2000)
    options = {"train": train, "validation": validation, "n_train": 100, "n_jobs": 2, "random_state": 0, "kernel": True}
    levels = np.linspace(0, 1, 200)
    ooc.sample_losses(LinearSVC(), X, y, n_fits=400, **options)
    start = time.perf_counter()
    ooc.sample_losses(LinearSVC(), X, y, n_fits=200_000, injected=levels, **options)
    figures.at_most("heart's size, 200 levels x 1000 replicates, 2 cores: seconds", time.perf_counter() - start, 60)
    figures.note("  the plain loop's projected seconds", plain * 200_000)


def measure(figures: Figures, quick: bool) -> None:
    kernels(figures)
    overhead(figures)
    first_audit(figures)
    memory(figures)
    design(figures, quick=quick)
    heart(figures)


if __name__ == "__main__":
    sys.exit(run(__doc__, measure, ("outofcluster", "numpy", "scipy", "scikit-learn", "numba", "joblib")))
