"""The error model that a command will use, known before anything is fitted, and what it refuses."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster.cli._options import Problem
from outofcluster.errormodels.choose import choose_error_model
from outofcluster.problem.folds import Clusters, make_folds


def chosen_error_model(problem: Problem, groups: Any, error_model: str, folds: int) -> tuple[str, str]:
    """The error model, and why it was chosen where the user did not choose it."""
    split = make_folds(problem.X, problem.records.target, groups, folds)
    model, reason = choose_error_model(error_model, None, split, Clusters.of(groups, None).codes)
    return model.name, reason


def check_data_rate(problem: Problem, clusterings: Iterable[Any], error_model: str, folds: int) -> None:
    """Refuse a rate from the data where pieces of clusters leak, and name the way out."""
    for groups in clusterings:
        try:
            chosen, reason = chosen_error_model(problem, groups, error_model, folds)
        except InputError:
            # Folds that cannot be made are refused by the audit itself.
            continue
        if chosen == "records":
            continue
        if error_model == "fragments":
            raise InputError(
                "--leakage must be a rate for --error-model fragments, got data, which works for --error-model records "
                "only."
            )
        raise InputError(
            f"--leakage must be a rate for --error-model fragments, which was chosen because {reason}, got data, which "
            "works for --error-model records only; give that if single records leak."
        )
