"""From a checked task, a split and settings to a run that can start; whatever is wrong is refused before any fit."""

from __future__ import annotations

import dataclasses
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.arguments import (
    Array,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_vector,
    short,
)
from outofcluster._base.exceptions import InputError
from outofcluster.evidence.laws import AssumedCuts, PieceLaw
from outofcluster.evidence.suspects import LikelyPieces
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.engine import Identity, run
from outofcluster.sampling.fitting import Compiled, Problem
from outofcluster.sampling.kernels import Units, find_kernel, require_compiler, worth_compiling
from outofcluster.sampling.levels import (
    Plan,
    allocate,
    extrapolation_design,
    largest_level,
)
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.resamplers import (
    Fragments,
    Injection,
    RatioWeights,
    Records,
    RecordWeights,
    WithoutPieces,
    make_injection,
)
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Checkpoint

_MAX_SUMS = 1_000_000
"""Levels times units up to which units='auto' keeps the jackknife's sums (176 MB)."""

_MOST_COMPILED = 5_000_000
"""Records times columns up to which kernel='auto' uses a kernel. It works on copies that take several times the memory
of the records, and saves little where one fit takes long."""

_FRAGMENT_LEVELS = 4
"""Where whole clusters leak the curve is close to a line."""

Rows = NDArray[np.int64]
UnitKind = Literal["clusters", "records"]


@dataclass(frozen=True)
class SamplingSettings:
    """How a split is sampled; the attributes are arguments of `sample_losses`, except for the following.

    Attributes
    ----------
    units : tuple of {"clusters", "records"}, or "auto"
        The kinds of units that the jackknife's sums are kept for.
    shares : array, optional
        The share of the fits that each level of ``injected`` gets; equal shares by default.
    fits_in_all : int, optional
        Fits of the same model in this and in other runs, which decide whether a kernel is worth compiling.
    law : PieceLaw, optional
        How large the pieces of cut clusters are, where that was learned.
    ratios : RatioWeights, optional
        Weights for negative injected fractions.
    by_weights : bool
        Whether positive fractions are drawn by weights as well.
    thinned : bool
        Whether negative fractions keep each training record with the probability of its weight, instead of drawing
        ``n_train`` of them.
    pieces : LikelyPieces, optional
        Training clusters to leave out in turn with others, in the place of an injection.
    """

    error_model: str = "records"
    injected: ArrayLike | None = None
    shares: Array | None = None
    largest: float | None = None
    n_fits: int = 2000
    n_train: int | None = None
    replace: bool = True
    units: tuple[UnitKind, ...] | Literal["auto"] = "auto"
    standard_error: float | None = None
    kernel: bool | Literal["auto"] = "auto"
    fits_in_all: int | None = None
    law: PieceLaw | None = None
    ratios: RatioWeights | None = None
    by_weights: bool = False
    thinned: bool = False
    pieces: LikelyPieces | None = None


@dataclass(frozen=True)
class Sampling:
    """A run that has been checked and can start."""

    problem: Problem
    plan: Plan
    identity: Identity
    checkpoint: Checkpoint | None

    def run(self, *, n_jobs: int | None, progress: bool) -> LossSamples:
        """Fit the models."""
        with Progress(self.plan.budget, show=bool(progress)) as bar:
            return self.run_within(bar, n_jobs=n_jobs)

    def run_within(self, progress: Progress, *, n_jobs: int | None) -> LossSamples:
        """Fit the models as one of several runs that share a bar."""
        return self.run_metrics(progress, n_jobs=n_jobs)[0]

    def run_metrics(self, progress: Progress, *, n_jobs: int | None) -> tuple[LossSamples, ...]:
        """The same with the samples of every metric."""
        return run(
            self.problem,
            self.plan,
            self.identity,
            checkpoint=self.checkpoint,
            n_jobs=n_jobs,
            progress=progress,
        )


