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

**Where the probability q_j of every record that it leaked is known**, levels are known too.
A draw of T̂ with the weights w_j = max(0, 1 - s q_j), which removes the mass μ, leaves the share ρ of a leaked record,

.. math:: ρ = \frac{\sum_j w_j q_j / \sum_j q_j}{\frac1n \sum_j w_j}, \qquad p(w) = p_0\,ρ ,

so that its level is known. There are two readings of its loss, since there are two ways in which q can be right
(:mod:`outofcluster.leakage.data`).

*By level*: where q knows nothing of (x, y), the draw is a mixture at the level p(w), and its loss a point of the same
curve as the injected levels above p0. So it is put there: the shapes of the automatic curve are fitted to all points,
with those of the thinned draws as one more size. A resample of n holds 0.632 n distinct records, so the thinned draws
count as a size of n/0.632 in the random walk of the heights. What is left to extrapolate runs from the lowest p(w)
to 0.

Such a draw also removes clean records, the share :math:`κ = [μ - p_0(1 - ρ(1-μ))]/(1-p_0)` of them, which makes the
loss rise by itself. The *control*, in which the mass m is removed from all records alike, shows by how much, and with a
loss that goes with 1/n

.. math:: L(w) - \frac{κ/(1-κ)}{m/(1-m)} \max(0, L_{control} - L(0))

is the loss at p(w) for all clean records.

*By mass*: where q is the probability given (x, y), the draw with the weights 1 - q_j has the law of the clean records,
whether or not leaked ones are left in it. Its mass is p0, so that e_0 = L(μ = p0).

The answer is the average of both, by how much q knows of (x, y): what it knew when it was given, or what the
discriminator added to it, which is taken to grow from 0 to 7/8 with its AUC from 0.5 to 0.6. (Weights by look-alikes
remove clean ones too, so that the first reading overshoots, and the second falls short by a little.)
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
from outofcluster.curves.average import AverageSolution, Rung, ShapeAverage, expected_falls

