r"""The solvers of the trend filter and of the sketch: sums of two norms, by active sets or as cone programs.

**Dense problems**, without constraints or under sign constraints.

.. math:: \min_z\ ψ(z) = ‖Bz - b‖ + λ‖Ez‖ \quad\text{with } z_i ≥ 0 \text{ for the bounded } i .

For a fixed μ > 0 the squared problem :math:`\min ½‖Bz-b‖^2 + ½μ‖Ez‖^2`, z_i ≥ 0, is a non-negative least
squares with the matrix H = BᵀB + μEᵀE. Block principal pivoting (Júdice and Pires; Kim and Park) solves it:
guess the passive set, solve there, and swap all coordinates whose sign is wrong, with Murty's single swap as
the safeguard against cycling.

With r = ‖Bz-b‖ and d = ‖Ez‖ of its solution, ψ is minimal where μd/r = λ. Along the path, r is a convex
decreasing function of d with slope -μd/r, so μd/r increases in μ and a safeguarded Newton iteration in log μ
finds the root. (Not one of scipy's: the derivative is known, and each step costs a factorisation, so the iteration ends
as soon as the gap below is small enough.) The derivative comes from dz/dμ = -H⁻¹EᵀEz on the passive set.

Each μ also tells how far from optimal its z can be. With s = min(1/r, λ/(μd)), y = s(Bz-b) and w = sμEz are dual
feasible (‖y‖ ≤ 1, ‖w‖ ≤ λ, γ = Bᵀy + Eᵀw ≥ 0 on the bounded, = 0 on the free coordinates), so

.. math:: ψ(z) - ψ^* ≤ r(1 - sr) + d(λ - sμd) + z^⊤γ,

every term of which is non-negative and computed without cancellation. This holds in the limits as well: r = 0
(interpolation) and d = 0 (a polynomial), where Newton runs off to μ = 0 or ∞ and the gap closes on the way.

Without constraints, and with Ez the leading part u of z = (u, a), no iteration over z is needed. The
unpenalised a is projected out, M = (I - QQᵀ)B_u and c = (I - QQᵀ)b with Q an orthonormal basis of B_a, and the
singular values s of M = USVᵀ give, with β = Uᵀc, u(μ) = V s/(s²+μ) β in closed form, so that only the scalar
equation μd/r = λ is left.

**Linear constraints**, as a second-order cone program.

.. math:: \min_x\ ‖Ax - b‖ + λ‖Ex‖ \quad\text{with } Cx ≥ 0,\ Zx = 0,

written for Clarabel as min t₁ + t₂ with (t₁, Ax - b) and (t₂, λEx) in second-order cones. b is scaled to norm
1, so that the solver's tolerances are relative to it. The first run aims at 1e-10 in gap and feasibility. Where the
solver stalls on the way (typically because a norm is 0 at the minimum), a second run aims at 1e-8, which is cvxpy's
accuracy. If that one does not come below 1e-7 either, an error gives the solver's status.

**A curve is represented** by its values on the index grid, or by a spline. Either way there are coefficients c⁽⁰⁾, and
the coefficients of the i-th derivative follow by weighted differences,

.. math:: c^{(i+1)}_j = (c^{(i)}_{j+1} - c^{(i)}_j) / h^{(i)}_j ,

down to the order k of the filter, whose norm is ‖R c⁽ᵏ⁾‖.

grid
    c⁽⁰⁾ = (e_0, …, e_n), h = 1, R = I: derivatives are per index, ‖R c⁽ᵏ⁾‖ = ‖D_k e‖. Exact, with n + 1 unknowns.
spline
    Derivatives are per unit of p: e_j = f(j/n) with f a spline of degree k + 1 on equal pieces of [0, 1], in
    B-splines. Their derivative has the coefficients above with h = (t_{j+q+1} - t_{j+1}) / q, t the knots and q
    the degree; f⁽ᵏ⁾ is piecewise linear and R is the Cholesky factor of the Gram matrix of hat functions. Signs
    of c⁽¹⁾ and c⁽²⁾ carry over to f′ and f″ (variation diminishing), so a curve with decreasing coefficients
    decreases at every j. Its size does not depend on n, and fourth differences multiply rounding errors by
    (pieces)⁴ rather than n⁴.

The minimiser on the grid is smooth between levels, so a spline loses little: see the benchmark.

**Trend filtering** of such coefficients under shape constraints is what the trend filter and the sketch both need.

.. math:: \min_c\ ‖Ac - b‖ + λ\,‖R c^{(k)}‖ ,

under any of these constraints: c decreasing (c⁽¹⁾ ≤ 0), c
convex (c⁽²⁾ ≥ 0), c ≥ 0. There are three methods, and the first that converges gives the answer:

dense
    For equal steps and few unknowns. Without constraints the k-th differences are coordinates in which the
    penalty is the identity; if that curve violates the constraints, an active-set method takes over.
direct
    A cone program in c. It is accurate where the penalty is weak; a strong one multiplies rounding errors by λh⁻ᵏ.
chained
    A cone program in c, c⁽¹⁾, …, c⁽ᵏ⁾, tied by the equations h⁽ⁱ⁾c⁽ⁱ⁺¹⁾ = Δc⁽ⁱ⁾, so that no power h⁻ᵏ appears.
    It is well conditioned however strong the penalty is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import clarabel
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.interpolate import BSpline
from scipy.linalg import cholesky_banded
from scipy.optimize import brentq

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import SolverError
from outofcluster.curves.operator import BinomialOperator

_TARGET_GAP = 1e-10
_ACCEPTED_GAP = 1e-7
_MAX_PIVOTS = 50
_MAX_NEWTON = 40
# Gradient on the passive set, where it should be 0, from which the signs of z mean nothing, relative to that at 0.
_LOST = 1e-2
# Longest step in log μ: Newton's steps are long where μd/r is nearly flat, which it is near its limits.
_LONGEST_STEP = 5.0

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class _Squared:
    """Solution of the squared problem for one μ, with the inverse of H on its passive set."""

    z: Array
    gradient: Array
    passive: Mask
    inverse: Array

    def solve(self, right: Array) -> Array:
        """H⁻¹ on the passive set, 0 elsewhere."""
        full = np.zeros_like(right)
        full[self.passive] = self.inverse @ right[self.passive]
        return full


def minimise_norms_free(B: Array, b: Array, unpenalised: int, penalty: float) -> Array:
    """Minimise ‖Bz - b‖ + penalty ‖u‖ over z = (u, a), a the last ``unpenalised`` coordinates."""
    B_u, B_a = B[:, :-unpenalised], B[:, -unpenalised:]
    Q, R = np.linalg.qr(B_a)
    M, c = B_u - Q @ (Q.T @ B_u), b - Q @ (Q.T @ b)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    beta = U.T @ c
    outside = float(np.linalg.norm(c - U @ beta))

    def excess(log_mu: float) -> float:
        mu = math.exp(log_mu)
        shrunk = beta / (s**2 + mu)
        residual = math.hypot(outside, mu * float(np.linalg.norm(shrunk)))
        return mu * float(np.linalg.norm(s * shrunk)) - penalty * residual

    # Below the smallest singular value that differs from 0 the fit interpolates, above the largest it is a polynomial.
    u = np.zeros(B_u.shape[1])
    if s[0] > 1e-100:
        low, high = 2 * math.log(1e-15 * s[0]), 2 * math.log(1e8 * s[0])
        if excess(high) > 0:
            mu = math.exp(brentq(excess, low, high, xtol=1e-13) if excess(low) < 0 else low)
            u = Vt.T @ (s / (s**2 + mu) * beta)
    return np.concatenate([u, np.linalg.solve(R, Q.T @ (b - B_u @ u))])


def minimise_norms_bounded(B: Array, b: Array, E: Array, penalty: float, bounded: Mask, start: Array) -> Array:
    """Minimise ‖Bz - b‖ + penalty ‖Ez‖ with z ≥ 0 where bounded; SolverError if the gap does not close.

    ``start`` is a guess at z: its signs are the first passive set, its norms the first μ.
    """
    scale = float(np.linalg.norm(b))
    if scale == 0:
        return np.zeros_like(start)
    B_gram, E_gram, passive = B.T @ B, E.T @ E, ~bounded | (start > 0)
    if penalty == 0:
        return _squared(B, b, E, B_gram, 0.0, bounded, passive).z
    r, d = float(np.linalg.norm(B @ start - b)), float(np.linalg.norm(E @ start))
    log_mu = math.log(penalty * r / d) if r and d else 2 * math.log(penalty)
    low, high, previous = -math.inf, math.inf, math.inf
    best_gap, best = math.inf, start
    for _ in range(_MAX_NEWTON):
        mu = math.exp(log_mu)
        try:
            solution = _squared(B, b, E, B_gram + mu * E_gram, mu, bounded, passive)
        except SolverError:
            # On the way to μ = 0 or ∞ rounding wins in the end, often after the gap has closed.
            if best_gap <= _ACCEPTED_GAP:
                return best
            raise
        z, passive = solution.z, solution.passive
        r, d = float(np.linalg.norm(B @ z - b)), float(np.linalg.norm(E @ z))
        s = min(1 / r if r else math.inf, penalty / (mu * d) if d else math.inf)
        value = r + penalty * d
        if value <= 1e-13 * scale or math.isinf(s):
            return z
        pull = -float(solution.gradient[bounded & ~passive].min(initial=0.0))
        wrong = np.where(passive, np.abs(solution.gradient * z), 0.0).sum() + np.abs(z).sum() * pull
        gap = (r * (1 - s * r) + d * (penalty - s * mu * d) + s * wrong) / value
        if gap < best_gap:
            best_gap, best = gap, z
        if gap <= _TARGET_GAP or abs(log_mu - previous) < 1e-9:
            break
        previous = log_mu
        if r == 0 or d == 0:
            excess, slope = (math.inf if r == 0 else -math.inf), 1.0
        else:
            excess = math.log(mu * d / (r * penalty))
            change = E_gram @ z
            d_slope = float(change @ solution.solve(-change))  # d times its derivative in μ
            slope = 1 + mu * d_slope / d**2 + mu**2 * d_slope / r**2
        low, high = (low, log_mu) if excess > 0 else (log_mu, high)
        log_mu += min(max(-excess / max(slope, 1e-3), -_LONGEST_STEP), _LONGEST_STEP)
        if not low < log_mu < high:
            log_mu = (low + high) / 2
    if best_gap > _ACCEPTED_GAP:
        raise SolverError(f"The active-set method stopped at a relative gap of {best_gap:.1e}.")
    return best


def _squared(B: Array, b: Array, E: Array, H: Array, mu: float, bounded: Mask, passive: Mask) -> _Squared:
    """Non-negative least squares by block principal pivoting, started from a passive set."""
    right = B.T @ b
    fewest, patience = len(right) + 1, 3
    for _ in range(_MAX_PIVOTS):
        rows = np.flatnonzero(passive)
        try:
            # numpy's own solver throughout: calls that alternate between its threads and scipy's wait for each other.
            inverse = np.linalg.inv(H[np.ix_(rows, rows)])
        except np.linalg.LinAlgError:
            raise SolverError("The active-set method met a singular matrix.") from None
        solution = _Squared(np.zeros_like(right), -right, passive, inverse)
        # The gradient is formed from B and E, not from H, whose rounding errors are squared: two steps of refinement.
        for _ in range(3):
            z = solution.z - solution.solve(solution.gradient)
            gradient = B.T @ (B @ z - b) + mu * (E.T @ (E @ z))
            solution = _Squared(z, gradient, passive, inverse)
        if not np.abs(solution.gradient[passive]).max(initial=0.0) <= _LOST * np.abs(right).max():
            # Pivots by signs that are rounding errors nearly always go on to the last, at the cost of a fit each.
            raise SolverError("The active-set method met a matrix that is singular up to rounding.")
        negative = passive & bounded & (solution.z < -1e-13 * np.abs(solution.z).max())
        pulling = ~passive & (solution.gradient < -1e-12 * np.abs(right).max())
        wrong = negative | pulling
        count = int(wrong.sum())
        if count == 0:
            return solution
        if count < fewest:
            fewest, patience = count, 3
        elif patience:
            patience -= 1
        else:
            wrong[: np.flatnonzero(wrong)[-1]] = False
        passive = passive ^ wrong
    raise SolverError(f"The active-set method did not settle in {_MAX_PIVOTS} pivots.")


_AIMED, _ACCEPTED = (1e-10, 1e-8), 1e-7


def minimise_norms_conic(
    A: sparse.spmatrix, b: Array, E: sparse.spmatrix, penalty: float, C: sparse.spmatrix, Z: sparse.spmatrix
) -> Array:
    """Minimise ‖Ax - b‖ + penalty ‖Ex‖ with Cx ≥ 0 and Zx = 0; SolverError if Clarabel does not converge."""
    scale = float(np.linalg.norm(b))
    width = A.shape[1]
    if scale == 0:
        return np.zeros(width)
    # The unknowns are x, t₁ and t₂; each norm starts with a row of its own.
    first, second = sparse.coo_matrix([[-1.0, 0.0]]), sparse.coo_matrix([[0.0, -1.0]])
    blocks = [[Z, None], [-C, None], [None, first], [-A, None], [None, second], [-penalty * E, None]]
    constraints = sparse.bmat(blocks, format="csc")
    right = np.zeros(constraints.shape[0])
    start = Z.shape[0] + C.shape[0] + 1
    right[start : start + len(b)] = -b / scale
    objective = np.zeros(width + 2)
    objective[-2:] = 1
    norms = [clarabel.SecondOrderConeT(1 + matrix.shape[0]) for matrix in (A, E)]
    cones = [clarabel.ZeroConeT(Z.shape[0]), clarabel.NonnegativeConeT(C.shape[0]), *norms]
    quadratic = sparse.csc_matrix((width + 2, width + 2))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    # What Clarabel calls "almost solved".
    settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = _ACCEPTED
    for aim in _AIMED:
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = aim
        solution = clarabel.DefaultSolver(quadratic, objective, constraints, right, cones, settings).solve()
        if solution.status in (clarabel.SolverStatus.Solved, clarabel.SolverStatus.AlmostSolved):
            return scale * np.asarray(solution.x[:width])
    raise SolverError(
        f"Clarabel did not converge: status {solution.status} after {solution.iterations} iterations, "
        f"residuals {solution.r_prim:.1e} and {solution.r_dual:.1e}."
    )


@dataclass(frozen=True)
class Representation:
    """How coefficients make a curve: its losses, derivatives and values."""

    # The losses A e as a linear function of the coefficients: a dense or sparse matrix with one row per level.
    design: Any
    # The h⁽ⁱ⁾, i = 0, …, order - 1.
    steps: tuple[Array, ...]
    # R, with ‖f⁽ᵏ⁾‖ = ‖R c⁽ᵏ⁾‖.
    root: sparse.spmatrix
    # Knots of the spline; None on the grid.
    knots: Array | None

    @property
    def size(self) -> int:
        """Number of coefficients."""
        return int(self.design.shape[1])

    @property
    def order(self) -> int:
        """Order k of the penalised derivative."""
        return len(self.steps)

    @property
    def roughness(self) -> sparse.spmatrix:
        """The matrix that takes c⁽⁰⁾ to R c⁽ᵏ⁾."""
        return self.root @ self.derivative(self.order)

    def derivative(self, order: int) -> sparse.spmatrix:
        """The matrix that takes c⁽⁰⁾ to c⁽ᵒʳᵈᵉʳ⁾."""
        matrix = sparse.identity(self.size, format="csr")
        for step in self.steps[:order]:
            matrix = sparse.diags(1 / step) @ differences(len(step) + 1) @ matrix
        return matrix

    def values(self, coefficients: Array, j: Any, n: int) -> Array:
        """The curve e_j."""
        if self.knots is None:
            return np.asarray(coefficients[j])
        return np.asarray(BSpline(self.knots, coefficients, self.order + 1)(np.asarray(j) / n))


def grid(design: Any, order: int) -> Representation:
    """The curve by its values, one for each column of the design."""
    size = design.shape[1]
    steps = tuple(np.ones(size - 1 - i) for i in range(order))
    return Representation(design, steps, sparse.identity(size - order, format="csr"), None)


def spline(operator: BinomialOperator, order: int, pieces: int) -> Representation:
    """The curve as a spline of degree order + 1 on equal pieces."""
    degree = order + 1
    breaks = np.linspace(0, 1, pieces + 1)
    knots = np.concatenate([np.zeros(degree), breaks, np.ones(degree)])
    design = operator.expect(lambda x: BSpline.design_matrix(x, knots, degree))
    steps = []
    for i in range(order):
        q, inner = degree - i, knots[i : len(knots) - i]
        steps.append((inner[q + 1 : -1] - inner[1 : -q - 1]) / q)
    # Gram matrix of the hat functions: they overlap by h/6, and have norm² h/3 for each piece they stand on.
    diagonal = np.full(pieces + 1, 2 / 3 / pieces)
    diagonal[[0, -1]] /= 2
    beside = np.full(pieces, 1 / 6 / pieces)
    factor = cholesky_banded(np.stack([np.append(0, beside), diagonal]))
    root = sparse.diags([factor[1], factor[0, 1:]], [0, 1], format="csr")
    return Representation(design, tuple(steps), root, knots)


def differences(size: int) -> sparse.spmatrix:
    """Forward differences of a vector, as a matrix."""
    return sparse.diags([-np.ones(size - 1), np.ones(size - 1)], [0, 1], shape=(size - 1, size), format="csr")


# Number of unknowns up to which dense pivoting is faster than the cone solver.
_MAX_ACTIVE_SET = 300

# The unit of a derivative is 8 times that of the one before, about as much as the derivatives of a loss curve grow.
_RISE = 8.0


@dataclass(frozen=True)
class Shape:
    """The constraints on a curve's coefficients."""

    monotone: bool
    nonnegative: bool
    convex: bool

    @property
    def signs(self) -> list[tuple[int, float]]:
        """The orders of the derivatives that have a sign, and their signs."""
        constraints = ((self.monotone, 1, -1.0), (self.convex, 2, 1.0), (self.nonnegative, 0, 1.0))
        return [(order, sign) for holds, order, sign in constraints if holds]

    def holds(self, e: Array) -> bool:
        """Whether a curve on the grid meets the constraints."""
        return not any((sign * np.diff(e, order) < 0).any() for order, sign in self.signs)

    def rows(self, derivative: Callable[[int], sparse.csr_matrix]) -> list[sparse.csr_matrix]:
        """Rows that must not be negative, made of the matrices that give the derivatives."""
        # Of a curve that decreases only the last value has to be compared with 0.
        last = slice(-1, None) if self.monotone else slice(None)
        return [sign * (derivative(order) if order else derivative(0)[last]) for order, sign in self.signs]


