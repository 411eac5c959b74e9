"""Levels for the automatic curve: most fits where the answer is decided, the rest closer together near it.

A learning curve's shape shows in how fast the loss falls just above the lowest level, and its floor at a level
high enough for most of the fall to be over; beyond, where nearly all training records would come from V̂, losses say
more about V̂'s own learning curve. Half of the fits go to the lowest level, whose noise counts most. (The optimal
design for polynomials, :mod:`outofcluster.design.extrapolation`, goes up to 1 instead.)

The same levels are sampled once more with smaller training sets, of which many are free of leaked records
(:mod:`outofcluster.curves.auto`): the smallest that still teach something, and one size in between.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.validation import Array

__all__ = ["least_size", "placed_levels", "placed_sizes"]

_LEVELS = np.array([0.0, 0.03, 0.1, 0.25, 0.6])
_SHARES = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
_LEAST = 8
_OF_A_CLASS = 2
_SIZE_SHARES = np.array([0.6, 0.15, 0.25])


def placed_levels(largest: float) -> tuple[Array, Array]:
    """Injected fractions up to a largest one, and the share of the fits that each of them gets.

    Examples
    --------
    >>> from outofcluster.design.automatic import placed_levels
    >>> placed_levels(1.0)[0].tolist()
    [0.0, 0.03, 0.1, 0.25, 0.6]
    >>> placed_levels(0.3)[0].round(3).tolist()
    [0.0, 0.015, 0.05, 0.125, 0.3]
    """
    return _LEVELS * min(1.0, largest / _LEVELS[-1]), _SHARES.copy()


def placed_sizes(n: int, least: int = _LEAST) -> tuple[tuple[int, ...], Array]:
    """Sizes of training sets, the largest first, and the share of the fits that each gets.

    Examples
    --------
    >>> from outofcluster.design.automatic import placed_sizes
    >>> placed_sizes(800)[0], placed_sizes(20)[0]
    ((800, 80, 8), (20,))
    """
    if n < 4 * least:
        return (n,), np.ones(1)
    return (n, round(math.sqrt(n * least)), least), _SIZE_SHARES.copy()


def least_size(y: ArrayLike | None = None) -> int:
    """The smallest training sets worth fitting: 8 records, and of classes two of the rarest on average.

    Examples
    --------
    >>> from outofcluster.design.automatic import least_size
    >>> least_size(), least_size([0, 1] * 10), least_size([0] * 18 + [1, 1])
    (8, 8, 20)
    """
    if y is None:
        return _LEAST
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return max(_LEAST, math.ceil(_OF_A_CLASS * float(counts.sum() / counts.min())))
