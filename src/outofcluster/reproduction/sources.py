r"""Where losses come from: a learner on records of a data set, or the model of the synthetic study.

The paper's learner is a soft-margin linear SVM with C = 1. Ours is ``LinearSVC(C=1)`` on standardised features: the
squared hinge in the place of the hinge, and an intercept that is penalised as well. It has a compiled kernel, without
which twenty million fits would take a day; a check with ``SVC(kernel="linear")`` goes with every full run.

The synthetic study has fresh records for every replicate, as its table's "n = ∞" has it. Its model is that of
:func:`outofcluster.datasets.make_partition`. Neither the noise of the training records nor the validation records need
to be drawn one by one. With S the sum of :math:`x^2` over the training records,
:math:`\hat θ = (θ_T A + θ_V B)/S + σ z/\sqrt S`. With :math:`c_i = (θ_{k(i)} - \hat θ) x_i` the errors of the line at N
validation records and Q the sum of their squares, the noise along c and that across it are independent, so the sum of
squared errors is

.. math:: \sum_i (c_i + ε_i)^2 = (\sqrt Q + σ z')^2 + σ^2 χ^2_{N-1} ,

exactly, with z and z' standard normal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import outofcluster as ooc
from outofcluster._base.arguments import Array
from outofcluster.datasets import Bunch
from outofcluster.reproduction.parts import Means, Parts, seed_for
from outofcluster.reproduction.studies import IID_FITS, Study

__all__ = ["LEARNERS", "Source", "learner", "load", "quiet", "sample_partition"]

_REMOVED = np.array([0.03, 0.06, 0.1, 0.15, 0.22, 0.32, 0.45, 0.6])
"""Shares of the training records that models below the leakage rate do without."""
_N_VALIDATION, _BLOCK = 1000, 1000
_SLOPES, _WIDTHS, _NOISE = (1.0, 2.0), (1.0, 10.0), 0.5

LEARNERS = {
    "zero_one": "make_pipeline(StandardScaler(), LinearSVC(C=1)): squared hinge, penalised intercept; the published "
    "experiments used a soft-margin linear SVM (hinge) with C = 1",
    "squared_error": "LinearRegression(fit_intercept=False)",
}
"""What was fitted, in words."""


def learner(loss: str) -> Any:
    """The learner of a study by its loss, or for "hinge" the published one: no kernel, some hundred times slower."""
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC, LinearSVC

    if loss == "squared_error":
        return LinearRegression(fit_intercept=False)
    return make_pipeline(StandardScaler(), SVC(kernel="linear", C=1) if loss == "hinge" else LinearSVC(C=1))


def load(name: str, data_home: Any, **options: Any) -> Bunch:
    """A data set of the paper by its name."""
    bunch: Bunch = getattr(ooc.datasets, f"load_{name}")(data_home=data_home, **options)
    return bunch


@contextmanager
def quiet() -> Iterator[None]:
    """Without the warnings of solvers that stop at their default number of steps: thousands of fits would repeat it."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


