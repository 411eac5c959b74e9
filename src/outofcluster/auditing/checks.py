"""What an audit looks out for: every pitfall that the data, the samples or the solution can show, as a finding.

In the order of the flow: the error model and the units are chosen, sizes are looked at before anything is fitted;
losses after sampling; the estimate after solving. What no data can show (leaked records may differ from the rest
of their clusters, a rate may be wrong) is said along with the estimate that rests on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from outofcluster._base.exceptions import InputError
from outofcluster.auditing.findings import Finding
from outofcluster.curves.base import Curve
from outofcluster.curves.shape import diagnose_points
from outofcluster.inference.pooling import Optimism, Pooled
from outofcluster.leakage.rate import Leakage
from outofcluster.split.folds import Fold

__all__ = ["choose_errors", "choose_units", "look_at_estimate", "look_at_losses", "look_at_sizes"]

Codes = NDArray[np.int64]

_LEAST_CLUSTERS = 10
_SMALL_CLUSTER = 20
_LOW_LEVEL = 0.25
"""Largest level below which a curve cannot be followed; five folds of equal size reach 0.4."""
_FAR = 6.0
"""Multiplier of the losses' noise beyond which an extrapolation counts as far."""


def choose_errors(
    errors: str, leakage: Any, folds: Sequence[Fold], codes: Codes
) -> tuple[Literal["records", "fragments"], list[Finding]]:
    """The error model: as said, by what the rate is a share of, or by the clusters' sizes.

    With at least ten clusters in every V̂ that could be cut, of twenty records or fewer in the median, they look
    like linked entities (fragments), else like hospitals or countries (records).
    """
    sizes = [np.bincount(codes[fold.validation]) for fold in folds]
    cut = [counts[counts > 1] for counts in sizes]
    small = min(len(counts) for counts in cut) >= _LEAST_CLUSTERS
    small = small and float(np.median(np.concatenate(cut))) <= _SMALL_CLUSTER
    seen = "the validation clusters are many and small" if small else "the validation clusters are few or large"
    if errors == "auto":
        model: Literal["records", "fragments"] = "fragments" if small else "records"
        why = seen
        given = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
        if isinstance(given, Leakage):
            model = "records" if given.of == "train" else "fragments"
            why = f"the rate is a share of the {given.of} records"
        found = [
            Finding(
                "error-model",
                "info",
                f"Errors are taken to be those of {model}: {why}.",
                "Say errors= if you know better.",
            )
        ]
    elif errors in ("records", "fragments"):
        model, found = ("records" if errors == "records" else "fragments"), []
    else:
        raise InputError(f"errors must be 'auto' or 'records' or 'fragments', got {errors!r}.")
    if small and model == "records":
        found.append(
            Finding(
                "fragments-likely",
                "warning",
                f"Errors are taken to be those of single records, but {seen}: where linkage splits an entity, whole "
                "pieces leak, and the records model corrects too much.",
                "Use errors='fragments' with the rate as a share of the validation records.",
            )
        )
    return model, found


def choose_units(
    units: str, folds: Sequence[Fold], codes: Codes
) -> tuple[Literal["clusters", "records"], list[Finding]]:
    """Clusters where there are enough of them, else records; the finding says what that leaves out."""
    if units not in ("auto", "clusters", "records"):
        raise InputError(f"units must be 'auto' or 'clusters' or 'records', got {units!r}.")
    held_out = min(len(np.unique(codes[fold.validation])) for fold in folds)
    trained = min(len(np.unique(codes[fold.train])) for fold in folds)
    used = len(np.unique(np.concatenate([codes[fold.validation] for fold in folds])))
    enough = held_out >= 2 and trained >= 2 and used >= _LEAST_CLUSTERS
    if units == "clusters":
        if used < 2:
            raise InputError("units must be 'auto' or 'records' where a single cluster is held out, got 'clusters'.")
        return "clusters", [] if enough else [
            Finding(
                "few-clusters",
                "warning",
                f"There are {used} held-out clusters ({held_out} in a fold): an interval for new clusters of the "
                "population is itself uncertain with so few.",
                "More clusters are needed, or units='records' for these clusters only.",
            )
        ]
    if units == "auto" and enough:
        return "clusters", []
    reason = f"There are {used} held-out clusters ({held_out} in a fold): the" if not enough else "The"
    return "records", [
        Finding(
            "few-clusters",
            "warning" if units == "auto" else "info",
            f"{reason} interval is for these clusters only, and does not cover how clusters of the population differ.",
            "More clusters are needed for that." if not enough else "Use units='clusters' for that.",
        )
    ]


