"""Small results to show, each made once by a process: audits of several kinds, a comparison and a sweep."""

from dataclasses import replace
from functools import cache

import numpy as np
from sklearn.linear_model import Lasso, LogisticRegression, Ridge
from sklearn.metrics import get_scorer

import outofcluster as ooc
from outofcluster.errormodels.choose import error_model_of
from outofcluster.inference.functional import Influences

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(30), 10)
effect = rng.standard_normal((30, 3))[groups]
X = effect + 0.5 * rng.standard_normal((300, 3))
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(300)
label = (effect[:, 0] + rng.standard_normal(30)[groups] > 0).astype(int)
OPTIONS = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 100, "random_state": 0}

SAMPLED = {
    "records": {},
    "fragments": {"error_model": "fragments", "estimator": LogisticRegression(), "y": label},
    "units": {"units": "records", "loss": "absolute_error"},
    "unknown errors": {"n_fits": 60},
    "scorer": {"loss": get_scorer("r2")},
    "one fold": {"cv": [(np.arange(150), np.arange(150, 300))]},
}
DERIVED = {
    "no rate": lambda audit: replace(audit, leakage=None),
    "uncertain": lambda audit: replace(audit, leakage=(ooc.Leakage(0.1, std=0.02),) * 5),
    "one rate per fold": lambda audit: replace(
        audit, leakage=tuple(ooc.Leakage(rate) for rate in (0.0, 0.05, 0.1, 0.15, 0.3))
    ),
    "not linear": lambda audit: audit.with_curve(ooc.CompletelyMonotoneCurve()),
    "no test": lambda audit: with_samples(audit, without_test(audit.samples)),
    "high rate": lambda audit: audit.at_leakage(0.4),
    "80 %": lambda audit: audit.with_confidence(0.8),
}

ward = np.repeat(np.arange(12), 40)
ward_X = 2 * rng.standard_normal((12, 3))[ward] + 0.5 * rng.standard_normal((480, 3))
ward_y = ward_X[:, 0] + 2 * rng.standard_normal(12)[ward] + 0.5 * rng.standard_normal(480)
split = ooc.simulate_leakage(ward, np.arange(8, 12), rate=0.1, random_state=0)


def with_samples(audit, samples):
    """The same audit of other samples."""
    return replace(audit, pooled=error_model_of(samples).pooled(samples, audit.units, audit.validation_leakage))


def naive_influence(pooled):
    """How much the records of every unit move the evaluation of the naive loss."""
    return Influences(pooled.columns).of_units(pooled.naive_functional())


def noise_of_levels(folds):
    """Monte-Carlo standard errors of the pooled losses of the full size, without what moves all levels together."""
    n = sum(fold.n_validation for fold in folds)
    squares, freedom, variance = 0.0, 0, 0.0
    for fold in folds:
        count = min(len(level) for level in fold.main.losses)
        losses = np.array([level[:count] for level in fold.main.losses])
        apart = losses - losses.mean(axis=0)
        apart = apart - apart.mean(axis=1, keepdims=True)
        squares, freedom = squares + (apart**2).sum(axis=1), freedom + count - 1
    squares = squares * len(losses) / (len(losses) - 1)
    noise = (squares + 10 * squares.mean() / freedom) / (freedom + 10)
    for fold in folds:
        variance = variance + (fold.n_validation / n) ** 2 * noise / fold.main.counts
    return np.sqrt(variance)


def without_test(samples):
    return replace(samples, effect=None, effect_problem="There are too few records.")


@cache
def audit(name="records"):
    if name in DERIVED:
        return DERIVED[name](audit())
    options = OPTIONS | SAMPLED[name]
    return ooc.audit(options.pop("estimator", Ridge()), X, options.pop("y", target), **options)


@cache
def unmixed(unmix="auto"):
    """An audit with losses below the leakage rate, of a single split whose leakage is known."""
    options = {"groups": split.groups, "cv": [(split.train, split.validation)], "random_state": 0}
    options |= {"leakage": split.rate, "error_model": "records", "n_fits": 300, "unmix": unmix}
    return ooc.audit(Ridge(), ward_X, ward_y, **options)


@cache
def comparison():
    models = {"ridge": Ridge(), "a $lasso$ with_signs": Lasso(0.1)}
    return ooc.compare(models, X, target, **OPTIONS | {"n_fits": 60})


@cache
def swept():
    linked = {0.1: groups > 27, 0.5: groups, 0.9: np.arange(300) // 5}
    options = {"leakage": {0.1: 0.0, 0.5: 0.05, 0.9: 0.2}, "error_model": "fragments", "n_fits": 36, "cv": 3}
    return ooc.sweep(Ridge(), X, target, linked, unmix=False, random_state=0, **options)