def minimise_trend(
    representation: Representation, weights: Array | None, b: Array, penalty: float, shape: Shape, *, strong: bool
) -> Array:
    """Coefficients that minimise ‖√weights (Ac - b)‖ + penalty ‖R c⁽ᵏ⁾‖ under the shape.

    ``strong`` says which cone program to try first. Raises SolverError with every method's status if none converges.
    """
    design = representation.design
    if weights is not None:
        design, b = sparse.diags(np.sqrt(weights)) @ design, np.sqrt(weights) * b
    if design.shape[0] > design.shape[1] + 1:
        # Rotated so that there are no more rows than unknowns plus one.
        triangle = np.asarray(np.linalg.qr(np.column_stack([design, b]), mode="r"))
        design, b = triangle[:, :-1], triangle[:, -1]
    reduced = replace(representation, design=design)
    methods = [_chained, _direct] if strong else [_direct, _chained]
    # Derivatives are plain differences on the grid, which has no knots.
    if representation.knots is None and isinstance(representation.design, np.ndarray):
        methods.insert(0, _dense)
    reasons = []
    for method in methods:
        try:
            return method(reduced, b, penalty, shape)
        except SolverError as error:
            reasons.append(str(error))
    raise SolverError(f"The trend filter did not converge: {' '.join(reasons)}")


