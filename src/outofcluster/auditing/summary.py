"""The numbers of an audit as plain data: what text, notebook, JSON and reports are made of.

A summary holds no records, models or samples, so it can be written down, read back and shown elsewhere.
``Summary.from_json(summary.to_json()) == summary`` holds to the last bit. What is not known is NaN in Python and
null in JSON; null also stands for a bound that a loss does not have.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from itertools import groupby
from textwrap import fill
from typing import Any, Self, get_args

import numpy as np

from outofcluster._base.markup import element, fragment
from outofcluster._base.plain import check_schema, data_frame, number, numbers, plain, read_json, reading, text, whole
from outofcluster.auditing.choices import TOLD_APART
from outofcluster.auditing.findings import Finding, Severity
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import injected_of_mass
from outofcluster.inference.estimates import Estimate, Sensitivity, between, decimals, estimates_table, percent
from outofcluster.inference.pooled import Pooled
from outofcluster.leakage.rate import Leakage

__all__ = ["FittedCurve", "FoldSummary", "Summary", "UnmixedLosses"]

_SCHEMA = 3
_WIDTH = 104
_HEADINGS = {"severe": "Severe", "warning": "Warnings", "info": "Notes"}


@dataclass(frozen=True)
class FoldSummary:
    """One fold: its number, its cross-validated loss, records on both sides, fitted models, and their seeds."""

    fold: int
    naive: float
    n_train: int
    n_validation: int
    fits: int
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class FittedCurve:
    """A fitted curve, for drawing.

    Attributes
    ----------
    p, loss : tuple of float
        The curve on a grid of levels, from no leakage on.
    at, observed : tuple of float
        The levels of the samples, and the pooled losses that were fitted.
    extrapolated : tuple of float
        The curve on the same grid if only the losses above the leakage rate count; empty where none were measured
        below it.
    """

    p: tuple[float, ...]
    loss: tuple[float, ...]
    at: tuple[float, ...]
    observed: tuple[float, ...]
    extrapolated: tuple[float, ...] = ()


@dataclass(frozen=True)
class UnmixedLosses:
    """Losses of models that were fitted without the training records that look leaked, pooled over the folds.

    Attributes
    ----------
    fractions : tuple of float
        Injected fractions, increasing: those below 0 stand for records that were left out, 0 for the user's own model,
        and those above 0 for records that look leaked and were made to count more.
    losses, standard_errors : tuple of float
        Losses there, and their Monte-Carlo standard errors.
    clean : float or None
        The fraction at which no leakage is left; None without a leakage rate, and for curves that do not use these
        losses.
    works : float or None
        The probability that these losses can be trusted rather than the curve above the leakage rate.
    """

    fractions: tuple[float, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...]
    clean: float | None = None
    works: float | None = None

    @classmethod
    def of(cls, pooled: Pooled, curve: Curve | None) -> Self | None:
        """Those of an audit and its fitted curve; None where no fold has any."""
        run = pooled.samples.folds[0].unmixed
        if run is None or not pooled.has_unmixed:
            return None
        below = slice(None, len(pooled.all_injected) - 1, -1)  # The last columns, by increasing mass.
        losses, variances = pooled.shares @ pooled.losses, pooled.shares**2 @ pooled.errors**2
        solution = getattr(curve, "unmixing_", None)
        return cls(
            tuple(np.sort(np.append(run.injected, 0.0)).tolist()),
            tuple(losses[below].tolist()),
            tuple(np.sqrt(variances[below]).tolist()),
            None if solution is None else float(injected_of_mass(solution.needed[1])),
            None if solution is None else float(solution.works),
        )


@dataclass(frozen=True, eq=False)
class Summary:
    """An audit's numbers, and nothing but numbers and words.

    Two summaries are equal when everything that they would write down is equal.

    Attributes
    ----------
    version : str
        Version of the package that made it.
    estimator, loss, loss_range
        The model as it prints itself, the name of the loss, and its smallest and largest possible value.
    error_model, units, estimand, curve_method : str
        The error model, what counts as one independent unit, what the intervals are about, and the curve method.
    confidence_level : float
        Confidence level of the intervals.
    leakage : tuple of Leakage or None
        The rate assumed in each fold.
    naive, iid, corrected : Estimate
        The cross-validated loss, the loss over random folds, and that on new clusters (None without a rate).
    optimism : Estimate or None
        By how much cross-validation is too optimistic, with a paired interval: corrected less naive loss.
    bias : float or None
        Corrected less naive.
    test : dict or None
        The test for a cluster effect, as `LeakageTest.to_dict` gives it, with its ``sentence``.
    levels, losses, standard_errors : tuple of float
        Injected fractions, the pooled losses there, and their Monte-Carlo errors.
    sizes : tuple of int
        Records in the training sets of the resamples, the size of those losses first; empty for fragments.
    by_fold : tuple of FoldSummary
        Fold by fold.
    findings : tuple of Finding
        What to know before trusting the numbers, the most severe first.
    versions : dict
        Versions of the packages that the samples were made with.
    curve : FittedCurve or None
        The curve at the mean leakage rate, None without one.
    sensitivity : Sensitivity or None
        The corrected loss over rates from 0 to 0.5, None where the method cannot be solved for these losses.
    unmixed : UnmixedLosses or None
        Losses below the leakage rate, None where none were measured.
    range : tuple of float or None
        A range for the corrected loss that needs no curve.
    data_leakage : Leakage or None
        What the records themselves say about the leakage rate.
    auc : float or None
        How well held-out records can be told from training records, on average over the folds.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster import Summary
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> groups = np.repeat(np.arange(20), 10)
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 200, "random_state": 0}
    >>> written = ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options).to_json()
    >>> summary = Summary.from_json(written)
    >>> summary.rate, summary.fits, summary.to_json() == written
    (0.1, 200, True)
    """

    version: str
    estimator: str
    loss: str
    loss_range: tuple[float, float]
    error_model: str
    units: str
    estimand: str
    curve_method: str
    confidence_level: float
    leakage: tuple[Leakage, ...] | None
    naive: Estimate
    iid: Estimate
    corrected: Estimate | None
    optimism: Estimate | None
    bias: float | None
    test: dict[str, Any] | None = field(repr=False)
    levels: tuple[float, ...] = field(repr=False)
    losses: tuple[float, ...] = field(repr=False)
    standard_errors: tuple[float, ...] = field(repr=False)
    sizes: tuple[int, ...] = field(repr=False)
    by_fold: tuple[FoldSummary, ...] = field(repr=False)
    findings: tuple[Finding, ...] = field(repr=False)
    versions: dict[str, str] = field(repr=False)
    curve: FittedCurve | None = field(default=None, repr=False)
    sensitivity: Sensitivity | None = field(default=None, repr=False)
    unmixed: UnmixedLosses | None = field(default=None, repr=False)
    range: tuple[float, float] | None = field(default=None, repr=False)
    data_leakage: Leakage | None = field(default=None, repr=False)
    auc: float | None = field(default=None, repr=False)

    @property
    def fits(self) -> int:
        """Models fitted to resamples, over all folds."""
        return sum(fold.fits for fold in self.by_fold)

    @property
    def rate(self) -> float | None:
        """The leakage rate, averaged over the records that the folds score."""
        if self.leakage is None:
            return None
        return float(np.average([leak.rate for leak in self.leakage], weights=[f.n_validation for f in self.by_fold]))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        counts = {"folds": len(self.by_fold), "fits": self.fits}
        return {"schema": _SCHEMA, **plain(self), **counts}

    def to_json(self) -> str:
        """Everything as JSON.

        Returns
        -------
        str
            The JSON text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The summary that `to_dict` was called on.

        Parameters
        ----------
        data : dict
            What `to_dict` returned.

        Returns
        -------
        Summary
            An equal summary.
        """
        check_schema(data, _SCHEMA)
        with reading("a summary"):
            low, high = data["loss_range"]
            words = ("version", "estimator", "loss", "error_model", "units", "estimand", "curve_method")
            simple: dict[str, Any] = {name: text(data[name]) for name in words}
            simple |= {name: numbers(data[name]) for name in ("levels", "losses", "standard_errors")}
            return cls(
                **simple,
                confidence_level=number(data["confidence_level"]),
                sizes=tuple(int(number(size)) for size in data["sizes"]),
                loss_range=(-math.inf if low is None else number(low), math.inf if high is None else number(high)),
                leakage=None if data["leakage"] is None else tuple(Leakage(**leak) for leak in data["leakage"]),
                naive=Estimate.from_dict(data["naive"]),
                iid=Estimate.from_dict(data["iid"]),
                corrected=None if data["corrected"] is None else Estimate.from_dict(data["corrected"]),
                optimism=None if data["optimism"] is None else Estimate.from_dict(data["optimism"]),
                bias=_known(data["bias"]),
                test=None if data["test"] is None else {**data["test"], "sentence": text(data["test"]["sentence"])},
                by_fold=tuple(_read_fold(fold) for fold in data["by_fold"]),
                findings=tuple(_read_finding(finding) for finding in data["findings"]),
                versions={text(name): text(version) for name, version in data["versions"].items()},
                curve=None
                if data["curve"] is None
                else FittedCurve(*(numbers(data["curve"][field.name]) for field in fields(FittedCurve))),
                sensitivity=None if data["sensitivity"] is None else Sensitivity.from_dict(data["sensitivity"]),
                unmixed=None if data["unmixed"] is None else _read_unmixed(data["unmixed"]),
                range=None if data["range"] is None else _read_range(data["range"]),
                data_leakage=None if data["data_leakage"] is None else Leakage(**data["data_leakage"]),
                auc=_known(data["auc"]),
            )

    @classmethod
    def from_json(cls, written: str) -> Self:
        """The summary that `to_json` was called on.

        Parameters
        ----------
        written : str
            What `to_json` returned.

        Returns
        -------
        Summary
            An equal summary.
        """
        return cls.from_dict(read_json(written))

    def to_frame(self) -> Any:
        """The estimates as a table.

        Returns
        -------
        pandas.DataFrame
            One row per estimate: naive, iid and, with a leakage rate, corrected and optimism.
        """
        named = {"naive": self.naive, "iid": self.iid, "corrected": self.corrected, "optimism": self.optimism}
        return data_frame(
            [{"estimate": name, **estimate.columns} for name, estimate in named.items() if estimate is not None]
        )

    # --- in words -----------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        """What was measured."""
        scored = sum(fold.n_validation for fold in self.by_fold)
        name = self.estimator if len(self.estimator) <= 60 else f"{self.estimator[:57]}..."
        model = f" of {name}" if name else ""
        return (
            f"Loss ({self.loss}){model} over {_count(len(self.by_fold), 'fold')}: {_count(scored, 'held-out record')}, "
            f"{_count(self.fits, 'model')} fitted to resamples."
        )

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The estimates, by what they are called in print."""
        named = {"cross-validated as it is": self.naive, "random folds, no clusters": self.iid}
        return named if self.corrected is None else named | {f"corrected for {self.rate:.1%} leakage": self.corrected}

    @property
    def verdict(self) -> str:
        """The bias in words."""
        if self.corrected is None or self.bias is None:
            return "Without a leakage rate there is no corrected loss; sensitivity() shows it over a range of rates."
        digits = decimals(*self.estimates.values())
        amount, noise = f"{abs(self.bias):.{digits}f}", self.corrected.se_monte_carlo
        if float(amount) == 0:
            return "The cross-validated loss needs no correction at this leakage rate."
        of_score = self.loss.startswith("minus ")
        what = f"{self.loss.removeprefix('minus ')} (minus the loss)" if of_score else "loss"
        wrong = "low" if (self.bias > 0) != of_score else "high"
        share = abs(self.bias) / self.corrected.value if self.corrected.value > 0 <= self.loss_range[0] else 0.0
        relative = f", about {_percent(share, 2)}" if share else ""
        doubt = (
            f"; the fits alone leave {noise:.2g} of noise (one standard error)" if abs(self.bias) < 2 * noise else ""
        )
        return f"By this estimate the cross-validated {what} is too {wrong} by {amount}{relative}{doubt}."

    @property
    def from_records(self) -> str:
        """What the records themselves say about the leakage rate; empty where they were not asked."""
        shown = self.data_leakage
        if shown is None or shown.upper is None or self.auc is None:
            return ""
        most, alike = f"at most {_percent(shown.upper, 2)}", f"(AUC {self.auc:.2f})"
        if shown.upper >= 0.995:
            return (
                "The records themselves do not bound the leakage rate: held-out and training records look alike "
                f"{alike}."
            )
        if self.auc < TOLD_APART:
            return (
                f"The records themselves show no more than that the leakage rate is {most}: held-out and training "
                f"records are hard to tell apart {alike}."
            )
        return f"The records themselves show a leakage rate of {_percent(shown.rate, 2)}, {most}."

    @property
    def without_curve(self) -> str:
        """The range that needs no curve; empty where there is none."""
        if self.range is None:
            return ""
        digits = decimals(*self.estimates.values())
        low, high = self.range
        ends = f"{low:.{digits}f} and {high:.{digits}f}"
        return f"Without any curve, all that can be said at this leakage rate is that the loss lies between {ends}."

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences below the estimates: the verdict, what it rests on, and what the intervals are about."""
        lines = (self.verdict, self.from_records, self.without_curve, self.assumption, self.scope)
        return tuple(line for line in lines if line)

    @property
    def assumption(self) -> str:
        """What the leakage rate says, or nothing without one."""
        if self.leakage is None or self.rate is None:
            return ""
        spread = max(leak.std or 0.0 for leak in self.leakage)
        certainty = f"give or take {_percent(spread)}, which the interval includes" if spread else "taken as known"
        if all(leak == self.data_leakage for leak in self.leakage):
            return f"That rate is used for the correction, {certainty}."
        rates = [leak.rate for leak in self.leakage]
        several = (
            f" ({_percent(min(rates))} to {_percent(max(rates))} over the folds)" if min(rates) < max(rates) else ""
        )
        whose = (
            "the training records belong to held-out clusters"
            if self.error_model == "records"
            else "the held-out records have a piece of their cluster in training"
        )
        return f"It is assumed that {_percent(self.rate)}{several} of {whose}, {certainty}."

    @property
    def scope(self) -> str:
        """What the intervals are about."""
        allowed = "another sample of clusters" if self.units == "clusters" else "other records of these clusters only"
        return (
            f"Intervals are {percent(self.confidence_level)}, for {self.estimand}: they allow for {allowed}; "
            "that of the random folds takes records as independent."
        )

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, Summary) else NotImplemented

    def __str__(self) -> str:
        named = self.estimates
        digits, width = decimals(*named.values()), max(map(len, named))
        values = [f"{estimate.value:.{digits}f}" for estimate in named.values()]
        wide = max(len(value) for value in [*values, "loss"])
        rows = [
            f"  {name:{width}}  {value:>{wide}}  {between(estimate, digits)}"
            for (name, estimate), value in zip(named.items(), values, strict=True)
        ]
        sentences = [line for line in (*self.sentences, self._tested) if line]
        blocks = [
            [fill(self.title, _WIDTH)],
            [f"  {'':{width}}  {'loss':>{wide}}  {percent(self.confidence_level)} interval", *rows],
            [fill(line, _WIDTH) for line in sentences],
        ]
        for severity, group in groupby(self.findings, key=lambda finding: finding.severity):
            blocks.append([_HEADINGS.get(severity, severity), *(_listed(finding) for finding in group)])
        return "\n\n".join("\n".join(lines) for lines in blocks)

    def _repr_html_(self) -> str:
        sentences = [element("p", element("strong", self.verdict))]
        sentences += [element("p", line) for line in (*self.sentences[1:], self._tested) if line]
        findings = [
            element("div", element("strong", finding.code), f": {finding.message} {finding.remedy}", css=_css(finding))
            for finding in self.findings
        ]
        drawn = (
            []
            if self.sensitivity is None
            else [element("p", "Corrected loss by leakage rate:"), self.sensitivity.drawing]
        )
        return fragment(element("p", self.title), estimates_table(self.estimates), *sentences, *drawn, *findings)

    @property
    def _tested(self) -> str:
        return "" if self.test is None else str(self.test["sentence"])


def _percent(share: float, digits: int = 3) -> str:
    return f"{100 * share:.{digits}g} %" if share < 0.995 else f"{100 * share:.0f} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _listed(finding: Finding) -> str:
    message = fill(f"{finding.code}: {finding.message}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    if not finding.remedy:
        return message
    return message + "\n" + fill(f"-> {finding.remedy}", _WIDTH, initial_indent="    ", subsequent_indent="       ")


def _css(finding: Finding) -> str:
    return f"finding {finding.severity}"


def _read_fold(data: dict[str, Any]) -> FoldSummary:
    counts = {name: whole(data[name]) for name in ("fold", "n_train", "n_validation", "fits")}
    return FoldSummary(naive=number(data["naive"]), seeds=tuple(whole(seed) for seed in data["seeds"]), **counts)


def _known(value: Any) -> float | None:
    return None if value is None else number(value)


def _read_unmixed(data: dict[str, Any]) -> UnmixedLosses:
    measured = {name: numbers(data[name]) for name in ("fractions", "losses", "standard_errors")}
    return UnmixedLosses(**measured, clean=_known(data["clean"]), works=_known(data["works"]))


def _read_range(data: Any) -> tuple[float, float]:
    low, high = numbers(data)
    return low, high


def _read_finding(data: dict[str, Any]) -> Finding:
    finding = Finding(**{name: text(value) for name, value in data.items()})  # type: ignore[arg-type]
    if finding.severity not in get_args(Severity):
        raise ValueError(f"{finding.severity!r} is not a severity")
    return finding
