r"""The parts of the automatic curve: the losses of one size, the filter over sizes, and the average of all shapes.

The formulas are at the head of :mod:`outofcluster.curves.auto`.

The shapes that the automatic curve averages: how the loss falls with the share x of leaked records.

learning
    :math:`h(x) = 1/(1 + (nx/κ)^β)`: half of what leaked records teach is learnt once there are κ of them among n. The
    fall is a hyperbola (β = 1), or more gradual (β < 1), or starts late (β > 1: flat at first, so not convex). κ runs
    from a third of a record to half of the training set, β from 0.7 to 1.4. These are the steep curves.
mixing
    :math:`h(x) = (1 + s\,x/(1-x))^{-q}`: the model is a compromise between both sides, in which a leaked record weighs
    s times as much as another. The loss of a least-squares fit is quadratic in its distance from what suits the
    held-out clusters, :math:`(1-x)^2` for s = 1. s runs from 0.2 to 2, q from 1 to 3. These are the gentle curves.
"
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Solution
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.points import Points

_DISCREPANCY = 0.01
"""Standard deviation by which a curve of this kind misses the truth, as a share of the fall."""
_DISCREPANCY_PER_HALVING = 0.02
"""What is added to the discrepancy with every halving of the size."""
_CAUTION = 3.0
"""Exponent with which a curve's amplification lowers its share."""
_NO_FALL = 4.0
"""How much the line without a fall counts beforehand, in units of all shapes together."""
_DRIFT = 0.2
"""Standard deviation of the relative change of a height when the size doubles."""


