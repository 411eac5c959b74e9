r"""The fits behind the paper's test for a cluster effect: models of T̂ and of V̂, each scored on its own fold.

For a split T̂, V̂: m training folds of n' records from T̂ and m from V̂, each with a validation fold of its own of n_V
records from V̂, all disjoint (the paper's Section 4). The test of their losses is described in
:mod:`outofcluster.auditing.effect_test`.

Decisions. *One record, one role:* over all splits of a cross-validation no record is used twice. The V̂s of a k-fold are
disjoint, and what one of them leaves unused trains models for the other splits. So without a cluster effect, when
records are independent, all losses are independent and have one distribution, and K splits keep the level as one does.
Splits that shared records would be dependent, and tests that allow for this (by twice the mean of the p-values, for
example) have less power. *Equally many folds of both kinds:* z̄ - z̄' is then symmetric without a cluster effect, also
for skewed losses, for which a t test is not exact. *Drawn at random, not by class:* V̂'s shares of the
classes differ by chance from those of T̂, and a stratified training fold would know them, which would look like an
effect where there is none. A draw in which a training fold of a classifier (with a scorer, also a validation fold) has
a single class is drawn again as a whole.

*Sizes* are the same in all splits. m is the smallest number, at least 2, with 2K(m-1) ≥ 10 degrees of freedom: more and
smaller folds gain little over that, and n' should be as close as possible to the size that a model is really trained
on. The splits with the largest V̂ are used, at most 25 of them. Their number, n' and n_V are those that make K m n_V n'
largest: records scored, times records trained on. Where nothing fits, m is lowered, down to 2.
"""

from __future__ import annotations

from itertools import product
from math import ceil

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import take_rows
from outofcluster._base.threads import one_thread
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes
from outofcluster.sampling.backends import all_calls
from outofcluster.sampling.failures import lost_workers, returns_failures, succeeded
from outofcluster.sampling.fitting import fit_clone
from outofcluster.sampling.task import Task
from outofcluster.split.folds import Fold

__all__ = ["sample_disjoint_folds"]

Rows = NDArray[np.int64]
Folds = tuple[Fold, ...]

_LEAST, _DEGREES, _MOST_SPLITS, _MAX_DRAWS = 5, 10, 25, 100

_SHARES = (1.0, 0.97, 0.94, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25)
"""Shares of the records for which sizes are tried in turn, since splits may compete for the same records."""