def prepare(
    task: Task,
    fold: Fold,
    settings: SamplingSettings,
    *,
    seed: int | None = None,
    checkpoint: Checkpoint | None = None,
) -> Sampling:
    """Check the settings against the task and the split, and plan the run."""
    # Every size and kind of run of a fold shares its rows, their digests and their units.
    train, validation = fold.once("train", lambda: fold.train), fold.validation
    if len(validation) < 2:
        raise InputError(f"validation must hold at least 2 rows, got {len(validation)}.")
    if task.classifier and len(labels := np.unique(np.asarray(task.y)[train])) < 2:
        raise InputError(
            f"y must hold at least two classes among the training rows, got only {short(labels.tolist()[0])}."
        )
    check_flag("replace", settings.replace)
    if (not isinstance(settings.kernel, str) or settings.kernel != "auto") and check_flag("kernel", settings.kernel):
        require_compiler()
    injection = make_injection(
        settings.error_model,
        n_train=settings.n_train,
        train=train,
        validation=validation,
        groups=task.clusters,
        replace=settings.replace,
        law=settings.law,
    )
    if settings.ratios is not None and isinstance(injection, Records):
        injection = dataclasses.replace(
            injection, unmixing=settings.ratios, by_weights=settings.by_weights, thinned=settings.thinned
        )
    if settings.pieces is not None:
        assert task.clusters is not None
        injection = WithoutPieces.of(settings.pieces, task.clusters, train, validation)
    budget = check_integer("n_fits", settings.n_fits, least=1)
    plan = _plan(settings, budget, injection, len(validation))
    kinds = _unit_kinds(settings.units, task, fold, len(plan.injected))
    train_units, validation_units = (
        [_shared_units(kind, task, fold, side) for kind in kinds] for side in ("train", "validation")
    )

    entropy = np.random.SeedSequence().entropy if seed is None else seed
    assert isinstance(entropy, int)
    digests = fold.once("digests", lambda: {"train": digest(train), "validation": digest(validation)})
    about = task.description | digests | injection.describe()
    if isinstance(settings.ratios, RecordWeights):
        about["record_rates"] = digest(settings.ratios.given)
    compiled = None
    if settings.kernel and not task.params and isinstance(injection, Records):
        fits = (settings.fits_in_all or budget) if settings.kernel == "auto" else None
        compiled = _compiled(task, train, validation, injection.n_train, fits)
    if checkpoint is not None:
        if seed is None:
            # Without a seed in the call, the run goes on with the stored one.
            entropy = int((checkpoint.stored_problem() or {}).get("random_state", entropy))
        run_settings = {
            "injected": [float(a) for a in plan.injected],
            "n_fits": plan.budget,
            "standard_error": plan.standard_error,
            "random_state": str(entropy),
            "units": list(kinds),
            "kernel": compiled is not None,
            "ratios": None if settings.ratios is None else digest(settings.ratios.train),
            "pieces": None if settings.pieces is None else digest(vars(settings.pieces)),
            "versions": package_versions(),
        }
        checkpoint.begin(about | run_settings)
    problem = Problem(
        task.estimator,
        task.X,
        task.y,
        train,
        validation,
        injection,
        task.loss,
        task.classifier,
        task.params,
        np.random.SeedSequence(entropy).generate_state(2, np.uint64).astype(np.uint64),
        tuple(units for _, units in train_units),
        tuple(units for _, units in validation_units),
        compiled,
        task.more_losses,
        task.score_weight,
    )
    numbers = zip(kinds, train_units, validation_units, strict=True)
    units = {str(kind): (of_train, of_validation) for kind, (of_train, _), (of_validation, _) in numbers}
    names = tuple(loss.name for loss in task.losses)
    return Sampling(problem, plan, Identity(about, names, units, entropy, package_versions()), checkpoint)


