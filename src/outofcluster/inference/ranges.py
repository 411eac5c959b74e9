r"""A range for the corrected loss that needs no curve: what holds if only convexity and small clean sets are trusted.

*From below*: the steepest line through the losses of the full size, continued from p0 to no leakage. A convex curve
lies above it. Where a mass of p0 or more was removed of what looks leaked, and no loss up to 1.5 p0 rose as far as the
line, nothing supports that the curve is convex, and the largest rise that was seen takes the place of the line.

*From above*, the larger of two. Of training sets of n records the share :math:`(1-p_0)^n` is clean (43 % of sets of 8
records at p0 = 0.1). Were those with leaked records as good as the best level that was observed, the clean ones would
lose what is left of the mean of all. More clean records do not make a model worse on average, so that larger clean sets
lose no more. That is no bound where clusters contradict each other and more clean records do make a model worse; so the
largest loss that removing up to 1.5 p0 of what looks leaked has shown counts as well. Where hardly any set of the
smallest size is clean, the upper end is what the loss can be, and there is no range if the loss has no upper end.

Both ends are widened by two standard errors of the losses, and of the naive loss, and cut at what the loss can be.
"""

from __future__ import annotations

import math

import numpy as np

from outofcluster.curves.unmixing import mass_of_injected
from outofcluster.inference.pooled import Pooled

_LEAST_CLEAN = 0.05
"""Share of clean sets below which a size tells nothing about them."""
_REMOVED = 1.5
_WIDEN = 2.0


def loss_range(pooled: Pooled, rate: float, naive_error: float) -> tuple[float, float] | None:
    """The range for single records that leak."""
    b, errors = pooled.shares @ pooled.losses, np.sqrt(pooled.shares**2 @ pooled.errors**2)
    _, p = pooled.levels(rate)
    full = len(pooled.injected)
    first, rest = 0, slice(1, full)
    apart = p[rest] - p[first]
    slopes = (b[first] - b[rest]) / apart
    spread = np.hypot(errors[first], errors[rest]) / apart
    low = max(float((slopes - _WIDEN * spread).max()), 0.0) * rate
    highest, most_removed = _removed(pooled, rate)
    if most_removed >= rate:
        low = min(low, max(highest, 0.0))
    high = max(low, highest, _clean_sets(pooled, rate))
    least, most = pooled.samples.loss_range
    if math.isinf(min(high, most)):
        return None
    around = _WIDEN * naive_error
    ends = pooled.naive + low - around, pooled.naive + high + around
    return min(max(ends[0], least), most), max(min(ends[1], most), least)


def _removed(pooled: Pooled, rate: float) -> tuple[float, float]:
    """By how much removing what looks leaked has raised the loss at most, and the largest mass that counts here."""
    if not pooled.has_unmixed:
        return 0.0, 0.0
    highest, most_removed = 0.0, 0.0
    for place in range(len(pooled.samples.folds[0].unmixed.injected)):  # type: ignore[union-attr]
        runs = [fold.unmixed for fold in pooled.samples.folds if fold.unmixed is not None]
        mass = float(mass_of_injected(runs[0].injected[place]))
        if 0 < mass <= _REMOVED * rate:
            error = math.sqrt(float(pooled.shares**2 @ [run.standard_errors[place] ** 2 for run in runs]))
            mean = float(pooled.shares @ [run.means[place] for run in runs])
            highest, most_removed = max(highest, mean + _WIDEN * error - pooled.naive), max(most_removed, mass)
    return highest, most_removed


def _clean_sets(pooled: Pooled, rate: float) -> float:
    """By how much clean sets of the smallest size may lose more than the full size does at the lowest level."""
    clean = (1 - rate) ** pooled.sizes[-1]
    if clean < _LEAST_CLEAN:
        return math.inf
    runs = [fold.by_size[-1] for fold in pooled.samples.folds]
    means = pooled.shares @ np.stack([run.means for run in runs])
    error = math.sqrt(float(pooled.shares**2 @ [run.standard_errors[0] ** 2 for run in runs]))
    most = (means[0] + _WIDEN * error - (1 - clean) * means.min()) / clean
    return float(most - (pooled.shares @ pooled.losses)[0])