def look_at_sizes(model: str, n_train: int | None, largest: float | None, rates: Any) -> list[Finding]:
    """What can be said before anything is fitted."""
    found = []
    if largest is not None and largest < _LOW_LEVEL:
        found.append(
            Finding(
                "small-validation",
                "warning",
                f"The validation folds are small against n_train = {n_train}: levels go up to {largest:.2g} only.",
                "Use fewer folds or a smaller n_train.",
            )
        )
    if model == "fragments" and n_train is None:
        found.append(
            Finding(
                "fixed-training",
                "info",
                "With fragments the training clusters stay as they are, so the interval does not include their "
                "variation.",
                "Give n_train to draw them anew in every fit.",
            )
        )
    if rates is None:
        found.append(
            Finding("no-rate", "info", "Without a leakage rate there is no corrected loss.", "Look at sensitivity().")
        )
    return found


def look_at_losses(pooled: Pooled) -> list[Finding]:
    """What the samples show: redraws, and the shape of the losses beyond noise."""
    found = []
    redraws = sum(int(run.samples.redraws.sum()) for run in pooled.runs)
    fits = sum(run.samples.n_fits for run in pooled.runs)
    if redraws > 0.01 * fits:
        found.append(
            Finding(
                "single-class",
                "warning",
                f"{redraws} resamples held a single class or left nothing to score and were drawn again ({fits} fits).",
                "Raise n_train; the losses are those of resamples with every class.",
            )
        )
    errors = np.sqrt(pooled.monte_carlo)
    if len(pooled.injected) < 3 or not np.isfinite(errors).all() or errors.min() <= 0:
        return found
    diagnosis = diagnose_points(pooled.injected, pooled.means, errors, alpha=0.01)
    if diagnosis.decreasing.exceeds_noise:
        # Beyond the noise of the fits is not beyond that of the data: a rise counts where it matters to the answer.
        rise = float((pooled.means - np.minimum.accumulate(pooled.means)).max())
        spread = float(np.sqrt(pooled.variances(pooled.naive_only()).data))
        found.append(
            Finding(
                "not-decreasing",
                "warning" if rise > spread / 2 else "info",
                str(diagnosis.decreasing),
                "The learner is not optimal in its class, so that more leakage need not lower the loss; the "
                "extrapolation has no theorem behind it.",
            )
        )
    if diagnosis.convex.exceeds_noise:
        found.append(
            Finding("not-convex", "info", str(diagnosis.convex), "Methods that assume convexity do not fit here.")
        )
    return found


def look_at_estimate(
    pooled: Pooled,
    optimism: Optimism,
    curve: Curve,
    *,
    value: float,
    se_data: float,
    loss_range: tuple[float, float],
    leakage: Sequence[Leakage],
) -> list[Finding]:
    """What the solution shows, and what it rests on."""
    found = []
    if optimism.multiplier > _FAR:
        found.append(
            Finding(
                "far-extrapolation",
                "warning",
                f"The extrapolation to no leakage multiplies the noise of the losses by up to "
                f"{optimism.multiplier:.1f}.",
                "Lower the leakage by better linkage, or read the interval before the value.",
            )
        )
    low, high = loss_range
    if not low <= value <= high:
        found.append(
            Finding(
                "out-of-range",
                "severe",
                f"The corrected loss {value:.4g} lies outside [{low:g}, {high:g}].",
                "The leakage rate or the method does not fit these losses.",
            )
        )
    if not pooled.variances(optimism).told:
        found.append(
            Finding(
                "data-variance",
                "warning",
                "The fits are too few to tell the data's variance from 0; the interval is wider than need be.",
                "Raise n_fits.",
            )
        )
    found += _lack_of_fit(pooled, optimism, curve, se_data)
    if any(leak.rate > 0 and leak.std is None for leak in leakage):
        found.append(
            Finding(
                "exact-rate",
                "info",
                "The leakage rate is taken to be exact; the interval does not include that it may be wrong.",
                "Give Leakage(rate, std=…), or look at sensitivity().",
            )
        )
    if any(leak.rate > 0 for leak in leakage):
        found.append(
            Finding(
                "leaked-like-the-rest",
                "info",
                "Leaked records are taken to be like the rest of their clusters, which these data cannot show.",
                "Compare leaked and other records in an audited sample, if there is one.",
            )
        )
    return found


def _lack_of_fit(pooled: Pooled, optimism: Optimism, curve: Curve, se_data: float) -> list[Finding]:
    """Residuals beyond noise, where the method leaves degrees of freedom; a warning only where they matter."""
    spare = 0 if curve.rank_ is None else len(pooled.injected) - curve.rank_
    if spare < 1 or not np.isfinite(pooled.monte_carlo).all() or pooled.monte_carlo.min() <= 0:
        return []
    residual = curve.residual_
    pvalue = float(chdtrc(spare, float((residual**2 / pooled.monte_carlo).sum())))
    if pvalue >= 0.01:
        return []
    matters = float(np.abs(residual).max()) * optimism.multiplier > se_data
    return [
        Finding(
            "lack-of-fit",
            "warning" if matters else "info",
            f"The curve misses the losses by up to {np.abs(residual).max():.2g}, more than their noise explains "
            f"(p = {pvalue:.1g})" + ("." if matters else ", but little against the interval."),
            "Try another method, such as PolynomialCurve(3) or CompletelyMonotoneCurve().",
        )
    ]
