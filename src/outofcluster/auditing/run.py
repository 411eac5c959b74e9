"""``audit``: the one call that composes the halves, from records and folds to the loss on new clusters.

Everything is checked first. Then every fold is scored as the user would, sampled, and pooled with the others;
what needs no further fit (another leakage rate, another threshold) is asked of the result. A fold that cannot
be audited is named in a finding and the others go on.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.validation import Array, check_integer
from outofcluster.auditing.checks import choose_errors, choose_units, look_at_losses, look_at_sizes
from outofcluster.auditing.effect_test import leakage_test
from outofcluster.auditing.findings import CODES, Finding
from outofcluster.auditing.result import Audit, Estimate, read_leakage
from outofcluster.curves import AutoCurve, Curve, PolynomialCurve
from outofcluster.design.automatic import least_size, placed_levels, placed_sizes
from outofcluster.design.extrapolation import largest_level
from outofcluster.inference.fold_run import FoldRun
from outofcluster.inference.pooling import Pooled
from outofcluster.sampling.baselines import fold_losses, random_folds
from outofcluster.sampling.fitting import check_cloneable
from outofcluster.sampling.losses import Loss, resolve_loss
from outofcluster.sampling.prepare import Sampling, prepare
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.samples import LossSamples
from outofcluster.split.folds import Clusters, Fold, make_folds

__all__ = ["audit"]

Codes = NDArray[np.int64]

_FITS = {"records": 3000, "fragments": 400}
_LEAST_FITS = 12
"""Two fits a level and fold, without which noise is not known: six levels for records, four and two for fragments."""
_FITS_FOR_SIZES = 100
"""Fits of a fold from which some are worth spending on smaller training sets."""


def audit(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    groups: Any,
    leakage: Any = None,
    errors: Literal["auto", "records", "fragments"] = "auto",
    cv: Any = None,
    loss: Any = None,
    method: Literal["auto"] | Curve = "auto",
    n_fits: int | None = None,
    n_train: int | None = None,
    units: Literal["auto", "clusters", "records"] = "auto",
    params: dict[str, Any] | None = None,
    mute: Sequence[str] = (),
    n_jobs: int | None = None,
    random_state: int | None = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Audit:
    """Audit a cross-validation for leakage through clustering errors.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    groups : array
        Approximate cluster of every record.
    leakage : float, Leakage, or one a fold, optional
        The leakage rate. A plain number is the share of training records that truly belong to validation
        clusters for ``errors="records"``, and the share of validation records whose cluster also trains for
        ``errors="fragments"``. Without it there is no corrected loss.
    errors : {"auto", "records", "fragments"}
        How clustering errors happen: single records leak, or pieces of clusters. "auto" goes by what the rate is
        a share of, else by the sizes of the clusters, and says so in a finding.
    cv : int, splitter or iterable, optional
        Folds that keep every approximate cluster on one side; 5 group folds by default.
    loss : str, callable or scorer, optional
        As in `sample_losses`.
    method : Curve, optional
        Curve method; by default `AutoCurve` for records, a line for fragments.
    n_fits : int, optional
        Models to fit, over all folds: by default 3000 for records, of which 1200 with small training sets, and 400 for
        fragments, where the curve is a line.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``.
    mute : sequence of str
        Codes of findings to leave out.
    n_jobs, random_state, progress, checkpoint
        As in `sample_losses`; every fold, and every size of training sets, has a checkpoint file of its own.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(30), 10)
    >>> X = rng.standard_normal((300, 3))
    >>> y = X[:, 0] + rng.standard_normal(300) > 0
    >>> result = ooc.audit(LogisticRegression(), X, y, groups=groups, leakage=0.1, random_state=0)
    >>> abs(result.corrected.value - result.naive.value) < 2 * result.corrected.se_data
    True
    """
    folds = make_folds(X, y, groups, cv)
    codes = Clusters.of(groups, None).codes
    resolved = resolve_loss(loss, estimator, y)
    check_cloneable("estimator", estimator)
    muted = _muted(mute)
    if n_jobs is not None and (not isinstance(n_jobs, int) or n_jobs == 0):
        raise InputError(f"n_jobs must be None or a whole number other than 0, got {n_jobs!r}.")
    model, noted = choose_errors(errors, leakage, folds, codes)
    rates = None if leakage is None else read_leakage(leakage, model, len(folds))
    curve = _method(method, model, resolved.range[1])
    kept_units, more = choose_units(units, folds, codes)
    noted += more
    budget = _budget(n_fits, model, len(folds))
    size, largest, levels, smaller = n_train, None, dict[str, Any](), list[tuple[int, float]]()
    if model == "records":
        size = min(len(fold.train) for fold in folds) if n_train is None else check_integer("n_train", n_train, least=2)
        largest = min(largest_level(size, len(fold.validation)) for fold in folds)
        levels["largest"] = largest
        if isinstance(curve, AutoCurve):
            levels["injected"], levels["shares"] = placed_levels(largest)
            if budget >= _FITS_FOR_SIZES:
                smaller = _smaller(size, estimator, y)
    noted += look_at_sizes(model, size, largest, rates)

    seed = None if random_state is None else check_integer("random_state", random_state, least=0)
    naive_seed, iid_seed, test_seed, *fold_seeds = np.random.SeedSequence(seed).spawn(3 + len(folds))
    jobs, failed = _prepare(
        (estimator, X, y),
        folds,
        fold_seeds,
        budget,
        smaller,
        checkpoint,
        {
            "errors": model,
            "groups": codes,
            "n_train": size,
            "loss": loss,
            "params": params,
            "units": kept_units,
            "fits_in_all": budget * len(folds),
        }
        | levels,
    )
    noted += failed

    given = {} if params is None else dict(params)
    own = fold_losses(estimator, X, y, folds, resolved, given, naive_seed, n_jobs)
    iid = _iid(estimator, X, y, max(2, len(folds)), resolved, given, iid_seed, n_jobs)
    test, more = _test(estimator, X, y, groups, folds, loss, test_seed, n_jobs)
    noted += more
    runs = []
    with Progress(sum(job.budget for job in jobs), show=bool(progress)) as bar:
        for job in jobs:
            try:
                runs.append(job.run(own[job.fold.index], bar, n_jobs))
            except FitError as error:
                noted.append(_left_out(job.fold, error))
    if not runs:
        first = next(finding.message for finding in noted if finding.code == "fold-left-out")
        raise FitError(f"No fold could be audited; the first: {first}", None)
    pooled = Pooled(
        _of_common_sizes(runs),
        codes if kept_units == "clusters" else np.arange(len(codes)),
        clusters=kept_units == "clusters",
        cut_sizes=_validation_sizes(runs, codes) if model == "fragments" else None,
    )
    if rates is not None:
        rates = tuple(rates[run.fold.index] for run in runs)
    noted += look_at_losses(pooled)
    return Audit(pooled, rates, model, kept_units, curve, iid, test, resolved.name, resolved.range, tuple(noted), muted)


def _muted(mute: Any) -> tuple[str, ...]:
    codes = (mute,) if isinstance(mute, str) else tuple(mute)
    unknown = [code for code in codes if code not in CODES]
    if unknown:
        raise InputError(f"mute must hold codes of findings ({', '.join(CODES)}), got {unknown[0]!r}.")
    return codes


def _method(method: Any, model: str, largest: float) -> Curve:
    if isinstance(method, Curve):
        return method
    if method != "auto":
        raise InputError(f"method must be 'auto' or a curve such as PolynomialCurve(2), got {method!r}.")
    return AutoCurve(largest) if model == "records" else PolynomialCurve(1)


def _budget(n_fits: int | None, model: str, n_folds: int) -> int:
    """Fits for each fold."""
    if n_fits is None:
        return max(_FITS[model] // n_folds, _LEAST_FITS)
    return check_integer("n_fits", n_fits, least=_LEAST_FITS * n_folds) // n_folds


@dataclass(frozen=True)
class _Job:
    """A fold that has been checked and can be sampled."""

    fold: Fold
    sampling: Sampling
    smaller: tuple[Sampling, ...]
    second: Sampling | None

    @property
    def budget(self) -> int:
        """Fits in all."""
        others = self.smaller if self.second is None else (*self.smaller, self.second)
        return self.sampling.plan.budget + sum(sampling.plan.budget for sampling in others)

    def run(self, own: Array, bar: Progress, n_jobs: int | None) -> FoldRun:
        samples = self.sampling.run_within(bar, n_jobs=n_jobs)
        smaller = list[LossSamples]()
        for sampling in self.smaller:
            # A learner may need more records than a small training set has (15 neighbours of 8): the others serve.
            with suppress(FitError):
                smaller.append(sampling.run_within(bar, n_jobs=n_jobs))
        second = None if self.second is None else self.second.run_within(bar, n_jobs=n_jobs)
        return FoldRun(self.fold, own, samples, tuple(smaller), second)


def _smaller(size: int, estimator: Any, y: Any) -> list[tuple[int, float]]:
    """Sizes below the full one, each with its share of the fits."""
    from sklearn.base import is_classifier

    sizes, shares = placed_sizes(size, least_size(y if is_classifier(estimator) else None))
    return list(zip(sizes[1:], shares[1:].tolist(), strict=True))


def _of_common_sizes(runs: Sequence[FoldRun]) -> tuple[FoldRun, ...]:
    """The folds with those sizes that none of them failed at."""
    common = set.intersection(*({samples.size for samples in run.smaller} for run in runs))
    return tuple(
        replace(run, smaller=tuple(samples for samples in run.smaller if samples.size in common)) for run in runs
    )


def _prepare(
    model: tuple[Any, Any, Any],
    folds: Sequence[Fold],
    seeds: Sequence[np.random.SeedSequence],
    budget: int,
    smaller: Sequence[tuple[int, float]],
    checkpoint: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> tuple[list[_Job], list[Finding]]:
    """Every fold's run, checked before anything is fitted; what no fold can do is refused."""
    jobs, failed, first = list[_Job](), list[Finding](), None
    for fold, seed in zip(folds, seeds, strict=True):
        try:
            jobs.append(_prepare_fold(model, fold, seed, budget, smaller, checkpoint, options))
        except InputError as error:
            first = first or error
            failed.append(_left_out(fold, error))
    if first is not None and not jobs:
        raise first
    return jobs, failed


