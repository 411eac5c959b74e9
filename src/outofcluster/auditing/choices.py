"""What an audit is asked for: every option is checked before any model is fitted, and what was left open is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outofcluster._base.arguments import check_choice, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import check_same_order
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import ErrorModel
from outofcluster.problem.folds import Fold, Rows, count_clusters
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import AuditSamples
from outofcluster.sampling.run import UnitKind

_LEAST_CLUSTERS = 10


def check_order(task: Task, leakage: Any) -> None:
    """Refuse rates of records whose order is not that of the records."""
    # A frame has one row per fold, and the records in its columns.
    by_record = hasattr(leakage, "columns") and hasattr(leakage, "T")
    check_same_order(X=task.X, y=task.y, **({"leakage.T": leakage.T} if by_record else {"leakage": leakage}))


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


def read_classifier(unmix: Any) -> Any:
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
    by_clusters = enough_clusters(held_out, trained) if units == "auto" else units == "clusters"
    return "clusters" if by_clusters else "records"


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