@dataclass(frozen=True)
class Rung:
    """The losses of one size, and the least-squares fit of every shape to them.

    Attributes
    ----------
    size : int
        Size of the training sets.
    columns : array of int
        The positions of these losses among the points.
    design : array of shape (levels, shapes)
        A h.
    p, b, precision : array of shape (levels,)
        Levels, losses, and 1 / variance of the losses.
    """

    size: int
    columns: NDArray[np.int64]
    design: Array
    p: Array
    b: Array
    precision: Array

    @classmethod
    def of(cls, points: Points, size: int) -> Self:
        """The points that have this size."""
        columns = np.flatnonzero(points.sizes == size)
        p, b = points.p[columns], points.b[columns]
        fall = float(b[p.argmin()] - b[p.argmax()])
        discrepancy = _DISCREPANCY + _DISCREPANCY_PER_HALVING * np.log2(points.n / size)
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
        """α: the fall from no leakage to the highest level, divided by the fall from the lowest level to it."""
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
        """How the loss of each level moves the height of each shape: one row per level, one column per shape."""
        slopes: Array = self.precision[:, None] * (self.design - self.centre) / self.certainty
        return slopes

    @cached_property
    def heights(self) -> Array:
        """The least-squares A of each shape, which may be negative."""
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
    """What the losses of all sizes say about the height of every shape at the largest size.

    Attributes
    ----------
    heights, variance : array of shape (shapes,)
        Mean and variance.
    score : array of shape (shapes,)
        Logarithm of the likelihood.
    gains : tuple of array
        For each size, how much its own height counts.
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
        # Heights from before a step of the walk miss that step, by as much as they count.
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
        """π: how much each curve counts; what their sum lacks to 1 is the share of the line without a fall."""
        possible = self._at_zero <= self.limit
        return shape_shares(self.rungs, self._filtered, self._largest.amplification, possible)

    @cached_property
    def _at_zero(self) -> Array:
        """e_0 of each curve."""
        losses: Array = self._largest.mean + self.amplitudes * (1 - self._largest.centre)
        return losses

    @property
    def e0(self) -> float:
        """The average of the curves at 0."""
        return float(self._largest.mean + self.shares @ (self._at_zero - self._largest.mean))

    @cached_property
    def fitted(self) -> Array:
        """The average curve at the levels; smaller sizes have heights of their own."""
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
        """Variance of the optimism over the curves, plus that of how heights may change with the size."""
        optimism = self.amplitudes * self._unseen
        mean = float(self.shares @ optimism)
        # The line without a fall has an optimism of 0.
        between = self.shares @ (optimism - mean) ** 2 + max(1 - float(self.shares.sum()), 0.0) * mean**2
        return float(between + self.shares @ (self._filtered.drift * self._unseen**2))

    @cached_property
    def derivative(self) -> Array:
        """The derivative of e_0 by the losses, with the shares and gains held fixed."""
        derivative = self._through_heights(1 - self._largest.centre)
        derivative[self._largest.columns] += self._largest.precision / self._largest.precision.sum()
        return derivative

    @cached_property
    def optimism_derivative(self) -> Array:
        """The derivative of e_0 less the fitted loss at the lowest level, with the shares and gains held fixed."""
        return self._through_heights(self._unseen)

    def _through_heights(self, factor: Array) -> Array:
        """The derivative of the average of the heights at the largest size, times a factor."""
        weight = self.shares * factor * (self._filtered.heights > 0)
        derivative = np.zeros(len(self.points.p))
        for rung, gain in zip(self.rungs, self._filtered.gains, strict=True):
            derivative[rung.columns] = rung.slopes @ (weight * gain)
        return derivative

    def values(self, j: Any) -> Array:
        """The average curve at j, at the largest size."""
        positions = np.asarray(j, dtype=float)
        shapes = falls(positions.ravel() / self.points.n, self.points.n)
        curve = self._largest.mean + (shapes - self._largest.centre) @ (self.shares * self.amplitudes)
        return np.asarray(curve).reshape(positions.shape)


def shape_shares(
    rungs: tuple[Rung, ...], filtered: Filtered, amplification: Array, possible: NDArray[np.bool_]
) -> Array:
    """π: how much each shape counts, by its fit, its amplification, and whether it is possible at all."""
    prior = log_prior() - _CAUTION * np.log(amplification)
    score = np.where(possible, filtered.score + prior - logsumexp(prior), -np.inf)
    level = sum(float(rung.precision @ (rung.b - rung.mean) ** 2) for rung in rungs)
    without = math.log(_NO_FALL) - 0.5 * level
    shares: Array = np.exp(score - np.logaddexp(logsumexp(score), without))
    return shares


_SHAPES = np.array([0.7, 0.85, 1.0, 1.2, 1.4])
_HALF_FALLS = 30
_POWERS = np.array([1.0, 1.5, 2.0, 3.0])
_WEIGHTS = np.geomspace(0.2, 2, 12)
_SHAPE_PRIOR = 3.0
_LARGEST_TABLE = 4096
"""Largest size for which a table of the curves is kept, with one row per number of leaked records (6 MB)."""


def falls(x: Array, n: int) -> Array:
    """The curves h at shares x of leaked records: one row per share, one column per curve."""
    half_falls = np.geomspace(0.3, max(n / 2, 0.3), _HALF_FALLS)
    # There are few values of β and many positions, so each power is computed once.
    learnt = ((n * x)[:, None] ** _SHAPES)[:, :, None] * half_falls ** -_SHAPES[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        odds = x / (1 - x)
        mixed = (1 + odds[:, None] * _WEIGHTS)[:, None, :] ** _POWERS[:, None]
        curves: Array = 1 / np.concatenate([(1 + learnt).reshape(len(x), -1), mixed.reshape(len(x), -1)], axis=1)
    return curves


def expected_falls(p: Array, size: int, n: int) -> Array:
    """A h: the mean of each curve of size n, at levels p, over training sets of a size: one row per level."""
    operator = BinomialOperator(p, size)
    if size > _LARGEST_TABLE:
        return operator.expect(lambda x: falls(x, n), points=64)
    # The same sizes come again with every leakage rate.
    table = _table(size, n)
    return operator.expect(lambda x: table[np.rint(size * x).astype(np.int64)], points=64)


@lru_cache(maxsize=8)
def _table(size: int, n: int) -> Array:
    return falls(np.arange(size + 1) / size, n)


@cache
def log_prior() -> Array:
    """Logarithm of how much each curve counts beforehand: -3 log² β for learning curves, 0 for mixing curves."""
    learning = np.repeat(-_SHAPE_PRIOR * np.log(_SHAPES) ** 2, _HALF_FALLS)
    return np.concatenate([learning, np.zeros(len(_POWERS) * len(_WEIGHTS))])
