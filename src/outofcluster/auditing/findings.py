"""Findings: what a user should know before trusting a number, each with a code, a severity and what to do about it.

A finding is never an error: the audit goes on. ``mute`` leaves out findings by their codes, once a user knows them.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from outofcluster._base.text import printable

Severity = Literal["info", "warning", "severe"]

CODES = {
    "error-model": "Which error model was taken, and why.",
    "fragments-likely": "Single records are taken to leak, but the clusters look like linked entities.",
    "no-rate": "No leakage rate was given, so there is no corrected loss.",
    "exact-rate": "The leakage rate was given without an uncertainty.",
    "rate-is-a-lower-bound": "The leakage rate is a lower bound, so that the correction may be too small.",
    "rate-counts-whole-entities": "The leakage rate counts whole entities of which single records are misplaced.",
    "assumed-cuts": "No audited entities show how the linkage cuts, and the answer depends on what is assumed.",
    "leaked-like-the-rest": "Leaked records are taken to be like the rest of their clusters.",
    "small-validation": "Too few validation records for the levels that extrapolation wants.",
    "single-class": "Resamples held a single class and were drawn again.",
    "far-extrapolation": "The leakage rate is so large that noise is multiplied.",
    "lack-of-fit": "The curve misses the losses by more than their noise.",
    "not-decreasing": "The loss rises with leakage, beyond noise: Theorem 3.1 does not apply.",
    "not-convex": "The curve is not convex, beyond noise: Theorem 3.2 does not apply.",
    "out-of-range": "The estimate lies outside what the loss can be.",
    "few-clusters": "Too few clusters for an interval on new clusters of the population.",
    "giant-cluster": "One cluster holds a very large share of the records.",
    "unbalanced-folds": "The folds hold out very different numbers of records.",
    "mostly-left-out": "The folds that could not be audited hold most of the records.",
    "data-variance": "Too few fits to tell the data's variance from 0.",
    "fold-left-out": "A fold could not be audited.",
    "no-test": "The hypothesis test could not be run.",
    "rate-above-bound": "The assumed leakage rate is above what the records themselves allow.",
    "per-record-rates": "The records do not look as the probabilities that were given for them say.",
    "sides-alike": "Held-out and training records can hardly be told apart.",
    "curve-and-unmixing": "The curve above the leakage rate and the losses below it disagree.",
    "singleton-clusters": "Most clusters have a single record.",
    "id-like-feature": "A feature looks like an id of records or of clusters.",
    "target-among-features": "A feature determines the target.",
    "perfect-score": "The cross-validated value is as good as it can be.",
    "numbers-as-classes": "Different whole numbers are taken as classes.",
}
"""Every code, with what it stands for."""


@dataclass(frozen=True)
class Finding:
    """Something to know before an answer is trusted.

    Attributes
    ----------
    code : str
        One of ``CODES``.
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


def not_muted(findings: Iterable[Finding], mute: Iterable[str]) -> tuple[Finding, ...]:
    """Findings that are not muted, the most severe first."""
    order = {"severe": 0, "warning": 1, "info": 2}
    muted = set(mute)
    return tuple(sorted((f for f in findings if f.code not in muted), key=lambda f: order[f.severity]))


def in_words(findings: Mapping[str, Iterable[Finding]], codes: Container[str] = CODES) -> list[str]:
    """One line for each warning or severe finding of several audits, with the names of the audits that have it."""
    named: dict[str, list[tuple[str, Finding]]] = {}
    for name, own in findings.items():
        for finding in own:
            if finding.severity != "info" and finding.code in codes:
                named.setdefault(finding.code, []).append((name, finding))
    return [f"{code} ({', '.join(dict(seen))}): {seen[0][1].message}" for code, seen in named.items()]
