"""Removed masses to draw at below the leakage rate: a ladder that serves every rate, finer around the rate of the data.

Losses between two masses are interpolated. Where the two sides of a split can be told apart, the loss rises up to the
mass of the leaked records and then hardly any more, so that a ladder alone would cut that corner: the records
themselves show where it is (:mod:`outofcluster.leakage.data`), and a few masses lie just there. It is a planning
value: a wrong one makes the interpolation coarser, and nothing else. One level adds mass instead of removing it
(remixing), to tell whether removing it works (:mod:`outofcluster.curves.unmixing`).

Where the probability of every record is known, so is what each mass leaves of the leaked records. Then a few masses do,
up to the one that leaves next to nothing, and the level that adds mass is replaced by a control: the largest mass is
removed from all records alike (:mod:`outofcluster.curves.record_rates`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from outofcluster._base.validation import Array

__all__ = ["rated_fractions", "unmixed_fractions"]

_LADDER = np.array([0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6])
_AROUND = np.array([1.0, 1.1, 1.25, 1.45])
"""Multiples of the planned rate."""
_APART = 0.12
"""Steps of the ladder that are nearer than this to a planned mass, relatively, are left out."""
_ADDED = 0.15
_PLANNED_FROM, _PLANNED_TO = 0.01, 0.45
_OF_THE_RATE = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
"""Masses by multiples of the mean probability that a record leaked."""
_NEXT_TO_NOTHING = 0.02
"""Share of the leaked records that need not be removed."""


def unmixed_fractions(allowed: Callable[[float], bool], most: int = 12, planned: float | None = None) -> Array:
    """Injected fractions, increasing: those that are allowed, and the one that adds mass.

    Parameters
    ----------
    allowed : callable
        Whether enough records are left at an injected fraction.
    most : int, default=12
        The largest number of removed masses, for few fits.
    planned : float, optional
        A leakage rate that is likely, around which more masses lie.

    Returns
    -------
    array
        Empty where not even the smallest mass can be removed.

    Examples
    --------
    >>> from outofcluster.design.unmixing import unmixed_fractions
    >>> unmixed_fractions(lambda fraction: fraction > -0.12).round(3).tolist()
    [-0.111, -0.064, -0.031, 0.13]
    >>> unmixed_fractions(lambda fraction: True, 3, planned=0.1).round(3).tolist()
    [-0.818, -0.124, -0.064, 0.13]
    """
    masses = _masses(most, planned)
    possible = []
    for fraction in -masses / (1 - masses):
        if not allowed(float(fraction)):
            break
        possible.append(float(fraction))
    return np.array([*reversed(possible), _ADDED / (1 + _ADDED)]) if possible else np.zeros(0)


def _masses(most: int, planned: float | None) -> Array:
    """Removed masses, increasing."""
    around = np.zeros(0)
    if planned is not None and _PLANNED_FROM <= planned <= _PLANNED_TO:
        # With few fits one mass around the planned rate has to do: the one at which most of the answer is read off.
        around = planned * (_AROUND if most >= 8 else _AROUND[1:2])
    ladder = _LADDER[[not (np.abs(around / step - 1) < _APART).any() for step in _LADDER]]
    room = max(most - len(around), 2)
    if room < len(ladder):
        # A shorter ladder covers the same rates with wider steps.
        ladder = ladder[np.unique(np.linspace(1, len(ladder) - 2, room).round().astype(int))]
    return np.sort(np.concatenate([ladder, around]))


def rated_fractions(rate: float, allowed: Callable[[float], bool], kept: Callable[[float], float]) -> Array:
    """Injected fractions for known probabilities of the records, increasing, with that of the control at the end.

    Parameters
    ----------
    rate : float
        The mean probability.
    allowed : callable
        Whether enough records are left at an injected fraction.
    kept : callable
        What is left of a leaked record there.

    Returns
    -------
    array
        Empty where nothing can be removed.

    Examples
    --------
    >>> from outofcluster.design.unmixing import rated_fractions
    >>> rated_fractions(0.1, lambda fraction: True, lambda fraction: 1 + 9 * fraction).round(3).tolist()
    [-0.111, -0.053, 0.091]
    """
    possible = list[float]()
    for mass in rate * _OF_THE_RATE:
        fraction = float(-mass / (1 - mass)) if mass < 1 else -math.inf
        if fraction >= 0 or not allowed(fraction):
            break
        possible.append(fraction)
        if kept(fraction) < _NEXT_TO_NOTHING:
            break
    if not possible:
        return np.zeros(0)
    largest = -possible[-1] / (1 - possible[-1])
    return np.array([*reversed(possible), largest / (1 + largest)])
