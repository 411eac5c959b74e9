r"""The interval of a leakage rate, from the rate and its standard error alone.

With the rate p, its standard error s and the normal quantile z, the interval is normal on the scale of the log-odds
(delta method), so that it stays inside [0, 1]:

.. math:: \text{logit}\,p \pm z \frac{s}{p(1-p)} .

Near 0 that scale runs away. So with the confidence level c the upper end is at most :math:`p - s \log((1-c)/2)`. This
is the exact Poisson bound when nothing was seen and s is what one event would have contributed, and close to it for
few events.
"""

from __future__ import annotations

import math

from scipy.special import expit, logit, ndtri

__all__ = ["lower_end", "rate_interval"]


def rate_interval(rate: float, std: float, confidence_level: float) -> tuple[float, float]:
    """Lower and upper end of the interval that holds the true rate with the given confidence.

    Parameters
    ----------
    rate, std : float
        The rate, and its standard error.
    confidence_level : float
        Between 0 and 1.

    Returns
    -------
    tuple of float
    """
    most = min(1.0, rate - math.log((1 - confidence_level) / 2) * std)
    if rate == 0:
        return 0.0, most
    width = float(ndtri((1 + confidence_level) / 2)) * std / (rate * (1 - rate))
    centre = float(logit(rate))
    # The way to log-odds and back must not move the ends past the rate.
    low, high = min(float(expit(centre - width)), rate), max(float(expit(centre + width)), rate)
    return low, min(high, most)


def lower_end(rate: float, std: float, confidence_level: float) -> float:
    """Lower end of a one-sided interval, for a rate that is a lower bound: all that may err is on the lower side.

    Parameters
    ----------
    rate, std : float
        The rate, and its standard error.
    confidence_level : float
        Between 0 and 1.

    Returns
    -------
    float
    """
    return rate_interval(rate, std, 2 * confidence_level - 1)[0] if confidence_level > 0.5 else rate
