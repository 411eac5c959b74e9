r"""The sketched curve: columns of A in groups, the curve constant on each (paper, Section 5.2).

Partition the positions 0, …, n into groups g with r(j) the group of j, the first position alone in group 0, and let

.. math:: S_g = \sum_{j ∈ g} A_j \quad\text{(sum)} \qquad\text{or}\qquad
          S_g = |g|\, A_{medoid(g)} \quad\text{(representative)} .

Then :math:`e_j = z_{r(j)}` solves, with unsquared norms as in the published experiments,

.. math:: \min_z\ ‖Sz - b‖ + λ‖D_2 z‖, \qquad z_0 ≥ z_1 ≥ … ≥ 0 \text{ if monotone} .

Sums of adjacent columns are differences of the binomial distribution function, so S costs O(m·k) for any n. The
representative is multiplied by the size of its group, since it stands for all its columns, so that z_g keeps the
meaning of a loss.

**Theorem 5.2.** Let s be the first row of the pseudo-inverse of S, of full column rank, and b = Ae. The
least-squares solution has :math:`z_0 - e_0 = \sum_{j≥1} (s·A_j) e_j`, and :math:`s·S_g = 0` for every g ≥ 1, so
for decreasing e

.. math:: |z_0 - e_0| ≤ ε\,n\,‖s‖\,e_0, \qquad ε = \max_j ‖A_j - S_{r(j)}/|r(j)|\,‖ .

(With representatives, :math:`S_g/|g|` is the medoid itself, as in the paper.) The bound holds for the solution without
penalty and constraints.

**Partitions** of the positions 0, …, n into groups whose columns of A are alike.

The radius of a partition is ε = max_j ‖A_j - S_{r(j)}/|r(j)|‖. Its maximum over all n + 1 columns is taken over
a bounded number of them: all of them while they are few, otherwise those that matter. Columns vanish between the bells
of the rows and are smooth within them. So the maximum lies, to the precision of the grid, on a grid of points in the
window of each row, or at the edge of a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import clarkson_woodruff_transform
from scipy.spatial.distance import cdist

from outofcluster._base.arguments import Array, check_choice, check_flag, check_integer, check_number, short
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.seeds import seed_of
from outofcluster.curves.base import Curve, LinearSystem, Needs, Solution
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.paper.solvers import Shape, grid, minimise_trend
from outofcluster.curves.points import Points

# Levels times groups that S may have, which takes ten seconds or so; a sketch is of use with far fewer.
_MAX_ENTRIES = 4_000_000


@dataclass(eq=False, kw_only=True)
class SketchCurve(Curve):
    """Loss curve that is constant on groups of positions, at a cost that does not depend on n.

    Parameters
    ----------
    n_groups : int, default=7
        Number of groups, not counting the first position where that is a group of its own; at most 4,000,000
        divided by the number of levels.
    grouping : {"adjacent", "medoid"}, default="adjacent"
        Runs of adjacent positions of nearly equal length, or k-medoids of A's columns (which needs the extra
        ``medoids`` and an n of at most 5000).
    columns : {"sum", "representative"}, default="sum"
        What stands for a group: the sum of its columns, or its middle column or medoid times its size.
    penalty : float, default=0.1
        Weight of the second differences of the groups' losses; 0 for none.
    monotone : bool, default=True
        Whether the losses of successive groups must neither increase nor fall below 0.
    first_alone : bool, default=True
        Whether position 0 is a group of its own, as Theorem 5.2 requires. In the paper's figures it is not.
    row_sketch : int, optional
        Reduce the levels to this many rows by a Clarkson-Woodruff transform before solving.
    random_state : int, optional
        Seed of the row sketch.

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
    grouping: Literal["adjacent", "medoid"] = "adjacent"
    columns: Literal["sum", "representative"] = "sum"
    penalty: float = 0.1
    monotone: bool = True
    first_alone: bool = True
    row_sketch: int | None = None
    random_state: int | None = None

    @property
    def needs(self) -> Needs:
        """Losses that are not negative where ``monotone`` keeps the curve above 0."""
        return Needs(nonnegative=check_flag("monotone", self.monotone))

    @property
    def error_bound_(self) -> float:
        """Theorem 5.2's bound on the error of e_0 that comes from grouping."""
        factor = self.error_factor_
        return factor * abs(self.e0_) if math.isfinite(factor) else math.inf

    @property
    def error_factor_(self) -> float:
        """Theorem 5.2's bound relative to e_0."""
        return self._sketched().error_factor

    @property
    def groups_(self) -> Groups:
        """The partition of the positions."""
        return self._sketched().groups

    @property
    def sketch_(self) -> Array:
        """The matrix S."""
        return self._sketched().design

    def _sketched(self) -> SketchSolution:
        solution = self._fitted()
        assert isinstance(solution, SketchSolution)
        return solution

    def _solve(self, points: Points) -> SketchSolution:
        alone = check_flag("first_alone", self.first_alone)
        monotone = check_flag("monotone", self.monotone)
        check_choice("grouping", self.grouping, ("adjacent", "medoid"))
        check_choice("columns", self.columns, ("sum", "representative"))
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
        rows = None
        if self.row_sketch is not None:
            rows = check_integer("row_sketch", self.row_sketch, least=unknowns, most=len(points.p))
        operator = BinomialOperator(points.p, points.n)
        if self.grouping == "adjacent":
            groups = adjacent_groups(points.n, n_groups, alone)
        else:
            groups = medoid_groups(operator, n_groups, alone)
        design = groups.sums(operator) if self.columns == "sum" else groups.representatives(operator)
        levels, system = self._levels(points, design, penalty, monotone, rows)
        return SketchSolution(points, operator, groups, design, levels, system)

    def _levels(
        self, points: Points, design: Array, penalty: float, monotone: bool, rows: int | None
    ) -> tuple[Array, LinearSystem | None]:
        """The losses of the groups, and the linear system that they solve, or None where there is none."""
        S, b, weights = design, points.b, points.weights
        if rows is not None:
            both = np.column_stack([points.scaled(S), points.scaled(b)])
            # The third argument is called seed in older versions of scipy and rng in newer ones.
            both = clarkson_woodruff_transform(both, rows, np.random.default_rng(seed_of(self.random_state)))
            S, b, weights = both[:, :-1], both[:, -1], None
        if penalty == 0:
            system = LinearSystem.solve(points, design)
            if system.rank < design.shape[1]:
                raise InputError(
                    f"penalty must be above 0 for n = {points.n} and {design.shape[1]} groups, "
                    f"of which the levels determine {system.rank}, got 0."
                )
            if rows is None and not monotone:
                return system.solution, system
        order = min(2, design.shape[1] - 1)
        shape = Shape(monotone, monotone, False)
        return minimise_trend(grid(S, order), weights, b, penalty, shape, strong=False), None


