r"""The shapes that the automatic curve averages: how the loss falls with the share x of leaked records.

learning
    :math:`h(x) = 1/(1 + (nx/κ)^β)`: half of what leaked records teach is learnt once there are κ of them among n. The
    fall is a hyperbola (β = 1), or more gradual (β < 1), or starts late (β > 1: flat at first, so not convex). κ runs
    from a third of a record to half of the training set, β from 0.7 to 1.4. These are the steep curves.
mixing
    :math:`h(x) = (1 + s\,x/(1-x))^{-q}`: the model is a compromise between both sides, in which a leaked record weighs
    s times as much as another. The loss of a least-squares fit is quadratic in its distance from what suits the
    held-out clusters, :math:`(1-x)^2` for s = 1. s runs from 0.2 to 2, q from 1 to 3. These are the gentle curves.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.curves.operator import BinomialOperator

__all__ = ["expected_falls", "falls", "log_prior"]

_SHAPES = np.array([0.7, 0.85, 1.0, 1.2, 1.4])
_HALF_FALLS = 30
_POWERS = np.array([1.0, 1.5, 2.0, 3.0])
_WEIGHTS = np.geomspace(0.2, 2, 12)
_SHAPE_PRIOR = 3.0
_LARGEST_TABLE = 4096
"""Largest size for which a table of the curves is kept, with one row per number of leaked records (6 MB)."""


def falls(x: Array, n: int) -> Array:
    """The curves h at shares x of leaked records: one row per share, one column per curve."""
    half_falls = np.geomspace(0.3, max(n / 2, 0.3), _HALF_FALLS)
    # There are few values of β and many positions, so each power is computed once.
    learnt = ((n * x)[:, None] ** _SHAPES)[:, :, None] * half_falls ** -_SHAPES[:, None]
    with np.errstate(divide="ignore", over="ignore"):
        odds = x / (1 - x)
        mixed = (1 + odds[:, None] * _WEIGHTS)[:, None, :] ** _POWERS[:, None]
        curves: Array = 1 / np.concatenate([(1 + learnt).reshape(len(x), -1), mixed.reshape(len(x), -1)], axis=1)
    return curves


def expected_falls(p: Array, size: int, n: int) -> Array:
    """A h: the mean of each curve of size n, at levels p, over training sets of a size: one row per level."""
    operator = BinomialOperator(p, size)
    if size > _LARGEST_TABLE:
        return operator.expect(lambda x: falls(x, n), points=64)
    # The same sizes come again with every leakage rate.
    table = _table(size, n)
    return operator.expect(lambda x: table[np.rint(size * x).astype(np.int64)], points=64)


@lru_cache(maxsize=8)
def _table(size: int, n: int) -> Array:
    return falls(np.arange(size + 1) / size, n)


@cache
def log_prior() -> Array:
    """Logarithm of how much each curve counts beforehand: -3 log² β for learning curves, 0 for mixing curves."""
    learning = np.repeat(-_SHAPE_PRIOR * np.log(_SHAPES) ** 2, _HALF_FALLS)
    return np.concatenate([learning, np.zeros(len(_POWERS) * len(_WEIGHTS))])
