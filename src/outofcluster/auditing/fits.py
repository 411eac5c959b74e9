r"""What an audit fits: the user's own models, a few baselines, and the runs that the error model plans for a fold.

Fits come in rounds. A round has two fits at each level of every fold, or for every imitated cut, and is a run with a
seed of its own, so that rounds are joined as runs are. After each round the losses say how many more fits it takes
until the Monte-Carlo standard error of the optimism is as small a share of its standard error as was asked for: with R
rounds so far and a share x where p is asked for, :math:`R (x/p)^2` rounds in all. The next round has as many of them as
are missing, but at most as many as there were so far, since few fits say little about their own noise. What comes next
is decided by the losses alone, so that a run that goes on from a checkpoint comes to the same end.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import CheckpointError, FitError, InputError
from outofcluster._base.seeds import Seeds
from outofcluster.errormodels.base import Choices, Evidence
from outofcluster.metrics.resolve import NamedMetric
from outofcluster.problem.folds import ClusterSizes, Fold, count_clusters
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.audit_samples import (
    UNMIXED,
    AuditSamples,
    EffectLosses,
    FoldSamples,
    RandomFolds,
    TrainLosses,
    base_role,
    is_exchanged,
    joined_rounds,
)
from outofcluster.sampling.baselines import (
    MODELS_PER_FOLD,
    PREDICTED,
    SECONDS,
    fold_losses,
    random_losses,
    train_losses,
)
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.engine import package_versions
from outofcluster.sampling.predicted import kept_predictions
from outofcluster.sampling.progress import Part, Progress
from outofcluster.sampling.run import PreparedRun, Run, Runnable, RunSettings, UnitKind, prepare
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Store

# Rounds of fits, those of the usual size, after which an audit ends in any case.
_MOST_ROUNDS = 200
# Models that the test for a cluster effect fits.
MODELS_OF_THE_TEST = 10
# What a training record takes in each fold, and how much all folds may take.
_BYTES_OF_A_ROW, _MOST_GIGABYTES = 16, 16.0
# Records times levels times folds up to which sums are stored both for clusters and for records (some 70 MB).
_BOTH_KINDS = 1_000_000

# About how long fits take, as a multiple of the user's own: those of the test have a fourth of the records.
_WEIGHTS = {"effect": 0.6}
# What the bar says while baselines are fitted.
_WORDS = {
    "own": "your own models",
    "random": "random folds",
    "effect": "test for a cluster effect",
    "train": "losses on training records",
    "measured": "without some training clusters",
}

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
    runs: tuple[Runnable, ...]


@dataclass(frozen=True)
class AuditPlan:
    """The folds that can be audited, why the others cannot, and the number of further models of every fold."""

    folds: tuple[FoldPlan, ...]
    left_out: Mapping[int, str]
    n_measured: int = 0

    @property
    def budget(self) -> int:
        """Number of fits to resamples."""
        return sum(run.budget for fold in self.folds for run in fold.runs)

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
        return replace(self, folds=tuple(kept), left_out=left_out)


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
    train : tuple
        For every fold the losses on training records; empty where they are not needed.
    measured : mapping from str to tuple
        For every fold the losses of models without some training clusters, by the name of what they measure.
    """

    own: OwnLosses
    random: tuple[RandomFolds, ...]
    effect: tuple[Effect, ...]
    train: tuple[tuple[Array, ...], ...] = ()
    measured: Mapping[str, OwnLosses] = field(default_factory=dict)


def count_baselines(choices: Choices, n_folds: int, n_measured: int) -> dict[str, int]:
    """Models that are fitted once per audit: own ones, those of random folds and of the test, and others."""
    fits = {"own": n_folds, "random": max(2, n_folds), "effect": MODELS_OF_THE_TEST, "measured": n_measured * n_folds}
    return fits | {name: MODELS_PER_FOLD[name] * n_folds for name in choices.model.baselines(choices)}


# --- the fits ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RoundProgress:
    """How far the fits so far are from the precision that was asked for.

    Attributes
    ----------
    missing : float
        How many times as many fits as there are are missing; 0 where there are enough.
    levels : mapping from str to array
        The roles that need more fits, and the injected fractions at which they do.
    words : str
        The estimate as it stands, for whoever waits.
    """

    missing: float
    levels: Mapping[str, Array] = field(default_factory=dict)
    words: str = ""


