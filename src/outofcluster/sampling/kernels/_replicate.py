r"""What surrounds a fit: the draw and the gathering of its rows before, the scores and sums of a replicate after.

With ℓ_v the loss of record v, t the mean of ℓ over the records V' of V that were not drawn, M the number of draws from
a pool and N those of records of unit c, the sums over replicates are, for each unit, of

.. math:: N,\ Nt,\ N^2,\ N^2t,\ N^2t^2,\ NM,\ NMt,\ NMt^2,

and in V also, with :math:`E = \sum_{v ∈ c ∩ V'} (ℓ_v - t)/|V'|`, of :math:`E, E^2, NE, NEt, ME, MEt`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster.sampling.kernels._algebra import products
from outofcluster.sampling.kernels._compile import called, inlined
from outofcluster.sampling.kernels._compiled_draw import draw
from outofcluster.sampling.kernels._draw import MAX_ATTEMPTS

_EPS = float(np.finfo(float).eps)


@inlined
def gather_validation(problem: Any, work: Any) -> None:
    """Copy V by columns, so that a score of all its records is a sum of columns."""
    d, n_V = work.v_columns.shape
    for v in range(n_V):
        row = problem.X[problem.validation[v]]
        for j in range(d):
            work.v_columns[j, v] = row[j]
        work.v_targets[v] = problem.y[problem.validation[v]]


@inlined
def sample(problem: Any, settings: Any, work: Any, replicate: int) -> tuple[int, int]:
    """Draw until the draw can be used, and gather its rows; where there is no pool, the rows are there already.

    Returns the number of draws from V, or -1 if none of the attempts can be used, and the number of rejected draws.
    """
    n, n_T, n_V = work.t_drawn.size, problem.train.size, problem.validation.size
    if n_T + n_V == 0:
        return 0, 0
    for attempt in range(MAX_ATTEMPTS):
        m = draw(
            problem.key,
            problem.level,
            replicate,
            attempt,
            problem.injected,
            n_T,
            n_V,
            problem.replace,
            work.uniforms,
            work.orders,
            work.swaps,
            work.t_drawn,
            work.v_drawn,
        )
        work.v_counts[:] = 0
        for k in range(m):
            work.v_counts[work.v_drawn[k]] += 1
        if not _leaves_one(work.v_counts, m):
            continue
        ones = 0.0
        for k in range(n - m):
            work.targets[k] = problem.y[problem.train[work.t_drawn[k]]]
            ones += work.targets[k]
        for k in range(m):
            work.targets[n - m + k] = problem.y[problem.validation[work.v_drawn[k]]]
            ones += work.targets[n - m + k]
        if settings.classifier and (ones == 0 or ones == n):
            continue
        _gather(problem.X, problem.train, work.t_drawn[: n - m], work.rows[: n - m], work.mean.size)
        _gather(problem.X, problem.validation, work.v_drawn[:m], work.rows[n - m :], work.mean.size)
        return m, attempt
    return -1, MAX_ATTEMPTS


@called
def _gather(X: Any, pool: Any, drawn: Any, rows: Any, d: int) -> None:
    """Copy the drawn records of a pool."""
    for k in range(drawn.size):
        record = pool[drawn[k]]
        for j in range(d):
            rows[k, j] = X[record, j]


@called
def _leaves_one(counts: Any, m: int) -> bool:
    """Whether a record of V is left to validate on."""
    if m < counts.size:
        return True
    left = 0
    for v in range(counts.size):
        left += counts[v] == 0
    return left > 0


@inlined
def standardise(settings: Any, work: Any) -> None:
    """Centre and scale the rows as StandardScaler does; a column that cannot be told from a constant has scale 1."""
    if not (settings.with_mean or settings.with_std):
        return
    rows, mean, scale = work.rows, work.mean, work.scale
    n, d = work.targets.size, mean.size
    mean[:] = 0.0
    for i in range(n):
        for j in range(d):
            mean[j] += rows[i, j]
    for j in range(d):
        mean[j] /= n
    if settings.with_std:
        scale[:] = 0.0
        for i in range(n):
            for j in range(d):
                centred = rows[i, j] - mean[j]
                scale[j] += centred * centred
        for j in range(d):
            variance = scale[j] / n
            bound = n * _EPS * variance + (n * mean[j] * _EPS) ** 2
            scale[j] = 1.0 if variance <= bound else np.sqrt(variance)
    if not settings.with_mean:
        mean[:] = 0.0
    for i in range(n):
        for j in range(d):
            rows[i, j] = (rows[i, j] - mean[j]) / scale[j]


@inlined
def publish(work: Any, w: Any, intercept: float) -> None:
    """Turn coefficients on standardised columns into coefficients on the columns of X."""
    d = work.mean.size
    for j in range(d):
        work.weights[j] = w[j] / work.scale[j]
        intercept -= work.mean[j] * work.weights[j]
    work.weights[d] = intercept


@inlined
def score(problem: Any, settings: Any, work: Any, m: int, k: int, out: Any) -> None:
    """Mean loss over the records of V that were not drawn, and its part in the sums of the block."""
    n_V = problem.validation.size
    d = work.mean.size
    products(work.v_columns, d, work.weights, work.weights[d], work.v_losses)
    _lose(settings.loss, work.v_targets, work.v_losses)
    total, left = 0.0, 0
    for v in range(n_V):
        if work.v_counts[v] == 0:
            total += work.v_losses[v]
            left += 1
    t = total / left
    out.losses[k] = t
    out.handled[k] = True
    n = work.t_drawn.size
    counts = work.t_unit_counts
    for partition in range(problem.train_units.shape[0]):
        units = problem.train_units[partition]
        for i in range(n - m):
            counts[units[work.t_drawn[i]]] += 1
        for i in range(n - m):
            unit = units[work.t_drawn[i]]
            if counts[unit]:
                _add(out.train_sums[unit], counts[unit], n - m, t)
                counts[unit] = 0
    _add_validation(problem.validation_units, work, m, t, left, out.validation_sums)


@called
def _lose(loss: int, y: Any, f: Any) -> None:
    """Replace decision values by losses."""
    if loss == 0:
        for v in range(f.size):
            f[v] = 1.0 if (f[v] > 0) != (y[v] > 0) else 0.0
    elif loss == 1:
        for v in range(f.size):
            p = min(max(1.0 / (1.0 + np.exp(-f[v])), _EPS), 1.0 - _EPS)
            f[v] = -np.log(p if y[v] > 0 else 1.0 - p)
    elif loss == 2:
        for v in range(f.size):
            error = 1.0 / (1.0 + np.exp(-f[v])) - y[v]
            f[v] = error * error
    elif loss == 3:
        for v in range(f.size):
            error = f[v] - y[v]
            f[v] = error * error
    else:
        for v in range(f.size):
            f[v] = abs(f[v] - y[v])


@called
def _add(row: Any, count: int, draws: int, t: float) -> None:
    """The eight sums that both pools have."""
    N, M = float(count), float(draws)
    row[0] += N
    row[1] += N * t
    row[2] += N * N
    row[3] += N * N * t
    row[4] += N * N * t * t
    row[5] += N * M
    row[6] += N * M * t
    row[7] += N * M * t * t


@inlined
def _add_validation(units: Any, work: Any, m: int, t: float, left: int, sums: Any) -> None:
    """The sums of V; every unit with a record that was not drawn has an excess."""
    counts, excess = work.v_unit_counts, work.v_unit_excess
    counts[:] = 0
    excess[:] = 0.0
    for partition in range(units.shape[0]):
        for v in range(units.shape[1]):
            unit = units[partition, v]
            if work.v_counts[v]:
                counts[unit] += work.v_counts[v]
            else:
                excess[unit] += work.v_losses[v] - t
    for unit in range(counts.size):
        N, M, E = float(counts[unit]), float(m), excess[unit] / left
        row = sums[unit]
        if N > 0:
            _add(row, counts[unit], m, t)
            row[10] += N * E
            row[11] += N * E * t
        row[8] += E
        row[9] += E * E
        row[12] += M * E
        row[13] += M * E * t
