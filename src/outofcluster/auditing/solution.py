"""What the samples say for one choice of rates, curve and confidence: estimates of losses with their intervals.

Everything here is a loss, of which lower values are better; whoever shows a value turns its sign where a metric needs
it. A number is solved when it is first read. Without a leakage rate there are the cross-validated losses alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Curve
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.inference.estimates import Estimate
from outofcluster.inference.functional import Functional
from outofcluster.inference.intervals import Confidence, Uncertainty, draw_again, paired_uncertainty, uncertainty

# Draws of a rough interval.
_FEW_DRAWS = 50


@dataclass(frozen=True, eq=False)
class Solution:
    """The losses of an audit, solved for one choice of rates, curve and confidence.

    Attributes
    ----------
    pooled : Pooled
        The samples of all folds as one problem.
    curve_method : Curve
        The curve method.
    confidence_level : float
        Confidence level of all intervals.
    rates, stds : array of shape (folds,) or (0,)
        The leakage rate of each fold, and its standard error, 0 where it is taken as known; empty without a rate.
    from_data : bool
        Whether the rate is what the records show, so that an optimism that needs none is preferred.
    """

    pooled: Pooled
    curve_method: Curve
    confidence_level: float
    rates: Array
    stds: Array
    from_data: bool = False

    @property
    def has_rate(self) -> bool:
        """Whether a leakage rate is known."""
        return len(self.rates) > 0

    @property
    def mean_rate(self) -> float:
        """The leakage rate, averaged over what the folds score."""
        return float(self.pooled.shares @ self.rates)

    @property
    def _confidence(self) -> Confidence:
        return Confidence(self.confidence_level, self.pooled.n_scored, self.pooled.samples.loss_range)

    @cached_property
    def naive(self) -> Estimate:
        """The cross-validated loss, without a correction."""
        return self._confidence.linear(self.pooled.naive, self.naive_uncertainty)

    @cached_property
    def naive_uncertainty(self) -> Uncertainty:
        """Where the uncertainty of the cross-validated loss comes from."""
        return self._uncertainty(self.pooled.naive_functional())

    @cached_property
    def iid(self) -> Estimate:
        """The loss over random folds, which ignore clusters; records are the units of its interval."""
        losses = self.pooled.samples.random_folds.losses
        low, high = self.pooled.samples.loss_range
        # The mean of weighted losses can leave the range by a rounding error.
        value = min(max(float(losses.mean()), low), high)
        spread = float(losses.std(ddof=1)) / math.sqrt(len(losses))
        reach = float(ndtri(0.5 + self.confidence_level / 2)) * spread
        interval = (max(value - reach, low), min(value + reach, high))
        return Estimate(value, interval, 0.0, spread, self.confidence_level)

    @cached_property
    def corrected(self) -> Estimate | None:
        """The loss on new clusters; None where nothing is corrected."""
        if not self.has_rate:
            return None
        value = self.pooled.naive + self.correction.value
        if self.correction.exact:
            return self._opened(self._confidence.linear(value, self.uncertainty))
        draws = self._draws(self.correction, self.rates, self.stds)
        return self._opened(self._confidence.from_draws(value, draws, self.uncertainty.monte_carlo))

    @cached_property
    def optimism(self) -> Estimate | None:
        """The corrected loss minus the naive one, with a paired interval; None where nothing is corrected."""
        if not self.has_rate:
            return None
        pooled, solved = self.pooled, self.correction
        least, most = pooled.samples.loss_range
        confidence = Confidence(self.confidence_level, pooled.n_scored, (least - pooled.naive, most - pooled.naive))
        if not solved.exact:
            draws = self._draws(solved, self.rates, self.stds, of_naive=False)
            drawn = confidence.from_draws(solved.value, draws, pooled.monte_carlo_of(solved.estimate))
            return self._opened(drawn, less=pooled.naive)
        source = pooled.optimism_uncertainty(solved, self.rate_effect)
        return self._opened(confidence.linear(solved.value, source), less=pooled.naive)

    def _opened(self, estimate: Estimate, *, less: float = 0.0) -> Estimate:
        """The estimate with an interval that contains all that is possible; ``less`` is taken off the losses."""
        if self._possible is None:
            return estimate
        within = self.pooled.samples.loss_range
        low, high = (min(max(end, within[0]), within[1]) - less for end in self._possible)
        return replace(estimate, interval=(min(estimate.interval[0], low), max(estimate.interval[1], high)))

    @cached_property
    def _possible(self) -> tuple[float, float] | None:
        """Corrected losses that an interval must not leave out; None where the estimate says enough.

        Where little of the leakage would be seen, they go up to what imitation allows. Where the sides of the splits
        look alike, all of the range is possible that needs no curve.
        """
        if self.nothing_seen:
            return self.range
        upper = self.correction.facts.get("upper")
        value = self.pooled.naive + self.correction.value
        return None if upper is None else (value, max(self.pooled.naive + upper, value))

    @cached_property
    def range(self) -> tuple[float, float] | None:
        """A range for the corrected loss that needs no curve; None where nothing can be said."""
        if not self.has_rate:
            return None
        return self.pooled.bounds(self.mean_rate, math.hypot(self.naive.se_data, self.naive.se_monte_carlo))

    @cached_property
    def curve(self) -> Curve | None:
        """The curve of the pooled losses at the mean leakage rate; None without a rate."""
        return self.pooled.fit(self.curve_method, self.mean_rate) if self.has_rate else None

    @cached_property
    def correction(self) -> Optimism:
        """The optimism as a combination of losses."""
        measured = self.pooled.measured if self.from_data else None
        return self.pooled.solve(self.curve_method, self.rates, stds=self.stds) if measured is None else measured

    @property
    def at_least(self) -> bool:
        """Whether the optimism is a lower bound, since little of the leakage would be seen."""
        return self.has_rate and self.correction.facts.get("upper") is not None

    @property
    def nothing_seen(self) -> bool:
        """Whether the rate is to come from records that do not show it, since both sides of the splits look alike."""
        return self.has_rate and self.from_data and self.pooled.sides_alike

    @cached_property
    def imprecision(self) -> float:
        """The Monte-Carlo standard error of the optimism over its standard error; 0 where nothing is corrected."""
        if self.optimism is None or self.optimism.se_monte_carlo == 0:
            return 0.0
        # A single replicate has no noise that one could see, and counts as a noisy one.
        fits = self.optimism.se_monte_carlo if math.isfinite(self.optimism.se_monte_carlo) else math.inf
        return fits / self.optimism.se_data if self.optimism.se_data > 0 else 0.0

    @cached_property
    def rate_effect(self) -> float:
        """How far the optimism moves when the leakage rate moves by one standard error."""
        return self.pooled.rate_effect(self.curve_method, self.rates, self.stds)

    @cached_property
    def uncertainty(self) -> Uncertainty:
        """Where the uncertainty of the corrected loss comes from."""
        # A resampled interval draws the rate itself.
        moved = self.rate_effect if self.correction.exact else 0.0
        return self._uncertainty(self.pooled.corrected(self.correction), rate_effect=moved)

    @property
    def is_exact(self) -> bool:
        """Whether the curve method has derivatives in closed form, so that intervals need no resampling."""
        return self.pooled.solve(self.curve_method, np.full(self.pooled.n_folds, 0.1), derive=False).exact

    def with_clusters(self, count: int) -> Estimate:
        """The corrected loss, or the naive one without a rate, with the interval that so many scored units would give.

        What more of them do not tell stays as it is (:mod:`outofcluster.auditing.planning`).
        """
        value, source, moved, lasting = self.pooled.naive, self.naive_uncertainty, 0.0, 0.0
        if self.has_rate:
            value, source = value + self.correction.value, self.uncertainty
            moved = self.rate_effect**2
            lasting = self.pooled.lasting(self.correction, self.rates) + moved
        total = source.monte_carlo + source.of_units + source.choice + moved
        scaled = lasting + (total - lasting) * self.pooled.n_scored / count
        confidence = replace(self._confidence, n_scored=count)
        estimate = confidence.linear(value, Uncertainty(np.zeros(0), 0.0, scaled))
        return self._opened(estimate) if self.has_rate else estimate

    def loss_at(self, rate: float) -> float:
        """The corrected loss at another leakage rate, the same in every fold, without an interval."""
        rates = np.full(self.pooled.n_folds, rate)
        return self.pooled.naive + self.pooled.solve(self.curve_method, rates, derive=False).value

    def roughly_at(self, rate: float) -> Estimate:
        """The corrected loss at another leakage rate that is taken as known, with an interval from 50 draws."""
        rates = np.full(self.pooled.n_folds, rate)
        optimism = self.pooled.solve(self.curve_method, rates)
        draws = self._draws(optimism, rates, np.zeros_like(rates), n_draws=_FEW_DRAWS)
        return self._confidence.from_few_draws(self.pooled.naive + optimism.value, draws)

    def less(self, other: Solution, *, corrected: bool) -> Estimate:
        """The loss of this model less that of another one on the same resamples, with a paired interval."""
        a, b = (
            each.pooled.corrected(each.correction) if corrected else each.pooled.naive_functional()
            for each in (self, other)
        )
        moved = self.rate_effect - other.rate_effect if corrected else 0.0
        training = (self.pooled.training_share + other.pooled.training_share) / 2
        source = paired_uncertainty(
            (self.pooled.columns, a), (other.pooled.columns, b), rate_effect=moved, training=training
        )
        return Confidence(self.confidence_level, self.pooled.n_scored).linear((a - b).value, source)

    def _uncertainty(self, estimate: Functional, **further: float) -> Uncertainty:
        return uncertainty(self.pooled.columns, estimate, training=self.pooled.training_share, **further)

    def _draws(self, optimism: Optimism, rates: Array, stds: Array, *, of_naive: bool = True, **options: Any) -> Array:
        """Corrected losses, or optimisms alone, of draws from what is stored."""
        pooled, curve = self.pooled, self.curve_method
        naive = pooled.naive_functional() if of_naive else Functional(0.0)
        source = (
            self._uncertainty(pooled.corrected(optimism)) if of_naive else pooled.optimism_uncertainty(optimism, 0.0)
        )
        return draw_again(
            pooled.columns,
            pooled.roles,
            source,
            lambda rates, losses: pooled.solve(curve, rates, losses=losses, derive=False).value,
            linear=replace(naive + optimism.aside, value=naive.value),
            rates=rates,
            stds=stds,
            lowest=0.0 if curve.needs.nonnegative else pooled.samples.loss_range[0],
            choice=optimism.estimate.choice,
            seeds=[seed for fold in pooled.folds for seed in fold.main.seeds],
            **options,
        )
