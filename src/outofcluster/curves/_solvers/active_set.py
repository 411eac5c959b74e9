r"""Sum of two norms, without constraints or under sign constraints, for dense problems.

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
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from outofcluster._base.exceptions import SolverError
from outofcluster._base.validation import Array

__all__ = ["minimise_norms_bounded", "minimise_norms_free"]

_TARGET_GAP = 1e-10
_ACCEPTED_GAP = 1e-7
_MAX_PIVOTS = 50
_MAX_NEWTON = 40
_LOST = 1e-2
"""Gradient on the passive set, where it should be 0, from which the signs of z mean nothing, relative to that at 0."""
_LONGEST_STEP = 5.0
"""Longest step in log μ: Newton's steps are long where μd/r is nearly flat, which it is near its limits."""

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
        return mu * float(np.linalg.norm(s * shrunk)) - penalty * math.hypot(
            outside, mu * float(np.linalg.norm(shrunk))
        )

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
        wrong = np.where(passive, np.abs(solution.gradient * z), 0.0).sum() + np.abs(z).sum() * max(
            0.0, -float(solution.gradient[bounded & ~passive].min(initial=0.0))
        )
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
