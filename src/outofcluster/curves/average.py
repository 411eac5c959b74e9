r"""The shapes that the automatic curve averages, the filter over sizes, and the average itself.

The formulas are at the head of :mod:`outofcluster.curves.auto`. The shapes say how the loss falls with the share x of
leaked records:

learning
    :math:`h(x) = 1/(1 + (nx/κ)^β)`: half of what leaked records teach is learnt once there are κ of them among n. The
    fall is a hyperbola (β = 1), or more gradual (β < 1), or starts late (β > 1: flat at first, so not convex). κ runs
    from a third of a record to half of the training set, β from 0.7 to 1.4. These are the steep curves.
mixing
    :math:`h(x) = (1 + s\,x/(1-x))^{-q}`: the model is a compromise between both sides, in which a leaked record weighs
    s times as much as another. The loss of a least-squares fit is quadratic in its distance from what suits the
    held-out clusters, :math:`(1-x)^2` for s = 1. s runs from 0.2 to 2, q from 1 to 3. These are the gentle curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import logsumexp

from outofcluster._base.arguments import Array, Codes
from outofcluster.curves.base import Solution
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.points import Points

# Standard deviation by which a curve of this kind misses the truth, as a share of the fall.
_DISCREPANCY = 0.01
# What is added to the discrepancy with every halving of the size.
_DISCREPANCY_PER_HALVING = 0.02
# Exponent with which a curve's amplification lowers its share.
_CAUTION = 3.0
# How much the line without a fall counts beforehand, in units of all shapes together.
_NO_FALL = 4.0
# Standard deviation of the relative change of a height when the size doubles.
_DRIFT = 0.2

_SHAPES = np.array([0.7, 0.85, 1.0, 1.2, 1.4])
_HALF_FALLS = 30
_POWERS = np.array([1.0, 1.5, 2.0, 3.0])
_WEIGHTS = np.geomspace(0.2, 2, 12)
_SHAPE_PRIOR = 3.0
# Logarithm of how much each curve counts beforehand: -3 log² β for learning curves, 0 for mixing curves.
LOG_PRIOR = np.concatenate(
    [np.repeat(-_SHAPE_PRIOR * np.log(_SHAPES) ** 2, _HALF_FALLS), np.zeros(len(_POWERS) * len(_WEIGHTS))]
)
# Largest size for which a table of the curves is kept, with one row per number of leaked records (6 MB).
_LARGEST_TABLE = 4096


@dataclass(frozen=True)
class Rung:
    """The losses of one size, and the least-squares fit of every shape to them."""

    size: int
    # The positions of these losses among the points.
    columns: Codes
    # A h: one row per level, one column per shape.
    design: Array
    p: Array
    b: Array
    # 1 / variance of the losses.
    precision: Array
    # Each shape's mean over the levels.
    centre: Array
    # The losses' mean over the levels.
    mean: float
    # 1 / variance of each shape's height.
    certainty: Array
    # How the loss of each level moves the height of each shape: one row per level, one column per shape.
    slopes: Array
    # The least-squares A of each shape, which may be negative.
    heights: Array
    # χ² of each shape.
    misfit: Array

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
        return cls.fit(size, columns, expected_falls(p, size, points.n), p, b, variance)

    @classmethod
    def fit(cls, size: int, columns: Codes, design: Array, p: Array, b: Array, variance: Array) -> Self:
        """Fit every shape to losses of known variance."""
        precision = 1 / variance
        total = precision.sum()
        centre, mean = precision @ design / total, float(precision @ b / total)
        deviations = design - centre
        certainty = np.maximum(precision @ deviations**2, 1e-300)
        slopes = precision[:, None] * deviations / certainty
        heights = b @ slopes
        misfit = precision @ ((b - mean)[:, None] - heights * deviations) ** 2
        return cls(size, columns, design, p, b, precision, centre, mean, certainty, slopes, heights, misfit)

    @property
    def lowest_loss(self) -> float:
        """The loss at the lowest level."""
        return float(self.b[self.p.argmin()])

    @property
    def at_lowest(self) -> Array:
        """A h at the lowest level."""
        return np.asarray(self.design[self.p.argmin()])

    @property
    def at_highest(self) -> Array:
        """A h at the highest level."""
        return np.asarray(self.design[self.p.argmax()])


class Filtered(NamedTuple):
    """What the losses of all sizes say about the height of every shape at the last of them."""

    heights: Array
    # Logarithm of the likelihood.
    score: Array
    # For each size, how much its own height counts.
    gains: tuple[Array, ...]
    # The part of the variance that the random walk adds.
    drift: Array


@dataclass(frozen=True)
class ShapeAverage:
    """The curves c + A h of all shapes at the last of several sizes, and how much each of them counts."""

    rungs: tuple[Rung, ...]
    # A h at the level to which the fall of a curve is measured.
    at_highest: Array
    # The largest possible loss.
    largest: float

    @property
    def last(self) -> Rung:
        """The size whose curves are averaged."""
        return self.rungs[-1]

    @cached_property
    def filtered(self) -> Filtered:
        """What all sizes say about the heights, by a filter from the first size to the last."""
        first, *rest = self.rungs
        heights, variance, score = first.heights, 1 / first.certainty, -0.5 * first.misfit
        gains, walks, size = [np.ones_like(heights)], list[Array](), first.size
        for rung in rest:
            walk = _DRIFT**2 * np.log2(rung.size / size) * np.maximum(heights, 0.0) ** 2
            expected = variance + walk
            spread = expected + 1 / rung.certainty
            step = rung.heights - heights
            score = score - 0.5 * (rung.misfit + step**2 / spread + np.log1p(expected * rung.certainty))
            gain = expected / spread
            heights = heights + gain * step
            variance = expected * (1 - gain)
            gains = [(1 - gain) * before for before in gains] + [gain]
            walks.append(walk)
            size = rung.size
        # Heights from before a step of the walk miss that step, by as much as they count.
        drift, missed = np.zeros_like(heights), np.zeros_like(heights)
        for gain, walk in zip(gains, walks, strict=False):
            missed = missed + gain
            drift = drift + missed**2 * walk
        return Filtered(heights, score - 0.5 * np.minimum(heights, 0.0) ** 2 / variance, tuple(gains), drift)

    @cached_property
    def heights(self) -> Array:
        """A of each curve, at least 0."""
        return np.maximum(self.filtered.heights, 0.0)

    @cached_property
    def at_zero(self) -> Array:
        """e_0 of each curve."""
        return np.asarray(self.last.mean + self.heights * (1 - self.last.centre))

    @property
    def e0(self) -> float:
        """The average of the curves at 0."""
        return float(self.last.mean + self.shares @ (self.at_zero - self.last.mean))

    @cached_property
    def amplification(self) -> Array:
        """α: the fall from no leakage to the highest level, divided by the fall from the lowest level to it."""
        return np.asarray((1 - self.at_highest) / np.maximum(self.last.at_lowest - self.at_highest, 1e-300))

    @cached_property
    def shares(self) -> Array:
        """π: how much each curve counts; what their sum lacks to 1 is the share of the line without a fall."""
        prior = LOG_PRIOR - _CAUTION * np.log(self.amplification)
        score = np.where(self.at_zero <= self.largest, self.filtered.score + prior - logsumexp(prior), -np.inf)
        level = sum(float(rung.precision @ (rung.b - rung.mean) ** 2) for rung in self.rungs)
        without = math.log(_NO_FALL) - 0.5 * level
        return np.asarray(np.exp(score - np.logaddexp(logsumexp(score), without)))

    def variance(self, fall: Array) -> float:
        """Variance of the heights times each shape's fall, over the curves and over how heights may change."""
        optimism = self.heights * fall
        mean = float(self.shares @ optimism)
        # The line without a fall has an optimism of 0.
        between = self.shares @ (optimism - mean) ** 2 + max(1 - float(self.shares.sum()), 0.0) * mean**2
        return float(between + self.shares @ (self.filtered.drift * fall**2))

    def slopes(self, fall: Array) -> list[Array]:
        """For each size, how its losses move the average of the heights times each shape's fall, with shares held."""
        weight = self.shares * fall * (self.filtered.heights > 0)
        return [rung.slopes @ (weight * gain) for rung, gain in zip(self.rungs, self.filtered.gains, strict=True)]