def _prepare_fold(
    model: tuple[Any, Any, Any],
    fold: Fold,
    seed: np.random.SeedSequence,
    budget: int,
    smaller: Sequence[tuple[int, float]],
    checkpoint: str | os.PathLike[str] | None,
    options: dict[str, Any],
) -> _Job:
    own = options | {"train": fold.train, "validation": fold.validation}
    states = [int(state) for state in seed.generate_state(2 + len(smaller), np.uint64)]
    file = None if checkpoint is None else f"{os.fspath(checkpoint)}.fold{fold.index}"
    second = None
    if options["errors"] == "fragments" and _can_be_cut_twice(options["groups"][fold.validation]):
        # What a second piece gains counts rho0 times as much as what the first one does: a quarter of the fits.
        fits = max(budget // 4, 4)
        budget -= fits
        second = prepare(
            *model,
            **own
            | {"errors": "second-fragments", "injected": [0.0, 1.0], "n_fits": fits, "random_state": states[1]}
            | {"checkpoint": None if file is None else f"{file}.second"},
        )
    others = list[Sampling]()
    for (size, share), state in zip(smaller, states[2:], strict=True):
        fits = round(share * budget)
        kept = None if file is None else f"{file}.size{size}"
        others.append(
            prepare(*model, **own | {"n_train": size, "n_fits": fits, "random_state": state, "checkpoint": kept})
        )
    fits = budget - sum(round(share * budget) for _, share in smaller)
    first = prepare(*model, **own | {"n_fits": fits, "random_state": states[0], "checkpoint": file})
    return _Job(fold, first, tuple(others), second)


def _can_be_cut_twice(codes: Codes) -> bool:
    return int((np.bincount(codes) >= 3).sum()) >= 2


def _left_out(fold: Fold, error: Exception) -> Finding:
    return Finding("fold-left-out", "severe", f"Fold {fold.index} could not be audited: {error}", "")


def _validation_sizes(runs: Sequence[FoldRun], codes: Codes) -> Codes:
    sizes = [np.bincount(codes[run.fold.validation]) for run in runs]
    return np.concatenate([counts[counts > 0] for counts in sizes])


def _iid(
    estimator: Any,
    X: Any,
    y: Any,
    n_folds: int,
    loss: Loss,
    params: dict[str, Any],
    seed: np.random.SeedSequence,
    n_jobs: int | None,
) -> Estimate:
    """The loss over random folds, with records as units."""
    folds = random_folds(len(y), n_folds, seed)
    losses = np.concatenate(fold_losses(estimator, X, y, folds, loss, params, seed.spawn(1)[0], n_jobs))
    value, spread = float(losses.mean()), float(losses.std(ddof=1)) / math.sqrt(len(losses))
    low, high = loss.range
    return Estimate(value, (max(value - 1.96 * spread, low), min(value + 1.96 * spread, high)), 0.0, spread)


def _test(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    folds: Sequence[Fold],
    loss: Any,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
) -> tuple[Any, list[Finding]]:
    """The test for a cluster effect, or why there is none."""
    try:
        pairs = [(fold.train, fold.validation) for fold in folds]
        state = int(seed.generate_state(1)[0])
        found = leakage_test(estimator, X, y, groups=groups, cv=pairs, loss=loss, random_state=state, n_jobs=n_jobs)
    except (FitError, InputError) as error:
        return None, [Finding("no-test", "info", f"The test for a cluster effect could not be run: {error}", "")]
    return found, []