@dataclass(frozen=True, eq=False)
class _Round:
    """What one round of fits gives: the folds by metric, and why others were left out."""

    by_metric: list[list[FoldSamples]]
    left_out: dict[int, str]
    baselines: Baselines


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
    bar : Progress
        Counts all fits.
    began : float
        When the checks were done.
    """

    task: Task
    folds: tuple[Fold, ...]
    choices: Choices
    evidence: Evidence
    seeds: Seeds
    store: Store
    n_jobs: int | None
    bar: Progress
    began: float

    @property
    def seconds(self) -> float:
        """Seconds since the checks were done."""
        return time.monotonic() - self.began

    def plan(self, number: int = 1, times: int = 1, levels: Mapping[str, Array] | None = None) -> AuditPlan:
        """The checked runs of every fold in a round, and the reasons of those that cannot run; refuses if no fold can.

        The number of the round gives its seeds, and it has so many times as many fits as usual, of all roles and levels
        or of these.
        """
        task, folds, seeds = self.task, self.folds, self.seeds.of_round(number)
        choices = replace(self.choices, stored_units=self._stored_units(), times=times)
        evidence = self.evidence if number == 1 else choices.model.for_round(task, self.evidence, choices, seeds)
        # Whether a kernel is worth compiling is decided by a number that was asked for, and never by a default audit.
        settings = RunSettings(choices.stored_units, choices.kernel, choices.n_fits or 1)
        plans, failures = list[FoldPlan](), dict[int, InputError]()
        for fold in folds:
            try:
                _check_metrics(task, fold)
                runs = _some_runs(choices.model.runs(task, fold, folds, choices, evidence, seeds), levels or {})
                plans.append(FoldPlan(fold, tuple(self._prepared(fold, run, settings, number) for run in runs)))
            except CheckpointError:
                raise
            except InputError as error:
                failures[int(fold.index)] = error
        if not plans:
            raise next(iter(failures.values()))
        return AuditPlan(tuple(plans), {index: str(error) for index, error in failures.items()}, len(self.measured))

    def _prepared(self, fold: Fold, run: Run | Runnable, settings: RunSettings, number: int) -> Runnable:
        if not isinstance(run, Run):
            return run
        role = run.role if number == 1 else f"{run.role}, round {number}"
        return prepare(self.task, run, settings, checkpoint=self.store.checkpoint(fold.index, role))

    def _stored_units(self) -> tuple[UnitKind, ...]:
        """The units that were chosen and, where memory and metrics that are computed anew allow, the others as well."""
        task, choices = self.task, self.choices
        levels = choices.model.n_levels(self.folds, choices, task)
        too_many = task.n_records * levels * len(self.folds) > _BOTH_KINDS
        if too_many or any(metric.recomputed for metric in task.metrics):
            return (choices.units,)
        return ("clusters", "records") if choices.units == "clusters" else ("records", "clusters")

    def finished_as(self, plan: AuditPlan) -> str:
        """The name under which a checkpoint says that all of this audit's models are in it."""
        choices = self.choices
        until = (choices.precision, choices.n_fits, choices.time_limit, repr(choices.rates.by_fold))
        return f"finished {digest((plan.budget, sorted(self._measured_names.values()), until))}"

    def finish(self, name: str, samples: AuditSamples) -> None:
        """Note in the checkpoint that nothing is left to be fitted, unless the fits ended early."""
        if not samples.ended:
            self.store.part(name, dict[str, int], lambda: {"fits": samples.n_fits})

    def expect(self, plan: AuditPlan) -> None:
        """Tell the bar what is about to be fitted."""
        for name, count in count_baselines(self.choices, len(self.folds), plan.n_measured).items():
            self.bar.expect(count, name, _WEIGHTS.get(name, 1.0))
        self._expect_runs(plan)
        self.bar.may_grow = not self.choices.fixed

    def _expect_runs(self, plan: AuditPlan) -> None:
        for run in (run for fold in plan.folds for run in fold.runs):
            self.bar.expect(run.budget, base_role(run.role), run.relative_time)

    def own_models(self) -> OwnLosses:
        """The losses of the user's own models by every metric, fold by fold."""
        rows = [(fold.train, fold.validation) for fold in self.folds]
        about = {"folds": digest(rows), "random_state": self.seeds.entropy, "versions": package_versions()}
        self.store.open(self.task.description | about)
        own: OwnLosses = self._part("own", OwnLosses, fold_losses, self.folds, parts=self.evidence.parts, timed=True)
        return own

    def _part(self, name: str, kind: Any, fit: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """What a checkpoint holds by a name, else what a function fits with the random numbers of that name."""
        with self._counted(name) as part:
            drawn = {"seed": self.seeds.stream(name), "n_jobs": self.n_jobs, "progress": part}
            return self.store.part(name, kind, lambda: fit(self.task, *arguments, **options, **drawn))

    def _counted(self, name: str) -> AbstractContextManager[Part]:
        """The fits of some baselines, on the bar."""
        self.bar.say(_WORDS[name])
        n_measured = len(self.measured)
        return self.bar.part(name).counting(count_baselines(self.choices, len(self.folds), n_measured)[name])

    @cached_property
    def measured(self) -> Mapping[str, Sequence[Fold]]:
        """Training sets in the place of the user's own, for every fold, by the name of what they measure."""
        return self.choices.model.measured(self.task, self.folds, self.choices, self.evidence)

    @cached_property
    def _measured_names(self) -> dict[str, str]:
        # The same name may stand for other clusters in a checkpoint, once somebody has looked up more of them.
        return {name: f"{name} {digest([fold.train for fold in folds])}" for name, folds in self.measured.items()}

    def _measured_losses(self) -> dict[str, OwnLosses]:
        """Losses of the models without some training clusters, by the name of what they measure."""
        kept_as = self._measured_names
        with self._counted("measured") as part:
            # The random numbers are those of the own models, so that only the training clusters differ.
            seed = self.seeds.stream("own")
            fit = partial(fold_losses, self.task, seed=seed, n_jobs=self.n_jobs, progress=part)
            return {
                name: self.store.part(kept_as[name], OwnLosses, partial(fit, folds))  # type: ignore[arg-type]
                for name, folds in self.measured.items()
            }

    def baselines(self, own: OwnLosses) -> Baselines:
        """All baselines, those that a checkpoint holds from there."""
        folds, wanted = self.folds, self.choices.model.baselines(self.choices)
        random = self._part("random", tuple[RandomFolds, ...], random_losses, max(2, len(folds)))
        effect = self._part("effect", tuple[Effect, ...], _fit_effect, folds)
        train = ()
        if "train" in wanted:
            train = self._part("train", tuple[tuple[NDArray[np.float64], ...], ...], train_losses, folds)
        return Baselines(own, random, effect, train, self._measured_losses())

    def samples(
        self, plan: AuditPlan, baselines: Baselines, progress_of: Callable[..., RoundProgress]
    ) -> tuple[AuditSamples, ...]:
        """The samples of every metric, after as many rounds as are needed; a fold whose models fail is named.

        ``progress_of`` says of the samples so far how far they are from the precision that was asked for.
        """
        rounds, number, bar = 1, 1, self.bar
        limit = self.choices.time_limit
        samples = self._joined(self._fit_round(plan, baselines, first=True), plan)
        while (state := progress_of(samples)).missing > 0 and not self.choices.fixed:
            bar.say(state.words)
            if rounds >= _MOST_ROUNDS:
                return self._ended(samples, "rounds")
            if limit is not None and self.seconds > limit:
                return self._ended(samples, "time")
            # Where time is limited, rounds stay short, so that it is not exceeded by much.
            missing = state.missing * rounds
            times = 1 if limit is not None else max(math.ceil(min(missing, float(rounds))), 1)
            number += 1
            try:
                further = self.plan(number, times, state.levels).where_defined(self.task, tuple(baselines.own))
                self._expect_runs(further)
                # One round says too little about its own noise to say how many will follow.
                bar.may_grow = rounds < 2 or limit is not None
                rest = min(missing, _MOST_ROUNDS) - times
                bar.foresee(0 if bar.may_grow else max(round(further.budget * rest / times), 0))
                more = self._fit_round(further, baselines)
            except KeyboardInterrupt:
                return self._ended(samples, "interrupt")
            samples = tuple(map(joined_rounds, samples, self._joined(more, further)))
            rounds += times
        bar.say(state.words)
        return samples

    @staticmethod
    def _ended(samples: tuple[AuditSamples, ...], why: str) -> tuple[AuditSamples, ...]:
        """The samples with the reason why there were no more rounds."""
        return tuple(replace(each, ended=why) for each in samples)

    def _fit_round(self, plan: AuditPlan, baselines: Baselines, *, first: bool = False) -> _Round:
        """The samples of every fold by every metric, in one round."""
        task, by_metric = self.task, [list[FoldSamples]() for _ in self.task.metrics]
        left_out, failure = dict(plan.left_out), None
        for position, each in enumerate(plan.folds):
            if first:
                self.bar.say(f"fold {position + 1} of {len(plan.folds)}")
            try:
                facts = self.evidence.facts(task, each.fold, self.choices.rates)
                for samples, one in zip(by_metric, self._fit_fold(each, baselines), strict=True):
                    samples.append(replace(one, **facts))
            except FitError as error:
                left_out[int(each.fold.index)] = str(error)
                failure = failure or error
            each.fold.forget()
        self.bar.settle()
        if not by_metric[0]:
            raise _nothing_audited(left_out, failure) from failure
        return _Round(by_metric, left_out, baselines)

    def _joined(self, fitted: _Round, plan: AuditPlan) -> tuple[AuditSamples, ...]:
        """The samples of every metric."""
        task, baselines = self.task, fitted.baselines
        assert task.clusters is not None
        of_all = self.evidence.of_samples(self.choices)
        n_folds = len(plan.folds) + len(plan.left_out)
        return tuple(
            AuditSamples(
                folds=_of_common_sizes(samples),
                random_folds=baselines.random[position],
                effect=baselines.effect[position].losses,
                effect_problem=baselines.effect[position].problem,
                left_out=fitted.left_out,
                error_model=self.choices.model.name,
                metric=metric.facts,
                observed=ClusterSizes.of(task.clusters),
                fold_sizes=tuple(len(fold.validation) for fold in self.folds),
                cluster_names=task.cluster_names if any(fold.sides or fold.entities for fold in samples) else (),
                n_baselines=sum(count_baselines(self.choices, n_folds, plan.n_measured).values()),
                named=NamedMetric.of(metric),
                **of_all,
            )
            for position, (metric, samples) in enumerate(zip(task.metrics, fitted.by_metric, strict=True))
        )

    def _fit_fold(self, plan: FoldPlan, baselines: Baselines) -> Iterator[FoldSamples]:
        """The samples of a fold by every metric."""
        fold, clusters = plan.fold, self.task.clusters
        assert clusters is not None
        runs = dict[str, tuple[LossSamples, ...]]()
        for run in plan.runs:
            with nullcontext() if run.required else suppress(FitError):
                runs |= self._started(fold, run, baselines.own)
        for position, metric in enumerate(self.task.metrics):
            own = baselines.own[position][fold.index]
            measured = {name: losses[position][fold.index] for name, losses in baselines.measured.items()}
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
                pseudo={name: losses for name, losses in own.items() if name not in ("own", SECONDS, PREDICTED)},
                train_losses=trained,
                measured={
                    name: {kind: values for kind, values in losses.items() if kind != PREDICTED}
                    for name, losses in measured.items()
                },
                predicted=kept_predictions(self.task, metric, fold, own, measured),
            )

    def _started(self, fold: Fold, run: Runnable, own: OwnLosses) -> dict[str, tuple[LossSamples, ...]]:
        """The samples of a run, by their role and by every metric."""
        with self.bar.part(base_role(run.role)).counting(run.budget) as part:
            if isinstance(run, PreparedRun):  # It keeps its batches in a file of its own.
                return run.knowing(_own_losses(run, own, int(fold.index))).start(part, n_jobs=self.n_jobs)
            kind = dict[str, tuple[LossSamples, ...]]
            return self.store.part(run.identity, kind, lambda: run.start(part, n_jobs=self.n_jobs))


def _some_runs(runs: Sequence[Run | Runnable], levels: Mapping[str, Array]) -> Sequence[Run | Runnable]:
    """The runs of some roles at some levels, and those with the sides exchanged that belong to them; else all."""
    some = [run for run in runs if base_role(run.role) in levels]
    at = [run.at(levels[run.role]) if isinstance(run, Run) and run.role in levels else run for run in some]
    return at or runs


def _own_losses(run: PreparedRun, own: OwnLosses, fold: int) -> list[Array]:
    """The losses of the user's own models on the records that a run scores; none where it scores training records."""
    if is_exchanged(run.role):
        return []
    kinds = ("parts_records", "records", "own") if run.role == UNMIXED else ("records", "own")
    losses = [by_fold[fold] for by_fold in own]
    return [each[next(kind for kind in kinds if kind in each)] for each in losses]


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
