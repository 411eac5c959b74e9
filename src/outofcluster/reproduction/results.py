"""A study's results as plain data: estimates, errors, curves and their shape in both protocols, kept apart.

*IID* is the loss over random splits, *LOCO* (naive) the loss at p0. *T4+mono*, *Sketch* and *Basis* are fitted as the
paper fitted them: all levels weighted alike, with the table's penalties per index, number of groups and degree.
Sketch is Section 5.2's, the first column alone and k groups of the others. The published code has k - 1 groups, the
first not alone; it is in the tables as *Sketch, published code*. The default is what a user gets who sets nothing: its
own levels, sizes of training sets, and weights, and in the field protocol losses below p0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import outofcluster as ooc
from outofcluster._base.arguments import Array
from outofcluster._base.plain import plain
from outofcluster.reproduction.parts import Means
from outofcluster.reproduction.protocols import Replicate
from outofcluster.reproduction.studies import LEAKAGE, Study

__all__ = ["LABELS", "estimate", "field_results", "field_shape", "make_curves", "method_errors", "paper_results"]

LABELS = {
    "iid": "IID",
    "naive": "LOCO (naive)",
    "trend": "T4+mono",
    "sketch": "Sketch",
    "basis": "Basis",
    "default": "package default",
    "sketch_code": "Sketch, published code",
}
"""Every estimator by its name in print."""

_GRID = np.unique(np.concatenate([np.linspace(0, 0.25, 51), np.linspace(0.25, 1, 31)]))
"""Levels at which fitted curves are drawn, close where they are steep."""

_MOST_LEVELS = 20
"""Levels at which a shape is judged: more would spread the same fits thinner."""

_FEW_LEVELS = 10
"""Levels between which slopes are shown."""

_LEAST_DRAWS = 20
"""Draws of the leak from which their spread is known well enough to judge a shape by it."""


def make_curves(study: Study) -> dict[str, Any]:
    """The paper's estimators with its parameters for a study, and the curve that ``audit`` takes by default."""
    return {
        "trend": ooc.TrendFilterCurve(order=4, penalty=study.trend_penalty, scale="index"),
        "sketch": ooc.SketchCurve(n_groups=study.groups, penalty=study.sketch_penalty),
        "basis": ooc.PolynomialCurve(study.degree),
        "sketch_code": ooc.SketchCurve(n_groups=study.groups - 1, penalty=study.sketch_penalty, first_alone=False),
        "default": ooc.AutoCurve(1.0 if study.loss == "zero_one" else math.inf),
    }


def _fit(curve: Any, means: Means | tuple[Means, ...], below: ooc.LossSamples | None = None) -> Any:
    """Fit a curve at the paper's leakage rate; None where its solver fails.

    Losses of several sizes and losses below the leakage rate are for the default, which weighs them; the paper's
    methods weigh all levels alike.
    """
    try:
        if not isinstance(means, tuple):
            return curve.fit_points(means.levels(LEAKAGE), means.means, means.size)
        runs = means if below is None else (*means, below)
        return curve.fit(runs if len(runs) > 1 else runs[0], LEAKAGE)
    except ooc.SolverError:
        return None


def estimate(curve: Any, means: Means | tuple[Means, ...], below: ooc.LossSamples | None = None) -> float:
    """The estimate of e_0; NaN where the solver fails."""
    fitted = _fit(curve, means, below)
    return math.nan if fitted is None else float(fitted.e0_)


def paper_results(study: Study, truth: Means, trials: Sequence[Replicate]) -> dict[str, Any]:
    """Estimates of every trial, their errors, the curves and their shape."""
    e0, last = float(truth.means[0]), float(truth.means[-1])
    together = Means.pooled([trial.equidistant for trial in trials])
    naive_bias = e0 - float(together.means[0])
    return {
        "replicates": "trial",
        "e0": e0,
        "e0_standard_error": float(truth.standard_errors[0]),
        "e0_fits": int(truth.n_fits[0]),
        "naive_bias": naive_bias,
        "relative_naive_bias": naive_bias / e0,
        "relative_fall": (e0 - last) / e0,
        "fall_standard_error": float(np.hypot(truth.standard_errors[0], truth.standard_errors[-1])),
        "fall": e0 - last,
        "truth": _points(truth, 0.0),
        "observed": _points(together, LEAKAGE),
        "sizes": [
            {"size": runs[0].size, **_points(Means.pooled(list(runs)), LEAKAGE)}
            for runs in zip(*(trial.default for trial in trials), strict=True)
        ],
        "fits_a_trial": _spent(trials[0]),
        "methods": _methods(study, trials),
        "curves": _fitted_curves(study, trials[0]),
        "shape": _paper_shape(together),
        "true_shape": _shape(truth, 0.0, judged=bool(np.all(truth.standard_errors > 0))),
    }


