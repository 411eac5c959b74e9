"""Probabilities of single records, and leakage both ways: what is left of the error, in worlds whose truth is known.

    python benchmarks/directions.py [--quick] [--json FILE]

The truth is the loss, on the held-out records that are what they seem, of the model fitted to the training records that
are what they seem. Exit status 1 if a figure falls short of its bound.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

import outofcluster as ooc
from _figures import Figures, run

FITS, N_TRAIN_CLUSTERS, CLUSTERS, SIZE, FEATURES = 800, 6, 8, 150, 8
CODE = "per-record-rates"


@dataclass(frozen=True)
class Split:
    """Records, of which some are on the wrong side, and the loss had none been."""

    X: Any
    y: Any
    held: Any
    groups: Any
    train: Any
    test: Any
    truth: float

    @property
    def rate(self) -> float:
        """Share of the training records that belong to held-out clusters."""
        return float(self.held[self.train].mean())

    @property
    def reverse(self) -> float:
        """Share of the held-out records that belong to training clusters."""
        return float((~self.held)[self.test].mean())

    def audit(self, model: Any, seed: int, **options: Any) -> ooc.Audit:
        """The audit of a model on this split."""
        common = {"groups": self.groups, "cv": [(self.train, self.test)], "error_model": "records"}
        return ooc.audit(clone(model), self.X, self.y, n_fits=FITS, random_state=seed, **common, **options)


def split(model: Any, seed: int, rate: float, reverse: float = 0.0, *, apart: bool = False) -> Split:
    """Held-out clusters follow other slopes; with ``apart`` all clusters have centres of their own as well."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(CLUSTERS), SIZE)
    held = cluster >= N_TRAIN_CLUSTERS
    X = (0.5 if apart else 1.0) * rng.standard_normal((len(cluster), FEATURES))
    X += apart * rng.standard_normal((CLUSTERS, FEATURES))[cluster]
    slopes = np.zeros((CLUSTERS, FEATURES))
    slopes[:, :2] = 1.0, 0.5
    slopes[N_TRAIN_CLUSTERS:] += 0.6 * rng.standard_normal(FEATURES)
    y = (X * slopes[cluster]).sum(axis=1) + 0.7 * rng.standard_normal(len(cluster))
    y = (y > 0).astype(int) if is_classifier(model) else y
    # So many records change sides that both shares are as wanted.
    equations = np.array([[1 - rate, rate], [reverse, 1 - reverse]])
    counts = np.linalg.solve(equations, [rate * (~held).sum(), reverse * held.sum()]).round().astype(int)
    groups = cluster.copy()
    to_train, to_test = (
        rng.choice(np.flatnonzero(side), count, replace=False)
        for side, count in zip((held, ~held), counts, strict=True)
    )
    groups[to_train] = rng.integers(0, N_TRAIN_CLUSTERS, len(to_train))
    groups[to_test] = rng.integers(N_TRAIN_CLUSTERS, CLUSTERS, len(to_test))
    train, test = np.flatnonzero(groups < N_TRAIN_CLUSTERS), np.flatnonzero(groups >= N_TRAIN_CLUSTERS)
    clean, scored = train[~held[train]], test[held[test]]
    predicted = clone(model).fit(X[clean], y[clean]).predict(X[scored])
    losses = predicted != y[scored] if is_classifier(model) else (predicted - y[scored]) ** 2
    return Split(X, y, held, groups, train, test, float(np.mean(losses)))


def probabilities(data: Split, seed: int, sharpness: float) -> Any:
    """Calibrated ones, from a score that knows nothing of features: N(0, 1), or N(sharpness, 1) if leaked."""
    score = sharpness * data.held + np.random.default_rng([seed, 1]).standard_normal(len(data.held))
    odds = data.rate / (1 - data.rate) * np.exp(sharpness * score - sharpness**2 / 2)
    return odds / (1 + odds)


def rmse(errors: list[float]) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean(np.square(errors))))


