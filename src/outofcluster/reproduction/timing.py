"""How long a curve takes to solve: the paper's timing table, and its figure of time against n.

Table: the sizes and parameters of the paper's data sets, with losses simulated by an exponential fall and the noise of
the table's t. Scaling: n from 10 upwards at 10 levels, as in the paper. The paper's T4+mono has a penalty per index,
which vanishes as n grows, and unknowns e_0, …, e_n; ours with a penalty per unit of p is a spline of a size that does
not depend on n. cvxpy with Clarabel solves the paper's objective as one would write it, where it is installed.
Times are medians, on one thread; building the matrix A is part of them on both sides. The losses are
the same for every n, and so should be the e_0 that a method finds: where it has moved by more than 0.02 from that at
n = 100 this is marked. With ten levels and a penalty that vanishes, the paper's objective leaves e_0 undetermined for
large n, whatever the solver.
"""

from __future__ import annotations

import importlib
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import outofcluster as ooc
from outofcluster._base.arguments import Array
from outofcluster.reproduction.parts import Means, Parts
from outofcluster.reproduction.results import LABELS, estimate, make_curves
from outofcluster.reproduction.studies import LEAKAGE, STUDIES, Study

__all__ = ["PER_INDEX", "run_timing"]

_PAPER_SECONDS = {
    "census": (0.5662, 0.4059, 7.822e-5),
    "heart": (0.5847, 0.4105, 6.582e-5),
    "parkinson": (0.6194, 0.4338, 2.043e-5),
    "dota2": (1.0965, 0.4678, 1.946e-5),
}
"""The paper's Table 1: T4+mono, Sketch, Basis, on its own machine."""

_LEVELS = 10
_PENALTY = 10.0
_SIZES = tuple(10**k for k in range(1, 10))
_LARGEST = {True: (10_000, 1_000), False: (100_000, 100_000)}
"""Largest n of our solver and of cvxpy on the paper's objective, in a quick and in a full run."""

_ANCHOR, _MOVED = 100, 0.02
PER_INDEX = "T4+mono, penalty per index (the paper's)"


def run_timing(parts: Parts, *, quick: bool, seed: int) -> dict[str, Any]:
    """Measure, or find what was measured."""
    scaling = {"levels": _LEVELS, "penalty": _PENALTY, "sizes": _SIZES, "largest": _LARGEST[quick]}
    return {
        "table": parts.plain("table", quick, lambda: _table(seed, quick)),
        "scaling": parts.plain("scaling", scaling, lambda: _scaling(seed, *_LARGEST[quick])),
        "machine": {"system": platform.system(), "machine": platform.machine(), "cores": os.cpu_count()},
        "levels": _LEVELS,
        "penalty": _PENALTY,
    }


def _losses(seed: int, m: int, t: int) -> tuple[Array, Array, Array]:
    """Levels, losses that fall exponentially as a classifier's do, and their standard errors after t fits each."""
    p = np.linspace(LEAKAGE, 1, m)
    error = np.full(m, 0.04 / np.sqrt(t))
    noise = error * np.random.default_rng(seed).standard_normal(m)
    return p, 0.2 + 0.1 * np.exp(-5 * p) + noise, error


def _table(seed: int, quick: bool) -> list[dict[str, Any]]:
    return [row for study in STUDIES.values() for row in _study_rows(study, seed, quick)]


def _study_rows(study: Study, seed: int, quick: bool) -> list[dict[str, Any]]:
    p, b, error = _losses(seed, study.levels, study.full.fits)
    means = Means((p - LEAKAGE) / (1 - LEAKAGE), b, error, np.full(len(p), study.full.fits), study.n)
    curves, cp = make_curves(study), _cvxpy()
    published = dict(zip(("trend", "sketch", "basis"), _PAPER_SECONDS.get(study.name, ()), strict=False))

    def seconds(method: str) -> float:
        return _measure(lambda: estimate(curves[method], (means,) if method == "default" else means))

    def by_cvxpy() -> object:
        return _solve(cp, p, b, study.n, study.trend_penalty)

    return [
        {
            "study": study.name,
            "method": method,
            "label": LABELS[method],
            "n": study.n,
            "levels": study.levels,
            "seconds": seconds(method),
            "cvxpy_seconds": _measure(by_cvxpy, least=1 if quick else 5) if cp and method == "trend" else None,
            "paper_seconds": published.get(method),
        }
        for method in ("trend", "sketch", "basis", "default")
    ]


