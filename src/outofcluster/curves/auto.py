r"""The automatic curve: curves of many shapes, averaged by how well they explain the losses.

No single method serves all learners: some losses fall steeply with the first leaked records, others hardly at all,
and what happens below the lowest level is not observed. So the curve is taken to be :math:`e(x) = c + A\,h(x)` in the
share x = j/n of leaked records, A ≥ 0, with h one of the shapes of :mod:`outofcluster.curves.families`. For each of
them c and A follow from weighted least squares, and it counts by

.. math:: π_k ∝ \exp(-χ_k^2/2)\; α_k^{-3}\; \exp(-3 \log^2 β_k), \qquad
          α_k = \frac{h_k(0) - (A h_k)(p_{max})}{(A h_k)(p_{min}) - (A h_k)(p_{max})} ,

by its fit, and the less, the more it amplifies what was observed, from the lowest level to no leakage: of curves that
explain the losses equally well, the one that claims less is the more likely. A variance of (1 % of the fall)² is
added to that of each loss, since no such curve is the true one exactly. A line without any fall counts four times as
much beforehand as all shapes together, so that fits which show no effect are not given one. A curve that starts above
what the loss can be does not count. The estimate is the average
:math:`\hat e_0 = \sum_k π_k e_{0k}`, the whole curve likewise.

*Several sizes.* At n = 100 and p0 = 0.1 hardly any training set is free of leaked records, so that losses above p0 tell
little about e_0: two data sets may have the same curve there and another fall below. In sets of 8 records, 43 % are
free of them. Smaller training sets have other losses, c and A of their own, but the *shape* in x is nearly theirs, and
A changes slowly with the size. So every size has its own c, the 1 % grow by 2 % with every halving, and the heights A
follow a random walk over the logarithm of the size,

.. math:: A_{s+1} = A_s + N(0,\; 0.2^2 A_s^2 \log_2(n_{s+1}/n_s)) ,

and a filter from the smallest size to the largest gives for each shape the height at the largest and the likelihood of
all losses. With one size this is the formula above. A size at which the losses are more than twice as high counts as
another learner and is left out.

*Uncertainty.* The variance of the choice is :math:`\sum_k π_k (o_k - \bar o)^2`, o the optimism, plus that of the
random walk; it belongs into every interval. For the variance from the losses the shares and the filter's gains are
held, :math:`\bar w = \sum_k π_k\, ∂e_{0k}/∂b`: how they would move is what the variance of the choice stands for.

A h is an expectation over the binomial distribution, whose cost does not depend on n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array
from outofcluster.curves.base import Curve, Needs, Solution
from outofcluster.curves.families import expected_falls, falls, log_prior
from outofcluster.curves.points import Points

__all__ = ["AutoCurve"]

_DISCREPANCY = 0.01
_OF_SMALLER = 0.02
"""What is added to the discrepancy with every halving of the size."""
_CAUTION = 3.0
_NO_FALL = 4.0
_DRIFT = 0.2
"""Standard deviation of the relative change of a height when the size doubles."""


@dataclass(eq=False)
class AutoCurve(Curve):
    """Curves of many shapes, steep and gentle, averaged by fit and caution; nothing to set.

    Give ``standard_errors`` to ``fit_points`` where they are known (``fit`` does): they decide how much the losses
    tell about the shape. ``n`` may hold one size a loss: smaller training sets tell what happens below the lowest
    level, and e_0 is that of the largest size.

    Parameters
    ----------
    largest : float, optional
        What the loss cannot exceed, such as 1 for the zero-one loss: curves that start above it are impossible.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.array([0.1, 0.13, 0.2, 0.35, 0.6])
    >>> b = 0.2 + 0.1 / (1 + 100 * p / 12)
    >>> curve = ooc.AutoCurve().fit_points(p, b, n=100, standard_errors=np.full(5, 1e-4))
    >>> round(curve.e0_, 2)
    0.3
    """

    largest: float = field(default=math.inf, repr=False)

    @property
    def needs(self) -> Needs:
        """Levels and sizes of its own; it may be fitted to any losses."""
        return Needs("automatic", sizes=True, nonnegative=False)

    def within(self, loss_range: tuple[float, float]) -> AutoCurve:
        """The same curve, with ``largest`` set to the loss's bound where it was infinite.

        Parameters
        ----------
        loss_range : tuple of float
            The smallest and the largest value that the loss can take; infinite where there is no bound.

        Returns
        -------
        AutoCurve
            The curve itself where ``largest`` is given already, else a new one that is not fitted.
        """
        return replace(self, largest=loss_range[1]) if self.largest == math.inf else self

    def _solve(self, points: Points) -> AverageSolution:
        points.require_levels(3, "a learning curve")
        if math.isnan(self.largest):
            raise InputError("largest must be a number, got nan.")
        rungs = [Rung.of(points, size) for size in np.unique(points.sizes)]
        loss = rungs[-1].lowest_loss
        kept = tuple(rung for rung in rungs if rung.lowest_loss - loss <= abs(loss))
        return AverageSolution(points, kept, self.largest)


@dataclass(frozen=True)
class Rung:
    """The losses of one size, and the least-squares fit of every shape to them.

    Attributes
    ----------
    size : int
        Size of the training sets.
    columns : array of int
        Which of the points these are.
    design : array of shape (levels, shapes)
        A h.
    b, precision : array of shape (levels,)
        Losses and 1 / variance.
    """

    size: int
    columns: NDArray[np.int64]
    design: Array
    p: Array
    b: Array
    precision: Array

    @classmethod
    def of(cls, points: Points, size: int) -> Self:
        """Those of the points that have this size."""
        columns = np.flatnonzero(points.sizes == size)
        p, b = points.p[columns], points.b[columns]
        fall = float(b[p.argmin()] - b[p.argmax()])
        discrepancy = _DISCREPANCY + _OF_SMALLER * np.log2(points.n / size)
        variance = np.full(len(p), (discrepancy * fall) ** 2 + 1e-18)
        if points.errors is not None:
            variance = variance + points.errors[columns] ** 2
        elif points.weights is not None:
            variance = variance / (points.weights[columns] / points.weights.mean())
        return cls(size, columns, expected_falls(p, size, points.n), p, b, 1 / variance)

    @property
    def lowest_loss(self) -> float:
        """The loss at the lowest level."""
        return float(self.b[self.p.argmin()])

    @cached_property
    def at_lowest(self) -> Array:
        """A h at the lowest level."""
        lowest: Array = self.design[self.p.argmin()]
        return lowest

    @cached_property
    def amplification(self) -> Array:
        """α: the fall from no leakage to the highest level over that from the lowest level."""
        highest = self.design[self.p.argmax()]
        amplification: Array = (1 - highest) / np.maximum(self.at_lowest - highest, 1e-300)
        return amplification

    @cached_property
    def centre(self) -> Array:
        """Each shape's mean over the levels."""
        centre: Array = self.precision @ self.design / self.precision.sum()
        return centre

    @cached_property
    def mean(self) -> float:
        """The losses' mean over the levels."""
        return float(self.precision @ self.b / self.precision.sum())

    @cached_property
    def certainty(self) -> Array:
        """1 / variance of each shape's height."""
        certainty: Array = np.maximum(self.precision @ (self.design - self.centre) ** 2, 1e-300)
        return certainty

    @cached_property
    def slopes(self) -> Array:
        """How each level's loss moves the height, a column a shape."""
        slopes: Array = self.precision[:, None] * (self.design - self.centre) / self.certainty
        return slopes

    @cached_property
    def heights(self) -> Array:
        """A, of either sign."""
        heights: Array = self.b @ self.slopes
        return heights

    @cached_property
    def misfit(self) -> Array:
        """χ² of each shape."""
        residuals = (self.b - self.mean)[:, None] - self.heights * (self.design - self.centre)
        misfit: Array = self.precision @ residuals**2
        return misfit


