"""Which models an audit fits for every fold, and the run that fits them: levels, sizes, and what is left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, check_integer
from outofcluster._base.exceptions import CheckpointError, FitError, InputError
from outofcluster._base.threads import one_thread
from outofcluster.auditing.choices import TOLD_APART
from outofcluster.auditing.once import of_fold
from outofcluster.auditing.suspects import nearest_clusters
from outofcluster.curves.base import Curve
from outofcluster.evidence.entities import EntitySuspects, LikelyPieces, entity_suspects, likely_pieces, match_clusters
from outofcluster.evidence.sides import Sides
from outofcluster.leakage.data import estimate_rate, over_folds
from outofcluster.leakage.rate import Leakage
from outofcluster.leakage.records import check_record_rates, informed_rates
from outofcluster.metrics.recomputed import OfModel, OfPredictions
from outofcluster.problem.folds import Fold, Rows, count_clusters
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import FoldSamples, SideFacts, TrainScores
from outofcluster.sampling.levels import (
    largest_level,
    least_size,
    placed_levels,
    placed_sizes,
    rated_fractions,
    unmixed_fractions,
)
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.resamplers import RatioWeights, RecordWeights, sides_of, weights_of
from outofcluster.sampling.run import Sampling, SamplingSettings, UnitKind, prepare
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Checkpoint, Place

_FITS = {"records": 3000, "fragments": 400}
_LEAST_FITS = 12
"""Two fits per level and fold, which noise needs to be known: six levels for records, four and two for fragments."""
_FITS_TO_UNMIX, _FITS_OF_A_PART = 150, 2
"""Fits of a fold from which some are worth spending below the leakage rate, and those of a level and part of V̂."""
_FITS_FOR_PIECES, _FITS_OF_PIECES = 60, 100
"""Fits of a fold from which a fifth is worth spending on models without likely pieces, and those of all folds that the
default adds for them."""
_LEAST_CAUGHT, _LEAST_PIECES, _MOST_LEFT_OUT = 0.5, 20, 0.4
"""Share of imitated pieces that must be found, clusters that must be left out over all folds, and the share of a fold's
training records that may be left out, for models without likely pieces to tell something."""
_EXCHANGED = 5
"""One fit that is scored on training records for so many others."""
_FITS_FOR_SIZES = 100
"""Number of fits per fold from which on some are spent on smaller training sets."""
_BYTES_OF_A_ROW, _MOST_GIGABYTES = 16, 16.0
"""What a training record takes in each fold, and how much all folds may take."""
_BOTH_KINDS = 1_000_000
"""Records times levels times folds up to which sums are stored both for clusters and for records (some 70 MB)."""


@dataclass(frozen=True)
class Design:
    """How every fold is sampled.

    Attributes
    ----------
    settings : SamplingSettings
        Levels above the leakage rate at the full size.
    smaller : tuple of (int, float)
        Smaller sizes with their shares of these fits.
    unmixed_fits : int
        Fits below the leakage rate.
    fractions : array
        Injected fractions for these.
    sides : dict of Sides
        What tells the two sides of each fold apart.
    weights : dict of RatioWeights
        Weights of each fold for these fractions.
    piece_fits : int
        Fits without likely pieces of held-out entities.
    pieces : dict of LikelyPieces
        These pieces, for the folds that have some.
    exchanged_fits : int
        Fits that are scored on training records, for leakage both ways.
    """

    settings: SamplingSettings
    smaller: tuple[tuple[int, float], ...] = ()
    unmixed_fits: int = 0
    fractions: Array = field(default_factory=lambda: np.zeros(0))
    sides: Mapping[int, Sides] = field(default_factory=dict)
    weights: Mapping[int, RatioWeights] = field(default_factory=dict)
    piece_fits: int = 0
    pieces: Mapping[int, LikelyPieces] = field(default_factory=dict)
    exchanged_fits: int = 0

    @property
    def n_levels(self) -> int:
        """Number of levels over all sizes, or close to it."""
        levels = 6 if self.settings.injected is None else np.size(self.settings.injected)
        return int(levels) * (1 + len(self.smaller))


def check_folds(n_folds: int, n_records: int) -> None:
    """Refuse more folds than fit into memory: each keeps the rows that it trains on, and their clusters."""
    gigabytes = n_folds * n_records * _BYTES_OF_A_ROW / 1e9
    if gigabytes > _MOST_GIGABYTES:
        raise InputError(
            f"cv must give fewer folds for {n_records} records, got {n_folds}, which would take some "
            f"{gigabytes:,.0f} GB of memory; use for example GroupKFold(20)."
        )


def planned(
    task: Task, folds: Sequence[Fold], curve: Curve, error_model: str, n_fits: Any, n_train: Any, kernel: Any
) -> Design:
    """The levels and sizes that the curve asks for, and the fits of each fold."""
    if n_fits is None:
        budget = max(_FITS[error_model] // len(folds), _LEAST_FITS)
    else:
        budget = check_integer("n_fits", n_fits, least=_LEAST_FITS * len(folds)) // len(folds)
    settings = SamplingSettings(
        error_model=error_model, n_fits=budget, n_train=n_train, kernel=kernel, fits_in_all=budget * len(folds)
    )
    if error_model != "records":
        return Design(settings)
    size = min(fold.n_train for fold in folds) if n_train is None else check_integer("n_train", n_train, least=2)
    largest = min(largest_level(size, len(fold.validation)) for fold in folds)
    settings = replace(settings, n_train=size, largest=largest)
    if curve.needs.levels == "automatic":
        injected, shares = placed_levels(largest)
        settings = replace(settings, injected=injected, shares=shares)
    design = Design(settings)
    if curve.needs.unmixed and (n_fits is None or budget >= _FITS_TO_UNMIX):
        below = budget // 3 if n_fits is None else budget // 4
        above = budget if n_fits is None else budget - below
        design = replace(design, settings=replace(settings, n_fits=above), unmixed_fits=below)
    if not curve.needs.sizes or budget < _FITS_FOR_SIZES:
        return design
    sizes, of_fits = placed_sizes(size, least_size(task.y if task.classifier else None))
    return replace(design, smaller=tuple(zip(sizes[1:], of_fits[1:].tolist(), strict=True)))


def without_unmixing(design: Design, *, spend: bool = True) -> Design:
    """The same design without levels below the leakage rate, whose fits are spent above it where that is wanted."""
    fits = design.settings.n_fits + (design.unmixed_fits if spend else 0)
    return replace(design, settings=replace(design.settings, n_fits=fits), unmixed_fits=0)


def told_apart(
    task: Task, folds: Sequence[Fold], classifier: Any, seeds: Sequence[np.random.SeedSequence]
) -> dict[int, Sides]:
    """What tells the two sides of every fold apart."""
    sides = dict[int, Sides]()
    for fold, seed in zip(folds, seeds, strict=True):
        own_seed = np.random.SeedSequence([*seed.generate_state(4).tolist(), 1])
        sides[fold.index] = sides_of(task, fold, seed=own_seed, classifier=classifier)
    return sides


def likely_entities(
    task: Task, folds: Sequence[Fold], root: np.random.SeedSequence
) -> tuple[dict[int, EntitySuspects], dict[int, LikelyPieces]]:
    """For every fold, the training clusters that may be pieces of held-out entities, and those that are to be left out.

    The latter are empty where the pair classifier finds too few of the imitated pieces, or too few pieces at all.
    """
    assert task.clusters is not None
    seed = np.random.SeedSequence([*root.generate_state(4).tolist(), 2])
    with one_thread():
        try:
            pairs = match_clusters(task.X, task.y, task.clusters, seed=seed, discrete=task.classifier)
        except InputError:
            # Too few clusters to learn from: the audit goes on without suspects.
            return {}, {}
        suspects = {fold.index: entity_suspects(pairs, fold, task.clusters) for fold in folds}
    pieces = dict[int, LikelyPieces]()
    for fold in folds:
        own = likely_pieces(pairs, fold, task.clusters)
        trained = np.bincount(task.clusters[fold.train], minlength=len(pairs.sizes))
        left_out = int(trained[own.train_clusters].sum()) / fold.n_train
        if own.caught >= _LEAST_CAUGHT and 0 < left_out <= _MOST_LEFT_OUT:
            pieces[fold.index] = own
    enough = sum(len(own.train_clusters) for own in pieces.values()) >= _LEAST_PIECES
    return suspects, pieces if enough else {}


def with_pieces_left_out(design: Design, pieces: Mapping[int, LikelyPieces], *, spend: bool) -> Design:
    """The same design with models without likely pieces; their fits are part of the budget where there is one."""
    settings = design.settings
    if not pieces or (spend and settings.n_fits < _FITS_FOR_PIECES):
        return design
    if not spend:
        return replace(design, pieces=pieces, piece_fits=max(_FITS_OF_PIECES // len(pieces), 4))
    fits = settings.n_fits // 5
    return replace(design, pieces=pieces, piece_fits=fits, settings=replace(settings, n_fits=settings.n_fits - fits))


def with_exchanged_sides(design: Design, *, spend: bool) -> Design:
    """The same design with models that are scored on training records; their fits are part of the budget, if any."""
    settings = design.settings
    fits = max(settings.n_fits // _EXCHANGED, _LEAST_FITS)
    if spend:
        settings = replace(settings, n_fits=max(settings.n_fits - fits, _LEAST_FITS))
    return replace(design, settings=settings, exchanged_fits=fits)


def unmixed(design: Design) -> Design:
    """The same design with the levels below the leakage rate that the sides allow in all folds."""
    by_fold = {index: weights_of(own) for index, own in design.sides.items()}
    weights = list(by_fold.values())
    most = design.unmixed_fits // (_FITS_OF_A_PART * max(own.n_parts for own in weights)) - 1
    sides = list(design.sides.values())
    planned = data_leakage(sides).rate if min(own.auc for own in sides) >= TOLD_APART else None
    fractions = unmixed_fractions(lambda fraction: all(own.allows(fraction) for own in weights), most, planned)
    return replace(design, fractions=fractions, weights=by_fold) if len(fractions) else without_unmixing(design)


def unmixed_by_rates(design: Design, folds: Sequence[Fold], rates: Mapping[int, Array]) -> Design:
    """The same design with levels below the leakage rate that follow from the probabilities of the records."""
    by_fold = dict[int, RatioWeights]()
    for fold in folds:
        sides = design.sides[fold.index]
        known = check_record_rates(rates[fold.index], sides).known
        informed = informed_rates(rates[fold.index], sides, known)
        by_fold[fold.index] = RecordWeights.of(informed, sides.part, rates[fold.index])
    weights = list(by_fold.values())
    mean = float(np.mean([own.mean() for own in rates.values()]))
    fractions = rated_fractions(
        mean,
        lambda fraction: all(own.allows(fraction) for own in weights),
        lambda fraction: max(own.kept(fraction) for own in weights),
    )
    return replace(design, fractions=fractions, weights=by_fold) if len(fractions) else without_unmixing(design)


def data_leakage(sides: Sequence[Sides]) -> Leakage:
    """What the records of all folds say about the leakage rate."""
    by_data = over_folds([estimate_rate(own) for own in sides])
    return Leakage(by_data.rate, by_data.std, "train", by_data.upper)


def side_facts(task: Task, fold: Fold, sides: Sides | None, rates: Array | None) -> SideFacts | None:
    """What is stored about the classifier that tells the sides of a fold apart, and whom each record resembles.

    ``rates`` are the probabilities of the training records that they leaked, where these were given.
    """
    if sides is None:
        return None
    assert task.clusters is not None
    resembles = nearest_clusters(task, fold, task.clusters)
    check = None if rates is None else check_record_rates(rates, sides)
    return SideFacts(fold.train, sides.ratio_train, resembles, float(sides.auc), float(sides.log_loss), check)


def stored_units(unit_kind: UnitKind, design: Design, task: Task, n_folds: int) -> tuple[UnitKind, ...]:
    """The units that were chosen and, where memory and metrics that are computed anew allow, the others as well."""
    other: UnitKind = "records" if unit_kind == "clusters" else "clusters"
    if any(isinstance(loss.measure, OfModel | OfPredictions) for loss in task.losses):
        return (unit_kind,)
    return (unit_kind, other) if task.n_records * design.n_levels * n_folds <= _BOTH_KINDS else (unit_kind,)


@dataclass(frozen=True)
class Job:
    """A fold that has been checked and can be sampled."""

    fold: Fold
    sampling: Sampling
    smaller: tuple[Sampling, ...]
    second: Sampling | None
    unmixed: Sampling | None
    without_pieces: Sampling | None
    exchanged: tuple[Sampling, ...] = ()

    @property
    def budget(self) -> int:
        """Number of fits over all sizes."""
        others = (*self.smaller, self.second, self.unmixed, self.without_pieces, *self.exchanged)
        return self.sampling.plan.budget + sum(sampling.plan.budget for sampling in others if sampling is not None)

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""
        runs = (self.sampling, *self.smaller, self.second, self.unmixed, self.without_pieces)
        return sum(run.plan.budget for run in runs if run is not None and run.problem.compiled is not None)

    def run(
        self,
        clusters: Rows,
        losses: Sequence[dict[str, Array]],
        bar: Progress,
        n_jobs: int | None,
        of_train: Sequence[Array] = (),
    ) -> tuple[FoldSamples, ...]:
        """The samples of every metric; ``losses`` and, on training records, ``of_train`` are the own model's."""
        samples = self.sampling.run_metrics(bar, n_jobs=n_jobs)
        smaller = list[tuple[LossSamples, ...]]()
        for sampling in self.smaller:
            # A learner may need more records than a small training set has (15 neighbours of 8); the others do.
            with suppress(FitError):
                smaller.append(sampling.run_metrics(bar, n_jobs=n_jobs))
        below = dict[str, tuple[LossSamples, ...]]()
        if self.second is not None:
            below["second"] = self.second.run_metrics(bar, n_jobs=n_jobs)
        for name, run in (("unmixed", self.unmixed), ("without_pieces", self.without_pieces)):
            with suppress(FitError):
                if run is not None:
                    below[name] = run.run_metrics(bar, n_jobs=n_jobs)
        rows = self.fold.validation
        exchanged = list[tuple[LossSamples, ...]]()
        for place, sampling in enumerate(self.exchanged):
            with nullcontext() if place == 0 else suppress(FitError):
                exchanged.append(sampling.run_metrics(bar, n_jobs=n_jobs))
        return tuple(
            FoldSamples(
                index=int(self.fold.index),
                n_train=self.fold.n_train,
                n_train_clusters=count_clusters(clusters[self.fold.train]),
                rows=rows,
                clusters=clusters[rows],
                own_losses=own["own"],
                samples=samples[place],
                smaller=tuple(sized[place] for sized in smaller),
                pseudo={name: array for name, array in own.items() if name != "own"},
                train_scores=TrainScores(
                    self.fold.train, clusters[self.fold.train], of_train[place], tuple(run[place] for run in exchanged)
                )
                if exchanged
                else None,
                **{name: runs[place] for name, runs in below.items()},  # type: ignore[arg-type]
            )
            for place, own in enumerate(losses)
        )


