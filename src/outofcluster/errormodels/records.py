r"""Single records leak, each by itself: the paper's error model, with losses below the leakage rate.

*A range that needs no curve*: what holds if only convexity and small clean sets are trusted.

*From below*: the steepest line through the losses of the full size, continued from p0 to no leakage. A convex curve
lies above it. Where a mass of p0 or more was removed of what looks leaked, and no loss up to 1.5 p0 rose as far as the
line, nothing supports that the curve is convex, and the largest rise that was seen takes the place of the line.

*From above*, the larger of two. Of training sets of n records the share :math:`(1-p_0)^n` is clean (43 % of sets of 8
records at p0 = 0.1). Were those with leaked records as good as the best level that was observed, the clean ones would
lose what is left of the mean of all. More clean records do not make a model worse on average, so that larger clean sets
lose no more. That is no bound where clusters contradict each other and more clean records do make a model worse; so the
largest loss that removing up to 1.5 p0 of what looks leaked has shown counts as well. Where hardly any set of the
smallest size is clean, the upper end is what the loss can be, and there is no range if the loss has no upper end.

Both ends are widened by two standard errors of the losses, and of the naive loss, and cut at what the loss can be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed, mass_of_injected
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.evidence.suspects import RateCheck
from outofcluster.inference.columns import Block, Pool
from outofcluster.inference.functional import Weights
from outofcluster.sampling.audit_samples import UNMIXED, AuditSamples, FoldSamples

_TOLD_APART, _MOST_ADDED = 0.1, 0.875
"""AUC above one half from which on the discriminator adds to probabilities of records all that it can, and how much."""
_NEARLY_EQUAL = 0.5
"""Range of the folds' rates over their mean up to which they are averaged, where they come from single records."""
_LEAST_CLEAN = 0.05
"""Share of clean sets below which a size tells nothing about them."""
_REMOVED = 1.5
_WIDEN = 2.0


