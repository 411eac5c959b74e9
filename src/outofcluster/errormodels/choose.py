"""Which error model an audit has: the one that its user names, else the one that rates and clusters suggest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from outofcluster._base.arguments import check_choice
from outofcluster.errormodels.base import ErrorModel
from outofcluster.errormodels.pieces import Pieces
from outofcluster.errormodels.records import Records, is_per_record
from outofcluster.errormodels.two_way import TwoWay
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold, Rows, looks_linked
from outofcluster.sampling.audit_samples import AuditSamples

# The error models by the name that ``error_model=`` gives them.
MODELS: dict[str, ErrorModel] = {model.name: model for model in (Records(), Pieces())}


def choose_error_model(
    error_model: Any, leakage: Any, folds: Sequence[Fold], clusters: Rows, *, both_ways: bool = False
) -> tuple[ErrorModel, str]:
    """The error model, and why it was chosen where the user did not choose it."""
    check_choice("error_model", error_model, ("auto", *MODELS))
    name, reason = (error_model, "") if error_model != "auto" else _suggested(leakage, folds, clusters)
    model = MODELS[name]
    return (TwoWay() if both_ways and isinstance(model, Records) else model), reason


def _suggested(leakage: Any, folds: Sequence[Fold], clusters: Rows) -> tuple[str, str]:
    if is_per_record(leakage, len(clusters), len(folds)):
        return Records.name, "the rates are those of single records"
    first = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
    if isinstance(first, Leakage) and first.other is None:
        (name,) = (model.name for model in MODELS.values() if model.side == first.of)
        return name, f"the rate is a share of the {first.of} records"
    if looks_linked([clusters[fold.validation] for fold in folds]):
        return Pieces.name, "the validation clusters are many and small"
    return Records.name, "the validation clusters are few or large"


def error_model_of(samples: AuditSamples) -> ErrorModel:
    """The error model that samples were drawn for."""
    model = MODELS[samples.error_model]
    return TwoWay() if all(fold.train_losses is not None for fold in samples.folds) else model