@dataclass(frozen=True)
class Source:
    """What replicates are drawn from.

    Attributes
    ----------
    study : Study
        Gives n and the loss.
    bunch : Bunch or None
        The records; None for the model of the synthetic study.
    parts : Parts
        Where losses are kept.
    n_jobs : int or None
        Workers.
    estimator : estimator, optional
        Another learner than the study's.
    """

    study: Study
    bunch: Bunch | None
    parts: Parts
    n_jobs: int | None
    estimator: Any = None

    def losses(
        self,
        name: str,
        injected: Any,
        counts: Any,
        *,
        seed: int,
        replace: bool = False,
        n: int | None = None,
        rows: tuple[Any, Any] | None = None,
        apart: bool = False,
    ) -> Means:
        """Mean losses at injected fractions, with so many fits each; ``rows`` are the sides of another split.

        Levels that are drawn ``apart`` share no random numbers, as in the paper.
        """
        size, n_fits = self.study.n if n is None else n, int(np.sum(counts))
        if self.bunch is None:
            parameters = {"n": size, "injected": injected, "fits": counts, "seed": seed}
            stored = self.parts.plain(
                name, parameters, lambda: sample_partition(injected, counts, n=size, seed=seed), n_fits=n_fits
            )
            arrays: Any = {key: np.array(value) for key, value in stored.items()}
            return Means(**arrays | {"size": size})
        split = (self.bunch.train_rows, self.bunch.validation_rows) if rows is None else rows
        levels, fits = np.asarray(injected, dtype=float), np.asarray(counts)
        if apart:
            each = zip(levels.tolist(), fits.tolist(), strict=True)
            runs_apart = []
            for i, (level, count) in enumerate(each):
                name_of_level, own_seed = f"{name}-level-{i}", seed_for(seed, i)
                runs_apart.append(
                    self.losses(name_of_level, [level], [count], seed=own_seed, replace=replace, n=n, rows=rows)
                )
            return Means.joined(runs_apart)
        # A call spends equally many fits on all its levels, so that there is one for each number of fits.
        different = np.unique(fits)
        runs = [
            self._sample(
                name if len(different) == 1 else f"{name}-{count}",
                levels[fits == count],
                int(count) * int((fits == count).sum()),
                split,
                n_train=size,
                replace=replace,
                random_state=seed_for(seed, count),
            )
            for count in different
        ]
        return Means.joined([Means.of(run) for run in runs])

    def below(self, name: str, n_fits: int, *, seed: int, rows: tuple[Any, Any], groups: Any) -> ooc.LossSamples | None:
        """Losses below the leakage rate, of resamples of T̂ that leave out what looks like V̂; None where none can go.

        The sides of the split are told apart with its approximate clusters, ``groups``. Every part of the validation
        records is scored by as many fits of a level, so that their number may be another than what was asked for.
        """
        options: dict[str, Any] = {"n_train": self.study.n, "groups": groups, "random_state": seed}
        for count in range(len(_REMOVED), 0, -1):
            # Shares that leave too few records to draw from are refused before any fit.
            with suppress(ooc.InputError):
                removed = _REMOVED[count - 1 :: -1]
                return self._sample(name, -removed / (1 - removed), n_fits, rows, **options)
        return None

    def _sample(
        self, name: str, injected: Array, n_fits: int, rows: tuple[Any, Any], **options: Any
    ) -> ooc.LossSamples:
        """Loss samples of a split, from their file or fitted."""
        assert self.bunch is not None
        bunch, loss = self.bunch, self.study.loss
        train, validation = rows

        def sample(checkpoint: Path | None) -> ooc.LossSamples:
            with quiet():
                return ooc.sample_losses(
                    learner(loss) if self.estimator is None else self.estimator,
                    bunch.data,
                    bunch.target,
                    train=train,
                    validation=validation,
                    injected=injected,
                    n_fits=n_fits,
                    loss=loss,
                    units="none",
                    kernel=True,
                    n_jobs=self.n_jobs,
                    checkpoint=checkpoint,
                    **options,
                )

        return self.parts.samples(name, [injected, n_fits, train, validation, options], n_fits, sample)

    def iid(self, name: str, splits: int, *, seed: int, replace: bool = False) -> float:
        """The loss over random splits that ignore clusters, their sides as large as those of the paper's split."""
        rng = np.random.default_rng(seed)
        if self.bunch is None:
            n, fits = self.study.n, IID_FITS * splits
            parameters = {"n": n, "fits": fits, "seed": seed}
            return float(
                self.parts.plain(name, parameters, lambda: _losses(rng, fits, n, 0.5, 0.5).mean(), n_fits=fits)
            )
        n_train, losses = len(self.bunch.train_rows), []
        for split in range(splits):
            order = rng.permutation(len(self.bunch.target))
            sides, split_seed = (order[:n_train], order[n_train:]), int(rng.integers(2**32))
            run = self.losses(f"{name}-{split}", [0.0], [IID_FITS], seed=split_seed, replace=replace, rows=sides)
            losses.append(float(run.means[0]))
        return float(np.mean(losses))


def sample_partition(p: Any, counts: Any, *, n: int, seed: int) -> Means:
    """Losses on the held-out part of models trained on n records, each of it with probability p.

    Examples
    --------
    >>> sample = sample_partition([0.0, 1.0], [2000, 2000], n=15, seed=0)
    >>> bool(abs(sample.means[0] - 35.35) < 4 * sample.standard_errors[0])
    True
    """
    rng = np.random.default_rng(seed)
    levels = np.asarray(p, dtype=float)
    losses = [_losses(rng, int(count), n, float(level), 1.0) for level, count in zip(levels, counts, strict=True)]
    return Means(
        levels,
        np.array([level.mean() for level in losses]),
        np.array([level.std(ddof=1) / np.sqrt(len(level)) for level in losses]),
        np.array([len(level) for level in losses]),
        n,
    )


def _losses(rng: np.random.Generator, count: int, n: int, trains: float, scored: float) -> Array:
    """Losses of models; ``trains`` and ``scored`` are the shares of the held-out part."""
    parts = []
    for first in range(0, count, _BLOCK):
        block = min(_BLOCK, count - first)
        A, B = _sums_of_squares(rng, block, n, trains)
        S = A + B
        slope = (_SLOPES[0] * A + _SLOPES[1] * B) / S + _NOISE * rng.standard_normal(block) / np.sqrt(S)
        A, B = _sums_of_squares(rng, block, _N_VALIDATION, scored)
        Q = (_SLOPES[0] - slope) ** 2 * A + (_SLOPES[1] - slope) ** 2 * B
        along = np.sqrt(Q) + _NOISE * rng.standard_normal(block)
        parts.append((along**2 + _NOISE**2 * rng.chisquare(_N_VALIDATION - 1, block)) / _N_VALIDATION)
    return np.concatenate(parts)


def _sums_of_squares(rng: np.random.Generator, count: int, n: int, share: float) -> tuple[Array, Array]:
    """Sums of x² over the records of either part, for sets of n of which each is of the second with a probability."""
    squares = rng.random((count, n)) ** 2
    second = np.arange(n) < rng.binomial(n, share, count)[:, None]
    B = (squares * second).sum(axis=1)
    return _WIDTHS[0] ** 2 * (squares.sum(axis=1) - B), _WIDTHS[1] ** 2 * B
