"""What one would report without a correction: the loss over the folds, and over folds that ignore clusters.

*naive* is the paper's LOCO (equation 1) over all folds: fit to T̂, average the losses of V̂'s records. *iid* does that
over random folds. There is one loss per record. Of a metric that is no mean over records these are pseudo losses
(:mod:`outofcluster.sampling.metrics.partitions`), whose mean over the records of a fold is the loss of the fold, and
there are several of them: with clusters and with records as units; of all records of the fold, of each part of V̂ that
is scored apart below the leakage rate, and, for ``pool="records"``, of the records of all folds together, as one
metric of predictions that several models made.

*Pooled by folds*, the random folds' losses are moved so that their mean over all records is the mean over the folds:
with n records, n_f of them in one of K folds, and L̄ the mean of the folds' losses, ℓ becomes L̄ + (ℓ - L̄) n/(K n_f).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import FitError
from outofcluster._base.rows import take_rows
from outofcluster._base.threads import one_thread
from outofcluster._base.validation import Array
from outofcluster.sampling.audit_samples import RandomFolds
from outofcluster.sampling.backends import all_calls
from outofcluster.sampling.failures import lost_workers, returns_failures, succeeded
from outofcluster.sampling.fitting import fit_clone
from outofcluster.sampling.metrics.losses import Loss, shared_predictions
from outofcluster.sampling.metrics.partitions import NotDefinedError, Partition, pseudo_losses
from outofcluster.sampling.metrics.predictions import Predictions, StoredPredictions
from outofcluster.sampling.metrics.recomputed import OfModel, OfPredictions
from outofcluster.sampling.task import Task
from outofcluster.split.folds import Fold, renumbered

__all__ = ["fold_losses", "pseudo_losses_of", "random_fold_losses", "train_losses"]

_MOST_UNITS = 2000
"""Units that are left out in turn of a metric that is computed anew."""

_PARTS_OF_TRAIN = 10
"""Parts in which T̂ is left out, for losses on training records."""

Losses = dict[str, Array]
"""Losses of the records of a fold: "own" and, where these are pseudo losses, those that `FoldSamples.pseudo` holds."""


def random_fold_losses(
    task: Task, n_folds: int, *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> tuple[RandomFolds, ...]:
    """Losses over folds of records at random, by every metric.

    Parameters
    ----------
    task : Task
        The checked estimator, records and metrics.
    n_folds : int
        Number of folds.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    tuple of RandomFolds
        A fold for which a metric is not defined is left out of its losses; if it is defined for none, that is an error.
    """
    parts = np.array_split(np.random.default_rng(seed).permutation(task.n_records), n_folds)
    folds = [Fold.holding_out(i, np.sort(part), task.n_records) for i, part in enumerate(parts)]
    by_metric = fold_losses(task, folds, seed=seed.spawn(1)[0], n_jobs=n_jobs, kind="random fold")
    return tuple(_random_folds(task, loss, folds, own) for loss, own in zip(task.losses, by_metric, strict=True))


def _random_folds(task: Task, loss: Loss, folds: Sequence[Fold], by_fold: Sequence[Losses]) -> RandomFolds:
    kept = [(fold.validation, own) for fold, own in zip(folds, by_fold, strict=True) if len(own["own"])]
    if not kept:
        why = loss.undefined(np.asarray(take_rows(task.y, folds[0].validation))) or loss.no_value
        raise FitError(f"{loss.facts.name} is not defined for any of the {len(folds)} random folds, since {why}.")
    rows = np.concatenate([own_rows for own_rows, _ in kept])
    if loss.facts.pool == "records":
        return RandomFolds(rows, np.concatenate([own.get("pooled_records", own["own"]) for _, own in kept]))
    losses = [own.get("records", own["own"]) for _, own in kept]
    centre = float(np.mean([own.mean() for own in losses]))
    moved = [centre + (own - centre) * (len(rows) / (len(kept) * len(own))) for own in losses]
    return RandomFolds(rows, np.concatenate(moved))


def fold_losses(
    task: Task,
    folds: Sequence[Fold],
    *,
    seed: np.random.SeedSequence,
    parts: Mapping[int, NDArray[np.int64]] | None = None,
    n_jobs: int | None = None,
    kind: str = "fold",
) -> list[list[Losses]]:
    """Losses of the validation records of each fold, of a model fitted to all its training records.

    Parameters
    ----------
    task : Task
        The checked estimator, records and metrics.
    folds : sequence of Fold
        The folds.
    seed : SeedSequence
        Source of all random numbers.
    parts : dict of array, optional
        For some folds, by their index, the part of every validation record.
    n_jobs : int, optional
        Workers, as in joblib.
    kind : str
        What a fold is called where a model fails.

    Returns
    -------
    list of list of dict of array
        For every metric one dict per fold, of arrays in the order of its validation rows; they are empty where the
        metric is not defined for the records of the fold.
    """
    seeds = seed.spawn(len(folds))
    with lost_workers("the models of all folds were fitted"):
        calls = ((fold, child, (parts or {}).get(fold.index)) for fold, child in zip(folds, seeds, strict=True))
        results = all_calls(_one_fold, task, calls, n_jobs=n_jobs)
    results = succeeded(results, [f"{kind} {fold.index}" for fold in folds])
    by_metric = [[own[0][metric] for own in results] for metric in range(len(task.losses))]
    for loss, by_fold in zip(task.losses, by_metric, strict=True):
        if loss.measure is not None and loss.facts.pool == "records":
            _pool(task, loss, folds, by_fold, [own[1] for own in results])
    return by_metric


def train_losses(
    task: Task, folds: Sequence[Fold], *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> list[list[Array]]:
    """Losses of the training records of each fold, each by a model fitted to the other nine tenths of them.

    Parameters
    ----------
    task : Task
        The checked estimator, records and metrics, which are means over records.
    folds : sequence of Fold
        The folds.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    list of list of array
        For every metric one array per fold, in the order of its training rows.
    """
    deal, fits = seed.spawn(2)
    rng = np.random.default_rng(deal)
    parts = [np.array_split(rng.permutation(len(fold.train)), min(_PARTS_OF_TRAIN, len(fold.train))) for fold in folds]
    within = [
        Fold(fold.index, np.delete(fold.train, part), fold.train[part])
        for fold, of_fold in zip(folds, parts, strict=True)
        for part in of_fold
    ]
    by_metric = list[list[Array]]()
    for by_part in fold_losses(task, within, seed=fits, n_jobs=n_jobs):
        losses = iter(by_part)
        by_metric.append([_in_order(of_fold, [next(losses)["own"] for _ in of_fold]) for of_fold in parts])
    return by_metric


def _in_order(places: Sequence[NDArray[np.int64]], values: Sequence[Array]) -> Array:
    ordered = np.empty(sum(map(len, places)))
    ordered[np.concatenate(places)] = np.concatenate(values)
    return ordered


def _pool(
    task: Task,
    loss: Loss,
    folds: Sequence[Fold],
    by_fold: Sequence[Losses],
    predictions: Sequence[StoredPredictions | None],
) -> None:
    """Add the pseudo losses of one metric of the records of all folds, in which the metric is defined."""
    places = [place for place, own in enumerate(by_fold) if len(own["own"])]
    if not places:
        return
    rows = np.concatenate([folds[place].validation for place in places])
    joined = StoredPredictions.joined([part for place in places if (part := predictions[place]) is not None])
    ends = np.cumsum([len(folds[place].validation) for place in places])[:-1]
    for kind, losses in pseudo_losses_of(task, loss, joined, rows).items():
        for place, own in zip(places, np.split(losses, ends), strict=True):
            by_fold[place][f"pooled_{kind}"] = own


@returns_failures
@one_thread()
def _one_fold(
    task: Task, fold: Fold, seed: np.random.SeedSequence, parts: NDArray[np.int64] | None
) -> tuple[list[Losses], StoredPredictions | None]:
    """The losses by every metric, and the predictions of those that are pooled, if any."""
    model = fit_clone(task.estimator, task.X, task.y, fold.train, task.params, np.random.default_rng(seed))
    held_out, targets = take_rows(task.X, fold.validation), take_rows(task.y, fold.validation)
    predictions = shared_predictions(task.losses, model, held_out, targets)
    by_metric = [_own_losses(task, loss, predictions, fold.validation, parts) for loss in task.losses]
    pooled = [
        loss.measure.uses
        for loss, own in zip(task.losses, by_metric, strict=True)
        if loss.measure is not None and loss.facts.pool == "records" and len(own["own"])
    ]
    kinds = [kind for kind in pooled if kind is not None]
    return by_metric, predictions.stored(kinds) if pooled else None


def _own_losses(
    task: Task, loss: Loss, predictions: Predictions, rows: NDArray[np.int64], parts: NDArray[np.int64] | None
) -> Losses:
    if loss.measure is None:
        return {"own": loss.records(predictions, predictions.X, predictions.y)}
    if loss.undefined(predictions.target):
        return {"own": np.zeros(0)}
    try:
        losses = pseudo_losses_of(task, loss, predictions, rows)
    except NotDefinedError:
        return {"own": np.zeros(0)}
    result = {"own": losses.get("clusters", losses["records"]), "records": losses["records"]}
    places = [] if parts is None else [np.flatnonzero(parts == part) for part in np.unique(parts)]
    if any(loss.undefined(predictions.target[own]) for own in places):
        return result
    of_parts: Losses = {}
    try:
        for own in places:
            for kind, values in pseudo_losses_of(task, loss, _some(loss, predictions, own), rows[own]).items():
                of_parts.setdefault(f"parts_{kind}", np.zeros(len(rows)))[own] = values
    except NotDefinedError:
        return result
    return result | of_parts


def _some(loss: Loss, predictions: Predictions, rows: NDArray[np.int64]) -> Predictions:
    """The predictions of some records."""
    assert loss.measure is not None
    if loss.measure.uses is not None:
        return predictions.stored([loss.measure.uses]).rows(rows)
    X, y = take_rows(predictions.X, rows), take_rows(predictions.y, rows)
    return Predictions(predictions.model, X, y, predictions.all_classes)


def pseudo_losses_of(
    task: Task, loss: Loss, predictions: Predictions, rows: NDArray[np.int64], kind: str | None = None
) -> Losses:
    """Pseudo losses of records, by the kind of units: one kind, or both."""
    partitions = {} if kind == "clusters" else {"records": Partition(np.arange(len(rows)), len(rows))}
    if task.clusters is not None and kind != "records":
        numbers, of = renumbered(task.clusters[rows])
        partitions["clusters"] = Partition(of, len(numbers))
    if isinstance(loss.measure, OfModel | OfPredictions):
        measure: Any = replace(loss.measure, most_units=_MOST_UNITS)
        loss = replace(loss, measure=measure)
    weight = None if task.score_weight is None else task.score_weight[rows]
    value, effects = loss.score(predictions, weight, list(partitions.values()))
    parts = zip(partitions.items(), effects, strict=True)
    return {each: pseudo_losses(value, own, partition) for (each, partition), own in parts}
