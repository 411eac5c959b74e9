r"""All folds as one problem: pooled losses, and the correction that a curve derives from them.

With ω_f the share of the held-out records that fold f scores (or 1/K of K folds, for metrics that are means over folds,
such as AUC), the pooled loss at level i is :math:`b_i = \sum_f ω_f b_{fi}`, and the curve is fitted to it; i runs over
the levels of every size of training sets, where there are several and the curve learns from them. What is reported is
the user's own cross-validated loss plus the curve's optimism, its rise from the lowest level to no leakage,

.. math:: \text{corrected} = \text{naive} + (\hat e_0 - \hat b(0)) ,

since a resample is not the user's training set, but the *difference* that it measures holds for that as well. At p0 = 0
it is 0.

*Fragments.* Let a cluster gain G when a piece of it joins training, and g more when a second one does. With rho'
the share of leaked records among those scored (:mod:`outofcluster.evidence.laws`), an injection at level a lowers the
loss by :math:`a[(1-ρ')G + ρ'g]`, and the naive loss is too low by :math:`ρ_0 G`. So the curve is fitted to
:math:`b_i + a_i ρ' g` at the levels :math:`ρ' + (1-ρ')a_i`, and its optimism, ρ'G, counts ρ0/ρ' times. g comes
from samples of its own, in which a piece of every cluster trains already. Where the likeliest pieces of held-out
entities can be told, models without them give a second estimate (:mod:`outofcluster.inference.pieces`). Where no
audited entities show how linkage cuts, half of the replicates chip single records off and half cut at random. Solved
apart, they give the optimisms :math:`O_1` and :math:`O_2`. A linkage may cut in one of the two ways only, and with even
odds the variance of the choice is :math:`(O_1 - O_2)^2/4`, from which the noise of the fits, that of their mean, is
taken away. And no imitated cut is quite like a real one, even if its law is known: the optimism O has a relative error
of standard deviation ε = 0.15, so that :math:`(εO)^2` is added as well.

*Influences* add over folds: cluster c trains in some folds and is scored in one. With :math:`\bar T_{ic}` its
pooled influence on b_i through training, :math:`\bar E_{ic}` that through evaluation, and :math:`v_c` that on the
evaluation of naive (its records' deviations from the mean), the influence on the corrected loss is

.. math:: D_c = \sum_i w_i \bar T_{ic} + v_c + \sum_i o_i \bar E_{ic} ,

o the weights of the optimism, w = o plus those of the fitted loss at the lowest level, since training is taken to
move naive as it moves that. Where clusters are the units, :math:`\bar T` leaves out what a cluster of V̂ does when
its records are injected: were the cluster another one, the records of it that leaked into T̂ would be other ones
too, in the same proportion. So its influence on b(p) is some τ_c(p) with τ_c(0) = 0, of which the injected records
show only the share a/p. Extrapolated to p = 0 all of it vanishes, while the visible part would not. Records leak
independently of each other: where they are the units, their training counts. o and w are the weights of the curve
method, or its derivatives where it is not linear.

*Means over folds.* There v_c sums :math:`(ℓ - \text{naive})/(K n_f)` over the unit's records of fold f. Deviations from
the fold's own loss would sum to 0 in each of K folds, which costs K degrees of freedom; those from naive cost one.

*Leakage both ways*: :mod:`outofcluster.inference.directions` has the formulas. The losses that a curve is fitted to
are then made of those of both sides, and what records that are held out by mistake do to the naive loss is part of the
optimism.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed, mass_of_injected
from outofcluster.evidence.laws import KINDS, AssumedCuts, scored_rate
from outofcluster.inference.directions import Both, TrainSide, rescaled_masses
from outofcluster.inference.influences import FoldInfluences, unmixed_place
from outofcluster.inference.optimism import Optimism
from outofcluster.inference.pieces import TwoReadings
from outofcluster.inference.problem import Problem
from outofcluster.sampling.audit_samples import AuditSamples, FoldSamples

Codes = NDArray[np.int64]

_TOLD_APART, _MOST_ADDED = 0.1, 0.875
"""AUC above one half from which on the discriminator adds to probabilities of records all that it can, and how much."""
_OF_IMITATION = 0.15
"""ε: relative error of an optimism by imitated cuts."""
_NEARLY_EQUAL = 0.5
"""Range of the folds' rates over their mean up to which they are averaged, where they come from single records."""


