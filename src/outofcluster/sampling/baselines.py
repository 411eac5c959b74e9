"""What one would report without a correction: the loss over the folds, and over folds that ignore clusters.

*naive* is the paper's LOCO (equation 1) over all folds: fit to T̂, average the losses of V̂'s records. *iid*
does the same over random folds. There is one loss per record; where a scorer gives one loss per fold, every record of
the fold has it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from outofcluster._base.exceptions import FitError
from outofcluster._base.validation import Array
from outofcluster.sampling.audit_samples import RandomFolds
from outofcluster.sampling.fitting import fit_clone, one_blas_thread, take_rows
from outofcluster.sampling.task import Task
from outofcluster.split.folds import Fold

__all__ = ["fold_losses", "random_fold_losses"]


def random_fold_losses(
    task: Task, n_folds: int, *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> RandomFolds:
    """Losses over folds of records at random.

    Parameters
    ----------
    task : Task
        The checked estimator, records and loss.
    n_folds : int
        Number of folds.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    RandomFolds
    """
    parts = np.array_split(np.random.default_rng(seed).permutation(task.n_records), n_folds)
    everything = np.arange(task.n_records)
    folds = [Fold(i, np.setdiff1d(everything, part), np.sort(part)) for i, part in enumerate(parts)]
    losses = fold_losses(task, folds, seed=seed.spawn(1)[0], n_jobs=n_jobs)
    return RandomFolds(np.concatenate([fold.validation for fold in folds]), np.concatenate(losses))


def fold_losses(
    task: Task, folds: Sequence[Fold], *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> list[Array]:
    """Losses of the validation records of each fold, of a model fitted to all its training records.

    Parameters
    ----------
    task : Task
        The checked estimator, records and loss.
    folds : sequence of Fold
        The folds.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    list of array
        One array per fold, in the order of its validation rows.
    """
    from joblib import Parallel, delayed

    seeds = seed.spawn(len(folds))
    results = Parallel(n_jobs=n_jobs)(
        delayed(_one_fold)(task, fold, child) for fold, child in zip(folds, seeds, strict=True)
    )
    for fold, losses in zip(folds, results, strict=True):
        if isinstance(losses, str):
            raise FitError(f"The estimator failed in fold {fold.index}: {losses}", None)
    return list(results)


def _one_fold(task: Task, fold: Fold, seed: np.random.SeedSequence) -> Array | str:
    """The losses, or what went wrong."""
    try:
        with one_blas_thread():
            model = fit_clone(task.estimator, task.X, task.y, fold.train, task.params, np.random.default_rng(seed))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    held_out, targets = take_rows(task.X, fold.validation), take_rows(task.y, fold.validation)
    if task.loss.kind == "per_record":
        return task.loss.records(model, held_out, targets)
    return np.full(len(fold.validation), task.loss.resample(model, held_out, targets))
