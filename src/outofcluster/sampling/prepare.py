"""Everything is checked here, before any model is fitted: from the arguments of ``sample_losses`` to a run."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array, check_choice, check_flag, check_integer, check_number, check_vector
from outofcluster.design.extrapolation import allocate, extrapolation_design, largest_level
from outofcluster.sampling.checkpoint import Batch, Checkpoint
from outofcluster.sampling.engine import run
from outofcluster.sampling.fitting import Compiled, Problem, Units, check_cloneable
from outofcluster.sampling.injection import Injection, Records, make_injection
from outofcluster.sampling.kernels import find_kernel
from outofcluster.sampling.losses import Loss, resolve_loss
from outofcluster.sampling.plan import Plan
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.samples import LossSamples
from outofcluster.split.folds import Clusters

__all__ = ["Sampling", "prepare"]

_COMPILE_FROM = 300
"""Fits from which a kernel is worth compiling. A rule on the job alone: bits must not depend on caches."""

_MAX_SUMS = 1_000_000
"""Levels times units up to which units='auto' keeps the jackknife's sums (176 MB)."""

_FRAGMENT_LEVELS = 4
"""Where whole clusters leak the curve is close to a line."""

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Sampling:
    """A run that has been checked and can start."""

    problem: Problem
    plan: Plan
    about: dict[str, Any]
    units: str
    seed: int
    checkpoint: Checkpoint | None
    stored: list[Batch]

    def run(self, *, n_jobs: int | None, progress: bool) -> LossSamples:
        """Fit the models."""
        with Progress(self.plan.budget, show=bool(progress)) as bar:
            return self.run_within(bar, n_jobs=n_jobs)

    def run_within(self, progress: Progress, *, n_jobs: int | None) -> LossSamples:
        """Fit the models as one of several runs that share a bar."""
        return run(
            self.problem,
            self.plan,
            about=self.about,
            units=self.units,
            seed=self.seed,
            versions=_versions(),
            checkpoint=self.checkpoint,
            stored=self.stored,
            n_jobs=n_jobs,
            progress=progress,
        )


