"""What an audit fits: the user's own models, a few baselines, and the runs that the error model plans for a fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import CheckpointError, FitError, InputError
from outofcluster._base.seeds import Seeds
from outofcluster.errormodels.base import Choices, Evidence
from outofcluster.problem.folds import ClusterSizes, Fold, count_clusters
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.audit_samples import AuditSamples, EffectLosses, FoldSamples, RandomFolds, TrainLosses
from outofcluster.sampling.baselines import (
    MODELS_PER_FOLD,
    fold_losses,
    random_fold_losses,
    train_losses,
    training_shares,
)
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.run import PreparedRun, RunSettings, UnitKind, package_versions, prepare
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Store

# Models that the test for a cluster effect fits.
_MODELS_OF_THE_TEST = 60
# What a training record takes in each fold, and how much all folds may take.
_BYTES_OF_A_ROW, _MOST_GIGABYTES = 16, 16.0
# Records times levels times folds up to which sums are stored both for clusters and for records (some 70 MB).
_BOTH_KINDS = 1_000_000

Losses = dict[str, Array]


def check_folds(n_folds: int, n_records: int) -> None:
    """Refuse more folds than fit into memory: each keeps the rows that it trains on, and their clusters."""
    gigabytes = n_folds * n_records * _BYTES_OF_A_ROW / 1e9
    if gigabytes > _MOST_GIGABYTES:
        raise InputError(
            f"cv must give fewer folds for {n_records} records, got {n_folds}, which would take some "
            f"{gigabytes:,.0f} GB of memory; use for example GroupKFold(20)."
        )


# --- the plan ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldPlan:
    """A fold that can be audited, and the checked runs that are fitted to it."""

    fold: Fold
    runs: tuple[PreparedRun, ...]

    @property
    def budget(self) -> int:
        """Number of fits."""
        return sum(run.plan.budget for run in self.runs)

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""
        return sum(run.compiled_fits for run in self.runs)


@dataclass(frozen=True)
class AuditPlan:
    """The folds that can be audited, and why the others cannot."""

    folds: tuple[FoldPlan, ...]
    left_out: Mapping[int, str]

    @property
    def budget(self) -> int:
        """Number of fits to resamples."""
        return sum(fold.budget for fold in self.folds)

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""
        return sum(fold.compiled_fits for fold in self.folds)

    def where_defined(self, task: Task, own: Sequence[Sequence[Losses]]) -> AuditPlan:
        """The plan for folds in which the own models define every metric; fails where there is none."""
        kept, left_out = list[FoldPlan](), dict(self.left_out)
        for fold in self.folds:
            index = int(fold.fold.index)
            undefined = [
                metric for metric, losses in zip(task.losses, own, strict=True) if not len(losses[index]["own"])
            ]
            if undefined:
                metric = undefined[0]
                left_out[index] = f"{metric.facts.name} is not defined for its held-out part, since {metric.no_value}."
            else:
                kept.append(fold)
        if not kept:
            raise _nothing_audited(left_out)
        return AuditPlan(tuple(kept), left_out)


def plan_audit(
    task: Task, folds: Sequence[Fold], choices: Choices, evidence: Evidence, seeds: Seeds, store: Store
) -> AuditPlan:
    """The checked runs of every fold, and the reasons of those that cannot run; refuses if no fold can."""
    fits_in_all = choices.fits_per_fold(len(folds)) * len(folds)
    settings = RunSettings(_stored_units(task, folds, choices), choices.kernel, fits_in_all)
    plans, left_out, first = list[FoldPlan](), dict[int, str](), None
    for fold in folds:
        try:
            _check_metrics(task, fold)
            runs = choices.model.runs(task, fold, folds, choices, evidence, seeds)
            prepared = [prepare(task, run, settings, checkpoint=store.checkpoint(fold.index, run.role)) for run in runs]
            plans.append(FoldPlan(fold, tuple(prepared)))
        except CheckpointError:
            raise
        except InputError as error:
            first = first or error
            left_out[int(fold.index)] = str(error)
    if first is not None and not plans:
        raise first
    return AuditPlan(tuple(plans), left_out)


def _check_metrics(task: Task, fold: Fold) -> None:
    labels = np.asarray(task.y)[fold.validation]
    for metric in task.losses:
        if why := metric.undefined(labels):
            raise InputError(f"{metric.facts.name} is not defined for its held-out part, since {why}.")


def _stored_units(task: Task, folds: Sequence[Fold], choices: Choices) -> tuple[UnitKind, ...]:
    """The units that were chosen and, where memory and metrics that are computed anew allow, the others as well."""
    if any(metric.recomputed for metric in task.losses):
        return (choices.units,)
    levels = choices.model.n_levels(folds, choices, task)
    kinds: tuple[UnitKind, ...] = ("clusters", "records")
    both = task.n_records * levels * len(folds) <= _BOTH_KINDS
    return tuple(sorted(kinds, key=lambda kind: kind != choices.units)) if both else (choices.units,)


# --- baselines --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Effect:
    """The losses behind the test for a cluster effect, or why there are none."""

    losses: EffectLosses | None
    problem: str = ""


@dataclass(frozen=True, eq=False)
class Baselines:
    """What is fitted once per audit, one entry per metric.

    Attributes
    ----------
    own : tuple
        For every fold the losses of the user's own model on held-out records.
    random : tuple of RandomFolds
        Losses over folds that ignore clusters.
    effect : tuple of Effect
        Losses behind the test for a cluster effect.
    training_shares : array
        What training clusters add to the variance between clusters.
    train : tuple
        For every fold the losses on training records; empty where they are not needed.
    """

    own: tuple[tuple[Losses, ...], ...]
    random: tuple[RandomFolds, ...]
    effect: tuple[Effect, ...]
    training_shares: Array
    train: tuple[tuple[Array, ...], ...] = ()


def count_baselines(choices: Choices, n_folds: int) -> int:
    """Number of models that are fitted once per audit: own ones, those of random folds and of the test, and others."""
    further = sum(MODELS_PER_FOLD[name] for name in choices.model.baselines(choices))
    return (1 + further) * n_folds + max(2, n_folds) + _MODELS_OF_THE_TEST


def fit_own_models(
    task: Task, folds: Sequence[Fold], evidence: Evidence, seeds: Seeds, store: Store, n_jobs: int | None
) -> tuple[tuple[Losses, ...], ...]:
    """The losses of the user's own models by every metric, fold by fold."""

    def fit() -> tuple[tuple[Losses, ...], ...]:
        by_metric = fold_losses(task, folds, seed=seeds.stream("own"), parts=evidence.parts, n_jobs=n_jobs)
        return tuple(tuple(losses) for losses in by_metric)

    rows = [(fold.train, fold.validation) for fold in folds]
    store.open(
        task.description | {"folds": digest(rows), "random_state": seeds.entropy, "versions": package_versions()}
    )
    return store.part("own", tuple[tuple[Losses, ...], ...], fit)


