"""What one would report without a correction: the loss over the folds, and over folds that ignore clusters.

*naive* is the paper's LOCO (equation 1) over all folds: fit to T̂, average the losses of V̂'s records. *iid*
does the same over random folds. Losses are kept record by record, with the fold each was scored in; a scorer's
loss stands for every record of its fold.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import FitError
from outofcluster._base.validation import Array
from outofcluster.sampling.fitting import fit_clone, one_blas_thread, take_rows
from outofcluster.sampling.losses import Loss
from outofcluster.split.folds import Fold

__all__ = ["fold_losses", "random_folds"]


def random_folds(n_records: int, n_folds: int, seed: np.random.SeedSequence) -> tuple[Fold, ...]:
    """Folds of records at random."""
    parts = np.array_split(np.random.default_rng(seed).permutation(n_records), n_folds)
    everything = np.arange(n_records)
    return tuple(Fold(i, np.setdiff1d(everything, part), np.sort(part)) for i, part in enumerate(parts))


def fold_losses(
    estimator: Any,
    X: Any,
    y: Any,
    folds: tuple[Fold, ...],
    loss: Loss,
    params: dict[str, Any],
    seed: np.random.SeedSequence,
    n_jobs: int | None,
) -> list[Array]:
    """Losses of each fold's validation records."""
    from joblib import Parallel, delayed

    seeds = seed.spawn(len(folds))
    found = Parallel(n_jobs=n_jobs)(
        delayed(_one)(estimator, X, y, fold.train, fold.validation, loss, params, child)
        for fold, child in zip(folds, seeds, strict=True)
    )
    for fold, losses in zip(folds, found, strict=True):
        if isinstance(losses, str):
            raise FitError(f"The estimator failed in fold {fold.index}: {losses}", None)
    return list(found)


def _one(
    estimator: Any,
    X: Any,
    y: Any,
    train: NDArray[np.int64],
    validation: NDArray[np.int64],
    loss: Loss,
    params: dict[str, Any],
    seed: np.random.SeedSequence,
) -> Array | str:
    """The losses, or what went wrong."""
    try:
        with one_blas_thread():
            model = fit_clone(estimator, X, y, train, params, np.random.default_rng(seed))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    held_out, targets = take_rows(X, validation), take_rows(y, validation)
    if loss.kind == "per_record":
        return loss.records(model, held_out, targets)
    return np.full(len(validation), loss.resample(model, held_out, targets))
