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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from outofcluster._base.arguments import Array, Codes, check_integer, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import Seeds
from outofcluster.curves.auto import AutoCurve
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed, mass_of_injected
from outofcluster.errormodels.base import (
    LEAST_FITS,
    Choices,
    ErrorModel,
    Evidence,
    Rates,
    names_of_clusters,
    suspects_table,
)
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.evidence.sides import RateCheck, Sides
from outofcluster.inference.functional import Block, Pool, Weights
from outofcluster.leakage.data import check_record_rates, estimate_rate, informed_rates, over_folds, rate_of_records
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, UNMIXED, AuditSamples, FoldSamples, SideFacts, smaller
from outofcluster.sampling.levels import (
    largest_level,
    least_size,
    placed_levels,
    placed_sizes,
    rated_fractions,
    unmixed_fractions,
)
from outofcluster.sampling.resamplers import DrawRecords, RatioWeights, RecordWeights, WeighRecords, sides_of
from outofcluster.sampling.run import Run, check_split

# AUC above one half from which on the discriminator adds to probabilities of records all that it can, and how much.
_TOLD_APART, _MOST_ADDED = 0.1, 0.875
# Range of the folds' rates over their mean up to which they are averaged, where they come from single records.
_NEARLY_EQUAL = 0.5
# Share of clean sets below which a size tells nothing about them.
_LEAST_CLEAN = 0.05
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
            blocks[UNMIXED] = self._unmixed()
        return blocks

    def _unmixed(self) -> tuple[Block, ...]:
        """Losses below the leakage rate by increasing mass; that of the user's own model stands among them."""
        blocks = []
        for fold, block in zip(self.folds, self.evaluated(UNMIXED), strict=True):
            at, losses = _own_position(fold), fold.losses_by(self.unit_kind, "parts")
            deviations = (losses - losses.mean()) / fold.n_validation
            units = fold.scored_units(self.unit_kind)
            pool = block.held_out
            assert pool is not None
            own = np.bincount(np.searchsorted(self.units, units), deviations, len(self.units))[pool.units]
            mean = float(fold.losses_by("clusters", "parts").mean())
            replicates = list(block.replicates[::-1])
            replicates.insert(at, np.full(max(map(len, replicates)), mean))
            held_out = Pool(pool.units, np.insert(pool.mean[:, ::-1], at, own, axis=1))
            # The user's own model has no noise, so that none is common to all of these losses.
            errors = np.insert(fold.runs[UNMIXED].standard_errors[::-1], at, 0.0)
            means = np.insert(block.means[::-1], at, mean)
            strata = int(fold.runs[UNMIXED].strata.max())
            keys = tuple((fold.main.size, float(fraction)) for fraction in self.unmixed_injected(fold))
            blocks.append(Block(means, errors, held_out, tuple(replicates), strata, keys))
        return tuple(blocks)

    def unmixed_injected(self, fold: FoldSamples) -> Array:
        """The injected fraction of every unmixed column; 0 is that of the user's own model."""
        return np.insert(fold.runs[UNMIXED].injected[::-1], _own_position(fold), 0.0)

    def injected_of(self, role: str) -> Array:
        """The injected fraction of every column of a role."""
        return self.unmixed_injected(self.folds[0]) if role == UNMIXED else super().injected_of(role)

    def masses(self, rate: float) -> Array:
        """The removed mass of every unmixed column."""
        return np.asarray(mass_of_injected(self.unmixed_injected(self.folds[0])))

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
        # What is left of a leaked record at every column.
        kept = [np.insert(fold.runs[UNMIXED].kept[::-1], _own_position(fold), 1.0) for fold in self.folds[folds]]
        return Unmixed(self.masses(rate), b[first:], errors[first:], weights @ kept, self._known)

    def solve(
        self,
        curve: Curve,
        rates: Array,
        *,
        stds: Array | None = None,
        losses: Weights | None = None,
        derive: bool = True,
    ) -> Optimism:
        """The optimism; means of record rates that hardly differ between folds are averaged."""
        if self.has_record_rates and np.ptp(rates) <= _NEARLY_EQUAL * rates.mean():
            rates = np.full(len(rates), float(self.shares @ rates))
        return super().solve(curve, rates, losses=losses, derive=derive)

    @property
    def sides_alike(self) -> bool:
        """Whether the sides of the splits can hardly be told apart; False where they were not compared."""
        aucs = [fold.sides.auc for fold in self.folds if fold.sides is not None]
        return bool(aucs) and float(np.mean(aucs)) < TOLD_APART

    # --- a range that needs no curve ------------------------------------------------------------------

    def bounds(self, rate: float, naive_error: float) -> tuple[float, float] | None:
        """The range of the module's head; None where the loss has no upper end and hardly any set is clean."""
        b, errors = self.shares @ self.losses, np.sqrt(self.shares**2 @ self.errors**2)
        p = self.levels(rate)
        rest = slice(1, len(self.injected))
        apart = p[rest] - p[0]
        slopes, spread = (b[0] - b[rest]) / apart, np.hypot(errors[0], errors[rest]) / apart
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
        runs = [fold.runs[UNMIXED] for fold in self.folds if UNMIXED in self.roles]
        for position, fraction in enumerate(runs[0].injected if runs else ()):
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