def field_results(study: Study, draws: Sequence[Replicate]) -> dict[str, Any]:
    """Estimates of every draw of the leak, their errors, and how they compare with the naive one's."""
    truth, naive, rates = (np.array([getattr(draw, key) for draw in draws]) for key in ("truth", "naive", "rate"))
    train, validation = np.mean([draw.records for draw in draws], axis=0)
    pvalues = [draw.pvalue for draw in draws if draw.pvalue is not None]
    return {
        "replicates": "draw of the leak",
        "e0": float(truth.mean()),
        "naive_bias": float((truth - naive).mean()),
        "relative_naive_bias": float((truth - naive).mean() / truth.mean()),
        "naive_bias_standard_error": float(_error_of_mean(truth - naive)),
        "realised_rate": {"mean": float(rates.mean()), "std": float(rates.std(ddof=1))},
        "records": {"train": train, "validation": validation},
        "fits_a_draw": _spent(draws[0]),
        "test": {"draws": len(pvalues), "rejected": sum(p <= 0.05 for p in pvalues), "pvalues": pvalues},
        "observed": _points(_average([draw.equidistant for draw in draws]), LEAKAGE),
        "methods": _methods(study, draws),
        "shape": field_shape(draws),
    }


def _spent(replicate: Replicate) -> dict[str, int]:
    """Fits behind the paper's estimators and behind the default, and how many of the latter are below p0."""
    default = sum(int(np.sum(run.n_fits)) for run in replicate.default)
    spent = {"paper": int(np.sum(replicate.equidistant.n_fits)), "default": default}
    if replicate.below is not None:
        spent["default"] += replicate.below.n_fits
        spent["unmixed"] = replicate.below.n_fits
    return spent


def _points(run: Means, leakage: float) -> dict[str, Any]:
    values = (run.levels(leakage), run.means, run.standard_errors, np.asarray(run.n_fits))
    return dict(zip(("p", "loss", "standard_error", "n_fits"), values, strict=True))


def _input(replicate: Replicate, name: str) -> tuple[Means | tuple[Means, ...], ooc.LossSamples | None]:
    """The losses that a method is fitted to, above and below the leakage rate."""
    return (replicate.default, replicate.below) if name == "default" else (replicate.equidistant, None)


def _fitted_curves(study: Study, first: Replicate) -> dict[str, Any]:
    """Every method's curve in the first trial, as expected losses b(p) at levels from 0 to 1, and as e_0, …, e_n."""
    curves: dict[str, Any] = {"p": _GRID}
    operator = ooc.BinomialOperator(_GRID, study.n).matrix()
    for name, curve in make_curves(study).items():
        means, below = _input(first, name)
        fitted = _fit(curve, means, below)
        if fitted is not None:
            full = means[0] if isinstance(means, tuple) else means
            e = np.asarray(fitted.values(np.arange(study.n + 1)))
            curves[name] = {"loss": operator @ e, "e": e, "largest_p": float(full.levels(LEAKAGE).max())}
    return curves


def _methods(study: Study, replicates: Sequence[Replicate]) -> dict[str, Any]:
    truth = np.array([replicate.truth for replicate in replicates])
    values = {name: np.array([getattr(replicate, name) for replicate in replicates]) for name in ("iid", "naive")}
    for name, curve in make_curves(study).items():
        values[name] = np.array([estimate(curve, *_input(replicate, name)) for replicate in replicates])
    naive = method_errors(values["naive"], truth)
    return {name: {"label": LABELS[name], **method_errors(values[name], truth, naive)} for name in LABELS}


