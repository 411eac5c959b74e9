r"""Losses below the leakage rate: what draws that leave leaked records out say about e_0.

Which records leaked is partly visible in the records themselves. With r = dP_V/dT̂ the density ratio of V̂ to T̂, a
draw of T̂ with the weights max(0, 1 - s r), whose mean is 1 - μ, *removes the mass* μ of what looks like V̂. With the
true ratio its level is :math:`p_0 - (1-p_0)\,μ/(1-μ)`, which is the injected fraction a = -μ/(1-μ) < 0. The ratio is
estimated, so that a share η of this is reached,

.. math:: p(μ) = p_0 - η(1-p_0)\frac μ{1-μ}, \qquad\text{so}\qquad
          e_0 = L(μ^*), \quad μ^*(η) = \frac{p_0}{p_0 + η(1-p_0)} ,

with L(μ) the loss of the learner on such draws, or on T̂ *thinned* with these weights as probabilities: then L(0) is
the loss of the user's own model, and nothing is drawn with replacement. The loss at μ* is *drawn*, and nothing is
extrapolated. η is taken to be normal with mean 0.9 and standard deviation 0.1, the optimism is the mean of L(μ*(η)) -
L(0) over it (three nodes of Gauss and Hermite), and its variance over η is part of the variance of the choice.

*Where it does not hold.* A learner may profit from leaked records that nothing tells apart: it memorises them, or the
clusters are too small to be learnt. Then the removal of clean records that look like V̂ undoes nothing, and only
leaked records that are really gone count. How many are gone is known: a leaked record and a held-out record that did
not teach the ratio have ratios of the same law, so that a leaked record keeps the mean weight m_V of held-out V̂, and
with m_T that of T̂ the level is :math:`p_0\,ρ`, ρ = m_V/m_T. Of the optimism the share ρ is left, for which the curve
above p0 is taken. The two readings, *by mass* and *by share*, are told apart by *remixing*: negative masses add
V̂-like mass, weights 1 + \|s\| r, and what a true injection to either level loses is observed. Their likelihood (with
a tolerance of a quarter of the effect, since remixing and unmixing are not the same) turns prior odds of 19 to 1 into
a probability, and the answer is the average. Where the sides are far apart both readings agree.

*Choice of the constants.* 0.9, 0.1, 19 to 1 and the quarter were chosen on some worlds and judged on others; the page
on levels below the leakage rate names them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from outofcluster._base.arguments import Array, check_vector
from outofcluster._base.exceptions import InputError
from outofcluster.curves.base import Solution
from outofcluster.curves.points import Points

_EFFICIENCY, _SPREAD = 0.9, 0.1
"""Mean and standard deviation of η."""
_FAILS = 0.05
"""Prior probability that only leaked records that are gone count, not the mass."""
_TOLERANCE = 0.25
"""How far, as a share of the effect, remixing may miss an injection although unmixing works."""
_NODES = _EFFICIENCY + _SPREAD * math.sqrt(3) * np.array([-1.0, 0.0, 1.0])
_NODE_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6


def mass_of_injected(injected: Any) -> Any:
    """The removed mass that a negative injected fraction stands for, μ = -a/(1 - a); a positive one adds mass."""
    return -np.asarray(injected) / (1 - np.asarray(injected))


def injected_of_mass(mass: Any) -> Any:
    """The injected fraction that a removed mass stands for, a = -μ/(1 - μ)."""
    return -np.asarray(mass) / (1 - np.asarray(mass))


@dataclass(frozen=True, eq=False)
class Unmixed:
    """Losses of draws that remove mass, for the largest size of training sets.

    Attributes
    ----------
    masses : array of shape (k,)
        Removed masses, increasing; negative ones were added. The loss at 0 is that of the user's own model where 0 is
        among them, else the loss at the lowest level.
    losses, errors : array of shape (k,)
        Mean losses, and their Monte-Carlo standard errors.
    kept : array of shape (k,)
        ρ = m_V/m_T: what is left of a leaked record.
    known : float or None
        Where the probability of every record that it leaked is known, how much these probabilities know of features
        and target (:mod:`outofcluster.curves.record_rates`). A negative mass is then that of the control.
    """

    masses: Array
    losses: Array
    errors: Array
    kept: Array
    known: float | None = None

    def __post_init__(self) -> None:
        for name in ("masses", "losses", "errors", "kept"):
            object.__setattr__(self, name, check_vector(name, getattr(self, name)))
        if not (np.diff(self.masses) > 0).all() or self.masses[-1] >= 1:
            raise InputError(f"masses must increase and stay below 1, got {self.masses.tolist()}.")
        if self.masses[-1] <= 0:
            raise InputError("masses must hold at least one above 0, got none.")

    @property
    def has_zero(self) -> bool:
        """Whether the loss of the user's own model is among the losses."""
        return bool((self.masses == 0).any())

    @property
    def removes(self) -> NDArray[np.bool_]:
        """Which of the losses are those of no or of removed mass; the others come from added mass."""
        return np.asarray(self.masses >= 0)


