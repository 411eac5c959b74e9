"""What every curve method shares: one way in (``fit_points``), one set of fitted names out.

A method is a small dataclass of parameters with one function of its own, ``_solve``: checked points in, a
:class:`Solution` out. The parameters never change while fitting, and all that is fitted lives in the solution,
so that a second fit leaves nothing of the first behind and what is asked for rarely (condition numbers,
influences) is computed only when asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.exceptions import InputError, NotFittedError
from outofcluster._base.validation import Array, check_share
from outofcluster.curves.bezier import Bezier
from outofcluster.curves.points import Points, check_indices, check_points

__all__ = ["Curve", "LinearSolution", "LinearSystem", "Needs", "Samples", "Solution"]


@dataclass(frozen=True)
class Needs:
    """What a curve asks of the samples that it is fitted to.

    Attributes
    ----------
    levels : {"extrapolation", "automatic"}
        Which design of levels suits the curve: the optimal design for polynomials
        (:mod:`outofcluster.design.extrapolation`), or the levels and sizes of the automatic curve
        (:mod:`outofcluster.design.automatic`).
    sizes : bool
        Whether the curve learns from training sets of several sizes.
    nonnegative : bool
        Whether the curve can be fitted only to losses that are not negative.
    """

    levels: Literal["extrapolation", "automatic"] = "extrapolation"
    sizes: bool = False
    nonnegative: bool = False


class Samples(Protocol):
    """What a curve needs of loss samples: it never sees records or models."""

    @property
    def size(self) -> int:
        """Size n of the binomial operator."""

    @property
    def means(self) -> Array:
        """Mean loss at each level."""

    @property
    def standard_errors(self) -> Array:
        """Monte-Carlo standard errors of the means."""

    def levels(self, leakage: float) -> Array:
        """Levels p for a leakage rate."""


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

    @property
    def rank(self) -> int | None:
        """How many parameters the losses determine, or None where the method is not linear."""
        return None

    @property
    def derivative(self) -> Array | None:
        """The derivative of e_0 by b, where there is a closed form; with its shares held where a method averages."""
        return self.influence

    @property
    def optimism_derivative(self) -> Array | None:
        """That of e_0 less the fitted loss at the lowest level."""
        return None

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the curves that a method chooses between; 0 where there is one."""
        return 0.0

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


@dataclass(frozen=True)
class LinearSolution(Solution):
    """A curve out of a linear system, in which e_0 is a functional of the unknowns."""

    points: Points
    system: LinearSystem
    at_zero: Array
    """The functional: e_0 = at_zero · x."""

    @property
    def e0(self) -> float:
        """The functional of the solution."""
        return float(self.at_zero @ self.system.solution)

    @property
    def fitted(self) -> Array:
        """The system's fitted losses."""
        return self.system.fitted

    @property
    def condition(self) -> float:
        """Condition number of the system."""
        return self.system.condition

    @property
    def rank(self) -> int:
        """Rank of the system."""
        return self.system.rank

    @cached_property
    def influence(self) -> Array:
        """The weights of the losses in e_0."""
        return self.system.influence(self.at_zero)

    @cached_property
    def optimism_derivative(self) -> Array:
        """The weights of the losses in e_0 less the fitted loss at the lowest level."""
        return self.system.influence(self.at_zero - self.system.design[self.points.lowest])