@dataclass(frozen=True)
class Filtered:
    """What all sizes say about every shape's height at the largest one.

    Attributes
    ----------
    heights, variance : array of shape (shapes,)
        Mean and variance.
    score : array of shape (shapes,)
        Logarithm of the likelihood.
    gains : tuple of array
        How much each size's own height counts.
    drift : array of shape (shapes,)
        The part of the variance that the random walk adds.
    """

    heights: Array
    variance: Array
    score: Array
    gains: tuple[Array, ...]
    drift: Array

    @classmethod
    def of(cls, rungs: tuple[Rung, ...]) -> Self:
        """Filter from the smallest size to the largest."""
        first, *rest = rungs
        heights, variance, score = first.heights, 1 / first.certainty, -0.5 * first.misfit
        gains, walks, size = [np.ones_like(heights)], list[Array](), first.size
        for rung in rest:
            walk = _DRIFT**2 * np.log2(rung.size / size) * np.maximum(heights, 0.0) ** 2
            expected = variance + walk
            spread = expected + 1 / rung.certainty
            score = score - 0.5 * (
                rung.misfit + (rung.heights - heights) ** 2 / spread + np.log1p(expected * rung.certainty)
            )
            gain = expected / spread
            heights = heights + gain * (rung.heights - heights)
            variance = expected * (1 - gain)
            gains = [(1 - gain) * before for before in gains] + [gain]
            walks.append(walk)
            size = rung.size
        # A step of the walk is missed by what counts of the sizes before it.
        drift, missed = np.zeros_like(heights), np.zeros_like(heights)
        for gain, walk in zip(gains, walks, strict=False):
            missed = missed + gain
            drift = drift + missed**2 * walk
        return cls(heights, variance, score - 0.5 * np.minimum(heights, 0.0) ** 2 / variance, tuple(gains), drift)


