r"""The automatic curve: curves of many shapes, averaged by how well they explain the losses.

No single shape suits all learners: some losses fall steeply with the first leaked records, others hardly at all, and
what happens below the lowest level is not observed. So the curve is taken to be :math:`e(x) = c + A\,h(x)` in the
share x = j/n of leaked records, A ≥ 0, with h one of the shapes of :mod:`outofcluster.curves.families`. For each of
them c and A follow from weighted least squares, and it counts by

.. math:: π_k ∝ \exp(-χ_k^2/2)\; α_k^{-3}\; \exp(-3 \log^2 β_k), \qquad
          α_k = \frac{h_k(0) - (A h_k)(p_{max})}{(A h_k)(p_{min}) - (A h_k)(p_{max})} ,

that is by its fit, and by how much it amplifies what was observed on the way from the lowest level to no leakage. The
more it amplifies, the less it counts: of two curves that explain the losses equally well, the one that claims less is
the more likely. A variance of (1 % of the fall)² is added to that of each loss, since no such curve is exactly the true
one. A line without any fall counts four times as much beforehand as all shapes together, so that losses which show no
effect are not given one. A curve that starts above the largest possible loss does not count. The estimate is the
average :math:`\hat e_0 = \sum_k π_k e_{0k}`, and so is the whole curve.

*Several sizes.* At n = 100 and p0 = 0.1 hardly any training set is free of leaked records. Losses above p0 therefore
tell little about e_0: two data sets may have the same losses there and differ below. Of training sets of 8 records,
43 % are free of leaked records. Smaller training sets have other losses, with a c and an A of their own, but nearly the
same *shape* in x, and A changes slowly with the size. So every size has its own c, the 1 % above grows by 2 % with
every halving of the size, and the heights A follow a random walk over the logarithm of the size,

.. math:: A_{s+1} = A_s + N(0,\; 0.2^2 A_s^2 \log_2(n_{s+1}/n_s)) ,

A filter from the smallest size to the largest gives, for each shape, the height at the largest size and the likelihood
of all losses. With one size this is the formula above. A size whose losses are more than twice as high is left out: its
models learn something else.

*Uncertainty.* The variance of the choice is :math:`\sum_k π_k (o_k - \bar o)^2`, with o the optimism, plus the variance
of the random walk; it belongs in every interval. For the variance that comes from the losses, the shares and the
filter's gains are held fixed, :math:`\bar w = \sum_k π_k\, ∂e_{0k}/∂b`, since the variance of the choice stands for how
they may vary.

A h is an expectation over the binomial distribution, whose cost does not depend on n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array, short
from outofcluster.curves.base import Curve, Needs, Solution
from outofcluster.curves.families import expected_falls, falls, log_prior
from outofcluster.curves.points import Points
from outofcluster.curves.unmixing import Unmixed, UnmixedSolution

__all__ = ["AutoCurve"]

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


@dataclass(eq=False)
class AutoCurve(Curve):
    """Curves of many shapes, steep and gentle, averaged by how well they fit and how little they claim.

    Give ``standard_errors`` to ``fit_points`` where they are known (``fit`` does so): they decide how much the losses
    tell about the shape. ``n`` may hold one size per loss: smaller training sets tell what happens below the lowest
    level. The estimate e_0 is that of the largest size.

    Parameters
    ----------
    largest : float, optional
        The largest value that the loss can take, such as 1 for the zero-one loss; curves that start above it do not
        count. Without a bound by default.

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
        """Levels and sizes of its own, levels below the leakage rate, and any losses."""
        return Needs("automatic", sizes=True, nonnegative=False, unmixed=True)

    def within(self, loss_range: tuple[float, float]) -> AutoCurve:
        """The same curve, with ``largest`` set to the largest possible loss where it was infinite.

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

    def fit_points(
        self,
        p: ArrayLike,
        b: ArrayLike,
        n: int | ArrayLike,
        weights: ArrayLike | None = None,
        *,
        standard_errors: ArrayLike | None = None,
        unmixed: Unmixed | None = None,
    ) -> Self:
        """Fit the curve to losses observed at levels of leakage, and to losses below the leakage rate.

        Parameters
        ----------
        p : array of shape (m,)
            Distinct levels in [0, 1]: the share of training records that truly come from validation clusters.
        b : array of shape (m,)
            Mean loss at each level.
        n : int or array of int of shape (m,)
            Size of the training sets, or one size for each loss.
        weights : array of shape (m,), optional
            Positive weights of the squared residuals, ideally 1 / variance of b; all alike by default.
        standard_errors : array of shape (m,), optional
            Standard errors of b, by which it is judged how well each curve fits.
        unmixed : Unmixed, optional
            Losses of draws that leave leaked records out; the lowest level of p is then the leakage rate.

        Returns
        -------
        self
            The same curve, fitted.
        """
        super().fit_points(p, b, n, weights, standard_errors=standard_errors)
        if unmixed is not None:
            self._solution = UnmixedSolution(self._fitted(), unmixed, self.largest)
        return self

    @property
    def unmixing_(self) -> UnmixedSolution | None:
        """What the losses below the leakage rate say; None where there were none."""
        solution = self._fitted()
        return solution if isinstance(solution, UnmixedSolution) else None

    def _solve(self, points: Points) -> AverageSolution:
        points.require_levels(3, "a learning curve")
        limit: Any = self.largest
        if isinstance(limit, bool) or not isinstance(limit, int | float | np.number) or math.isnan(limit):
            raise InputError(f"largest must be a number, got {short(limit)}.")
        # A size with a single level says nothing about the height of its curve.
        sizes, counts = np.unique(points.sizes, return_counts=True)
        if counts[-1] < 2:
            raise InputError(f"n must give the largest size, {sizes[-1]}, at least two levels of p, got one.")
        rungs = [Rung.of(points, size) for size in sizes[counts > 1]]
        loss = rungs[-1].lowest_loss
        comparable = tuple(rung for rung in rungs if rung.lowest_loss - loss <= abs(loss))
        return AverageSolution(points, comparable, self.largest)


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
