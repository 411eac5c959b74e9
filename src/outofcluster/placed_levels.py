"""Levels for the automatic curve: most fits where the answer is decided, the rest closer together near it.

A learning curve's shape shows in how fast the loss falls just above the lowest level, and its floor at a level
high enough for most of the fall to be over; beyond, where nearly all training records would come from V̂, losses say
more about V̂'s own learning curve. Half of the fits go to the lowest level, whose noise counts most. (The optimal
design for polynomials, :mod:`outofcluster.design`, goes up to 1 instead.)
"""

from __future__ import annotations

import numpy as np

from outofcluster._validation import Array

__all__ = ["placed_levels"]

_LEVELS = np.array([0.0, 0.03, 0.1, 0.25, 0.6])
_SHARES = np.array([0.5, 0.2, 0.15, 0.1, 0.05])


def placed_levels(largest: float) -> tuple[Array, Array]:
    """Injected fractions up to a largest one, and the share of the fits that each of them gets.

    Examples
    --------
    >>> from outofcluster.placed_levels import placed_levels
    >>> placed_levels(1.0)[0].tolist()
    [0.0, 0.03, 0.1, 0.25, 0.6]
    >>> placed_levels(0.3)[0].round(3).tolist()
    [0.0, 0.015, 0.05, 0.125, 0.3]
    """
    return _LEVELS * min(1.0, largest / _LEVELS[-1]), _SHARES.copy()
