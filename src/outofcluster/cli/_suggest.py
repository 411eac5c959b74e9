"""Names that were probably meant: commands, models and metrics that are spelt otherwise, and rates in other units."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import Any

import click

from outofcluster._base.exceptions import InputError

_SYNONYMS = {
    "auc": "roc_auc",
    "rocauc": "roc_auc",
    "logloss": "log_loss",
    "cross_entropy": "log_loss",
    "mse": "squared_error",
    "mae": "absolute_error",
    "rmse": "neg_root_mean_squared_error",
    "error_rate": "zero_one",
    "brier_score": "neg_brier_score",
    "mcc": "matthews_corrcoef",
    "logreg": "logistic",
    "logistic_regression": "logistic",
    "rf": "forest",
    "random_forest": "forest",
    "randomforest": "forest",
    "gbm": "boosting",
    "xgboost": "boosting",
    "gradient_boosting": "boosting",
    "svm": "linear-svm",
    "linear_svm": "linear-svm",
    "linear_svc": "linear-svm",
    "check": "test",
    "correct": "audit",
    "run": "audit",
    "rate": "leakage",
}
"""What people call things that have another name here."""


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: the one that was probably meant, or a full stop."""
    known = list(names)
    meant = _SYNONYMS.get(name.lower().replace(" ", "_"))
    near = [meant] if meant in known else difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


class SuggestingGroup(click.Group):
    """A group of commands that names the one which was probably meant."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """The command, or an error with a suggestion."""
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            hint = nearest(name, self.list_commands(ctx))
            if hint == ".":
                hint = f" (there are: {', '.join(self.list_commands(ctx))})."
            raise click.UsageError(f"No such command {name!r}{hint}", ctx)
        return super().resolve_command(ctx, args)


def read_share(option: str, words: str, *, other: str = "") -> float:
    """A share between 0 and 1 from 0.12 or 12%."""
    bare = words.strip()
    try:
        share = float(bare.removesuffix("%")) / 100 if bare.endswith("%") else float(bare)
    except ValueError:
        hint = f" or {other}" if other else ""
        meant = _decimal_comma(bare)
        if other and difflib.get_close_matches(bare.lower(), [other], cutoff=0.7):
            meant = other
        question = f"; did you mean {meant}?" if meant else "."
        raise InputError(f"{option} must be a number{hint}, got {words!r}{question}") from None
    if 1 < share <= 100 and not bare.endswith("%"):
        raise InputError(
            f"{option} must be a share between 0 and 1, or a percentage such as 12%, got {bare}; "
            f"did you mean {share / 100:g}?"
        )
    if share > 1 and math.isfinite(share):
        raise InputError(f"{option} must be a share between 0 and 1, or a percentage such as 12%, got {words!r}.")
    return share


def _decimal_comma(words: str) -> str:
    try:
        return f"{float(words.replace(',', '.').removesuffix('%')):g}" + ("%" if words.endswith("%") else "")
    except ValueError:
        return ""
