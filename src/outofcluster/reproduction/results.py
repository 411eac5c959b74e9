"""A study's results as plain data: estimates, errors and curves of both protocols, kept apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outofcluster.curves.operator import BinomialOperator
from outofcluster.reproduction.estimators import CURVES, LABELS, default_curve, estimate, fit, paper_curves
from outofcluster.reproduction.field import Draw
from outofcluster.reproduction.means import Means, pooled
from outofcluster.reproduction.paper import PaperRun, Trial
from outofcluster.reproduction.parameters import LEAKAGE, Study
from outofcluster.sampling.fitting import one_blas_thread

__all__ = ["field_results", "fitted_curves", "paper_results"]

_GRID = np.unique(np.concatenate([np.linspace(0, 0.25, 51), np.linspace(0.25, 1, 31)]))
"""Levels at which fitted curves are drawn, close where they are steep."""


def paper_results(study: Study, run: PaperRun) -> dict[str, Any]:
    """Estimates of every trial, their errors, and the curves."""
    truth = np.full(len(run.trials), run.e0)
    together = pooled([trial.equidistant for trial in run.trials])
    return {
        "replicates": "trial",
        "e0": run.e0,
        "e0_standard_error": float(run.truth.standard_errors[0]),
        "e0_fits": int(run.truth.n_fits[0]),
        "naive_bias": run.e0 - float(together.means[0]),
        "relative_naive_bias": (run.e0 - float(together.means[0])) / run.e0,
        "relative_fall": (run.e0 - float(run.truth.means[-1])) / run.e0,
        "fall_standard_error": float(np.hypot(run.truth.standard_errors[0], run.truth.standard_errors[-1])),
        "fall": run.e0 - float(run.truth.means[-1]),
        "truth": _curve(run.truth, 0.0),
        "observed": _curve(together, LEAKAGE),
        "sizes": [
            {"size": runs[0].size, **_curve(pooled(list(runs)), LEAKAGE)}
            for runs in zip(*(trial.default for trial in run.trials), strict=True)
        ],
        "fits_a_trial": {
            "paper": int(np.sum(run.trials[0].equidistant.n_fits)),
            "default": int(sum(run.n_fits.sum() for run in run.trials[0].default)),
        },
        "methods": _methods(study, run.trials, truth),
    }


def field_results(study: Study, draws: Sequence[Draw]) -> dict[str, Any]:
    """Estimates of every draw of the leak, their errors, and how they compare with the naive one's."""
    truth = np.array([draw.truth for draw in draws])
    pvalues = [draw.pvalue for draw in draws if draw.pvalue is not None]
    naive = np.array([draw.naive for draw in draws])
    rates = np.array([draw.rate for draw in draws])
    return {
        "replicates": "draw of the leak",
        "e0": float(truth.mean()),
        "naive_bias": float((truth - naive).mean()),
        "relative_naive_bias": float((truth - naive).mean() / truth.mean()),
        "naive_bias_standard_error": float((truth - naive).std(ddof=1) / np.sqrt(len(draws))),
        "realised_rate": {"mean": float(rates.mean()), "std": float(rates.std(ddof=1))},
        "records": {
            "train": float(np.mean([draw.sizes[0] for draw in draws])),
            "validation": float(np.mean([draw.sizes[1] for draw in draws])),
        },
        "fits_a_draw": {
            "paper": int(np.sum(draws[0].equidistant.n_fits)),
            "default": int(sum(run.n_fits.sum() for run in draws[0].default)),
        },
        "test": {"draws": len(pvalues), "rejected": int(sum(p <= 0.05 for p in pvalues)), "pvalues": pvalues},
        "observed": _curve(_average([draw.equidistant for draw in draws]), LEAKAGE),
        "methods": _methods(study, draws, truth),
    }


def fitted_curves(study: Study, run: PaperRun) -> dict[str, Any]:
    """Every method's curve in the first trial, as expected losses b(p) at levels from 0 to 1, and as e_0, …, e_n."""
    found: dict[str, Any] = {"p": _GRID}
    first = run.trials[0]
    operator = BinomialOperator(_GRID, study.n).matrix()
    for name, curve in _curves(study).items():
        means = _input(first, name)
        fitted = fit(curve, means)
        if fitted is not None:
            full = means[0] if isinstance(means, tuple) else means
            with one_blas_thread():
                e = np.asarray(fitted.values(np.arange(study.n + 1)))
                found[name] = {"loss": operator @ e, "e": e, "largest_p": float(full.levels(LEAKAGE).max())}
    return found


def _curves(study: Study) -> dict[str, Any]:
    return paper_curves(study) | {"default": default_curve(study)}


def _input(replicate: Trial | Draw, name: str) -> Means | tuple[Means, ...]:
    """The losses that a method is fitted to."""
    return replicate.default if name == "default" else replicate.equidistant


def _methods(study: Study, replicates: Sequence[Trial | Draw], truth: Any) -> dict[str, Any]:
    values: dict[str, list[float]] = {name: [] for name in LABELS}
    for replicate in replicates:
        values["iid"].append(replicate.iid)
        values["naive"].append(replicate.naive)
        curves = _curves(study)
        for name in CURVES:
            values[name].append(estimate(curves[name], _input(replicate, name)))
    naive = _summary(np.array(values["naive"]), truth)
    return {name: {"label": LABELS[name], **_summary(np.array(found), truth, naive)} for name, found in values.items()}


def _summary(estimates: Any, truth: Any, naive: dict[str, Any] | None = None) -> dict[str, Any]:
    """Errors of one method, and its figures over the naive estimate's."""
    errors = estimates - truth
    solved = errors[np.isfinite(errors)]
    absolute = np.abs(solved)
    found = {
        "estimates": estimates,
        "errors": errors,
        "failed": int(len(errors) - len(solved)),
        "median_error": float(np.median(solved)) if len(solved) else None,
        "median_absolute_error": float(np.median(absolute)) if len(solved) else None,
        "rmse": float(np.sqrt((solved**2).mean())) if len(solved) else None,
        "worst_relative_error": float((np.abs(errors) / truth)[np.isfinite(errors)].max()) if len(solved) else None,
    }
    if naive is not None and len(solved):
        found["rmse_over_naive"] = found["rmse"] / naive["rmse"]
        found["median_over_naive"] = found["median_absolute_error"] / naive["median_absolute_error"]
    return found


def _average(runs: list[Means]) -> Means:
    """Mean over draws, with the error of that mean."""
    losses = np.array([run.means for run in runs])
    error = losses.std(axis=0, ddof=1) / np.sqrt(len(runs))
    return Means(runs[0].injected, losses.mean(axis=0), error, sum(run.n_fits for run in runs), runs[0].size)


def _curve(run: Means, leakage: float) -> dict[str, Any]:
    return {
        "p": run.levels(leakage),
        "loss": run.means,
        "standard_error": run.standard_errors,
        "n_fits": np.asarray(run.n_fits),
    }
