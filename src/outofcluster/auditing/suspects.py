"""Who leaked: the training records that look like held-out ones, for clerical review.

With r = dP_V/dT̂ at a training record and p0 the leakage rate, the record belongs to a held-out cluster with probability
p0·r, at most 1. Which held-out cluster it resembles is the cluster of its nearest held-out record, in standardised
features.

Where entities were split, the suspects are training clusters that probably are pieces of held-out entities
(:mod:`outofcluster.evidence.entities`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from outofcluster._base.arguments import Array
from outofcluster._base.plain import data_frame
from outofcluster.evidence.entities import EntitySuspects
from outofcluster.problem.folds import Fold, Rows
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import AuditSamples

_UNKNOWN = -1
_MOST_COMPARED, _MOST_FOR_SCALE = 5_000, 100_000
"""Held-out records that a training record is compared with, and records that the scale of the features comes from."""


def nearest_clusters(task: Task, fold: Fold, clusters: Rows) -> Rows:
    """The held-out cluster that each training record resembles; -1 where features are no finite numbers.

    Where many records are held out, each is compared with 5000 of them, evenly spread over their rows.
    """
    if not task.is_matrix:
        return np.full(fold.n_train, _UNKNOWN)
    held_out = fold.validation
    if len(held_out) > _MOST_COMPARED:
        held_out = held_out[np.linspace(0, len(held_out) - 1, _MOST_COMPARED).astype(np.int64)]
    train = fold.train
    everything = np.arange(task.n_records)
    if len(everything) > _MOST_FOR_SCALE:
        everything = np.linspace(0, task.n_records - 1, _MOST_FOR_SCALE).astype(np.int64)
    scale = task.numbers(everything).std(axis=0)
    varies = scale > 0
    if not varies.any():
        return np.full(len(train), _UNKNOWN)
    tree = cKDTree(task.numbers(held_out)[:, varies] / scale[varies])
    length = max(1, _MOST_FOR_SCALE // 10)
    nearest = [
        tree.query(task.numbers(train[start : start + length])[:, varies] / scale[varies])[1]
        for start in range(0, len(train), length)
    ]
    return np.asarray(clusters[held_out][np.concatenate(nearest)])


def suspects_frame(samples: AuditSamples, rates: Array) -> Any:
    """The training records of all folds, the most suspicious first."""
    names = np.array([*samples.cluster_names, ""], dtype=object)
    columns: dict[str, list[Any]] = {"fold": [], "record": [], "probability": [], "resembles": []}
    for fold, rate in zip(samples.folds, rates, strict=True):
        if fold.sides is None:
            continue
        probability = np.minimum(rate * fold.sides.ratio, 1.0)
        columns["fold"] += [fold.index] * len(probability)
        columns["record"] += fold.sides.rows.tolist()
        columns["probability"] += probability.tolist()
        columns["resembles"] += names[fold.sides.resembles].tolist()
    return _sorted_frame(columns)


def entity_suspects_frame(suspects: Mapping[int, EntitySuspects], cluster_names: Sequence[Any]) -> Any:
    """The training clusters of all folds, the most suspicious first."""
    names = np.array([*cluster_names, ""], dtype=object)
    columns: dict[str, list[Any]] = {"fold": [], "cluster": [], "probability": [], "resembles": [], "records": []}
    for index, of_fold in suspects.items():
        columns["fold"] += [index] * len(of_fold.probability)
        columns["cluster"] += names[of_fold.train_clusters].tolist()
        columns["probability"] += of_fold.probability.tolist()
        columns["resembles"] += names[of_fold.held_out_clusters].tolist()
        columns["records"] += of_fold.n_records.tolist()
    return _sorted_frame(columns)


def _sorted_frame(columns: dict[str, list[Any]]) -> Any:
    order = np.argsort(-np.array(columns["probability"]), kind="stable")
    return data_frame({name: [values[i] for i in order] for name, values in columns.items()})
