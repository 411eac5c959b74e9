r"""The completely monotone curve: a non-negative mixture of geometric sequences.

.. math:: e_j = \sum_k w_k (1-d_k)^j,\ w_k ≥ 0, \qquad b(p) = \sum_k w_k (1 - d_k p)^n .

By Hausdorff's theorem these mixtures, over decays d in [0, 1], are exactly the sequences whose differences
alternate in sign at every order: decreasing, convex, and so on. The fit is a non-negative least squares over a
grid of decays, at a cost that does not depend on n.

A component whose loss has almost vanished at the lowest level cannot be seen there, yet it may have any size at p = 0.
Its amplification on the way from the lowest level p_min to 0 is :math:`a = (1 - d\,p_{min})^{-n}`. The grid holds
decays whose amplification is at most ``max_amplification``, evenly spaced in log a, from the constant (a = 1) upwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import nnls

from outofcluster._base.arguments import Array, check_number
from outofcluster._base.exceptions import InputError, SolverError
from outofcluster.curves.base import Curve, DesignSolution, Needs
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.points import Points

# Number of decays: with the default cap the amplifications of neighbours differ by less than 1 %.
_GRID = 200
# Largest bound on the amplification that the arithmetic takes.
_MOST_AMPLIFICATION = 1e100


@dataclass(eq=False)
class CompletelyMonotoneCurve(Curve):
    """Completely monotone loss curve: decreasing, convex, with differences that alternate at every order.

    Parameters
    ----------
    max_amplification : float, default=4
        Largest factor by which a component may grow between the lowest level and p = 0. Larger values allow
        curves that fall more steeply before the first level, at the price of a larger variance.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.linspace(0.1, 1, 20)
    >>> b = 0.2 + 0.1 * (1 - 0.04 * p) ** 100
    >>> curve = ooc.CompletelyMonotoneCurve().fit_points(p, b, n=100)
    >>> round(curve.e0_, 3)
    0.3
    """

    max_amplification: float = 4.0

    @property
    def needs(self) -> Needs:
        """Losses that are not negative."""
        return Needs(nonnegative=True)

    def _solve(self, points: Points) -> MixtureSolution:
        cap = check_number("max_amplification", self.max_amplification, least=1)
        if cap > _MOST_AMPLIFICATION:
            raise InputError(f"max_amplification must be at most {_MOST_AMPLIFICATION:g}, got {cap:g}.")
        points.require_nonnegative("for a completely monotone curve")
        decay = decays(float(points.p.min()), points.n, cap)
        design = BinomialOperator(points.p, points.n).geometric(decay)
        # Columns have norm 1, for otherwise the solver's test for a positive gradient would favour flat components.
        scaled = points.scaled(design)
        norms = np.linalg.norm(scaled, axis=0)
        try:
            weights, _ = nnls(scaled / norms, points.scaled(points.b), maxiter=100 * len(decay))
        except RuntimeError as error:
            raise SolverError(f"Non-negative least squares did not converge: {error}") from None
        return MixtureSolution(points, design, weights / norms, decay)


def decays(lowest: float, n: int, cap: float) -> Array:
    """The grid of decays, from 0 to the one whose amplification is ``cap``, or to 1 where that is smaller.

    If the lowest level is 0, nothing is amplified, and the grid is spaced as for a lowest level of 1/n.
    """
    from_level = max(lowest, 1 / n)
    log_cap = np.log(cap) if lowest > 0 else np.inf
    # d = (1 - a^(-1/n)) / p_min, and d = 1 is a = (1 - p_min)^-n.
    log_most = min(log_cap, -n * np.log1p(-from_level) if from_level < 1 else np.inf, 700.0)
    return np.minimum(-np.expm1(-np.linspace(0, log_most, _GRID) / n) / from_level, 1.0)


@dataclass(frozen=True)
class MixtureSolution(DesignSolution):
    """The weights of a mixture, and its decays."""

    decay: Array

    @property
    def e0(self) -> float:
        """The sum of the weights."""
        return float(self.coefficients.sum())

    @cached_property
    def condition(self) -> float:
        """Condition number of the components with a positive weight."""
        used = self.coefficients > 0
        return float(np.linalg.cond(self.points.scaled(self.design[:, used]))) if used.any() else 1.0

    def values(self, j: Any) -> Array:
        """The mixture at j."""
        with np.errstate(divide="ignore", invalid="ignore"):
            exponent = np.multiply.outer(np.asarray(j, dtype=float), np.log1p(-self.decay))
        # 0 · log 0 is 0 here: the sequence (1 - d)^j starts at 1 even for d = 1.
        return np.exp(np.where(np.isnan(exponent), 0.0, exponent)) @ self.coefficients
