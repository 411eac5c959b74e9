"""Runs: a split, a way to resample it, and the number of fits; whatever is wrong is refused before any fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.arguments import (
    Array,
    Codes,
    check_choice,
    check_flag,
    check_integer,
    check_number,
    check_vector,
    short,
)
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.metrics.base import Partition
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.engine import Identity, package_versions, run_plan
from outofcluster.sampling.fitting import Compiled, Workload
from outofcluster.sampling.kernels.kernel import find_kernel, worth_compiling
from outofcluster.sampling.levels import Plan
from outofcluster.sampling.progress import Part
from outofcluster.sampling.resamplers import Resampler
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Checkpoint

# Levels times units up to which units='auto' keeps effects (80 MB).
_MOST_EFFECTS = 10_000_000
# Records times columns up to which kernel='auto' uses a kernel. It works on copies that take several times the memory
# of the records, and saves little where one fit takes long.
_MOST_COMPILED = 5_000_000
# What a fit by a kernel takes, and one of very few records, as a multiple of the user's own: forests, boosting, support
# vectors, neighbours and logistic regression on 8 records took 0.04 to 0.8 of it, and 0.6 to 1.1 on resamples as large.
_TIME_COMPILED, _TIME_OF_FEW = 0.02, 0.3

UnitKind = Literal["clusters", "records"]


@dataclass(frozen=True)
class Run:
    """What is fitted to the resamples of one split.

    Attributes
    ----------
    role : str
        What the losses are for (:mod:`outofcluster.sampling.audit_samples`).
    fold : Fold
        The split.
    resampler : Resampler
        How it is resampled.
    n_fits : int
        Models to fit, over all levels.
    seed : int or None
        Seed of its random numbers, None for a new one.
    injected : array, optional
        Injected fractions; by default those that the resampler chooses.
    shares : array, optional
        The share of the fits that each of them gets; equal shares by default.
    largest : float, optional
        The largest fraction that the resampler may choose.
    required : bool
        Whether a fold is left out where this run fails; otherwise the fold does without.
    """

    role: str
    fold: Fold
    resampler: Resampler
    n_fits: int
    seed: int | None = None
    injected: ArrayLike | None = None
    shares: Array | None = None
    largest: float | None = None
    required: bool = True

    def at(self, levels: Array) -> Run:
        """The same run at some of its levels alone, with as many fits at each."""
        if self.injected is None:
            return self
        own = np.asarray(self.injected, dtype=float)
        kept = np.isin(own, levels)
        shares = None if self.shares is None else self.shares[kept]
        return replace(self, injected=own[kept], shares=shares, n_fits=self.n_fits * int(kept.sum()) // len(own))

    def plan(self, standard_error: float | None = None) -> Plan:
        """The levels and the number of fits at each; refuses what cannot be sampled."""
        budget = check_integer("n_fits", self.n_fits, least=1)
        wanted = None
        if standard_error is not None:
            wanted = check_number("standard_error", standard_error, least=0, strict=True)
        if self.injected is None:
            levels = self.resampler.levels(self.largest)
        elif wanted is not None:
            raise InputError("standard_error must be None when injected is given: it needs the design's own levels.")
        else:
            levels = np.sort(check_vector("injected", self.injected))
            self.resampler.check(levels)
            if len(np.unique(levels)) < len(levels):
                raise InputError("injected must hold distinct fractions, got one more than once.")
        if budget < len(levels):
            raise InputError(f"n_fits must be at least {len(levels)}, one for each level, got {budget}.")
        if self.injected is None and self.resampler.adaptive and budget >= 4 * len(levels):
            return Plan(levels, budget, standard_error=wanted)
        shares = np.ones(len(levels)) if self.shares is None else self.shares
        fits = self.resampler.spread(levels, shares, budget)
        return Plan(levels, int(fits.sum()), fixed=fits)


@dataclass(frozen=True)
class RunSettings:
    """What several runs share.

    Attributes
    ----------
    units : tuple of {"clusters", "records"}, or "auto"
        The kinds of units whose effects are kept.
    kernel : bool or "auto"
        Whether a compiled kernel is used.
    fits_in_all : int, optional
        Fits of the same model in all runs together, which decide whether a kernel is worth compiling.
    standard_error : float, optional
        Where a run may stop early.
    """

    units: tuple[UnitKind, ...] | Literal["auto"] = "auto"
    kernel: bool | Literal["auto"] = "auto"
    fits_in_all: int | None = None
    standard_error: float | None = None


class Runnable(Protocol):
    """Something that has been checked and can start: resamples of a split, or imitated cuts of it."""

    @property
    def role(self) -> str:
        """What the losses are for."""

    @property
    def identity(self) -> Any:
        """What it is known by in a checkpoint."""

    @property
    def required(self) -> bool:
        """Whether a fold is left out where this run fails."""

    @property
    def budget(self) -> int:
        """Number of fits."""

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""

    @property
    def relative_time(self) -> float:
        """About how long a fit takes, as a multiple of one of the user's own."""

    def start(self, progress: Part, *, n_jobs: int | None) -> dict[str, tuple[LossSamples, ...]]:
        """Fit the models, and give the samples of every metric by their role."""


