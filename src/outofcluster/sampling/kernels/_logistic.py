r"""Logistic regression with an l2 penalty, solved to its optimum.

With z_i = y_i x̃_i, y_i = ±1, and x̃ the row extended by 1 where an intercept is fitted, which is not penalised,

.. math:: f(w) = ½\sum_{j<d} w_j^2 + C \sum_i \log(1 + e^{-w^⊤z_i}) .

Newton's step p = -H⁻¹g is taken whole unless f rises steeply at its end, and otherwise as far as f falls. The second
derivative of the logarithm changes by a factor of at most e^δ when a margin wᵀz_i changes by δ, so a step that changes
no margin by more than δ leaves one of about δ² to go. Where the previous step was small, its H serves again, and leaves
about the product of the two.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster.sampling.kernels._algebra import (
    add_outer,
    add_rows,
    by_columns,
    factor,
    products,
    set_diagonal,
    solve,
)
from outofcluster.sampling.kernels._compile import called, compiled, inlined
from outofcluster.sampling.kernels._replicate import gather_validation, publish, sample, score, standardise

_MAX_STEPS = 100
_SETTLED = 1e-10
"""The change of the margins that is left to go when the iteration ends."""
_SMALL = 3e-3
_STEEP = 0.5
_SINGULAR = 1e-15


@compiled
def run_logistic(problem: Any, settings: Any, start: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """The replicates of a block."""
    gather_validation(problem, work)
    for k in range(out.losses.size):
        m, out.redraws[k] = sample(problem, settings, work, first + k)
        if m < 0:
            continue
        standardise(settings, work)
        if _fit(work.rows, work.targets, work.mean.size, settings, start, solver):
            publish(work, solver.w, solver.w[work.mean.size] if settings.intercept else 0.0)
            score(problem, settings, work, m, k, out)


@inlined
def _fit(rows: Any, targets: Any, d: int, settings: Any, start: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``; the rows are overwritten by their z. False if it does not converge."""
    n = targets.size
    q = d + 1 if settings.intercept else d
    for i in range(n):
        if settings.intercept:
            rows[i, d] = 1.0
        sign = -1.0 if targets[i] == 0 else 1.0
        for j in range(q):
            rows[i, j] *= sign
        solver.picked[i] = i
    by_columns(rows, n, q, solver.columns)
    w = solver.w
    w[:] = 0.0
    for j in range(q):
        w[j] = start[j]
    if _newton(rows, n, d, q, settings.strength, solver):
        return True
    w[:] = 0.0
    return _newton(rows, n, d, q, settings.strength, solver)


@called
def _newton(Z: Any, n: int, d: int, q: int, c: float, solver: Any) -> bool:
    w, p, m, change, g = solver.w, solver.step, solver.margins, solver.change, solver.right
    products(solver.columns, q, w, 0.0, m)
    previous = np.inf
    for _ in range(_MAX_STEPS):
        for i in range(n):
            solver.weights[i] = c / (1.0 + np.exp(m[i]))
        # g is minus the gradient.
        g[:] = 0.0
        for j in range(d):
            g[j] = -w[j]
        add_rows(g, Z, solver.picked, solver.weights, n)
        if previous > _SMALL:
            for i in range(n):
                r = solver.weights[i]
                solver.weights[i] = r * (1.0 - r / c)
            set_diagonal(solver.H, d, 1.0)
            add_outer(solver.H, q, Z, solver.picked, solver.weights, n, solver.weighted)
            if not factor(solver.H, q, solver.U, solver.inverse, _SINGULAR, 0.0):
                return False
        solve(solver.U, q, solver.inverse, g, p)
        products(solver.columns, q, p, 0.0, change)
        largest = 0.0
        for i in range(n):
            largest = max(largest, abs(change[i]))
        if not largest < 1e300:
            return False
        left = largest * (largest if previous > _SMALL else max(previous, largest))
        t = 1.0
        if largest > 0.1:
            t = _search(m, change, n, c, w, p, d, g, q)
        for i in range(n):
            m[i] += t * change[i]
        for j in range(q):
            w[j] += t * p[j]
        if t == 1.0 and left <= _SETTLED:
            return True
        previous = largest if t == 1.0 else np.inf
    return False


@called
def _search(m: Any, change: Any, n: int, c: float, w: Any, p: Any, d: int, g: Any, q: int) -> float:
    """The whole step, unless f rises steeply at its end: then where along it f is nearly level, by bisection."""
    start, linear, square = 0.0, 0.0, 0.0
    for j in range(q):
        start += g[j] * p[j]
    for j in range(d):
        linear += w[j] * p[j]
        square += p[j] * p[j]
    left, right, t = 0.0, 1.0, 1.0
    for _ in range(60):
        slope = linear + t * square
        for i in range(n):
            slope -= c * change[i] / (1.0 + np.exp(m[i] + t * change[i]))
        if abs(slope) <= _STEEP * start or (t == 1.0 and slope <= 0):
            break
        if slope < 0:
            left = t
        else:
            right = t
        t = (left + right) / 2
    return t
