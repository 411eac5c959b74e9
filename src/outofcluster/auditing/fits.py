"""What an audit fits: the user's own models, a few baselines, and the runs that the error model plans for a fold.

Between the checks and the fits there is a moment for those who want to say something. Whatever is wrong with the input
has been refused by then, and nothing has been fitted yet. The command line shows its account of the table at this
moment, with an estimate of the time; so a refused command shows nothing but its sentence.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import CheckpointError, FitError, InputError
from outofcluster._base.rows import take_rows
from outofcluster._base.seeds import Seeds
from outofcluster.errormodels.base import Choices, Evidence
from outofcluster.problem.account import TableAccount
from outofcluster.problem.folds import ClusterSizes, Fold, count_clusters
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.audit_samples import AuditSamples, EffectLosses, FoldSamples, RandomFolds, TrainLosses
from outofcluster.sampling.baselines import MODELS_PER_FOLD, fold_losses, random_losses, train_losses, training_shares
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.engine import package_versions
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.run import PreparedRun, RunSettings, UnitKind, prepare
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Store

# Models that the test for a cluster effect fits.
MODELS_OF_THE_TEST = 60
# What a training record takes in each fold, and how much all folds may take.
_BYTES_OF_A_ROW, _MOST_GIGABYTES = 16, 16.0
# Records times levels times folds up to which sums are stored both for clusters and for records (some 70 MB).
_BOTH_KINDS = 1_000_000

Losses = dict[str, Array]
# Losses of the own models, by metric and fold.
OwnLosses = tuple[tuple[Losses, ...], ...]


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


@dataclass(frozen=True)
class AuditPlan:
    """The folds that can be audited, and why the others cannot."""

    folds: tuple[FoldPlan, ...]
    left_out: Mapping[int, str]

    @property
    def budget(self) -> int:
        """Number of fits to resamples."""
        return sum(run.plan.budget for fold in self.folds for run in fold.runs)

    @property
    def compiled_fits(self) -> int:
        """Number of fits by a compiled kernel."""
        return sum(run.compiled_fits for fold in self.folds for run in fold.runs)

    def where_defined(self, task: Task, own: OwnLosses) -> AuditPlan:
        """The plan for folds in which the own models define every metric; fails where there is none."""
        kept, left_out = list[FoldPlan](), dict(self.left_out)
        for fold in self.folds:
            index = int(fold.fold.index)
            by_metric = zip(task.metrics, own, strict=True)
            metric = next((metric for metric, losses in by_metric if not len(losses[index]["own"])), None)
            if metric is not None:
                left_out[index] = f"{metric.facts.name} is not defined for its held-out part, since {metric.no_value}."
            else:
                kept.append(fold)
        if not kept:
            raise _nothing_audited(left_out)
        return AuditPlan(tuple(kept), left_out)


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

    own: OwnLosses
    random: tuple[RandomFolds, ...]
    effect: tuple[Effect, ...]
    training_shares: Array
    train: tuple[tuple[Array, ...], ...] = ()


def count_baselines(choices: Choices, n_folds: int) -> int:
    """Number of models that are fitted once per audit: own ones, those of random folds and of the test, and others."""
    further = sum(MODELS_PER_FOLD[name] for name in choices.model.baselines(choices))
    return (1 + further) * n_folds + max(2, n_folds) + MODELS_OF_THE_TEST


# --- the fits ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AuditFits:
    """All that an audit fits.

    Attributes
    ----------
    task, folds : Task, tuple of Fold
        The checked problem.
    choices, evidence : Choices, Evidence
        What the audit was asked for, and what the records themselves show.
    seeds, store : Seeds, Store
        Where random numbers come from, and where finished work is kept.
    n_jobs : int or None
        Workers.
    """

    task: Task
    folds: tuple[Fold, ...]
    choices: Choices
    evidence: Evidence
    seeds: Seeds
    store: Store
    n_jobs: int | None

    def plan(self) -> AuditPlan:
        """The checked runs of every fold, and the reasons of those that cannot run; refuses if no fold can."""
        task, folds, choices = self.task, self.folds, self.choices
        fits = choices.model.n_fits if choices.n_fits is None else choices.fits_per_fold(len(folds)) * len(folds)
        settings = RunSettings(self._stored_units(), choices.kernel, fits)
        plans, failures = list[FoldPlan](), dict[int, InputError]()
        for fold in folds:
            try:
                _check_metrics(task, fold)
                runs = choices.model.runs(task, fold, folds, choices, self.evidence, self.seeds)
                at = {run.role: self.store.checkpoint(fold.index, run.role) for run in runs}
                prepared = (prepare(task, run, settings, checkpoint=at[run.role]) for run in runs)
                plans.append(FoldPlan(fold, tuple(prepared)))
            except CheckpointError:
                raise
            except InputError as error:
                failures[int(fold.index)] = error
        if not plans:
            raise next(iter(failures.values()))
        return AuditPlan(tuple(plans), {index: str(error) for index, error in failures.items()})

    def _stored_units(self) -> tuple[UnitKind, ...]:
        """The units that were chosen and, where memory and metrics that are computed anew allow, the others as well."""
        task, choices = self.task, self.choices
        levels = choices.model.n_levels(self.folds, choices, task)
        too_many = task.n_records * levels * len(self.folds) > _BOTH_KINDS
        if too_many or any(metric.recomputed for metric in task.metrics):
            return (choices.units,)
        return ("clusters", "records") if choices.units == "clusters" else ("records", "clusters")

    def own_models(self) -> OwnLosses:
        """The losses of the user's own models by every metric, fold by fold."""
        rows = [(fold.train, fold.validation) for fold in self.folds]
        about = {"folds": digest(rows), "random_state": self.seeds.entropy, "versions": package_versions()}
        self.store.open(self.task.description | about)
        own: OwnLosses = self._part("own", OwnLosses, fold_losses, self.folds, parts=self.evidence.parts)
        return own

    def _part(self, name: str, kind: Any, fit: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a checkpoint holds by a name, else what a function fits with the random numbers of that name."""
        drawn = {"seed": self.seeds.stream(name), "n_jobs": self.n_jobs}
        return self.store.part(name, kind, lambda: fit(self.task, *arguments, **options, **drawn))

    def baselines(self, own: OwnLosses) -> Baselines:
        """All baselines, those that a checkpoint holds from there."""
        folds, wanted = self.folds, self.choices.model.baselines(self.choices)
        random = self._part("random", tuple[RandomFolds, ...], random_losses, max(2, len(folds)))
        effect = self._part("effect", tuple[Effect, ...], _fit_effect, folds)
        shares, train = np.zeros(len(self.task.metrics)), ()
        if "training" in wanted:
            shares = self._part("training", NDArray[np.float64], training_shares, folds, own)
        if "train" in wanted:
            train = self._part("train", tuple[tuple[NDArray[np.float64], ...], ...], train_losses, folds)
        return Baselines(own, random, effect, shares, train)

    def samples(self, plan: AuditPlan, baselines: Baselines, bar: Progress) -> tuple[AuditSamples, ...]:
        """The samples of every metric; a fold whose models fail is left out and named."""
        task, by_metric = self.task, [list[FoldSamples]() for _ in self.task.metrics]
        left_out, failure = dict(plan.left_out), None
        with bar:
            for each in plan.folds:
                try:
                    facts = self.evidence.facts(task, each.fold, self.choices.rates)
                    for samples, one in zip(by_metric, self._fit_fold(each, baselines, bar), strict=True):
                        samples.append(replace(one, **facts))
                except FitError as error:
                    left_out[int(each.fold.index)] = str(error)
                    failure = failure or error
                each.fold.forget()
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
                error_model=self.choices.model.name,
                metric=metric.facts,
                training_share=float(baselines.training_shares[position]),
                observed=ClusterSizes.of(task.clusters),
                fold_sizes=tuple(len(fold.validation) for fold in self.folds),
                cluster_names=task.cluster_names if any(fold.sides or fold.entities for fold in samples) else (),
            )
            for position, (metric, samples) in enumerate(zip(task.metrics, by_metric, strict=True))
        )

    def _fit_fold(self, plan: FoldPlan, baselines: Baselines, bar: Progress) -> Iterator[FoldSamples]:
        """The samples of a fold by every metric."""
        fold, clusters = plan.fold, self.task.clusters
        assert clusters is not None
        runs = dict[str, tuple[LossSamples, ...]]()
        for prepared in plan.runs:
            with nullcontext() if prepared.run.required else suppress(FitError):
                runs[prepared.run.role] = prepared.start(bar, n_jobs=self.n_jobs)
        for position in range(len(self.task.metrics)):
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


def _fit_effect(task: Task, folds: tuple[Fold, ...], **drawn: Any) -> tuple[Effect, ...]:
    try:
        by_metric = sample_effect(task, folds, **drawn)
    except (FitError, InputError) as error:
        return (Effect(None, str(error)),) * len(task.metrics)
    return tuple(Effect(None, losses) if isinstance(losses, str) else Effect(losses) for losses in by_metric)


def _check_metrics(task: Task, fold: Fold) -> None:
    labels = np.asarray(task.y)[fold.validation]
    for metric in task.metrics:
        if why := metric.undefined(labels):
            raise InputError(f"{metric.facts.name} is not defined for its held-out part, since {why}.")


def _nothing_audited(left_out: Mapping[int, str], failure: FitError | None = None) -> FitError:
    index, why = next(iter(left_out.items()))
    message = f"No fold could be audited; the first: Fold {index} could not be audited: {why}"
    return FitError(message, failure and failure.samples)


def _of_common_sizes(folds: Sequence[FoldSamples]) -> tuple[FoldSamples, ...]:
    """The folds with only those sizes that none of them failed at."""
    common = set[str].intersection(*(set(fold.size_roles) for fold in folds))
    return tuple(fold.without_sizes([role for role in fold.size_roles if role not in common]) for fold in folds)


# --- before the fits --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Announcement:
    """What is about to be fitted.

    Attributes
    ----------
    task : Task
        The checked problem.
    fold : Fold
        One of the folds.
    account : TableAccount
        The account of the table.
    fits : int
        Models that will be fitted one by one.
    compiled_fits : int
        Models that a compiled kernel will fit, which is far faster.
    error_model : str
        The error model of an audit; empty for a test.
    """

    task: Task
    fold: Fold
    account: TableAccount
    fits: int
    compiled_fits: int = 0
    error_model: str = ""

    @classmethod
    def of(cls, task: Task, plan: AuditPlan, choices: Choices, account: TableAccount) -> Announcement:
        """What an audit is about to fit."""
        fits = plan.budget - plan.compiled_fits + count_baselines(choices, len(plan.folds) + len(plan.left_out))
        return cls(task, plan.folds[0].fold, account, fits, plan.compiled_fits, choices.model.name)

    def seconds_per_fit(self) -> float:
        """Fit and score one model, as the audit will, and say how long it took; 0 where that fails."""
        from sklearn.base import clone

        task, train, held_out = self.task, self.fold.train, self.fold.validation
        if task.params:
            return 0.0
        start = time.perf_counter()
        try:
            model = clone(task.estimator).fit(take_rows(task.X, train), take_rows(task.y, train))
            model.predict(take_rows(task.X, held_out))
        except Exception:
            # What is wrong with the model is said by the audit, which knows better where it happened.
            return 0.0
        return time.perf_counter() - start


_listener: ContextVar[Callable[[Announcement], Any] | None] = ContextVar("listener", default=None)


@contextmanager
def before_fits(listener: Callable[[Announcement], Any]) -> Iterator[None]:
    """Call a function when the checks of the first audit or test within this context are done."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def announce(make: Callable[[], Announcement]) -> None:
    """Tell the listener, if there is one, that the fits begin; it is told once."""
    listener = _listener.get()
    if listener is not None:
        _listener.set(None)
        listener(make())
