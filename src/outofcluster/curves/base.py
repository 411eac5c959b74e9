"""What every curve method shares: one way in (``fit_points``), one set of fitted names out.

A method is a small dataclass of parameters with one function of its own, ``_solve``: checked points in, a
:class:`Solution` out. The parameters never change while fitting, and all that is fitted lives in the solution,
so that a second fit leaves nothing of the first behind and what is asked for rarely (condition numbers,
influences) is computed only when asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._validation import Array, Points, check_indices, check_points
from outofcluster.curves.bezier import Bezier
from outofcluster.errors import NotFittedError

__all__ = ["Curve", "LinearSystem", "Solution"]


class Solution(ABC):
    """A solved curve: e_0, …, e_n in whatever form the method found it.

    Subclasses are frozen dataclasses; ``points`` is what was fitted.
    """

    points: Points

    @property
    @abstractmethod
    def e0(self) -> float:
        """The loss without leakage."""

    @property
    @abstractmethod
    def fitted(self) -> Array:
        """The losses A e that the curve implies at the levels."""

    @property
    @abstractmethod
    def condition(self) -> float:
        """Condition number of the system that was solved."""

    @property
    def influence(self) -> Array | None:
        """The weights w with e_0 = w·b, or None where e_0 is not linear in b."""
        return None

    @abstractmethod
    def values(self, j: Any) -> Array:
        """e_j at checked positions."""


@dataclass(frozen=True)
class LinearSystem:
    """Least squares ``min ‖√weights (design x - b)‖``, of minimum norm where x is not unique.

    ``design`` is A in the method's own coordinates, unweighted, with one row a level.
    """

    points: Points
    design: Array
    solution: Array
    rank: int
    singular_values: Array

    @classmethod
    def solve(cls, points: Points, design: Array) -> Self:
        """Solve by singular values, cutting those at rounding level."""
        x, _, rank, singular_values = np.linalg.lstsq(points.scaled(design), points.scaled(points.b), rcond=None)
        return cls(points, design, x, int(rank), singular_values)

    @cached_property
    def fitted(self) -> Array:
        """The fitted losses."""
        return self.design @ self.solution

    @cached_property
    def condition(self) -> float:
        """Largest singular value over smallest."""
        smallest = self.singular_values[-1]
        return float(self.singular_values[0] / smallest) if smallest > 0 else float("inf")

    def influence(self, functional: Array) -> Array:
        """The weights w with ``functional · x = w · b``."""
        inverse = np.linalg.pinv(self.points.scaled(self.design), rcond=np.finfo(float).eps * max(self.design.shape))
        return self.points.scaled(functional @ inverse)


class Curve(ABC):
    """Common base of the curve methods.

    Attributes
    ----------
    e0_ : float
        The estimate of e_0, the expected loss when no training record comes from a validation cluster.
    n_ : int
        Size of the training sets.
    residual_ : array of shape (m,)
        b - A e, the losses less what the curve implies.
    condition_ : float
        Condition number of the system that was solved, in the method's own coordinates.
    influence_ : array of shape (m,) or None
        The weights w with e_0 = w·b where the method is linear in b, None where it is not.
    """

    _solution: Solution | None = None

    def fit_points(self, p: ArrayLike, b: ArrayLike, n: int, weights: ArrayLike | None = None) -> Self:
        """Fit the curve to losses observed at levels of leakage.

        Parameters
        ----------
        p : array of shape (m,)
            Distinct levels in [0, 1]: the share of training records that truly come from validation clusters.
        b : array of shape (m,)
            Mean loss at each level.
        n : int
            Size of the training sets.
        weights : array of shape (m,), optional
            Positive weights of the squared residuals, ideally 1 / variance of b; all alike by default.

        Returns
        -------
        self
        """
        points = check_points(p, b, n, weights)
        self._solution = self._solve(points)
        return self

    @abstractmethod
    def _solve(self, points: Points) -> Solution:
        """Check the parameters against the points, then solve."""

    def values(self, j: ArrayLike) -> Any:
        """The curve e_j at position j, or at each of an array of positions.

        Parameters
        ----------
        j : int or array of int
            Numbers of leaked records, from 0 to n.

        Returns
        -------
        float or array
            A float for a single j, else an array of the shape of j.
        """
        positions = check_indices(j, self.n_)
        values = self._fitted().values(positions)
        return float(values) if positions.ndim == 0 else values

    def to_bezier(self) -> Bezier:
        """The curve as a Bézier curve: its control points are (j/n, e_j), and it passes through the losses A e."""
        Bezier.check_degree(self.n_)
        return Bezier(self.values(np.arange(self.n_ + 1)))

    @property
    def e0_(self) -> float:
        """The estimate of e_0."""
        return self._fitted().e0

    @property
    def n_(self) -> int:
        """Size of the training sets."""
        return self._fitted().points.n

    @property
    def residual_(self) -> Array:
        """The losses less what the curve implies, b - A e."""
        solution = self._fitted()
        return solution.points.b - solution.fitted

    @property
    def condition_(self) -> float:
        """Condition number of the system that was solved."""
        return self._fitted().condition

    @property
    def influence_(self) -> Array | None:
        """The weights w with e_0 = w·b, or None where the method is not linear in b."""
        return self._fitted().influence

    def _fitted(self) -> Solution:
        if self._solution is None:
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit_points first.")
        return self._solution
