r"""Trend filtering of coefficients under shape constraints, which the trend filter and the sketch both need.

.. math:: \min_c\ ‖Ac - b‖ + λ\,‖R c^{(k)}‖ ,

with c and its derivatives as in :mod:`.._representation`, under any of these constraints: c decreasing (c⁽¹⁾ ≤ 0), c
convex (c⁽²⁾ ≥ 0), c ≥ 0. There are three methods, and the first that converges gives the answer:

dense
    For equal steps and few unknowns. Without constraints the k-th differences are coordinates in which the
    penalty is the identity; if that curve violates the constraints, an active-set method takes over
    (:mod:`.active_set`).
direct
    A cone program in c. It is accurate where the penalty is weak; a strong one multiplies rounding errors by λh⁻ᵏ.
chained
    A cone program in c, c⁽¹⁾, …, c⁽ᵏ⁾, tied by the equations h⁽ⁱ⁾c⁽ⁱ⁺¹⁾ = Δc⁽ⁱ⁾, so that no power h⁻ᵏ appears.
    It is well conditioned however strong the penalty is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from outofcluster._base.exceptions import SolverError
from outofcluster._base.validation import Array
from outofcluster.curves._representation import Representation, differences
from outofcluster.curves._solvers.active_set import minimise_norms_bounded, minimise_norms_free
from outofcluster.curves._solvers.cone import minimise_norms_conic

__all__ = ["Shape", "minimise_trend"]

_MAX_ACTIVE_SET = 300
"""Number of unknowns up to which dense pivoting is faster than the cone solver."""

_RISE = 8.0
"""The unit of a derivative is 8 times that of the one before, about as much as the derivatives of a loss curve grow."""


@dataclass(frozen=True)
class Shape:
    """The constraints on a curve's coefficients."""

    monotone: bool
    nonnegative: bool
    convex: bool

    def holds(self, e: Array) -> bool:
        """Whether a curve on the grid meets the constraints."""
        slope = np.diff(e)
        return not (
            (self.monotone and slope.max() > 0)
            or (self.nonnegative and e.min() < 0)
            or (self.convex and np.diff(slope).min() < 0)
        )

    @property
    def bounds_suffice(self) -> bool:
        """Whether new coordinates make every constraint a bound: not for a convex curve above 0 that may rise."""
        return self.monotone or not (self.nonnegative and self.convex)


@dataclass(frozen=True)
class _Problem:
    representation: Representation
    design: Any
    b: Array
    penalty: float
    shape: Shape


def minimise_trend(
    representation: Representation, weights: Array | None, b: Array, penalty: float, shape: Shape, *, strong: bool
) -> Array:
    """Coefficients that minimise ‖√weights (Ac - b)‖ + penalty ‖R c⁽ᵏ⁾‖ under the shape.

    ``strong`` says which cone program to try first. Raises SolverError with every method's status if none converges.
    """
    problem = _Problem(representation, *_fewest_rows(representation.design, weights, b), penalty, shape)
    methods = [_chained, _direct] if strong else [_direct, _chained]
    if representation.equal_steps and isinstance(representation.design, np.ndarray):
        methods.insert(0, _dense)
    reasons = []
    for method in methods:
        try:
            return method(problem)
        except SolverError as error:
            reasons.append(str(error))
    raise SolverError(f"The trend filter did not converge: {' '.join(reasons)}")


def _fewest_rows(design: Any, weights: Array | None, b: Array) -> tuple[Any, Array]:
    """The weighted design and losses, rotated so that there are no more rows than unknowns plus one."""
    if weights is not None:
        design, b = sparse.diags(np.sqrt(weights)) @ design, np.sqrt(weights) * b
    m, size = design.shape
    if m <= size + 1:
        return design, b
    triangle: Array = np.asarray(np.linalg.qr(np.column_stack([design, b]), mode="r"))
    return triangle[:, :-1], triangle[:, -1]


def _dense(problem: _Problem) -> Array:
    design, b, penalty, shape = problem.design, problem.b, problem.penalty, problem.shape
    size, order = problem.representation.size, problem.representation.order
    e = _from_differences(minimise_norms_free(_in_differences(design, order), b, order, penalty), order)
    if shape.holds(e):
        return e
    if size > _MAX_ACTIVE_SET or not shape.bounds_suffice:
        raise SolverError("Too many unknowns or constraints for active sets.")
    # In differences of the constrained order, the constraints are bounds.
    constrained = 2 if shape.convex else 1 if shape.monotone else 0
    bounded = np.ones(size, dtype=bool)
    if constrained:
        bounded[-1] = shape.nonnegative
    if shape.convex:
        bounded[-2] = shape.monotone
    B = _in_differences(design, constrained)
    E = _in_differences(np.diff(np.eye(size), order, axis=0), constrained)
    start = _to_differences(e, constrained)
    return _from_differences(minimise_norms_bounded(B, b, E, penalty, bounded, start), constrained)


