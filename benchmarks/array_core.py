"""Accuracy and speed of the array core: the operator and the curve methods.

    python benchmarks/array_core.py [--json FILE] [--quick]

Every time is a ratio of two measured side by side in this run. References share no code with the package: mpmath and
fractions for the polynomials, cvxpy with Clarabel for the trend filter, scipy's binomial distribution for the operator.
Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import Any

import numpy as np
from scipy.stats import binom

import outofcluster as ooc
from _figures import Figures, median_seconds, ratio, run
from references import cvxpy_chained, cvxpy_trend, exact_inverse, extrapolated

ORDERS, PENALTIES = (2, 3, 4), (0.1, 10.0, 1000.0)


def losses(m: int, noise: float = 1e-3) -> tuple[Any, Any]:
    """Levels from 0.1 to 1 and losses that fall exponentially, with noise."""
    p = np.linspace(0.1, 1, m)
    return p, 0.2 + 0.1 * np.exp(-5 * p) + noise * np.random.default_rng(m).standard_normal(m)


# --- polynomial ---------------------------------------------------------------------------------------


def polynomial(figures: Figures) -> None:
    p, b = losses(20)
    worst = 0.0
    for degree in range(1, 11):
        truth = extrapolated(p, b, degree)
        for n in (10, 10**2, 10**4, 10**6, 10**9):
            worst = max(worst, abs(ooc.PolynomialCurve(degree).fit_points(p, b, n).e0_ / truth - 1))
    figures.at_most("polynomial e_0, degrees 1 to 10, n 10 to 1e9: relative error against mpmath", worst, 1e-8)

    def fit(n: int, degree: int) -> float:
        return ooc.PolynomialCurve(degree).fit_points(p, b, n).e0_

    figures.at_most(
        "polynomial time, n = 1e9 over n = 1e2", ratio(lambda: fit(10**9, 2), lambda: fit(100, 2), 501), 1.2
    )
    for degree in (2, 7):
        design = np.vander(p, degree + 1)
        over = ratio(lambda d=degree: fit(100, d), lambda V=design: np.linalg.lstsq(V, b, rcond=None), 501)  # type: ignore[misc]
        figures.at_most(f"polynomial time over a bare lstsq, 20 levels, degree {degree}", over, 5)
    worst = 0.0
    for degree in range(1, 11):
        exact = exact_inverse(p, b, degree, 60)
        values = ooc.PolynomialCurve(degree).fit_points(p, b, 60).values(range(61))
        worst = max(worst, float(np.abs(values - exact).max()))
    figures.at_most("values(j), n = 60, degrees 1 to 10: error against rational arithmetic", worst, 1e-8)


# --- trend filter -------------------------------------------------------------------------------------


def trend_filter(figures: Figures, *, quick: bool) -> None:
    worst_raw, worst, failed, increase = -np.inf, -np.inf, 0, -np.inf
    for n, m in itertools.product((100,) if quick else (100, 1000), (20, 200)):
        p, b = losses(m)
        A = binom.pmf(np.arange(n + 1), n, p[:, None])
        for order, penalty, monotone in itertools.product(ORDERS, PENALTIES, (True, False)):
            curve = ooc.TrendFilterCurve(
                order=order, penalty=penalty, monotone=monotone, nonnegative=monotone, scale="index"
            )

            def value(x: Any, A: Any = A, b: Any = b, order: int = order, penalty: float = penalty) -> float:
                return float(np.linalg.norm(A @ x - b) + penalty * np.linalg.norm(np.diff(x, order)))

            ours = curve.fit_points(p, b, n).values(np.arange(n + 1))
            theirs = cvxpy_trend(A, b, order, penalty, monotone)
            if monotone:
                increase = max(increase, float(np.diff(ours).max()))
            if theirs is None:
                failed += 1
                continue
            worst_raw = max(worst_raw, value(ours) / value(theirs) - 1)
            feasible = np.maximum(np.minimum.accumulate(theirs), 0) if monotone else theirs
            worst = max(worst, value(ours) / value(feasible) - 1)
    figures.at_most("trend filter, paper's objective over cvxpy's, less 1: worst cell", worst, 1e-6)
    figures.note("  the same, cvxpy's solutions not made feasible (they rise by up to 1e-8)", worst_raw)
    figures.note("  largest rise of ours where monotone", increase)
    figures.note("  cells in which cvxpy found no solution", failed)

    n, m = 100, 200
    p, b = losses(m)
    A = binom.pmf(np.arange(n + 1), n, p[:, None])
    faster = {}
    for order, penalty in itertools.product(ORDERS, PENALTIES):

        def ours_once(order: int = order, penalty: float = penalty) -> object:
            return ooc.TrendFilterCurve(order=order, penalty=penalty, scale="index").fit_points(p, b, n)

        def theirs_once(order: int = order, penalty: float = penalty) -> object:
            return cvxpy_trend(A, b, order, penalty, True)

        ours_once(), theirs_once()
        faster[order, penalty] = median_seconds(theirs_once, 5) / median_seconds(ours_once, 15)
    figures.at_least("T4+mono, penalty 10, n = 100, m = 200: times faster than cvxpy", faster[4, 10.0], 15)
    figures.at_least(
        "  median over orders 2, 3, 4 and penalties 0.1, 10, 1000", float(np.median([*faster.values()])), 15
    )
    figures.note("  slowest of these cells", min(faster.values()))


def trend_filter_per_p(figures: Figures, *, quick: bool) -> None:
    p, b = losses(20)
    A = binom.pmf(np.arange(1001), 1000, p[:, None])
    ours = ooc.TrendFilterCurve().fit_points(p, b, 1000)
    assert ours.penalty_ is not None
    difference = abs(ours.e0_ - cvxpy_chained(A, b, 4, ours.penalty_))
    figures.at_most("default penalty, n = 1000, m = 20: |e_0 - e_0 of the full problem by cvxpy|", difference, 1e-4)

    p, b = losses(10)

    def solve(n: int) -> object:
        return ooc.TrendFilterCurve().fit_points(p, b, n)

    once, twice = (ooc.TrendFilterCurve(n_pieces=k).fit_points(p, b, 10**5).e0_ for k in (128, 256))
    figures.at_most("n = 1e5, m = 10: change of e_0 when the spline is refined twofold", abs(once - twice), 1e-5)
    figures.at_most("n = 1e7 over n = 1e5: time", ratio(lambda: solve(10**7), lambda: solve(10**5), 7), 2)
    code = (
        "import numpy as np, outofcluster as ooc, resource; p = np.linspace(.1, 1, 10);"
        "ooc.TrendFilterCurve().fit_points(p, .2 + .1 * np.exp(-5 * p), 10**7);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    )
    peak = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    figures.at_most("n = 1e7: peak memory of the whole process, GB", float(peak), 1)
    if quick:
        return
    A = ooc.BinomialOperator(p, 10**5).sparse_matrix()
    start = time.perf_counter()
    solution = cvxpy_trend(A, b, 4, 10.0, True)
    theirs = time.perf_counter() - start
    figures.at_least(
        "n = 1e5, m = 10: times faster than cvxpy on the paper's objective",
        theirs / median_seconds(lambda: solve(10**5), 7),
        20,
    )
    figures.note("  cvxpy found a solution there (1 yes, 0 no)", solution is not None)


# --- sketch -------------------------------------------------------------------------------------------


def sketch(figures: Figures) -> None:
    p, b = losses(20)

    def fit(n: int) -> float:
        return ooc.SketchCurve(n_groups=7).fit_points(p, b, n).e0_

    figures.at_most("sketch time, n = 1e9 over n = 1e3", ratio(lambda: fit(10**9), lambda: fit(10**3), 51), 1.5)
    curve = ooc.SketchCurve(n_groups=7).fit_points(p, b, 1000)
    A = binom.pmf(np.arange(1001), 1000, p[:, None])
    explicit = np.stack([A[:, curve.groups_.of(np.arange(1001)) == g].sum(axis=1) for g in range(8)], axis=1)
    figures.at_most("S against explicit sums, n = 1000", float(np.abs(curve.sketch_ - explicit).max()), 1e-12)


def measure(figures: Figures, quick: bool) -> None:
    polynomial(figures)
    trend_filter(figures, quick=quick)
    trend_filter_per_p(figures, quick=quick)
    sketch(figures)


if __name__ == "__main__":
    sys.exit(run(__doc__, measure, ("outofcluster", "numpy", "scipy", "clarabel", "cvxpy", "mpmath")))
