"""What models predicted for held-out records, so that a metric of a set of records can be computed of some of them.

AUC has no loss of a single record: the AUC of women is made of pairs of women, and nothing that is known of the AUC of
all records says what it is. So for such metrics an audit keeps the predictions themselves: those of the user's own
models, and of the models without some training clusters. Predictions for resamples and imitated pieces are not kept;
there are too many of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.base import Metric, NotDefinedError, Partition, Partitions
from outofcluster.metrics.facts import MetricFacts
from outofcluster.metrics.predictions import StoredPredictions, single_column
from outofcluster.metrics.resolve import NamedMetric
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import FoldSamples
from outofcluster.sampling.baselines import PREDICTED, Losses

# Names of the user's own model, of the targets, and of the weights in scoring among what is kept.
_OWN, _TARGET, _WEIGHT = "own", "target", "weight"


def kept_predictions(
    task: Task, metric: Metric, fold: Fold, own: Losses, others: Mapping[str, Losses]
) -> dict[str, Array]:
    """What is kept of the predictions for the held-out records of a fold; nothing of metrics without a known name."""
    if PREDICTED not in own or NamedMetric.of(metric) is None:
        return {}
    target = single_column(np.asarray(take_rows(task.y, fold.validation)))
    codes = target if metric.classes is None else np.searchsorted(metric.classes, target)
    kept = {_OWN: own[PREDICTED], _TARGET: np.asarray(codes, dtype=float)}
    if task.score_weight is not None:
        kept[_WEIGHT] = task.score_weight[fold.validation]
    return kept | {name: losses[PREDICTED] for name, losses in others.items() if PREDICTED in losses}


def with_losses_anew(named: NamedMetric, facts: MetricFacts, folds: Sequence[FoldSamples]) -> tuple[FoldSamples, ...]:
    """The folds with pseudo losses of the records that they have, without those in which the metric is not defined.

    Where it is defined in none of them, a `NotDefinedError` says why.
    """
    metric, why = named.made(facts), ""
    kept = list[FoldSamples]()
    for together in [list(folds)] if metric.joins_folds else [[fold] for fold in folds]:
        try:
            kept += _anew(metric, named, together)
        except NotDefinedError as error:
            why = str(error)
    if not kept:
        raise NotDefinedError(why)
    return tuple(kept)


def losses_within_clusters(named: NamedMetric, facts: MetricFacts, fold: FoldSamples) -> tuple[Codes, Array, Codes]:
    """Pseudo losses of records by the metric of their cluster alone, by the user's own model.

    First come the records of clusters in which it is defined, then their losses, and then the numbers of their classes
    (0 without classes). A cluster of a single class does not count.
    """
    metric, order = named.made(facts), np.argsort(fold.clusters, kind="stable")
    classes = (fold.predicted[_TARGET] if named.n_classes else np.zeros(len(order))).astype(np.int64)
    parts: list[tuple[Codes, Array]] = [(order[:0], np.zeros(0))]
    for some in np.split(order, np.flatnonzero(np.diff(fold.clusters[order])) + 1):
        if named.n_classes and (classes[some] == classes[some[0]]).all():
            continue
        with suppress(InputError):
            each = {"records": Partition(np.arange(len(some)), len(some))}
            parts.append((some, _losses(metric, named, [fold], each, _OWN, some)["records"]))
    rows = np.concatenate([some for some, _ in parts])
    return rows, np.concatenate([losses for _, losses in parts]), classes[rows]


def _anew(metric: Metric, named: NamedMetric, folds: Sequence[FoldSamples]) -> list[FoldSamples]:
    """The folds with losses of one metric of all their records together."""
    numbers, codes = renumbered(np.concatenate([fold.clusters for fold in folds]))
    partitions = {"clusters": Partition(codes, len(numbers)), "records": Partition(np.arange(len(codes)), len(codes))}
    ends = np.cumsum([fold.n_validation for fold in folds])[:-1]

    def by_fold(model: str) -> list[Losses]:
        losses = _losses(metric, named, folds, partitions, model)
        parts = [np.split(losses[kind], ends) for kind in ("clusters", "records")]
        return [{"own": own, "records": records} for own, records in zip(*parts, strict=True)]

    own, measured = by_fold(_OWN), list[dict[str, Losses]]({} for _ in folds)
    for name in dict.fromkeys(name for fold in folds for name in fold.measured):
        try:
            losses = by_fold(name)
        except NotDefinedError:
            # As where it is not defined of all records: the losses are those of the user's own model.
            losses = [{} for _ in folds]
        for of_fold, each in zip(measured, losses, strict=True):
            of_fold[name] = each
    return [
        replace(fold, own_losses=each["own"], pseudo={"records": each["records"]}, measured=others)
        for fold, each, others in zip(folds, own, measured, strict=True)
    ]


def _losses(
    metric: Metric,
    named: NamedMetric,
    folds: Sequence[FoldSamples],
    partitions: Partitions,
    model: str,
    rows: Any = slice(None),
) -> Losses:
    """Pseudo losses of records of some folds together; of the user's own model where a fold has no other one."""

    def joined(name: str) -> Array:
        return np.concatenate([fold.predicted[name if name in fold.predicted else _OWN][rows] for fold in folds])

    target, predicted = joined(_TARGET), joined(model)
    classes = np.arange(named.n_classes) if named.n_classes else None
    if named.n_classes:
        target = target.astype(np.int64)
    if named.uses == "classes":
        predicted = predicted.astype(np.int64)
    if why := metric.undefined(target):
        raise NotDefinedError(why)
    weight = joined(_WEIGHT) if _WEIGHT in folds[0].predicted else None
    return metric.losses(StoredPredictions(target, classes, {named.uses: predicted}), weight, partitions)