@dataclass(frozen=True)
class AverageSolution(Solution):
    """Curves c + A h at every size, and what is needed to average them."""

    points: Points
    rungs: tuple[Rung, ...]
    limit: float

    @property
    def _largest(self) -> Rung:
        return self.rungs[-1]

    @cached_property
    def _filtered(self) -> Filtered:
        return Filtered.of(self.rungs)

    @cached_property
    def amplitudes(self) -> Array:
        """A at the largest size, at least 0."""
        return np.maximum(self._filtered.heights, 0.0)

    @cached_property
    def shares(self) -> Array:
        """π: how much each curve counts; what is missing to 1 is the share of no fall at all."""
        prior = log_prior() - _CAUTION * np.log(self._largest.amplification)
        possible = self._at_zero <= self.limit
        score = np.where(possible, self._filtered.score + prior - logsumexp(prior), -np.inf)
        level = sum(float(rung.precision @ (rung.b - rung.mean) ** 2) for rung in self.rungs)
        without = math.log(_NO_FALL) - 0.5 * level
        shares: Array = np.exp(score - np.logaddexp(logsumexp(score), without))
        return shares

    @cached_property
    def _at_zero(self) -> Array:
        """e_0 of each curve."""
        losses: Array = self._largest.mean + self.amplitudes * (1 - self._largest.centre)
        return losses

    @property
    def e0(self) -> float:
        """The average."""
        return float(self._largest.mean + self.shares @ (self._at_zero - self._largest.mean))

    @cached_property
    def fitted(self) -> Array:
        """The average curve at the levels; at smaller sizes with their own heights."""
        fitted: Array = self.points.b.copy()
        for rung in self.rungs:
            heights = self.amplitudes if rung is self._largest else np.maximum(rung.heights, 0.0)
            fitted[rung.columns] = rung.mean + (rung.design - rung.centre) @ (self.shares * heights)
        return fitted

    @property
    def condition(self) -> float:
        """Mean amplification of the curves, from the lowest level to no leakage."""
        return 1 + float(self.shares @ (self._largest.amplification - 1))

    @cached_property
    def _unseen(self) -> Array:
        """Each shape's fall from no leakage to the lowest level."""
        unseen: Array = 1 - self._largest.at_lowest
        return unseen

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the curves, and from how heights may change with the size."""
        optimism = self.amplitudes * self._unseen
        mean = float(self.shares @ optimism)
        # The line without a fall has an optimism of 0.
        between = self.shares @ (optimism - mean) ** 2 + max(1 - float(self.shares.sum()), 0.0) * mean**2
        return float(between + self.shares @ (self._filtered.drift * self._unseen**2))

    @cached_property
    def derivative(self) -> Array:
        """Of e_0, by the losses, with the shares and gains held."""
        held = self._through_heights(1 - self._largest.centre)
        held[self._largest.columns] += self._largest.precision / self._largest.precision.sum()
        return held

    @cached_property
    def optimism_derivative(self) -> Array:
        """Of e_0 less the fitted loss at the lowest level, by the losses, with the shares and gains held."""
        return self._through_heights(self._unseen)

    def _through_heights(self, factor: Array) -> Array:
        """The derivative of the average of the heights at the largest size, times a factor."""
        weight = self.shares * factor * (self._filtered.heights > 0)
        held = np.zeros(len(self.points.p))
        for rung, gain in zip(self.rungs, self._filtered.gains, strict=True):
            held[rung.columns] = rung.slopes @ (weight * gain)
        return held

    def values(self, j: Any) -> Array:
        """The average curve at j, for the largest size."""
        positions = np.asarray(j, dtype=float)
        found = falls(positions.ravel() / self.points.n, self.points.n)
        curve = self._largest.mean + (found - self._largest.centre) @ (self.shares * self.amplitudes)
        return np.asarray(curve).reshape(positions.shape)
