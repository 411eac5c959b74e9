"""The options of an audit, as `compare` and `sweep` take them and hand them on to every audit."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypedDict

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.curves.base import Curve
from outofcluster.sampling.store import CheckpointFiles


class AuditOptions(TypedDict, total=False):
    """The keyword arguments of `audit` but for ``groups``; `audit` says what they mean."""

    leakage: Any
    validation_leakage: float | None
    error_model: Literal["auto", "records", "fragments"]
    cv: Any
    loss: Any
    scoring: Any
    pool: Literal["records", "folds"] | None
    pos_label: Any
    score_weight: Any
    curve: Literal["auto"] | Curve
    n_fits: int | None
    n_train: int | None
    units: Literal["auto", "clusters", "records"]
    params: dict[str, Any] | None
    unmix: Any
    confidence_level: float
    mute: Sequence[str]
    kernel: bool | Literal["auto"]
    n_jobs: int | None
    random_state: RandomState
    progress: bool
    checkpoint: str | os.PathLike[str] | None


def check_options(function: str, options: Iterable[str]) -> None:
    """Refuse an option that audits do not have, as Python would refuse an argument."""
    for name in options:
        if name not in AuditOptions.__annotations__:
            near = difflib.get_close_matches(name, AuditOptions.__annotations__, n=1)
            hint = f"did you mean {near[0]!r}?" if near else "its options are those of audit()."
            raise InputError(f"{function}() got an unexpected option {name!r}; {hint}")


def checkpoint_of_part(options: AuditOptions, suffix: str) -> str | None:
    """Where one of several audits keeps finished work; None without a checkpoint."""
    path = options.get("checkpoint")
    return None if path is None else f"{CheckpointFiles(path).path}{suffix}"


def common_seed(random_state: RandomState) -> int:
    """One seed for several audits, a fresh one where none is given."""
    seed = seed_of(random_state)
    return int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else seed
