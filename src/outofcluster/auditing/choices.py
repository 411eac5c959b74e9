"""What an audit is asked for: every option is checked before any model is fitted, and what was left open is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outofcluster._base.arguments import check_choice, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import check_same_order
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import Choices, ErrorModel
from outofcluster.errormodels.choose import choose_error_model
from outofcluster.errormodels.two_way import check_both, read_validation_leakage
from outofcluster.problem.folds import Fold, Rows, count_clusters
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import AuditSamples
from outofcluster.sampling.run import UnitKind, check_kernel

_LEAST_CLUSTERS = 10


def read_choices(
    task: Task,
    folds: Sequence[Fold],
    *,
    leakage: Any,
    validation_leakage: Any,
    error_model: Any,
    curve: Any,
    units: Any,
    n_fits: Any,
    n_train: Any,
    unmix: Any,
    confidence_level: Any,
    mute: tuple[str, ...],
    kernel: Any,
) -> Choices:
    """The options of an audit, checked against its problem."""
    assert task.clusters is not None
    # A frame has one row per fold, and the records in its columns.
    by_record = hasattr(leakage, "columns") and hasattr(leakage, "T")
    check_same_order(X=task.X, y=task.y, **({"leakage.T": leakage.T} if by_record else {"leakage": leakage}))
    level = read_confidence(confidence_level)
    both_ways = validation_leakage is not None
    model, reason = choose_error_model(error_model, leakage, folds, task.clusters, both_ways=both_ways)
    rates = read_rates(leakage, model, folds, task.n_records)
    reverse = 0.0
    if both_ways:
        reverse = read_validation_leakage(validation_leakage, model, task)
        check_both(reverse, rates.by_fold)
    trained = [count_clusters(task.clusters[fold.train]) for fold in folds]
    classifier = _read_unmix(unmix)
    check_kernel(kernel)
    return Choices(
        model=model,
        reason=reason,
        rates=rates,
        reverse=reverse,
        curves=tuple(read_curve(curve, model, metric.range) for metric in task.losses),
        units=choose_units(units, [task.clusters[fold.validation] for fold in folds], trained),
        units_asked=units,
        confidence_level=level,
        mute=mute,
        n_fits=n_fits,
        n_train=n_train,
        unmix=unmix is not False,
        classifier=classifier,
        kernel=kernel,
    )


def read_rates(leakage: Any, model: ErrorModel, folds: Sequence[Fold], n_records: int) -> Any:
    """What is said about leakage, as the error model reads it."""
    if isinstance(leakage, str) and leakage != "data":
        raise InputError(
            f"leakage must be a rate, a Leakage, one of them for each fold, or 'data', got {short(leakage)}."
        )
    return model.read_rates(leakage, folds, n_records)


def read_confidence(confidence_level: Any) -> float:
    """A confidence level between 0 and 1."""
    level = check_number("confidence_level", confidence_level, least=0, strict=True)
    if level >= 1:
        raise InputError(f"confidence_level must lie between 0 and 1, got {level:g}; 95 % is 0.95.")
    return level


def read_curve(curve: Any, model: ErrorModel, loss_range: tuple[float, float]) -> Curve:
    """The curve method, by default that of the error model."""
    if isinstance(curve, Curve):
        return curve.within(loss_range)
    if not (isinstance(curve, str) and curve == "auto"):
        raise InputError(f"curve must be 'auto' or a curve such as PolynomialCurve(2), got {short(curve)}.")
    return model.default_curve().within(loss_range)


def _read_unmix(unmix: Any) -> Any:
    """The classifier that tells the sides of a split apart, None for the package's own."""
    if unmix is False or (isinstance(unmix, str) and unmix == "auto") or unmix is True:
        return None
    if isinstance(unmix, str | bytes | type) or not hasattr(unmix, "fit"):
        raise InputError(f"unmix must be 'auto', False or a classifier, got {short(unmix)}.")
    if not hasattr(unmix, "predict_proba"):
        raise InputError(f"unmix must be a classifier with predict_proba, got {type(unmix).__name__} without.")
    return unmix


# --- units ------------------------------------------------------------------------------------------------


def enough_clusters(held_out: Sequence[Rows], trained: Sequence[int]) -> bool:
    """Whether there are enough clusters on both sides for an interval about new clusters of the population."""
    fewest = min(count_clusters(clusters) for clusters in held_out)
    return fewest >= 2 and min(trained) >= 2 and count_clusters(np.concatenate(held_out)) >= _LEAST_CLUSTERS


def choose_units(units: Any, held_out: Sequence[Rows], trained: Sequence[int]) -> UnitKind:
    """What the user chose, otherwise clusters where there are enough of them, else records."""
    check_choice("units", units, ("auto", "clusters", "records"))
    if units == "clusters" and len(np.unique(np.concatenate(held_out))) < 2:
        raise InputError("units must be 'auto' or 'records' where a single cluster is held out, got 'clusters'.")
    if units == "auto":
        return "clusters" if enough_clusters(held_out, trained) else "records"
    return "clusters" if units == "clusters" else "records"


def choose_stored_units(units: Any, samples: AuditSamples) -> UnitKind:
    """The units for samples that exist already; a kind without sums is refused."""
    chosen = choose_units(
        units, [fold.clusters for fold in samples.folds], [fold.n_train_clusters for fold in samples.folds]
    )
    if chosen not in samples.units:
        raise InputError(
            f"units must be {samples.units[0]!r} for these samples, got {units!r}: with so many records the sums for "
            f"{chosen} were not kept; audit again with units={chosen!r}."
        )
    return chosen
