"""``audit``: the one call that composes the halves, from records and folds to the loss on new clusters.

Everything is checked first. Then every fold is scored as the user would, sampled, and pooled with the others;
what needs no further fit (another leakage rate, another threshold) is asked of the result. A fold that cannot
be audited is named in a finding and the others go on.

Which error model? A rate given as a share of V̂'s records is one of fragments, as a share of T̂'s one of
records. A plain number leaves it to the clusters: with at least ten that could be cut, of twenty records or
fewer in the median, they look like linked entities (fragments), else like hospitals or countries (records).
"""

from __future__ import annotations

import os
from typing import Any, Literal

import numpy as np

from outofcluster.baselines import fold_losses, random_folds
from outofcluster.curves import Curve, PolynomialCurve
from outofcluster.design import largest_level
from outofcluster.errors import FitError, InputError
from outofcluster.findings import CODES, Finding
from outofcluster.leakage import Leakage
from outofcluster.leakage_test import leakage_test
from outofcluster.losses import resolve_loss
from outofcluster.pooling import FoldRun, Pooled
from outofcluster.results import Audit, Estimate, read_leakage
from outofcluster.sampling import sample_losses
from outofcluster.shape import diagnose_points
from outofcluster.split import Clusters, Fold, make_folds

__all__ = ["audit"]