# Mean and standard deviation of η.
_EFFICIENCY, _SPREAD = 0.9, 0.1
# Prior probability that only leaked records that are gone count, not the mass.
_FAILS = 0.05
# How far, as a share of the effect, remixing may miss an injection although unmixing works.
_TOLERANCE = 0.25
_NODES = _EFFICIENCY + _SPREAD * math.sqrt(3) * np.array([-1.0, 0.0, 1.0])
_NODE_WEIGHTS = np.array([1.0, 4.0, 1.0]) / 6
# Share of distinct records in a resample.
_DISTINCT = 1 - np.exp(-1)
# Standard deviation by which draws thinned by known probabilities miss a curve, as a share of their fall.
_DISCREPANCY = 0.02


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
        and target (`RatedSolution`). A negative mass is then that of the control.
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
class UnmixedSolution(AverageSolution):
    """A curve above the leakage rate, and the losses of draws below it.

    Derivatives have one entry for each loss above and then one for each unmixed loss.
    """

    unmixed: Unmixed
    largest: float

    @property
    def e0(self) -> float:
        """The fitted loss at the lowest level plus the optimism."""
        return self._at_lowest + self.optimism

    @property
    def _rate(self) -> float:
        """p0, which is the lowest level."""
        return float(self.points.p[self.points.lowest])

    @property
    def _at_lowest(self) -> float:
        return float(self.fitted[self.points.lowest])

    @cached_property
    def _removed(self) -> Unmixed:
        """The draws that remove mass, with the observed loss at the lowest level in front where none has mass 0."""
        unmixed = self.unmixed
        columns = np.stack([unmixed.masses, unmixed.losses, unmixed.errors, unmixed.kept])[:, unmixed.removes]
        if not unmixed.has_zero:
            columns = np.column_stack([[0.0, self.points.b[self.points.lowest], 0.0, 1.0], columns])
        return Unmixed(*columns)

    @cached_property
    def clean_masses(self) -> Array:
        """μ*, the mass that leaves no leakage, at the three nodes of η."""
        return np.asarray(self._rate / (self._rate + _NODES * (1 - self._rate)))

    @cached_property
    def _rows(self) -> Array:
        """How L at each node, less L(0), is made of the losses; those beyond the largest mass stay at its loss."""
        rows = _interpolation(self._removed.masses, self.clean_masses)
        rows[:, 0] -= 1
        return rows

    @cached_property
    def by_mass(self) -> Array:
        """The optimism at each node of η, at most what the loss leaves room for."""
        return np.asarray(np.minimum(self._rows @ self._removed.losses, self.largest - self._removed.losses[0]))

    @cached_property
    def _left(self) -> float:
        """ρ at the middle node."""
        row = _interpolation(self._removed.masses, self.clean_masses[1:2])[0]
        return float(np.clip(row @ self._removed.kept, 0.0, 1.0))

    @cached_property
    def optimism_above(self) -> float:
        """The optimism of the curve above the leakage rate alone."""
        return self.average.e0 - self._at_lowest

    @cached_property
    def by_share(self) -> float:
        """The optimism if only leaked records that are gone count."""
        by_share = self._rows[1] @ self._removed.losses + self._left * self.optimism_above
        return float(min(by_share, self.largest - self._removed.losses[0]))

    @cached_property
    def optimism(self) -> float:
        """The average of both readings."""
        return self.mass_probability * self._mean_by_mass + (1 - self.mass_probability) * self.by_share

    @property
    def _mean_by_mass(self) -> float:
        return float(_NODE_WEIGHTS @ self.by_mass)

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over η, over the curves above, and over the two readings."""
        probability = self.mass_probability
        over_efficiency = float(_NODE_WEIGHTS @ (self.by_mass - self._mean_by_mass) ** 2)
        between = probability * (1 - probability) * (self._mean_by_mass - self.by_share) ** 2
        return probability * over_efficiency + (1 - probability) * self._left**2 * super().choice_variance + between

    @cached_property
    def mass_probability(self) -> float:
        """Posterior probability that the removed mass counts, by what remixing loses."""
        full = self.points.sizes == self.points.n
        order = np.argsort(self.points.p[full])
        p, b = self.points.p[full][order], self.points.b[full][order]
        errors = np.zeros(len(self.points.p)) if self.points.errors is None else self.points.errors
        at_lowest = float(errors[self.points.lowest])
        observed, lowest_loss = PchipInterpolator(p, b), float(self.points.b[self.points.lowest])
        rise = float(np.interp(self._rate, self._removed.masses, self._removed.losses) - self._removed.losses[0])
        log_odds = math.log((1 - _FAILS) / _FAILS)
        remixed = np.flatnonzero(~self.unmixed.removes)
        for i in remixed:
            mass = float(self.unmixed.masses[i])
            reached = self._rate - _EFFICIENCY * (1 - self._rate) * mass / (1 - mass)
            levels = np.minimum([reached, self._rate * self.unmixed.kept[i]], p[-1])
            by_mass, by_share = lowest_loss - observed(levels)
            fell = lowest_loss - float(self.unmixed.losses[i])
            effect = max(abs(by_mass), abs(rise))
            variance = self.unmixed.errors[i] ** 2 + 2 * at_lowest**2 + (_TOLERANCE * effect) ** 2 + 1e-18
            # Remixed losses come from the same weights: together they count as one.
            log_odds += 0.5 * ((fell - by_share) ** 2 - (fell - by_mass) ** 2) / variance / len(remixed)
        return 1 / (1 + math.exp(-min(max(log_odds, -50.0), 50.0)))

    @cached_property
    def derivative(self) -> Array:
        """How training moves e_0: through the curve above the leakage rate, since weighted draws are few."""
        return np.concatenate([super().derivative, np.zeros(len(self.unmixed.masses))])

    @cached_property
    def optimism_derivative(self) -> Array:
        """How each loss moves the optimism, with the probability of the two readings held."""
        probability = self.mass_probability
        above = (1 - probability) * self._left * super().optimism_derivative
        removed = probability * (_NODE_WEIGHTS @ self._rows) + (1 - probability) * self._rows[1]
        return self._by_all_losses(above, np.zeros(len(self.unmixed.masses)), removed)

    def _by_all_losses(self, above: Array, below: Array, removed: Array) -> Array:
        """The derivative by all losses, where ``removed`` is that by the losses from mass 0 on."""
        below[self.unmixed.removes] = removed if self.unmixed.has_zero else removed[1:]
        if not self.unmixed.has_zero:
            above[self.points.lowest] += removed[0]
        return np.concatenate([above, below])

    def values_above(self, j: Any) -> Array:
        """The curve above the leakage rate alone."""
        return super().values(j)

    def values(self, j: Any) -> Array:
        """The curve above, raised below the leakage rate so that it starts at e_0; for pictures."""
        positions = np.asarray(j, dtype=float)
        curve = self.values_above(j)
        if self._rate == 0:
            return curve
        raised = np.maximum(1 - positions / (self.points.n * self._rate), 0.0) ** 2
        return np.asarray(curve + (self.optimism - self.optimism_above) * raised)


def _interpolation(nodes: Array, at: Array) -> Array:
    """Rows of weights that interpolate values at nodes linearly; beyond the last node its own value."""
    i = np.clip(np.searchsorted(nodes, at), 1, len(nodes) - 1)
    t = np.clip((at - nodes[i - 1]) / (nodes[i] - nodes[i - 1]), 0, 1)
    rows = np.zeros((len(at), len(nodes)))
    rows[np.arange(len(at)), i - 1] = 1 - t
    rows[np.arange(len(at)), i] += t
    return rows


@dataclass(frozen=True)
class RatedSolution(UnmixedSolution):
    """A curve above the leakage rate, and the losses of draws below it whose levels are known."""

    @cached_property
    def mass_probability(self) -> float:
        """The losses below are points of known levels: they always count."""
        return 1.0

    @cached_property
    def clean_masses(self) -> Array:
        """The mass of the leaked records."""
        return np.full(3, self._rate)

    @cached_property
    def _removed_clean(self) -> Array:
        """κ/(1-κ): clean records that are gone over those that are left, at every removed mass."""
        left = self._removed.kept * (1 - self._removed.masses)
        gone = np.clip((self._removed.masses - self._rate * (1 - left)) / (1 - self._rate), 0.0, 0.99)
        return np.asarray(gone / (1 - gone))

    @cached_property
    def _control(self) -> tuple[int, float, float]:
        """The index of the control, the records that it removes over those that it leaves, and the rise of the loss.

        The rise is that for each clean record that is gone over those that are left; it is 0 without a control.
        """
        controls = np.flatnonzero(~self.unmixed.removes)
        if len(controls) == 0:
            return 0, 1.0, 0.0
        mass = -float(self.unmixed.masses[controls[0]])
        gone = mass / (1 - mass)
        rise = float(self.unmixed.losses[controls[0]] - self._removed.losses[0]) / gone
        return int(controls[0]), gone, max(rise, 0.0)

    @cached_property
    def levels(self) -> Array:
        """p(w) at every removed mass, from that of the user's own model on."""
        return np.asarray(self._rate * np.clip(self._removed.kept, 0.0, 1.0))

    @cached_property
    def _average(self) -> ShapeAverage:
        """All shapes, with the losses of the thinned draws as one more size; they amplify from its lowest level."""
        levels, n = self.levels, self.points.n
        b = self._removed.losses - self._control[2] * self._removed_clean
        fall = float(b[levels.argmin()] - b[levels.argmax()])
        variance = (_DISCREPANCY * fall) ** 2 + self._removed.errors**2 + 1e-18
        distinct, positions = np.unique(levels, return_inverse=True)
        design = expected_falls(distinct, n, n)[positions]
        rung = Rung.fit(round(n / _DISTINCT), np.arange(len(b)), design, levels, b, variance)
        return ShapeAverage((*self.average.rungs, rung), self.average.at_highest, self.largest)

    @cached_property
    def by_level(self) -> float:
        """The optimism if the draws are points of the curve at their levels; nothing where nothing leaked."""
        return min(self._average.e0, self.largest) - float(self._removed.losses[0]) if self._rate > 0 else 0.0

    @property
    def _known(self) -> float:
        return float(self.unmixed.known or 0.0)

    @cached_property
    def optimism(self) -> float:
        """The average of both readings; by mass, the draw of the mass p0 has the law of the clean records."""
        return (1 - self._known) * self.by_level + self._known * float(self.by_mass[0])

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the shapes, over how heights may change, and over the two readings."""
        if self._rate == 0:
            return 0.0
        over_shapes = self._average.variance(1 - self._average.last.centre)
        between = self._known * (1 - self._known) * (self.by_level - float(self.by_mass[0])) ** 2
        return (1 - self._known) * over_shapes + between

    @cached_property
    def optimism_derivative(self) -> Array:
        """How each loss moves the optimism, with the shares of the shapes held."""
        above, below = np.zeros(len(self.points.p)), np.zeros(len(self.unmixed.masses))
        if self._rate == 0:
            return np.concatenate([above, below])
        last, unknown = self._average.last, 1 - self._known
        *slopes, removed = self._average.slopes(1 - last.centre)
        for rung, slope in zip(self.average.rungs, slopes, strict=True):
            above[rung.columns] = unknown * slope
        removed = removed + last.precision / last.precision.sum()
        by_size = -float(removed @ self._removed_clean)
        removed[0] -= 1
        index, gone, rise = self._control
        if rise > 0:
            below[index] = unknown * by_size / gone
            removed[0] -= by_size / gone
        return self._by_all_losses(above, below, unknown * removed + self._known * self._rows[0])
