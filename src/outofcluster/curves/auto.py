r"""The automatic curve: curves of many shapes, averaged by how well they explain the losses.

No single method serves all learners: some losses fall steeply with the first leaked records, others hardly at all,
and what happens below the lowest level is not observed. So the curve is taken to be :math:`e_j = c + A\,h(j)`, A ≥ 0,
with h one of two kinds.

learning
    :math:`h(j) = 1/(1 + (j/κ)^β)`: what leaked records teach is learnt once there are κ of them, by a hyperbola (β=1),
    more gradually, or after hesitating (β > 1: flat at first, so not convex). κ runs from a third of a record to half
    of the training set, β from 0.7 to 1.4. These are the steep curves.
mixing
    :math:`h(j) = (1 + s\,x/(1-x))^{-q}` with x = j/n: the model is a compromise between both sides, in which a leaked
    record weighs s times as much as another. A least-squares fit has a loss that is quadratic in how far it is from
    what the held-out clusters want, :math:`(1-x)^2` for s = 1. s runs from 0.2 to 2, q from 1 to 3: the gentle curves.

For each of them, c and A follow from weighted least squares, and it counts by

.. math:: π_k ∝ \exp(-χ_k^2/2)\; α_k^{-3}\; \exp(-3 \log^2 β_k), \qquad
          α_k = \frac{h_k(0) - (A h_k)(p_{max})}{(A h_k)(p_{min}) - (A h_k)(p_{max})} ,

by its fit, and the less, the more it amplifies what was observed, from the lowest level to no leakage: of curves that
explain the losses equally well, the one that claims less is the more likely. A variance of (1 % of the fall)² is
added to that of each loss, since no such curve is the true one exactly. The estimate is the average
:math:`\hat e_0 = \sum_k π_k e_{0k}`, the whole curve likewise, and the variance of the choice is
:math:`\sum_k π_k (o_k - \bar o)^2`, o the optimism: it belongs into every interval.

For the variance from the losses the shares are held, :math:`\bar w = \sum_k π_k\, ∂e_{0k}/∂b`: how they would move is
what the variance of the choice stands for (the law of total variance, within and between curves).

A h is an expectation over the binomial distribution, whose cost does not depend on n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._validation import Array, Points
from outofcluster.binomial import BinomialOperator
from outofcluster.curves.base import Curve, Solution

__all__ = ["AutoCurve"]

_SHAPES = np.array([0.7, 0.85, 1.0, 1.2, 1.4])
_HALF_FALLS = 30
_POWERS = np.array([1.0, 1.5, 2.0, 3.0])
_WEIGHTS = np.geomspace(0.2, 2, 12)
_DISCREPANCY = 0.01
_CAUTION = 3.0
_SHAPE_PRIOR = 3.0


@dataclass(eq=False)
class AutoCurve(Curve):
    """Curves of many shapes, steep and gentle, averaged by fit and caution; nothing to set.

    Give ``standard_errors`` to ``fit_points`` where they are known (``fit`` does): they decide how much the losses
    tell about the shape.

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

    def _solve(self, points: Points) -> AverageSolution:
        points.require_levels(3, "a learning curve")
        operator = BinomialOperator(points.p, points.n)
        design = operator.expect(lambda x: _falls(x, points.n), points=64)
        order = np.argsort(points.p)
        fall = float(points.b[order[0]] - points.b[order[-1]])
        variance = np.full(len(points.p), (_DISCREPANCY * fall) ** 2 + 1e-18)
        if points.errors is not None:
            variance = variance + points.errors**2
        elif points.weights is not None:
            variance = variance / (points.weights / points.weights.mean())
        lowest, highest = design[order[0]], design[order[-1]]
        amplification = (1 - highest) / np.maximum(lowest - highest, 1e-300)
        return AverageSolution(points, design, _shape_prior() - _CAUTION * np.log(amplification), 1 / variance)


