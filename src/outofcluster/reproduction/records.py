"""The learner on the paper's data: losses with records drawn from the pools of a split.

The paper's learner is a soft-margin linear SVM with C = 1. Ours is ``LinearSVC(C=1)`` on standardised features: the
squared hinge in the place of the hinge, and an intercept that is penalised as well. It has a compiled kernel, without
which twenty million fits would take a day; a check with ``SVC(kernel="linear")`` goes with every full run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster import datasets
from outofcluster.datasets import Bunch
from outofcluster.reproduction.means import Means
from outofcluster.reproduction.parameters import Study
from outofcluster.sampling.prepare import prepare

__all__ = ["LEARNERS", "Records", "data_digest", "field_records", "hinge", "learner", "load", "quiet"]

_IID_FITS = 300
"""Fits of a random split: the fewest for which a kernel is used."""

_SHOW_FROM = 10_000
"""Fits from which a run has a progress bar of its own, on a terminal."""

_KEEP_FROM = 5_000
"""Fits from which a run is worth a checkpoint."""

Rows = NDArray[np.int64]

LEARNERS = {
    "zero_one": "make_pipeline(StandardScaler(), LinearSVC(C=1)): squared hinge, penalised intercept; the published "
    "experiments used a soft-margin linear SVM (hinge) with C = 1",
    "squared_error": "LinearRegression(fit_intercept=False)",
}
"""What was fitted, in words."""


def learner(loss: str) -> Any:
    """The learner of a study, by its loss."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    if loss == "squared_error":
        return LinearRegression(fit_intercept=False)
    return make_pipeline(StandardScaler(), LinearSVC(C=1))


def hinge() -> Any:
    """The learner with the hinge loss, as published: no kernel, some hundred times slower."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), SVC(kernel="linear", C=1))


def load(name: str, data_home: Any, **options: Any) -> Bunch:
    """A data set of the paper by its name."""
    bunch: Bunch = getattr(datasets, f"load_{name}")(data_home=data_home, **options)
    return bunch


def data_digest(bunch: Bunch) -> str:
    """A digest of records, targets, clusters and the split."""
    found = hashlib.sha256()
    for array in (bunch.data, bunch.target, bunch.groups):
        found.update(np.ascontiguousarray(array).data)
    found.update(repr((bunch.data.shape, bunch.train_groups, bunch.validation_groups)).encode())
    return found.hexdigest()[:16]


def field_records(study: Study, bunch: Bunch | None, seed: int) -> Bunch:
    """The records that a user of the field protocol has: all, or some of the training clusters', or fresh ones."""
    if bunch is None:
        assert study.field_train is not None
        return datasets.make_partition(study.field_train, random_state=seed)
    if study.field_train is None:
        return bunch
    rng = np.random.default_rng(seed)
    few = rng.choice(bunch.train_rows, min(study.field_train, len(bunch.train_rows)), replace=False)
    rows = np.sort(np.concatenate([few, bunch.validation_rows]))
    return replace(bunch, data=bunch.data[rows], target=bunch.target[rows], groups=bunch.groups[rows])


@dataclass(frozen=True)
class Records:
    """A learner and records to draw from.

    Attributes
    ----------
    study : Study
        Gives n and the loss.
    bunch : Bunch
        The records.
    n_jobs : int or None
        Workers.
    estimator : estimator, optional
        Another learner than the study's.
    """

    study: Study
    bunch: Bunch
    n_jobs: int | None
    estimator: Any = None

    def losses(
        self,
        injected: Any,
        counts: Any,
        *,
        seed: int,
        replace: bool,
        n: int | None = None,
        train: Rows | None = None,
        validation: Rows | None = None,
        checkpoint: Path | None = None,
    ) -> Means:
        """Mean losses at injected fractions, with so many fits each, of the study's size or another."""
        bunch = self.bunch
        n_fits = int(np.sum(counts))
        sampling = prepare(
            self.estimator or learner(self.study.loss),
            bunch.data,
            bunch.target,
            train=bunch.train_rows if train is None else train,
            validation=bunch.validation_rows if validation is None else validation,
            injected=injected,
            shares=np.asarray(counts, dtype=float),
            n_fits=n_fits,
            n_train=self.study.n if n is None else n,
            replace=replace,
            loss=self.study.loss,
            units="none",
            random_state=seed,
            checkpoint=checkpoint if n_fits >= _KEEP_FROM else None,
        )
        with quiet():
            return Means.of(sampling.run(n_jobs=self.n_jobs, progress=n_fits >= _SHOW_FROM))

    def iid(self, splits: int, *, seed: int, replace: bool) -> float:
        """The loss over random splits that ignore clusters, their sides as large as those of the paper's split."""
        rng = np.random.default_rng(seed)
        n_train = len(self.bunch.train_rows)
        found = []
        for _ in range(splits):
            order = rng.permutation(len(self.bunch.target))
            run = self.losses(
                [0.0],
                [_IID_FITS],
                seed=int(rng.integers(2**32)),
                replace=replace,
                train=order[:n_train],
                validation=order[n_train:],
            )
            found.append(float(run.means[0]))
        return float(np.mean(found))


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of solvers that stop at their default number of steps: thousands of fits would repeat it."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield
