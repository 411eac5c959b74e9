"""The numbers of an audit as plain data: what text, notebook, JSON and reports are made of.

A summary holds no records, models or samples, so it can be written down, read back and shown elsewhere.
``Summary.from_json(summary.to_json()) == summary`` holds to the last bit. What is not known is NaN in Python and
null in JSON; null also stands for a bound that a metric does not have. All values are in the metric's own sign: those
that are called losses are losses only where a smaller value is better. The optimism is positive for every metric.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import groupby
from textwrap import fill
from typing import Any, Self

from outofcluster._base.plain import JsonData, data_frame, read
from outofcluster._base.text import Markup, element, fragment, percentage, printable, table
from outofcluster.auditing.effect_test import LeakageTest
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.summary_parts import (
    METRICS_HEADER,
    SOURCES_HEADER,
    FittedCurve,
    FoldSummary,
    LookedUpSummary,
    MetricSummary,
    SeenSummary,
    SourceSummary,
    UnmixedLosses,
    aligned,
    counted,
    mean_rate,
    rests_on,
)
from outofcluster.errormodels.records import TOLD_APART
from outofcluster.inference.estimates import Estimate, Sensitivity, between, decimals, estimates_table, fixed
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.account import TableAccount, estimator_in_words
from outofcluster.sampling.audit_samples import has_pieces

_WIDTH = 104
_MOST_DIGITS, _LONGEST_NAME = 8, 120
# Notes that are shown in full, since a part of the answer is missing.
_ALWAYS = ("no-rate", "no-test")
OPTIMISM = "optimism"
# What a leakage rate is a share of.
_WHOSE = {
    "records": "the training records belong to held-out clusters",
    "fragments": "the held-out records have a piece of their cluster in training",
}
_HEADINGS = {"severe": "Severe", "warning": "Warnings", "info": "Notes"}


@dataclass(frozen=True, eq=False)
class Summary(JsonData, what="a summary", schema=5):
    """An audit's numbers, and nothing but numbers and words.

    Two summaries are equal when everything that they would write down is equal.

    Attributes
    ----------
    version : str
        Version of the package that made it.
    estimator : str
        The model as it prints itself.
    metric : MetricFacts
        What is measured: its name, its label, its range, and whether a greater value is better.
    error_model, units, estimand, curve_method : str
        The error model, what counts as one independent unit, what the intervals are about, and the curve method.
    confidence_level : float
        Confidence level of the intervals.
    leakage : tuple of Leakage or None
        The rate assumed in each fold, or the one that the records show.
    naive, iid, corrected : Estimate
        The cross-validated value, that over random folds, and that on new clusters (None without a rate).
    optimism : Estimate or None
        By how much cross-validation is too optimistic, with a paired interval: corrected less naive loss.
    bias : float or None
        Corrected less naive.
    test : dict or None
        The test for a cluster effect, as `LeakageTest.to_dict` gives it, with its ``sentence``.
    levels, losses, standard_errors : tuple of float
        Injected fractions, the pooled losses or metrics there, and their Monte-Carlo errors.
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
        The corrected value over rates from 0 to 0.5, None where the method cannot be solved for these losses.
    unmixed : UnmixedLosses or None
        Losses below the leakage rate, None where none were measured.
    range : tuple of float or None
        A range for the corrected value that needs no curve.
    data_leakage : Leakage or None
        What the records themselves say about the leakage rate.
    auc : float or None
        How well held-out records can be told from training records, on average over the folds.
    metrics : tuple of MetricSummary
        All metrics where several were asked for, this one first; empty for a single one.
    table : TableAccount or None
        What the table holds.
    validation_leakage : float
        The share of the held-out records that truly belong to training clusters.
    from_data : bool
        Whether the correction goes by what the records themselves show, and not by a rate that was given.
    at_least : bool
        Whether the optimism is a lower bound, since little of the leakage would be seen.
    sources : tuple of SourceSummary
        What the optimism rests on, and how much each source counts; empty without a correction.
    seen : SeenSummary or None
        What the records show about pieces of held-out clusters in training; None for single records.
    looked_up : LookedUpSummary or None
        What somebody looked up.
    methods : str
        What was done and what came out, in words for a paper.

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
    metric: MetricFacts
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
    metrics: tuple[MetricSummary, ...] = field(default=(), repr=False)
    table: TableAccount | None = field(default=None, repr=False)
    validation_leakage: float = 0.0
    from_data: bool = False
    at_least: bool = False
    sources: tuple[SourceSummary, ...] = field(default=(), repr=False)
    seen: SeenSummary | None = field(default=None, repr=False)
    looked_up: LookedUpSummary | None = field(default=None, repr=False)
    methods: str = field(default="", repr=False)

    @property
    def loss(self) -> str:
        """Name of the loss or metric."""
        return self.metric.name

    @property
    def fits(self) -> int:
        """Models fitted to resamples, over all folds."""
        return sum(fold.fits for fold in self.by_fold)

    @property
    def of_pieces(self) -> bool:
        """Whether pieces of entities leak, and not single records."""
        return has_pieces(self.error_model)

    @property
    def without_rate(self) -> bool:
        """Whether pieces were left out of training in the place of a correction for a rate."""
        return self.from_data and self.of_pieces and self.corrected is not None

    @property
    def nothing_seen(self) -> bool:
        """Whether the records were asked how much leaks, and cannot show it."""
        if not self.from_data or self.corrected is None:
            return False
        if self.of_pieces:
            return self.at_least and self.seen is not None and self.seen.is_blind
        return self.auc is not None and self.auc < TOLD_APART

    @property
    def rate(self) -> float | None:
        """The leakage rate, averaged over the records that the folds score."""
        return None if self.leakage is None else mean_rate(self.leakage, self.by_fold)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        derived = {"loss": self.loss, "headline": self.headline, "folds": len(self.by_fold), "fits": self.fits}
        return super().to_dict() | derived

    def __read__(self) -> Self:
        if not self.by_fold or not all(1 <= fold.n_validation < 2**63 for fold in self.by_fold):
            raise ValueError("a fold holds out no record, or more than there can be")
        if self.leakage is None and self.corrected is not None:
            raise ValueError("something is corrected, but for no rate")
        if self.leakage is not None and len(self.leakage) != len(self.by_fold):
            raise ValueError(f"there are {len(self.leakage)} rates for {len(self.by_fold)} folds")
        if self.test is None:
            return self
        # Read once, so that nothing else can be among the test's plain data.
        sentence = read(str, self.test["sentence"], "a summary")
        return replace(self, test=LeakageTest.from_dict(self.test).to_dict() | {"sentence": sentence})

    def to_frame(self) -> Any:
        """The estimates as a table.

        Returns
        -------
        pandas.DataFrame
            One row per estimate: naive, iid and, with a leakage rate, corrected and optimism.
        """
        named = {name: getattr(self, name) for name in ("naive", "iid", "corrected", "optimism")}
        return data_frame([{"estimate": name, **each.columns} for name, each in named.items() if each is not None])

    # --- in words -----------------------------------------------------------------------------------

    @property
    def model(self) -> str:
        """The model by its name, such as "logistic regression"."""
        name = estimator_in_words(self.estimator)
        return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 3]}..."

    @property
    def title(self) -> str:
        """What was measured."""
        scored = sum(fold.n_validation for fold in self.by_fold)
        model = f" of {self.model}" if self.model else ""
        without = sum(fold.fits_without for fold in self.by_fold)
        fitted = f"{counted(self.fits, 'model')} fitted to resamples"
        if self.of_pieces:
            fitted = f"{counted(self.fits, 'model')} fitted with imitated pieces"
            fitted += f" and {without} without some training clusters" if without else ""
        return (
            f"{self.metric.title}{model} over {counted(len(self.by_fold), 'fold')}: "
            f"{counted(scored, 'held-out record')}, {fitted}."
        )

    @property
    def estimates(self) -> dict[str, Estimate]:
        """The estimates, by what they are called in print."""
        named = {"cross-validated as it is": self.naive, "random folds, no clusters": self.iid}
        if self.corrected is None:
            return named
        if self.nothing_seen:
            return named | {"corrected as far as can be told": self.corrected}
        if self.without_rate:
            looked_up = any(each.source == "looked up" for each in self.sources)
            shown = "what is seen and looked up" if looked_up else "what the records show"
            return named | {f"corrected for {shown}": self.corrected}
        assert self.rate is not None
        other_way = f" and {percentage(self.validation_leakage)} the other way" if self.validation_leakage else ""
        return named | {f"corrected for {percentage(self.rate)} leakage{other_way}": self.corrected}

    @property
    def headline(self) -> str:
        """The answer in one or two sentences, with one digit less than in the table, since people say it aloud."""
        metric, digits = self.metric, max(decimals(*self.estimates.values()) - 1, 0)
        naive = fixed(self.naive.value, digits)
        if self.corrected is None:
            unknown = (
                "cannot be seen in these records."
                if self.from_data
                else "depends on the leakage rate, which was not given."
            )
            return f"{metric.title} {naive} by cross-validation; how far that is from the truth {unknown}"
        if self.nothing_seen:
            return f"{metric.title} {naive} by cross-validation. {self._verdict(digits)}"
        where = "on new clusters" if self.units == "clusters" else "on these clusters, had nothing leaked"
        # What is seen is the least that the optimism can be.
        bound = "" if not self.at_least else "at most " if metric.greater_is_better else "at least "
        return f"{metric.title} {naive} → {bound}{fixed(self.corrected.value, digits)} {where}. {self._verdict(digits)}"

    @property
    def verdict(self) -> str:
        """Whether cross-validation is too optimistic, and by how much; it follows from the optimism's interval."""
        return self._verdict(decimals(*self.estimates.values()))

    def _verdict(self, digits: int) -> str:
        if self.optimism is None:
            why = "What leaked cannot be seen in these records, so that" if self.from_data else "Without a leakage rate"
            return f"{why} there is no corrected {self.metric.noun}; sensitivity() shows it over a range of rates."
        value, (low, high) = self.optimism.value, self.optimism.interval
        if self.nothing_seen:
            return self._unseen(high, digits)
        if max(abs(low), abs(high)) < 10**-_MOST_DIGITS:
            return f"Cross-validation needs no correction{'' if self.without_rate else ' at this leakage rate'}."
        # An interval without 0 is not printed as one that begins at 0, and no interval as one from 0 to 0.
        seen = max(abs(low), abs(high)) if low <= 0 <= high else min(abs(low), abs(high))
        while digits < _MOST_DIGITS and float(f"{seen:.{digits}f}") == 0:
            digits += 1
        if self.at_least:
            return self._lower_bound(value, low, high, digits)
        word = "optimistic"
        if value < 0:
            word, value, low, high = "pessimistic", -value, -high, -low
        amount = fixed(value, digits)
        if not math.isfinite(low + high):
            return f"By this estimate cross-validation is too {word} by {amount}; how certain that is is not known."
        interval = f"({fixed(low, digits)} to {fixed(high, digits)})"
        if low > 0:
            return f"Cross-validation is too {word} by {amount} {interval}."
        if float(f"{value:.{digits}f}") == 0:
            return f"No optimism of cross-validation is seen: it is {amount} {interval}, and the interval includes 0."
        return f"Cross-validation may be too {word} by {amount} {interval}; the interval includes 0."

    def _lower_bound(self, value: float, low: float, high: float, digits: int) -> str:
        """The verdict where little of the leakage would be seen."""
        caught = "few" if self.seen is None else f"only {percentage(self.seen.caught, 2)}"
        missed = f"Much of the leakage would not be seen ({caught} of imitated pieces would be)"
        amount, interval = fixed(value, digits), f"({fixed(low, digits)} to {fixed(high, digits)})"
        first = f"Cross-validation {'is' if low > 0 else 'may be'} too optimistic by at least {amount} {interval}."
        if float(f"{value:.{digits}f}") <= 0:
            first = f"No optimism of cross-validation is seen: it is {amount} {interval}."
        return f"{first} {missed}, so that it may be up to {fixed(high, digits)}."

    def _unseen(self, most: float, digits: int) -> str:
        """The verdict where nothing of the leakage can be seen."""
        nothing = "Nothing of the leakage can be seen in these records, since"
        if self.of_pieces:
            apart = f"{nothing} their features hardly tell entities apart"
            if float(f"{most:.{digits}f}") <= 0:
                return f"{apart}; imitated pieces do not help this model."
            return f"{apart}: cross-validation may be too optimistic by up to {fixed(most, digits)}."
        alike = f"{nothing} held-out and training records look alike"
        if self.range is None:
            return f"{alike}; they do not show what the {self.metric.noun} would be without it."
        ends = " and ".join(fixed(end, digits) for end in self.range)
        return f"{alike}: at the leakage rate that they suggest, the {self.metric.noun} lies between {ends}."

    @property
    def from_records(self) -> str:
        """What the records themselves say about the leakage rate; empty where they were not asked."""
        if self.seen is not None:
            return self.seen.in_words
        shown = self.data_leakage
        if shown is None or shown.upper is None or self.auc is None:
            return ""
        most, alike = (
            f"at most {percentage(shown.upper, 2)}",
            f"(a classifier of the two has an AUC of {self.auc:.2f})",
        )
        sides = "held-out and training records"
        if shown.upper >= 0.995:
            return f"The records themselves do not bound the leakage rate: {sides} look alike {alike}."
        if self.auc < TOLD_APART:
            only = f"show no more than that the leakage rate is {most}"
            return f"The records themselves {only}: {sides} are hard to tell apart {alike}."
        rate, whose = percentage(shown.rate, 2), _WHOSE["records"]
        return f"By what the records show, {rate} of {whose} ({most})."

    @property
    def without_curve(self) -> str:
        """The range that needs no curve; empty where there is none, and where the verdict has it."""
        if self.range is None or self.nothing_seen:
            return ""
        ends = " and ".join(fixed(end, decimals(*self.estimates.values())) for end in self.range)
        return (
            f"Without any curve, all that can be said at this leakage rate is that the {self.metric.noun} lies "
            f"between {ends}."
        )

    @property
    def sentences(self) -> tuple[str, ...]:
        """The sentences below the estimates: the verdict, what it rests on, and what the intervals are about."""
        lines = (self.verdict, self.from_records, self.without_curve, self.assumption, self.rests_on, self.scope)
        return tuple(line for line in lines if line)

    @property
    def rests_on(self) -> str:
        """The sources of the answer and how much each counts; empty for single records and where nothing is seen."""
        return "" if self.nothing_seen else rests_on(self.sources)

    @property
    def assumption(self) -> str:
        """What the leakage rate says, or what was done without one; nothing without a correction."""
        if self.leakage is None or self.rate is None or self.corrected is None:
            return ""
        looked_up = [] if self.looked_up is None else [self.looked_up.in_words]
        if self.without_rate:
            left_out = [] if self.seen is None or self.seen.is_blind else [self.seen.left_out_in_words]
            upper = ["The interval goes up to what imitated pieces allow."] if self.at_least else []
            return " ".join(["No leakage rate is assumed.", *left_out, *looked_up, *upper])
        spread = max(leak.std or 0.0 for leak in self.leakage)
        certainty = f"give or take {percentage(spread)}, which the interval includes" if spread else "taken as known"
        other_way = ""
        if self.validation_leakage:
            other_way = (
                f" The other way, it is assumed that {percentage(self.validation_leakage)} of the held-out records "
                "belong to training clusters, taken as known: they are easy for the model, and make its score too good."
            )
        if self.nothing_seen:
            suggested = f"{percentage(self.rate)} of {_WHOSE['records']}"
            used = f"The rate that they suggest ({suggested}) is used for the correction, {certainty}"
            return f"{used}; it is worth little where records look alike.{other_way}"
        if self.rate_is_of_the_data:
            return f"That rate is used for the correction, {certainty}.{other_way}"
        low, high = min(leak.rate for leak in self.leakage), max(leak.rate for leak in self.leakage)
        several = f" ({percentage(low)} to {percentage(high)} over the folds)" if low < high else ""
        amount, whose = f"{percentage(self.rate)}{several}", _WHOSE[self.error_model]
        if not any(leak.at_least for leak in self.leakage):
            return " ".join([f"It is assumed that {amount} of {whose}, {certainty}.{other_way}", *looked_up])
        lower_bound = (
            f"It is assumed that at least {amount} of {whose}, {certainty}. This rate is a lower bound, so that the "
            f"corrected {self.metric.noun} is still too optimistic: the true correction may be larger.{other_way}"
        )
        return " ".join([lower_bound, *looked_up])

    @property
    def scope(self) -> str:
        """What the intervals cover."""
        about = f"Intervals are {percentage(self.confidence_level)}, for {self.estimand}. They allow for"
        rate = "the leakage rate where its standard error is given"
        more = f"the choice of the curve, and {rate}."
        if self.of_pieces:
            more = "pairs that may be two entities, and pieces that may be missed."
            if self.leakage is not None and not self.from_data:
                more = f"pairs that may be two entities, pieces that may be missed, and {rate}."
            more += " That of the optimism is about these folds with these clusters."
        random = "That of the random folds takes records as independent."
        return f"{about} {_ALLOWED[self.units]}, the noise of the fits, {more} {random}"

    @property
    def loud(self) -> tuple[Finding, ...]:
        """Warnings and severe findings, and what is missing from the answer, which are always shown in full."""
        return tuple(each for each in self.findings if each.severity != "info" or each.code in _ALWAYS)

    @property
    def notes(self) -> tuple[Finding, ...]:
        """Findings about what most audits rest on."""
        return tuple(finding for finding in self.findings if finding not in self.loud)

    def standing(self, how: str = "explain()") -> str:
        """What the answer rests on, in one line.

        Parameters
        ----------
        how : str
            What shows it in full.

        Returns
        -------
        str
        """
        about = f"Intervals are for {self.estimand}."
        listed = f"Notes ({', '.join(finding.code for finding in self.notes)})" if self.notes else "Details"
        return " ".join(line for line in (self.standing_assumption, about, f"{listed}: see {how}.") if line)

    @property
    def answers(self) -> tuple[str, ...]:
        """The sentences that belong to the answer: what the records say, what it rests on, and the test."""
        tested = () if self.test is None else (str(self.test["sentence"]),)
        return (*self.answers_but_test, *tested)

    @property
    def answers_but_test(self) -> tuple[str, ...]:
        """What the records say, what was done with that, and what the answer rests on."""
        used = self.assumption if self.rate_is_of_the_data else ""
        return tuple(line for line in (self.from_records, used, self.rests_on, self.about_target) if line)

    @property
    def about_target(self) -> str:
        """What optimism means for metrics with a target; empty where there are none."""
        shown = [one.metric for one in self.metrics or (self,) if one.optimism is not None]
        named = [f"the best {metric.label} is {metric.target:g}" for metric in shown if metric.target is not None]
        if not named:
            return ""
        best = " and ".join(named)
        return f"{best[:1].upper()}{best[1:]}: optimism is how much nearer cross-validation comes than new clusters do."

    @property
    def standing_assumption(self) -> str:
        """What is assumed about the rate, where it does not come from the records themselves."""
        return "" if self.rate_is_of_the_data else self.assumption

    @property
    def rate_is_of_the_data(self) -> bool:
        """Whether the leakage rate is the one that the records themselves show."""
        return self.leakage is not None and all(leak == self.data_leakage for leak in self.leakage)

    def explain(self) -> str:
        """What the answer rests on, in full: where the rate comes from, what intervals cover, and all notes.

        Returns
        -------
        str
            Several lines of text.
        """
        blocks = [fill(line, _WIDTH) for line in (self.title, *self.sentences[1:])]
        if self.notes:
            blocks.append("\n".join([_HEADINGS["info"], *map(_listed, self.notes)]))
        return printable("\n\n".join(blocks))

    def __str__(self) -> str:
        digits = decimals(*self.estimates.values())
        named = self.estimates | ({} if self.optimism is None else {OPTIMISM: self.optimism})
        width = max(map(len, named))
        values = [fixed(estimate.value, digits) for estimate in named.values()]
        wide = max(len(value) for value in [*values, self.metric.label])
        rows = [
            f"  {name:{width}}  {value:>{wide}}  {between(estimate, digits)}"
            for (name, estimate), value in zip(named.items(), values, strict=True)
        ]
        metrics = [METRICS_HEADER, *(one.words for one in self.metrics)]
        # The verdict is the headline's already, where there is a leakage rate.
        sentences = [*([] if self.optimism is not None else [self.verdict]), *self.answers]
        blocks = [
            [fill(self.headline, _WIDTH)],
            [f"  {'':{width}}  {self.metric.label:>{wide}}  {percentage(self.confidence_level)} interval", *rows],
            *([[f"  {line}" for line in aligned(metrics)]] if self.metrics else []),
            [fill(line, _WIDTH) for line in sentences],
        ]
        for severity, group in groupby(self.loud, key=lambda finding: finding.severity):
            blocks.append([_HEADINGS.get(severity, severity), *(_listed(finding) for finding in group)])
        blocks.append([fill(line, _WIDTH) for line in (self.title, self.standing())])
        return printable("\n\n".join("\n".join(lines) for lines in blocks))

    @property
    def parts(self) -> tuple[tuple[str, str, str, str], ...]:
        """The rows of a table of the sources; empty for single records and where nothing is seen."""
        digits = decimals(*self.estimates.values())
        return tuple(source.words(digits) for source in self.sources) if self.rests_on else ()

    def _repr_html_(self) -> str:
        sentences = [] if self.optimism is not None else [element("p", self.verdict)]
        sentences += [element("p", line) for line in self.answers]
        folded = [element("p", line) for line in (self.title, *self.sentences[1:])]
        rests = element("details", element("summary", "What this rests on"), *folded, *map(_in_html, self.notes))
        drawn = []
        if self.sensitivity is not None:
            drawn = [element("p", f"Corrected {self.metric.noun} by leakage rate:"), self.sensitivity.drawing]
        optimism = {} if self.optimism is None else {OPTIMISM: self.optimism}
        return fragment(
            element("p", element("strong", self.headline)),
            estimates_table(self.estimates, self.metric.label, apart=optimism),
            *([table(METRICS_HEADER, [one.words for one in self.metrics])] if self.metrics else []),
            *([table(SOURCES_HEADER, self.parts)] if self.parts else []),
            *sentences,
            *map(_in_html, self.loud),
            *drawn,
            rests,
        )


def _listed(finding: Finding) -> str:
    message = fill(f"{finding.code}: {finding.message}", _WIDTH, initial_indent="  ", subsequent_indent="    ")
    if not finding.remedy:
        return message
    return message + "\n" + fill(f"-> {finding.remedy}", _WIDTH, initial_indent="    ", subsequent_indent="       ")


def _in_html(finding: Finding) -> Markup:
    words = f": {finding.message} {finding.remedy}"
    return element("div", element("strong", finding.code), words, css=f"finding {finding.severity}")


# What the intervals are about, and what they allow for, by what counts as one independent unit.
ESTIMANDS = {"clusters": "new clusters of the population", "records": "these held-out clusters"}
_ALLOWED = {
    "clusters": "another sample of clusters in training and in validation",
    "records": "other records of these clusters only",
}
