"""Speed of an audit and of the questions that need no further fit; ``--json`` keeps the figures."""

from __future__ import annotations

import sys

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import outofcluster as ooc
from _figures import Figures, median_seconds, run


def records(rng):
    """1,000 records of 100 clusters."""
    groups = np.repeat(np.arange(100), 10)
    level = rng.standard_normal((100, 8))
    X = level[groups] + 0.5 * rng.standard_normal((1000, 8))
    return X, X[:, 0] + level[groups, 1] + 0.5 * rng.standard_normal(1000), groups


def measure(figures: Figures, quick: bool) -> None:
    X, y, groups = records(np.random.default_rng(0))
    rates = np.linspace(0, 0.3, 50)
    for estimator, target in ((LinearRegression(), y), (LogisticRegression(), y > 0), (LinearSVC(), y > 0)):
        for error_model in ("records",) if quick else ("records", "fragments"):

            def audit(estimator=estimator, target=target, error_model=error_model):
                options = {"groups": groups, "error_model": error_model, "leakage": 0.1, "random_state": 0}
                return ooc.audit(estimator, X, target, **options)

            result = audit()
            name = f"{type(estimator).__name__}, {error_model}"
            figures.at_most(f"audit, 1,000 records, 5 folds, {name}: seconds", median_seconds(audit, 3), 5)
            figures.at_most(
                f"at_leakage, {name}: milliseconds",
                1e3 * median_seconds(lambda result=result: result.at_leakage(0.07).corrected, 25),
                5,
            )
            figures.at_most(
                f"sensitivity, 50 rates, {name}: milliseconds",
                1e3 * median_seconds(lambda result=result, rates=rates: result.sensitivity(rates), 7),
                100,
            )


if __name__ == "__main__":
    sys.exit(run(__doc__, measure, ("outofcluster", "numpy", "scipy", "scikit-learn", "numba")))
