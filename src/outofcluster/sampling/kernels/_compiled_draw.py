"""The compiled draw: the positions that ``draw_records`` of the module ``_draw`` gives, without a generator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster.sampling.kernels._compile import called, compiled
from outofcluster.sampling.kernels._philox import fill_uniforms

Positions = NDArray[np.int64]


def identity_orders(n_T: int, n_V: int, replace: bool) -> tuple[Positions, Positions]:
    """The orders that the shuffles start from and restore; with replacement there is nothing to shuffle."""
    return (np.arange(0), np.arange(0)) if replace else (np.arange(n_T), np.arange(n_V))


@compiled
def draw(
    key: Any,
    level: int,
    replicate: int,
    attempt: int,
    a: float,
    n_T: int,
    n_V: int,
    replace: bool,
    uniforms: Any,
    orders: Any,
    swaps: Any,
    t_drawn: Any,
    v_drawn: Any,
) -> int:
    """Write the positions drawn from T and V, and return how many are from V; n is the length of ``t_drawn``."""
    n = t_drawn.size
    m: int = 0
    if replace:
        fill_uniforms(key, level, replicate, attempt * n, uniforms[:n])
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
    fill_uniforms(key, level, replicate, attempt * 2 * n, uniforms)
    for i in range(n):
        if uniforms[i] < a:
            m += 1
    m = min(max(m, n - n_T), n_V)
    _partial_shuffle(uniforms[n : n + m], orders[1], swaps, v_drawn)
    _partial_shuffle(uniforms[n + m : 2 * n], orders[0], swaps, t_drawn)
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