def fit_baselines(
    task: Task,
    folds: tuple[Fold, ...],
    choices: Choices,
    own: tuple[tuple[Losses, ...], ...],
    seeds: Seeds,
    store: Store,
    n_jobs: int | None,
) -> Baselines:
    """All baselines, those that a checkpoint holds from there."""
    wanted, n_metrics = choices.model.baselines(choices), len(task.losses)

    def fit_random() -> tuple[RandomFolds, ...]:
        return random_fold_losses(task, max(2, len(folds)), seed=seeds.stream("random"), n_jobs=n_jobs)

    def fit_effect() -> tuple[Effect, ...]:
        try:
            by_metric = sample_effect(task, folds, seed=seeds.stream("effect"), n_jobs=n_jobs)
        except (FitError, InputError) as error:
            return (Effect(None, str(error)),) * n_metrics
        return tuple(Effect(None, losses) if isinstance(losses, str) else Effect(losses) for losses in by_metric)

    def fit_training() -> Array:
        return training_shares(task, folds, own, seed=seeds.stream("training"), n_jobs=n_jobs)

    def fit_train() -> tuple[tuple[Array, ...], ...]:
        by_metric = train_losses(task, folds, seed=seeds.stream("train"), n_jobs=n_jobs)
        return tuple(tuple(losses) for losses in by_metric)

    return Baselines(
        own,
        store.part("random", tuple[RandomFolds, ...], fit_random),
        store.part("effect", tuple[Effect, ...], fit_effect),
        store.part("training", NDArray[np.float64], fit_training) if "training" in wanted else np.zeros(n_metrics),
        store.part("train", tuple[tuple[NDArray[np.float64], ...], ...], fit_train) if "train" in wanted else (),
    )