@dataclass(frozen=True)
class SketchSolution(Solution):
    """A curve with one loss per group."""

    points: Points
    operator: BinomialOperator
    groups: Groups
    design: Array
    levels: Array
    system: LinearSystem | None

    @property
    def e0(self) -> float:
        """The loss of the first group."""
        return float(self.levels[0])

    @cached_property
    def fitted(self) -> Array:
        """S z."""
        return self.design @ self.levels

    @cached_property
    def condition(self) -> float:
        """Condition number of S."""
        return float(np.linalg.cond(self.points.scaled(self.design)))

    @property
    def linear(self) -> tuple[LinearSystem, Array] | None:
        """The system of a plain least-squares fit, whose first unknown is e_0, else None."""
        return None if self.system is None else (self.system, np.eye(1, len(self.levels))[0])

    def values(self, j: Any) -> Array:
        """The losses of the groups that the positions belong to."""
        losses: Array = self.levels[self.groups.of(j)]
        return losses

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
            return self.groups.radius(self.operator, self.design) * self.points.n * float(np.linalg.norm(first_row))


# Largest number of columns, whose distances then take 200 MB.
_MAX_MEDOID_SIZE = 5000

# Number of columns up to which the radius is taken over every one of them.
_ALL_COLUMNS = 20_000

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """A partition of 0, …, n.

    Attributes
    ----------
    sizes : array of int
        Number of positions in each group.
    representative : array of int
        The position that stands for each group: its middle, or its medoid.
    edges : array of int or None
        For groups of adjacent positions, where each of them starts, followed by n + 1.
    labels : array of int or None
        For other groups, the group of each position.
    first_alone : bool
        Whether position 0 is a group of its own.
    """

    sizes: Indices
    representative: Indices
    edges: Indices | None
    labels: Indices | None
    first_alone: bool

    def of(self, j: Any) -> Indices:
        """The groups of positions."""
        if self.labels is not None:
            members: Indices = self.labels[j]
            return members
        assert self.edges is not None
        return np.asarray(np.searchsorted(self.edges, j, side="right") - 1, dtype=np.int64)

    def sums(self, operator: BinomialOperator) -> Array:
        """Sum of A's columns in each group."""
        if self.edges is not None:
            return operator.range_sums(self.edges)
        one_hot = np.eye(len(self.sizes))[self.labels]
        return operator.matrix() @ one_hot

    def representatives(self, operator: BinomialOperator) -> Array:
        """The representative column of each group times the group's size."""
        return operator.columns(self.representative) * self.sizes

    def radius(self, operator: BinomialOperator, design: Array) -> float:
        """The largest distance of a column of A from that of its group, divided by the size of the group."""
        columns = np.arange(operator.n + 1)
        if operator.n > _ALL_COLUMNS:
            bells = operator.lattice()
            edges = np.array([0]) if self.edges is None else np.concatenate([self.edges[:-1], self.edges[1:] - 1])
            columns = np.unique(np.concatenate([bells, edges]))
        distance = operator.columns(columns) - (design / self.sizes)[:, self.of(columns)]
        return float(np.linalg.norm(distance, axis=0).max())


