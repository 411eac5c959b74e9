r"""What one would report without a correction: the loss over the folds, and over folds that ignore clusters.

*naive* is the paper's LOCO (equation 1) over all folds: fit to T̂, average the losses of V̂'s records. *iid* does that
over random folds. There is one loss per record. Of a metric that is no mean over records these are pseudo losses
(:mod:`outofcluster.metrics.base`), whose mean over the records of a fold is the loss of the fold, and
there are several of them: with clusters and with records as units; of all records of the fold, of each part of V̂ that
is scored apart below the leakage rate, and, for ``pool="records"``, of the records of all folds together, as one
metric of predictions that several models made.

*Pooled by folds*, the random folds' losses are moved so that their mean over all records is the mean over the folds:
with n records, n_f of them in one of K folds, and L̄ the mean of the folds' losses, ℓ becomes L̄ + (ℓ - L̄) n/(K n_f).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import FitError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.base import Metric, NotDefinedError, Partition
from outofcluster.metrics.predictions import Predictions, StoredPredictions
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import RandomFolds
from outofcluster.sampling.fitting import fit_clone, predict, run_calls
from outofcluster.sampling.progress import Part

# Parts in which T̂ is left out, for losses on training records.
_PARTS_OF_TRAIN = 10
# Models of every fold that further baselines take.
MODELS_PER_FOLD = {"train": _PARTS_OF_TRAIN}

# Losses of the records of a fold: "own" and, where these are pseudo losses, those that `FoldSamples.pseudo` holds.
# "own" is empty where the metric is not defined for the fold.
Losses = dict[str, Array]
# Beside these the predictions that a metric of a set of records uses.
PREDICTED = "predicted"
# Beside the losses by the first metric: the seconds that it took to fit the model, and to score it by all metrics.
SECONDS = "seconds"


def random_losses(
    task: Task, n_folds: int, *, seed: np.random.SeedSequence, n_jobs: int | None = None, progress: Part | None = None
) -> tuple[RandomFolds, ...]:
    """Losses over folds of records at random, by every metric."""
    parts = np.array_split(np.random.default_rng(seed).permutation(task.n_records), n_folds)
    folds = [Fold(i, task.n_records, np.sort(part)) for i, part in enumerate(parts)]
    drawn = seed.spawn(1)[0]
    by_metric = fold_losses(task, folds, seed=drawn, n_jobs=n_jobs, kind="random fold", progress=progress)
    return tuple(_join_folds(task, metric, folds, per) for metric, per in zip(task.metrics, by_metric, strict=True))


def _join_folds(task: Task, metric: Metric, folds: Sequence[Fold], per_fold: Sequence[Losses]) -> RandomFolds:
    """The losses of all random folds in which the metric is defined."""
    kept = [(fold.validation, losses) for fold, losses in zip(folds, per_fold, strict=True) if len(losses["own"])]
    if not kept:
        why = metric.undefined(take_rows(task.y, folds[0].validation)) or metric.no_value
        raise FitError(f"{metric.facts.name} is not defined for any of the {len(folds)} random folds, since {why}.")
    rows = np.concatenate([validation for validation, _ in kept])
    if metric.facts.pool == "records":
        return RandomFolds(rows, np.concatenate([each.get("pooled_records", each["own"]) for _, each in kept]))
    values = [losses.get("records", losses["own"]) for _, losses in kept]
    centre = float(np.mean([fold.mean() for fold in values]))
    moved = [centre + (fold - centre) * (len(rows) / (len(kept) * len(fold))) for fold in values]
    return RandomFolds(rows, np.concatenate(moved))


def fold_losses(
    task: Task,
    folds: Sequence[Fold],
    *,
    seed: np.random.SeedSequence,
    parts: Mapping[int, Codes] | None = None,
    n_jobs: int | None = None,
    kind: str = "fold",
    timed: bool = False,
    progress: Part | None = None,
) -> list[list[Losses]]:
    """Losses of the validation records of each fold, of a model fitted to all its training records.

    Seconds are among them where these are wanted. The same seed gives the models of every fold the same random numbers,
    however often it is used.
    """
    calls = [(fold, (parts or {}).get(fold.index)) for fold in folds]
    names, doing = [f"{kind} {fold.index}" for fold in folds], "the models of all folds were fitted"
    # A seed that numbers are drawn from remembers how many.
    unused = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)
    results = run_calls(_score_fold, task, calls, names, seed=unused, doing=doing, n_jobs=n_jobs, progress=progress)
    by_metric = [[losses[i] for losses, _, _ in results] for i in range(len(task.metrics))]
    for metric, per_fold in zip(task.metrics, by_metric, strict=True):
        if metric.joins_folds:
            _add_pooled(task, metric, folds, per_fold, [predictions for _, predictions, _ in results])
    if timed:
        for losses, (_, _, seconds) in zip(by_metric[0], results, strict=True):
            losses[SECONDS] = seconds
    return by_metric


def train_losses(
    task: Task,
    folds: Sequence[Fold],
    *,
    seed: np.random.SeedSequence,
    n_jobs: int | None = None,
    progress: Part | None = None,
) -> list[list[Array]]:
    """Losses of the training records of each fold, each by a model fitted to the other nine tenths of them."""
    deal, fits = seed.spawn(2)
    rng = np.random.default_rng(deal)
    parts = [np.array_split(rng.permutation(len(fold.train)), min(_PARTS_OF_TRAIN, len(fold.train))) for fold in folds]
    within = [
        Fold(fold.index, np.delete(fold.train, part), fold.train[part])
        for fold, several in zip(folds, parts, strict=True)
        for part in several
    ]
    by_metric = list[list[Array]]()
    for per_part in fold_losses(task, within, seed=fits, n_jobs=n_jobs, progress=progress):
        losses = iter(per_part)
        ordered: list[Array] = [np.empty(fold.n_train) for fold in folds]
        for values, several in zip(ordered, parts, strict=True):
            values[np.concatenate(several)] = np.concatenate([next(losses)["own"] for _ in several])
        by_metric.append(ordered)
    return by_metric


def _add_pooled(
    task: Task,
    metric: Metric,
    folds: Sequence[Fold],
    per_fold: Sequence[Losses],
    predictions: Sequence[StoredPredictions | None],
) -> None:
    """Add the pseudo losses of one metric of the records of all folds, in which the metric is defined."""
    defined = [index for index, losses in enumerate(per_fold) if len(losses["own"])]
    if not defined:
        return
    rows = [folds[index].validation for index in defined]
    joined = StoredPredictions.joined([part for index in defined if (part := predictions[index]) is not None])
    ends = np.cumsum([len(validation) for validation in rows])[:-1]
    for kind, losses in losses_by_units(task, metric, joined, np.concatenate(rows)).items():
        for index, values in zip(defined, np.split(losses, ends), strict=True):
            per_fold[index][f"pooled_{kind}"] = values


def _score_fold(
    task: Task, fold: Fold, parts: Codes | None, seed: np.random.SeedSequence
) -> tuple[list[Losses], StoredPredictions | None, Array]:
    """The losses by every metric, the predictions of those that are pooled, if any, and the seconds of both steps."""
    began = time.perf_counter()
    model = fit_clone(task, fold.train, np.random.default_rng(seed))
    fitted = time.perf_counter()
    predictions = predict(task, model, fold.validation)
    by_metric = [_own_losses(task, metric, predictions, fold.validation, parts) for metric in task.metrics]
    kinds = [
        metric.uses
        for metric, losses in zip(task.metrics, by_metric, strict=True)
        if metric.joins_folds and metric.uses is not None and len(losses["own"])
    ]
    seconds = np.array([fitted - began, time.perf_counter() - fitted])
    return by_metric, predictions.stored(kinds) if kinds else None, seconds


def _own_losses(task: Task, metric: Metric, predictions: Predictions, rows: Codes, parts: Codes | None) -> Losses:
    """The losses of a fold by one metric, and those of each of its parts."""
    whole: Losses = {"own": np.zeros(0)}
    of_parts: Losses = {}
    try:
        losses = losses_by_units(task, metric, predictions, rows)
        if metric.is_mean:
            return {"own": losses["records"]}
        whole = {"own": losses.get("clusters", losses["records"]), "records": losses["records"]}
        if metric.uses is not None:
            of_parts[PREDICTED] = np.asarray(getattr(predictions, metric.uses), dtype=float)
        for number in [] if parts is None else np.unique(parts):
            part = np.flatnonzero(parts == number)
            for kind, values in losses_by_units(task, metric, _some(metric, predictions, part), rows[part]).items():
                of_parts.setdefault(f"parts_{kind}", np.zeros(len(rows)))[part] = values
    except NotDefinedError:
        return whole
    return whole | of_parts


def _some(metric: Metric, predictions: Predictions, rows: Codes) -> Predictions:
    """The predictions of some records."""
    if metric.uses is not None:
        return predictions.stored([metric.uses]).rows(rows)
    X, y = take_rows(predictions.X, rows), take_rows(predictions.y, rows)
    return Predictions(predictions.model, X, y, predictions.all_classes)


def losses_by_units(
    task: Task, metric: Metric, predictions: Predictions, rows: Codes, kind: str | None = None
) -> Losses:
    """Losses or pseudo losses of records, by the kind of units: one kind, or both; else NotDefinedError."""
    if why := metric.undefined(predictions.target):
        raise NotDefinedError(why)
    partitions = {} if kind == "clusters" else {"records": Partition(np.arange(len(rows)), len(rows))}
    if task.clusters is not None and kind != "records":
        numbers, codes = renumbered(task.clusters[rows])
        partitions["clusters"] = Partition(codes, len(numbers))
    weight = None if task.score_weight is None else task.score_weight[rows]
    return metric.losses(predictions, weight, partitions)
