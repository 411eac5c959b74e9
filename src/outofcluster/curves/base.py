"""What all curve methods share: they are fitted in one way (``fit_points``) and have the same fitted attributes.

A method is a small dataclass of parameters with one function of its own, ``_solve``, which takes checked points and
returns a :class:`Solution`. Fitting never changes the parameters, and everything that is fitted lives in the solution.
So a second fit leaves nothing of the first behind, and what is rarely wanted (condition numbers, influences) is
computed only when somebody asks for it.

*Bézier form* (paper, Section 5.3 and appendix B). The columns of A are the Bernstein polynomials of degree n, so the
losses observed at level p are the Bézier curve

    B(p) = Σ_j C(n, j) p^j (1-p)^{n-j} P_j,   P_j = (j/n, e_j),

whose first coordinate is p itself. The e_j are its Bernstein coefficients.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.arguments import Array, check_share, short
from outofcluster._base.exceptions import InputError, NotFittedError, SolverError, described
from outofcluster.curves.points import Points, check_indices, check_points

_MAX_CONTROL_POINTS = 1_000_000

Value = TypeVar("Value")


@dataclass(frozen=True)
class Needs:
    """What a curve asks of the samples that it is fitted to.

    Attributes
    ----------
    levels : {"extrapolation", "automatic"}
        Which design of levels suits the curve: the optimal design for polynomials, or the levels and sizes of the
        automatic curve (:mod:`outofcluster.sampling.levels`).
    sizes : bool
        Whether the curve learns from training sets of several sizes.
    nonnegative : bool
        Whether the curve can be fitted only to losses that are not negative.
    unmixed : bool
        Whether the curve takes losses below the leakage rate as well (:mod:`outofcluster.curves.unmixing`).
    """

    levels: Literal["extrapolation", "automatic"] = "extrapolation"
    sizes: bool = False
    nonnegative: bool = False
    unmixed: bool = False


class Samples(Protocol):
    """The part of loss samples that a curve reads; it never sees records or models."""

    # Size n of the binomial operator.
    size: Any
    # Mean loss at each level.
    means: Any
    # Monte-Carlo standard errors of the means.
    standard_errors: Any

    def levels(self, leakage: float) -> Array:
        """Levels p that the injected fractions have at a leakage rate."""


class Solution(ABC):
    """A solved curve e_0, …, e_n, in the form that suits the method.

    Subclasses are frozen dataclasses; ``points`` is what the curve was fitted to.
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
        """The derivative of e_0 by b, or None where there is no closed form.

        Methods that average curves hold their shares fixed.
        """
        return self.influence

    @property
    def optimism_derivative(self) -> Array | None:
        """The derivative by b of e_0 less the fitted loss at the lowest level, or None."""
        return None

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the curves that a method averages; 0 where there is only one curve."""
        return 0.0

    @abstractmethod
    def values(self, j: Any) -> Array:
        """The values e_j at positions that have been checked."""


@dataclass(frozen=True)
class DesignSolution(Solution):
    """A curve by coefficients that a design takes to the losses; the first of them is e_0."""

    points: Points
    # A in the method's own coordinates, without weights, with one row per level: a dense or sparse matrix.
    design: Any
    coefficients: Array

    @property
    def e0(self) -> float:
        """The first coefficient."""
        return float(self.coefficients[0])

    @cached_property
    def fitted(self) -> Array:
        """The design times the coefficients."""
        return np.asarray(self.design @ self.coefficients)

    @cached_property
    def condition(self) -> float:
        """Condition number of the design."""
        return float(np.linalg.cond(self.points.scaled(self.design)))


@dataclass(frozen=True)
class LinearSolution(DesignSolution):
    """Least squares ``min ‖√weights (design x - b)‖``, of minimum norm where x is not unique."""

    # The linear function: e_0 = at_zero · x.
    at_zero: Array
    # How many coefficients the losses determine; 0 where these are not the coefficients of least squares.
    n_determined: int

    @classmethod
    def solve(cls, points: Points, design: Array, at_zero: Array, *others: Any) -> Self:
        """Solve by singular values, those at the level of rounding being 0; ``others`` are a subclass's own fields."""
        matrix, right = points.scaled(design), points.scaled(points.b)
        if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
            # LAPACK would print a complaint of its own.
            raise ArithmeticError("numbers beyond the range of floats")
        x, _, rank, _ = np.linalg.lstsq(matrix, right, rcond=None)
        return cls(points, design, x, at_zero, int(rank), *others)

    @property
    def e0(self) -> float:
        """The linear function of the coefficients."""
        return float(self.at_zero @ self.coefficients)

    @property
    def rank(self) -> int | None:
        """How many coefficients the losses determine; None where these are not those of least squares."""
        return self.n_determined or None

    @cached_property
    def influence(self) -> Array | None:
        """The weights of the losses in e_0."""
        return self._influence_on(self.at_zero)

    @cached_property
    def optimism_derivative(self) -> Array | None:
        """The weights of the losses in e_0 less the fitted loss at the lowest level."""
        return self._influence_on(self.at_zero - self.design[self.points.lowest])

    def _influence_on(self, functional: Array) -> Array | None:
        """The weights w with ``functional · x = w · b``."""
        if self.n_determined == 0:
            return None
        inverse = np.linalg.pinv(self.points.scaled(self.design), rcond=np.finfo(float).eps * max(self.design.shape))
        return self.points.scaled(functional @ inverse)


