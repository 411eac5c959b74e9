r"""The two curves that are plain least squares in e.

**The basis curve**: any functions ψ_k on [0, 1] (paper, Section 5.1).

.. math:: e_j = \sum_k ξ_k ψ_k(j/n), \qquad (AΨ)_{ik} = E\, ψ_k(J/n),\ J ∼ \mathrm{Binomial}(n, p_i),

solved for ξ by least squares; :math:`\hat e_0 = \sum_k ξ_k ψ_k(0)`. Theorem 5.1 says that AΨ is invertible for
large n when the functions are unisolvent. For a given n and given levels the rank of AΨ decides, so the rank is what is
checked: the columns are scaled to norm 1 and factored by QR with pivoting, and a message names those that the others
already span.

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
from typing import Any

import numpy as np
from scipy.linalg import qr

from outofcluster._base.arguments import Array, short
from outofcluster._base.exceptions import InputError, described
from outofcluster.curves.base import Curve, LinearSolution, LinearSystem
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.points import Points

Function = Callable[[Array], Array]

# A column counts as dependent when no more than this part of it is new; expectations are accurate to about 1e-13.
_RANK_TOLERANCE = 1e-11


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
        return BasisSolution(points, LinearSystem.solve(points, design), at_zero, functions)


@dataclass(frozen=True)
class BasisSolution(LinearSolution):
    """Coefficients ξ of the functions; e_0 = Σ ξ_k ψ_k(0)."""

    functions: tuple[Function, ...]

    def values(self, j: Any) -> Array:
        """Σ ξ_k ψ_k(j/n)."""
        return _basis(self.functions, np.ravel(j) / self.points.n).reshape(*np.shape(j), -1) @ self.system.solution


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
        system = LinearSystem.solve(points, BinomialOperator(points.p, points.n).matrix())
        return LeastSquaresSolution(points, system, np.eye(1, points.n + 1)[0])


@dataclass(frozen=True)
class LeastSquaresSolution(LinearSolution):
    """The whole sequence e_0, …, e_n."""

    def values(self, j: Any) -> Array:
        """The entries of the sequence at j."""
        entries: Array = self.system.solution[j]
        return entries
