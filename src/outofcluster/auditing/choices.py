"""What an audit chooses where its user did not (the error model, the units, the curve), and how rates are read.

Choices that need no fit can be changed afterwards, on the result.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from outofcluster._base.arguments import Array, check_choice, check_number, short
from outofcluster._base.exceptions import InputError
from outofcluster.curves import AutoCurve, Curve, PolynomialCurve
from outofcluster.evidence.laws import PieceLaw
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.base import Metric
from outofcluster.problem.folds import Fold, Rows, count_clusters, looks_linked
from outofcluster.sampling.audit_samples import AuditSamples

ErrorModel = Literal["records", "fragments"]
UnitKind = Literal["clusters", "records"]

LARGEST_RATE = 0.5
"""Leakage rate up to which tipping points are looked for, and beyond which nothing can be told about single records."""
_LARGEST_RATES = {"records": LARGEST_RATE, "fragments": 0.9}
TOLD_APART = 0.75
"""AUC from which the leakage rate that the records show was found to be near the truth."""
_LEAST_CLUSTERS = 10
_LARGEST_SUM = 0.75
"""Rates of both ways together beyond which the two sides are nearly the same mixture."""


def choose_error_model(error_model: Any, leakage: Any, folds: Sequence[Fold], clusters: Rows) -> tuple[ErrorModel, str]:
    """The error model, and why it was chosen where the user did not choose it.

    The choice depends on what the rate is a share of, otherwise on the sizes of the clusters.
    """
    check_choice("error_model", error_model, ("auto", "records", "fragments"))
    if error_model != "auto":
        return error_model, ""
    if is_per_record(leakage, len(clusters), len(folds)):
        return "records", "the rates are those of single records"
    first = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
    if isinstance(first, Leakage) and first.other is None:
        by_rate: ErrorModel = "records" if first.of == "train" else "fragments"
        return by_rate, f"the rate is a share of the {first.of} records"
    if looks_linked([clusters[fold.validation] for fold in folds]):
        return "fragments", "the validation clusters are many and small"
    return "records", "the validation clusters are few or large"


def enough_clusters(held_out: Sequence[Rows], trained: Sequence[int]) -> bool:
    """Whether there are enough clusters on both sides for an interval about new clusters of the population."""
    fewest = min(count_clusters(clusters) for clusters in held_out)
    return fewest >= 2 and min(trained) >= 2 and count_clusters(np.concatenate(held_out)) >= _LEAST_CLUSTERS


def choose_units(units: Any, held_out: Sequence[Rows], trained: Sequence[int]) -> UnitKind:
    """What the user chose, otherwise clusters where there are enough of them, else records."""
    check_choice("units", units, ("auto", "clusters", "records"))
    if units == "records":
        return "records"
    if units == "clusters":
        if len(np.unique(np.concatenate(held_out))) < 2:
            raise InputError("units must be 'auto' or 'records' where a single cluster is held out, got 'clusters'.")
        return "clusters"
    return "clusters" if enough_clusters(held_out, trained) else "records"


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


def read_curve(curve: Any, error_model: ErrorModel, loss_range: tuple[float, float]) -> Curve:
    """The curve method, by default the automatic one for records and a line for fragments."""
    if isinstance(curve, Curve):
        return curve.within(loss_range)
    if not (isinstance(curve, str) and curve == "auto"):
        raise InputError(f"curve must be 'auto' or a curve such as PolynomialCurve(2), got {short(curve)}.")
    return (AutoCurve() if error_model == "records" else PolynomialCurve(1)).within(loss_range)


def asks_the_data(leakage: Any, error_model: ErrorModel) -> bool:
    """Whether the leakage rate is to be estimated from the data, which is possible for single records."""
    if not isinstance(leakage, str):
        return False
    if leakage != "data":
        raise InputError(
            f"leakage must be a rate, a Leakage, one of them for each fold, or 'data', got {short(leakage)}."
        )
    if error_model != "records":
        raise InputError(
            "leakage must be a rate for error_model='fragments', got 'data', which works for records only."
        )
    return True


def read_unmix(unmix: Any) -> Any:
    """The classifier that tells the sides of a split apart, None for the package's own."""
    if unmix is False or (isinstance(unmix, str) and unmix == "auto") or unmix is True:
        return None
    if isinstance(unmix, str | bytes | type) or not hasattr(unmix, "fit"):
        raise InputError(f"unmix must be 'auto', False or a classifier, got {short(unmix)}.")
    if not hasattr(unmix, "predict_proba"):
        raise InputError(f"unmix must be a classifier with predict_proba, got {type(unmix).__name__} without.")
    return unmix


def largest_rate(error_model: str) -> float:
    """Leakage rate beyond which nothing can be told.

    Where pieces leak, the rate is a share of the held-out records, which is above a half as soon as most entities are
    cut. The curve is a line there, and the rise from a level of 0.9 to none is 9 times the fall from there to 1.
    """
    return _LARGEST_RATES[error_model]


