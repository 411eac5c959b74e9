r"""The polynomial curve: the paper's basis method (Section 5.1), solved without the operator.

Let :math:`e_j` be a polynomial of degree s ≤ n in j. A is the Bernstein operator, which maps such sequences one
to one onto the polynomials q of degree s in p, with :math:`q(0) = e_0` and :math:`q(1) = e_n`. So

.. math:: \hat e_0 = q(0), \qquad q = \arg\min_{\deg q \le s} \sum_i w_i (q(p_i) - b_i)^2 ,

and n drops out. q is fitted in Chebyshev polynomials of the interval that the levels span, where the columns
are nearly orthogonal. The :math:`e_j` in between follow by inverting A exactly: with q expanded as :math:`\sum_k c_k
P_k(1-2p)` in Legendre polynomials, :math:`e_j = \sum_k c_k Q_k(j)` (see :mod:`outofcluster.curves.operator`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, check_integer
from outofcluster._base.exceptions import InputError
from outofcluster.curves.base import Curve, LinearSolution, LinearSystem
from outofcluster.curves.operator import legendre_image, legendre_sequence
from outofcluster.curves.points import Points

# How many times errors of the losses may grow on the way to p = 0: what is left of the estimate is noise beyond that.
# The largest Chebyshev polynomial of the interval of levels, at 0, is how much they grow at the very least.
_MOST_GROWTH = 1e6


@dataclass(eq=False)
class PolynomialCurve(Curve):
    """Polynomial loss curve: least squares in b(p), extrapolated to p = 0.

    Parameters
    ----------
    degree : int, default=2
        Degree of the polynomial, at most n and below the number of levels. The paper uses 2 or 7; the variance of e_0
        grows steeply with the degree.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.linspace(0.1, 1, 10)
    >>> curve = ooc.PolynomialCurve(degree=2).fit_points(p, 0.4 - 0.3 * p + 0.1 * p**2, n=10**9)
    >>> round(curve.e0_, 9)
    0.4
    >>> curve.values([0, 10**9])
    array([0.4, 0.2])
    """

    degree: int = 2

    def _solve(self, points: Points) -> PolynomialSolution:
        degree = check_integer("degree", self.degree, least=0)
        if degree > points.n:
            raise InputError(f"degree must be at most n = {points.n}, got {degree}.")
        points.require_levels(degree + 1, f"degree {degree}")
        low, high = float(points.p.min()), float(points.p.max())
        interval = (low, high) if high > low else (0.0, 1.0)
        basis = _chebyshev(np.concatenate([points.p, [0.0]]), interval, degree)
        growth = abs(float(basis[-1, -1]))
        if growth > _MOST_GROWTH:
            raise InputError(
                f"p must hold levels further apart or nearer to 0 for degree {degree}, got levels between {low:g} and "
                f"{high:g}, whose errors grow {growth:.1g} times on the way to p = 0."
            )
        system = LinearSystem.solve(points, basis[:-1])
        if system.rank <= degree:
            raise InputError(
                f"p must hold {degree + 1} levels far enough apart to determine a polynomial of degree {degree}, "
                f"got {len(points.p)} levels in [{low:g}, {high:g}] that determine {system.rank} coefficients."
            )
        return PolynomialSolution(points, system, basis[-1], degree, interval)


@dataclass(frozen=True)
class PolynomialSolution(LinearSolution):
    """Coefficients of q in the Chebyshev polynomials of an interval; e_0 = q(0)."""

    degree: int
    interval: tuple[float, float]

    def values(self, j: Any) -> Array:
        """The sum of the Q_k at j, with the Legendre coefficients of q."""
        return legendre_sequence(j, self.points.n, self.degree) @ self._legendre

    @cached_property
    def _legendre(self) -> Array:
        """The coefficients c_k = (2k+1)/2 ∫ q P_k over [-1, 1], by Gauss's rule, which is exact for this degree."""
        nodes, weights = np.polynomial.legendre.leggauss(self.degree + 1)
        levels = (1 - nodes) / 2
        q = _chebyshev(levels, self.interval, self.degree) @ self.system.solution
        coefficients: Array = (np.arange(self.degree + 1) + 0.5) * ((weights * q) @ legendre_image(levels, self.degree))
        return coefficients


def _chebyshev(p: Array, interval: tuple[float, float], degree: int) -> Array:
    """The Chebyshev polynomials of an interval at levels, also outside of it: one column per degree.

    The recurrence is written out because ``chebvander`` of numpy takes as long as the least-squares fit itself.
    """
    low, high = interval
    x = (2 * p - (low + high)) / (high - low)
    basis = np.ones((len(x), degree + 1))
    basis[:, 1:2] = x[:, None]
    for k in range(1, degree):
        basis[:, k + 1] = 2 * x * basis[:, k] - basis[:, k - 1]
    return basis