@dataclass(frozen=True)
class UnmixedSolution(Solution):
    """A curve above the leakage rate, and the losses of draws below it.

    Derivatives have one entry for each loss above and then one for each unmixed loss.
    """

    above: Solution
    unmixed: Unmixed
    largest: float

    @property
    def points(self) -> Points:  # type: ignore[override]
        """The losses above the leakage rate."""
        return self.above.points

    @property
    def e0(self) -> float:
        """The fitted loss at the lowest level plus the optimism."""
        return self._at_lowest + self.optimism

    @property
    def fitted(self) -> Array:
        """The curve above the leakage rate."""
        return self.above.fitted

    @property
    def condition(self) -> float:
        """That of the curve above the leakage rate."""
        return self.above.condition

    @property
    def _lowest(self) -> int:
        return self.points.lowest

    @property
    def _rate(self) -> float:
        """p0, which is the lowest level."""
        return float(self.points.p[self._lowest])

    @property
    def _at_lowest(self) -> float:
        return float(self.above.fitted[self._lowest])

    @property
    def _observed(self) -> float:
        """The observed loss at the lowest level, L(0)."""
        return float(self.points.b[self._lowest])

    def _from_zero(self, at_zero: float, values: Array) -> Array:
        """Values of the draws that remove mass, with one at mass 0 in front where they have none of their own."""
        removed = values[self.unmixed.removes]
        return removed if self.unmixed.has_zero else np.concatenate([[at_zero], removed])

    @cached_property
    def _masses(self) -> Array:
        """Removed masses from 0 on."""
        return self._from_zero(0.0, self.unmixed.masses)

    @cached_property
    def _losses(self) -> Array:
        return self._from_zero(self._observed, self.unmixed.losses)

    @cached_property
    def needed(self) -> Array:
        """μ* at the three nodes of η."""
        return np.asarray(self._rate / (self._rate + _NODES * (1 - self._rate)))

    @cached_property
    def _rows(self) -> Array:
        """How L at each node, less L(0), is made of the losses; those beyond the largest mass stay at its loss."""
        rows = interpolation(self._masses, self.needed)
        rows[:, 0] -= 1
        return rows

    @cached_property
    def by_mass(self) -> Array:
        """The optimism at each node of η, at most what the loss leaves room for."""
        most: Array = np.minimum(self._rows @ self._losses, self.largest - self._losses[0])
        return most

    @cached_property
    def _left(self) -> float:
        """ρ at the middle node."""
        kept = self._from_zero(1.0, self.unmixed.kept)
        return float(np.clip(interpolation(self._masses, self.needed[1:2])[0] @ kept, 0.0, 1.0))

    @cached_property
    def optimism_above(self) -> float:
        """The optimism of the curve above the leakage rate alone."""
        return self.above.e0 - self._at_lowest

    @cached_property
    def by_share(self) -> float:
        """The optimism if only leaked records that are gone count."""
        reached = float(self._rows[1] @ self._losses) + self._left * self.optimism_above
        return min(reached, self.largest - float(self._losses[0]))

    @cached_property
    def optimism(self) -> float:
        """The average of both readings."""
        return self.works * self._mean_by_mass + (1 - self.works) * self.by_share

    @property
    def _mean_by_mass(self) -> float:
        return float(_NODE_WEIGHTS @ self.by_mass)

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over η, over the curves above, and over the two readings."""
        over_efficiency = float(_NODE_WEIGHTS @ (self.by_mass - self._mean_by_mass) ** 2)
        between = self.works * (1 - self.works) * (self._mean_by_mass - self.by_share) ** 2
        return self.works * over_efficiency + (1 - self.works) * self._left**2 * self.above.choice_variance + between

    @cached_property
    def works(self) -> float:
        """Posterior probability that the removed mass counts, by what remixing loses."""
        full = self.points.sizes == self.points.n
        order = np.argsort(self.points.p[full])
        p, b = self.points.p[full][order], self.points.b[full][order]
        errors = np.zeros(len(self.points.p)) if self.points.errors is None else self.points.errors
        at_lowest = float(errors[self._lowest])
        observed = PchipInterpolator(p, b)
        rise = float(np.interp(self._rate, self._masses, self._losses) - self._losses[0])
        log_odds = math.log((1 - _FAILS) / _FAILS)
        remixed = np.flatnonzero(~self.unmixed.removes)
        for i in remixed:
            mass = float(self.unmixed.masses[i])
            levels = (
                self._rate - _EFFICIENCY * (1 - self._rate) * mass / (1 - mass),
                self._rate * float(self.unmixed.kept[i]),
            )
            by_mass, by_share = (self._observed - float(observed(min(level, p[-1]))) for level in levels)
            fell = self._observed - float(self.unmixed.losses[i])
            effect = max(abs(by_mass), abs(rise))
            variance = self.unmixed.errors[i] ** 2 + 2 * at_lowest**2 + (_TOLERANCE * effect) ** 2 + 1e-18
            # Remixed losses come from the same weights: together they count as one.
            log_odds += 0.5 * ((fell - by_share) ** 2 - (fell - by_mass) ** 2) / variance / len(remixed)
        return 1 / (1 + math.exp(-min(max(log_odds, -50.0), 50.0)))

    @cached_property
    def derivative(self) -> Array:
        """How training moves e_0: through the curve above the leakage rate, since weighted draws are few."""
        above = self.above.derivative
        moved: Array = np.zeros(len(self.points.p)) if above is None else above
        return np.concatenate([moved, np.zeros(len(self.unmixed.masses))])

    @cached_property
    def optimism_derivative(self) -> Array:
        """How each loss moves the optimism, with the probability of the two readings held."""
        of_removed = self.works * (_NODE_WEIGHTS @ self._rows) + (1 - self.works) * self._rows[1]
        above: Array = np.zeros(len(self.points.p))
        if self.above.optimism_derivative is not None:
            above = (1 - self.works) * self._left * self.above.optimism_derivative
        below = np.zeros(len(self.unmixed.masses))
        below[self.unmixed.removes] = of_removed if self.unmixed.has_zero else of_removed[1:]
        if not self.unmixed.has_zero:
            above[self._lowest] += of_removed[0]
        return np.concatenate([above, below])

    def values(self, j: Any) -> Array:
        """The curve above, raised below the leakage rate so that it starts at e_0; for pictures."""
        positions = np.asarray(j, dtype=float)
        curve = np.asarray(self.above.values(j), dtype=float)
        if self._rate == 0:
            return curve
        raised = np.maximum(1 - positions / (self.points.n * self._rate), 0.0) ** 2
        return np.asarray(curve + (self.optimism - self.optimism_above) * raised)


def interpolation(nodes: Array, at: Array) -> Array:
    """Rows of weights that interpolate values at nodes linearly; beyond the last node its own value."""
    i = np.clip(np.searchsorted(nodes, at), 1, len(nodes) - 1)
    t = np.clip((at - nodes[i - 1]) / (nodes[i] - nodes[i - 1]), 0, 1)
    rows = np.zeros((len(at), len(nodes)))
    rows[np.arange(len(at)), i - 1] = 1 - t
    rows[np.arange(len(at)), i] += t
    return rows
