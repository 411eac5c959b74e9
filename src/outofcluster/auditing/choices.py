"""What an audit is asked for: every option is checked before any model is fitted, and what was left open is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from outofcluster._base.arguments import check_choice, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import check_same_order
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import ErrorModel, Rates
from outofcluster.evidence.looked_up import LookUps, read_reviewed
from outofcluster.problem.folds import Fold, Rows, count_clusters
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import AuditSamples, has_pieces
from outofcluster.sampling.run import UnitKind

_LEAST_CLUSTERS = 10
# The share of the standard error at which rounds end by default: it adds 3 % to the standard error.
PRECISION = 0.25


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


def read_look_ups(model: ErrorModel, task: Task, rates: Rates, reviewed: Any, reviewer_error: Any) -> LookUps | None:
    """What somebody looked up: the answers of a review list, else the audited entities behind a rate."""
    if reviewed is None:
        if check_number("reviewer_error", reviewer_error, least=0):
            raise InputError(f"reviewer_error must be left out without reviewed, got {reviewer_error:g}.")
        return model.look_ups(task, rates)
    if not has_pieces(model.name):
        raise InputError(
            f"reviewed must be left out for error_model={model.name!r}, got a review list: it names pieces of "
            "entities, which error_model='fragments' is about."
        )
    if rates.by_fold is None and not rates.from_data:
        raise InputError("reviewed must be left out with leakage=None, which asks for no correction, got a list.")
    return read_reviewed(reviewed, task.cluster_names, reviewer_error=reviewer_error)


def read_confidence(confidence_level: Any) -> float:
    """A confidence level between 0 and 1."""
    level = check_number("confidence_level", confidence_level, least=0, strict=True)
    if level >= 1:
        raise InputError(f"confidence_level must lie between 0 and 1, got {level:g}; 95 % is 0.95.")
    return level


def read_precision(precision: Any, n_fits: int | None) -> float:
    """The share of the standard error at which rounds of fits end."""
    share = check_number("precision", precision, least=0, strict=True)
    if share > 1:
        raise InputError(f"precision must lie between 0 and 1, got {share:g}.")
    if n_fits is not None and share != PRECISION:
        raise InputError(f"precision must be left out where n_fits fixes the number of fits, got {share:g}.")
    return share


def read_time_limit(time_limit: Any) -> float | None:
    """Seconds after which no further round begins."""
    return None if time_limit is None else check_number("time_limit", time_limit, least=0, strict=True)


def read_curve(curve: Any, model: ErrorModel, loss_range: tuple[float, float]) -> Curve:
    """The curve method, by default that of the error model."""
    if isinstance(curve, Curve):
        line = model.default_curve()
        if has_pieces(model.name) and repr(curve) != repr(line):
            raise InputError(
                f"curve must be left out for error_model='fragments', got {short(curve)}: losses with and without a "
                "piece lie on a line."
            )
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