def prepared(
    task: Task, folds: Sequence[Fold], design: Design, seeds: Sequence[np.random.SeedSequence], place: Place | None
) -> tuple[list[Job], dict[int, str]]:
    """The checked run of every fold, and the reasons of those that cannot run; refuses if no fold can."""
    jobs, left_out, first = list[Job](), dict[int, str](), None
    for fold, seed in zip(folds, seeds, strict=True):
        try:
            jobs.append(_prepare_fold(task, fold, design, seed, place))
        except CheckpointError:
            raise
        except InputError as error:
            first = first or error
            left_out[int(fold.index)] = str(error)
    if first is not None and not jobs:
        raise first
    return jobs, left_out


def _prepare_fold(task: Task, fold: Fold, design: Design, seed: np.random.SeedSequence, place: Place | None) -> Job:
    labels = np.asarray(task.y)[fold.validation]
    for loss in task.losses:
        if why := loss.undefined(labels):
            raise InputError(f"{loss.facts.name} is not defined for its held-out part, since {why}.")
    own, second_seed, *seeds = (int(state) for state in seed.generate_state(2 + len(design.smaller), np.uint64))
    settings, budget = design.settings, design.settings.n_fits

    def file(ending: str) -> Checkpoint | None:
        return None if place is None else Checkpoint(place.file(f".fold{fold.index}{ending}"), place)

    second = None
    if settings.error_model == "fragments" and _can_be_cut_twice(task, fold):
        # A second piece's gain counts rho0 times as much as that of the first one, so it gets a quarter of the fits.
        fits = max(budget // 8, 2) * 2
        budget -= fits
        again = replace(settings, error_model="second-fragments", injected=[0.0, 1.0], n_fits=fits)
        second = prepare(task, fold, again, seed=second_seed, checkpoint=file(".second"))
    smaller = list[Sampling]()
    for (size, share), state in zip(design.smaller, seeds, strict=True):
        fewer = replace(settings, n_train=size, n_fits=round(share * budget))
        smaller.append(prepare(task, fold, fewer, seed=state, checkpoint=file(f".size{size}")))
    left = budget - sum(round(share * budget) for _, share in design.smaller)
    first = prepare(task, fold, replace(settings, n_fits=left), seed=own, checkpoint=file(""))
    unmixed = None
    if len(design.fractions):
        shares = np.ones(len(design.fractions))
        below = replace(settings, injected=design.fractions, shares=shares, n_fits=design.unmixed_fits)
        below = replace(below, ratios=design.weights[fold.index], by_weights=True, thinned=True)
        below_seed = int(seed.generate_state(3 + len(design.smaller), np.uint64)[-1])
        unmixed = prepare(task, fold, below, seed=below_seed, checkpoint=file(".unmixed"))
    without_pieces = None
    if fold.index in design.pieces:
        settings = replace(settings, injected=None, n_fits=design.piece_fits, pieces=design.pieces[fold.index])
        pieces_seed = int(seed.generate_state(4 + len(design.smaller), np.uint64)[-1])
        without_pieces = prepare(task, fold, settings, seed=pieces_seed, checkpoint=file(".pieces"))
    exchanged = list[Sampling]()
    if design.exchanged_fits:
        # Drawing a share 1 - a from T̂ and scoring what is left of it is the same with the two sides exchanged.
        sides = Fold(fold.index, fold.validation, fold.train)
        levels = np.sort(1 - first.plan.injected)
        sizes = [settings.n_train, *(size for size, _ in design.smaller)]
        fits = max(design.exchanged_fits // len(sizes), 2 * len(levels))
        own_seed = np.random.SeedSequence([*seed.generate_state(4).tolist(), 5])
        for n_train, state in zip(sizes, own_seed.generate_state(len(sizes), np.uint64), strict=True):
            both = replace(design.settings, injected=levels, shares=None, largest=None, n_train=n_train, n_fits=fits)
            ending = f".exchanged{len(exchanged)}"
            exchanged.append(prepare(task, sides, both, seed=int(state), checkpoint=file(ending)))
    return Job(fold, first, tuple(smaller), second, unmixed, without_pieces, tuple(exchanged))


def of_defined_metrics(jobs: Sequence[Job], task: Task, own: Mapping[str, Array]) -> tuple[list[Job], dict[int, str]]:
    """The runs of folds in which the own models define every metric, and the reasons of the other folds."""
    kept, left_out = list[Job](), dict[int, str]()
    for job in jobs:
        index = int(job.fold.index)
        for place, loss in enumerate(task.losses):
            if len(of_fold(own, index, place)["own"]) == 0:
                left_out[index] = f"{loss.facts.name} is not defined for its held-out part, since {loss.no_value}."
                break
        else:
            kept.append(job)
    return kept, left_out


def _can_be_cut_twice(task: Task, fold: Fold) -> bool:
    assert task.clusters is not None
    return int((np.bincount(task.clusters[fold.validation]) >= 3).sum()) >= 2


def of_common_sizes(folds: tuple[FoldSamples, ...]) -> tuple[FoldSamples, ...]:
    """The folds with only those smaller sizes that none of them failed at."""
    common = set.intersection(*({samples.size for samples in fold.smaller} for fold in folds))
    return tuple(
        replace(fold, smaller=tuple(samples for samples in fold.smaller if samples.size in common)) for fold in folds
    )
