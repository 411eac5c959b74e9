r"""The compiled fits: each model is solved to its optimum, so that the solver's parameters do not matter.

In the two classifiers z_i = y_i x̃_i, y_i = ±1, with x̃ the row extended by ``intercept_scaling`` where an intercept is
fitted. Newton's step is taken whole unless f rises steeply at its end, and otherwise as far as f falls.

*Squared hinge* (the linear support vector machine), whose intercept is penalised,

.. math:: f(w) = ½‖w‖^2 + C \sum_i \max(0, 1 - w^⊤z_i)^2 .

f is quadratic while the active set A = {i : wᵀz_i < 1} stays as it is, with the minimum H⁻¹b, H = I + 2C Σ_A z zᵀ and
b = 2C Σ_A z. Newton's method has found the minimum of f once the active set at the end of the step is the one it
started with. H and b are kept from step to step, and only the rows that enter or leave A are added or subtracted.

*Logistic regression* with an l2 penalty, whose intercept is not penalised and is extended by 1,

.. math:: f(w) = ½\sum_{j<d} w_j^2 + C \sum_i \log(1 + e^{-w^⊤z_i}) .

The second derivative of the logarithm changes by a factor of at most e^δ when a margin wᵀz_i changes by δ, so a step
p = -H⁻¹g that changes no margin by more than δ leaves one of about δ² to go. Where the previous step was small, its H
serves again, and leaves about the product of the two.

*Least squares* (ridge regression and linear regression), from the normal equations with the columns and the targets
centred where an intercept is fitted,

.. math:: (X^⊤X + αI) w = X^⊤y .

One step of refinement, with the residual formed from X and y rather than from XᵀX, takes off most of the error that the
squared condition number brings. A near singular matrix is left to a solver that can tell its rank.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outofcluster.sampling.kernels.algebra import (
    PADDING,
    add_outer,
    add_rows,
    by_columns,
    called,
    compiled,
    copy,
    factor,
    inlined,
    padded,
    products,
    set_diagonal,
    solve,
)
from outofcluster.sampling.kernels.replicate import gather_rows, score


class Solver(NamedTuple):
    """Buffers of a fit."""

    H: Any
    U: Any
    inverse: Any
    right: Any
    w: Any
    step: Any
    correction: Any
    margins: Any
    change: Any
    # Rows to add, with spare places at the end.
    picked: Any
    weights: Any
    # The drawn rows by columns.
    columns: Any
    active: Any


def make_solver(n: int, d: int) -> Solver:
    """Buffers for n rows of d columns and an intercept."""
    p = padded(d + 1)
    matrices, vectors, margins = np.zeros((2, p, p)), np.zeros((5, p)), np.zeros((2, n))
    lists = np.zeros(n + PADDING, np.int64), np.zeros(n + PADDING)
    rows = np.zeros((d + 1, n)), np.zeros(n, np.bool_)
    return Solver._make([*matrices, *vectors, *margins, *lists, *rows])


@called
def _sign_rows(rows: Any, targets: Any, q: int, d: int, constant: float, solver: Any) -> None:
    """Turn rows into their z, also by columns, and put the coefficients at 0."""
    n = targets.size
    for i in range(n):
        if q > d:
            rows[i, d] = constant
        sign = -1.0 if targets[i] == 0 else 1.0
        for j in range(q):
            rows[i, j] *= sign
        solver.picked[i] = i
    by_columns(rows, n, q, solver.columns)
    solver.w[:] = 0.0


_HINGE_STEPS = 40
# A step that changes no margin by more than this has arrived, though a row at the kink may still change sides.
_HINGE_SETTLED = 1e-11
# Fallback when the direct way takes too many steps: the number of stages, and the factor of C between them.
_STAGES, _STAGE = 8, 0.1
# Slope at the end of a step, relative to that at its start, from which the step is cut short.
_STEEP = 0.5
# Least pivot of the classifiers, relative to its diagonal entry.
_SINGULAR = 1e-15


@compiled
def run_squared_hinge(problem: Any, settings: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """Replicates of a block, by the squared hinge."""
    for k in range(out.losses.size):
        m = gather_rows(problem, settings, work, first + k, k, out)
        if m >= 0 and _fit_squared_hinge(work.rows, work.targets, work.mean.size, settings, solver):
            score(problem, settings, work, solver.w, k, out)


@inlined
def _fit_squared_hinge(rows: Any, targets: Any, d: int, settings: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``; the rows are overwritten by their z. False if it does not converge."""
    n, q = targets.size, d + 1 if settings.intercept else d
    _sign_rows(rows, targets, q, d, settings.intercept_scaling, solver)
    c = 2 * settings.strength
    if _hinge_newton(rows, n, q, c, solver):
        return True
    # Classes that can be separated, and a large C, leave few rows active and long steps: C is then raised in stages.
    solver.w[:] = 0.0
    for k in range(_STAGES, 0, -1):
        _hinge_newton(rows, n, q, c * _STAGE**k, solver)
    return _hinge_newton(rows, n, q, c, solver)