def sample_disjoint_folds(
    task: Task, folds: Folds, *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> EffectLosses:
    """Draw the folds, fit the models and score them.

    Parameters
    ----------
    task : Task
        The checked estimator, records and loss.
    folds : tuple of Fold
        The splits of the cross-validation.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    EffectLosses
    """
    target, labels = np.asarray(task.y), None
    if task.classifier and (target.ndim == 1 or target.shape[1] == 1):
        labels = np.unique(target, return_inverse=True)[1].ravel()
    rng = np.random.default_rng(seed.spawn(1)[0])
    sizes, pairs = _draw(folds, len(target), labels, task.loss.kind == "per_resample", rng)
    with lost_workers("the models of the test for a cluster effect were fitted"):
        calls = ((train, scored, child) for (train, scored), child in zip(pairs, seed.spawn(len(pairs)), strict=True))
        losses = all_calls(_fit_and_score, task, calls, n_jobs=n_jobs)
    losses = succeeded(losses, [f"training fold {i}" for i in range(len(pairs))])
    by_side = np.array(losses, dtype=float).reshape(-1, 2, sizes.n_train_folds)
    return EffectLosses(by_side[:, 0], by_side[:, 1], sizes)


@returns_failures
@one_thread()
def _fit_and_score(task: Task, train: Rows, scored: Rows, seed: np.random.SeedSequence) -> float:
    model = fit_clone(task.estimator, task.X, task.y, train, task.params, np.random.default_rng(seed))
    return task.loss.resample(model, take_rows(task.X, scored), take_rows(task.y, scored))


def _draw(
    folds: Folds, n: int, labels: Rows | None, both: bool, rng: np.random.Generator
) -> tuple[FoldSizes, list[tuple[Rows, Rows]]]:
    """Sizes, and the rows of every training fold with those of its validation fold: by split, those from T̂ first."""
    if labels is not None:
        folds = tuple(f for f in folds if np.ptp(labels[f.train]) > 0 and np.ptp(labels[f.validation]) > 0)
        if not folds:
            raise InputError("y must hold at least two classes on both sides of a fold of cv, got no such fold.")
    folds = tuple(sorted(folds, key=lambda fold: -len(fold.validation)))[:_MOST_SPLITS]
    for lowered, share in product(range(_DEGREES // 2), _SHARES):
        k, sizes = _plan(folds, n, labels, both, lowered, share)
        for _ in range(_MAX_DRAWS if k else 0):
            pairs = _deal(folds[:k], n, sizes, rng)
            if pairs is None:
                break
            # Two classes in every training fold, or in both kinds of folds.
            mixed = (rows for pair in pairs for rows in (pair if both else pair[:1]))
            if labels is None or all(np.ptp(labels[rows]) > 0 for rows in mixed):
                return sizes, pairs
    least = min(_least((fold,), 2, labels) for fold in folds)
    needed = FoldSizes(2, 2, least, least if both else _LEAST)
    raise InputError(
        f"cv must leave at least {needed.from_validation} validation and {needed.from_train} training records per "
        f"split (training folds of {needed.n_train} records, validation folds of {needed.n_scored}), got at most "
        f"{len(folds[0].validation)} and {max(len(fold.train) for fold in folds)}; use fewer folds or more records."
    )


def _plan(folds: Folds, n: int, labels: Rows | None, both: bool, lowered: int, share: float) -> tuple[int, FoldSizes]:
    """Splits to use, and the sizes with the largest K m n_V n' that a share of the records allows; 0 if none fit."""
    best, plan = 1, (0, FoldSizes(0, 0, 0, 0))
    used = np.zeros(n, dtype=bool)
    for k, last in enumerate(folds, start=1):
        used[last.train] = used[last.validation] = True
        m = ceil(1 + _DEGREES / 2 / k) - lowered
        least, most = _least(folds[:k], m, labels), min(len(fold.train) for fold in folds[:k]) // max(m, 2)
        if m < 2 or most < least:
            continue
        n_train = np.unique(np.geomspace(least, most, 300).astype(int))
        of_validation, of_all = int(share * len(last.validation)) // m, int(share * used.sum()) // (2 * k * m)
        scored = np.minimum((of_validation - n_train) // 2, of_all - n_train)
        merit = np.where(scored >= (least if both else _LEAST), k * m * scored * n_train, 0)
        i = int(merit.argmax())
        if merit[i] >= best:
            best, plan = int(merit[i]), (k, FoldSizes(m, m, int(n_train[i]), int(scored[i])))
    return plan


def _least(folds: Folds, m: int, labels: Rows | None) -> int:
    """Size of the smallest training folds with which every second draw or so has two classes in all of them."""
    n_train = _LEAST
    if labels is not None:
        sides = [labels[rows] for fold in folds for rows in (fold.train, fold.validation)]
        shares = [np.bincount(side) / len(side) for side in sides]
        while m * sum(float((share**n_train).sum()) for share in shares) > 0.5:
            n_train += max(1, n_train // 20)
    return n_train


def _deal(folds: Folds, n: int, sizes: FoldSizes, rng: np.random.Generator) -> list[tuple[Rows, Rows]] | None:
    """Give every record one role at most; None if the records do not suffice."""
    # A record that several splits would validate on goes to one of them, each with the same probability.
    home, seen = np.full(n, -1), np.zeros(n)
    for i, fold in enumerate(folds):
        seen[fold.validation] += 1
        home[fold.validation[rng.random(len(fold.validation)) * seen[fold.validation] < 1]] = i
    own = [rng.permutation(np.flatnonzero(home == i))[: sizes.from_validation] for i in range(len(folds))]
    if min(map(len, own)) < sizes.from_validation:
        return None
    free = np.ones(n, dtype=bool)
    free[np.concatenate(own)] = False
    # Training records are dealt in four rounds, each to the split with the fewest free records first, so that none is
    # left with nothing and each gets a sample of all its T̂.
    taken: list[Rows] = [np.zeros(0, dtype=np.int64) for _ in folds]
    for share in np.diff(np.linspace(0, sizes.from_train, 5).round().astype(int)):
        for i in np.argsort([free[fold.train].sum() for fold in folds], kind="stable"):
            pool = folds[i].train[free[folds[i].train]]
            if len(pool) < share:
                return None
            taken[i] = np.concatenate([taken[i], rng.permutation(pool)[:share]])
            free[taken[i]] = False
    pairs: list[tuple[Rows, Rows]] = []
    for from_train, from_validation in zip(taken, own, strict=True):
        inner, scored = np.split(from_validation, [sizes.n_validation_folds * sizes.n_train])
        training = np.concatenate([rng.permutation(from_train), inner]).reshape(-1, sizes.n_train)
        pairs.extend(zip(training, scored.reshape(-1, sizes.n_scored), strict=True))
    return pairs