def read_leakage(leakage: Any, error_model: str, n_folds: int) -> tuple[Leakage, ...]:
    """One checked `Leakage` per fold, from a number, a `Leakage`, or one of these for each fold."""
    several = isinstance(leakage, Sequence) and not isinstance(leakage, str | bytes)
    # An array of no dimension is a number.
    several |= isinstance(leakage, np.ndarray) and leakage.ndim > 0
    values = list(leakage) if several else [leakage]
    if len(values) not in (1, n_folds):
        raise InputError(f"leakage must be one rate, or one for each of the {n_folds} folds, got {len(values)}.")
    side: Literal["train", "validation"] = "train" if error_model == "records" else "validation"
    rates = []
    for value in values:
        rate = value if isinstance(value, Leakage) else Leakage(check_number("leakage", value, least=0), of=side)
        rate = getattr(rate, side) or rate  # The side that the error model asks for, where it is known.
        if rate.rate > (most := largest_rate(error_model)):
            audited, instead = rate.linkage_errors, ""
            if error_model == "records" and audited is not None and not math.isnan(audited.misplaced):
                instead = f"; for single records give linkage_errors.misplaced, {audited.misplaced:.3g}"
            raise InputError(
                f"leakage must be at most {most}, beyond which nothing can be told, got {rate.rate:g}{instead}."
            )
        if rate.of != side:
            raise InputError(
                f"leakage must be a share of the {side} records for error_model={error_model!r}, "
                f"got one of {rate.of} records."
            )
        # What audited records say is kept where a finding needs it: that of misplaced records is about single ones.
        rates.append(rate if error_model == "records" else replace(rate, linkage_errors=None))
    return tuple(rates * n_folds) if len(rates) == 1 else tuple(rates)


def is_per_record(leakage: Any, n_records: int, n_folds: int) -> bool:
    """Whether the rates are probabilities of single records: one per record, or one row per fold and one per record.

    With as many folds as records, a list of that length has one rate per fold, as it always had.
    """
    if isinstance(leakage, str | Leakage):
        return False
    try:
        dimensions = np.ndim(leakage)
    except Exception:  # Lists of uneven length, and objects that refuse to become arrays.
        raise InputError(
            f"leakage must be one rate, one for each of the {n_folds} folds, or a probability for each of the "
            f"{n_records} records, got {short(leakage)}."
        ) from None
    if dimensions == 0:
        return False
    if dimensions == 2:
        return True
    several = list(leakage)
    return len(several) not in (0, 1, n_folds) and (len(several) == n_records or not isinstance(several[0], Leakage))


def read_record_rates(leakage: Any, error_model: str, folds: Sequence[Fold], n_records: int) -> dict[int, Array] | None:
    """For every fold the probability of each training record that it leaked; None where there are no such rates."""
    if not is_per_record(leakage, n_records, len(folds)):
        return None
    try:
        rates = np.asarray(leakage, dtype=float)
    except Exception:
        raise InputError(f"leakage must hold numbers, one for each record, got {short(leakage)}.") from None
    if rates.shape not in ((n_records,), (len(folds), n_records)):
        shape = " by ".join(map(str, rates.shape))
        raise InputError(
            f"leakage must be one rate, one for each of the {len(folds)} folds, or a probability for each of the "
            f"{n_records} records, got {shape} numbers."
        )
    if error_model != "records":
        raise InputError(
            "leakage must be a rate for error_model='fragments', got probabilities of single records, which are for "
            "error_model='records'."
        )
    if not np.isfinite(rates).all() or rates.min() < 0 or rates.max() > 1:
        wrong = rates[~((rates >= 0) & (rates <= 1))].ravel()[0]
        raise InputError(f"leakage must hold probabilities between 0 and 1 for the records, got {wrong:g}.")
    return {
        int(fold.index): (rates if rates.ndim == 1 else rates[place])[fold.train] for place, fold in enumerate(folds)
    }


def read_validation_leakage(
    validation_leakage: Any, error_model: str, losses: Sequence[Metric], rates: Sequence[Leakage] | None
) -> float | None:
    """r0: the share of the held-out records that truly belong to training clusters; None where it was not asked for."""
    if validation_leakage is None:
        return None
    if isinstance(validation_leakage, Leakage):
        raise InputError(
            "validation_leakage must be a number, the share of the held-out records that truly belong to training "
            "clusters, got a Leakage, whose share of validation records is that of records whose cluster also trains."
        )
    if error_model != "records":
        raise InputError(
            f"validation_leakage must be None for error_model={error_model!r}, got {short(validation_leakage)}: it is "
            "for single records."
        )
    if not all(metric.is_mean for metric in losses):
        raise InputError(
            "validation_leakage must be None for a metric that is no mean over records, got "
            f"{short(validation_leakage)}; use a loss per record."
        )
    share = check_number("validation_leakage", validation_leakage, least=0)
    check_both(share, rates)
    return share


def check_both(validation_leakage: float, rates: Sequence[Leakage] | None) -> None:
    """Refuse rates of both ways that leave too little to tell the sides apart."""
    if validation_leakage == 0:
        return
    if validation_leakage > LARGEST_RATE:
        raise InputError(
            f"validation_leakage must be at most {LARGEST_RATE}, beyond which nothing can be told, "
            f"got {validation_leakage:g}."
        )
    most = max((rate.rate for rate in rates or ()), default=0.0)
    if most + validation_leakage > _LARGEST_SUM:
        raise InputError(
            f"leakage and validation_leakage must be at most {_LARGEST_SUM} together, got {most:g} and "
            f"{validation_leakage:g}."
        )


def law_of_pieces(leakage: Any) -> PieceLaw | None:
    """The law of the pieces of cut entities, where the rate comes from a linkage in which they were counted."""
    first = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
    return first.pieces if isinstance(first, Leakage) else None


def read_confidence(confidence_level: Any) -> float:
    """A confidence level between 0 and 1."""
    level = check_number("confidence_level", confidence_level, least=0, strict=True)
    if level >= 1:
        raise InputError(f"confidence_level must lie between 0 and 1, got {level:g}; 95 % is 0.95.")
    return level
