"""Removed masses to draw at below the leakage rate: a ladder that serves every rate, so that none has to be known.

Losses between two masses are interpolated, so that the steps are finer where small rates are read off. One level adds
mass instead of removing it (remixing), to tell whether removing it works (:mod:`outofcluster.curves.unmixing`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outofcluster._base.validation import Array

__all__ = ["unmixed_fractions"]

_REMOVED = np.array([0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6])
_ADDED = 0.15


def unmixed_fractions(allowed: Callable[[float], bool]) -> Array:
    """Injected fractions of the ladder, increasing: those that are allowed, and the one that adds mass.

    Parameters
    ----------
    allowed : callable
        Whether enough records are left at an injected fraction.

    Returns
    -------
    array
        Empty where not even the smallest mass can be removed.

    Examples
    --------
    >>> from outofcluster.design.unmixing import unmixed_fractions
    >>> unmixed_fractions(lambda fraction: fraction > -0.12).round(3).tolist()
    [-0.111, -0.064, -0.031, 0.13]
    """
    removed = [-mass / (1 - mass) for mass in _REMOVED]
    possible = []
    for fraction in removed:
        if not allowed(float(fraction)):
            break
        possible.append(float(fraction))
    return np.array([*reversed(possible), _ADDED / (1 + _ADDED)]) if possible else np.zeros(0)