def _plan(settings: SamplingSettings, budget: int, injection: Injection, n_validation: int) -> Plan:
    """The levels and the number of fits at each."""
    wanted = settings.standard_error
    if wanted is not None:
        wanted = check_number("standard_error", wanted, least=0, strict=True)
    if settings.injected is not None:
        if wanted is not None:
            raise InputError("standard_error must be None when injected is given: it needs the design's own levels.")
        levels = check_vector("injected", settings.injected)
        _check_fractions(levels, settings.ratios)
        levels = np.sort(levels)
        if len(np.unique(levels)) < len(levels):
            raise InputError("injected must hold distinct fractions, got one more than once.")
    elif isinstance(injection, WithoutPieces):
        levels = injection.levels
    elif isinstance(injection, Records):
        largest = settings.largest
        if largest is None:
            largest = largest_level(injection.n_train, n_validation, injection.replace)
        levels = extrapolation_design(3, 1000, largest).injected
    else:
        levels = np.linspace(0, 1, _FRAGMENT_LEVELS)
    if budget < len(levels):
        raise InputError(f"n_fits must be at least {len(levels)}, one for each level, got {budget}.")
    if settings.injected is None and isinstance(injection, Records) and budget >= 4 * len(levels):
        return Plan(levels, budget, standard_error=wanted)
    least = 2 if budget >= 2 * len(levels) else 1
    shares = np.ones(len(levels)) if settings.shares is None else settings.shares
    if isinstance(injection, Fragments) and isinstance(injection.law, AssumedCuts) and least == 2:
        # Replicates take turns between two laws, so that every level has equally many of both, but for an odd fit.
        fits = 2 * allocate(shares, budget // 2, least=1)
        fits[-1] += budget % 2
    else:
        fits = allocate(shares, budget, least=least)
    if settings.ratios is not None:
        # Every part of V̂ is scored by as many replicates of a weighted level.
        parts = injection.weighting(levels).strata
        fits = np.where(parts > 1, np.maximum(np.rint(fits / parts), 2).astype(np.int64) * parts, fits)
    return Plan(levels, int(fits.sum()), fixed=fits)


def _check_fractions(levels: Array, ratios: RatioWeights | None) -> None:
    least = -np.inf if ratios is not None else 0.0
    if levels.min() < least or levels.max() > 1:
        wrong = levels[(levels < least) | (levels > 1)][0]
        raise InputError(f"injected must hold fractions between 0 and 1, got {wrong:g}.")
    if ratios is not None:
        ratios.check(levels)


def _unit_kinds(units: Any, task: Task, fold: Fold, n_levels: int) -> tuple[UnitKind, ...]:
    """The kinds of units that the jackknife's sums are kept for."""
    if units == "auto":
        kind: UnitKind = "records" if task.clusters is None else "clusters"
        count = sum(_shared_units(kind, task, fold, side)[1].count for side in ("train", "validation"))
        return (kind,) if n_levels * count <= _MAX_SUMS else ()
    for each in units:
        check_choice("units", each, ("clusters", "records"))
    if "clusters" in units and task.clusters is None:
        raise InputError("groups must be given for units='clusters'.")
    return tuple(units)


def _shared_units(kind: UnitKind, task: Task, fold: Fold, side: str) -> tuple[Rows, Units]:
    rows = fold.once("train", lambda: fold.train) if side == "train" else fold.validation
    return fold.once(f"{side} {kind}", lambda: _units(kind, task, rows))


def _units(kind: UnitKind, task: Task, rows: Rows) -> tuple[Rows, Units]:
    """The numbers of a pool's units, and which of them each record belongs to."""
    if kind == "records":
        return rows, Units(np.arange(len(rows)), np.ones(len(rows), dtype=np.int64))
    assert task.clusters is not None
    numbers, places = renumbered(task.clusters[rows])
    return numbers, Units(places, np.bincount(places))


def _compiled(task: Task, train: Rows, validation: Rows, n_train: int, fits: int | None) -> Compiled | None:
    """The kernel and its input, where the estimator, the loss and the data allow one and so many fits are worth it."""
    kernel = find_kernel(task.estimator, task.loss.name, classifier=task.classifier)
    target = np.asarray(task.y)
    if kernel is None or task.more_losses or task.loss.kind != "per_record" or target.ndim != 1 or not task.is_matrix:
        return None
    # These come first: a kernel needs the records as numbers of double precision, which may be a second copy of them.
    columns = int(task.X.shape[1])
    if fits is not None and (
        task.n_records * columns > _MOST_COMPILED or not worth_compiling(kernel.model, fits, n_train, columns)
    ):
        return None
    assert task.dense is not None
    if task.classifier:
        labels = np.unique(target[np.concatenate([train, validation])])
        if len(labels) != 2:
            return None
        numbers = (target == labels[1]).astype(float)
    else:
        numbers = np.ascontiguousarray(target, dtype=float)
    if not kernel.usable:
        return None
    return Compiled(kernel, task.dense, numbers, kernel.start(task.dense, numbers, train))


@cache
def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the bits of a result."""
    names = ("outofcluster", "numpy", "scipy", "scikit-learn", *(("numba",) if find_spec("numba") else ()))
    return {"python": platform.python_version()} | {name: version(name) for name in names}