# --- resamples --------------------------------------------------------------------------------------------


def fit_plan(
    task: Task,
    folds: Sequence[Fold],
    plan: AuditPlan,
    choices: Choices,
    evidence: Evidence,
    baselines: Baselines,
    bar: Progress,
    n_jobs: int | None,
) -> tuple[AuditSamples, ...]:
    """The samples of every metric; a fold whose models fail is left out and named."""
    by_metric: list[list[FoldSamples]] = [[] for _ in task.losses]
    left_out, failure, plans = dict(plan.left_out), None, list(plan.folds)
    del plan
    with bar:
        # Each fold goes when it is done: the rows and units of all folds together would be a large part of the memory.
        while plans:
            fold = plans.pop(0)
            try:
                facts = evidence.facts(task, fold.fold, choices.rates)
                for samples, one in zip(by_metric, _fit_fold(task, fold, baselines, bar, n_jobs), strict=True):
                    samples.append(replace(one, **facts))
            except FitError as error:
                left_out[int(fold.fold.index)] = str(error)
                failure = failure or error
            fold.fold.forget()
    if not by_metric[0]:
        raise _nothing_audited(left_out, failure) from failure
    assert task.clusters is not None
    return tuple(
        AuditSamples(
            folds=_of_common_sizes(samples),
            random_folds=baselines.random[position],
            effect=baselines.effect[position].losses,
            effect_problem=baselines.effect[position].problem,
            left_out=left_out,
            error_model=choices.model.name,
            metric=metric.facts,
            training_share=float(baselines.training_shares[position]),
            observed=ClusterSizes.of(task.clusters),
            fold_sizes=tuple(len(fold.validation) for fold in folds),
            cluster_names=task.cluster_names if any(fold.sides or fold.entities for fold in samples) else (),
        )
        for position, (metric, samples) in enumerate(zip(task.losses, by_metric, strict=True))
    )


def _nothing_audited(left_out: Mapping[int, str], failure: FitError | None = None) -> FitError:
    index, why = next(iter(left_out.items()))
    return FitError(
        f"No fold could be audited; the first: Fold {index} could not be audited: {why}",
        failure and failure.samples,
    )


def _fit_fold(
    task: Task, plan: FoldPlan, baselines: Baselines, bar: Progress, n_jobs: int | None
) -> Iterator[FoldSamples]:
    """The samples of a fold by every metric."""
    fold, clusters = plan.fold, task.clusters
    assert clusters is not None
    runs = dict[str, tuple[LossSamples, ...]]()
    for prepared in plan.runs:
        with nullcontext() if prepared.run.required else suppress(FitError):
            runs[prepared.run.role] = prepared.start(bar, n_jobs=n_jobs)
    for position in range(len(task.losses)):
        own = baselines.own[position][fold.index]
        trained = None
        if baselines.train:
            trained = TrainLosses(fold.train, clusters[fold.train], baselines.train[position][fold.index])
        yield FoldSamples(
            index=int(fold.index),
            n_train=fold.n_train,
            n_train_clusters=count_clusters(clusters[fold.train]),
            rows=fold.validation,
            clusters=clusters[fold.validation],
            own_losses=own["own"],
            runs={role: by_metric[position] for role, by_metric in runs.items()},
            pseudo={name: losses for name, losses in own.items() if name != "own"},
            train_losses=trained,
        )


def _of_common_sizes(folds: Sequence[FoldSamples]) -> tuple[FoldSamples, ...]:
    """The folds with only those sizes that none of them failed at."""
    common = set[str].intersection(*(set(fold.size_roles) for fold in folds))
    return tuple(fold.without_sizes([role for role in fold.size_roles if role not in common]) for fold in folds)
