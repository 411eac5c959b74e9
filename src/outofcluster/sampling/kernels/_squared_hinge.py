r"""Linear support vector machine with the squared hinge, solved to its optimum.

With z_i = y_i x̃_i, y_i = ±1, and x̃ the row extended by ``intercept_scaling`` where an intercept is fitted,

.. math:: f(w) = ½‖w‖^2 + C \sum_i \max(0, 1 - w^⊤z_i)^2 .

f is quadratic while the active set A = {i : wᵀz_i < 1} stays as it is, with the minimum H⁻¹b, H = I + 2C Σ_A z zᵀ and
b = 2C Σ_A z. Newton's method goes there, or, if f rises steeply at the end of the step, as far as f falls; it has found
the minimum of f once the active set at the end of the step is the one it started with. H and b are kept from step to
step, and only the rows that enter or leave A are added or subtracted.
"""

from __future__ import annotations

from typing import Any

from outofcluster.sampling.kernels._algebra import (
    add_outer,
    add_rows,
    by_columns,
    copy,
    factor,
    products,
    set_diagonal,
    solve,
)
from outofcluster.sampling.kernels._compile import called, compiled, inlined
from outofcluster.sampling.kernels._replicate import gather_validation, publish, sample, score, standardise

_MAX_STEPS = 40
_SETTLED = 1e-11
"""A step that changes no margin by more than this has arrived, though a row at the kink may still change sides."""
_STEEP = 0.5
_STAGES = 8
_STAGE = 0.1
"""Fallback when the direct way takes too many steps: the number of stages, and the factor of C between them."""
_SINGULAR = 1e-15


@compiled
def run_squared_hinge(problem: Any, settings: Any, start: Any, first: int, work: Any, solver: Any, out: Any) -> None:
    """The replicates of a block."""
    gather_validation(problem, work)
    for k in range(out.losses.size):
        m, out.redraws[k] = sample(problem, settings, work, first + k)
        if m < 0:
            continue
        standardise(settings, work)
        if _fit(work.rows, work.targets, work.mean.size, settings, start, solver):
            d = work.mean.size
            publish(work, solver.w, solver.w[d] * settings.intercept_scaling if settings.intercept else 0.0)
            score(problem, settings, work, m, k, out)


@inlined
def _fit(rows: Any, targets: Any, d: int, settings: Any, start: Any, solver: Any) -> bool:
    """Leave the coefficients in ``solver.w``; the rows are overwritten by their z. False if it does not converge."""
    n = targets.size
    q = d + 1 if settings.intercept else d
    for i in range(n):
        if settings.intercept:
            rows[i, d] = settings.intercept_scaling
        sign = -1.0 if targets[i] == 0 else 1.0
        for j in range(q):
            rows[i, j] *= sign
    by_columns(rows, n, q, solver.columns)
    w = solver.w
    w[:] = 0.0
    for j in range(q):
        w[j] = start[j]
    c = 2 * settings.strength
    if _newton(rows, n, q, c, solver):
        return True
    # Classes that can be separated, and a large C, leave few rows active and long steps: C is then raised in stages.
    w[:] = 0.0
    for k in range(_STAGES, 0, -1):
        _newton(rows, n, q, c * _STAGE**k, solver)
    return _newton(rows, n, q, c, solver)


@called
def _newton(Z: Any, n: int, q: int, c: float, solver: Any) -> bool:
    w, v, m, change = solver.w, solver.step, solver.margins, solver.change
    products(solver.columns, q, w, 0.0, m)
    for i in range(n):
        solver.active[i] = False
    for _ in range(_MAX_STEPS):
        _change_active_set(Z, n, q, c, m, solver)
        if not factor(solver.H, q, solver.U, solver.inverse, _SINGULAR, 0.0):
            return False
        solve(solver.U, q, solver.inverse, solver.right, v)
        products(solver.columns, q, v, 0.0, change)
        largest, same = 0.0, True
        slope0, slope1 = 0.0, 0.0
        for i in range(n):
            end = change[i]
            same &= (end < 1.0) == solver.active[i]
            step = end - m[i]
            change[i] = step
            largest = max(largest, abs(step))
            slope0 -= max(0.0, 1.0 - m[i]) * step
            slope1 -= max(0.0, 1.0 - end) * step
        if same or largest <= _SETTLED:
            copy(v, w)
            return True
        if not largest < 1e300:
            return False
        linear, square = 0.0, 0.0
        for j in range(q):
            step = v[j] - w[j]
            linear += w[j] * step
            square += step * step
        slope0 = linear + c * slope0
        slope1 = linear + square + c * slope1
        if slope1 <= -_STEEP * slope0:
            for i in range(n):
                m[i] += change[i]
            copy(v, w)
        else:
            t = _search(m, change, n, c, linear, square, slope0, slope1)
            for i in range(n):
                m[i] += t * change[i]
            for j in range(q):
                w[j] += t * (v[j] - w[j])
    return False


@called
def _search(m: Any, change: Any, n: int, c: float, linear: float, square: float, low: float, high: float) -> float:
    """Where along the step f is nearly level: its slope is increasing and piecewise linear, and has opposite signs."""
    target = -0.1 * low
    left, right = 0.0, 1.0
    for k in range(60):
        t = left - low * (right - left) / (high - low) if k % 2 == 0 else (left + right) / 2
        slope = linear + t * square
        for i in range(n):
            slope -= c * max(0.0, 1.0 - m[i] - t * change[i]) * change[i]
        if abs(slope) <= target:
            break
        if slope < 0:
            left, low = t, slope
        else:
            right, high = t, slope
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
    add_outer(solver.H, q, Z, picked, weights, changed, solver.weighted)
    add_rows(solver.right, Z, picked, weights, changed)
