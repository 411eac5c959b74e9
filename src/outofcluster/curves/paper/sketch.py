r"""The sketched curve: columns of A in groups, the curve constant on each (paper, Section 5.2).

Partition the positions 0, …, n into runs g of adjacent positions, with r(j) the group of j and the first position alone
in group 0, and let :math:`S_g = \sum_{j ∈ g} A_j`. Then :math:`e_j = z_{r(j)}` solves, with unsquared norms as in the
published experiments,

.. math:: \min_z\ ‖Sz - b‖ + λ‖D_2 z‖, \qquad z_0 ≥ z_1 ≥ … ≥ 0 \text{ if monotone} .

Sums of adjacent columns are differences of the binomial distribution function, so S costs O(m·k) for any n.

**Theorem 5.2.** Let s be the first row of the pseudo-inverse of S, of full column rank, and b = Ae. The
least-squares solution has :math:`z_0 - e_0 = \sum_{j≥1} (s·A_j) e_j`, and :math:`s·S_g = 0` for every g ≥ 1, so
for decreasing e

.. math:: |z_0 - e_0| ≤ ε\,n\,‖s‖\,e_0, \qquad ε = \max_j ‖A_j - S_{r(j)}/|r(j)|\,‖ .

The bound holds for the solution without penalty and constraints. The maximum over all n + 1 columns is taken over a
bounded number of them: all of them while they are few, otherwise those that matter. Columns vanish between the bells of
the rows and are smooth within them. So the maximum lies, to the precision of the grid, on a grid of points in the
window of each row, or at the edge of a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array, Codes, check_flag, check_integer, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster.curves.base import Curve, FittedValue, LinearSolution, Needs
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.paper.solvers import Shape, grid, minimise_trend
from outofcluster.curves.points import Points

# Levels times groups that S may have, which takes ten seconds or so; a sketch is of use with far fewer.
_MAX_ENTRIES = 4_000_000

# Number of columns up to which the radius is taken over every one of them.
_ALL_COLUMNS = 20_000


@dataclass(eq=False, kw_only=True)
class SketchCurve(Curve):
    """Loss curve that is constant on groups of positions, at a cost that does not depend on n.

    Parameters
    ----------
    n_groups : int, default=7
        Number of groups, not counting the first position where that is a group of its own; at most 4,000,000
        divided by the number of levels.
    penalty : float, default=0.1
        Weight of the second differences of the groups' losses; 0 for none.
    monotone : bool, default=True
        Whether the losses of successive groups must neither increase nor fall below 0.
    first_alone : bool, default=True
        Whether position 0 is a group of its own, as Theorem 5.2 requires. In the paper's figures it is not.

    Attributes
    ----------
    error_bound_ : float
        Right-hand side of Theorem 5.2, with the estimate in the place of e_0. Infinite where the theorem does not
        apply: the first position is not alone, or the levels cannot tell the groups apart.
    error_factor_ : float
        The bound relative to e_0, ε n ‖s‖.
    groups_ : Groups
        The partition of the positions.
    sketch_ : array of shape (m, k)
        The matrix S.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> p = np.linspace(0.1, 1, 20)
    >>> curve = ooc.SketchCurve(n_groups=7).fit_points(p, 0.2 + 0.1 * np.exp(-4 * p), n=10**9)
    >>> curve.sketch_.shape
    (20, 8)
    >>> round(curve.e0_, 2)
    0.29
    """

    n_groups: int = 7
    penalty: float = 0.1
    monotone: bool = True
    first_alone: bool = True

    @property
    def needs(self) -> Needs:
        """Losses that are not negative where ``monotone`` keeps the curve above 0."""
        return Needs(nonnegative=check_flag("monotone", self.monotone))

    @property
    def error_bound_(self) -> float:
        """Theorem 5.2's bound on the error of e_0 that comes from grouping."""
        factor = self.error_factor_
        return factor * abs(self.e0_) if math.isfinite(factor) else math.inf

    error_factor_ = FittedValue[float]("error_factor", "Theorem 5.2's bound relative to e_0.")
    groups_ = FittedValue["Groups"]("groups", "The partition of the positions.")
    sketch_ = FittedValue[Array]("design", "The matrix S.")

    def _solve(self, points: Points) -> SketchSolution:
        alone = check_flag("first_alone", self.first_alone)
        monotone = check_flag("monotone", self.monotone)
        n_groups = check_integer("n_groups", self.n_groups, least=1 if alone else 2)
        if n_groups > points.n:
            raise InputError(f"n_groups must be at most n = {points.n}, got {short(n_groups)}.")
        if n_groups > (most := _MAX_ENTRIES // len(points.p)):
            raise InputError(f"n_groups must be at most {most} for {len(points.p)} levels, got {short(n_groups)}.")
        penalty = check_number("penalty", self.penalty, least=0)
        unknowns = n_groups + alone
        if unknowns < 3 and penalty > 0:
            raise InputError(
                f"penalty must be 0 with fewer than 3 groups, which have no second differences, got {penalty:g}."
            )
        points.require_levels(unknowns if penalty == 0 else 2, f"{unknowns} groups")
        if monotone:
            points.require_nonnegative("when monotone=True, which keeps the curve above 0")
        groups = Groups.of_equal_size(points.n, n_groups, alone)
        operator = BinomialOperator(points.p, points.n)
        design, at_zero = operator.range_sums(groups.edges), np.eye(1, unknowns)[0]
        if penalty == 0:
            solution = SketchSolution.solve(points, design, at_zero, operator, groups)
            if solution.n_determined < unknowns:
                raise InputError(
                    f"penalty must be above 0 for n = {points.n} and {unknowns} groups, "
                    f"of which the levels determine {solution.n_determined}, got 0."
                )
            if not monotone:
                return solution
        shape = Shape(monotone, monotone, False)
        representation = grid(design, min(2, unknowns - 1))
        losses = minimise_trend(representation, points.weights, points.b, penalty, shape, strong=False)
        return SketchSolution(points, design, losses, at_zero, 0, operator, groups)


@dataclass(frozen=True)
class Groups:
    """A partition of 0, …, n into runs of adjacent positions."""

    # Where each group starts, followed by n + 1.
    edges: Codes
    # Whether position 0 is a group of its own.
    first_alone: bool

    @classmethod
    def of_equal_size(cls, n: int, n_groups: int, first_alone: bool) -> Self:
        """Groups of nearly equal size, after position 0 if that is alone."""
        start = int(first_alone)
        # Whole numbers throughout, so that the sizes differ by at most one for any n.
        cuts = [start + (n + 1 - start) * g // n_groups for g in range(n_groups + 1)]
        return cls(np.array([0] * start + cuts, dtype=np.int64), first_alone)

    @property
    def sizes(self) -> Codes:
        """Number of positions in each group."""
        return np.diff(self.edges)

    def of(self, j: Any) -> Codes:
        """The groups of positions."""
        return np.asarray(np.searchsorted(self.edges, j, side="right") - 1, dtype=np.int64)


@dataclass(frozen=True)
class SketchSolution(LinearSolution):
    """A curve with one loss per group; the design is S."""

    operator: BinomialOperator
    groups: Groups

    def values(self, j: Any) -> Array:
        """The losses of the groups that the positions belong to."""
        return np.asarray(self.coefficients[self.groups.of(j)])

    @cached_property
    def radius(self) -> float:
        """ε: the largest distance of a column of A from that of its group, divided by the size of the group."""
        columns, edges = np.arange(self.points.n + 1), self.groups.edges
        if self.points.n > _ALL_COLUMNS:
            columns = np.unique(np.concatenate([self.operator.lattice(), edges[:-1], edges[1:] - 1]))
        means = (self.design / self.groups.sizes)[:, self.groups.of(columns)]
        return float(np.linalg.norm(self.operator.columns(columns) - means, axis=0).max())

    @cached_property
    def error_factor(self) -> float:
        """ε n ‖s‖, or infinity where Theorem 5.2 does not apply."""
        # Columns have norm 1: the first one of S may be as small as (1 - p)^n, which says nothing about the rank.
        norms = np.linalg.norm(self.design, axis=0)
        if not self.groups.first_alone or norms.min() == 0:
            return math.inf
        scaled = self.design / norms
        if np.linalg.matrix_rank(scaled) < len(norms):
            return math.inf
        with np.errstate(over="ignore"):
            first_row = np.linalg.pinv(scaled)[0] / norms[0]
            return self.radius * self.points.n * float(np.linalg.norm(first_row))