@dataclass(frozen=True)
class Pooled:
    """The samples of all folds, pooled, for one kind of units.

    Attributes
    ----------
    samples : AuditSamples
        The samples.
    unit_kind : {"clusters", "records"}
        What counts as one independent unit.
    reverse : float
        r0: the share of the held-out records that truly belong to training clusters.
    """

    samples: AuditSamples
    unit_kind: str
    reverse: float = 0.0

    @cached_property
    def shares(self) -> Array:
        """ω: the share of the scored records that each fold has, or the same for all where folds are pooled as such."""
        if self.samples.metric.pool == "folds":
            return np.full(self.n_folds, 1 / self.n_folds)
        counts = np.array([fold.n_validation for fold in self.samples.folds], dtype=float)
        shares: Array = counts / counts.sum()
        return shares

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.samples.folds)

    @property
    def injected(self) -> Array:
        """The levels of the full size, the same in every fold."""
        return self.samples.folds[0].samples.injected

    @cached_property
    def all_injected(self) -> Array:
        """The level of every column."""
        return np.concatenate([samples.injected for samples in self.samples.folds[0].by_size])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the training sets, the full one first, averaged over folds where they differ."""
        by_fold = np.array([[samples.size for samples in fold.by_size] for fold in self.samples.folds])
        return tuple(round(float(np.average(sizes, weights=self.shares))) for sizes in by_fold.T)

    @cached_property
    def has_unmixed(self) -> bool:
        """Whether every fold has losses below the leakage rate; they are the last columns, by increasing mass."""
        return all(fold.unmixed is not None for fold in self.samples.folds)

    @cached_property
    def _masses(self) -> Array:
        """The removed mass of every unmixed column; 0 is that of the user's own model."""
        unmixed = self.samples.folds[0].unmixed
        assert unmixed is not None
        return np.insert(mass_of_injected(unmixed.injected)[::-1], unmixed_place(unmixed), 0.0)

    def _with_unmixed(self, plain: Array, fold: FoldSamples, name: str, own: float) -> Array:
        """A fold's plain columns and then its unmixed ones, with the value of the user's own model at its place."""
        if not self.has_unmixed:
            return plain
        assert fold.unmixed is not None
        values = getattr(fold.unmixed, name)[::-1]
        return np.concatenate([plain, np.insert(values, unmixed_place(fold.unmixed), own)])

    @cached_property
    def losses(self) -> Array:
        """Mean losses, one row per fold and one column per level, those of the full size first."""
        rows = []
        for fold in self.samples.folds:
            plain = np.concatenate([samples.means for samples in fold.by_size])
            rows.append(self._with_unmixed(plain, fold, "means", float(fold.losses_by("clusters", "parts").mean())))
        return np.stack(rows)

    @cached_property
    def errors(self) -> Array:
        """Monte-Carlo standard errors of these."""
        rows = []
        for fold in self.samples.folds:
            plain = np.concatenate([samples.standard_errors for samples in fold.by_size])
            rows.append(self._with_unmixed(plain, fold, "standard_errors", 0.0))
        return np.stack(rows)

    @cached_property
    def _kept(self) -> Array:
        """What is left of a leaked record at every unmixed column, one row per fold."""
        return np.stack([self._with_unmixed(np.zeros(0), fold, "kept", 1.0) for fold in self.samples.folds])

    @cached_property
    def has_record_rates(self) -> bool:
        """Whether the losses below the leakage rate come from probabilities of single records that were given."""
        first = self.samples.folds[0].unmixed
        return self.has_unmixed and first is not None and "record_rates" in first.problem

    @cached_property
    def _known(self) -> float | None:
        """How much such probabilities know of features and target; None without any.

        They know what they knew when they were given, and what tells the two sides of a split apart, which was added to
        them.
        """
        check = self.samples.rate_check
        if not self.has_record_rates or check is None:
            return None
        auc = float(np.mean([fold.sides.auc for fold in self.samples.folds if fold.sides is not None]))
        return max(check.known, _MOST_ADDED * min(max(auc - 0.5, 0.0) / _TOLD_APART, 1.0))

    @cached_property
    def _train_sides(self) -> list[TrainSide]:
        """The losses on training records of every fold, for leakage both ways."""
        sides = list[TrainSide]()
        for fold in self.samples.folds:
            below = np.zeros(0)
            if self.has_unmixed and fold.unmixed is not None:
                below = np.insert(fold.unmixed.injected[::-1], unmixed_place(fold.unmixed), 0.0)
                # A control removes records alike, which injects nothing.
                below = np.minimum(below, 0.0) if self.has_record_rates else below
            sides.append(TrainSide.of(fold, below))
        return sides

    def _of_both_sides(self, b: Array, errors: Array, rate: float, place: int | None) -> tuple[Array, Array]:
        """Losses under the law of the held-out clusters and their errors, of one fold or of all together."""
        if not self.reverse:
            return b, errors
        both = Both.at(rate, self.reverse)
        of_train: Array
        noise: Array
        if place is None:
            of_train = self.shares @ np.array([side.losses for side in self._train_sides])
            noise = self.shares**2 @ np.array([side.errors**2 for side in self._train_sides])
        else:
            of_train, noise = self._train_sides[place].losses, self._train_sides[place].errors ** 2
        variance = both.of_validation**2 * errors**2 + both.of_train**2 * noise
        # What is left after noisy losses were taken off can be less than a loss can be.
        apart = np.maximum(both.of_validation * b - both.of_train * of_train, self.samples.loss_range[0])
        return apart, np.sqrt(variance)

    def _with_gaps(self, by_curve: Optimism, rates: Array) -> Optimism:
        """The optimism with what records that are held out by mistake do to the naive loss."""
        if not self.reverse:
            return by_curve
        both = [Both.at(rate, self.reverse) for rate in rates]
        of_validation, of_train = (
            np.array([getattr(one, name) for one in both]) for name in ("of_validation", "of_train")
        )
        gaps = self.shares * of_train
        apart = [
            float(fold.own_losses.mean()) - side.own
            for fold, side in zip(self.samples.folds, self._train_sides, strict=True)
        ]
        return replace(
            by_curve,
            value=by_curve.value + float(gaps @ np.array(apart)),
            weights=of_validation[:, None] * by_curve.weights,
            training=of_validation[:, None] * by_curve.training,
            gaps=gaps,
            of_train=-of_train[:, None] * by_curve.weights,
        )

    def gap_influence(self, gaps: Array | None) -> Array:
        """The influence of every unit on a weighted sum of the folds' gaps between held-out and training records."""
        influence = np.zeros(len(self.units))
        if gaps is None:
            return influence
        for gap, fold in zip(gaps, self.samples.folds, strict=True):
            assert fold.train_scores is not None
            for sign, losses, units in (
                (1, fold.own_losses, fold.scored_units(self.unit_kind)),
                (-1, fold.train_scores.losses, fold.train_scores.units(self.unit_kind)),
            ):
                moved = sign * gap * (losses - losses.mean()) / len(losses)
                influence += np.bincount(np.searchsorted(self.units, units), moved, len(self.units))
        return influence

    @cached_property
    def means(self) -> Array:
        """Pooled losses b of the full size."""
        pooled: Array = (self.shares @ self.losses)[: len(self.injected)]
        return pooled

    @cached_property
    def monte_carlo(self) -> Array:
        """Monte-Carlo variance of each pooled loss of the full size."""
        return self._pooled_variance[: len(self.injected)]

    @cached_property
    def _pooled_variance(self) -> Array:
        variance: Array = self.shares**2 @ self.errors**2
        return variance

    @cached_property
    def second_gains(self) -> Array:
        """The second piece's gain g in each fold, 0 where it was not sampled."""
        means = [fold.second.means if fold.second is not None else np.zeros(2) for fold in self.samples.folds]
        return np.array([mean[0] - mean[1] for mean in means])

    @cached_property
    def _piece_shares(self) -> Array:
        """The share of each fold in the records that lose a likely piece; zeros where there are none."""
        runs = [fold.without_pieces for fold in self.samples.folds]
        counts = np.array([0 if run is None else run.size for run in runs], dtype=float)
        shares: Array = counts / max(counts.sum(), 1.0)
        return shares

    @cached_property
    def _drops(self) -> Array:
        """Δ in each fold: how much the loss rises without the likeliest pieces, 0 where that was not sampled."""
        runs = [fold.without_pieces for fold in self.samples.folds]
        means = [np.zeros(2) if run is None else run.means for run in runs]
        return np.array([mean[0] - mean[1] for mean in means])

    def piece_influence(self, weights: Array | None) -> Array:
        """The influence of every unit on a weighted sum of Δ over folds."""
        influence = np.zeros(len(self.units))
        if weights is None:
            return influence
        for weight, (_, validation, own) in zip(weights, self._influences, strict=True):
            if own.without_pieces is not None:
                influence[validation] += weight * (own.without_pieces.mean @ np.array([1.0, -1.0]))
        return influence

    def piece_noise(self, weights: Array | None) -> float:
        """Monte-Carlo variance of a weighted sum of Δ over folds."""
        if weights is None:
            return 0.0
        runs = [fold.without_pieces for fold in self.samples.folds]
        errors = [0.0 if run is None else float((run.standard_errors**2).sum()) for run in runs]
        return float(weights**2 @ np.array(errors))

    @cached_property
    def _n_losing(self) -> int:
        """Number of units with records that lose a likely piece."""
        return int(np.count_nonzero(self.piece_influence(self._piece_shares)))

    @cached_property
    def _drop_variance(self) -> float:
        """Variance of Δ over all folds: between the units that it is a mean over, and from the fits."""
        influence = self.piece_influence(self._piece_shares)
        units = self._n_losing
        between = units / max(units - 1, 1) * float((influence**2).sum())
        return between + self.piece_noise(self._piece_shares)

    def _with_pieces(self, by_curve: Optimism, rate: float) -> Optimism:
        """The optimism of a curve, and what the losses without the likeliest pieces say about it."""
        if not self._piece_shares.any():
            return by_curve
        readings = TwoReadings(
            by_curve.value,
            rate * float(self._piece_shares @ self._drops),
            self.monte_carlo_of(by_curve),
            rate**2 * self._drop_variance,
            self._n_losing,
        )
        left = 1 - readings.weight
        return replace(
            by_curve,
            value=readings.value,
            weights=left * by_curve.weights,
            training=by_curve.training - readings.weight * by_curve.weights,
            second=left * by_curve.second,
            choice=left**2 * by_curve.choice + readings.choice,
            drops=readings.weight * rate * self._piece_shares,
            readings=readings,
        )

    @cached_property
    def naive(self) -> float:
        """Mean of the user's own losses over all held-out records, or over folds."""
        if self.samples.metric.pool == "folds":
            return float(np.mean([fold.own_losses.mean() for fold in self.samples.folds]))
        return float(np.concatenate(self._pooled_losses("clusters")).mean())

    def _pooled_losses(self, units: str) -> list[Array]:
        return [fold.losses_by(units, "pooled") for fold in self.samples.folds]

    @cached_property
    def units(self) -> Codes:
        """The units that occur."""
        sums = [fold.samples.sums[self.unit_kind] for fold in self.samples.folds]
        return np.unique(np.concatenate([units for own in sums for units in (own.train_units, own.validation_units)]))

    @cached_property
    def _scored_units(self) -> Codes:
        """The unit of every held-out record, in the order of the folds."""
        return np.concatenate([fold.scored_units(self.unit_kind) for fold in self.samples.folds])

    @cached_property
    def n_scored(self) -> int:
        """Number of units with scored records."""
        return len(np.unique(self._scored_units))

    @cached_property
    def naive_influence(self) -> Array:
        """v: what the records of each unit add to the evaluation of naive."""
        places = np.searchsorted(self.units, self._scored_units)
        if self.samples.metric.pool == "folds":
            losses = [fold.losses_by(self.unit_kind) for fold in self.samples.folds]
            moved = np.concatenate([(own - self.naive) / (self.n_folds * len(own)) for own in losses])
        else:
            moved = (np.concatenate(self._pooled_losses(self.unit_kind)) - self.naive) / len(places)
        return np.asarray(np.bincount(places, moved, len(self.units)), dtype=float)

    # --- the curve ------------------------------------------------------------------------------------

    def levels(self, rate: float) -> tuple[float, Array]:
        """The share of leaked records among those scored without injection, and in every column."""
        inner = rate
        if self.samples.error_model == "fragments":
            inner = max(scored_rate(self.samples.cluster_sizes, rate, self.samples.pieces), 1e-3 * rate)
        return inner, inner + (1 - inner - self.reverse) * self.all_injected

    def _columns(self, curve: Curve) -> int:
        """Number of columns that a curve is fitted to; those of the full size come first."""
        return len(self.all_injected) if curve.needs.sizes else len(self.injected)

    def _sizes_of(self, curve: Curve, sizes: tuple[int, ...]) -> Any:
        """One size for a curve that takes one, otherwise one size per column."""
        if len(sizes) == 1 or not curve.needs.sizes:
            return sizes[0]
        return np.repeat(sizes, [len(samples.injected) for samples in self.samples.folds[0].by_size])

    def fit(self, curve: Curve, rate: float) -> Curve:
        """A curve of the same parameters, fitted to the pooled losses."""
        kept = self.shares @ self._kept if self.has_unmixed else None
        errors = np.sqrt(self._pooled_variance)
        gain = float(self.shares @ self.second_gains)
        b, errors = self._of_both_sides(self.shares @ self.losses, errors, rate, None)
        return self._problem(curve, rate, b, gain, self.sizes, errors, kept).fit(curve)

    def _problem(
        self,
        curve: Curve,
        rate: float,
        b: Array,
        gain: float,
        sizes: tuple[int, ...],
        errors: Array,
        kept: Array | None,
    ) -> Problem:
        """What the curve is fitted to, out of losses for every column."""
        inner, p = self.levels(rate)
        plain, first = len(self.all_injected), self._columns(curve)
        moved = b[:plain] + self.all_injected * inner * gain
        below = None
        if kept is not None and curve.needs.unmixed:
            masses = self._masses
            if self.reverse and not self.has_record_rates:
                masses = rescaled_masses(masses, rate, self.reverse)
            below = Unmixed(masses, b[plain:], errors[plain:], kept, self._known)
        return Problem(p[:first], moved[:first], self._sizes_of(curve, sizes), errors[:first], below)

    def solve(self, curve: Curve, rates: Array, *, losses: Array | None = None, derive: bool = True) -> Optimism:
        """The optimism for the leakage rate of each fold, by default of the losses as they are.

        A common rate is solved from the pooled losses, which are less noisy; different ones fold by fold. Those that
        follow from probabilities of records are never quite the same, and nearly equal ones count as common. Without
        ``derive`` the weights of a method that is not linear are left at 0.
        """
        by_curve = self._by_curve(curve, rates, self.losses if losses is None else losses, derive=derive)
        rate = float(self.shares @ rates)
        if losses is None and derive and self._by_cuts:
            apart = {kind: own._by_curve(curve, rates, own.losses, derive=False) for kind, own in self._by_cuts.items()}
            first, second = (one.value for one in apart.values())
            spread = (first - second) ** 2 - 4 * self.monte_carlo_of(by_curve)
            unknown = max(spread, 0.0) / 4 if math.isfinite(spread) else 0.0
            by_cuts = {kind: self._with_pieces(one, rate).value for kind, one in apart.items()}
            by_curve = replace(by_curve, choice=by_curve.choice + unknown, by_cuts=by_cuts)
        if self.samples.error_model == "fragments":
            by_curve = replace(by_curve, choice=by_curve.choice + (_OF_IMITATION * by_curve.value) ** 2)
        return self._with_pieces(by_curve, rate)

    def _by_curve(self, curve: Curve, rates: Array, b: Array, *, derive: bool = True) -> Optimism:
        """The optimism by the curve alone."""
        if self.has_record_rates and np.ptp(rates) <= _NEARLY_EQUAL * rates.mean():
            rates = np.full(len(rates), float(self.shares @ rates))
        if (rates == rates[0]).all():
            gain = float(self.shares @ self.second_gains)
            errors = np.sqrt(self._pooled_variance)
            kept = self.shares @ self._kept if self.has_unmixed else None
            common, errors = self._of_both_sides(self.shares @ b, errors, rates[0], None)
            problem = self._problem(curve, rates[0], common, gain, self.sizes, errors, kept)
            solved = [self._solve(curve, rates[0], problem, derive=derive)] * self.n_folds
        else:
            solved = []
            for place, fold in enumerate(self.samples.folds):
                sizes = tuple(samples.size for samples in fold.by_size)
                kept = self._kept[place] if self.has_unmixed else None
                of_fold, errors = self._of_both_sides(b[place], self.errors[place], rates[place], place)
                own = (rates[place], of_fold, self.second_gains[place], sizes, errors, kept)
                solved.append(self._solve(curve, rates[place], self._problem(curve, *own), derive=derive))
        solved_by_curve = Optimism(
            float(self.shares @ [part.value for part in solved]),
            float(self.shares @ [part.e0 for part in solved]),
            np.concatenate([part.weights for part in solved]),
            np.concatenate([part.training for part in solved]),
            np.concatenate([part.second for part in solved]),
            all(part.exact for part in solved),
            float(self.shares @ [math.sqrt(part.choice) for part in solved]) ** 2,
        )
        return self._with_gaps(solved_by_curve, rates)

    @cached_property
    def _by_cuts(self) -> dict[str, Pooled]:
        """The same with the replicates of each assumed law alone; empty where the law was learned."""
        law = self.samples.pieces
        if not isinstance(law, AssumedCuts) or law.kind != "both":
            return {}
        runs = [samples for fold in self.samples.folds for samples in fold.of_cuts]
        if any(min(samples.counts) < len(KINDS) or min(samples.strata) < len(KINDS) for samples in runs):
            return {}
        return {kind: Pooled(self.samples.by_cuts(kind), self.unit_kind) for kind in KINDS}

    def _solve(self, curve: Curve, rate: float, problem: Problem, *, derive: bool) -> Optimism:
        """The optimism of one set of losses, with weights for one fold."""
        inner, _ = self.levels(rate)
        scale = rate / inner if inner > 0 else 1.0
        lowest = 0.0 if curve.needs.nonnegative else self.samples.loss_range[0]
        fall = problem.fall(curve, lowest=lowest, derive=derive)
        # Columns that the curve is not fitted to have no weight.
        total = self.losses.shape[1]
        o, of_e0 = (np.pad(weights, (0, total - len(weights))) for weights in (fall.weights, fall.of_e0))
        second = np.array([scale * inner * float(o[: len(self.all_injected)] @ self.all_injected)])
        training = (of_e0 + (scale - 1) * o)[None]
        choice = scale**2 * fall.choice
        return Optimism(scale * fall.value, fall.e0, scale * o[None], training, second, fall.exact, choice)

    def rate_effect(self, curve: Curve, rates: Array, stds: Array) -> float:
        """How far the optimism moves when the rates of all folds, together, move by one standard error."""
        if not stds.any():
            return 0.0
        step = 1e-4 / float(stds.max())
        down = 0.0 if (rates < step * stds).any() else step
        up, low = (self.solve(curve, rates + by * stds, derive=False).value for by in (step, -down))
        return (up - low) / (step + down)

    def no_correction(self) -> Optimism:
        """No correction: for the variance of the naive loss, which training moves as it moves the lowest level."""
        training = np.zeros_like(self.losses)
        training[:, 0] = 1
        return Optimism(0.0, self.naive, np.zeros_like(self.losses), training, np.zeros(self.n_folds))

    # --- influences of units, and the noise in them ---------------------------------------------------

    @cached_property
    def _influences(self) -> list[tuple[Codes, Codes, FoldInfluences]]:
        """For each fold: the places of T̂'s and of V̂'s units among all units, and their influences."""
        by_fold = [FoldInfluences.of(fold, self.unit_kind) for fold in self.samples.folds]
        return [
            (np.searchsorted(self.units, own.train_units), np.searchsorted(self.units, own.validation_units), own)
            for own in by_fold
        ]

    def loss_influences(self) -> Array:
        """T̄ + Ē: the influence of every unit (first axis) on the losses of every fold at every level."""
        moved = np.zeros((len(self.units), *self.losses.shape))
        for fold, (train, validation, own) in enumerate(self._influences):
            moved[train, fold] += own.train.mean
            moved[validation, fold] += own.validation.mean
        return moved

    def influence(self, optimism: Optimism, *, of_naive: bool = True) -> Array:
        """D: the influence of every unit on the naive loss plus an optimism, or on the optimism alone."""
        influence = self.naive_influence.copy() if of_naive else np.zeros(len(self.units))
        for share, o, w, second, (train, validation, own) in zip(
            self.shares, optimism.weights, optimism.training, optimism.second, self._influences, strict=True
        ):
            influence[train] += share * (own.train.mean @ w)
            influence[validation] += share * (own.validation.mean @ o)
            if own.second is not None:
                influence[validation] += share * second * (own.second.mean @ np.array([1.0, -1.0]))
        return influence + self.piece_influence(optimism.drops) + self.gap_influence(optimism.gaps)

    def influence_noise(self, optimism: Optimism) -> Array:
        """What Monte-Carlo noise adds to the sum of D's squares.

        One row per fold and one column per level; the last two columns are the noise of the second pieces and that of
        the losses without the likeliest pieces.
        """
        noise = np.zeros((self.n_folds, self.losses.shape[1] + 2))
        for fold, (_, _, own) in enumerate(self._influences):
            noise[fold, :-2] = (
                own.train.noise * optimism.training[fold] ** 2 + own.validation.noise * optimism.weights[fold] ** 2
            )
            if own.second is not None:
                noise[fold, -2] = optimism.second[fold] ** 2 * own.second.noise.sum()
            if own.without_pieces is not None and optimism.drops is not None:
                noise[fold, -1] = (optimism.drops[fold] / self.shares[fold]) ** 2 * own.without_pieces.noise.sum()
        scaled: Array = self.shares[:, None] ** 2 * noise
        return scaled

    def monte_carlo_of(self, optimism: Optimism) -> float:
        """Variance of the optimism from finitely many fits."""
        variance = (optimism.weights**2 * self.errors**2).sum(axis=1)
        seconds = [
            0.0 if fold.second is None else float((fold.second.standard_errors**2).sum()) for fold in self.samples.folds
        ]
        if optimism.of_train is not None:
            of_sides = np.array([side.errors**2 for side in self._train_sides])
            variance = variance + (optimism.of_train**2 * of_sides).sum(axis=1)
        of_curve = float(self.shares**2 @ (variance + optimism.second**2 * np.array(seconds)))
        return of_curve + self.piece_noise(optimism.drops)
