"""Findings: what a user should know before trusting a number, each with a code, a severity and what to do about it.

A finding is never an error: the audit goes on. ``mute`` leaves out findings by their codes, once a user knows them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from outofcluster._base.text import printable

Severity = Literal["info", "warning", "severe"]


@dataclass(frozen=True)
class Finding:
    """Something to know before an answer is trusted.

    Attributes
    ----------
    code : str
        What kind of finding it is, such as "few-clusters".
    severity : {"info", "warning", "severe"}
        How much it affects the answer.
    message : str
        What was seen.
    remedy : str
        What can be done.
    """

    code: str
    severity: Severity
    message: str
    remedy: str

    def __str__(self) -> str:
        return printable(f"[{self.severity}] {self.code}: {self.message} {self.remedy}".rstrip())


def most_severe_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Findings by their severity; those of the same severity keep their order."""
    return tuple(sorted(findings, key=lambda finding: get_args(Severity).index(finding.severity), reverse=True))


def in_words(findings: Mapping[str, Iterable[Finding]], codes: Container[str] | None = None) -> list[str]:
    """One line for each warning or severe finding of several audits, with the names of the audits that have it."""
    named: dict[str, list[tuple[str, Finding]]] = {}
    for name, of_audit in findings.items():
        for finding in of_audit:
            if finding.severity != "info" and (codes is None or finding.code in codes):
                named.setdefault(finding.code, []).append((name, finding))
    return [f"{code} ({', '.join(dict(seen))}): {seen[0][1].message}" for code, seen in named.items()]