def method_errors(estimates: Array, truth: Array, naive: dict[str, Any] | None = None) -> dict[str, Any]:
    """Errors of one method, and its figures over the naive estimate's."""
    errors = estimates - truth
    solved = np.isfinite(errors)
    summary: dict[str, Any] = {"estimates": estimates, "errors": errors, "failed": int((~solved).sum())}
    if not solved.any():
        return summary | dict.fromkeys(("median_error", "median_absolute_error", "rmse", "worst_relative_error"))
    summary |= {
        "median_error": float(np.median(errors[solved])),
        "median_absolute_error": float(np.median(np.abs(errors[solved]))),
        "rmse": float(np.sqrt((errors[solved] ** 2).mean())),
        "worst_relative_error": float((np.abs(errors) / truth)[solved].max()),
    }
    if naive is not None:
        summary["rmse_over_naive"] = summary["rmse"] / naive["rmse"]
        summary["median_over_naive"] = summary["median_absolute_error"] / naive["median_absolute_error"]
    return summary


def _error_of_mean(values: Array) -> Array:
    error: Array = values.std(axis=0, ddof=1) / np.sqrt(len(values))
    return error


def _average(runs: Sequence[Means], *, centred: bool = False) -> Means:
    """Mean over draws with its error, if wanted without what a draw adds at all levels alike."""
    losses = np.array([run.means for run in runs])
    error = _error_of_mean(losses - losses.mean(axis=1, keepdims=True) if centred else losses)
    return Means(runs[0].injected, losses.mean(axis=0), error, sum(run.n_fits for run in runs), runs[0].size)


def _paper_shape(together: Means) -> dict[str, Any]:
    """Shape of the losses over all trials, with their Monte-Carlo errors."""
    judged = together.binned(_MOST_LEVELS)
    few = judged.binned(_FEW_LEVELS)
    return _shape(judged, LEAKAGE, judged=True) | {
        name: _contrast(p, rows @ few.means, np.sqrt(rows**2 @ few.standard_errors**2))
        for name, (p, rows) in _contrasts(few.levels(LEAKAGE)).items()
    }


def field_shape(draws: Sequence[Replicate]) -> dict[str, Any]:
    """Shape of the losses averaged over draws of the leak, with the errors of that average.

    What a draw adds at all levels alike has no part in the shape: it is taken off before errors are worked out.
    """
    runs = [draw.equidistant.binned(_MOST_LEVELS) for draw in draws]
    shape = _shape(_average(runs, centred=True), LEAKAGE, judged=len(draws) >= _LEAST_DRAWS)
    few = [run.binned(_FEW_LEVELS) for run in runs]
    for name, (p, rows) in _contrasts(few[0].levels(LEAKAGE)).items():
        each = np.array([rows @ run.means for run in few])
        shape[name] = _contrast(p, each.mean(axis=0), _error_of_mean(each))
    return shape


def _contrasts(p: Array) -> dict[str, tuple[Array, Array]]:
    """Slopes between neighbouring levels, and the changes from one slope to the next.

    Each has the middles of the levels that are involved, and the rows that give the contrasts out of the losses.
    """
    slopes = np.diff(np.eye(len(p)), axis=0) / np.diff(p)[:, None]
    return {
        name: ((rows != 0) @ p / (rows != 0).sum(axis=1), rows)
        for name, rows in (("slopes", slopes), ("bends", np.diff(slopes, axis=0)))
    }


def _contrast(p: Array, value: Array, error: Array) -> dict[str, Any]:
    return {"p": p, "value": value, "standard_error": error}


def _shape(run: Means, leakage: float, *, judged: bool) -> dict[str, Any]:
    shape = ooc.diagnose_points(run.levels(leakage), run.means, run.standard_errors if judged else None)
    result = _points(run, leakage) | {"n_fits": int(np.sum(run.n_fits))}
    for check in (shape.decreasing, shape.convex):
        verdict = {"holds": check.holds, "exceeds_noise": check.exceeds_noise, "sentence": str(check)}
        result[check.shape] = plain(check) | verdict
    return result
