"""Where a function changes its sign, found by scipy once a grid has shown between which points."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from outofcluster._base.validation import Array

__all__ = ["first_crossing"]


def first_crossing(function: Callable[[float], float], grid: Array) -> float | None:
    """The first place on a grid's range where a function changes the sign that it starts with.

    Parameters
    ----------
    function : callable
        A function of one number.
    grid : array
        Increasing points at which the function is looked at; a change of sign and back between two of them is missed.

    Returns
    -------
    float or None
        None where the sign never changes.

    Examples
    --------
    >>> from outofcluster._base.roots import first_crossing
    >>> round(first_crossing(lambda x: x**2 - 2, np.linspace(0, 2, 5)), 6)
    1.414214
    >>> first_crossing(lambda x: x + 1, np.linspace(0, 2, 5)) is None
    True
    """
    values = np.array([function(float(point)) for point in grid])
    crossed = np.flatnonzero(np.sign(values) * np.sign(values[0]) < 0)
    if not len(crossed):
        return None
    return float(brentq(function, grid[crossed[0] - 1], grid[crossed[0]], xtol=1e-9))