# --- what is fitted ---------------------------------------------------------------------------------------

# AUC from which the leakage rate that the records show was found to be near the truth.
TOLD_APART = 0.75
# Records that each side of a split must have to be told apart: more than one for each fold of the cross-fit.
LEAST_COMPARED = 5
# Mean AUC below which the records of the two sides say nothing about who leaked.
_ALIKE = 0.6
# Fits of a fold, of every size in a round: two at each of four levels, or as many as it takes to place other levels.
_FITS_OF_A_ROUND, _FITS_OF_OTHER_LEVELS = 8, 24
# Fits of a fold from which some are worth spending below the leakage rate, where their number is fixed.
FITS_TO_UNMIX = 27
# Held-out records of a fold, of which some may be drawn and the others are scored.
_LEAST_SCORED = 2
# Number of fits per fold from which on some are spent on smaller training sets, where it is fixed.
_FITS_FOR_SIZES = 20
# Held-out records that a training record is compared with, and records that the scale of the features comes from.
_MOST_COMPARED, _MOST_FOR_SCALE = 5_000, 100_000
_UNKNOWN = -1


@dataclass(frozen=True)
class RecordsEvidence(Evidence):
    """What tells the two sides of every fold apart, and the levels below the leakage rate that this allows.

    Attributes
    ----------
    sides : mapping from int to Sides
        What tells the sides of a fold apart.
    weights : mapping from int to RatioWeights
        Weights of its training records.
    fractions : array
        Negative injected fractions that these allow in all folds, with one above 0; empty where there are none.
    told_apart : bool
        Whether the sides differ so much that these levels say more than smaller training sets.
    """

    sides: Mapping[int, Sides] = field(default_factory=dict)
    weights: Mapping[int, RatioWeights] = field(default_factory=dict)
    fractions: Array = field(default_factory=lambda: np.zeros(0))
    told_apart: bool = False

    @property
    def parts(self) -> Mapping[int, Codes]:
        """For every fold the part of each held-out record."""
        return {index: weights.part for index, weights in self.weights.items()} if len(self.fractions) else {}

    def rate(self, folds: Sequence[int]) -> Leakage | None:
        """What the records of some folds say about the leakage rate."""
        compared = [self.sides[index] for index in folds if index in self.sides]
        return data_leakage(compared) if compared else None

    def facts(self, task: Task, fold: Fold, rates: Rates) -> dict[str, Any]:
        """How far the sides can be told apart, and whom each training record resembles."""
        if fold.index not in self.sides:
            return {}
        sides, probabilities = self.sides[fold.index], rates.by_record.get(fold.index)
        check = None if probabilities is None else check_record_rates(probabilities, sides)
        resembles = _nearest_clusters(task, fold)
        facts = SideFacts(fold.train, sides.ratio_train, resembles, float(sides.auc), float(sides.log_loss), check)
        return {"sides": facts}


def data_leakage(sides: Sequence[Sides]) -> Leakage:
    """What the records of some folds say about the leakage rate."""
    by_data = over_folds([estimate_rate(fold) for fold in sides])
    return Leakage(by_data.rate, by_data.std, "train", by_data.upper)


