"""Levels and sizes for the automatic curve: most fits at the lowest level, and the other levels close to it.

How fast the loss falls just above the lowest level shows the shape of a learning curve. A level at which most of the
fall is over shows its floor. At still higher levels nearly all training records come from V̂, and the losses say more
about V̂'s own learning curve. Half of the fits go to the lowest level, whose noise counts most. (The optimal design
for polynomials, :mod:`outofcluster.design.extrapolation`, goes up to 1 instead.)

The same levels are sampled once more with smaller training sets, many of which are free of leaked records
(:mod:`outofcluster.curves.auto`): with the smallest size that still teaches something, and with one in between.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.validation import Array

__all__ = ["least_size", "placed_levels", "placed_sizes"]

_LEVELS = np.array([0.0, 0.03, 0.1, 0.25, 0.6])
_SHARES = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
_LEAST_SIZE = 8
_LEAST_OF_A_CLASS = 2
_SIZE_SHARES = np.array([0.6, 0.15, 0.25])


def placed_levels(largest: float) -> tuple[Array, Array]:
    """Injected fractions up to a largest one, and the share of the fits that each of them gets.

    Parameters
    ----------
    largest : float
        Largest fraction that may be injected, in (0, 1].

    Returns
    -------
    levels : array of shape (5,)
        Injected fractions, increasing from 0.
    shares : array of shape (5,)
        Shares of the fits, which sum to 1.

    Examples
    --------
    >>> from outofcluster.design.automatic import placed_levels
    >>> placed_levels(1.0)[0].tolist()
    [0.0, 0.03, 0.1, 0.25, 0.6]
    >>> placed_levels(0.3)[0].round(3).tolist()
    [0.0, 0.015, 0.05, 0.125, 0.3]
    """
    return _LEVELS * min(1.0, largest / _LEVELS[-1]), _SHARES.copy()


def placed_sizes(n: int, least: int = _LEAST_SIZE) -> tuple[tuple[int, ...], Array]:
    """Sizes of training sets, the largest first, and the share of the fits that each of them gets.

    Parameters
    ----------
    n : int
        The largest size.
    least : int, default=8
        The smallest size worth fitting; see `least_size`.

    Returns
    -------
    sizes : tuple of int
        Three sizes, or n alone where it is below four times the smallest.
    shares : array
        Shares of the fits, which sum to 1.

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
    """The size of the smallest training sets worth fitting.

    That is 8 records, or as many as it takes to hold two records of the rarest class on average.

    Parameters
    ----------
    y : array of shape (n_records,), optional
        The classes of the records; without them nothing is known about classes.

    Returns
    -------
    int
        The size.

    Examples
    --------
    >>> from outofcluster.design.automatic import least_size
    >>> least_size(), least_size([0, 1] * 10), least_size([0] * 18 + [1, 1])
    (8, 8, 20)
    """
    if y is None:
        return _LEAST_SIZE
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return max(_LEAST_SIZE, math.ceil(_LEAST_OF_A_CLASS * float(counts.sum() / counts.min())))