def prepare(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    train: ArrayLike,
    validation: ArrayLike,
    errors: str = "records",
    groups: Any = None,
    injected: ArrayLike | None = None,
    shares: Array | None = None,
    largest: float | None = None,
    n_fits: int = 2000,
    n_train: int | None = None,
    replace: bool = True,
    loss: Any = None,
    params: dict[str, Any] | None = None,
    units: str = "auto",
    standard_error: float | None = None,
    kernel: bool = True,
    fits_in_all: int | None = None,
    random_state: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Sampling:
    """Check the arguments of `sample_losses`, and plan the run.

    ``shares`` are those of the fits for given levels; ``fits_in_all`` counts the fits of the same model in other runs
    as well, which decide whether a kernel is worth compiling.
    """
    n_records = _length("X", X)
    if _length("y", y) != n_records:
        raise InputError(f"y must have one target for each of the {n_records} records of X, got {_length('y', y)}.")
    T, V = _check_rows("train", train, n_records), _check_rows("validation", validation, n_records)
    if len(V) < 2:
        raise InputError(f"validation must hold at least 2 rows, got {len(V)}.")
    if len(shared := np.intersect1d(T, V)):
        raise InputError(f"validation must not share rows with train, got row {shared[0]} in both.")
    if groups is not None and _length("groups", groups) != n_records:
        raise InputError(
            f"groups must have one label for each of the {n_records} records of X, got {_length('groups', groups)}."
        )
    codes = None if groups is None else Clusters.of(groups, n_records).codes
    from sklearn.base import is_classifier

    check_cloneable("estimator", estimator)
    resolved = resolve_loss(loss, estimator, y)
    classifier = bool(is_classifier(estimator))
    if classifier and len(found := np.unique(np.asarray(y)[T])) < 2:
        raise InputError(f"y must hold at least two classes among the training rows, got only {found.tolist()[0]!r}.")
    check_flag("replace", replace)
    check_flag("kernel", kernel)
    injection = make_injection(errors, n_train=n_train, train=T, validation=V, groups=codes, replace=replace)
    budget = check_integer("n_fits", n_fits, least=1)
    plan = _plan(injected, shares, largest, budget, injection, len(V), standard_error)
    given = {} if params is None else dict(params)
    kept, train_units, validation_units = _units(units, codes, T, V, len(plan.injected), injection)

    seed = _seed(random_state)
    about = {
        "X": _digest(X),
        "y": _digest(y),
        "train": _digest(T),
        "validation": _digest(V),
        "groups": _digest(codes),
        "estimator": " ".join(repr(estimator).split()),
        "parameters": _digest(estimator),
        "loss": resolved.name,
        "params": _digest(given),
        **injection.describe(),
    }
    compiled = None
    if kernel and (fits_in_all or budget) >= _COMPILE_FROM and not given and isinstance(injection, Records):
        compiled = _compiled(estimator, resolved, X, y, T, V, classifier)
    file, stored = None, list[Batch]()
    if checkpoint is not None:
        file = Checkpoint(checkpoint)
        seed, stored = _open(file, about, plan, seed, random_state, kept, compiled is not None)
    key = np.random.SeedSequence(seed).generate_state(2, np.uint64).astype(np.uint64)
    problem = Problem(
        estimator, X, y, T, V, injection, resolved, classifier, given, key, train_units, validation_units, compiled
    )
    return Sampling(problem, plan, about, kept, seed, file, stored)


def _length(name: str, data: Any) -> int:
    if hasattr(data, "shape") and len(data.shape) > 0:
        return int(data.shape[0])
    try:
        return len(data)
    except TypeError:
        raise InputError(f"{name} must be an array or a data frame with one row a record, got {data!r}.") from None


def _check_rows(name: str, rows: ArrayLike, n_records: int) -> Rows:
    given = np.asarray(rows)
    if given.ndim != 1 or given.size == 0:
        raise InputError(f"{name} must hold at least one row number, got shape {given.shape}.")
    if given.dtype.kind not in "iu":
        raise InputError(f"{name} must hold row numbers, got values of type {given.dtype}.")
    if given.min() < 0 or given.max() >= n_records:
        wrong = given[(given < 0) | (given >= n_records)][0]
        raise InputError(f"{name} must hold row numbers from 0 to {n_records - 1}, got {wrong}.")
    if len(np.unique(given)) < len(given):
        raise InputError(f"{name} must hold each row once, got {len(given) - len(np.unique(given))} repetitions.")
    return given.astype(np.int64)


def _plan(
    injected: ArrayLike | None,
    shares: Array | None,
    largest: float | None,
    budget: int,
    injection: Injection,
    n_validation: int,
    standard_error: float | None,
) -> Plan:
    wanted = None if standard_error is None else check_number("standard_error", standard_error, least=0, strict=True)
    if injected is not None:
        if wanted is not None:
            raise InputError("standard_error must be None when injected is given: it needs the design's own levels.")
        levels = check_vector("injected", injected)
        if levels.min() < 0 or levels.max() > 1:
            wrong = levels[(levels < 0) | (levels > 1)][0]
            raise InputError(f"injected must hold fractions between 0 and 1, got {wrong:g}.")
        levels = np.sort(levels)
        if len(np.unique(levels)) < len(levels):
            raise InputError("injected must hold distinct fractions, got one more than once.")
    elif isinstance(injection, Records):
        if largest is None:
            largest = largest_level(injection.n_train, n_validation, injection.replace)
        levels = extrapolation_design(3, 1000, largest).injected
    else:
        levels = np.linspace(0, 1, _FRAGMENT_LEVELS)
    if budget < len(levels):
        raise InputError(f"n_fits must be at least {len(levels)}, one for each level, got {budget}.")
    if injected is None and isinstance(injection, Records) and budget >= 4 * len(levels):
        return Plan(levels, budget, standard_error=wanted)
    least = 2 if budget >= 2 * len(levels) else 1
    return Plan(levels, budget, fixed=allocate(np.ones(len(levels)) if shares is None else shares, budget, least=least))


def _units(
    units: str, groups: Any, train: Rows, validation: Rows, n_levels: int, injection: Injection
) -> tuple[str, tuple[Units, ...], tuple[Units, ...]]:
    """What the jackknife's sums are kept for, and the partitions of both pools into units."""
    check_choice("units", units, ("auto", "clusters", "records", "none"))
    if units == "clusters" and groups is None:
        raise InputError("groups must be given for units='clusters'.")
    kept = units
    if units == "auto":
        kept = "records" if groups is None else "clusters"
    if kept == "none":
        return kept, (), ()
    if kept == "records":
        pools = [Units(np.arange(len(rows)), np.ones(len(rows), dtype=np.int64)) for rows in (train, validation)]
    else:
        pools = []
        for rows in (train, validation):
            _, labels = np.unique(groups[rows], return_inverse=True)
            pools.append(Units(labels.astype(np.int64), np.bincount(labels)))
    if units == "auto" and n_levels * sum(pool.count for pool in pools) > _MAX_SUMS:
        return _units("none", groups, train, validation, n_levels, injection)
    return kept, (pools[0],), (pools[1],)


def _seed(random_state: int | None) -> int:
    if random_state is not None:
        return check_integer("random_state", random_state, least=0)
    entropy = np.random.SeedSequence().entropy
    assert isinstance(entropy, int)
    return entropy


def _digest(data: Any) -> str:
    """A digest of data or parameters; their printed form where they cannot be pickled (a lambda, say)."""
    import joblib

    try:
        return str(joblib.hash(data))
    except Exception:
        return repr(data)


def _compiled(
    estimator: Any, loss: Loss, X: Any, y: Any, train: Rows, validation: Rows, classifier: bool
) -> Compiled | None:
    """The kernel and its input, where the estimator, the loss and the data allow one."""
    found = find_kernel(estimator, loss.name, classifier=classifier)
    if found is None or loss.kind != "per_record":
        return None
    if hasattr(X, "dtypes") and hasattr(X, "to_numpy"):
        X = X.to_numpy()
    if not isinstance(X, np.ndarray) or X.ndim != 2 or X.dtype.kind not in "biuf":
        return None
    dense = np.ascontiguousarray(X, dtype=float)
    target = np.asarray(y)
    if target.ndim != 1 or not np.isfinite(dense).all():
        return None
    if classifier:
        used = np.unique(target[np.concatenate([train, validation])])
        if len(used) != 2:
            return None
        numbers = (target == used[1]).astype(float)
    else:
        numbers = np.ascontiguousarray(target, dtype=float)
    return Compiled(found, dense, numbers, found.start(dense, numbers, train))


def _open(
    file: Checkpoint,
    about: dict[str, Any],
    plan: Plan,
    seed: int,
    random_state: int | None,
    units: str,
    compiled: bool,
) -> tuple[int, list[Batch]]:
    """The seed and the finished batches of a checkpoint; without a seed in the call, the stored one goes on."""
    stored = file.stored_problem()
    if stored is not None and random_state is None and "random_state" in stored:
        seed = int(stored["random_state"])
    problem = about | {
        "injected": [float(a) for a in plan.injected],
        "n_fits": plan.budget,
        "standard_error": plan.standard_error,
        "random_state": str(seed),
        "units": units,
        "kernel": compiled,
        "versions": _versions(),
    }
    return seed, file.open(problem)


@cache
def _versions() -> dict[str, str]:
    names = ("outofcluster", "numpy", "scipy", "scikit-learn", "numba")
    return {"python": platform.python_version()} | {name: version(name) for name in names}