@dataclass(frozen=True)
class Budget:
    """How many fits of a fold are spent above, and how many below the leakage rate."""

    main: int
    below: int


class Records(ErrorModel):
    """Single records leak, each by itself."""

    name = "records"
    side = "train"
    largest_rate = 0.5
    has_sizes = True

    def default_curve(self) -> Curve:
        """Curves of many shapes, averaged."""
        return AutoCurve()

    # --- rates ----------------------------------------------------------------------------------------

    def read_rates(self, leakage: Any, folds: Sequence[Fold], n_records: int) -> Rates:
        """Rates, "data", or the probability of every record that it leaked."""
        if isinstance(leakage, str):
            return Rates(from_data=True)
        if not is_per_record(leakage, n_records, len(folds)):
            return super().read_rates(leakage, folds, n_records)
        rates = read_probabilities(leakage, folds, n_records)
        if not np.isfinite(rates).all() or rates.min() < 0 or rates.max() > 1:
            wrong = rates[~((rates >= 0) & (rates <= 1))].ravel()[0]
            raise InputError(f"leakage must hold probabilities between 0 and 1 for the records, got {wrong:g}.")
        by_fold = [rates] * len(folds) if rates.ndim == 1 else rates
        by_record = {fold.index: of_records[fold.train] for fold, of_records in zip(folds, by_fold, strict=True)}
        means = [Leakage(*rate_of_records(probabilities)) for probabilities in by_record.values()]
        return Rates(self.read_leakage(means, len(folds)), by_record)

    def _instead(self, rate: Leakage) -> str:
        audited = rate.linkage_errors
        if audited is None or math.isnan(audited.misplaced):
            return ""
        return f"; for single records give linkage_errors.misplaced, {audited.misplaced:.3g}"

    # --- the plan -------------------------------------------------------------------------------------

    def _unmixes(self, folds: Sequence[Fold], choices: Choices) -> bool:
        """Whether some fits are to be spent below the leakage rate."""
        fits = choices.fits_per_fold(len(folds))
        return choices.unmix and choices.curves[0].needs.unmixed and (fits is None or fits >= FITS_TO_UNMIX)

    def look(self, task: Task, folds: Sequence[Fold], choices: Choices, seeds: Seeds) -> RecordsEvidence:
        """What tells the sides of every fold apart, where that is asked for or used."""
        below = self._unmixes(folds, choices)
        if not below and not choices.rates.from_data:
            return RecordsEvidence()
        compared = [fold for fold in folds if min(fold.n_train, len(fold.validation)) >= LEAST_COMPARED]
        seed_of = {fold.index: seeds.stream("fold", fold.index, "sides") for fold in compared}
        # Numbers whose squares are too large are refused in words when they are scored.
        with np.errstate(over="ignore", invalid="ignore"):
            sides = {f.index: sides_of(task, f, seed=seed_of[f.index], classifier=choices.classifier) for f in compared}
        # Levels below the leakage rate are the same in all folds.
        if not below or len(compared) < len(folds):
            return RecordsEvidence(sides)
        if any(rates.any() for rates in choices.rates.by_record.values()):
            return self._by_rates(sides, choices.rates.by_record)
        return self._by_sides(sides)

    def _by_sides(self, sides: Mapping[int, Sides]) -> RecordsEvidence:
        """Levels below the leakage rate that the sides allow in all folds; none where they are alike."""
        aucs = [fold.auc for fold in sides.values()]
        if np.mean(aucs) < _ALIKE:
            return RecordsEvidence(sides)
        weights = {index: RatioWeights.of_sides(fold) for index, fold in sides.items()}
        planned = data_leakage(list(sides.values())).rate if min(aucs) >= TOLD_APART else None
        fractions = unmixed_fractions(lambda a: all(fold.allows(a) for fold in weights.values()), planned)
        return RecordsEvidence(sides, weights, fractions, told_apart=planned is not None and len(fractions) > 0)

    def _by_rates(self, sides: Mapping[int, Sides], rates: Mapping[int, Array]) -> RecordsEvidence:
        """Levels below the leakage rate that follow from the probabilities of the records."""
        weights = dict[int, RatioWeights]()
        for index, assumed in rates.items():
            informed = informed_rates(assumed, sides[index], check_record_rates(assumed, sides[index]).known)
            weights[index] = RecordWeights.of(informed, sides[index].part, assumed)
        fractions = rated_fractions(
            float(np.mean([assumed.mean() for assumed in rates.values()])),
            lambda a: all(fold.allows(a) for fold in weights.values()),
            lambda a: max(fold.kept(a) for fold in weights.values()),
        )
        return RecordsEvidence(sides, weights, fractions)

    def _sizes(self, task: Task, folds: Sequence[Fold], choices: Choices) -> tuple[tuple[int, ...], Array]:
        """Sizes of training sets, the full one first, and the share of the fits that each of them gets."""
        n_train, fits = choices.n_train, choices.fits_per_fold(len(folds))
        size = min(fold.n_train for fold in folds) if n_train is None else check_integer("n_train", n_train, least=2)
        few = fits is not None and fits < _FITS_FOR_SIZES
        if not choices.curves[0].needs.sizes or few:
            return (size,), np.ones(1)
        return placed_sizes(size, least_size(task.y if task.classifier else None))

    def n_levels(self, folds: Sequence[Fold], choices: Choices, task: Task) -> int:
        """Four levels for the automatic curve, six for the others, at every size."""
        levels = 4 if choices.curves[0].needs.levels == "automatic" else 6
        return levels * len(self._sizes(task, folds, choices)[0])

    def _fits(self, folds: Sequence[Fold], choices: Choices, fits_below: int, n_sizes: int) -> Budget:
        """How the fits of a fold are spent, where those below the leakage rate are so many in a round.

        A round has as many fits of every size, of which the first one is counted.
        """
        fits = choices.fits_per_fold(len(folds))
        if fits is None:
            automatic = choices.curves[0].needs.levels == "automatic"
            of_size = _FITS_OF_A_ROUND if automatic else _FITS_OF_OTHER_LEVELS
            return Budget(choices.times * of_size, choices.times * fits_below)
        # Whole turns of the parts of V̂ at every level, or none where that leaves too little for the levels above.
        turns = max(fits // 3 // fits_below, 1) if fits_below else 0
        below = turns * fits_below if fits - turns * fits_below >= LEAST_FITS * n_sizes else 0
        return Budget(fits - below, below)

    def runs(
        self, task: Task, fold: Fold, folds: Sequence[Fold], choices: Choices, evidence: RecordsEvidence, seeds: Seeds
    ) -> list[Run]:
        """All sizes of training sets, and levels below the leakage rate."""
        check_split(task, fold)
        fixed = choices.n_fits is not None
        (size, *fewer), shares = self._sizes(task, folds, choices)
        if evidence.told_apart and not fixed:
            # Levels below the rate tell the shape of the curve, of which a smaller size tells no more.
            fewer, shares = [], shares[:1]
        in_turn = max((weights.n_parts for weights in evidence.weights.values()), default=0)
        budget = self._fits(folds, choices, len(evidence.fractions) * in_turn, 1 + len(fewer))
        # A smaller fold cannot be audited itself, and must not keep the others from it.
        scored = [len(each.validation) for each in folds if len(each.validation) >= _LEAST_SCORED]
        largest = min(largest_level(size, number) for number in scored)
        levels: dict[str, Any] = {"largest": largest}
        if choices.curves[0].needs.levels == "automatic":
            levels["injected"] = placed_levels(largest)

        def run(role: str, n_train: int, fits: int, required: bool = True) -> Run:
            resampler = DrawRecords.of(fold, n_train)
            return Run(role, fold, resampler, fits, seeds.number("fold", fold.index, role), required=required, **levels)

        fits = [round(share * budget.main) if fixed else budget.main for share in shares[1:].tolist()]
        # A learner may need more records than a small training set has (15 neighbours of 8); the others do.
        further = [run(smaller(n), n, count, required=False) for n, count in zip(fewer, fits, strict=True)]
        runs = [run(MAIN, size, budget.main - (sum(fits) if fixed else 0)), *further]
        if budget.below:
            seed, even = seeds.number("fold", fold.index, UNMIXED), np.ones(len(evidence.fractions))
            drawn, weights = DrawRecords.of(fold, size), evidence.weights[fold.index]
            resampler = WeighRecords(drawn, weights, always=True, thin=True, seed=seed)
            runs.append(Run(UNMIXED, fold, resampler, budget.below, seed, evidence.fractions, even, required=False))
        return runs

    # --- the answer -----------------------------------------------------------------------------------

    def pooled(self, samples: AuditSamples, unit_kind: str, reverse: float = 0.0) -> Pooled:
        """A curve over all sizes, and losses below the leakage rate."""
        return RecordsPooled(samples, unit_kind)

    def suspects(self, samples: AuditSamples, rates: Array) -> Any:
        """Training records by the probability that they leaked."""
        if all(fold.sides is None for fold in samples.folds):
            raise not_compared()
        names = names_of_clusters(samples)
        listed = [fold.sides.rows for fold in samples.folds if fold.sides is not None]
        clusters = np.full(1 + max(rows.max() for rows in (*listed, *(fold.rows for fold in samples.folds))), -1)
        for fold in samples.folds:
            clusters[fold.rows] = fold.clusters
        columns = {
            fold.index: {
                "record": fold.sides.rows,
                "cluster": names[clusters[fold.sides.rows]],
                "probability": np.minimum(rate * fold.sides.ratio, 1.0),
                "resembles": names[fold.sides.resembles],
            }
            for fold, rate in zip(samples.folds, rates, strict=True)
            if fold.sides is not None
        }
        return suspects_table(columns)


def not_compared() -> InputError:
    """The refusal to name suspects where the sides of the splits were not compared."""
    return InputError(
        f"suspects() needs an audit of single records with at least {FITS_TO_UNMIX} fits per fold and "
        "unmix='auto'; this one did not compare the two sides of its splits."
    )


def is_per_record(leakage: Any, n_records: int, n_folds: int) -> bool:
    """Whether the rates are probabilities of single records: one per record, or one row per fold and one per record.

    With as many folds as records, an array of that length has one rate per fold.
    """
    if isinstance(leakage, str | Leakage):
        return False
    try:
        dimensions = np.ndim(leakage)
    except Exception:  # Lists of uneven length, and objects that refuse to become arrays.
        raise InputError(
            f"leakage must be one rate, one for each of the {n_folds} folds, or a probability for each of the "
            f"{n_records} records, got {short(leakage)}."
        ) from None
    if dimensions != 1:
        return dimensions == 2
    several = list(leakage)
    return len(several) not in (0, 1, n_folds) and (len(several) == n_records or not isinstance(several[0], Leakage))


def read_probabilities(leakage: Any, folds: Sequence[Fold], n_records: int) -> Array:
    """Probabilities of single records as an array of the right shape."""
    try:
        rates = np.asarray(leakage, dtype=float)
    except Exception:
        raise InputError(f"leakage must hold numbers, one for each record, got {short(leakage)}.") from None
    if rates.shape not in ((n_records,), (len(folds), n_records)):
        shape = " by ".join(map(str, rates.shape))
        raise InputError(
            f"leakage must be one rate, one for each of the {len(folds)} folds, or a probability for each of the "
            f"{n_records} records, got {shape} numbers."
        )
    return rates


def _nearest_clusters(task: Task, fold: Fold) -> Codes:
    """The held-out cluster that each training record resembles; -1 where features are no finite numbers.

    Features count by their standard deviations. Of very many held-out records some are compared.
    """
    assert task.clusters is not None
    if not task.is_matrix:
        return np.full(fold.n_train, _UNKNOWN)
    held_out, train = _some(fold.validation, _MOST_COMPARED), fold.train
    scale = task.numbers(_some(np.arange(task.n_records), _MOST_FOR_SCALE)).std(axis=0)
    varies = scale > 0
    if not varies.any():
        return np.full(len(train), _UNKNOWN)
    tree = cKDTree(task.numbers(held_out)[:, varies] / scale[varies])
    length = max(1, _MOST_FOR_SCALE // 10)
    nearest = [
        tree.query(task.numbers(train[start : start + length])[:, varies] / scale[varies])[1]
        for start in range(0, len(train), length)
    ]
    return np.asarray(task.clusters[held_out][np.concatenate(nearest)])


def _some(rows: Codes, most: int) -> Codes:
    """All rows, or as many of them at equal distances as may be looked at."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(np.int64)]