@dataclass(frozen=True, eq=False)
class RecordsPooled(Pooled):
    """Single records leak: a curve over all sizes, and losses below the leakage rate where there are any."""

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles of all sizes, and that of the losses below the leakage rate where every fold has them."""
        below = all(UNMIXED in fold.runs for fold in self.folds)
        return (*self.size_roles, UNMIXED) if below else self.size_roles

    def _blocks(self) -> dict[str, tuple[Block, ...]]:
        blocks = super()._blocks()
        if UNMIXED in self.roles:
            blocks[UNMIXED] = tuple(self._unmixed(fold, position) for position, fold in enumerate(self.folds))
        return blocks

    def _unmixed(self, fold: FoldSamples, position: int) -> Block:
        """Losses below the leakage rate by increasing mass; that of the user's own model stands among them."""
        run = fold.runs[UNMIXED]
        pool = self.pool(fold.main, "validation", run, run.jackknife(self.unit_kind).evaluation)
        losses = fold.losses_by(self.unit_kind, "parts")
        deviations = (losses - losses.mean()) / fold.n_validation
        own = np.bincount(self.scored_units[position], deviations, len(self.units))[pool.units]
        at = _own_position(fold)
        return Block(
            np.insert(run.means[::-1], at, float(fold.losses_by("clusters", "parts").mean())),
            np.insert(run.standard_errors[::-1], at, 0.0),
            held_out=Pool(
                pool.units, np.insert(pool.mean[:, ::-1], at, own, axis=1), np.insert(pool.noise[::-1], at, 0.0)
            ),
        )

    def unmixed_injected(self, fold: FoldSamples) -> Array:
        """The injected fraction of every unmixed column; 0 is that of the user's own model."""
        return np.insert(fold.runs[UNMIXED].injected[::-1], _own_position(fold), 0.0)

    def masses(self, rate: float) -> Array:
        """The removed mass of every unmixed column."""
        return np.asarray(mass_of_injected(self.unmixed_injected(self.folds[0])))

    @cached_property
    def _kept(self) -> Array:
        """What is left of a leaked record at every unmixed column, one row per fold."""
        return np.stack([np.insert(fold.runs[UNMIXED].kept[::-1], _own_position(fold), 1.0) for fold in self.folds])

    @cached_property
    def has_record_rates(self) -> bool:
        """Whether the losses below the leakage rate come from probabilities of single records."""
        return UNMIXED in self.roles and "record_rates" in self.folds[0].runs[UNMIXED].problem

    @cached_property
    def _known(self) -> float | None:
        """How much such probabilities know of features and target; None without any.

        They are told more by a discriminator that tells the sides apart, up to a limit.
        """
        check = rate_check(self.samples)
        if not self.has_record_rates or check is None:
            return None
        auc = float(np.mean([fold.sides.auc for fold in self.folds if fold.sides is not None]))
        return max(check.known, _MOST_ADDED * min(max(auc - 0.5, 0.0) / _TOLD_APART, 1.0))

    def below(self, b: Array, errors: Array, rate: float, folds: slice, weights: Array) -> Unmixed | None:
        """Losses below the leakage rate, where every fold has them."""
        if UNMIXED not in self.roles:
            return None
        first = len(self.all_injected)
        return Unmixed(self.masses(rate), b[first:], errors[first:], weights @ self._kept[folds], self._known)

    def by_curve(self, curve: Curve, rates: Array, *, losses: Weights | None = None, derive: bool = True) -> Optimism:
        """The optimism by the curve; means of record rates that hardly differ between folds are averaged."""
        if self.has_record_rates and np.ptp(rates) <= _NEARLY_EQUAL * rates.mean():
            rates = np.full(len(rates), float(self.shares @ rates))
        return super().by_curve(curve, rates, losses=losses, derive=derive)

    # --- a range that needs no curve ------------------------------------------------------------------

    def bounds(self, rate: float, naive_error: float) -> tuple[float, float] | None:
        """The range of the module's head; None where the loss has no upper end and hardly any set is clean."""
        b, errors = self.shares @ self.losses, np.sqrt(self.shares**2 @ self.errors**2)
        p = self.levels(rate)
        first, rest = 0, slice(1, len(self.injected))
        apart = p[rest] - p[first]
        slopes = (b[first] - b[rest]) / apart
        spread = np.hypot(errors[first], errors[rest]) / apart
        low = max(float((slopes - _WIDEN * spread).max()), 0.0) * rate
        highest, most_removed = self._removed(rate)
        if most_removed >= rate:
            low = min(low, max(highest, 0.0))
        high = max(low, highest, self._clean_sets(rate))
        least, most = self.samples.loss_range
        if math.isinf(min(high, most)):
            return None
        around = _WIDEN * naive_error
        ends = self.naive + low - around, self.naive + high + around
        return min(max(ends[0], least), most), max(min(ends[1], most), least)

    def _removed(self, rate: float) -> tuple[float, float]:
        """By how much removing what looks leaked has raised the loss at most, and the largest mass that counts."""
        highest, most_removed = 0.0, 0.0
        if UNMIXED not in self.roles:
            return highest, most_removed
        runs = [fold.runs[UNMIXED] for fold in self.folds]
        for position, fraction in enumerate(runs[0].injected):
            mass = float(mass_of_injected(fraction))
            if 0 < mass <= _REMOVED * rate:
                error = math.sqrt(float(self.shares**2 @ [run.standard_errors[position] ** 2 for run in runs]))
                mean = float(self.shares @ [run.means[position] for run in runs])
                highest, most_removed = max(highest, mean + _WIDEN * error - self.naive), max(most_removed, mass)
        return highest, most_removed

    def _clean_sets(self, rate: float) -> float:
        """By how much clean sets of the smallest size may lose more than the full size does at the lowest level."""
        clean = (1 - rate) ** self.sizes[-1]
        if clean < _LEAST_CLEAN:
            return math.inf
        means, errors = self.columns.means(self.size_roles[-1]), self.columns.errors(self.size_roles[-1])
        smallest = self.shares @ means
        error = math.sqrt(float(self.shares**2 @ errors[:, 0] ** 2))
        most = (smallest[0] + _WIDEN * error - (1 - clean) * smallest.min()) / clean
        return float(most - self.means[0])


def _own_position(fold: FoldSamples) -> int:
    """Where the user's own model, which removes no mass, stands among the unmixed losses by increasing mass."""
    return int((fold.runs[UNMIXED].injected > 0).sum())


def rate_check(samples: AuditSamples) -> RateCheck | None:
    """What the records of all folds say about probabilities of single records; None where none were given."""
    checks = [None if fold.sides is None else fold.sides.of_rates for fold in samples.folds]
    return RateCheck.pooled([check for check in checks if check is not None])
