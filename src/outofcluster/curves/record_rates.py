r"""Losses below the leakage rate where the probability of every record that it leaked is known.

A draw of T̂ with the weights w_j = max(0, 1 - s q_j), which removes the mass μ, leaves the share ρ of a leaked record,

.. math:: ρ = \frac{\sum_j w_j q_j / \sum_j q_j}{\frac1n \sum_j w_j}, \qquad p(w) = p_0\,ρ ,

so that its level is known. There are two readings of its loss, since there are two ways in which q can be right
(:mod:`outofcluster.leakage.records`).

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

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.curves.average import AverageSolution, Filtered, Rung, expected_falls, shape_shares
from outofcluster.curves.unmixing import UnmixedSolution, interpolation

_DISTINCT = 1 - np.exp(-1)
"""Share of distinct records in a resample."""
_DISCREPANCY = 0.02
"""Standard deviation by which the thinned draws miss a curve, as a share of their fall."""


@dataclass(frozen=True)
class RatedSolution(UnmixedSolution):
    """A curve above the leakage rate, and the losses of draws below it whose levels are known.

    Derivatives have one entry for each loss above and then one for each loss below, as those of `UnmixedSolution`.
    """

    above: AverageSolution

    @cached_property
    def works(self) -> float:
        """The losses below are points of known levels: they always count."""
        return 1.0

    @cached_property
    def needed(self) -> Array:
        """The mass of the leaked records."""
        return np.full(3, self._rate)

    @cached_property
    def _removed_clean(self) -> Array:
        """κ/(1-κ): clean records that are gone over those that are left, at every removed mass."""
        kept = self._from_zero(1.0, self.unmixed.kept)
        gone = (self._masses - self._rate * (1 - kept * (1 - self._masses))) / (1 - self._rate)
        gone = np.clip(gone, 0.0, 0.99)
        return np.asarray(gone / (1 - gone))

    @cached_property
    def _control(self) -> tuple[int, float] | None:
        """The place of the control among the unmixed losses, and the records that it removes over those it leaves."""
        controls = np.flatnonzero(~self.unmixed.removes)
        if len(controls) == 0:
            return None
        mass = -float(self.unmixed.masses[controls[0]])
        return int(controls[0]), mass / (1 - mass)

    @cached_property
    def _of_size(self) -> float:
        """By how much the loss rises for each clean record that is gone over those that are left, at least 0."""
        if self._control is None:
            return 0.0
        place, removed = self._control
        return max(float(self.unmixed.losses[place] - self._losses[0]) / removed, 0.0)

    @cached_property
    def levels(self) -> Array:
        """p(w) at every removed mass, from that of the user's own model on."""
        kept = self._from_zero(1.0, self.unmixed.kept)
        return np.asarray(self._rate * np.clip(kept, 0.0, 1.0))

    @cached_property
    def _rung(self) -> Rung:
        """The losses of the thinned draws as one more size."""
        b = self._losses - self._of_size * self._removed_clean
        errors = self._from_zero(0.0, self.unmixed.errors)
        fall = float(b[self.levels.argmin()] - b[self.levels.argmax()])
        variance = (_DISCREPANCY * fall) ** 2 + errors**2 + 1e-18
        n = self.points.n
        size = round(n / _DISTINCT)
        distinct, places = np.unique(self.levels, return_inverse=True)
        design = expected_falls(distinct, n, n)[places]
        return Rung(size, np.arange(len(b)), design, self.levels, b, 1 / variance)

    @cached_property
    def _rungs(self) -> tuple[Rung, ...]:
        return (*self.above.rungs, self._rung)

    @cached_property
    def _filtered(self) -> Filtered:
        return Filtered.of(self._rungs)

    @cached_property
    def _heights(self) -> Array:
        return np.maximum(self._filtered.heights, 0.0)

    @cached_property
    def _at_zero(self) -> Array:
        """The loss without leakage, of each shape."""
        return np.asarray(self._rung.mean + self._heights * (1 - self._rung.centre))

    @cached_property
    def _shares(self) -> Array:
        """π: how much each shape counts; it amplifies from the lowest level of all to none."""
        highest = self.above.rungs[-1].design[self.above.rungs[-1].p.argmax()]
        seen = np.maximum(self._rung.at_lowest - highest, 1e-300)
        return shape_shares(self._rungs, self._filtered, (1 - highest) / seen, self._at_zero <= self.largest)

    @cached_property
    def by_level(self) -> float:
        """The optimism if the draws are points of the curve at their levels; nothing where nothing leaked."""
        if self._rate == 0:
            return 0.0
        at_zero = self._rung.mean + float(self._shares @ (self._at_zero - self._rung.mean))
        return min(at_zero, self.largest) - float(self._losses[0])

    @cached_property
    def _row(self) -> Array:
        """How L - L(0) at the mass of the leaked records is made of the losses."""
        row: Array = interpolation(self._masses, self.needed[:1])[0]
        row[0] -= 1
        return row

    @cached_property
    def by_law(self) -> float:
        """The optimism if the draw of the mass p0 has the law of the clean records."""
        return min(float(self._row @ self._losses), self.largest - float(self._losses[0]))

    @property
    def _known(self) -> float:
        return float(self.unmixed.known or 0.0)

    @cached_property
    def optimism(self) -> float:
        """The average of both readings."""
        return (1 - self._known) * self.by_level + self._known * self.by_law

    @property
    def choice_variance(self) -> float:
        """Variance of the optimism over the shapes, over how heights may change, and over the two readings."""
        if self._rate == 0:
            return 0.0
        shares, moved = self._shares, self._at_zero - self._rung.mean
        mean = float(shares @ moved)
        over_shapes = float(shares @ (moved - mean) ** 2) + max(1 - float(shares.sum()), 0.0) * mean**2
        over_shapes += float(shares @ (self._filtered.drift * (1 - self._rung.centre) ** 2))
        between = self._known * (1 - self._known) * (self.by_level - self.by_law) ** 2
        return (1 - self._known) * over_shapes + between

    @cached_property
    def optimism_derivative(self) -> Array:
        """How each loss moves the optimism, with the shares of the shapes held."""
        if self._rate == 0:
            return np.zeros(len(self.points.p) + len(self.unmixed.masses))
        weight = self._shares * (1 - self._rung.centre) * (self._filtered.heights > 0)
        above = np.zeros(len(self.points.p))
        *gains, own_gain = self._filtered.gains
        for rung, gain in zip(self.above.rungs, gains, strict=True):
            above[rung.columns] = (1 - self._known) * (rung.slopes @ (weight * gain))
        rung = self._rung
        of_removed = rung.slopes @ (weight * own_gain) + rung.precision / rung.precision.sum()
        of_size = -float(of_removed @ self._removed_clean)
        of_removed[0] -= 1
        below = np.zeros(len(self.unmixed.masses))
        if self._control is not None and self._of_size > 0:
            place, removed = self._control
            below[place] = (1 - self._known) * of_size / removed
            of_removed[0] -= of_size / removed
        of_removed = (1 - self._known) * of_removed + self._known * self._row
        below[self.unmixed.removes] = of_removed if self.unmixed.has_zero else of_removed[1:]
        if not self.unmixed.has_zero:
            above[self._lowest] += of_removed[0]
        return np.concatenate([above, below])
