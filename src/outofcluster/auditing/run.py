"""``audit``: the call that leads from records and folds to the loss on new clusters.

Everything is checked first. Then every fold is scored as the user would score it, and sampled, and all folds are put
into one `AuditSamples`. What needs no further fit (another leakage rate, curve or level of confidence) is a method of
the result. A fold that cannot be audited is named in a finding, and the others are audited without it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from outofcluster._base.deprecation import old_names
from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.randomness import RandomState, seed_of
from outofcluster._base.validation import Array, check_integer
from outofcluster.auditing.choices import (
    TOLD_APART,
    asks_the_data,
    choose_error_model,
    choose_units,
    law_of_pieces,
    read_confidence,
    read_curve,
    read_leakage,
    read_unmix,
)
from outofcluster.auditing.findings import CODES
from outofcluster.auditing.result import Audit
from outofcluster.auditing.suspects import nearest_clusters
from outofcluster.curves.base import Curve
from outofcluster.design.automatic import least_size, placed_levels, placed_sizes
from outofcluster.design.extrapolation import largest_level
from outofcluster.design.unmixing import unmixed_fractions
from outofcluster.inference.pooled import Pooled
from outofcluster.leakage.data import estimate_rate, over_folds
from outofcluster.leakage.rate import Leakage
from outofcluster.sampling.audit_samples import (
    AuditSamples,
    EffectLosses,
    FoldSamples,
    FoldSizes,
    RandomFolds,
    SideFacts,
)
from outofcluster.sampling.baseline_store import BaselineStore
from outofcluster.sampling.baselines import fold_losses, random_fold_losses
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.fitting import one_blas_thread
from outofcluster.sampling.metrics.recomputed import OfModel, OfPredictions
from outofcluster.sampling.prepare import Sampling, SamplingSettings, UnitKind, package_versions, prepare
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.sides import sides_of, weights_of
from outofcluster.sampling.task import Task, check_n_jobs, digest
from outofcluster.sampling.training_variation import training_shares
from outofcluster.split.discriminator import Sides
from outofcluster.split.entities import EntitySuspects, LikelyPieces, entity_suspects, likely_pieces, match_clusters
from outofcluster.split.folds import Clusters, Fold, Rows, make_folds

__all__ = ["audit"]

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
_FITS_FOR_SIZES = 100
"""Number of fits per fold from which on some are spent on smaller training sets."""
_BOTH_KINDS = 1_000_000
"""Records times levels times folds up to which sums are stored both for clusters and for records (some 70 MB)."""


@old_names(errors="error_model", method="curve")
def audit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any = None,
    error_model: Literal["auto", "records", "fragments"] = "auto",
    cv: Any = None,
    loss: Any = None,
    scoring: Any = None,
    pool: Literal["records", "folds"] | None = None,
    pos_label: Any = None,
    score_weight: Any = None,
    curve: Literal["auto"] | Curve = "auto",
    n_fits: int | None = None,
    n_train: int | None = None,
    units: Literal["auto", "clusters", "records"] = "auto",
    params: dict[str, Any] | None = None,
    unmix: Any = "auto",
    confidence_level: float = 0.95,
    mute: Sequence[str] = (),
    kernel: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    random_state: RandomState = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Audit:
    """Audit a cross-validation for leakage through clustering errors.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    groups : array
        Approximate cluster of every record.
    leakage : float, Leakage, one for each fold, or "data", optional
        The leakage rate. A plain number is the share of training records that truly belong to validation clusters for
        ``error_model="records"``, and the share of validation records whose cluster also trains for
        ``error_model="fragments"``. "data" estimates it from the records themselves, for ``error_model="records"``; it
        can be trusted where the two sides of a split can be told apart. Without a rate there is no corrected loss.
    error_model : {"auto", "records", "fragments"}
        How clustering errors happen: single records leak, or pieces of clusters. "auto" goes by what the rate is
        a share of, else by the sizes of the clusters, and says so in a finding.
    cv : int, splitter or iterable, optional
        Folds that keep every approximate cluster on one side; 5 group folds by default.
    loss : str, callable or scorer, optional
        A loss per record, as in `sample_losses`.
    scoring : str, scorer, callable, or a list or dict of these, optional
        A metric in the place of ``loss``: a name of scikit-learn such as "roc_auc", "sensitivity", "specificity",
        "concordance", "calibration_slope" or "calibration_intercept", a scorer, or a function of (estimator, X, y).
        Several metrics are measured from the same fits: the result is that of the first one, which decides where fits
        are spent, and ``result.metrics`` holds all of them by name.
    pool : {"records", "folds"}, optional
        Whether a metric is that of all held-out records together, or the mean of those of the folds; by default means
        over records such as the accuracy are taken over records, and all others, such as AUC, over folds.
    pos_label : label, optional
        The positive one of two classes, for metrics that need one; the last in sorted order by default.
    score_weight : array, optional
        Weight of every record in scoring; weights for ``fit`` belong in ``params``.
    curve : Curve, optional
        Curve method; by default `AutoCurve` for records, a line for fragments.
    n_fits : int, optional
        Models to fit, over all folds: by default 3000 for records, of which 1200 with small training sets, and 1000
        more below the leakage rate (``unmix``); 400 for fragments, where the curve is a line, and 100 more without
        likely pieces.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    unmix : {"auto", False} or classifier
        Whether some of the models are fitted without the training records that look leaked, so that the loss is seen
        below the leakage rate (for ``error_model="records"``, from 150 fits per fold on; for "fragments" without the
        training clusters that are probably pieces of held-out entities, from 60 on). A classifier with
        ``predict_proba`` replaces the one that tells the two sides of a split apart.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    mute : sequence of str
        Codes of findings to leave out.
    kernel : {"auto", True, False}
        Whether a compiled kernel is used where there is one, as in `sample_losses`.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.
    progress : bool, default=False
        Show a bar, on a terminal or in a notebook.
    checkpoint : path, optional
        Beginning of the names of files in which finished work is kept, one for every fold and size of training sets;
        the same call goes on from there, and fits nothing if all was done.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(30), 10)
    >>> X = rng.standard_normal((300, 3))
    >>> y = X[:, 0] + rng.standard_normal(300) > 0
    >>> result = ooc.audit(LogisticRegression(), X, y, groups=groups, leakage=0.1, n_fits=300, random_state=0)
    >>> abs(result.corrected.value - result.naive.value) < 2 * result.corrected.se_data
    True
    """
    folds = make_folds(X, y, groups, cv)
    metrics: Any = {"scoring": scoring, "pool": pool, "pos_label": pos_label, "score_weight": score_weight}
    task = Task.check(estimator, X, y, groups=groups, loss=loss, params=params, **metrics)
    assert task.clusters is not None
    muted = _check_mute(mute)
    check_n_jobs(n_jobs)
    level = read_confidence(confidence_level)
    model, reason = choose_error_model(error_model, leakage, folds, task.clusters)
    from_data = asks_the_data(leakage, model)
    rates = None if leakage is None or from_data else read_leakage(leakage, model, len(folds))
    methods = [read_curve(curve, model, each.range) for each in task.losses]
    trained = [len(np.unique(task.clusters[fold.train])) for fold in folds]
    unit_kind = choose_units(units, [task.clusters[fold.validation] for fold in folds], trained)
    design = _design(task, folds, methods[0], model, n_fits, n_train, kernel)
    design = replace(design, settings=replace(design.settings, law=law_of_pieces(leakage)))
    classifier = read_unmix(unmix)
    store = BaselineStore(None if checkpoint is None else Path(f"{os.fspath(checkpoint)}.baselines"))
    seed = seed_of(random_state)
    root = np.random.SeedSequence(store.stored_seed if seed is None else seed)
    own_seed, random_seed, test_seed, *fold_seeds = root.spawn(3 + len(folds))
    design = replace(design, settings=replace(design.settings, units=_unit_kinds(unit_kind, design, task, len(folds))))
    wanted = design.unmixed_fits > 0 and unmix is not False
    if wanted or from_data:
        design = replace(design, sides=_sides(task, folds, classifier, fold_seeds))
    design = _unmixed(design) if wanted else _without_unmixing(design, spend=n_fits is not None)
    entities = dict[int, EntitySuspects]()
    if model == "fragments" and unmix is not False:
        entities, pieces = _entities(task, folds, root)
        # The records that lose a piece say nothing about a metric that is no mean over records.
        if all(each.kind == "per_record" and each.measure is None for each in task.losses):
            design = _without_pieces(design, pieces, spend=n_fits is not None)
    jobs, left_out = _prepare(task, folds, design, fold_seeds, checkpoint)
    bar = Progress(sum(job.budget for job in jobs), show=bool(progress))

    store.open(_identity(task, folds, root))
    parts = {index: sides.part for index, sides in design.sides.items()} if len(design.fractions) else {}
    own = store.part("own", lambda: _by_fold(fold_losses(task, folds, seed=own_seed, parts=parts, n_jobs=n_jobs)))
    n_random = max(2, len(folds))
    random = store.part("random", lambda: _random(task, n_random, random_seed, n_jobs))
    effects = store.part("effect", lambda: _effects(task, folds, test_seed, n_jobs))
    varied = np.zeros(len(task.losses))
    if model == "fragments" and n_train is None:
        # With T̂ as it is in every resample, other fits must show what other training clusters would do.
        training_seed = np.random.SeedSequence([*root.generate_state(4).tolist(), 3])
        again = partial(_varied, task, folds, own, training_seed, n_jobs)
        varied = store.part("training", again)["shares"]
    samples = dict[int, tuple[FoldSamples, ...]]()
    with bar:
        for job in jobs:
            index = job.fold.index
            try:
                losses = [_of_fold(own, index, place) for place in range(len(task.losses))]
                sampled = job.run(task.clusters, losses, bar, n_jobs)
                sides = _facts(task, job.fold, design.sides.get(index))
                samples[index] = tuple(replace(each, sides=sides, entities=entities.get(index)) for each in sampled)
            except FitError as error:
                left_out[index] = str(error)
    if not samples:
        index, why = next(iter(left_out.items()))
        raise FitError(f"No fold could be audited; the first: Fold {index} could not be audited: {why}", None)
    everything = tuple(
        AuditSamples(
            folds=_of_common_sizes(tuple(by_metric[place] for by_metric in samples.values())),
            random_folds=RandomFolds(random[f"rows{_ending(place)}"], random[f"losses{_ending(place)}"]),
            effect=_read_effect(effects, place),
            effect_problem=str(effects.get(f"problem{_ending(place)}", "")),
            left_out=left_out,
            error_model=model,
            metric=each.facts,
            training_share=float(varied[place]),
            cluster_names=tuple(str(name) for name in Clusters.of(groups, None).names)
            if design.sides or entities
            else (),
        )
        for place, each in enumerate(task.losses)
    )
    by_data = None
    if design.sides:
        by_data = _data_leakage([design.sides[index] for index in samples])
    if from_data:
        assert by_data is not None
        rates = (by_data,) * len(folds)
    if rates is not None:
        rates = tuple(rates[index] for index in samples)
    first, *others = (
        Audit(Pooled(each, unit_kind), rates, method, level, muted, reason, units, by_data)
        for each, method in zip(everything, methods, strict=True)
    )
    return replace(first, others=tuple(others))


def _check_mute(mute: Any) -> tuple[str, ...]:
    codes = (mute,) if isinstance(mute, str) else tuple(mute)
    unknown = [code for code in codes if code not in CODES]
    if unknown:
        raise InputError(f"mute must hold codes of findings ({', '.join(CODES)}), got {unknown[0]!r}.")
    return codes


@dataclass(frozen=True)
class _Design:
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
    piece_fits : int
        Fits without likely pieces of held-out entities.
    pieces : dict of LikelyPieces
        These pieces, for the folds that have some.
    """

    settings: SamplingSettings
    smaller: tuple[tuple[int, float], ...] = ()
    unmixed_fits: int = 0
    fractions: Array = field(default_factory=lambda: np.zeros(0))
    sides: Mapping[int, Sides] = field(default_factory=dict)
    piece_fits: int = 0
    pieces: Mapping[int, LikelyPieces] = field(default_factory=dict)

    @property
    def n_levels(self) -> int:
        """Number of levels over all sizes, or close to it."""
        levels = 6 if self.settings.injected is None else np.size(self.settings.injected)
        return int(levels) * (1 + len(self.smaller))


