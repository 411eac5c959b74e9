r"""What one would report without a correction: the loss over the folds, and over folds that ignore clusters.

*naive* is the paper's LOCO (equation 1) over all folds: fit to T̂, average the losses of V̂'s records. *iid* does that
over random folds. There is one loss per record. Of a metric that is no mean over records these are pseudo losses
(:mod:`outofcluster.metrics.base`), whose mean over the records of a fold is the loss of the fold, and
there are several of them: with clusters and with records as units; of all records of the fold, of each part of V̂ that
is scored apart below the leakage rate, and, for ``pool="records"``, of the records of all folds together, as one
metric of predictions that several models made.

*Pooled by folds*, the random folds' losses are moved so that their mean over all records is the mean over the folds:
with n records, n_f of them in one of K folds, and L̄ the mean of the folds' losses, ℓ becomes L̄ + (ℓ - L̄) n/(K n_f).

*How much other training clusters would move the cross-validated loss* is a delete-a-group jackknife with few fits. With
fragments T̂ trains as it is in every resample, so that resamples do not show what other training clusters would
do. A cluster c moves the cross-validated loss through its own losses, by :math:`v_c` (its records' deviations from
the mean, divided by their number), and through the models that it trains, by some :math:`τ_c`. The variance is
:math:`\sum_c (v_c + τ_c)^2`, of which the evaluation alone gives :math:`\sum_c v_c^2`. The rest is :math:`\sum_c
(τ_c^2 + 2 v_c τ_c)`: a cluster that contradicts its neighbours is wrong itself and makes them wrong, so that the
second term is not small.

All clusters are put in G groups at random, and every fold is fitted again without the training clusters of each
group. With L the loss over all folds, :math:`τ_g = -(1-\frac1G)(L_{-g} - \bar L_{-·})`, and V_g the sum of v over the
clusters of group g that train,

.. math:: R = \frac{G}{G-1} \sum_g (τ_g^2 - ν_g + 2 V_g τ_g) ,

where ν_g is the variance that τ_g has from the scored clusters alone. With so few groups R is noisy, and its standard
error follows from the spread of the terms. What is reported is the share φ of :math:`\sum_c v_c^2`, taken to lie
between 0 and 2. At one end training clusters do not matter. Towards the other one, of learners as local as nearest
neighbours, c moves c' as much as c' moves c, and pieces of one entity, which count as units of their own here, err
together. All shares in between being equally likely beforehand, φ is the mean of a normal distribution around
:math:`R/\sum_c v_c^2` that is cut to that range. The variances between units of naive, corrected and optimism count
1 + φ times. (Over data sets of 150 entities drawn anew, six metrics of 3 and 9 neighbours needed shares from 0.0 to
1.2, 0.7 on average. With shares up to 1 alone, intervals of AUC and balanced accuracy covered too seldom.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.base import Metric, NotDefinedError, Partition
from outofcluster.metrics.predictions import Predictions, StoredPredictions
from outofcluster.problem.folds import Fold, renumbered, some_records
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import RandomFolds
from outofcluster.sampling.fitting import fit_clone, predict, run_calls

# Parts in which T̂ is left out, for losses on training records.
_PARTS_OF_TRAIN = 10
# Groups of clusters; each costs one fit per fold.
_GROUPS = 8
# Models of every fold that the losses without some training clusters and those on training records take.
MODELS_PER_FOLD = {"training": _GROUPS, "train": _PARTS_OF_TRAIN}
# The largest share φ that is taken to be possible.
_LARGEST_SHARE = 2.0
# Records that are fitted again, of clusters that are drawn at random where there are more: both parts of the share
# shrink alike when clusters become more.
_MOST_RECORDS = 200_000

# Losses of the records of a fold: "own" and, where these are pseudo losses, those that `FoldSamples.pseudo` holds.
# "own" is empty where the metric is not defined for the fold.
Losses = dict[str, Array]


def random_losses(
    task: Task, n_folds: int, *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> tuple[RandomFolds, ...]:
    """Losses over folds of records at random, by every metric."""
    parts = np.array_split(np.random.default_rng(seed).permutation(task.n_records), n_folds)
    folds = [Fold(i, task.n_records, np.sort(part)) for i, part in enumerate(parts)]
    by_metric = fold_losses(task, folds, seed=seed.spawn(1)[0], n_jobs=n_jobs, kind="random fold")
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
) -> list[list[Losses]]:
    """Losses of the validation records of each fold, of a model fitted to all its training records."""
    calls = [(fold, (parts or {}).get(fold.index)) for fold in folds]
    names, doing = [f"{kind} {fold.index}" for fold in folds], "the models of all folds were fitted"
    results = run_calls(_score_fold, task, calls, names, seed=seed, doing=doing, n_jobs=n_jobs)
    by_metric = [[losses[i] for losses, _ in results] for i in range(len(task.metrics))]
    for metric, per_fold in zip(task.metrics, by_metric, strict=True):
        if metric.joins_folds:
            _add_pooled(task, metric, folds, per_fold, [predictions for _, predictions in results])
    return by_metric


def train_losses(
    task: Task, folds: Sequence[Fold], *, seed: np.random.SeedSequence, n_jobs: int | None = None
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
    for per_part in fold_losses(task, within, seed=fits, n_jobs=n_jobs):
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
) -> tuple[list[Losses], StoredPredictions | None]:
    """The losses by every metric, and the predictions of those that are pooled, if any."""
    predictions = predict(task, fit_clone(task, fold.train, np.random.default_rng(seed)), fold.validation)
    by_metric = [_own_losses(task, metric, predictions, fold.validation, parts) for metric in task.metrics]
    kinds = [
        metric.uses
        for metric, losses in zip(task.metrics, by_metric, strict=True)
        if metric.joins_folds and metric.uses is not None and len(losses["own"])
    ]
    return by_metric, predictions.stored(kinds) if kinds else None


def _own_losses(task: Task, metric: Metric, predictions: Predictions, rows: Codes, parts: Codes | None) -> Losses:
    """The losses of a fold by one metric, and those of each of its parts."""
    whole: Losses = {"own": np.zeros(0)}
    of_parts: Losses = {}
    try:
        losses = losses_by_units(task, metric, predictions, rows)
        if metric.is_mean:
            return {"own": losses["records"]}
        whole = {"own": losses.get("clusters", losses["records"]), "records": losses["records"]}
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


def training_shares(
    task: Task,
    folds: Sequence[Fold],
    own: Sequence[Sequence[Mapping[str, Array]]],
    *,
    seed: np.random.SeedSequence,
    n_jobs: int | None = None,
) -> Array:
    """φ for every metric: what training clusters add to the variance, as a share of that of the evaluation."""
    assert task.clusters is not None
    clusters = task.clusters
    group_seed, fit_seed = seed.spawn(2)
    rng = np.random.default_rng(group_seed.spawn(1)[0])
    kept = some_records(np.arange(len(clusters)), clusters, _MOST_RECORDS, rng)
    group = np.random.default_rng(group_seed).permutation(int(clusters.max()) + 1) % _GROUPS
    try:
        if len(kept) < len(clusters):
            # Of very many records a part is fitted, with own models of the same size for comparison.
            is_kept = np.zeros(len(clusters), dtype=bool)
            is_kept[kept] = True
            folds = [Fold(f.index, f.train[is_kept[f.train]], f.validation[is_kept[f.validation]]) for f in folds]
            own = fold_losses(task, folds, seed=fit_seed, n_jobs=n_jobs)
        without = [fold.without(group[clusters] == deleted) for deleted in range(_GROUPS) for fold in folds]
        again = fold_losses(task, without, seed=fit_seed, n_jobs=n_jobs)
    except (FitError, InputError):
        return np.zeros(len(task.metrics))

    def by_row(per_fold: Sequence[Mapping[str, Array]]) -> Array:
        """Mean loss of every record over the folds that score it; NaN where none does."""
        total, count = np.zeros(task.n_records), np.zeros(task.n_records)
        for fold, losses in zip(folds, per_fold, strict=True):
            if len(losses["own"]):
                total[fold.validation] += losses["own"]
                count[fold.validation] += 1
        return np.asarray(np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0))

    starts = range(0, len(without), len(folds))
    return np.array(
        [
            _share(clusters, group, folds, by_row(as_it_is), [by_row(left[i : i + len(folds)]) for i in starts])
            for as_it_is, left in zip(own, again, strict=True)
        ]
    )


def _share(clusters: Codes, group: Codes, folds: Sequence[Fold], losses: Array, without: Sequence[Array]) -> float:
    """φ from the loss of every record, as it is and without each group."""
    known = np.isfinite(losses) & np.isfinite(without).all(axis=0)
    scored, codes = renumbered(clusters[known])
    K, G = len(scored), len(without)
    if K < 2:
        return 0.0
    n = int(known.sum())
    v = np.bincount(codes, losses[known] - losses[known].mean(), K) / n
    evaluation = K / (K - 1) * float((v**2).sum())
    if evaluation <= 0:
        return 0.0
    moved = np.stack([np.bincount(codes, left[known] - losses[known], K) / n for left in without])
    moved -= moved.mean(axis=0)
    tau = -(1 - 1 / G) * moved.sum(axis=1)
    spread = moved - moved.mean(axis=1, keepdims=True)
    noise = (1 - 1 / G) ** 2 * K / (K - 1) * (spread**2).sum(axis=1)
    trains = np.zeros(int(clusters.max()) + 1, dtype=bool)
    for fold in folds:
        trains[clusters[fold.train]] = True
    V = np.bincount(group[scored], np.where(trains[scored], v, 0.0), G)
    terms = G / (G - 1) * (tau**2 - noise + 2 * V * tau)
    return _mean_within_range(float(terms.sum()) / evaluation, math.sqrt(G) * float(terms.std(ddof=1)) / evaluation)


def _mean_within_range(centre: float, deviation: float) -> float:
    """Mean of a normal distribution that is cut to lie between 0 and the largest share."""
    if deviation < 1e-6:
        return min(max(centre, 0.0), _LARGEST_SHARE)
    grid = _LARGEST_SHARE * (np.arange(1000) + 0.5) / 1000
    log_density = -0.5 * ((grid - centre) / deviation) ** 2
    density = np.exp(log_density - log_density.max())
    return float(grid @ density / density.sum())