@dataclass(eq=False)
class Curve(ABC):
    """Common base of the curve methods: dataclasses, whose fields are the parameters.

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
    rank_ : int or None
        How many parameters the losses determine where the method is linear, None where it is not.
    optimism_ : float
        e_0 less the curve's own loss at the lowest level: what the leakage that was there from the start hides.
    derivative_, optimism_derivative_ : array of shape (m,) or None
        The derivatives of e_0 and of the optimism by b, where there is a closed form; a method that averages curves
        holds their shares, and has a ``choice_variance_``.
    choice_variance_ : float
        Variance of the optimism over the curves that the method averages; 0 for a single curve.
    """

    _solution: Solution | None = field(default=None, init=False, repr=False)

    @property
    def needs(self) -> Needs:
        """What the curve asks of the samples that it is fitted to."""
        return Needs()

    def within(self, loss_range: tuple[float, float]) -> Curve:
        """The same curve, knowing what values the loss can take.

        Parameters
        ----------
        loss_range : tuple of float
            The smallest and the largest value that the loss can take; infinite where there is no bound.

        Returns
        -------
        Curve
            The curve itself where it has no use for the range, else a new one that is not fitted.
        """
        return self

    def unfitted(self) -> Self:
        """A new curve with the same parameters that is not fitted.

        Returns
        -------
        Curve
            The new curve.
        """
        return replace(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, as scikit-learn's ``clone`` reads them.

        Parameters
        ----------
        deep : bool, default=True
            Without effect: no parameter of a curve has parameters of its own.

        Returns
        -------
        dict
            The parameters, each the very object that the curve was made with.
        """
        return {parameter.name: getattr(self, parameter.name) for parameter in fields(self) if parameter.init}

    def set_params(self, **params: Any) -> Self:
        """Change parameters, which count from the next fit on.

        Parameters
        ----------
        **params : dict
            New values by name.

        Returns
        -------
        self
        """
        names = list(self.get_params())
        for name in params:
            if name not in names:
                allowed = ", ".join(names) or "none at all"
                raise InputError(f"{type(self).__name__} has no parameter {name!r}; its parameters are: {allowed}.")
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def fit_points(
        self,
        p: ArrayLike,
        b: ArrayLike,
        n: int | ArrayLike,
        weights: ArrayLike | None = None,
        *,
        standard_errors: ArrayLike | None = None,
    ) -> Self:
        """Fit the curve to losses observed at levels of leakage.

        Parameters
        ----------
        p : array of shape (m,)
            Distinct levels in [0, 1]: the share of training records that truly come from validation clusters.
        b : array of shape (m,)
            Mean loss at each level.
        n : int
            Size of the training sets; `AutoCurve` also takes one size for each loss.
        weights : array of shape (m,), optional
            Positive weights of the squared residuals, ideally 1 / variance of b; all alike by default.
        standard_errors : array of shape (m,), optional
            Standard errors of b. Without ``weights`` they give them, in units of their average, so that penalties
            keep their meaning; methods that choose between curves judge these by them.

        Returns
        -------
        self
        """
        if np.ndim(n) and not self.needs.sizes:
            raise InputError(f"n must be one whole number for {type(self).__name__}, got {n!r}.")
        points = check_points(p, b, n, weights, standard_errors)
        self._solution = self._solve(points)
        return self

    def fit(self, samples: Samples | Sequence[Samples], leakage: float) -> Self:
        """Fit the curve to loss samples, for a leakage rate that is known or assumed.

        Levels count by the precision of their means.

        Parameters
        ----------
        samples : LossSamples, or a list of them
            Losses at injected fractions; for `AutoCurve` also those of several sizes.
        leakage : float
            Share p0 of the training records that truly belong to validation clusters, from 0 to below 1.

        Returns
        -------
        self
        """
        rate = check_share("leakage", leakage, "[0, 1)")
        if not isinstance(samples, Sequence):
            return self.fit_points(
                samples.levels(rate), samples.means, samples.size, standard_errors=samples.standard_errors
            )
        if not samples:
            raise InputError("samples must hold at least one run, got an empty list.")
        return self.fit_points(
            np.concatenate([run.levels(rate) for run in samples]),
            np.concatenate([run.means for run in samples]),
            np.concatenate([np.full(len(run.means), run.size) for run in samples]),
            standard_errors=np.concatenate([run.standard_errors for run in samples]),
        )

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

    @property
    def rank_(self) -> int | None:
        """How many parameters the losses determine, or None where the method is not linear in b."""
        return self._fitted().rank

    @property
    def optimism_(self) -> float:
        """e_0 less the fitted loss at the lowest level."""
        solution = self._fitted()
        return solution.e0 - float(solution.fitted[solution.points.lowest])

    @property
    def derivative_(self) -> Array | None:
        """The derivative of e_0 by b, or None where there is no closed form."""
        return self._fitted().derivative

    @property
    def optimism_derivative_(self) -> Array | None:
        """The derivative of the optimism by b, or None where there is no closed form."""
        return self._fitted().optimism_derivative

    @property
    def choice_variance_(self) -> float:
        """Variance of the optimism over the curves that the method averages."""
        return self._fitted().choice_variance

    def _fitted(self) -> Solution:
        if self._solution is None:
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit_points first.")
        return self._solution
