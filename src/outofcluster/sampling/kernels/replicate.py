r"""What surrounds a fit: the draw and the gathering of its rows before, the scores and sums of a replicate after.

*Uniforms* are those of numpy's Philox generator, by position in the stream. Philox4x64-10 (Salmon et al., 2011) maps a
counter :math:`c` and a key :math:`k` to four words by ten rounds of

.. math:: (c_0, c_1, c_2, c_3) \mapsto
          (hi(M_1 c_2) ⊕ c_1 ⊕ k_0,\ lo(M_1 c_2),\ hi(M_0 c_0) ⊕ c_3 ⊕ k_1,\ lo(M_0 c_0)),

after each of which :math:`k` grows by (W_0, W_1). numpy increments the counter before each block of four words, and
turns a word x into the uniform (x >> 11) 2⁻⁵³. So uniform number j of a stream whose counter starts at (0, 0, i, r) is
word j mod 4 of the block at (⌊j/4⌋ + 1, 0, i, r), and no state has to be carried.

*Draws* are those that ``draw_records`` of the module ``kernel`` makes of the same uniforms.

*Sums.* With ℓ_v the loss of record v, t the mean of ℓ over the records V' of V that were not drawn, M the number of
draws from a pool and N those of records of unit c, the sums over replicates are, for each unit, of

.. math:: N,\ Nt,\ N^2,\ N^2t,\ N^2t^2,\ NM,\ NMt,\ NMt^2,

and in V also, with :math:`E = \sum_{v ∈ c ∩ V'} (ℓ_v - t)/|V'|`, of :math:`E, E^2, NE, NEt, ME, MEt`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outofcluster.sampling.kernels.algebra import padded, products
from outofcluster.sampling.kernels.compile import called, compiled, inlined
from outofcluster.sampling.kernels.kernel import MAX_ATTEMPTS

# The index of a loss is its code in the compiled loops.
LOSSES = ("zero_one", "log_loss", "brier", "squared_error", "absolute_error")

_EPS = float(np.finfo(float).eps)
_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_SHIFT = np.uint64(11)
_HALF, _BITS = np.uint64(2**32 - 1), np.uint64(32)
_UNIT = 2.0**-53


class Settings(NamedTuple):
    """Parameters of the model, its scaler and its loss, as numbers."""

    # C, or alpha.
    strength: float
    intercept: bool
    intercept_scaling: float
    # Whether the problem must be well posed without a penalty.
    exact: bool
    with_mean: bool
    with_std: bool
    # Index in `LOSSES`.
    loss: int
    classifier: bool


class Problem(NamedTuple):
    """The pools and the level that replicates are drawn at."""

    X: Any
    y: Any
    train: Any
    validation: Any
    # One row per partition, the units of all partitions numbered through.
    train_units: Any
    validation_units: Any
    key: Any
    level: int
    injected: float
    replace: bool


class Work(NamedTuple):
    """Buffers of a replicate: the draw, its rows, and what the fitted model gives on V."""

    uniforms: Any
    # The orders of T and V that the shuffles start from and restore.
    orders: Any
    swaps: Any
    t_drawn: Any
    v_drawn: Any
    v_counts: Any
    rows: Any
    targets: Any
    mean: Any
    scale: Any
    # Coefficients on the columns of X, and the intercept.
    weights: Any
    # The columns of V, each contiguous.
    v_columns: Any
    v_targets: Any
    v_losses: Any
    t_unit_counts: Any
    v_unit_counts: Any
    v_unit_excess: Any


class Out(NamedTuple):
    """Results of a block, in the order of its replicates and of the units."""

    losses: Any
    redraws: Any
    handled: Any
    train_sums: Any
    validation_sums: Any


def make_work(n: int, d: int, n_T: int, n_V: int, train_units: int, validation_units: int, *, replace: bool) -> Work:
    """Buffers for n rows of d columns drawn from pools of n_T and n_V records, with so many units."""
    return Work(
        uniforms=np.zeros(2 * n),
        # With replacement there is nothing to shuffle.
        orders=(np.arange(0), np.arange(0)) if replace else (np.arange(n_T), np.arange(n_V)),
        swaps=np.zeros(n, np.int64),
        t_drawn=np.zeros(n, np.int64),
        v_drawn=np.zeros(n, np.int64),
        v_counts=np.zeros(n_V, np.int64),
        rows=np.zeros((n, padded(d + 1))),
        targets=np.zeros(n),
        mean=np.zeros(d),
        scale=np.ones(d),
        weights=np.zeros(d + 1),
        v_columns=np.zeros((d, n_V)),
        v_targets=np.zeros(n_V),
        v_losses=np.zeros(n_V),
        t_unit_counts=np.zeros(train_units, np.int64),
        v_unit_counts=np.zeros(validation_units, np.int64),
        v_unit_excess=np.zeros(validation_units),
    )


@inlined
def _high(a: Any, b: Any) -> Any:
    """The upper 64 bits of a product, from the products of its 32-bit halves."""
    a0, a1, b0, b1 = a & _HALF, a >> _BITS, b & _HALF, b >> _BITS
    middle = a1 * b0 + (a0 * b0 >> _BITS)
    return a1 * b1 + (middle >> _BITS) + ((middle & _HALF) + a0 * b1 >> _BITS)


@compiled
def fill_uniforms(key: Any, level: int, replicate: int, first: int, out: Any) -> None:
    """Write the uniforms first, first + 1, ... of the stream of a level's replicate."""
    for block in range(first // 4, (first + out.size + 3) // 4):
        c0, c1, c2, c3 = np.uint64(block + 1), np.uint64(0), np.uint64(level), np.uint64(replicate)
        k0, k1 = key[0], key[1]
        for _ in range(10):
            high0, low0 = _high(_M0, c0), _M0 * c0
            high1, low1 = _high(_M1, c2), _M1 * c2
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0 += _W0
            k1 += _W1
        words = c0, c1, c2, c3
        for i in range(4):
            at = 4 * block + i - first
            if 0 <= at < out.size:
                out[at] = np.int64(words[i] >> _SHIFT) * _UNIT


@compiled
def draw(problem: Any, work: Any, replicate: int, attempt: int) -> int:
    """Write the positions drawn from T and V, and return how many are from V."""
    t_drawn, v_drawn, uniforms = work.t_drawn, work.v_drawn, work.uniforms
    n, n_T, n_V, a = t_drawn.size, problem.train.size, problem.validation.size, problem.injected
    m: int = 0
    if problem.replace:
        fill_uniforms(problem.key, problem.level, replicate, attempt * n, uniforms[:n])
        k = 0
        for i in range(n):
            u = uniforms[i]
            if u < a:
                v_drawn[m] = min(int(u / a * n_V), n_V - 1)
                m += 1
            else:
                t_drawn[k] = min(int((u - a) / (1 - a) * n_T), n_T - 1)
                k += 1
        return m
    fill_uniforms(problem.key, problem.level, replicate, attempt * 2 * n, uniforms)
    for i in range(n):
        if uniforms[i] < a:
            m += 1
    m = min(max(m, n - n_T), n_V)
    _partial_shuffle(uniforms[n : n + m], work.orders[1], work.swaps, v_drawn)
    _partial_shuffle(uniforms[n + m : 2 * n], work.orders[0], work.swaps, t_drawn)
    return m


@called
def _partial_shuffle(u: Any, order: Any, swaps: Any, drawn: Any) -> None:
    """Shuffle the head of the order, copy it, and undo the swaps: cheaper than a new order for a large pool."""
    count, size = u.size, order.size
    for k in range(count):
        j = k + min(int(u[k] * (size - k)), size - k - 1)
        swaps[k] = j
        order[k], order[j] = order[j], order[k]
    for k in range(count):
        drawn[k] = order[k]
    for k in range(count - 1, -1, -1):
        j = swaps[k]
        order[k], order[j] = order[j], order[k]


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
def gather_rows(problem: Any, settings: Any, work: Any, replicate: int, k: int, out: Any) -> int:
    """Draw until the draw can be used, gather its rows and standardise them.

    Returns the number of draws from V, or -1 if no attempt can be used. Where there is no pool, the rows are there
    already.
    """
    n, n_V = work.t_drawn.size, problem.validation.size
    if problem.train.size + n_V == 0:
        _standardise(settings, work)
        return 0
    for attempt in range(MAX_ATTEMPTS):
        out.redraws[k] = attempt
        m = draw(problem, work, replicate, attempt)
        work.v_counts[:] = 0
        for i in range(m):
            work.v_counts[work.v_drawn[i]] += 1
        # A record of V must be left to validate on.
        if m >= n_V and work.v_counts.min() > 0:
            continue
        _gather(problem, problem.train, work.t_drawn[: n - m], work.rows[: n - m], work.targets[: n - m])
        _gather(problem, problem.validation, work.v_drawn[:m], work.rows[n - m :], work.targets[n - m :])
        if settings.classifier and (work.targets.min() == 1 or work.targets.max() == 0):
            continue
        _standardise(settings, work)
        return m
    out.redraws[k] = MAX_ATTEMPTS
    return -1


@called
def _gather(problem: Any, pool: Any, drawn: Any, rows: Any, targets: Any) -> None:
    """Copy the drawn records of a pool."""
    for k in range(drawn.size):
        record = pool[drawn[k]]
        targets[k] = problem.y[record]
        for j in range(problem.X.shape[1]):
            rows[k, j] = problem.X[record, j]


@called
def _standardise(settings: Any, work: Any) -> None:
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
def score(problem: Any, settings: Any, work: Any, w: Any, m: int, k: int, out: Any) -> None:
    """Mean loss over the records of V that were not drawn, and its part in the sums of the block.

    Coefficients w on standardised columns become coefficients on the columns of X.
    """
    n_V = problem.validation.size
    d = work.mean.size
    intercept = w[d] * settings.intercept_scaling if settings.intercept else 0.0
    for j in range(d):
        work.weights[j] = w[j] / work.scale[j]
        intercept -= work.mean[j] * work.weights[j]
    work.weights[d] = intercept
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
