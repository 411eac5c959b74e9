r"""The trend-filtered curve: the paper's T2, T3 and T4, with and without "+mono" (Section 6), for any n.

.. math:: \min_e\ \Bigl(\sum_i w_i (Ae - b)_i^2\Bigr)^{1/2} + λ\,‖f^{(k)}‖, \qquad
          ‖f^{(k)}‖ = n^{k-1/2}\,‖D_k e‖_2 ,

where D_k takes k-th forward differences. With :math:`e_j = f(j/n)` the second norm is the L2 norm of the k-th
derivative per unit of p, so λ means the same for every n (``scale="p"``). ``scale="index"`` is the paper's
objective, λ‖D_k e‖, whose penalty vanishes as n grows; the two are one problem with :math:`λ_{index} = λ_p\,
n^{k-1/2}`.

Neither norm is squared, as in the paper. The fit therefore scales with b, and λ does not depend on the size of
the noise.

"+mono" is ``monotone=True`` (e_j ≥ e_{j+1}) with ``nonnegative=True`` (e_n ≥ 0). Convexity holds only under the extra
condition of Theorem 3.2, so it is an option.

The curve is represented by its values on the index grid while n is small or ``scale="index"``, otherwise by a spline
whose size does not depend on n. An active-set method or a cone solver finds the minimum
(:mod:`outofcluster.curves.paper.solvers`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy import sparse

from outofcluster._base.arguments import Array, check_choice, check_flag, check_integer, check_number
from outofcluster._base.exceptions import InputError
from outofcluster.curves.base import Curve, DesignSolution, FittedValue, Needs
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.paper.solvers import Representation, Shape, grid, minimise_trend, spline
from outofcluster.curves.points import Points

# Largest n of the index grid, which takes some seconds and about 100 MB.
_MAX_GRID = 200_000

# Number of entries of A up to which forming all of them costs less than forming the windows of the rows.
_DENSE = 1_000_000


@dataclass(eq=False, kw_only=True)
class TrendFilterCurve(Curve):
    """Smooth loss curve by a trend filter, by default decreasing and non-negative.

    Parameters
    ----------
    order : {2, 3, 4}, default=4
        Which differences are penalised: a curve of degree ``order - 1`` costs nothing.
    penalty : float, optional
        Weight λ > 0 of the penalty, in the units of ``scale``. The default is 10^-(order + 1) per unit of p, and 10
        per index, as in the paper for its heart and census data.
    monotone : bool, default=True
        Whether the curve must not increase (Theorem 3.1).
    nonnegative : bool, default=True
        Whether the curve must not fall below 0. Switch it off for losses that can be negative.
    convex : bool, default=False
        Whether the curve must be convex (Theorem 3.2, which needs more than a strictly convex loss).
    scale : {"p", "index"}, default="p"
        Differences per unit of p, which mean the same for every n, or per index as in the paper.
    n_pieces : int, default=128
        Number of pieces of the spline that represents the curve when ``scale="p"`` and n exceeds twice this number.

    Attributes
    ----------
    penalty_ : float
        The penalty that was used.
    index_penalty_ : float
        The penalty of the same problem under ``scale="index"``.
    objective_ : float
        The sum of the two norms at the solution.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.linspace(0.1, 1, 10)
    >>> curve = ooc.TrendFilterCurve().fit_points(p, 0.2 + 0.1 * np.exp(-3 * p), n=10**7)
    >>> round(curve.e0_, 3)
    0.3
    >>> bool((np.diff(curve.values(np.arange(0, 10**7, 10**5))) <= 1e-9).all())
    True
    """

    order: int = 4
    penalty: float | None = None
    monotone: bool = True
    nonnegative: bool = True
    convex: bool = False
    scale: Literal["p", "index"] = "p"
    n_pieces: int = 128

    @property
    def needs(self) -> Needs:
        """Losses that are not negative where the curve must not be negative."""
        return Needs(nonnegative=check_flag("nonnegative", self.nonnegative))

    penalty_ = FittedValue[float]("penalty", "The penalty that was used, in the units of ``scale``.")
    index_penalty_ = FittedValue[float]("index_penalty", "The penalty per index, λ n^(k - 1/2) for ``scale='p'``.")
    objective_ = FittedValue[float]("objective", "The norm of the residuals plus the penalty.")

    def _solve(self, points: Points) -> TrendFilterSolution:
        check_choice("order", self.order, (2, 3, 4))
        check_choice("scale", self.scale, ("p", "index"))
        per_index = self.scale == "index"
        default = 10.0 if per_index else 10.0 ** -(self.order + 1)
        penalty = default if self.penalty is None else check_number("penalty", self.penalty, least=0, strict=True)
        pieces = check_integer("n_pieces", self.n_pieces, least=4, most=2000)
        shape = Shape(*(check_flag(name, getattr(self, name)) for name in ("monotone", "nonnegative", "convex")))
        points.require_levels(self.order, f"order {self.order}")
        if points.n < self.order:
            raise InputError(f"order must be at most n = {points.n}, got {self.order}.")
        if shape.nonnegative:
            points.require_nonnegative("when nonnegative=True; pass nonnegative=False for losses that can be negative")
        if per_index and points.n > _MAX_GRID:
            raise InputError(
                f"n must be at most {_MAX_GRID} under scale='index', whose penalty vanishes as n grows, "
                f"got {points.n}; use scale='p'."
            )
        operator = BinomialOperator(points.p, points.n)
        index_penalty = penalty if per_index else penalty * points.n ** (self.order - 0.5)
        if per_index or points.n <= 2 * pieces:
            small = operator.shape[0] * operator.shape[1] <= _DENSE
            representation = grid(operator.matrix() if small else operator.sparse_matrix(), self.order)
            unit_penalty = index_penalty
        else:
            representation = spline(operator, self.order, pieces)
            unit_penalty = penalty
        # The penalty is weak per index and strong per unit of p; that decides which cone program to try first.
        coefficients = minimise_trend(
            representation, points.weights, points.b, unit_penalty, shape, strong=not per_index
        )
        curve = points, representation.design, coefficients
        return TrendFilterSolution(*curve, representation, penalty, index_penalty, unit_penalty)


@dataclass(frozen=True)
class TrendFilterSolution(DesignSolution):
    """A curve by its coefficients, on the grid or as a spline; both start at e_0."""

    representation: Representation
    penalty: float
    index_penalty: float
    # The penalty in the units of the representation: per index on the grid, per unit of p for the spline.
    unit_penalty: float

    @cached_property
    def objective(self) -> float:
        """The norm of the residuals plus the penalty."""
        residual = self.points.scaled(self.fitted - self.points.b)
        roughness = self.representation.roughness @ self.coefficients
        return float(np.linalg.norm(residual) + self.unit_penalty * np.linalg.norm(roughness))

    @cached_property
    def condition(self) -> float:
        """Condition number of the design stacked on the penalty, without the constraints."""
        if self.representation.size > 3000:
            raise InputError(f"n must be at most 3000 for a condition number on the index grid, got {self.points.n}.")
        design = sparse.csr_matrix(self.design).toarray()
        stacked = np.vstack([self.points.scaled(design), self.unit_penalty * self.representation.roughness.toarray()])
        return float(np.linalg.cond(stacked))

    def values(self, j: Any) -> Array:
        """The curve at j."""
        return self.representation.values(self.coefficients, j, self.points.n)