class FittedValue(Generic[Value]):
    """An attribute of a fitted curve that is one of its solution."""

    def __init__(self, name: str, meaning: str) -> None:
        self.name, self.__doc__ = name, meaning

    def __get__(self, curve: Curve | None, owner: Any = None) -> Value:
        """The value of the solution; the attribute itself where a class is asked."""
        value: Any = self if curve is None else getattr(curve._fitted(), self.name)
        return value  # type: ignore[no-any-return]


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
        b - A e, the losses less those that the curve implies.
    condition_ : float
        Condition number of the system that was solved, in the method's own coordinates.
    influence_ : array of shape (m,) or None
        The weights w with e_0 = w·b where the method is linear in b, None where it is not.
    rank_ : int or None
        How many parameters the losses determine where the method is linear, None where it is not.
    optimism_ : float
        e_0 less the curve's own loss at the lowest level: what the leakage hides that was there from the start.
    derivative_, optimism_derivative_ : array of shape (m,) or None
        The derivatives of e_0 and of the optimism by b, or None where there is no closed form. A method that averages
        curves holds their shares fixed; ``choice_variance_`` stands for how these may vary.
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
        """Change parameters; the new values are used from the next fit on.

        Parameters
        ----------
        **params : dict
            New values by name.

        Returns
        -------
        self
            The same curve.
        """
        names = list(self.get_params())
        for name in params:
            if name not in names:
                listed = ", ".join(names) or "none at all"
                raise InputError(f"{type(self).__name__} has no parameter {short(name)}; its parameters are: {listed}.")
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
        n : int or array of int of shape (m,)
            Size of the training sets. `AutoCurve` also takes one size for each loss.
        weights : array of shape (m,), optional
            Positive weights of the squared residuals, ideally 1 / variance of b; all alike by default.
        standard_errors : array of shape (m,), optional
            Standard errors of b. Where no weights are given, the weights are 1 / variance divided by their mean, so
            that penalties keep their meaning. Methods that average curves judge by the errors how well each fits.

        Returns
        -------
        self
            The same curve, fitted.
        """
        points = check_points(p, b, n, weights, standard_errors)
        if points.size_of_each is not None and not self.needs.sizes:
            raise InputError(f"n must be one whole number for {type(self).__name__}, got {short(n)}.")
        # Whatever stops the linear algebra becomes one sentence, and an e_0 that is no number as well.
        failed = f"{type(self).__name__} could not be fitted to these losses:"
        try:
            with np.errstate(all="ignore"):
                solution = self._solve(points)
                e0 = solution.e0
        except InputError:
            raise
        except (ArithmeticError, MemoryError, ValueError) as error:
            raise SolverError(f"{failed} {described(error)}") from error
        if not math.isfinite(e0):
            raise SolverError(f"{failed} its e_0 is {e0}.")
        self._solution = solution
        return self

    def fit(self, samples: Samples | Sequence[Samples], leakage: float) -> Self:
        """Fit the curve to loss samples, for a leakage rate that is known or assumed.

        The more precise the mean loss of a level is, the more the level counts.

        Parameters
        ----------
        samples : LossSamples, or a list of them
            Losses at injected fractions. A list may hold samples of several sizes for `AutoCurve`.
        leakage : float
            Share p0 of the training records that truly belong to validation clusters, in [0, 1).

        Returns
        -------
        self
            The same curve, fitted.
        """
        rate = check_share("leakage", leakage, "[0, 1)")
        runs = samples if isinstance(samples, Sequence) else [samples]
        for run in runs:
            if not all(hasattr(run, name) for name in ("levels", "means", "size", "standard_errors")):
                raise InputError(f"samples must be LossSamples, or a list of them, got {short(run)}.")
        if not runs:
            raise InputError("samples must hold at least one run, got an empty list.")
        sizes = np.concatenate([np.full(len(run.means), run.size) for run in runs])
        return self.fit_points(
            np.concatenate([run.levels(rate) for run in runs]),
            np.concatenate([run.means for run in runs]),
            sizes if isinstance(samples, Sequence) else samples.size,
            standard_errors=np.concatenate([run.standard_errors for run in runs]),
        )

    @abstractmethod
    def _solve(self, points: Points) -> Solution:
        """Check the parameters against the points, and solve."""

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
        if positions.size == 0:
            return np.zeros(positions.shape)
        values = self._fitted().values(positions)
        if not np.isfinite(values).all():
            raise SolverError(f"{type(self).__name__} has no finite value at some of the positions {short(j)}.")
        return float(values) if positions.ndim == 0 else values

    def to_bezier(self) -> Bezier:
        """The curve as a Bézier curve, with control points (j/n, e_j), which passes through the losses A e.

        Returns
        -------
        Bezier
            The Bézier curve.
        """
        n = self.n_
        if n >= _MAX_CONTROL_POINTS:
            raise InputError(
                f"n must be below {_MAX_CONTROL_POINTS} for a Bézier form, which has n + 1 control points, got {n}."
            )
        return Bezier(self.values(np.arange(n + 1)))

    e0_ = FittedValue[float]("e0", "The estimate of e_0.")
    condition_ = FittedValue[float]("condition", "Condition number of the system that was solved.")
    influence_ = FittedValue["Array | None"]("influence", "The weights w with e_0 = w·b, None if not linear in b.")
    rank_ = FittedValue["int | None"]("rank", "How many parameters the losses determine, None if not linear in b.")
    derivative_ = FittedValue["Array | None"]("derivative", "The derivative of e_0 by b, None without a closed form.")
    optimism_derivative_ = FittedValue["Array | None"]("optimism_derivative", "The derivative of the optimism by b.")
    choice_variance_ = FittedValue[float]("choice_variance", "Variance of the optimism over averaged curves.")

    @property
    def n_(self) -> int:
        """Size of the training sets."""
        return self._fitted().points.n

    @property
    def residual_(self) -> Array:
        """The losses less those that the curve implies, b - A e."""
        solution = self._fitted()
        return solution.points.b - solution.fitted

    @property
    def optimism_(self) -> float:
        """e_0 less the fitted loss at the lowest level."""
        solution = self._fitted()
        return solution.e0 - float(solution.fitted[solution.points.lowest])

    def _fitted(self) -> Solution:
        if self._solution is None:
            raise NotFittedError(f"{type(self).__name__} is not fitted yet; call fit_points first.")
        return self._solution


@dataclass(frozen=True)
class Bezier:
    """A loss curve in Bernstein form.

    Parameters
    ----------
    coefficients : array of shape (n + 1,)
        Bernstein coefficients e_0, …, e_n.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> curve = ooc.PolynomialCurve(degree=1).fit_points([0.2, 0.6, 1.0], [0.40, 0.30, 0.20], n=2)
    >>> bezier = curve.to_bezier()
    >>> bezier.control_points
    array([[0.  , 0.45 ],
           [0.5 , 0.325],
           [1.  , 0.2  ]])
    >>> float(bezier.bpoly(0.6))
    0.3
    """

    coefficients: Array

    @property
    def degree(self) -> int:
        """Degree of the curve, which is n."""
        return len(self.coefficients) - 1

    @property
    def control_points(self) -> Array:
        """The points (j/n, e_j), as an array of shape (n + 1, 2)."""
        return np.column_stack([np.arange(self.degree + 1) / self.degree, self.coefficients])

    @property
    def bpoly(self) -> Any:
        """The curve as a ``scipy.interpolate.BPoly`` on [0, 1]."""
        from scipy.interpolate import BPoly

        return BPoly(self.coefficients[:, None], [0.0, 1.0])
