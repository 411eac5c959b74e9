r"""The leakage rate at which an answer changes, with its interval.

Let c(ρ) be the corrected loss at a leakage rate ρ that is taken as known, and [l(ρ), u(ρ)] its interval at a level of
confidence. The *tipping point* of a threshold t is the first rate at which c(ρ) ≥ t. Its interval inverts the intervals
of the corrected loss: it holds the rates at which t lies within [l(ρ), u(ρ)], so that

.. math:: ρ_{low} = \min\{ρ: u(ρ) ≥ t\} , \qquad ρ_{high} = \min\{ρ: l(ρ) ≥ t\} ,

and an end is open where there is no such rate up to the largest one that is looked at. At the true tipping point
the interval of the corrected loss misses t as seldom as its level says, and so does this one miss the tipping point.
For two models c is the difference of their losses, and t is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from outofcluster._base.arguments import Array, check_number
from outofcluster._base.exceptions import InputError, SolverError
from outofcluster._base.text import Printed, percentage


@dataclass(frozen=True)
class TippingPoint(Printed):
    """The smallest leakage rate at which an answer changes; ``print`` it for the answer in words.

    Attributes
    ----------
    rate : float or None
        The rate; 0 where the threshold is reached without any leakage, and None where it is not reached.
    interval : tuple of float or None
        The rates at which the threshold lies within the interval of the corrected value at that rate: from the first
        one at which the worse end of that interval reaches the threshold to the first one at which the better end does.
        An end is None where there is no such rate.
    threshold : float
        What the corrected value is compared with; 0 for the difference of two models.
    largest_rate : float
        The largest rate that was looked at.
    confidence_level : float
        Confidence level of the interval.
    sentence : str
        The answer in words, and where there is no rate the reason why.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(30), 10)
    >>> level = rng.standard_normal((30, 3))
    >>> X = level[groups] + 0.5 * rng.standard_normal((300, 3))
    >>> y = X[:, 0] + level[groups, 1] + 0.5 * rng.standard_normal(300)
    >>> options = {"leakage": None, "error_model": "records", "n_fits": 100, "random_state": 0}
    >>> result = ooc.audit(Ridge(), X, y, groups=groups, **options)
    >>> tipping = result.tipping_point(result.value_at(0.1))
    >>> round(tipping.rate, 4), tipping.interval[0]
    (0.1, 0.0)
    >>> print(result.tipping_point(0))
    The loss is 0.4699 without any correction, no better than 0.
    """

    rate: float | None
    interval: tuple[float | None, float | None]
    threshold: float
    largest_rate: float
    confidence_level: float
    sentence: str

    def __str__(self) -> str:
        return self.sentence


def find_tipping_point(
    worse_by: Callable[[float], float],
    grid: Array,
    ends: Callable[[], tuple[Array, Array, Array]],
    words: Callable[[float | None], str],
    *,
    threshold: float,
    confidence_level: float,
) -> TippingPoint:
    """The tipping point of a loss, with the clause that ``words`` has for a rate.

    Losses are less the threshold. ``ends`` gives rates and the ends of the loss's intervals there, between which they
    are taken to be straight.
    """
    most = float(grid[-1])
    try:
        rate = 0.0 if worse_by(0.0) >= 0 else first_crossing(worse_by, grid)
        rates, better, worse = ends()
        sentence = words(rate)
    except (InputError, SolverError) as error:
        why = f"There is no tipping point, since nothing can be corrected: {error}"
        return TippingPoint(None, (None, None), threshold, most, confidence_level, why)
    low, high = _first_reached(rates, worse), _first_reached(rates, better)
    if rate is not None:
        # Straight lines between few rates may end on the wrong side of the rate.
        low, high = (None if low is None else min(low, rate)), (None if high is None else max(high, rate))
    if low is not None and high != 0:
        above = f"above {percentage(most)}" if high is None else percentage(high, 2)
        sentence += f" ({percentage(confidence_level)} interval of the rate: {percentage(low, 2)} to {above})"
    return TippingPoint(rate, (low, high), threshold, most, confidence_level, f"{sentence}.")


def tipping_point_of(audit: Any, threshold: Any) -> TippingPoint:
    """The first leakage rate at which the corrected value of an audit is as bad as a threshold."""
    level, metric = check_number("threshold", threshold, least=-math.inf), audit.metric
    limit, most = metric.badness(level), float(audit.rate_grid[-1])
    # Slightly below the threshold, so that a value that just touches it has reached it.
    touched = limit - 1e-12 * max(abs(limit), 1.0)

    def ends() -> tuple[Array, Array, Array]:
        over = audit.sensitivity(audit.rate_grid) if audit.solution.is_exact else audit.summary.sensitivity
        if over is None:
            return np.zeros(0), np.zeros(0), np.zeros(0)
        low, high = metric.badness_between(over.low, over.high)
        return over.rates, low - touched, high - touched

    def words(rate: float | None) -> str:
        if rate == 0:
            return f"The {metric.noun} is {audit.naive.value:.4g} without any correction, no better than {level:.4g}"
        if rate is not None:
            return f"The corrected {metric.noun} reaches {level:.4g} at a leakage rate of {percentage(rate, 2)}"
        return (
            f"The corrected {metric.noun} does not reach {level:.4g}: at a leakage rate of {percentage(most)}, the "
            f"largest that is looked at, it is {audit.value_at(most):.4g}"
        )

    return find_tipping_point(
        lambda rate: metric.badness(audit.value_at(rate)) - touched,
        audit.rate_grid,
        ends,
        words,
        threshold=level,
        confidence_level=audit.confidence_level,
    )


def _first_reached(rates: Array, ends: Array) -> float | None:
    """The first rate at which a line through the ends of intervals is not negative; None where it always is."""
    reached = np.flatnonzero(ends >= 0)
    if not len(reached):
        return None
    position = int(reached[0])
    if position == 0 or not np.isfinite(ends[position - 1] + ends[position]):
        return float(rates[position])
    return float(np.interp(0.0, ends[position - 1 : position + 1], rates[position - 1 : position + 1]))


def first_crossing(function: Callable[[float], float], grid: Array) -> float | None:
    """The first point of a grid's range where a function changes the sign that it starts with.

    Examples
    --------
    >>> from outofcluster.auditing.tipping import first_crossing
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