@called
def _hinge_newton(Z: Any, n: int, q: int, c: float, solver: Any) -> bool:
    w, v, m, change = solver.w, solver.step, solver.margins, solver.change
    products(solver.columns, q, w, 0.0, m)
    solver.active[:] = False
    for _ in range(_HINGE_STEPS):
        _change_active_set(Z, n, q, c, m, solver)
        if not factor(solver.H, q, solver.U, solver.inverse, _SINGULAR, 0.0):
            return False
        solve(solver.U, q, solver.inverse, solver.right, v)
        products(solver.columns, q, v, 0.0, change)
        largest, same = 0.0, True
        for i in range(n):
            same &= (change[i] < 1.0) == solver.active[i]
            change[i] -= m[i]
            largest = max(largest, abs(change[i]))
        if same or largest <= _HINGE_SETTLED:
            copy(v, w)
            return True
        if not largest < 1e300:
            return False
        for j in range(q):
            v[j] -= w[j]
        t = _step_length(m, change, w, v, q, c, True)
        for i in range(n):
            m[i] += t * change[i]
        for j in range(q):
            w[j] += t * v[j]
    return False


@called
def _step_length(m: Any, change: Any, w: Any, p: Any, penalised: int, c: float, hinge: bool) -> float:
    """The whole step, unless f rises steeply at its end: then where along it f is nearly level, by bisection."""
    linear, square = 0.0, 0.0
    for j in range(penalised):
        linear += w[j] * p[j]
        square += p[j] * p[j]
    left, right, t, start = 0.0, 1.0, 0.0, 0.0
    for k in range(60):
        slope = linear + t * square
        for i in range(m.size):
            margin = m[i] + t * change[i]
            slope -= c * change[i] * (max(0.0, 1.0 - margin) if hinge else 1.0 / (1.0 + np.exp(margin)))
        if k == 0:
            start, t = slope, 1.0
            continue
        if abs(slope) <= -_STEEP * start or (t == 1.0 and slope <= 0):
            break
        if slope < 0:
            left = t
        else:
            right = t
        t = (left + right) / 2
    return t


@inlined
def _change_active_set(Z: Any, n: int, q: int, c: float, m: Any, solver: Any) -> None:
    """Bring H and b to the active set of the margins, by its changes or, where they are many, from the start."""
    changed, size = 0, 0
    picked, weights = solver.picked, solver.weights
    for i in range(n):
        inside = m[i] < 1.0
        size += inside
        if inside != solver.active[i]:
            solver.active[i] = inside
            picked[changed] = i
            weights[changed] = c if inside else -c
            changed += 1
    if changed >= size:
        set_diagonal(solver.H, q, 1.0)
        solver.right[:] = 0.0
        changed = 0
        for i in range(n):
            if solver.active[i]:
                picked[changed] = i
                weights[changed] = c
                changed += 1
    add_outer(solver.H, q, Z, picked, weights, changed)
    add_rows(solver.right, Z, picked, weights, changed)


_LOGISTIC_STEPS = 100
# The change of the margins that is left to go when the iteration ends.
_LOGISTIC_SETTLED = 1e-10
# Largest change of a margin after which H serves again.
_SMALL = 3e-3


@compiled
def run_logistic(problem: Any, settings: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """Replicates of a block, by logistic regression."""
    for k in range(out.losses.size):
        m = gather_rows(problem, settings, work, first + k, k, out)
        if m >= 0 and _fit_logistic(work.rows, work.targets, work.mean.size, settings, solver):
            score(problem, settings, work, solver.w, k, out)


@inlined
def _fit_logistic(rows: Any, targets: Any, d: int, settings: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``; the rows are overwritten by their z. False if it does not converge."""
    n, q = targets.size, d + 1 if settings.intercept else d
    _sign_rows(rows, targets, q, d, settings.intercept_scaling, solver)
    return _logistic_newton(rows, n, d, q, settings.strength, solver)


@called
def _logistic_newton(Z: Any, n: int, d: int, q: int, c: float, solver: Any) -> bool:
    w, p, m, change, g = solver.w, solver.step, solver.margins, solver.change, solver.right
    products(solver.columns, q, w, 0.0, m)
    previous = np.inf
    for _ in range(_LOGISTIC_STEPS):
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
            add_outer(solver.H, q, Z, solver.picked, solver.weights, n)
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
            t = _step_length(m, change, w, p, d, c, False)
        for i in range(n):
            m[i] += t * change[i]
        for j in range(q):
            w[j] += t * p[j]
        if t == 1.0 and left <= _LOGISTIC_SETTLED:
            return True
        previous = largest if t == 1.0 else np.inf
    return False


# Least pivot, relative to its diagonal entry.
_NEAR_SINGULAR = 1e-11
# Least pivot, relative to the largest diagonal entry, without a penalty: scikit-learn then drops singular values below
# 1e-6 of the largest, and its answer is not that of the normal equations.
_RANK = 1e-9


@compiled
def run_least_squares(problem: Any, settings: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """Replicates of a block, by least squares."""
    for k in range(out.losses.size):
        m = gather_rows(problem, settings, work, first + k, k, out)
        if m >= 0 and _fit_least_squares(work.rows, work.targets, work.mean.size, settings, solver):
            score(problem, settings, work, solver.w, k, out)


@inlined
def _fit_least_squares(rows: Any, targets: Any, d: int, settings: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``, the intercept last; rows and targets are overwritten."""
    n = targets.size
    w, centre, g = solver.w, solver.step, solver.right
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
    add_outer(solver.H, d, rows, solver.picked, solver.weights, n)
    if not factor(solver.H, d, solver.U, solver.inverse, _NEAR_SINGULAR, 0.0 if settings.strength > 0 else _RANK):
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
