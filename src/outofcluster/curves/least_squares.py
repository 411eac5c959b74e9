r"""The least-squares curve: B3, the paper's Algorithm 1, with its last line corrected.

.. math:: \hat e = (A^\top W A)^{-1} A^\top W b = (W^{1/2} A)^+ W^{1/2} b .

(As printed, the algorithm returns the fitted losses :math:`A \hat e`.) With fewer levels than n + 1, or with
singular values at the level of rounding, the pseudo-inverse gives the solution of minimum norm. This is the one method
that needs the whole matrix A. Its condition number grows like 2^n, so with more than a dozen records e_0 is mostly
noise, or mostly a result of the minimum norm. The other methods exist for that reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.curves.base import Curve, LinearSolution, LinearSystem
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.points import Points

__all__ = ["LeastSquaresCurve"]


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