def _design(
    task: Task, folds: Sequence[Fold], curve: Curve, error_model: str, n_fits: Any, n_train: Any, kernel: Any
) -> _Design:
    """The levels and sizes that the curve asks for, and the fits of each fold."""
    if n_fits is None:
        budget = max(_FITS[error_model] // len(folds), _LEAST_FITS)
    else:
        budget = check_integer("n_fits", n_fits, least=_LEAST_FITS * len(folds)) // len(folds)
    settings = SamplingSettings(
        error_model=error_model, n_fits=budget, n_train=n_train, kernel=kernel, fits_in_all=budget * len(folds)
    )
    if error_model != "records":
        return _Design(settings)
    size = min(len(fold.train) for fold in folds) if n_train is None else check_integer("n_train", n_train, least=2)
    largest = min(largest_level(size, len(fold.validation)) for fold in folds)
    settings = replace(settings, n_train=size, largest=largest)
    if curve.needs.levels == "automatic":
        injected, shares = placed_levels(largest)
        settings = replace(settings, injected=injected, shares=shares)
    design = _Design(settings)
    if curve.needs.unmixed and (n_fits is None or budget >= _FITS_TO_UNMIX):
        below = budget // 3 if n_fits is None else budget // 4
        above = budget if n_fits is None else budget - below
        design = replace(design, settings=replace(settings, n_fits=above), unmixed_fits=below)
    if not curve.needs.sizes or budget < _FITS_FOR_SIZES:
        return design
    sizes, of_fits = placed_sizes(size, least_size(task.y if task.classifier else None))
    return replace(design, smaller=tuple(zip(sizes[1:], of_fits[1:].tolist(), strict=True)))


def _without_unmixing(design: _Design, *, spend: bool = True) -> _Design:
    """The same design without levels below the leakage rate, whose fits are spent above it where that is wanted."""
    fits = design.settings.n_fits + (design.unmixed_fits if spend else 0)
    return replace(design, settings=replace(design.settings, n_fits=fits), unmixed_fits=0)


def _sides(
    task: Task, folds: Sequence[Fold], classifier: Any, seeds: Sequence[np.random.SeedSequence]
) -> dict[int, Sides]:
    """What tells the two sides of every fold apart."""
    sides = dict[int, Sides]()
    for fold, seed in zip(folds, seeds, strict=True):
        own_seed = np.random.SeedSequence([*seed.generate_state(4).tolist(), 1])
        sides[fold.index] = sides_of(task, fold, seed=own_seed, classifier=classifier)
    return sides


def _entities(
    task: Task, folds: Sequence[Fold], root: np.random.SeedSequence
) -> tuple[dict[int, EntitySuspects], dict[int, LikelyPieces]]:
    """For every fold, the training clusters that may be pieces of held-out entities, and those that are to be left out.

    The latter are empty where the pair classifier finds too few of the imitated pieces, or too few pieces at all.
    """
    assert task.clusters is not None
    seed = np.random.SeedSequence([*root.generate_state(4).tolist(), 2])
    with one_blas_thread():
        try:
            pairs = match_clusters(task.X, task.y, task.clusters, seed=seed, discrete=task.classifier)
        except InputError:
            # Too few clusters to learn from: the audit goes on without suspects.
            return {}, {}
        suspects = {
            fold.index: entity_suspects(
                task.X, task.y, fold, task.clusters, seed=seed, discrete=task.classifier, pairs=pairs
            )
            for fold in folds
        }
    pieces = dict[int, LikelyPieces]()
    for fold in folds:
        own = likely_pieces(pairs, fold, task.clusters)
        left_out = float(np.isin(task.clusters[fold.train], own.train_clusters).mean())
        if own.caught >= _LEAST_CAUGHT and 0 < left_out <= _MOST_LEFT_OUT:
            pieces[fold.index] = own
    enough = sum(len(own.train_clusters) for own in pieces.values()) >= _LEAST_PIECES
    return suspects, pieces if enough else {}


def _without_pieces(design: _Design, pieces: Mapping[int, LikelyPieces], *, spend: bool) -> _Design:
    """The same design with models without likely pieces; their fits are part of the budget where there is one."""
    settings = design.settings
    if not pieces or (spend and settings.n_fits < _FITS_FOR_PIECES):
        return design
    if not spend:
        return replace(design, pieces=pieces, piece_fits=max(_FITS_OF_PIECES // len(pieces), 4))
    fits = settings.n_fits // 5
    return replace(design, pieces=pieces, piece_fits=fits, settings=replace(settings, n_fits=settings.n_fits - fits))


def _unmixed(design: _Design) -> _Design:
    """The same design with the levels below the leakage rate that the sides allow in all folds."""
    weights = [weights_of(own) for own in design.sides.values()]
    most = design.unmixed_fits // (_FITS_OF_A_PART * max(own.n_parts for own in weights)) - 1
    sides = list(design.sides.values())
    planned = _data_leakage(sides).rate if min(own.auc for own in sides) >= TOLD_APART else None
    fractions = unmixed_fractions(lambda fraction: all(own.allows(fraction) for own in weights), most, planned)
    return replace(design, fractions=fractions) if len(fractions) else _without_unmixing(design)


def _data_leakage(sides: Sequence[Sides]) -> Leakage:
    """What the records of all folds say about the leakage rate."""
    by_data = over_folds([estimate_rate(own) for own in sides])
    return Leakage(by_data.rate, by_data.std, "train", by_data.upper)


def _facts(task: Task, fold: Fold, sides: Sides | None) -> SideFacts | None:
    if sides is None:
        return None
    assert task.clusters is not None
    resembles = nearest_clusters(task.dense, fold, task.clusters)
    return SideFacts(fold.train, sides.ratio_train, resembles, float(sides.auc), float(sides.log_loss))


def _unit_kinds(unit_kind: UnitKind, design: _Design, task: Task, n_folds: int) -> tuple[UnitKind, ...]:
    """The units that were chosen and, where memory and metrics that are computed anew allow, the others as well."""
    other: UnitKind = "records" if unit_kind == "clusters" else "clusters"
    if any(isinstance(loss.measure, OfModel | OfPredictions) for loss in task.losses):
        return (unit_kind,)
    return (unit_kind, other) if task.n_records * design.n_levels * n_folds <= _BOTH_KINDS else (unit_kind,)


@dataclass(frozen=True)
class _Job:
    """A fold that has been checked and can be sampled."""

    fold: Fold
    sampling: Sampling
    smaller: tuple[Sampling, ...]
    second: Sampling | None
    unmixed: Sampling | None
    without_pieces: Sampling | None

    @property
    def budget(self) -> int:
        """Number of fits over all sizes."""
        others = (*self.smaller, self.second, self.unmixed, self.without_pieces)
        return self.sampling.plan.budget + sum(sampling.plan.budget for sampling in others if sampling is not None)

    def run(
        self, clusters: Rows, losses: Sequence[dict[str, Array]], bar: Progress, n_jobs: int | None
    ) -> tuple[FoldSamples, ...]:
        """The samples of every metric; ``losses`` are those of the user's own model."""
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
        train, rows = self.fold.train, self.fold.validation
        return tuple(
            FoldSamples(
                index=int(self.fold.index),
                n_train=len(train),
                n_train_clusters=len(np.unique(clusters[train])),
                rows=rows,
                clusters=clusters[rows],
                own_losses=own["own"],
                samples=samples[place],
                smaller=tuple(sized[place] for sized in smaller),
                pseudo={name: array for name, array in own.items() if name != "own"},
                **{name: runs[place] for name, runs in below.items()},  # type: ignore[arg-type]
            )
            for place, own in enumerate(losses)
        )


def _prepare(
    task: Task, folds: Sequence[Fold], design: _Design, seeds: Sequence[np.random.SeedSequence], checkpoint: Any
) -> tuple[list[_Job], dict[int, str]]:
    """The checked run of every fold, and the reasons of those that cannot run; refuses if no fold can."""
    jobs, left_out, first = list[_Job](), dict[int, str](), None
    for fold, seed in zip(folds, seeds, strict=True):
        try:
            jobs.append(_prepare_fold(task, fold, design, seed, checkpoint))
        except InputError as error:
            first = first or error
            left_out[int(fold.index)] = str(error)
    if first is not None and not jobs:
        raise first
    return jobs, left_out


def _prepare_fold(
    task: Task, fold: Fold, design: _Design, seed: np.random.SeedSequence, checkpoint: str | os.PathLike[str] | None
) -> _Job:
    labels = np.asarray(task.y)[fold.validation]
    for loss in task.losses:
        if why := loss.undefined(labels):
            raise InputError(f"{loss.facts.name} is not defined for its held-out part, since {why}.")
    own, second_seed, *seeds = (int(state) for state in seed.generate_state(2 + len(design.smaller), np.uint64))
    settings, budget = design.settings, design.settings.n_fits

    def file(ending: str) -> str | None:
        return None if checkpoint is None else f"{os.fspath(checkpoint)}.fold{fold.index}{ending}"

    second = None
    if settings.error_model == "fragments" and _can_be_cut_twice(task, fold):
        # A second piece's gain counts rho0 times as much as that of the first one, so it gets a quarter of the fits.
        fits = max(budget // 4, 4)
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
        below = replace(below, ratios=weights_of(design.sides[fold.index]), by_weights=True, thinned=True)
        below_seed = int(seed.generate_state(3 + len(design.smaller), np.uint64)[-1])
        unmixed = prepare(task, fold, below, seed=below_seed, checkpoint=file(".unmixed"))
    without_pieces = None
    if fold.index in design.pieces:
        settings = replace(settings, injected=None, n_fits=design.piece_fits, pieces=design.pieces[fold.index])
        pieces_seed = int(seed.generate_state(4 + len(design.smaller), np.uint64)[-1])
        without_pieces = prepare(task, fold, settings, seed=pieces_seed, checkpoint=file(".pieces"))
    return _Job(fold, first, tuple(smaller), second, unmixed, without_pieces)


def _can_be_cut_twice(task: Task, fold: Fold) -> bool:
    assert task.clusters is not None
    return int((np.bincount(task.clusters[fold.validation]) >= 3).sum()) >= 2


def _of_common_sizes(folds: tuple[FoldSamples, ...]) -> tuple[FoldSamples, ...]:
    """The folds with only those smaller sizes that none of them failed at."""
    common = set.intersection(*({samples.size for samples in fold.smaller} for fold in folds))
    return tuple(
        replace(fold, smaller=tuple(samples for samples in fold.smaller if samples.size in common)) for fold in folds
    )


def _identity(task: Task, folds: Sequence[Fold], root: np.random.SeedSequence) -> dict[str, Any]:
    """What the baselines depend on."""
    rows = [(fold.train, fold.validation) for fold in folds]
    return task.description | {"folds": digest(rows), "random_state": str(root.entropy), "versions": package_versions()}


def _ending(place: int) -> str:
    """What the names of a further metric's arrays end with."""
    return f":{place}" if place else ""


def _by_fold(by_metric: Sequence[Sequence[dict[str, Array]]]) -> dict[str, Array]:
    """Named arrays: of fold 2 "2" for the losses, "2.records" for pseudo losses; of further metrics "2:1"."""
    return {
        f"{index}{_ending(place)}" + ("" if name == "own" else f".{name}"): array
        for place, by_fold in enumerate(by_metric)
        for index, of_fold in enumerate(by_fold)
        for name, array in of_fold.items()
    }


def _of_fold(arrays: Mapping[str, Array], index: int, place: int) -> dict[str, Array]:
    """The losses of a fold by a metric, from the arrays of `_by_fold`."""
    start = f"{index}{_ending(place)}"
    more = {name.removeprefix(f"{start}."): array for name, array in arrays.items() if name.startswith(f"{start}.")}
    return {"own": arrays[start]} | more


def _random(task: Task, n_folds: int, seed: np.random.SeedSequence, n_jobs: int | None) -> dict[str, Array]:
    by_metric = random_fold_losses(task, n_folds, seed=seed, n_jobs=n_jobs)
    return {
        f"{name}{_ending(place)}": array for place, own in enumerate(by_metric) for name, array in vars(own).items()
    }


def _effects(task: Task, folds: tuple[Fold, ...], seed: np.random.SeedSequence, n_jobs: int | None) -> dict[str, Any]:
    """The losses for the test for a cluster effect by every metric, or why there are none."""
    try:
        by_metric: Sequence[EffectLosses | str] = sample_effect(task, folds, seed=seed, n_jobs=n_jobs)
    except (FitError, InputError) as error:
        by_metric = [str(error)] * len(task.losses)
    arrays = dict[str, Any]()
    for place, own in enumerate(by_metric):
        named: dict[str, Any] = {"problem": np.array(own)} if isinstance(own, str) else dict(vars(own))
        if isinstance(own, EffectLosses):
            named |= {"sizes": np.array(list(vars(own.sizes).values())), "units": np.array(own.units)}
        arrays |= {f"{name}{_ending(place)}": array for name, array in named.items()}
    return arrays


def _varied(
    task: Task, folds: tuple[Fold, ...], own: Mapping[str, Array], seed: np.random.SeedSequence, n_jobs: int | None
) -> dict[str, Array]:
    """What training clusters add to the variance, by every metric."""
    losses = [[_of_fold(own, fold.index, place) for fold in folds] for place in range(len(task.losses))]
    return {"shares": training_shares(task, folds, losses, seed=seed, n_jobs=n_jobs)}


def _read_effect(arrays: Mapping[str, Any], place: int) -> EffectLosses | None:
    def of(name: str) -> Any:
        return arrays[f"{name}{_ending(place)}"]

    if f"problem{_ending(place)}" in arrays:
        return None
    sizes = FoldSizes(*(int(size) for size in of("sizes")))
    return EffectLosses(of("train"), of("validation"), sizes, of("numbers"), str(of("units")))
