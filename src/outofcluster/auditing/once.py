"""What an audit fits once, beside its resamples, as named arrays that a checkpoint can hold.

These are the losses of the user's own models, those over random folds, those behind the test for a cluster effect, and
what training clusters add to the variance. Arrays of a further metric have its place at the end of their names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import FitError, InputError
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes
from outofcluster.sampling.baselines import random_fold_losses, train_losses, training_shares
from outofcluster.sampling.effect import sample_effect
from outofcluster.sampling.run import package_versions


def identity(task: Task, folds: Sequence[Fold], root: np.random.SeedSequence) -> dict[str, Any]:
    """What the baselines depend on."""
    rows = [(fold.train, fold.validation) for fold in folds]
    return task.description | {"folds": digest(rows), "random_state": str(root.entropy), "versions": package_versions()}


def ending(place: int) -> str:
    """What the names of a further metric's arrays end with."""
    return f":{place}" if place else ""


def by_fold(by_metric: Sequence[Sequence[dict[str, Array]]]) -> dict[str, Array]:
    """Named arrays: of fold 2 "2" for the losses, "2.records" for pseudo losses; of further metrics "2:1"."""
    return {
        f"{index}{ending(place)}" + ("" if name == "own" else f".{name}"): array
        for place, by_fold in enumerate(by_metric)
        for index, arrays in enumerate(by_fold)
        for name, array in arrays.items()
    }


def of_fold(arrays: Mapping[str, Array], index: int, place: int) -> dict[str, Array]:
    """The losses of a fold by a metric, from the arrays of `by_fold`."""
    start = f"{index}{ending(place)}"
    more = {name.removeprefix(f"{start}."): array for name, array in arrays.items() if name.startswith(f"{start}.")}
    return {"own": arrays[start]} | more


def random_arrays(task: Task, n_folds: int, seed: np.random.SeedSequence, n_jobs: int | None) -> dict[str, Array]:
    """The losses over random folds, which know no clusters, by every metric."""
    by_metric = random_fold_losses(task, n_folds, seed=seed, n_jobs=n_jobs)
    return {f"{name}{ending(place)}": array for place, own in enumerate(by_metric) for name, array in vars(own).items()}


def effect_arrays(
    task: Task, folds: tuple[Fold, ...], seed: np.random.SeedSequence, n_jobs: int | None
) -> dict[str, Any]:
    """The losses for the test for a cluster effect by every metric, or why there are none."""
    try:
        by_metric: Sequence[EffectLosses | str] = sample_effect(task, folds, seed=seed, n_jobs=n_jobs)
    except (FitError, InputError) as error:
        by_metric = [str(error)] * len(task.losses)
    arrays = dict[str, Any]()
    for place, own in enumerate(by_metric):
        named: dict[str, Any] = {"problem": np.array(own)} if isinstance(own, str) else dict(vars(own))
        if isinstance(own, EffectLosses):
            named |= {"sizes": np.array(list(vars(own.sizes).values())), "units": np.array(own.units)}
        arrays |= {f"{name}{ending(place)}": array for name, array in named.items()}
    return arrays


def varied_arrays(
    task: Task, folds: tuple[Fold, ...], own: Mapping[str, Array], seed: np.random.SeedSequence, n_jobs: int | None
) -> dict[str, Array]:
    """What training clusters add to the variance, by every metric."""
    losses = [[of_fold(own, fold.index, place) for fold in folds] for place in range(len(task.losses))]
    return {"shares": training_shares(task, folds, losses, seed=seed, n_jobs=n_jobs)}


def train_arrays(
    task: Task, folds: tuple[Fold, ...], seed: np.random.SeedSequence, n_jobs: int | None
) -> dict[str, Array]:
    """The own model's losses on training records that it did not see: "2" for fold 2, "2:1" of a second metric."""
    by_metric = train_losses(task, folds, seed=seed, n_jobs=n_jobs)
    return {
        f"{fold.index}{ending(place)}": losses
        for place, of_folds in enumerate(by_metric)
        for fold, losses in zip(folds, of_folds, strict=True)
    }


def read_effect(arrays: Mapping[str, Any], place: int) -> EffectLosses | None:
    """The losses behind the test by a metric, from the arrays of `effect_arrays`; none where there was a problem."""

    def of(name: str) -> Any:
        return arrays[f"{name}{ending(place)}"]

    if f"problem{ending(place)}" in arrays:
        return None
    sizes = FoldSizes(*(int(size) for size in of("sizes")))
    return EffectLosses(of("train"), of("validation"), sizes, of("numbers"), str(of("units")))