def record_rates(figures: Figures, name: str, model: Any, rate: float, count: int, first: int, *, apart: bool) -> None:
    """Probabilities of single records against their mean alone, and with odds that are wrong by two."""
    names = ("naive", "curve", "alone", "given", "doubled", "halved")
    errors: dict[str, list[float]] = {each: [] for each in names}
    noticed, false = 0, 0
    for seed in range(first, first + count):
        data = split(model, seed, rate, apart=apart)
        q = probabilities(data, seed, 2.0)
        mean = float(q[data.train].mean())
        results = {"given": data.audit(model, seed, leakage=q), "alone": data.audit(model, seed, leakage=mean)}
        results["curve"] = data.audit(model, seed, leakage=mean, unmix=False)
        for each, factor in (("doubled", 2.0), ("halved", 0.5)):
            wrong = factor * q / (1 - q + factor * q)
            results[each] = data.audit(model, seed, leakage=wrong)
            noticed += any(finding.code == CODE for finding in results[each].findings)
        false += any(finding.code == CODE for finding in results["given"].findings)
        errors["naive"].append(results["given"].naive.value - data.truth)
        for each, result in results.items():
            errors[each].append(result.corrected.value - data.truth)
    bounded = figures.note if apart else lambda what, value: figures.at_most(what, value, 0.6)
    bounded(f"{name}: RMSE over that of the mean rate alone", rmse(errors["given"]) / rmse(errors["alone"]))
    figures.note(f"{name}: RMSE over that of the curve alone", rmse(errors["given"]) / rmse(errors["curve"]))
    figures.note(f"{name}: RMSE over naive's", rmse(errors["given"]) / rmse(errors["naive"]))
    figures.note(f"{name}: RMSE of the mean rate alone over naive's", rmse(errors["alone"]) / rmse(errors["naive"]))
    for each in ("doubled", "halved"):
        figures.at_most(f"{name}: odds {each}, RMSE over naive's", rmse(errors[each]) / rmse(errors["naive"]), 1.0)
    figures.at_least(f"{name}: wrong odds that are noticed", noticed / (2 * count), 0.9)
    figures.at_most(f"{name}: right odds that are found wrong", false / count, 0.25)


def both_ways(figures: Figures, name: str, model: Any, count: int, *, apart: bool) -> None:
    """Bias that is left when records are on the wrong side both ways."""
    for rate in (0.05, 0.15):
        for reverse in (0.05, 0.15):
            naive, one_way, corrected, covered = [], [], [], 0
            for seed in range(count):
                data = split(model, 5000 + seed, rate, reverse, apart=apart)
                result = data.audit(model, seed, leakage=data.rate, validation_leakage=data.reverse)
                naive.append(result.naive.value - data.truth)
                one_way.append(result.at_leakage(data.rate, validation=0.0).corrected.value - data.truth)
                corrected.append(result.corrected.value - data.truth)
                covered += result.corrected.interval[0] <= data.truth <= result.corrected.interval[1]
            what, bias = f"{name}, p0 {rate}, r0 {reverse}", abs(np.mean(naive))
            figures.at_least(f"{what}: bias removed", 1 - abs(np.mean(corrected)) / bias, 0.8)
            figures.note(f"{what}: bias removed if only p0 is known", 1 - abs(np.mean(one_way)) / bias)
            figures.note(f"{what}: truth in the 95 % interval", covered / count)


def measure(figures: Figures, quick: bool) -> None:
    """All figures."""
    warnings.simplefilter("ignore")
    count = 3 if quick else 12
    record_rates(figures, "ridge, other slopes", Ridge(), 0.1, count, 100, apart=False)
    if not quick:
        record_rates(figures, "linear SVM, other slopes", LinearSVC(), 0.2, count, 200, apart=False)
        record_rates(figures, "logistic regression, clusters apart", LogisticRegression(), 0.2, count, 300, apart=True)
    both_ways(figures, "ridge, clusters apart", Ridge(), count, apart=True)
    if not quick:
        both_ways(figures, "ridge, other slopes", Ridge(), count, apart=False)


if __name__ == "__main__":
    sys.exit(run(__doc__ or "", measure, ("outofcluster", "numpy", "scikit-learn")))