def _scaling(seed: int, most: int, most_cvxpy: int) -> list[dict[str, Any]]:
    p, b, _ = _losses(seed, _LEVELS, 1000)
    ours: tuple[tuple[str, Any, int], ...] = (
        (PER_INDEX, ooc.TrendFilterCurve(order=4, penalty=_PENALTY, scale="index"), most),
        ("T4+mono, penalty per unit of p", ooc.TrendFilterCurve(order=4), _SIZES[-1]),
        ("Sketch", ooc.SketchCurve(n_groups=7), _SIZES[-1]),
        ("Basis", ooc.PolynomialCurve(2), _SIZES[-1]),
    )
    rows = [_row(label, curve, p, b, n) for label, curve, largest in ours for n in _SIZES if n <= largest]
    anchors = {row["method"]: row["e0"] for row in rows if row["n"] == _ANCHOR}
    if (cp := _cvxpy()) is not None:
        rows += [_cvxpy_row(cp, p, b, n) for n in _SIZES if n <= most_cvxpy]

    def stays(e0: float | None, anchor: float | None) -> bool:
        return e0 is not None and anchor is not None and abs(e0 - anchor) <= _MOVED

    return [row | {"moved": not stays(row["e0"], anchors[row["method"]])} for row in rows]


def _row(label: str, curve: Any, p: Array, b: Array, n: int) -> dict[str, Any]:
    row = {"method": label, "solver": "outofcluster", "n": n}
    try:
        seconds = _measure(lambda: curve.fit_points(p, b, n))
    except ooc.SolverError:
        return row | {"seconds": None, "status": "failed", "e0": None}
    return row | {"seconds": seconds, "status": "optimal", "e0": curve.e0_}


def _cvxpy_row(cp: Any, p: Array, b: Array, n: int) -> dict[str, Any]:
    started = time.perf_counter()
    status, e0 = _solve(cp, p, b, n, _PENALTY)
    seconds = time.perf_counter() - started
    if seconds < 1:
        seconds = _measure(lambda: _solve(cp, p, b, n, _PENALTY), least=3)
    return {"method": PER_INDEX, "solver": "cvxpy", "n": n, "seconds": seconds, "status": status, "e0": e0}


def _cvxpy() -> Any:
    """The module cvxpy, or None where it is not installed."""
    try:
        return importlib.import_module("cvxpy")
    except ImportError:
        return None


def _solve(cp: Any, p: Array, b: Array, n: int, penalty: float) -> tuple[str, float | None]:
    """Minimise ‖Ax - b‖ + λ‖D_4 x‖ over decreasing x ≥ 0 as one would write it: cvxpy's status, and x_0."""
    operator = ooc.BinomialOperator(p, n)
    A = operator.matrix() if n <= 10_000 else operator.sparse_matrix()
    x = cp.Variable(n + 1)
    objective = cp.norm(A @ x - b, 2) + penalty * cp.norm(cp.diff(x, 4), 2)
    problem = cp.Problem(cp.Minimize(objective), [x[:-1] >= x[1:], x[-1] >= 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL")
        except cp.SolverError:
            return "failed", None
    return str(problem.status), None if x.value is None else float(x.value[0])


def _measure(call: Callable[[], object], *, least: int = 7, enough: float = 0.3) -> float:
    """Median seconds of a call, over at least so many calls or until enough time was spent."""
    times: list[float] = []
    call()
    while sum(times) < (20 * enough if len(times) < least else enough) and len(times) < 1000:
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)
