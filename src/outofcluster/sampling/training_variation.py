r"""How much other training clusters would move the cross-validated loss: a delete-a-group jackknife with few fits.

With fragments T̂ trains as it is in every resample, so that resamples do not show what other training clusters would
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
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.validation import Array
from outofcluster.sampling.baselines import fold_losses
from outofcluster.sampling.task import Task
from outofcluster.split.folds import Fold, renumbered, some_records

__all__ = ["training_shares"]

_GROUPS = 8
"""Groups of clusters; each costs one fit per fold."""
_LARGEST_SHARE = 2.0
"""The largest share φ that is taken to be possible."""
_MOST_RECORDS = 200_000
"""Records that are fitted again, of clusters that are drawn at random where there are more: both parts of the share
shrink alike when clusters become more."""


def training_shares(
    task: Task,
    folds: Sequence[Fold],
    own: Sequence[Sequence[Mapping[str, Array]]],
    *,
    seed: np.random.SeedSequence,
    n_jobs: int | None = None,
) -> Array:
    """φ for every metric: what training clusters add to the variance, as a share of that of the evaluation.

    Parameters
    ----------
    task : Task
        The checked estimator, records and metrics.
    folds : sequence of Fold
        The folds.
    own : list of list of dict of array
        Losses of the user's own models, as `fold_losses` gives them.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    array of shape (metrics,)
        0 where the models cannot be fitted without a group.
    """
    assert task.clusters is not None
    clusters = task.clusters
    group_seed, fit_seed = seed.spawn(2)
    rng = np.random.default_rng(group_seed.spawn(1)[0])
    kept = some_records(np.arange(len(clusters)), clusters, _MOST_RECORDS, rng)
    if len(kept) < len(clusters):
        # Of very many records a part is fitted, with own models of the same size for comparison.
        is_kept = np.zeros(len(clusters), dtype=bool)
        is_kept[kept] = True
        folds = [Fold(f.index, f.train[is_kept[f.train]], f.validation[is_kept[f.validation]]) for f in folds]
        try:
            own = fold_losses(task, folds, seed=fit_seed, n_jobs=n_jobs)
        except (FitError, InputError):
            return np.zeros(len(task.losses))
    group = np.random.default_rng(group_seed).permutation(int(clusters.max()) + 1) % _GROUPS
    without = [fold.without(group[clusters] == deleted) for deleted in range(_GROUPS) for fold in folds]
    try:
        again = fold_losses(task, without, seed=fit_seed, n_jobs=n_jobs)
    except (FitError, InputError):
        return np.zeros(len(task.losses))
    shares = [
        _share(clusters, group, folds, _by_row(task, folds, of_metric), _groups(task, folds, refitted))
        for of_metric, refitted in zip(own, again, strict=True)
    ]
    return np.array(shares)


def _by_row(task: Task, folds: Sequence[Fold], by_fold: Sequence[Mapping[str, Array]]) -> Array:
    """Mean loss of every record over the folds that score it; NaN where none does."""
    total, count = np.zeros(task.n_records), np.zeros(task.n_records)
    for fold, losses in zip(folds, by_fold, strict=True):
        if len(losses["own"]):
            total[fold.validation] += losses["own"]
            count[fold.validation] += 1
    mean: Array = np.divide(total, count, out=np.full(task.n_records, np.nan), where=count > 0)
    return mean


def _groups(task: Task, folds: Sequence[Fold], by_fold: Sequence[Mapping[str, Any]]) -> Array:
    """The same without each group."""
    per_group = [by_fold[start : start + len(folds)] for start in range(0, len(by_fold), len(folds))]
    return np.stack([_by_row(task, folds, of_group) for of_group in per_group])


def _share(
    clusters: NDArray[np.int64], group: NDArray[np.int64], folds: Sequence[Fold], losses: Array, without: Array
) -> float:
    """φ from the loss of every record, as it is and without each group."""
    known = np.isfinite(losses) & np.isfinite(without).all(axis=0)
    scored, count = renumbered(clusters[known])
    K, G = len(scored), len(without)
    if K < 2:
        return 0.0
    n = int(known.sum())
    v = np.bincount(count, losses[known] - losses[known].mean(), K) / n
    evaluation = K / (K - 1) * float((v**2).sum())
    moved = np.stack([np.bincount(count, own[known] - losses[known], K) / n for own in without])
    moved -= moved.mean(axis=0)
    tau = -(1 - 1 / G) * moved.sum(axis=1)
    spread = moved - moved.mean(axis=1, keepdims=True)
    noise = (1 - 1 / G) ** 2 * K / (K - 1) * (spread**2).sum(axis=1)
    trains = np.zeros(int(clusters.max()) + 1, dtype=bool)
    for fold in folds:
        trains[clusters[fold.train]] = True
    V = np.bincount(group[scored], np.where(trains[scored], v, 0.0), G)
    terms = G / (G - 1) * (tau**2 - noise + 2 * V * tau)
    if evaluation <= 0:
        return 0.0
    return _mean_within_range(float(terms.sum()) / evaluation, math.sqrt(G) * float(terms.std(ddof=1)) / evaluation)


def _mean_within_range(centre: float, deviation: float) -> float:
    """Mean of a normal distribution that is cut to lie between 0 and the largest share."""
    if deviation < 1e-6:
        return min(max(centre, 0.0), _LARGEST_SHARE)
    grid = _LARGEST_SHARE * (np.arange(1000) + 0.5) / 1000
    log_density = -0.5 * ((grid - centre) / deviation) ** 2
    density = np.exp(log_density - log_density.max())
    return float(grid @ density / density.sum())
