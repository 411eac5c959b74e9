"""Audits of several models, or of several clusterings: their common options, and what their results share."""

from __future__ import annotations

import difflib
import json
import os
from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, Self, TypedDict, TypeVar

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster._base.text import Printed, element, fragment, printable, table
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.result import Audit
from outofcluster.auditing.summary_parts import aligned
from outofcluster.curves.base import Curve
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.store import CheckpointFiles

# What tells the audits apart: the name of a model, or a threshold.
Key = TypeVar("Key", bound=str | float)


@dataclass(frozen=True)
class SeveralAudits(Printed, Generic[Key]):
    """Several audits with the same options.

    Attributes
    ----------
    audits : dict of Audit
        The audits, by what tells them apart.
    left_out : dict of str
        What could not be audited, and why.
    """

    audits: dict[Key, Audit]
    left_out: dict[Key, str]

    _schema: ClassVar[int]
    # Codes of the findings that are told below the table; all by default.
    _codes_shown: ClassVar[Container[str] | None] = None

    @property
    def metric(self) -> MetricFacts:
        """What is measured."""
        return next(iter(self.audits.values())).metric

    @property
    def metrics(self) -> dict[str, Self]:
        """The same result by each metric, by its name, this one first."""
        by_metric = {key: result.metrics for key, result in self.audits.items()}
        names = next(iter(by_metric.values()))
        return {name: replace(self, audits={key: of[name] for key, of in by_metric.items()}) for name in names}

    @property
    def findings(self) -> dict[Key, tuple[Finding, ...]]:
        """The findings of each audit, the most severe first."""
        return {key: result.findings for key, result in self.audits.items()}

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        data: dict[str, Any] = plain({"schema": self._schema, **self._content})
        if len(self.metrics) > 1:
            data["metrics"] = {name: one.to_dict() for name, one in self.metrics.items() if name != self.metric.name}
        return data

    def to_json(self) -> str:
        """The numbers as JSON.

        Returns
        -------
        str
            The JSON text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        lines = [f"{self.metric.title}{self._by}, {self.metric.better} is better", *aligned(self._printed)]
        return printable("\n".join([*lines, *self.sentences]))

    def _repr_html_(self) -> str:
        label = self.metric.label
        names = {"as it is": f"{label} as it is", "corrected": f"corrected {label}"}
        header = [names.get(name, name) for name in self._header]
        return fragment(table(header, self.cells), *(element("p", line) for line in self.sentences))

    @property
    def sentences(self) -> list[str]:
        """The sentences below the table: the answers, what is found in the audits, and what was left out."""
        named = dict[str, dict[str, Finding]]()
        for key, findings in self.findings.items():
            for finding in findings:
                if finding.severity != "info" and (self._codes_shown is None or finding.code in self._codes_shown):
                    named.setdefault(finding.code, {}).setdefault(_shown(key), finding)
        warnings = [f"{code} ({', '.join(seen)}): {next(iter(seen.values())).message}" for code, seen in named.items()]
        left_out = [f"{_shown(key)} was left out: {reason}" for key, reason in self.left_out.items()]
        return [*self._answers, *warnings, *left_out]

    # --- what tells the two kinds of results apart ----------------------------------------------------

    # What the table is by, as the end of its title.
    _by: ClassVar[str] = ""
    # Names of the columns of the table.
    _header: ClassVar[Sequence[str]]

    @property
    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """The rows of the table in words."""

    @property
    def _printed(self) -> list[Sequence[str]]:
        """The rows of the table as text, with their header."""
        return [self._header, *self.cells]

    @property
    @abstractmethod
    def _answers(self) -> list[str]:
        """The first sentences below the table."""

    @property
    @abstractmethod
    def _content(self) -> Mapping[str, Any]:
        """What is written down."""


def _shown(key: str | float) -> str:
    return key if isinstance(key, str) else f"{key:g}"


# --- the options of every audit ---------------------------------------------------------------------------


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
    reviewed: Any
    reviewer_error: float
    identity: Any
    curve: Literal["auto"] | Curve
    precision: float
    n_fits: int | None
    time_limit: float | None
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
