r"""Whether a curve has the shape that theory gives it: decreasing (Theorem 3.1) and convex (Theorem 3.2).

A shape is a set of contrasts that must not be positive. For values v at positions x₁ < … < x_m these are

.. math:: v_k - v_i\ (i<k) \qquad\text{and}\qquad
          v_j - \frac{(x_k-x_j) v_i + (x_j-x_i) v_k}{x_k-x_i}\ (j-i = k-j) .

Pairs and triples of every width are taken, since a slow rise shows only between distant levels. A positive
contrast c with standard error σ exceeds the noise when z = c/σ is larger than the largest of so many contrasts
would be by chance. Two bounds on that probability hold whatever the dependence between the contrasts, and the
smaller is used: Bonferroni's, (number of contrasts)·P(N > z), and Scheffé's, :math:`P(χ^2_d > z^2)` with d the
dimension of the noise. So false alarms are at most as frequent as alpha says, and small violations may stay undetected.

For observed losses the noise is that of the levels' means. For a fitted curve it is carried through the fit:
exactly where the method is linear in b, otherwise by refitting to losses drawn around the fitted ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import chdtrc, ndtr

from outofcluster._base.arguments import Array, check_integer, check_share, check_vector
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import Printed
from outofcluster.curves.base import Curve
from outofcluster.curves.points import check_levels, check_losses, check_positive

# Number of positions at which a fitted curve is examined.
_POSITIONS = 60

# Number of refits that carry the noise through a method that is not linear.
_DRAWS = 200

# Violations below this share of the largest value are errors of the solver, not of the curve.
_ROUNDING = 1e-8


@dataclass(frozen=True)
class Violation:
    """Where a shape does not hold: the stretch between two levels, and by how much.

    Attributes
    ----------
    start, stop : float
        The stretch, in p.
    size : float
        The rise over the stretch; or, for convexity, how far the curve bulges above a chord.
    standard_error : float or None
        Standard error of the size; None when no noise was given.
    """

    start: float
    stop: float
    size: float
    standard_error: float | None

    def __str__(self) -> str:
        error = "" if self.standard_error is None else f" ± {self.standard_error:.2g}"
        return f"by {self.size:.3g}{error} between p = {self.start:.3g} and {self.stop:.3g}"


@dataclass(frozen=True)
class ShapeCheck(Printed):
    """Whether one shape holds, where not, and whether noise explains it.

    Attributes
    ----------
    shape : {"decreasing", "convex"}
        The shape.
    violations : tuple of Violation
        Stretches where it does not hold, in the order of p.
    pvalue : float or None
        Bound on the probability that noise alone makes a violation as large as this, 1 where there is none; None when
        no noise was given.
    alpha : float
        Level at which the violation counts.
    """

    shape: Literal["decreasing", "convex"]
    violations: tuple[Violation, ...]
    pvalue: float | None
    alpha: float

    @property
    def holds(self) -> bool:
        """Whether the shape holds everywhere."""
        return not self.violations

    @property
    def exceeds_noise(self) -> bool | None:
        """Whether the violation is more than noise explains; None when no noise was given."""
        return None if self.pvalue is None else self.pvalue < self.alpha

    def __str__(self) -> str:
        name = self.shape.capitalize()
        if self.holds:
            return f"{name}: yes."
        verb = "rises" if self.shape == "decreasing" else "bulges"
        where = "; ".join(str(violation) for violation in self.violations[:3])
        more = f" and {len(self.violations) - 3} more" if len(self.violations) > 3 else ""
        verdict = {None: "the noise is not known", True: "more than noise explains", False: "within the noise"}
        bound = "" if self.pvalue is None else f" (p ≤ {self.pvalue:.2g})"
        return f"{name}: no, it {verb} {where}{more}; {verdict[self.exceeds_noise]}{bound}."


@dataclass(frozen=True)
class ShapeDiagnosis(Printed):
    """Whether a loss curve has the two shapes that theory gives it.

    Attributes
    ----------
    decreasing, convex : ShapeCheck
        The check of each shape.
    """

    decreasing: ShapeCheck
    convex: ShapeCheck

    def __str__(self) -> str:
        return f"{self.decreasing}\n{self.convex}"


def diagnose_points(
    p: ArrayLike, b: ArrayLike, standard_errors: ArrayLike | None = None, *, alpha: float = 0.05
) -> ShapeDiagnosis:
    """Check the shape of observed losses.

    Parameters
    ----------
    p : array of shape (m,)
        Levels.
    b : array of shape (m,)
        Mean losses at the levels.
    standard_errors : array of shape (m,), optional
        Their standard errors; without them violations are listed, but not compared with the noise.
    alpha : float, default=0.05
        Level of the test of each shape.

    Returns
    -------
    ShapeDiagnosis
        Whether the shapes hold, where they do not, and whether noise explains it.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> print(ooc.diagnose_points([0.1, 0.4, 0.7, 1.0], [0.40, 0.30, 0.33, 0.25], [0.004] * 4))
    Decreasing: no, it rises by 0.03 ± 0.0057 between p = 0.4 and 0.7; more than noise explains (p ≤ 3.4e-07).
    Convex: no, it bulges by 0.055 ± 0.0049 between p = 0.4 and 1; more than noise explains (p ≤ 3e-29).
    """
    levels = check_levels(p)
    losses = check_losses(b, len(levels))
    order = np.argsort(levels)
    covariance = None
    if standard_errors is not None:
        covariance = np.diag(_check_errors(standard_errors, len(levels))[order] ** 2)
    return _diagnose(levels[order], losses[order], covariance, len(levels), 0.0, alpha)


def diagnose_curve(
    curve: Curve, standard_errors: ArrayLike | None = None, *, alpha: float = 0.05, random_state: int = 0
) -> ShapeDiagnosis:
    """Check the shape of a fitted curve e_0, …, e_n.

    Parameters
    ----------
    curve : Curve
        A fitted curve.
    standard_errors : array of shape (m,), optional
        Standard errors of the losses it was fitted to; without them violations are listed, but not compared with the
        noise.
    alpha : float, default=0.05
        Level of the test of each shape.
    random_state : int, default=0
        Seed of the refits, for methods that are not linear.

    Returns
    -------
    ShapeDiagnosis
        Whether the shapes hold, where they do not, and whether noise explains it.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> curve = ooc.PolynomialCurve(degree=2).fit_points([0.1, 0.4, 0.7, 1.0], [0.40, 0.30, 0.24, 0.22], n=100)
    >>> print(ooc.diagnose_curve(curve, [0.01] * 4))
    Decreasing: yes.
    Convex: yes.
    """
    points = curve._fitted().points
    positions = np.unique(np.round(np.linspace(0, points.n, min(points.n + 1, _POSITIONS))).astype(np.int64))
    values = np.asarray(curve.values(positions))
    covariance = None
    if standard_errors is not None:
        errors = _check_errors(standard_errors, len(points.p))
        seed = check_integer("random_state", random_state, least=0)
        covariance = _value_covariance(curve, positions, errors, seed)
    rounding = _ROUNDING * float(np.abs(values).max())
    return _diagnose(positions / points.n, values, covariance, len(points.p), rounding, alpha)


def _value_covariance(curve: Curve, positions: Any, errors: Array, seed: int) -> Array:
    points = curve._fitted().points

    def refit(b: Array) -> Array:
        # A second curve with the same parameters, so that the caller's curve stays as it was fitted.
        return np.asarray(curve.unfitted().fit_points(points.p, b, points.n, points.weights).values(positions))

    if curve.influence_ is not None:
        weights = np.stack([refit(unit) for unit in np.eye(len(errors))], axis=1)
        return (weights * errors**2) @ weights.T
    centre = points.b - curve.residual_
    noise = errors * np.random.default_rng(seed).standard_normal((_DRAWS, len(errors)))
    lowest = 0.0 if points.b.min() >= 0 else -np.inf
    return np.cov(np.stack([refit(np.maximum(centre + row, lowest)) for row in noise]), rowvar=False)


def _diagnose(
    x: Array, v: Array, covariance: Array | None, dimension: int, rounding: float, alpha: float
) -> ShapeDiagnosis:
    m, level = len(x), check_share("alpha", alpha, "(0, 1)")
    first, last = np.triu_indices(m, 1)
    widths, middles = np.mgrid[1 : m // 2 + 1, :m]
    inside = (middles >= widths) & (middles < m - widths)
    start, middle, stop = ((middles + side * widths)[inside] for side in (-1, 0, 1))

    def check(shape: Literal["decreasing", "convex"], i: Any, j: Any, k: Any, left: Array, right: Array) -> ShapeCheck:
        """Contrasts v_j - left v_i - right v_k (pairs have j = k and no right part)."""
        size = v[j] - left * v[i] - right * v[k]
        error = None
        if covariance is not None:
            c = covariance
            variance = c[j, j] + left**2 * c[i, i] + right**2 * c[k, k]
            variance = variance - 2 * left * c[i, j] - 2 * right * c[j, k] + 2 * left * right * c[i, k]
            error = np.sqrt(np.maximum(variance, 0))
        violated = size > rounding
        pvalue = None if error is None else _bound(size[violated], error[violated], len(size), dimension)
        return ShapeCheck(shape, _stretches(x, i, j, k, size, error, violated), pvalue, level)

    chord = (x[stop] - x[middle]) / (x[stop] - x[start])
    return ShapeDiagnosis(
        check("decreasing", first, last, last, np.ones(len(first)), np.zeros(len(first))),
        check("convex", start, middle, stop, chord, 1 - chord),
    )


def _bound(size: Array, error: Array, count: int, dimension: int) -> float:
    """Bound on the probability that noise alone makes the largest of all contrasts this significant."""
    if len(size) == 0:
        return 1.0
    with np.errstate(divide="ignore"):
        z = float((size / error).max())
    return float(min(1.0, count * ndtr(-z), chdtrc(dimension, z * z)))


def _stretches(
    x: Array, i: Any, j: Any, k: Any, size: Array, error: Array | None, violated: Any
) -> tuple[Violation, ...]:
    """Violations that do not overlap, chosen from the largest down and put in the order of p."""
    chosen: list[int] = []
    for c in np.flatnonzero(violated)[np.argsort(-size[violated], kind="stable")]:
        if all(k[c] <= i[d] or i[c] >= k[d] for d in chosen):
            chosen.append(int(c))
    return tuple(
        Violation(float(x[i[c]]), float(x[k[c]]), float(size[c]), None if error is None else float(error[c]))
        for c in sorted(chosen, key=lambda c: float(x[i[c]]))
    )


def _check_errors(standard_errors: ArrayLike, m: int) -> Array:
    errors = check_vector("standard_errors", standard_errors)
    if len(errors) != m:
        raise InputError(f"standard_errors must have one value for each of the {m} levels, got {len(errors)}.")
    check_positive("standard_errors", errors)
    return errors
