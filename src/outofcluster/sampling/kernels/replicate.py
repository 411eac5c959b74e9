r"""What surrounds a fit: the draw and the gathering of its rows before, the scores and sums of a replicate after.

*Uniforms* are those of numpy's Philox generator, by position in the stream. Philox4x64-10 (Salmon et al., 2011) maps a
counter :math:`c` and a key :math:`k` to four words by ten rounds of

.. math:: (c_0, c_1, c_2, c_3) \mapsto
          (hi(M_1 c_2) ⊕ c_1 ⊕ k_0,\ lo(M_1 c_2),\ hi(M_0 c_0) ⊕ c_3 ⊕ k_1,\ lo(M_0 c_0)),

after each of which :math:`k` grows by (W_0, W_1). numpy increments the counter before each block of four words, and
turns a word x into the uniform (x >> 11) 2⁻⁵³. So uniform number j of a stream whose counter starts at (0, 0, 0, r) is
word j mod 4 of the block at (⌊j/4⌋ + 1, 0, 0, r), and no state has to be carried.

*Draws* are those that ``draw_records`` of the module ``kernel`` makes of the same uniforms.

*Effects.* With ℓ_v the loss of record v and t the mean of ℓ over the records V' of V that were not drawn, the effect of
unit c is :math:`E = \sum_{v ∈ c ∩ V'} (ℓ_v - t)/|V'|`, summed over replicates.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from outofcluster.sampling.kernels.algebra import called, compiled, inlined, padded, products
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
    # Whether the columns of the draw are standardised before the fit.
    scaled: bool
    # Index in `LOSSES`.
    loss: int
    classifier: bool


class Problem(NamedTuple):
    """The pools, and how replicates are drawn from them."""

    X: Any
    y: Any
    # What is taken off the loss of each record of V.
    offset: Any
    train: Any
    validation: Any
    # One row per partition of V, the units of all partitions numbered through.
    units: Any
    key: Any
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
    excess: Any


class Out(NamedTuple):
    """Results of a block, in the order of its replicates and of the units."""

    losses: Any
    redraws: Any
    handled: Any
    effects: Any


def make_work(problem: Problem, n: int, n_units: int) -> Work:
    """Buffers for n rows drawn from the pools of a problem, with so many units."""
    d, n_T, n_V = problem.X.shape[1], len(problem.train), len(problem.validation)
    return Work(
        uniforms=np.zeros(2 * n),
        # With replacement there is nothing to shuffle.
        orders=(np.arange(0), np.arange(0)) if problem.replace else (np.arange(n_T), np.arange(n_V)),
        swaps=np.zeros(n, np.int64),
        t_drawn=np.zeros(n, np.int64),
        v_drawn=np.zeros(n, np.int64),
        v_counts=np.zeros(n_V, np.int64),
        rows=np.zeros((n, padded(d + 1))),
        targets=np.zeros(n),
        mean=np.zeros(d),
        scale=np.ones(d),
        weights=np.zeros(d + 1),
        v_columns=np.ascontiguousarray(problem.X[problem.validation].T),
        v_targets=problem.y[problem.validation],
        v_losses=np.zeros(n_V),
        excess=np.zeros(n_units),
    )


@inlined
def _high(a: Any, b: Any) -> Any:
    """The upper 64 bits of a product, from the products of its 32-bit halves."""
    a0, a1, b0, b1 = a & _HALF, a >> _BITS, b & _HALF, b >> _BITS
    middle = a1 * b0 + (a0 * b0 >> _BITS)
    return a1 * b1 + (middle >> _BITS) + ((middle & _HALF) + a0 * b1 >> _BITS)


@compiled
def fill_uniforms(key: Any, replicate: int, first: int, out: Any) -> None:
    """Write the uniforms first, first + 1, ... of the stream of a replicate."""
    for block in range(first // 4, (first + out.size + 3) // 4):
        c0, c1, c2, c3 = np.uint64(block + 1), np.uint64(0), np.uint64(0), np.uint64(replicate)
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
    fill_uniforms(problem.key, replicate, attempt * 2 * n, uniforms)
    if problem.replace:
        k = 0
        for i in range(n):
            u = uniforms[i]
            if uniforms[n + i] < a:
                v_drawn[m] = min(int(u * n_V), n_V - 1)
                m += 1
            else:
                t_drawn[k] = min(int(u * n_T), n_T - 1)
                k += 1
        return m
    for i in range(n):
        if uniforms[n + i] < a:
            m += 1
    m = min(max(m, n - n_T), n_V)
    _partial_shuffle(uniforms[n - m : n][::-1], work.orders[1], work.swaps, v_drawn)
    _partial_shuffle(uniforms[: n - m], work.orders[0], work.swaps, t_drawn)
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
def gather_rows(problem: Any, settings: Any, work: Any, replicate: int, k: int, out: Any) -> int:
    """Draw until the draw can be used, gather its rows and standardise them.

    Returns the number of draws from V, or -1 if no attempt can be used.
    """
    n, n_V = work.t_drawn.size, problem.validation.size
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
        if settings.scaled:
            _standardise(work)
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
def _standardise(work: Any) -> None:
    """Centre and scale the rows as StandardScaler does; a column that cannot be told from a constant has scale 1."""
    rows, mean, scale = work.rows, work.mean, work.scale
    n, d = work.targets.size, mean.size
    mean[:] = 0.0
    scale[:] = 0.0
    for i in range(n):
        for j in range(d):
            mean[j] += rows[i, j]
    for j in range(d):
        mean[j] /= n
    for i in range(n):
        for j in range(d):
            centred = rows[i, j] - mean[j]
            scale[j] += centred * centred
    for j in range(d):
        variance = scale[j] / n
        bound = n * _EPS * variance + (n * mean[j] * _EPS) ** 2
        scale[j] = 1.0 if variance <= bound else np.sqrt(variance)
    for i in range(n):
        for j in range(d):
            rows[i, j] = (rows[i, j] - mean[j]) / scale[j]


@inlined
def score(problem: Any, settings: Any, work: Any, w: Any, k: int, out: Any) -> None:
    """Mean loss over the records of V that were not drawn, and the effects of units on it.

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
    total, less, left = 0.0, 0.0, 0
    for v in range(n_V):
        if work.v_counts[v] == 0:
            total += work.v_losses[v]
            less += problem.offset[v]
            left += 1
    t = total / left
    out.losses[k] = t - less / left
    out.handled[k] = True
    work.excess[:] = 0.0
    for partition in range(problem.units.shape[0]):
        for v in range(n_V):
            if work.v_counts[v] == 0:
                work.excess[problem.units[partition, v]] += work.v_losses[v] - t
    for unit in range(work.excess.size):
        out.effects[unit] += work.excess[unit] / left


@called
def _lose(loss: int, y: Any, f: Any) -> None:
    """Replace decision values by losses."""
    for v in range(f.size):
        if loss == 0:
            f[v] = 1.0 if (f[v] > 0) != (y[v] > 0) else 0.0
        elif loss == 1:
            p = min(max(1.0 / (1.0 + np.exp(-f[v])), _EPS), 1.0 - _EPS)
            f[v] = -np.log(p if y[v] > 0 else 1.0 - p)
        elif loss == 2:
            f[v] = (1.0 / (1.0 + np.exp(-f[v])) - y[v]) ** 2
        elif loss == 3:
            f[v] = (f[v] - y[v]) ** 2
        else:
            f[v] = abs(f[v] - y[v])