@dataclass(frozen=True)
class PreparedRun:
    """A run that has been checked and can start."""

    run: Run
    workload: Workload
    plan: Plan
    identity: Identity
    checkpoint: Checkpoint | None

    def knowing(self, own: Sequence[Array]) -> PreparedRun:
        """The same run, whose losses are compared with those of the user's own models, one array per metric."""
        centred = tuple(losses - losses.mean() for losses in own)
        return replace(self, workload=replace(self.workload, own=centred))

    @property
    def role(self) -> str:
        """What the losses are for."""
        return self.run.role

    @property
    def required(self) -> bool:
        """Whether a fold is left out where this run fails."""
        return self.run.required

    @property
    def budget(self) -> int:
        """Number of fits."""
        return self.plan.budget

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""
        return 0 if self.workload.compiled is None else self.plan.budget

    @property
    def relative_time(self) -> float:
        """About how long a fit takes, as a multiple of one of the user's own."""
        if self.workload.compiled is not None:
            return _TIME_COMPILED
        # Part of a fit takes as long for any number of records, and so does scoring.
        return _TIME_OF_FEW + (1 - _TIME_OF_FEW) * min(self.workload.resampler.size / len(self.workload.train), 1.0)

    def start(self, progress: Part, *, n_jobs: int | None) -> dict[str, tuple[LossSamples, ...]]:
        """Fit the models, and give the samples of every metric by their role."""
        samples = run_plan(
            self.workload, self.plan, self.identity, checkpoint=self.checkpoint, n_jobs=n_jobs, progress=progress
        )
        return {self.role: samples}


def check_split(task: Task, fold: Fold) -> None:
    """Refuse a split that no model can be fitted to or scored on."""
    if len(fold.validation) < 2:
        raise InputError(f"validation must hold at least 2 rows, got {len(fold.validation)}.")
    if task.classifier and len(labels := np.unique(np.asarray(task.y)[_train(fold)])) < 2:
        raise InputError(
            f"y must hold at least two classes among the training rows, got only {short(labels.tolist()[0])}."
        )


def check_kernel(kernel: Any) -> None:
    """Refuse what is neither a flag nor "auto", and kernel=True where the compiler is not installed.

    With "auto" scikit-learn alone fits there.
    """
    automatic = isinstance(kernel, str) and kernel == "auto"
    if not automatic and check_flag("kernel", kernel) and find_spec("numba") is None:
        raise MissingExtraError("kernel=True needs numba: pip install 'outofcluster[fast]'.")


def _train(fold: Fold) -> Codes:
    """The training rows, which all runs of a fold share."""
    return fold.shared("train", lambda: fold.train)


def prepare(task: Task, run: Run, settings: RunSettings, *, checkpoint: Checkpoint | None = None) -> PreparedRun:
    """Check a run against the task, and plan it."""
    # Every size and kind of run of a fold shares its rows, their digests and their units.
    fold, resampler, train = run.fold, run.resampler, _train(run.fold)
    plan = run.plan(settings.standard_error)
    kinds = _unit_kinds(settings.units, task, fold, len(plan.injected))
    units = {kind: _shared_units(kind, task, fold) for kind in kinds}
    entropy = np.random.SeedSequence().entropy if run.seed is None else run.seed
    assert isinstance(entropy, int)
    digests = fold.shared("digests", lambda: {"train": digest(train), "validation": digest(fold.validation)})
    about = task.description | digests | resampler.describe()
    compiled = None
    if settings.kernel and not task.params:
        fits = (settings.fits_in_all or run.n_fits) if settings.kernel == "auto" else None
        compiled = _compiled(task, train, fold.validation, resampler.size, fits)
    if checkpoint is not None:
        if run.seed is None:
            # Without a seed in the call, the run goes on with the stored one.
            entropy = int((checkpoint.stored_problem() or {}).get("random_state", entropy))
        further = {
            "injected": [float(a) for a in plan.injected],
            "n_fits": plan.budget,
            "standard_error": plan.standard_error,
            "random_state": str(entropy),
            "units": list(kinds),
            "kernel": compiled is not None,
            "versions": package_versions(),
        }
        checkpoint.begin(about | further | resampler.details())
    key = np.random.SeedSequence(entropy).generate_state(2, np.uint64).astype(np.uint64)
    partitions = tuple(partition for _, partition in units.values())
    workload = Workload(task, train, fold.validation, resampler, key, partitions, compiled)
    numbers = {str(kind): numbers for kind, (numbers, _) in units.items()}
    return PreparedRun(run, workload, plan, Identity(about, numbers, entropy), checkpoint)


def _unit_kinds(units: Any, task: Task, fold: Fold, n_levels: int) -> tuple[UnitKind, ...]:
    """The kinds of units whose effects are kept."""
    if units == "auto":
        kind: UnitKind = "records" if task.clusters is None else "clusters"
        return (kind,) if n_levels * _shared_units(kind, task, fold)[1].count <= _MOST_EFFECTS else ()
    for each in units:
        check_choice("units", each, ("clusters", "records"))
    if "clusters" in units and task.clusters is None:
        raise InputError("groups must be given for units='clusters'.")
    return tuple(units)


def _shared_units(kind: str, task: Task, fold: Fold) -> tuple[Codes, Partition]:
    """The numbers of V̂'s units, and which of them each record belongs to."""
    rows = fold.validation

    def units() -> tuple[Codes, Partition]:
        if kind != "clusters":
            return rows, Partition(np.arange(len(rows)), len(rows))
        assert task.clusters is not None
        numbers, codes = renumbered(task.clusters[rows])
        return numbers, Partition(codes, len(numbers))

    return fold.shared(kind, units)


def _compiled(task: Task, train: Codes, validation: Codes, n_train: int, fits: int | None) -> Compiled | None:
    """The kernel and its input, where the estimator, the loss and the data allow one and so many fits are worth it."""
    metric, target = task.metrics[0], np.asarray(task.y)
    kernel = find_kernel(task.estimator, metric.name)
    if kernel is None or len(task.metrics) > 1 or not metric.is_mean or target.ndim != 1 or not task.is_matrix:
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
    return Compiled(kernel, task.dense, numbers)
