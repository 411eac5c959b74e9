"""Independent versions of what the package computes, for tests and benchmarks: slow, plain, sharing no code with it."""

from __future__ import annotations

import warnings
from fractions import Fraction
from math import comb, perm
from typing import Any

import cvxpy as cp
import mpmath


def exact_pmf(j: int, n: int, p: Fraction) -> Fraction:
    """P(J = j) in rational arithmetic."""
    return comb(n, j) * p**j * (1 - p) ** (n - j)


def extrapolated(p: Any, b: Any, degree: int) -> float:
    """The least-squares polynomial at 0, in 80 digits."""
    mpmath.mp.dps = 80
    rows = mpmath.matrix([[mpmath.mpf(float(x)) ** k for k in range(degree + 1)] for x in p])
    right = mpmath.matrix([mpmath.mpf(float(x)) for x in b])
    return float(mpmath.lu_solve(rows.T * rows, rows.T * right)[0])


def exact_inverse(p: Any, b: Any, degree: int, n: int) -> list[float]:
    """e_j = Σ c_k j(j-1)…/n(n-1)… for the least-squares polynomial Σ c_k p^k, in rational arithmetic."""
    rows = [[Fraction(float(x)) ** k for k in range(degree + 1)] for x in p]
    right = [Fraction(float(x)) for x in b]
    size = degree + 1
    system = [
        [sum(row[i] * row[k] for row in rows) for k in range(size)]
        + [sum(row[i] * y for row, y in zip(rows, right, strict=True))]
        for i in range(size)
    ]
    for i in range(size):
        pivot = next(k for k in range(i, size) if system[k][i])
        system[i], system[pivot] = system[pivot], system[i]
        system[i] = [x / system[i][i] for x in system[i]]
        for k in range(size):
            if k != i:
                system[k] = [x - system[k][i] * y for x, y in zip(system[k], system[i], strict=True)]
    c = [row[-1] for row in system]
    return [float(sum(c[k] * Fraction(perm(j, k), perm(n, k)) for k in range(size))) for j in range(n + 1)]


def cvxpy_trend(A: Any, b: Any, order: int, penalty: float, monotone: bool) -> Any:
    """The paper's objective as one would write it."""
    x = cp.Variable(A.shape[1])
    rough = cp.diff(x, order)
    constraints = [x[:-1] >= x[1:], x[-1] >= 0] if monotone else []
    problem = cp.Problem(cp.Minimize(cp.norm(A @ x - b, 2) + penalty * cp.norm(rough, 2)), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver="CLARABEL")
        except cp.SolverError:
            return None
    return x.value


def cvxpy_chained(A: Any, b: Any, order: int, penalty: float) -> float:
    """e_0 of the full problem per unit of p: derivatives as unknowns, without which cvxpy fails at this penalty."""
    n = A.shape[1] - 1
    levels = [cp.Variable(n + 1 - i) for i in range(order + 1)]
    # The i-th unknown is the i-th derivative in units of 8^i.
    ties = [n**0.5 * (cp.diff(levels[i]) - 8 / n * levels[i + 1]) == 0 for i in range(order)]
    objective = cp.norm(A @ levels[0] - b, 2) + penalty * 8.0**order / n**0.5 * cp.norm(levels[-1], 2)
    problem = cp.Problem(cp.Minimize(objective), [*ties, levels[1] <= 0, levels[0][-1] >= 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(levels[0].value[0])