def adjacent_groups(n: int, n_groups: int, first_alone: bool) -> Groups:
    """Runs of adjacent positions of nearly equal size, after position 0 if that is alone."""
    start = int(first_alone)
    # Whole numbers throughout, so that the sizes differ by at most one for any n.
    cuts = [start + (n + 1 - start) * g // n_groups for g in range(n_groups + 1)]
    edges = np.array([0] * start + cuts, dtype=np.int64)
    return Groups(np.diff(edges), (edges[:-1] + edges[1:] - 1) // 2, edges, None, first_alone)


def medoid_groups(operator: BinomialOperator, n_groups: int, first_alone: bool) -> Groups:
    """Groups of similar columns by k-medoids (FasterPAM), in the order of their medoids."""
    if operator.n > _MAX_MEDOID_SIZE:
        raise InputError(
            f"n must be at most {_MAX_MEDOID_SIZE} for grouping='medoid', which compares all columns with each other, "
            f"got {operator.n}; use grouping='adjacent'."
        )
    try:
        import kmedoids
    except ImportError:
        raise MissingExtraError("grouping='medoid' needs kmedoids: pip install 'outofcluster[medoids]'.") from None
    start = int(first_alone)
    columns = operator.matrix().T[start:]
    # Started by BUILD, not at random: the same groups every time.
    clustering = kmedoids.fasterpam(cdist(columns, columns), n_groups, init="build", n_cpu=1)
    medoids = np.asarray(clustering.medoids, dtype=np.int64)
    order = np.argsort(medoids)
    rank = np.argsort(order)
    labels = rank[np.asarray(clustering.labels, dtype=np.int64)] + start
    if first_alone:
        labels = np.concatenate([[0], labels])
    representative = np.concatenate([np.zeros(start, dtype=np.int64), medoids[order] + start])
    return Groups(np.bincount(labels, minlength=n_groups + start), representative, None, labels, first_alone)
