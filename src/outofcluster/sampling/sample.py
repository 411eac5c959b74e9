"""The public call of the sampling half."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.arguments import check_choice, check_flag, check_integer, check_vector, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import refuse_masked
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task, check_n_jobs
from outofcluster.sampling.backends import count_workers
from outofcluster.sampling.halves import HalvesRun
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.resamplers import DrawRecords, RatioWeights, Resampler, WeighRecords, sides_of
from outofcluster.sampling.run import Run, Runnable, RunSettings, check_kernel, check_split, prepare
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Checkpoint


def sample_losses(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    train: ArrayLike,
    validation: ArrayLike,
    error_model: Literal["records", "fragments"] = "records",
    groups: Any = None,
    injected: ArrayLike | None = None,
    discriminator: Any = "auto",
    largest: float | None = None,
    n_fits: int = 2000,
    n_train: int | None = None,
    replace: bool = True,
    loss: Any = None,
    scoring: Any = None,
    params: dict[str, Any] | None = None,
    units: Literal["auto", "clusters", "records", "both", "none"] = "auto",
    standard_error: float | None = None,
    kernel: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    random_state: RandomState = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> LossSamples:
    """Fit models to resamples of T̂ with records of V̂ injected, and keep their losses on the rest of V̂.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself. Every ``random_state`` that
        it leaves open is set from the replicate's own stream.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    train, validation : array of int
        Row numbers of T̂ and of V̂.
    error_model : {"records", "fragments"}
        How clustering errors happen: single records leak, or pieces of clusters. Pieces are imitated without an
        injection (fraction 0) and with one (fraction 1), two fits at a time (:mod:`outofcluster.sampling.halves`).
    groups : array, optional
        Cluster of every record of X; needed for fragments, and used as the units whose effects are kept.
    injected : array, optional
        Injected fractions of at most 1; by default those of the optimal extrapolation design. Negative fractions are
        drawn with weights that leave out what looks like V̂ (:mod:`outofcluster.sampling.resamplers`), as far as enough
        records are left, and for ``error_model="records"``.
    discriminator : "auto" or classifier
        What tells the two sides apart for negative fractions; a classifier needs ``predict_proba``.
    largest : float, optional
        Largest level of that design; by default capped so that enough of V̂ stays unused to score on.
    n_fits : int, default=2000
        Models to fit, over all levels.
    n_train : int, optional
        Size of a resample, by default that of T̂.
    replace : bool, default=True
        Draw with replacement, as in the paper's Algorithm 1, or without, as in its experiments.
    loss : str, callable or scorer, optional
        "zero_one", "squared_error", "absolute_error", "log_loss", "brier", a function of (y_true, y_pred), or a
        scikit-learn scorer.
    scoring : str, scorer or callable, optional
        One metric in the place of ``loss``, as in `audit`. The samples are losses: where a greater value of the metric
        is better, they are minus its values.
    params : dict, optional
        Parameters of ``fit``; those with one entry per record are indexed along with the records.
    units : {"auto", "clusters", "records", "both", "none"}
        The kinds of units whose effects on the losses are kept. "auto": the clusters where ``groups`` is given,
        else the records, and none where that would be too much.
    standard_error : float, optional
        Stop early, once the Monte-Carlo standard error of e_0 is below this; ``n_fits`` is then the most that
        is spent.
    kernel : {"auto", True, False}
        Use a compiled kernel where there is one for the estimator: always (True, which needs the extra ``fast``),
        never (False), or where it is installed and more than 4000 fits take longer than compiling it does ("auto").
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from.
    progress : bool, default=False
        Show a bar, on a terminal or in a notebook.
    checkpoint : path, optional
        File in which finished work is kept; the same call goes on from there.

    Returns
    -------
    LossSamples

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 3))
    >>> y = X[:, 0] + rng.standard_normal(300) > 0
    >>> samples = ooc.sample_losses(
    ...     LogisticRegression(), X, y, train=range(200), validation=range(200, 300), n_train=50, n_fits=60
    ... )
    >>> samples.n_fits, samples.size
    (60, 50)
    >>> bool((samples.means > 0.1).all())
    True
    """
    task = Task.check(estimator, X, y, groups=groups, loss=loss, scoring=scoring, params=params)
    if len(task.metrics) > 1:
        raise InputError(f"scoring must be one metric here, got {len(task.metrics)}; audit takes several.")
    check_choice("units", units, ("auto", "clusters", "records", "both", "none"))
    kinds: Any = {"both": ("clusters", "records"), "none": (), "auto": "auto"}.get(units, (units,))
    check_n_jobs(n_jobs)
    fold = Fold(0, _check_rows("train", train, task.n_records), _check_rows("validation", validation, task.n_records))
    shared = fold.validation[np.isin(fold.validation, fold.train)]
    if len(shared):
        raise InputError(f"validation must not share rows with train, got row {shared.min()} in both.")
    seed = seed_of(random_state)
    check_choice("error_model", error_model, ("records", "fragments"))
    check_split(task, fold)
    check_flag("replace", replace)
    check_kernel(kernel)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    prepared: Runnable
    if error_model == "fragments":
        refused = {"injected": injected, "largest": largest, "n_train": n_train, "checkpoint": checkpoint}
        prepared = _cut_halves(task, fold, n_fits, seed, units, {**refused, "standard_error": standard_error})
    else:
        drawn = DrawRecords.of(fold, n_train, replace=replace)
        resampler: Resampler = drawn
        if injected is not None and check_vector("injected", injected).min() < 0:
            resampler = WeighRecords(drawn, _weights(task, fold, discriminator, seed))
        run = Run("main", fold, resampler, n_fits, seed, injected, largest=largest)
        prepared = prepare(task, run, RunSettings(kinds, kernel, standard_error=standard_error), checkpoint=kept)
    with Progress(prepared.budget, show=bool(progress), workers=count_workers(n_jobs)) as bar:
        samples = prepared.start(bar.part(), n_jobs=n_jobs)[prepared.role][0]
    return samples if units != "none" else dataclasses.replace(samples, effects={})


def _cut_halves(
    task: Task, fold: Fold, n_fits: Any, seed: int | None, units: str, refused: Mapping[str, Any]
) -> HalvesRun:
    """Imitated pieces of the validation clusters, by assumed cuts."""
    if task.clusters is None:
        raise InputError(
            "groups must be given for error_model='fragments', which cuts the clusters of the validation rows."
        )
    for name, value in refused.items():
        if value is not None:
            raise InputError(f"{name} must be left out for error_model='fragments', got {short(value)}.")
    numbers = np.random.SeedSequence(seed)
    n_cuts = check_integer("n_fits", n_fits, least=2) // 2
    cuts = Cuts.draw(task.clusters, n_cuts, AssumedCuts(), np.random.default_rng(numbers.spawn(1)[0]))
    kinds = {"both": ("clusters", "records"), "none": ("clusters",), "auto": ("clusters",)}.get(units, (units,))
    own_seed = int(numbers.generate_state(1, np.uint64)[0])
    return HalvesRun(task, fold, cuts, np.ones(len(cuts.chance)), None, own_seed, kinds)


def _weights(task: Task, fold: Fold, discriminator: Any, seed: int | None) -> RatioWeights:
    """Weights for negative injected fractions."""
    automatic = isinstance(discriminator, str) and discriminator == "auto"
    if not automatic and not hasattr(discriminator, "predict_proba"):
        raise InputError(
            f"discriminator must be 'auto' or a classifier with predict_proba, got {short(discriminator)}."
        )
    classifier = None if automatic else discriminator
    return RatioWeights.of_sides(sides_of(task, fold, seed=np.random.SeedSequence(seed), classifier=classifier))


def _check_rows(name: str, rows: ArrayLike, n_records: int) -> NDArray[np.int64]:
    """Rows that exist, each of them once."""
    refuse_masked(name, rows)
    try:
        numbers = np.asarray(rows)
    except Exception:
        raise InputError(f"{name} must hold row numbers, got {short(rows)}.") from None
    if numbers.ndim != 1 or numbers.size == 0:
        raise InputError(f"{name} must hold at least one row number, got shape {numbers.shape}.")
    if numbers.dtype.kind not in "iu":
        raise InputError(f"{name} must hold row numbers, got values of type {numbers.dtype}.")
    if numbers.min() < 0 or numbers.max() >= n_records:
        wrong = numbers[(numbers < 0) | (numbers >= n_records)][0]
        raise InputError(f"{name} must hold row numbers from 0 to {n_records - 1}, got {wrong}.")
    repeated = len(numbers) - len(np.unique(numbers))
    if repeated:
        raise InputError(f"{name} must hold each row once, got {repeated} repetitions.")
    return numbers.astype(np.int64)
