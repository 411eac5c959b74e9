r"""The members stacked, with a ceiling.

T̂ has the law (1-p0) P_T + p0 P_V, so with u = log dP_V/dP_T

.. math:: \frac1r = \frac{dT̂}{dP_V} = p_0 + (1-p_0)\,e^{-u} :

r never exceeds 1/p0. The stack has this form, with u = α + Σ_m w_m η_m, weights w ≥ 0 of the members' log ratios η_m,
and a ceiling 1/ε that is learned with them. ε is the maximum-likelihood estimate of p0 under this model (logistic
regression with an asymptote: presence-only regression, Ward et al. 2009).

The weights are drawn towards each other, weakly, and their sum towards 1, as it is for log ratios that mean what they
say. Where few records lie between the sides, this is what tells their overlap from the ceiling.

It is cross-fitted over the same folds as the members: the stack that scores a record was not taught by it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from outofcluster.split.discriminator.encoding import Floats, Ints
from outofcluster.split.discriminator.members import some_of_both

__all__ = ["Stack", "fit_stack"]

_FIRST_CEILINGS = (0.02, 0.1, 0.3)
"""Values of ε from which the stack is fitted: the likelihood may have several maxima."""
_STEPS = (6, 60)
"""Steps of the optimiser from each start, and from the best place that they reach."""
_EVEN, _SUM = 1.0, 10.0
"""Penalties of the weights: towards each other, and of their sum towards 1."""
_BOUNDS_INTERCEPT, _BOUNDS_WEIGHT, _BOUNDS_CEILING = (-10, 10), (0, 5), (1e-4, 0.95)
_MOST_TAUGHT = 20_000
"""Records that teach a stack, drawn at random where there are more."""


@dataclass(frozen=True, eq=False)
class Stack:
    """Weights and ceiling: of all records, and for each fold those without its records.

    Attributes
    ----------
    whole : array of shape (members + 2,)
        Intercept, weights and ceiling that all records teach.
    by_fold : array of shape (folds, members + 2)
        The same, taught without the records of each fold.
    """

    whole: Floats
    by_fold: Floats

    @property
    def ceiling(self) -> float:
        """ε: 1/ε is the largest ratio that the stack gives."""
        return float(self.whole[-1])

    def log_ratio(self, by_member: Floats, fold: Ints) -> Floats:
        """Log r of records in these folds, from the members' log ratios, one column per member."""
        stacked = np.empty(len(fold))
        for k, theta in enumerate(self.by_fold):
            stacked[fold == k] = _log_ratio(theta, by_member[fold == k])[0]
        return stacked


def fit_stack(by_member: Floats, side: Ints, fold: Ints, order: Floats) -> Stack:
    """Fit the stack to all records, and once without each fold.

    Parameters
    ----------
    by_member : array of shape (n, members)
        Out-of-fold log ratios.
    side, fold : array of int of shape (n,)
        0 for T̂ and 1 for V̂, and the fold of every record.
    order : array of shape (n,)
        Random numbers: records with the smallest ones teach, where not all can.
    """
    everyone = np.arange(len(side))
    # Each stack has starts of its own: one that began at the fit to all records would know of those it scores.
    taught = [everyone, *(np.flatnonzero(fold != k) for k in range(int(fold.max()) + 1))]
    some = [some_of_both(rows, side, order, _MOST_TAUGHT) for rows in taught]
    whole, *by_fold = [_fit(by_member[rows], side[rows]) for rows in some]
    return Stack(whole, np.array(by_fold))


def _fit(by_member: Floats, side: Ints) -> Floats:
    """Intercept, weights and ceiling: a few steps from several starts, then on from the best place."""
    from scipy.optimize import minimize

    members = by_member.shape[1]
    bounds = [_BOUNDS_INTERCEPT] + [_BOUNDS_WEIGHT] * members + [_BOUNDS_CEILING]

    def descend(start: Floats, steps: int) -> tuple[float, Floats]:
        fit = minimize(
            _objective,
            start,
            (by_member, side, float(logit(side.mean()))),
            jac=True,
            bounds=bounds,
            method="L-BFGS-B",
            options={"maxiter": steps},
        )
        return float(fit.fun), np.asarray(fit.x)

    starts = (np.array([0.0, *np.full(members, 1 / members), ceiling]) for ceiling in _FIRST_CEILINGS)
    return descend(min((descend(start, _STEPS[0]) for start in starts), key=lambda fit: fit[0])[1], _STEPS[1])[1]


def _log_ratio(theta: Floats, by_member: Floats) -> tuple[Floats, Floats, Floats]:
    """Log r, and its derivatives by u and by ε."""
    u = np.clip(theta[0] + by_member @ theta[1:-1], -30, 30)
    away, ceiling = np.exp(-u), theta[-1]
    inverse = ceiling + (1 - ceiling) * away
    return -np.log(inverse), (1 - ceiling) * away / inverse, (away - 1) / inverse


def _objective(theta: Floats, by_member: Floats, side: Ints, log_odds: float) -> tuple[float, Floats]:
    """Minus the log likelihood, with the penalties, and its gradient."""
    log_ratio, by_u, by_ceiling = _log_ratio(theta, by_member)
    eta = log_odds + log_ratio
    uneven = theta[1:-1] - 1 / by_member.shape[1]
    penalty = 0.5 * (_EVEN * uneven @ uneven + _SUM * uneven.sum() ** 2)
    p = expit(eta)
    value = -np.log1p(-p).sum() - eta @ side + penalty
    slope = p - side
    by_weights = by_member.T @ (slope * by_u) + _EVEN * uneven + _SUM * uneven.sum()
    return float(value), np.concatenate([[slope @ by_u], by_weights, [slope @ by_ceiling]])
