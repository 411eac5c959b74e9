r"""The synthetic study with fresh records for every replicate, as its table's "n = ∞" has it.

The model is that of :func:`outofcluster.datasets.make_partition`. Neither the noise of the training records nor the
validation records need to be drawn one by one. With S the sum of :math:`x^2` over the training records,
:math:`\hat θ = (θ_T A + θ_V B)/S + σ z/\sqrt S`. With :math:`c_i = (θ_{k(i)} - \hat θ) x_i` the errors of the line at N
validation records and Q the sum of their squares, the noise along c and that across it are independent, so the sum of
squared errors is

.. math:: \sum_i (c_i + ε_i)^2 = (\sqrt Q + σ z')^2 + σ^2 χ^2_{N-1} ,

exactly, with z and z' standard normal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.reproduction.means import Means

__all__ = ["N_VALIDATION", "iid_loss", "sample_partition"]

N_VALIDATION = 1000
_SLOPES, _WIDTHS, _NOISE = (1.0, 2.0), (1.0, 10.0), 0.5
_BLOCK = 1000


def sample_partition(p: Any, counts: Any, *, n: int, seed: int) -> Means:
    """Losses on the held-out part of models trained on n records, each of it with probability p.

    Examples
    --------
    >>> sample = sample_partition([0.0, 1.0], [2000, 2000], n=15, seed=0)
    >>> bool(abs(sample.means[0] - 35.35) < 4 * sample.standard_errors[0])
    True
    """
    rng = np.random.default_rng(seed)
    levels = np.asarray(p, dtype=float)
    losses = [_losses(rng, int(count), n, float(level), 1.0) for level, count in zip(levels, counts, strict=True)]
    return Means(
        levels,
        np.array([level.mean() for level in losses]),
        np.array([level.std(ddof=1) / np.sqrt(len(level)) for level in losses]),
        np.array([len(level) for level in losses]),
        n,
    )


def iid_loss(count: int, *, n: int, seed: int) -> float:
    """Mean loss when training and validation records come from both parts alike."""
    return float(_losses(np.random.default_rng(seed), count, n, 0.5, 0.5).mean())


def _losses(rng: np.random.Generator, count: int, n: int, trains: float, scored: float) -> Array:
    """Losses of models; ``trains`` and ``scored`` are the shares of the held-out part."""
    parts = [_block(rng, min(_BLOCK, count - first), n, trains, scored) for first in range(0, count, _BLOCK)]
    return np.concatenate(parts)


def _block(rng: np.random.Generator, count: int, n: int, trains: float, scored: float) -> Array:
    A, B = _sums_of_squares(rng, count, n, trains)
    S = A + B
    slope = (_SLOPES[0] * A + _SLOPES[1] * B) / S + _NOISE * rng.standard_normal(count) / np.sqrt(S)
    A, B = _sums_of_squares(rng, count, N_VALIDATION, scored)
    Q = (_SLOPES[0] - slope) ** 2 * A + (_SLOPES[1] - slope) ** 2 * B
    along = np.sqrt(Q) + _NOISE * rng.standard_normal(count)
    losses: Array = (along**2 + _NOISE**2 * rng.chisquare(N_VALIDATION - 1, count)) / N_VALIDATION
    return losses


def _sums_of_squares(rng: np.random.Generator, count: int, n: int, share: float) -> tuple[Array, Array]:
    """Sums of x² over the records of either part, for sets of n of which each is of the second with a probability."""
    squares = rng.random((count, n)) ** 2
    second = np.arange(n) < rng.binomial(n, share, count)[:, None]
    B = (squares * second).sum(axis=1)
    return _WIDTHS[0] ** 2 * (squares.sum(axis=1) - B), _WIDTHS[1] ** 2 * B