_LEAST_CLUSTERS = 10
_SMALL_CLUSTER = 20
_LOW_LEVEL = 0.5


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
    n_fits: int = 2000,
    n_train: int | None = None,
    units: Literal["auto", "clusters", "records"] = "auto",
    params: dict[str, Any] | None = None,
    mute: tuple[str, ...] = (),
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
        How clustering errors happen.
    cv : int, splitter or iterable, optional
        Folds that keep every approximate cluster on one side; 5 group folds by default.
    loss : str, callable or scorer, optional
        As in `sample_losses`.
    method : Curve, optional
        Curve method; by default a polynomial of degree 2 for records, a line for fragments.
    n_fits : int, default=2000
        Models to fit, over all folds.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``.
    mute : tuple of str
        Codes of findings to leave out.
    n_jobs, random_state, progress, checkpoint
        As in `sample_losses`; every fold has a checkpoint file of its own.

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
    unknown = sorted(set(mute) - set(CODES))
    if unknown:
        raise InputError(f"mute must hold codes of findings, got {unknown[0]!r}.")
    codes = Clusters.of(groups, None).codes
    resolved = resolve_loss(loss, estimator, y)
    noted: list[Finding] = []
    model = _error_model(errors, leakage, folds, codes, noted)
    rates = None if leakage is None else read_leakage(leakage, model, len(folds))
    curve = _method(method, model)
    kept_units = _units(units, folds, codes, noted)
    size = min(len(fold.train) for fold in folds) if n_train is None and model == "records" else n_train
    largest = None
    if model == "records":
        assert size is not None
        largest = min(largest_level(size, len(fold.validation)) for fold in folds)
        if largest < _LOW_LEVEL:
            noted.append(
                Finding(
                    "small-validation",
                    "warning",
                    f"The validation folds are small against n_train = {size}: levels go up to {largest:.2g} only.",
                    "Use fewer folds or a smaller n_train.",
                )
            )
    if rates is None:
        noted.append(
            Finding("no-rate", "info", "Without a leakage rate there is no corrected loss.", "Look at sensitivity().")
        )

    naive_seed, iid_seed, test_seed, *fold_seeds = np.random.SeedSequence(random_state).spawn(3 + len(folds))
    given = {} if params is None else dict(params)
    records = fold_losses(estimator, X, y, folds, resolved, given, naive_seed, n_jobs)
    mixed = np.concatenate(
        fold_losses(
            estimator,
            X,
            y,
            random_folds(len(codes), max(2, len(folds)), iid_seed),
            resolved,
            given,
            iid_seed.spawn(1)[0],
            n_jobs,
        )
    )
    test = _test(estimator, X, y, groups, folds, loss, test_seed, n_jobs, noted)
    runs = []
    for fold, own, seed in zip(folds, records, fold_seeds, strict=True):
        given_to_both = {
            "train": fold.train,
            "validation": fold.validation,
            "groups": codes,
            "n_train": size,
            "loss": loss,
            "params": params,
            "units": kept_units,
            "n_jobs": n_jobs,
            "progress": progress,
        }
        seeds = [int(state) for state in seed.generate_state(2, np.uint64)]
        file = None if checkpoint is None else f"{os.fspath(checkpoint)}.fold{fold.index}"
        budget = max(n_fits // len(folds), 1)
        twice = model == "fragments" and _can_be_cut_twice(codes[fold.validation])
        second = None
        try:
            samples = sample_losses(
                estimator,
                X,
                y,
                errors=model,
                largest=largest,
                n_fits=budget - _second_fits(budget) if twice else budget,
                random_state=seeds[0],
                checkpoint=file,
                **given_to_both,
            )
            if twice:
                second = sample_losses(
                    estimator,
                    X,
                    y,
                    errors="second-fragments",
                    injected=[0.0, 1.0],
                    n_fits=_second_fits(budget),
                    random_state=seeds[1],
                    checkpoint=None if file is None else f"{file}.second",
                    **given_to_both,
                )
            runs.append(FoldRun(fold, own, samples, second))
        except (FitError, InputError) as error:
            noted.append(Finding("fold-left-out", "severe", f"Fold {fold.index} could not be audited: {error}", ""))
    if not runs:
        first = next(finding.message for finding in noted if finding.code == "fold-left-out")
        raise InputError(f"No fold could be audited; the first: {first}")
    pooled = Pooled(
        tuple(runs),
        codes if kept_units == "clusters" else np.arange(len(codes)),
        clusters=kept_units == "clusters",
        cut_sizes=_validation_sizes(runs, codes) if model == "fragments" else None,
    )
    if rates is not None and len(runs) < len(folds):
        rates = tuple(rates[run.fold.index] for run in runs)
    _shape_findings(pooled, noted)
    low, high = resolved.range
    value, spread = float(mixed.mean()), float(mixed.std(ddof=1) / np.sqrt(len(mixed)))
    iid = Estimate(value, (max(value - 1.96 * spread, low), min(value + 1.96 * spread, high)), 0.0, spread)
    return Audit(
        pooled, rates, model, kept_units, curve, iid, test, resolved.name, resolved.range, tuple(noted), tuple(mute)
    )


def _error_model(errors: str, leakage: Any, folds: tuple[Fold, ...], codes: Any, noted: list[Finding]) -> Any:
    if errors in ("records", "fragments"):
        return errors
    if errors != "auto":
        raise InputError(f"errors must be 'auto' or 'records' or 'fragments', got {errors!r}.")
    if isinstance(leakage, Leakage):
        model = "records" if leakage.of == "train" else "fragments"
        why = f"the rate is a share of the {leakage.of} records"
    else:
        sizes = [np.bincount(codes[fold.validation]) for fold in folds]
        sizes = [counts[counts > 1] for counts in sizes]
        small = min(len(counts) for counts in sizes) >= _LEAST_CLUSTERS
        small = small and float(np.median(np.concatenate(sizes))) <= _SMALL_CLUSTER
        model = "fragments" if small else "records"
        why = "the validation clusters are many and small" if small else "the validation clusters are few or large"
    noted.append(
        Finding(
            "error-model", "info", f"Errors are taken to be those of {model}: {why}.", "Say errors= if you know better."
        )
    )
    return model


def _can_be_cut_twice(codes: Any) -> bool:
    return int((np.bincount(codes) >= 3).sum()) >= 2


def _second_fits(budget: int) -> int:
    """A quarter of the fits: what a second piece gains counts rho0 times as much as what the first one does."""
    return max(budget // 4, 2)


def _validation_sizes(runs: list[FoldRun], codes: Any) -> Any:
    sizes = [np.bincount(codes[run.fold.validation]) for run in runs]
    return np.concatenate([counts[counts > 0] for counts in sizes])


def _method(method: Any, model: str) -> Curve:
    if isinstance(method, Curve):
        return method
    if method != "auto":
        raise InputError(f"method must be 'auto' or a curve such as PolynomialCurve(2), got {method!r}.")
    return PolynomialCurve(2 if model == "records" else 1)


def _units(units: str, folds: tuple[Fold, ...], codes: Any, noted: list[Finding]) -> Any:
    """Clusters where there are enough of them, else records; the finding says what that leaves out."""
    if units in ("clusters", "records"):
        return units
    if units != "auto":
        raise InputError(f"units must be 'auto' or 'clusters' or 'records', got {units!r}.")
    held_out = min(len(np.unique(codes[fold.validation])) for fold in folds)
    trained = min(len(np.unique(codes[fold.train])) for fold in folds)
    used = len(np.unique(np.concatenate([codes[fold.validation] for fold in folds])))
    if held_out >= 2 and trained >= 2 and used >= _LEAST_CLUSTERS:
        return "clusters"
    noted.append(
        Finding(
            "few-clusters",
            "warning",
            f"There are {used} held-out clusters ({held_out} in a fold): the interval is for these clusters only, "
            "and does not cover how clusters of the population differ.",
            "More clusters are needed for that.",
        )
    )
    return "records"


def _test(
    estimator: Any,
    X: Any,
    y: Any,
    groups: Any,
    folds: tuple[Fold, ...],
    loss: Any,
    seed: np.random.SeedSequence,
    n_jobs: int | None,
    noted: list[Finding],
) -> Any:
    try:
        pairs = [(fold.train, fold.validation) for fold in folds]
        state = int(seed.generate_state(1)[0])
        return leakage_test(estimator, X, y, groups=groups, cv=pairs, loss=loss, random_state=state, n_jobs=n_jobs)
    except (FitError, InputError) as error:
        noted.append(Finding("no-test", "info", f"The test for a cluster effect could not be run: {error}", ""))
        return None


def _shape_findings(pooled: Pooled, noted: list[Finding]) -> None:
    redraws = sum(int(run.samples.redraws.sum()) for run in pooled.runs)
    fits = sum(run.samples.n_fits for run in pooled.runs)
    if redraws > 0.01 * fits:
        noted.append(
            Finding(
                "single-class",
                "warning",
                f"{redraws} resamples held a single class or left nothing to score and were drawn again ({fits} fits).",
                "Raise n_train; the losses are those of resamples with every class.",
            )
        )
    errors = np.sqrt(pooled.monte_carlo)
    if len(pooled.injected) < 3 or not np.isfinite(errors).all() or errors.min() <= 0:
        return
    diagnosis = diagnose_points(pooled.injected, pooled.means, errors, alpha=0.01)
    for check, code in ((diagnosis.decreasing, "not-decreasing"), (diagnosis.convex, "not-convex")):
        if check.exceeds_noise:
            noted.append(
                Finding(
                    code,
                    "warning" if code == "not-decreasing" else "info",
                    str(check),
                    "The learner is not optimal in its class, so that more leakage need not lower the loss."
                    if code == "not-decreasing"
                    else "Methods that assume convexity do not fit here.",
                )
            )