@dataclass(frozen=True)
class AverageSolution(Solution):
    """The average of curves c + A h, fitted to losses of one size or of several."""

    points: Points
    average: ShapeAverage

    @property
    def e0(self) -> float:
        """The average of the curves at 0."""
        return self.average.e0

    @cached_property
    def fitted(self) -> Array:
        """The average curve at the levels; smaller sizes have heights of their own."""
        fitted: Array = self.points.b.copy()
        for rung in self.average.rungs:
            heights = self.average.heights if rung is self.average.last else np.maximum(rung.heights, 0.0)
            fitted[rung.columns] = rung.mean + (rung.design - rung.centre) @ (self.average.shares * heights)
        return fitted

    @property
    def condition(self) -> float:
        """Mean amplification of the curves, from the lowest level to no leakage."""
        return 1 + float(self.average.shares @ (self.average.amplification - 1))

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the curves, plus that of how heights may change with the size."""
        return self.average.variance(1 - self.average.last.at_lowest)

    @property
    def derivative(self) -> Array:
        """The derivative of e_0 by the losses, with the shares and gains held fixed."""
        last = self.average.last
        derivative = self._by_losses(1 - last.centre)
        derivative[last.columns] += last.precision / last.precision.sum()
        return derivative

    @property
    def optimism_derivative(self) -> Array:
        """The derivative of e_0 less the fitted loss at the lowest level, with the shares and gains held fixed."""
        return self._by_losses(1 - self.average.last.at_lowest)

    def _by_losses(self, fall: Array) -> Array:
        derivative = np.zeros(len(self.points.p))
        for rung, slopes in zip(self.average.rungs, self.average.slopes(fall), strict=True):
            derivative[rung.columns] = slopes
        return derivative

    def values(self, j: Any) -> Array:
        """The average curve at j, at the largest size."""
        positions = np.asarray(j, dtype=float)
        last = self.average.last
        shapes = falls(positions.ravel() / self.points.n, self.points.n)
        curve = last.mean + (shapes - last.centre) @ (self.average.shares * self.average.heights)
        return np.asarray(curve).reshape(positions.shape)


def falls(x: Array, n: int) -> Array:
    """The curves h at shares x of leaked records: one row per share, one column per curve."""
    half_falls = np.geomspace(0.3, max(n / 2, 0.3), _HALF_FALLS)
    # There are few values of β and many positions, so each power is computed once.
    learnt = ((n * x)[:, None] ** _SHAPES)[:, :, None] * half_falls ** -_SHAPES[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        odds = x / (1 - x)
        mixed = (1 + odds[:, None] * _WEIGHTS)[:, None, :] ** _POWERS[:, None]
        return np.asarray(1 / np.concatenate([(1 + learnt).reshape(len(x), -1), mixed.reshape(len(x), -1)], axis=1))


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