def _dense(representation: Representation, b: Array, penalty: float, shape: Shape) -> Array:
    design, size, order = representation.design, representation.size, representation.order
    e = _from_differences(minimise_norms_free(_in_differences(design, order), b, order, penalty), order)
    if shape.holds(e):
        return e
    # No coordinates make every constraint of a convex curve above 0 that may rise a bound.
    if size > _MAX_ACTIVE_SET or (shape.nonnegative and shape.convex and not shape.monotone):
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


def _direct(representation: Representation, b: Array, penalty: float, shape: Shape) -> Array:
    size, step = representation.size, float(np.mean(representation.steps[0]))

    def derivative(order: int) -> sparse.csr_matrix:
        return differences(size) if order == 1 else representation.derivative(order) * step**order

    none = sparse.csr_matrix((0, size))
    rows = sparse.vstack([none, *shape.rows(derivative)])
    design = sparse.csr_matrix(representation.design)
    return minimise_norms_conic(design, b, representation.roughness, penalty, rows, none)


def _chained(representation: Representation, b: Array, penalty: float, shape: Shape) -> Array:
    order = representation.order
    sizes = [representation.size - i for i in range(order + 1)]
    # Where each block of unknowns starts, and where the last one ends.
    *starts, width = accumulate(sizes, initial=0)
    unit = _RISE / (representation.size * float(np.mean(representation.steps[0])))

    def place(i: int, block: Any) -> sparse.coo_matrix:
        """A block that multiplies c⁽ⁱ⁾, among the columns of all unknowns c⁽⁰⁾, …, c⁽ᵏ⁾."""
        entries = sparse.coo_matrix(block)
        return sparse.coo_matrix((entries.data, (entries.row, entries.col + starts[i])), (entries.shape[0], width))

    none = sparse.csr_matrix((0, width))
    rows = sparse.vstack([none, *shape.rows(lambda i: place(i, sparse.identity(sizes[i])).tocsr())])
    balance = np.sqrt(representation.size)
    ties = sparse.vstack(
        [
            balance * (place(i, differences(sizes[i])) - place(i + 1, sparse.diags(unit * step)))
            for i, step in enumerate(representation.steps)
        ]
    )
    root = place(order, representation.root * unit**order)
    unknowns = minimise_norms_conic(place(0, representation.design), b, root, penalty, rows, ties)
    return unknowns[: sizes[0]]
