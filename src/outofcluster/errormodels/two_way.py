r"""Leakage both ways: what held-out losses are once records that are held out by mistake are taken off.

Let a share p0 of T̂ truly belong to held-out clusters, and a share r0 of V̂ to training clusters,

.. math:: \hat T ∼ (1-p_0) P_T + p_0 P_V , \qquad \hat V ∼ (1-r_0) P_V + r_0 P_T .

A resample that draws the fraction a from V̂ holds the share :math:`p = (1-a)p_0 + a(1-r_0) = p_0 + (1-p_0-r_0)a` of
records of P_V. A model loses S_V on records of V̂ that were not drawn, and S_T on those of T̂. With L_V and L_T its
losses under the two laws these are :math:`S_V = (1-r_0)L_V + r_0 L_T` and :math:`S_T = (1-p_0)L_T + p_0 L_V`, so that

.. math:: L_V = c_1 S_V - c_2 S_T, \qquad c_1 = \frac{1-p_0}{1-p_0-r_0}, \quad c_2 = \frac{r_0}{1-p_0-r_0} = c_1 - 1 ,

which is put in the place of the losses of all levels and sizes; the curve is then followed to p = 0 as ever. The user's
own model has the loss b on V̂ (the naive loss) and b_T on training records that it was not fitted to, by ten-fold
cross-validation within T̂. So

.. math:: \text{corrected} = c_1 b - c_2 b_T + (\hat e_0 - \hat L_V(p_0))
          = b + c_2 (b - b_T) + (\hat e_0 - \hat L_V(p_0)) .

For p0 = 0 this is :math:`[b - r_0 b_T]/(1 - r_0)`.

*S_T needs few fits and no other sampling*: scoring what is left of T̂ after drawing the fraction a from V̂ is scoring
what is left of V̂ after drawing the fraction 1 - a from T̂, with the sides exchanged. It counts c_2 times only, and
changes slowly with a: so a parabola in a is fitted to it, for every size. Below the leakage rate its tangent at a = 0
is continued, and the own model's b_T is its value at 0.

*Below the leakage rate* a draw with the weights 1 - s r has the level :math:`p_0 - (1-p_0-r_0)μ/(1-μ)`. The curve
expects :math:`(1-p_0)` there. So it is given the mass μ̃ with :math:`μ̃/(1-μ̃) = \frac{1-p_0-r_0}{1-p_0} μ/(1-μ)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, Codes, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import Seeds
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import LEAST_FITS, Choices, ErrorModel
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.errormodels.records import Budget, Records, RecordsEvidence, RecordsPooled
from outofcluster.inference.functional import Block, Functional, Weights
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, UNMIXED, AuditSamples, FoldSamples, exchanged
from outofcluster.sampling.levels import allocate
from outofcluster.sampling.resamplers import DrawRecords
from outofcluster.sampling.run import Run
from outofcluster.sampling.samples import LossSamples

# Degree of S_T in a, and the number of levels from which on it is a parabola and not a line.
_DEGREE, _LEVELS_OF_DEGREE = 2, 4
# Injected fraction below which S_T is not continued.
_LOWEST = -0.5
# Roles: the user's own models on held-out and on training records, and S_T in every column of the curve.
_OWN_OF_FOLDS, _OWN_ON_TRAINING, _ON_TRAINING = "own, by fold", "own, on training records", "on training records"


@dataclass(frozen=True, eq=False)
class TwoWayPooled(RecordsPooled):
    """Records leak both ways: the curve is fitted to losses under the law of the held-out clusters."""

    @cached_property
    def units(self) -> Codes:
        """The units that are scored, those of training records included."""
        trained = [fold.train_losses.units(self.unit_kind) for fold in self.folds if fold.train_losses is not None]
        return np.unique(np.concatenate([super().units, *trained]))

    def _blocks(self) -> dict[str, tuple[Block, ...]]:
        named = {_OWN_OF_FOLDS: list[Block](), _OWN_ON_TRAINING: list[Block](), _ON_TRAINING: list[Block]()}
        for fold, units in zip(self.folds, self.scored_units, strict=True):
            trained = fold.train_losses
            assert trained is not None
            trained_units = np.searchsorted(self.units, trained.units(self.unit_kind))
            own = Block.of_records(trained.losses, trained_units, len(self.units))
            named[_OWN_OF_FOLDS].append(Block.of_records(fold.own_losses, units, len(self.units)))
            named[_OWN_ON_TRAINING].append(own)
            named[_ON_TRAINING].append(self._on_training(fold, float(own.means[0])))
        return super()._blocks() | {role: tuple(blocks) for role, blocks in named.items()}

    def _on_training(self, fold: FoldSamples, own: float) -> Block:
        """S_T of one fold in every column: those of the levels of each size, then those below the leakage rate."""
        full = fold.runs[exchanged(MAIN)]
        parts = list[tuple[Array, Array]]()
        for role in self.size_roles:
            # A size that failed with the sides exchanged takes the losses of the full size.
            run = fold.runs.get(exchanged(role), full)
            parts.append(_combined(run, _rows(run, fold.runs[role].injected)))
        if UNMIXED in self.roles:
            below = self.unmixed_injected(fold)
            # A control removes records alike, which injects nothing.
            below = np.minimum(below, 0.0) if self.has_record_rates else below
            moved, noise = _combined(full, _rows(full, below) - _rows(full, np.zeros(1)))
            parts.append((own + moved, noise))
        losses, errors = (np.concatenate(each) for each in zip(*parts, strict=True))
        return Block(losses, errors)

    def adjusted(self, b: Array, errors: Array, rate: float, folds: slice, weights: Array) -> tuple[Array, Array]:
        """Losses under the law of the held-out clusters, and their errors."""
        of_validation, of_train = self._factors(rate)
        losses, noise = self.columns.means(_ON_TRAINING), self.columns.errors(_ON_TRAINING)
        variance = of_validation**2 * errors**2 + of_train**2 * (weights**2 @ noise[folds] ** 2)
        # What is left after noisy losses were taken off can be less than a loss can be.
        apart = np.maximum(of_validation * b - of_train * (weights @ losses[folds]), self.samples.loss_range[0])
        return apart, np.sqrt(variance)

    def _factors(self, rate: float) -> tuple[float, float]:
        """c_1 and c_2: how the losses of both sides combine."""
        left = 1 - rate - self.reverse
        return (1 - rate) / left, self.reverse / left

    def masses(self, rate: float) -> Array:
        """Masses μ̃ that stand for the same levels where nothing leaks the other way."""
        masses = super().masses(rate)
        if self.has_record_rates:
            return masses
        odds = masses / (1 - masses) * (1 - rate - self.reverse) / (1 - rate)
        return np.asarray(odds / (1 + odds))

    def solve(
        self,
        curve: Curve,
        rates: Array,
        *,
        stds: Array | None = None,
        losses: Weights | None = None,
        derive: bool = True,
    ) -> Optimism:
        """The optimism, with what records that are held out by mistake do to the naive loss."""
        solved = super().solve(curve, rates, losses=losses, derive=derive)
        of_validation, of_train = np.array([self._factors(rate) for rate in rates]).T
        weights = np.concatenate([solved.by_curve.weights[role] for role in self.roles], axis=1)

        def moved(named: Weights) -> Weights:
            return {role: of_validation[:, None] * array for role, array in named.items()}

        by_curve = replace(
            solved.by_curve,
            weights={**moved(solved.by_curve.weights), _ON_TRAINING: -of_train[:, None] * weights},
        )
        gaps = (self.shares * of_train)[:, None]
        apart = self.columns.means(_OWN_OF_FOLDS) - self.columns.means(_OWN_ON_TRAINING)
        aside = Functional(float((gaps * apart).sum()), {_OWN_OF_FOLDS: gaps, _OWN_ON_TRAINING: -gaps})
        return replace(solved, by_curve=by_curve, aside=aside)

    def bounds(self, rate: float, naive_error: float) -> tuple[float, float] | None:
        """Nothing is known without a curve."""
        return None


def _combined(run: LossSamples, rows: Array) -> tuple[Array, Array]:
    """What rows make of the mean losses of a run, by increasing fraction from V̂, and the errors of that.

    The fraction from V̂ is 1 less that of the exchanged sides.
    """
    squares = np.nan_to_num(run.standard_errors[::-1], nan=0.0) ** 2
    return rows @ run.means[::-1], np.sqrt(rows**2 @ squares)


def _rows(run: LossSamples, at: Array) -> Array:
    """How the smooth S_T at fractions ``at`` is made of the mean losses of a run."""
    a = 1 - run.injected[::-1]
    degree = min(_DEGREE if len(a) >= _LEVELS_OF_DEGREE else 1, len(a) - 1)
    inverse = np.linalg.pinv(np.vander(a, degree + 1, increasing=True))
    basis = np.vander(np.maximum(at, 0.0), degree + 1, increasing=True)
    if degree >= 1:
        basis[:, 1] += np.clip(at, _LOWEST, 0.0)
    return np.asarray(basis @ inverse)


# --- what is fitted ---------------------------------------------------------------------------------------

# One fit that is scored on training records for so many others.
_OTHERS_PER_EXCHANGED = 5
# Number of fits per fold from which on some are spent on smaller training sets, where it is fixed.
_FITS_FOR_SIZES = 60
# Rates of both ways together beyond which the two sides are nearly the same mixture.
_LARGEST_SUM = 0.75


class TwoWay(Records):
    """Single records leak, each by itself, both ways."""

    def _sizes(self, task: Task, folds: Sequence[Fold], choices: Choices) -> tuple[tuple[int, ...], Array]:
        """One size where so few fits are asked for that they would not suffice for both sides of another one."""
        fits = choices.fits_per_fold(len(folds))
        few = fits is not None and fits < _FITS_FOR_SIZES
        sizes, shares = super()._sizes(task, folds, choices)
        return (sizes[:1], np.ones(1)) if few else (sizes, shares)

    def _fits(self, folds: Sequence[Fold], choices: Choices, fits_below: int, n_sizes: int) -> Budget:
        """A number of fits that is fixed has those in it that are scored on training records."""
        budget = super()._fits(folds, choices, fits_below, n_sizes)
        if choices.n_fits is None:
            return budget
        spent = max(budget.main // (1 + _OTHERS_PER_EXCHANGED), LEAST_FITS * n_sizes)
        return Budget(max(budget.main - spent, LEAST_FITS * n_sizes), budget.below)

    def runs(
        self, task: Task, fold: Fold, folds: Sequence[Fold], choices: Choices, evidence: RecordsEvidence, seeds: Seeds
    ) -> list[Run]:
        """The runs of one way, and those of every size with the sides exchanged."""
        runs = super().runs(task, fold, folds, choices, evidence, seeds)
        # Drawing a share 1 - a from T̂ and scoring what is left of it is the same with the two sides exchanged.
        sides = Fold(fold.index, fold.validation, fold.train)
        levels = np.sort(1 - runs[0].plan().injected)
        sizes = [run for run in runs if run.role != UNMIXED]
        of_fold = choices.fits_per_fold(len(folds))
        spent = sum(run.n_fits for run in (sizes if of_fold is None else runs))
        exchanged_fits = spent // _OTHERS_PER_EXCHANGED if of_fold is None else of_fold - spent
        counts = allocate(np.ones(len(sizes)), max(exchanged_fits, 2 * len(levels) * len(sizes))).tolist()
        for run, fits in zip(sizes, counts, strict=True):
            role, resampler = exchanged(run.role), DrawRecords.of(sides, run.resampler.size)
            seed = seeds.number("fold", fold.index, role)
            runs.append(Run(role, sides, resampler, fits, seed, levels, required=run.role == MAIN))
        return runs

    def pooled(self, samples: AuditSamples, unit_kind: str, reverse: float = 0.0) -> Pooled:
        """Losses under the law of the held-out clusters, where records leak the other way too."""
        return TwoWayPooled(samples, unit_kind, reverse) if reverse else super().pooled(samples, unit_kind)

    def baselines(self, choices: Choices) -> tuple[str, ...]:
        """The own models on training records that they were not fitted to."""
        return (*super().baselines(choices), "train")


def read_validation_leakage(
    validation_leakage: Any, model: ErrorModel, task: Task, rates: Sequence[Leakage] | None
) -> float:
    """r0: the share of the held-out records that truly belong to training clusters, beside the rates of the folds."""
    if isinstance(validation_leakage, Leakage):
        raise InputError(
            "validation_leakage must be a number, the share of the held-out records that truly belong to training "
            "clusters, got a Leakage, whose share of validation records is that of records whose cluster also trains."
        )
    if not isinstance(model, TwoWay):
        raise InputError(
            f"validation_leakage must be None for error_model={model.name!r}, got {short(validation_leakage)}: it is "
            "for single records."
        )
    if not all(metric.is_mean for metric in task.metrics):
        raise InputError(
            "validation_leakage must be None for a metric that is no mean over records, got "
            f"{short(validation_leakage)}; use a loss per record."
        )
    share = check_number("validation_leakage", validation_leakage, least=0)
    check_both(share, rates)
    return share


def check_both(validation_leakage: float, rates: Sequence[Leakage] | None) -> None:
    """Refuse rates of both ways that leave too little to tell the sides apart."""
    if validation_leakage == 0:
        return
    if validation_leakage > Records.largest_rate:
        raise InputError(
            f"validation_leakage must be at most {Records.largest_rate}, beyond which nothing can be told, "
            f"got {validation_leakage:g}."
        )
    most = max((rate.rate for rate in rates or ()), default=0.0)
    if most + validation_leakage > _LARGEST_SUM:
        raise InputError(
            f"leakage and validation_leakage must be at most {_LARGEST_SUM} together, got {most:g} and "
            f"{validation_leakage:g}."
        )
