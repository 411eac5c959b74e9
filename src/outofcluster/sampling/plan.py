"""The plan of a run: which levels, how many fits at each, when to stop.

Levels that the caller sets get equal shares of the budget. Otherwise the levels are those of the optimal extrapolation
design for a cubic, with check levels (:mod:`outofcluster.design.extrapolation`); a pilot of a tenth of the budget
measures the noise at each, and the rest is allocated in proportion to the noise times the extrapolation weight. With a
wanted standard error of e_0 the budget is the most that is spent: after the pilot, and after each further round, the
fits that are still needed are worked out from the noise seen so far.

Sampling does not know p0. The design plans for a leakage of 0.1; this decides only where fits are spent.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.validation import Array
from outofcluster.design.extrapolation import (
    Design,
    allocate,
    extrapolation_design,
    fits_for_standard_error,
    predicted_variance,
)

__all__ = ["Plan"]

_DEGREE = 3
_LEAKAGE = 0.1
_PILOT_SHARE = 0.1
_PILOT_LEAST, _PILOT_TO_STOP = 4, 20
_PRIOR_REPLICATES = 10

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Plan:
    """Levels, budget, and the rule by which rounds follow each other.

    Attributes
    ----------
    injected : array
        Levels, increasing.
    budget : int
        The largest number of fits over all levels.
    fixed : array of int or None
        Fits of each level where they are settled beforehand.
    standard_error : float or None
        Stop as soon as the Monte-Carlo standard error of e_0 is below this.
    """

    injected: Array
    budget: int
    fixed: Counts | None = None
    standard_error: float | None = None

    def following(self, target: Counts, losses: list[Array]) -> Counts | None:
        """The next round's target, given the last one and the losses up to it; None when nothing is left to do."""
        if target.sum() >= self.budget:
            return None
        if self.fixed is not None:
            return self.fixed
        if target.sum() == 0:
            pilot = max(_PILOT_LEAST, int(_PILOT_SHARE * self.budget) // len(self.injected))
            if self.standard_error is not None:
                pilot = min(pilot, _PILOT_TO_STOP)
            if pilot * len(self.injected) >= self.budget:
                return allocate(np.ones(len(self.injected)), self.budget)
            return np.full(len(self.injected), pilot)
        noise = _noise(losses)
        spend = self.budget
        if self.standard_error is not None:
            now = Design(self.injected, target)
            variance = predicted_variance(now, _DEGREE, _LEAKAGE, noise)
            if variance <= self.standard_error**2:
                return None
            needed = fits_for_standard_error(now, variance, self.standard_error)
            # They are not spent all at once, since the noise is itself an estimate.
            spend = min(self.budget, needed, 4 * int(target.sum()))
        return self._spend(target, noise, max(spend, int(target.sum()) + len(self.injected)))

    def _spend(self, target: Counts, noise: Array, spend: int) -> Counts:
        """Fits in proportion to noise times weight, and never fewer than there are already."""
        spend = min(spend, self.budget)
        wanted = allocate(_weights(self.injected) * noise, spend).astype(float)
        # Levels that already have more than their share leave less for the others.
        extra = np.maximum(wanted - target, 0)
        left = spend - int(target.sum())
        if extra.sum() == 0:
            extra = np.ones(len(target))
        more: Counts = target + allocate(extra, left, least=0)
        return more


def _noise(losses: list[Array]) -> Array:
    """Standard deviations of the losses, each moved towards the common one as if by ten further replicates.

    A pilot has few replicates per level, and an allocation by their raw deviations would chase their noise.
    """
    freedom = np.array([len(level) - 1 for level in losses])
    variances = np.array([level.var(ddof=1) for level in losses])
    common = float((freedom * variances).sum() / freedom.sum())
    noise: Array = np.sqrt((freedom * variances + _PRIOR_REPLICATES * common) / (freedom + _PRIOR_REPLICATES))
    return noise if common > 0 else np.ones(len(losses))


def _weights(injected: Array) -> Any:
    """Shares of the optimal design at its own levels, which are right when the noise is the same everywhere."""
    planned = extrapolation_design(_DEGREE, 10_000, float(injected[-1]), leakage=_LEAKAGE)
    return planned.n_fits.astype(float)
