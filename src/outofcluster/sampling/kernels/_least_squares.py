r"""Ridge regression, linear regression and the ridge classifier, from the normal equations.

With the columns and the targets centred where an intercept is fitted,

.. math:: (X^⊤X + αI) w = X^⊤y .

One step of refinement, with the residual formed from X and y rather than from XᵀX, takes off most of the error that the
squared condition number brings. A near singular matrix is left to a solver that can tell its rank.
"""

from __future__ import annotations

from typing import Any

from outofcluster.sampling.kernels._algebra import (
    add_outer,
    add_rows,
    by_columns,
    factor,
    products,
    set_diagonal,
    solve,
)
from outofcluster.sampling.kernels._compile import compiled, inlined
from outofcluster.sampling.kernels._replicate import gather_validation, publish, sample, score, standardise

_SINGULAR = 1e-11
"""Least pivot, relative to its diagonal entry."""
_RANK = 1e-9
"""Least pivot, relative to the largest diagonal entry, without a penalty: scikit-learn then drops singular values below
1e-6 of the largest, and its answer is not that of the normal equations."""


@compiled
def run_least_squares(problem: Any, settings: Any, start: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """The replicates of a block."""
    gather_validation(problem, work)
    for k in range(out.losses.size):
        m, out.redraws[k] = sample(problem, settings, work, first + k)
        if m < 0:
            continue
        standardise(settings, work)
        if _fit(work.rows, work.targets, work.mean.size, settings, start, solver):
            publish(work, solver.w, solver.w[work.mean.size])
            score(problem, settings, work, m, k, out)


@inlined
def _fit(rows: Any, targets: Any, d: int, settings: Any, start: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``, the intercept last; rows and targets are overwritten."""
    n = targets.size
    w, centre, g = solver.w, solver.step, solver.right
    if settings.classifier:
        for i in range(n):
            targets[i] = 1.0 if targets[i] > 0 else -1.0
    centre[:] = 0.0
    middle = 0.0
    if settings.intercept:
        for i in range(n):
            middle += targets[i]
            for j in range(d):
                centre[j] += rows[i, j]
        middle /= n
        for j in range(d):
            centre[j] /= n
        for i in range(n):
            targets[i] -= middle
            for j in range(d):
                rows[i, j] -= centre[j]
    for i in range(n):
        solver.picked[i] = i
        solver.weights[i] = 1.0
    set_diagonal(solver.H, d, settings.strength)
    add_outer(solver.H, d, rows, solver.picked, solver.weights, n, solver.weighted)
    if not factor(solver.H, d, solver.U, solver.inverse, _SINGULAR, _RANK if settings.exact else 0.0):
        return False
    g[:] = 0.0
    for i in range(n):
        solver.weights[i] = targets[i]
    add_rows(g, rows, solver.picked, solver.weights, n)
    solve(solver.U, d, solver.inverse, g, w)
    by_columns(rows, n, d, solver.columns)
    products(solver.columns, d, w, 0.0, solver.margins)
    for i in range(n):
        solver.weights[i] = targets[i] - solver.margins[i]
    for j in range(d):
        g[j] = -settings.strength * w[j]
    add_rows(g, rows, solver.picked, solver.weights, n)
    solve(solver.U, d, solver.inverse, g, solver.correction)
    intercept = middle
    for j in range(d):
        w[j] += solver.correction[j]
        intercept -= centre[j] * w[j]
    w[d] = intercept
    return True