def _falls(x: Array, n: int) -> Array:
    """The curves h at shares x of leaked records: a row a position, a column a curve."""
    half_falls = np.geomspace(0.3, max(n / 2, 0.3), _HALF_FALLS)
    # Few shapes and many positions: powers once for each shape.
    learnt = ((n * x)[:, None] ** _SHAPES)[:, :, None] * half_falls ** -_SHAPES[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        odds = x / (1 - x)
        mixed = (1 + odds[:, None] * _WEIGHTS)[:, None, :] ** _POWERS[:, None]
        falls: Array = 1 / np.concatenate([(1 + learnt).reshape(len(x), -1), mixed.reshape(len(x), -1)], axis=1)
    return falls


def _shape_prior() -> Array:
    """Logarithms: learning curves near the hyperbola first; mixing curves all alike."""
    learning = np.repeat(-_SHAPE_PRIOR * np.log(_SHAPES) ** 2, _HALF_FALLS)
    return np.concatenate([learning, np.zeros(len(_POWERS) * len(_WEIGHTS))])


@dataclass(frozen=True)
class AverageSolution(Solution):
    """Curves c + A h, and what is needed to average them."""

    points: Points
    design: Array
    prior: Array
    precision: Array

    @cached_property
    def _centre(self) -> Array:
        """Each curve's mean over the levels."""
        centre: Array = self.precision @ self.design / self.precision.sum()
        return centre

    @cached_property
    def _mean(self) -> float:
        return float(self.precision @ self.points.b / self.precision.sum())

    @cached_property
    def _slopes(self) -> Array:
        """How each level's loss moves A, a column a curve."""
        apart = self.design - self._centre
        slopes: Array = self.precision[:, None] * apart / np.maximum(self.precision @ apart**2, 1e-300)
        return slopes

    @cached_property
    def amplitudes(self) -> Array:
        """A, at least 0."""
        return np.maximum(self.points.b @ self._slopes, 0.0)

    @cached_property
    def residuals(self) -> Array:
        """Losses less those of each curve, a column a curve."""
        fitted = self._mean + self.amplitudes * (self.design - self._centre)
        return self.points.b[:, None] - fitted

    @cached_property
    def shares(self) -> Array:
        """π: how much each curve counts."""
        score = self.prior - 0.5 * self.precision @ self.residuals**2
        weight = np.exp(score - score.max())
        shares: Array = weight / weight.sum()
        return shares

    @cached_property
    def losses_at_zero(self) -> Array:
        """e_0 of each curve."""
        return self._mean + self.amplitudes * (1 - self._centre)

    @property
    def e0(self) -> float:
        """The average."""
        return float(self.shares @ self.losses_at_zero)

    @cached_property
    def fitted(self) -> Array:
        """The average curve at the levels."""
        fitted: Array = self.points.b - self.residuals @ self.shares
        return fitted

    @property
    def condition(self) -> float:
        """Largest amplification among the curves that count, from the lowest level to no leakage."""
        ordered = np.argsort(self.points.p)
        low, high = self.design[ordered[0]], self.design[ordered[-1]]
        return float(self.shares @ ((1 - high) / np.maximum(low - high, 1e-300)))

    @cached_property
    def _optimism(self) -> Array:
        """Each curve's e_0 less its loss at the lowest level."""
        optimism: Array = self.amplitudes * (1 - self.design[self.points.p.argmin()])
        return optimism

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the curves."""
        return float(self.shares @ (self._optimism - self.shares @ self._optimism) ** 2)

    @cached_property
    def derivative(self) -> Array:
        """Of e_0, by the losses, with the shares held."""
        own = self.precision[:, None] / self.precision.sum() + self._active * (1 - self._centre)
        held: Array = own @ self.shares
        return held

    @cached_property
    def optimism_derivative(self) -> Array:
        """Of e_0 less the fitted loss at the lowest level, by the losses, with the shares held."""
        held: Array = self._active @ (self.shares * (1 - self.design[self.points.p.argmin()]))
        return held

    @cached_property
    def _active(self) -> Array:
        active: Array = self._slopes * (self.amplitudes > 0)
        return active

    def values(self, j: Any) -> Array:
        """The average curve at j."""
        positions = np.asarray(j, dtype=float)
        falls = _falls(positions.ravel() / self.points.n, self.points.n)
        curve = self._mean + (falls - self._centre) @ (self.shares * self.amplitudes)
        return np.asarray(curve).reshape(positions.shape)