def _to_differences(e: Array, order: int) -> Array:
    """Differences e_j - e_{j+1} of an order, then the last one of each lower order, the last of all being e_n."""
    z = e.copy()
    for tail in range(len(e), len(e) - order, -1):
        z[: tail - 1] -= z[1:tail].copy()
    return z


def _from_differences(z: Array, order: int) -> Array:
    """The curve that has these differences: the inverse of ``_to_differences``."""
    e = z.copy()
    for tail in range(len(z) - order + 1, len(z) + 1):
        e[:tail] = np.cumsum(e[:tail][::-1])[::-1]
    return e


def _in_differences(matrix: Array, order: int) -> Array:
    """Turn a matrix that multiplies e into one that multiplies z: one cumulative sum along the rows per order."""
    for lower in range(order):
        tail = matrix.shape[1] - lower
        matrix = np.concatenate([np.cumsum(matrix[:, :tail], axis=1), matrix[:, tail:]], axis=1)
    return matrix


def _direct(problem: _Problem) -> Array:
    representation, shape = problem.representation, problem.shape
    size = representation.size
    none = sparse.csr_matrix((0, size))
    rows = [none]
    if shape.monotone:
        rows.append(-differences(size))
    if shape.convex:
        rows.append(representation.derivative(2) * float(np.mean(representation.steps[0]) ** 2))
    if shape.nonnegative:
        rows.append(_nonnegative_rows(size, shape))
    return minimise_norms_conic(
        sparse.csr_matrix(problem.design),
        problem.b,
        representation.root @ representation.derivative(representation.order),
        problem.penalty,
        sparse.vstack(rows),
        none,
    )


def _chained(problem: _Problem) -> Array:
    representation, shape = problem.representation, problem.shape
    order = representation.order
    sizes = [representation.size - i for i in range(order + 1)]
    starts = _starts(sizes)
    unit = _RISE / (representation.size * float(np.mean(representation.steps[0])))

    def place(i: int, block: Any) -> sparse.coo_matrix:
        """A block that multiplies c⁽ⁱ⁾, among the columns of all unknowns c⁽⁰⁾, …, c⁽ᵏ⁾."""
        entries = sparse.coo_matrix(block)
        return sparse.coo_matrix(
            (entries.data, (entries.row, entries.col + starts[i])), shape=(entries.shape[0], sum(sizes))
        )

    rows = [sparse.coo_matrix((0, sum(sizes)))]
    if shape.monotone:
        rows.append(place(1, -sparse.identity(sizes[1])))
    if shape.convex:
        rows.append(place(2, sparse.identity(sizes[2])))
    if shape.nonnegative:
        rows.append(place(0, _nonnegative_rows(sizes[0], shape)))
    unknowns = minimise_norms_conic(
        place(0, problem.design),
        problem.b,
        place(order, representation.root * unit**order),
        problem.penalty,
        sparse.vstack(rows),
        _ties(representation.steps, sizes, unit, np.sqrt(representation.size)),
    )
    return unknowns[: sizes[0]]


def _ties(steps: Sequence[Array], sizes: Sequence[int], unit: float, balance: float) -> sparse.coo_matrix:
    """The equations that tie each derivative to the differences of the one before.

    They are written entry by entry: putting sparse blocks together would take longer than the solver does, and
    intervals need hundreds of solutions.
    """
    own = np.concatenate([start + np.arange(len(step)) for start, step in zip(_starts(sizes), steps, strict=False)])
    place = np.arange(len(own))
    derivative = np.concatenate(
        [start + np.arange(len(step)) for start, step in zip(_starts(sizes)[1:], steps, strict=True)]
    )
    ones = np.full(len(own), balance)
    values = np.concatenate([-ones, ones, balance * (-unit * np.concatenate(steps))])
    columns = np.concatenate([own, own + 1, derivative])
    return sparse.coo_matrix((values, (np.tile(place, 3), columns)), shape=(len(own), sum(sizes)))


def _starts(sizes: Sequence[int]) -> list[int]:
    """Where each of several blocks of unknowns starts."""
    return [sum(sizes[:i]) for i in range(len(sizes))]


def _nonnegative_rows(size: int, shape: Shape) -> sparse.spmatrix:
    """The rows that pick all coefficients, or only the last one where the others cannot be smaller."""
    everywhere = sparse.identity(size, format="csr")
    return everywhere[-1:] if shape.monotone else everywhere
