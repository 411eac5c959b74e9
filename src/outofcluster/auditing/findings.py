"""Findings: what a user should know before trusting a number, each with a code, a severity and what to do about it.

A finding is never an error: the audit goes on. ``mute`` leaves out findings by their codes, once a user knows them.

A check is a function that looks at an audit and yields a remark for everything to know about it. The decorator `check`
gives the function the code of its findings, and names the audits that it can look at. What the code stands for is the
docstring of the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np

from outofcluster._base.text import Printed, percentage, printable
from outofcluster.auditing.solution import Solution
from outofcluster.auditing.summary_parts import mean_rate
from outofcluster.curves.base import Curve
from outofcluster.inference.estimates import Estimate
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.account import TableAccount
from outofcluster.sampling.audit_samples import AuditSamples, has_pieces

Severity = Literal["info", "warning", "severe"]


@dataclass(frozen=True)
class Finding(Printed):
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


# --- checks -----------------------------------------------------------------------------------------------


class Remark(NamedTuple):
    """What a check has seen: how much it affects the answer, a sentence about it, and what can be done."""

    severity: Severity
    message: str
    remedy: str = ""


info, warning, severe = partial(Remark, "info"), partial(Remark, "warning"), partial(Remark, "severe")


@dataclass(frozen=True)
class Context:
    """What the checks of an audit look at.

    Attributes
    ----------
    solution : Solution
        The samples, and what they say for the choices of the audit, as losses.
    leakage : tuple of Leakage
        The rate assumed in each fold, or the one that the records show; empty without a correction.
    data_leakage : Leakage or None
        What the records themselves say about the leakage rate.
    table : TableAccount
        What the table holds.
    error_model_reason, units_asked : str
        Why the error model was chosen, empty where the user chose it; the units that the user asked for.
    from_data : bool
        Whether the correction goes by what the records themselves show, and not by a rate that was given.
    """

    solution: Solution
    leakage: tuple[Leakage, ...]
    data_leakage: Leakage | None
    table: TableAccount
    error_model_reason: str
    units_asked: str
    from_data: bool = False

    @property
    def samples(self) -> AuditSamples:
        """The losses of all fits."""
        return self.solution.pooled.samples

    @property
    def metric(self) -> MetricFacts:
        """What is measured."""
        return self.samples.metric

    @property
    def corrected(self) -> Estimate:
        """The corrected value in the metric's own sign, for checks that need a rate."""
        assert self.solution.corrected is not None
        return self.solution.corrected.shown_as(self.metric)

    @property
    def without_rate(self) -> bool:
        """Whether pieces were left out of training in the place of a correction for a rate."""
        return self.from_data and has_pieces(self.samples.error_model)

    @property
    def curve(self) -> Curve:
        """The fitted curve, for checks that need a rate."""
        assert self.solution.curve is not None
        return self.solution.curve

    @property
    def largest_rate(self) -> float:
        """The largest of the assumed rates, for checks that need a rate."""
        return max(leak.rate for leak in self.leakage)

    @property
    def fold_of_largest_rate(self) -> str:
        """Where the largest rate is assumed, and the mean one, as a table has it; empty where all are the same."""
        rates = [leak.rate for leak in self.leakage]
        if len(set(rates)) < 2:
            return ""
        mean = mean_rate(self.leakage, self.samples.folds)
        return f" in fold {self.samples.folds[int(np.argmax(rates))].index} ({percentage(mean)} on average)"


@dataclass(frozen=True)
class Check:
    """A check of audits.

    Attributes
    ----------
    code : str
        The code of its findings.
    look : callable
        Yields a remark for everything that it sees; its docstring says what the code stands for.
    only : str
        The error model that it is about; empty for all.
    needs_rate : bool
        Whether it is for audits with a correction.
    """

    code: str
    look: Callable[[Context], Iterator[Remark]]
    only: str
    needs_rate: bool

    def findings(self, context: Context) -> list[Finding]:
        """What the check finds in an audit."""
        if self.only not in ("", context.samples.error_model) or (self.needs_rate and not context.leakage):
            return []
        return [Finding(self.code, *remark) for remark in self.look(context)]


def check(
    code: str, *, only: str = "", needs_rate: bool = False
) -> Callable[[Callable[[Context], Iterator[Remark]]], Check]:
    """Make a function the check of a code; ``only`` names the error model that it is about, all by default."""
    return lambda look: Check(code, look, only, needs_rate)
