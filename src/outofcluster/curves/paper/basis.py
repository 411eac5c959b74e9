r"""The three curves that are plain least squares in e.

**The basis curve**: any functions ψ_k on [0, 1] (paper, Section 5.1).

.. math:: e_j = \sum_k ξ_k ψ_k(j/n), \qquad (AΨ)_{ik} = E\, ψ_k(J/n),\ J ∼ \mathrm{Binomial}(n, p_i),

solved for ξ by least squares; :math:`\hat e_0 = \sum_k ξ_k ψ_k(0)`. Theorem 5.1 says that AΨ is invertible for
large n when the functions are unisolvent. For a given n and given levels the rank of AΨ decides, so the rank is what is
checked: the columns are scaled to norm 1 and factored by QR with pivoting, and a message names those that the others
already span.

**The polynomial curve**: the basis of polynomials, solved without the operator.

Let :math:`e_j` be a polynomial of degree s ≤ n in j. A is the Bernstein operator, which maps such sequences one
to one onto the polynomials q of degree s in p, with :math:`q(0) = e_0` and :math:`q(1) = e_n`. So

.. math:: \hat e_0 = q(0), \qquad q = \arg\min_{\deg q \le s} \sum_i w_i (q(p_i) - b_i)^2 ,

and n drops out. q is fitted in Chebyshev polynomials of the interval that the levels span, where the columns
are nearly orthogonal. The :math:`e_j` in between follow by inverting A exactly: with q expanded as :math:`\sum_k c_k
P_k(1-2p)` in Legendre polynomials, :math:`e_j = \sum_k c_k Q_k(j)` (see :mod:`outofcluster.curves.operator`).

**The least-squares curve**: B3, the paper's Algorithm 1, with its last line corrected.

.. math:: \hat e = (A^\top W A)^{-1} A^\top W b = (W^{1/2} A)^+ W^{1/2} b .

(As printed, the algorithm returns the fitted losses :math:`A \hat e`.) With fewer levels than n + 1, or with
singular values at the level of rounding, the pseudo-inverse gives the solution of minimum norm. This is the one method
that needs the whole matrix A. Its condition number grows like 2^n, so with more than a dozen records e_0 is mostly
noise, or mostly a result of the minimum norm. The other methods exist for that reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import qr

from outofcluster._base.arguments import Array, check_integer, short
from outofcluster._base.exceptions import InputError, described
from outofcluster.curves.base import Curve, LinearSolution
from outofcluster.curves.operator import BinomialOperator, legendre_image, legendre_sequence
from outofcluster.curves.points import Points

Function = Callable[[Array], Array]

# A column counts as dependent when no more than this part of it is new; expectations are accurate to about 1e-13.
_RANK_TOLERANCE = 1e-11
# How many times errors of the losses may grow on the way to p = 0: what is left of the estimate is noise beyond that.
# The largest Chebyshev polynomial of the interval of levels, at 0, is how much they grow at the very least.
_MOST_GROWTH = 1e6


@dataclass(eq=False)
class BasisCurve(Curve):
    """Loss curve that is a combination of functions on [0, 1].

    Parameters
    ----------
    functions : sequence of callables
        Each takes an array of points in [0, 1] (the shares j/n) and returns one value per point. The functions must
        be continuous, and their expectations at the levels linearly independent.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> constant, decay = np.ones_like, lambda x: np.exp(-5 * x)
    >>> p = np.linspace(0.1, 1, 10)
    >>> curve = ooc.BasisCurve([constant, decay]).fit_points(p, 0.2 + 0.1 * np.exp(-5 * p), n=10**8)
    >>> round(curve.e0_, 6)
    0.3
    """

    functions: Sequence[Function]

    def _solve(self, points: Points) -> BasisSolution:
        functions = _check_functions(self.functions)
        points.require_levels(len(functions), f"{len(functions)} functions")
        operator = BinomialOperator(points.p, points.n)
        design = operator.expect(lambda x: _basis(functions, x))
        _check_rank(points.scaled(design), functions)
        at_zero = _basis(functions, np.zeros(1))[0]
        return BasisSolution.solve(points, design, at_zero, functions)


@dataclass(frozen=True)
class BasisSolution(LinearSolution):
    """Coefficients ξ of the functions; e_0 = Σ ξ_k ψ_k(0)."""

    functions: tuple[Function, ...]

    def values(self, j: Any) -> Array:
        """Σ ξ_k ψ_k(j/n)."""
        return _basis(self.functions, np.ravel(j) / self.points.n).reshape(*np.shape(j), -1) @ self.coefficients


def _basis(functions: tuple[Function, ...], x: Array) -> Array:
    """The functions at points: one row per point, one column per function."""
    return np.stack([_evaluate(f, k, x) for k, f in enumerate(functions)], axis=1)


def _check_functions(functions: Any) -> tuple[Function, ...]:
    try:
        callables = tuple(functions)
    except Exception:
        raise InputError(f"functions must be a sequence of callables, got {short(functions)}.") from None
    if not callables:
        raise InputError("functions must hold at least one callable, got none.")
    for k, f in enumerate(callables):
        if not callable(f):
            raise InputError(f"functions must be callables, got functions[{k}] = {short(f)}.")
    return callables


def _evaluate(function: Function, k: int, x: Array) -> Array:
    try:
        values = np.asarray(function(x), dtype=float)
    except Exception as error:
        raise InputError(f"{_name(function, k)} must give one number per point, but: {described(error)}") from error
    if values.shape != x.shape:
        raise InputError(f"{_name(function, k)} must return one value per point, shape {x.shape}, got {values.shape}.")
    if not np.isfinite(values).all():
        at = x[~np.isfinite(values)][0]
        raise InputError(
            f"{_name(function, k)} must be finite on [0, 1], got {values[~np.isfinite(values)][0]} at {at:g}."
        )
    return values


def _check_rank(design: Array, functions: tuple[Function, ...]) -> None:
    norms = np.linalg.norm(design, axis=0)
    if (norms == 0).any():
        k = int(np.flatnonzero(norms == 0)[0])
        raise InputError(
            f"functions must differ from 0 at the levels, got {_name(functions[k], k)} = 0 at all of them."
        )
    triangle, order = qr(design / norms, mode="r", pivoting=True)
    rank = int((np.abs(np.diag(triangle)) > _RANK_TOLERANCE).sum())
    if rank < len(functions):
        dependent = ", ".join(_name(functions[k], k) for k in sorted(order[rank:]))
        others = ", ".join(_name(functions[k], k) for k in sorted(order[:rank]))
        raise InputError(
            f"functions must be independent at the {len(design)} levels (Theorem 5.1), got {dependent} "
            f"in the span of {others}."
        )


def _name(function: Function, k: int) -> str:
    name = getattr(function, "__name__", "")
    return f"functions[{k}]" if name in ("", "<lambda>") else f"functions[{k}] ({name})"


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
        solution = PolynomialSolution.solve(points, basis[:-1], basis[-1], degree, interval)
        if solution.n_determined <= degree:
            raise InputError(
                f"p must hold {degree + 1} levels far enough apart to determine a polynomial of degree {degree}, "
                f"got {len(points.p)} levels in [{low:g}, {high:g}] that determine {solution.rank} coefficients."
            )
        return solution


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
        q = _chebyshev(levels, self.interval, self.degree) @ self.coefficients
        return np.asarray((np.arange(self.degree + 1) + 0.5) * ((weights * q) @ legendre_image(levels, self.degree)))


def _chebyshev(p: Array, interval: tuple[float, float], degree: int) -> Array:
    """The Chebyshev polynomials of an interval at levels, also outside of it: one column per degree."""
    low, high = interval
    return np.ascontiguousarray(np.polynomial.chebyshev.chebvander((2 * p - (low + high)) / (high - low), degree))


@dataclass(eq=False)
class LeastSquaresCurve(Curve):
    """Loss curve without restrictions, by least squares; of minimum norm where the losses do not determine it.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> e = np.array([0.5, 0.3, 0.2, 0.2])
    >>> p = np.linspace(0.1, 1, 8)
    >>> b = ooc.BinomialOperator(p, n=3).apply(e)
    >>> curve = ooc.LeastSquaresCurve().fit_points(p, b, n=3)
    >>> curve.values(range(4))
    array([0.5, 0.3, 0.2, 0.2])
    >>> round(curve.condition_, 1)
    6.5
    """

    def _solve(self, points: Points) -> LeastSquaresSolution:
        design = BinomialOperator(points.p, points.n).matrix()
        return LeastSquaresSolution.solve(points, design, np.eye(1, points.n + 1)[0])


@dataclass(frozen=True)
class LeastSquaresSolution(LinearSolution):
    """The whole sequence e_0, …, e_n."""

    def values(self, j: Any) -> Array:
        """The entries of the sequence at j."""
        return np.asarray(self.coefficients[j])
