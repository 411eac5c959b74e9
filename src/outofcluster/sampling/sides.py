"""Telling the two sides of a split apart, for a task: the same call for a single run and for every fold of an audit."""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster._base.threads import one_thread
from outofcluster.sampling.task import Task
from outofcluster.sampling.unmixing import RatioWeights
from outofcluster.split.discriminator import Sides, tell_sides_apart
from outofcluster.split.folds import Fold

__all__ = ["sides_of", "weights_of"]


def sides_of(task: Task, fold: Fold, *, seed: np.random.SeedSequence, classifier: Any = None) -> Sides:
    """What the records of a task say about the two sides of a split.

    Parameters
    ----------
    task : Task
        The checked records; without clusters each side counts as one.
    fold : Fold
        The split.
    seed : SeedSequence
        Source of all random numbers.
    classifier : classifier, optional
        A classifier that replaces the package's own.

    Returns
    -------
    Sides
    """
    clusters = task.clusters
    if clusters is None:
        clusters = np.zeros(task.n_records, dtype=np.int64)
        clusters[fold.validation] = 1
    with one_thread():
        return tell_sides_apart(
            task.X,
            task.y,
            fold.train,
            fold.validation,
            clusters=clusters,
            seed=seed,
            classifier=classifier,
            estimator=task.estimator,
            discrete=task.classifier,
        )


def weights_of(sides: Sides) -> RatioWeights:
    """The weights for negative injected fractions that follow."""
    return RatioWeights(sides.ratio_by_part, sides.ratio_validation, sides.part)
