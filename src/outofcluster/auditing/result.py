"""Results of an audit: numbers with their uncertainty, and answers to "what if" without another fit.

An `Audit` is the samples plus choices: the leakage rate, the curve, the units, the level of confidence. Its numbers are
solved when they are first read, and another choice is another `Audit` of the same samples. Text, notebook, JSON and
table are made by its `Summary`, which is plain data.

Everything is solved as losses, of which lower ones are better (:mod:`outofcluster.auditing.solution`). The public
values of an audit are in the metric's own sign: an AUC is an AUC. The sign is turned only here, by `MetricFacts.shown`
in the properties and methods that return a value, and in the parts of a summary; whatever is shown elsewhere is made of
these.

An audit in a file: the samples of every metric as arrays, and the choices as plain data. Nothing is pickled.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, BinaryIO, Self

import numpy as np

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array, Codes, check_number, check_share, check_vector, short, shown
from outofcluster._base.exceptions import InputError, SolverError
from outofcluster._base.plain import data_frame
from outofcluster._base.rows import n_rows
from outofcluster._base.seeds import RandomState
from outofcluster._base.text import Printed, Text
from outofcluster._base.version import __version__
from outofcluster.auditing.checklist import Checklist, checklist
from outofcluster.auditing.checks import find
from outofcluster.auditing.choices import choose_stored_units, read_confidence, read_curve
from outofcluster.auditing.effect_test import LeakageTest, evaluate_effect
from outofcluster.auditing.findings import Context, Finding
from outofcluster.auditing.methods_text import methods_text
from outofcluster.auditing.price import Cost
from outofcluster.auditing.solution import Solution
from outofcluster.auditing.spread import Spread, spread
from outofcluster.auditing.subgroups import Subgroups, subgroups
from outofcluster.auditing.summary import ESTIMANDS, Summary
from outofcluster.auditing.summary_parts import (
    FittedCurve,
    FoldSummary,
    LookedUpSummary,
    MetricSummary,
    SeenSummary,
    SourceSummary,
    UnmixedLosses,
    value_and_ends,
)
from outofcluster.auditing.tipping import TippingPoint, tipping_point_of
from outofcluster.curves.base import Curve
from outofcluster.errormodels.base import Choices, ErrorModel, Evidence
from outofcluster.errormodels.choose import error_model_of
from outofcluster.errormodels.pooled import Pooled
from outofcluster.errormodels.two_way import check_both
from outofcluster.inference.estimates import Estimate, Sensitivity, SensitivitySurface
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.account import TableAccount
from outofcluster.sampling.audit_samples import UNMIXED, AuditSamples

# Columns of the table of parts.
_PARTS = ("source", "value", "standard_error", "weight")
_FINE = np.arange(101) / 200
# Rates of a summary's sensitivity; few ones above 0 where every rate needs a resampling.
_COARSE = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


@dataclass(frozen=True, eq=False)
class Source:
    """Where the records of an audit come from.

    Attributes
    ----------
    about : dict of str
        In words: the file and its digest, what its columns are, and the command.
    rows : array of int or None
        The row of the file that each record comes from; None where these are all rows of what was audited.
    columns : dict of tuple
        Columns that are kept along with the audit, by their names, with one value per record.
    """

    about: dict[str, str] = field(default_factory=dict)
    rows: Codes | None = None
    columns: dict[str, tuple[Any, ...]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Audit(Printed):
    """What an audit found; ``print`` it, or show it in a notebook.

    Attributes
    ----------
    pooled : Pooled
        The samples of all folds as one problem, for the units that were chosen.
    leakage : tuple of Leakage or None
        The rate assumed in each fold.
    curve_method : Curve
        The curve method; ``curve`` is the fitted curve.
    confidence_level : float
        Confidence level of all intervals.
    mute : tuple of str
        Codes of findings that are left out.
    error_model_reason : str
        Why the error model was chosen; empty where the user chose it.
    units_asked : {"auto", "clusters", "records"}
        The units that the user asked for.
    data_leakage : Leakage or None
        What the records themselves say about the leakage rate, with an upper bound.
    from_data : bool
        Whether the correction goes by what the records themselves show, and not by a rate that was given.
    records : data frame or None
        The data frame that was audited, for `review_list`; None for an array, and for an audit from a file.
    seconds : float or None
        How long the audit took; None for an audit from a file.
    own_seconds : array or None
        Seconds that it took to fit the user's own model, and to score it, one row per audited fold; None for an audit
        from a file.
    table : TableAccount
        What the table holds, and what about it gives reason to doubt.
    others : tuple of Audit
        Audits of further metrics of the same fits, with the same choices; ``metrics`` has all of them by name.
    source : Source
        Where the records come from; the command line knows their file.
    """

    pooled: Pooled = field(repr=False)
    leakage: tuple[Leakage, ...] | None
    curve_method: Curve
    table: TableAccount = field(repr=False)
    confidence_level: float = 0.95
    mute: tuple[str, ...] = field(default=(), repr=False)
    error_model_reason: str = field(default="", repr=False)
    units_asked: str = field(default="auto", repr=False)
    data_leakage: Leakage | None = field(default=None, repr=False)
    from_data: bool = field(default=False, repr=False)
    records: Any = field(default=None, repr=False)
    seconds: float | None = field(default=None, repr=False)
    own_seconds: Array | None = field(default=None, repr=False)
    others: tuple[Audit, ...] = field(default=(), repr=False)
    source: Source = field(default_factory=Source, repr=False)

    @classmethod
    def of(cls, samples: Sequence[AuditSamples], choices: Choices, evidence: Evidence, table: TableAccount) -> Self:
        """The result of an audit by its first metric, with those of the others.

        Parameters
        ----------
        samples : sequence of AuditSamples
            The losses of every metric.
        choices : Choices
            What the audit was asked for, and what it chose itself.
        evidence : Evidence
            What the records themselves show.
        table : TableAccount
            What the table holds.

        Returns
        -------
        Audit
        """
        indices = [fold.index for fold in samples[0].folds]
        by_data, rates = evidence.rate(indices), choices.rates.by_fold
        leakage = None if rates is None else tuple(rates[index] for index in indices)
        if choices.rates.from_data and by_data is not None:
            # The pairs of a linkage are left out as well, so that what is known of it matters.
            leakage = (replace(by_data, facts=leakage[0].facts if leakage else None),) * len(indices)
        first, *others = (
            cls(
                pooled=choices.model.pooled(of_metric, choices.units, choices.reverse),
                leakage=leakage,
                curve_method=curve,
                table=table,
                confidence_level=choices.confidence_level,
                mute=choices.mute,
                error_model_reason=choices.reason,
                units_asked=choices.units_asked,
                data_leakage=by_data,
                from_data=choices.rates.from_data,
            )
            for of_metric, curve in zip(samples, choices.curves, strict=True)
        )
        return replace(first, others=tuple(others))

    @property
    def metrics(self) -> dict[str, Audit]:
        """The audit of each metric by its name, this one first; all of them are of the same fits."""
        return {result.loss: result for result in (self, *self.others)}

    @property
    def samples(self) -> AuditSamples:
        """The losses of all fits, fold by fold."""
        return self.pooled.samples

    @property
    def error_model(self) -> str:
        """How clustering errors happen: "records" or "fragments"."""
        return self.samples.error_model

    @property
    def metric(self) -> MetricFacts:
        """What is measured: its name, its label, its range, and whether a greater value is better."""
        return self.samples.metric

    @property
    def loss(self) -> str:
        """Name of the loss or metric."""
        return self.samples.loss

    @property
    def units(self) -> str:
        """What counts as one independent unit in the intervals: "clusters" or "records"."""
        return self.pooled.unit_kind

    @property
    def validation_leakage(self) -> float:
        """The share of the held-out records that truly belong to training clusters; 0 where that was not asked for."""
        return self.pooled.reverse

    @property
    def estimand(self) -> str:
        """What the intervals are about, in words."""
        return ESTIMANDS[self.units]

    # --- the numbers ----------------------------------------------------------------------------------

    @cached_property
    def naive(self) -> Estimate:
        """The cross-validated loss or metric, without a correction."""
        return self.solution.naive.shown_as(self.metric)

    @cached_property
    def iid(self) -> Estimate:
        """The loss or metric over random folds, which ignore clusters; records are the units of its interval."""
        return self.solution.iid.shown_as(self.metric)

    @cached_property
    def corrected(self) -> Estimate | None:
        """The loss or metric on new clusters; None where nothing is corrected."""
        solved = self.solution.corrected
        return None if solved is None else solved.shown_as(self.metric)

    @cached_property
    def optimism(self) -> Estimate | None:
        """By how much cross-validation is too optimistic, with a paired interval; None where nothing is corrected.

        It is the corrected loss minus the naive one, so that a positive value always means that cross-validation
        promises too much. For metrics of which more is better it is the naive value minus the corrected one. For
        metrics with a target, such as 1 for a calibration slope, it is by how much nearer to it the naive value is.
        """
        solved, metric, naive = self.solution.optimism, self.metric, self.solution.naive.value
        if solved is None or metric.target is None:
            return solved
        least, most = metric.badness_between(*metric.shown_interval(*(naive + end for end in solved.interval)))
        own = metric.badness(self.naive.value)
        return replace(solved, value=self._promised(solved.value), interval=(float(least - own), float(most - own)))

    def _promised(self, optimism: float) -> float:
        """The optimism of the metric, where the loss has this one."""
        if self.metric.target is None:
            return optimism
        corrected = self.metric.shown(self.solution.naive.value + optimism)
        return self.metric.badness(corrected) - self.metric.badness(self.naive.value)

    @property
    def bias(self) -> float | None:
        """Corrected minus naive, in the metric's own sign; `optimism` is positive for every metric."""
        return None if self.corrected is None else float(self.corrected.value - self.naive.value)

    @cached_property
    def range(self) -> tuple[float, float] | None:
        """A range for the corrected value that needs no curve; None without a rate, for fragments, and both ways.

        It is wide: it trusts nothing but that the loss is convex in the leakage, what small clean training sets lose,
        and what removing records that look leaked has shown (:mod:`outofcluster.errormodels.records`). At large rates
        hardly any training set is clean; then the loss has no upper end but its own, and without one there is no range.
        """
        ends = self.solution.range
        return None if ends is None else self.metric.shown_interval(*ends)

    @cached_property
    def test(self) -> LeakageTest | None:
        """Whether there is a cluster effect for leakage to act on; None where there are too few records to say."""
        if self.samples.effect is None:
            return None
        return evaluate_effect(self.samples.effect, self.metric.name, greater_is_better=self.metric.greater_is_better)

    @property
    def curve(self) -> Curve | None:
        """The curve of the pooled losses at the mean leakage rate; None without a rate."""
        return self.solution.curve

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before trusting the numbers, the most severe first."""
        context = Context(
            self.solution,
            self.leakage or (),
            self.data_leakage,
            self.table,
            self.error_model_reason,
            self.units_asked,
            self.from_data,
        )
        return find(context, self.mute)

    @property
    def cost(self) -> Cost:
        """What the audit took: models that were fitted, cross-validations that they amount to, and seconds."""
        samples = self.samples
        return Cost(samples.n_fits, samples.n_fits / len(samples.fold_sizes), self.seconds)

    # --- other choices, the same fits -----------------------------------------------------------------

    def at_leakage(self, leakage: Any, *, validation: float | None = None) -> Audit:
        """The same audit for another leakage rate: solved anew, with no further fit.

        Parameters
        ----------
        leakage : float, Leakage, or one for each fold
            The rate, as `audit` takes it.
        validation : float, optional
            The share of the held-out records that truly belong to training clusters; that of this audit by default.
            Another one than 0 needs an audit with ``validation_leakage``.

        Returns
        -------
        Audit
            Another audit of the same samples.
        """
        rates = self._model.read_leakage(leakage, self.pooled.n_folds)
        share = self.validation_leakage if validation is None else check_number("validation", validation, least=0)
        check_both(share, rates)
        self._check_both_ways(share)
        return self._each(
            lambda result: replace(result, leakage=rates, from_data=False, pooled=result._pooled(reverse=share))
        )

    @property
    def _model(self) -> ErrorModel:
        return error_model_of(self.samples)

    def _pooled(self, **changes: Any) -> Pooled:
        """Other samples, units or shares in the place of those of this audit."""
        present: dict[str, Any] = {"samples": self.samples, "unit_kind": self.units, "reverse": self.validation_leakage}
        wanted = present | changes
        return self.pooled if wanted == present else error_model_of(wanted["samples"]).pooled(**wanted)

    def _check_both_ways(self, validation: float) -> None:
        if validation > 0 and any(fold.train_losses is None for fold in self.samples.folds):
            raise InputError(
                f"validation must be 0 for this audit, got {validation:g}: training records were not scored; audit "
                "again with validation_leakage=0."
            )

    def with_curve(self, curve: Any) -> Audit:
        """The same audit with another curve method: solved anew, with no further fit.

        Parameters
        ----------
        curve : Curve or "auto"
            The curve method. One that learns from a single size of training sets uses the losses of the largest.

        Returns
        -------
        Audit
        """
        return self._each(
            lambda result: replace(result, curve_method=read_curve(curve, self._model, result.samples.loss_range))
        )

    def with_units(self, units: str) -> Audit:
        """The same audit with intervals for other units, with no further fit.

        Parameters
        ----------
        units : {"auto", "clusters", "records"}
            Clusters for intervals about new clusters of the population, records for these held-out clusters.

        Returns
        -------
        Audit
        """
        kind = choose_stored_units(units, self.samples)
        return self._each(lambda result: replace(result, pooled=result._pooled(unit_kind=kind), units_asked=units))

    def with_confidence(self, confidence_level: float) -> Audit:
        """The same audit with intervals of another level of confidence.

        Parameters
        ----------
        confidence_level : float
            Between 0 and 1.

        Returns
        -------
        Audit
        """
        level = read_confidence(confidence_level)
        return self._each(lambda result: replace(result, confidence_level=level))

    def merge(self, other: Audit) -> Audit:
        """One larger audit from two audits of the same problem with different seeds; the choices are those of this one.

        Parameters
        ----------
        other : Audit
            The other audit.

        Returns
        -------
        Audit
        """
        if not isinstance(other, Audit):
            raise InputError(f"other must be an Audit, got {short(other)}.")
        if len(self.others) != len(other.others):
            raise InputError(
                "Audits can be merged only if their metrics are the same, got "
                f"{', '.join(self.metrics)} and {', '.join(other.metrics)}."
            )
        theirs = dict(zip(self.metrics, other.metrics.values(), strict=True))

        def merged(result: Audit) -> Audit:
            samples = result.samples.merge(theirs[result.loss].samples)
            return replace(result, pooled=result._pooled(samples=samples))

        return self._each(merged)

    def suspects(self) -> Any:
        """What looks as if it had leaked, the most suspicious first, for clerical review.

        For single records, the training records that look like held-out ones; their probabilities rest on the leakage
        rate of the audit, or on the one that the data show. For fragments, the training clusters that are probably
        pieces of held-out entities, by a classifier of pairs that the observed clusters themselves teach.

        Returns
        -------
        pandas.DataFrame
            For records, one row per fold and training record, with the columns fold, record (its row), cluster (empty
            where it is held out in no fold of this audit), probability and resembles (the held-out cluster). For
            fragments, one row per fold and training cluster, with the columns fold, cluster, probability, resembles
            and records (their number).
        """
        rates = self.solution.rates
        if self.leakage is None and self.data_leakage is not None:
            rates = np.full(self.pooled.n_folds, self.data_leakage.rate)
        listed = self._model.suspects(self.samples, rates)
        if self.source.rows is None or "record" not in listed:
            return listed
        return listed.assign(record=self.source.rows[listed["record"]])

    def parts(self) -> Any:
        """The sources that the optimism rests on, and how much each of them counts.

        "seen": models without the training clusters that are probably pieces of held-out entities. "looked up": models
        without the pieces that somebody looked up. "imitated": held-out clusters that were cut on purpose, at the
        leakage rate. "curve": resamples with and without leaked records, for single records.

        Returns
        -------
        pandas.DataFrame
            One row per source, with the columns source, value, standard_error and weight; no row without a correction.
        """
        return data_frame({name: [row[name] for row in self.sources] for name in _PARTS})

    @property
    def sources(self) -> tuple[dict[str, Any], ...]:
        """The rows of `parts` as plain data."""
        if self.optimism is None:
            return ()
        sources = self.solution.correction.facts.get("parts")
        if sources is None:
            error = math.hypot(self.optimism.se_data, self.optimism.se_monte_carlo)
            return (dict(zip(_PARTS, ("curve", self.optimism.value, error, 1.0), strict=True)),)
        rows = [(each.name, self._promised(each.value), math.sqrt(each.variance), each.weight) for each in sources]
        return tuple(dict(zip(_PARTS, row, strict=True)) for row in rows)

    def review_list(self, n: int = 50, columns: Any = (), random_state: RandomState = None) -> Any:
        """Clusters for somebody to look up, drawn so that their answers say most about the optimism.

        Write into ``same_as`` the other clusters of the same entity, separated by semicolons, or "none". An empty
        cell has not been looked up. Then ``audit(..., reviewed=frame)`` uses the answers; it is best to go through the
        list from the top, which is in the order of the draw.

        Parameters
        ----------
        n : int, default=50
            Number of clusters.
        columns : names of columns, data frame with one row per record, or mapping from str to arrays, optional
            What the reader needs to see of each cluster, such as names and dates. The different values of its records
            are listed. Names are those of columns of the frame that was audited; an audit from a file has no frame.
        random_state : int, RandomState or Generator, optional
            Seed of the draw.

        Returns
        -------
        pandas.DataFrame
            One row per cluster: ``cluster``, ``records`` (their number), the given columns, ``likely_mates`` with their
            probabilities, an empty ``same_as``, and the ``inclusion_probability``.
        """
        return self._model.review_list(self.pooled, n, self._shown_columns(columns), random_state)

    def _shown_columns(self, columns: Any) -> dict[str, tuple[Codes, Any]]:
        """For every column its values, and the cluster of every record."""
        names = [columns] if isinstance(columns, str) else columns
        if isinstance(names, list | tuple):
            if names and self.records is None:
                raise InputError(
                    f"columns must be a data frame or a mapping where the audit has no data frame, got {shown(names)}."
                )
            unknown = [name for name in names if name not in self.records.columns]
            if unknown:
                known = shown(list(self.records.columns))
                raise InputError(f"columns must name columns of the data ({known}), got {short(unknown[0])}.")
            table = {name: self.records[name] for name in names}
        elif hasattr(columns, "columns") or isinstance(columns, Mapping):
            table = {name: columns[name] for name in getattr(columns, "columns", columns)}
        else:
            raise InputError(f"columns must be names of columns, a data frame or a mapping, got {short(columns)}.")
        least = 1 + max(int(fold.rows.max()) for fold in self.samples.folds)
        for name, values in table.items():
            if n_rows(f"columns[{short(name)}]", values) < least:
                raise InputError(f"columns must have one value for each of the records, got {len(values)} in {name}.")
        shown_as: dict[str, tuple[Codes, Any]] = {}
        for name, values in table.items():
            clusters = np.full(len(values), -1)
            for fold in self.samples.folds:
                clusters[fold.rows] = fold.clusters
            shown_as[str(name)] = clusters, values
        return shown_as

    def by(
        self, by: Any, *, leakage: Mapping[str, Any] | None = None, quantiles: Sequence[float] = (1 / 3, 2 / 3)
    ) -> Subgroups:
        """Naive, corrected and optimism by subgroup of records or clusters, with no further fit.

        A metric of a set of records, such as AUC, is computed anew within every subgroup. All intervals of one kind
        hold together. Subgroups of fewer than ten clusters (thirty records, where records are
        the units) are named and not judged.

        Parameters
        ----------
        by : str, array, or callable
            The subgroup of every record: the name of a column of the data frame that was audited, one value per record,
            or a function of that data frame. More than six different numbers are cut at quantiles.
        leakage : mapping from str to float or Leakage, optional
            Leakage rates of subgroups, where they are known; for the others they are what the records show or, where
            only the rate of all is known, that one and an error of how it may be split.
        quantiles : sequence of float, optional
            Where numbers are cut, by default into thirds.

        Returns
        -------
        Subgroups
        """
        return subgroups(self, by, leakage=leakage, quantiles=quantiles)

    def spread(self) -> Spread:
        """How much the corrected value differs between clusters, and what to expect of one new cluster.

        The noise of small clusters is taken off. A metric of a set of records, such as AUC, is that within each
        cluster. Refused below ten held-out clusters in which it is defined.

        Returns
        -------
        Spread
        """
        return spread(self)

    def sensitivity(self, rates: Sequence[float] | Array | None = None) -> Sensitivity:
        """The corrected value and its interval over leakage rates; each rate is taken as known.

        Parameters
        ----------
        rates : array, optional
            Leakage rates between 0 and 0.5 (0.9 for fragments), by default 31 rates from 0 to 0.3.

        Returns
        -------
        Sensitivity
        """
        wanted = np.linspace(0, 0.3, 31) if rates is None else check_vector("rates", rates)
        most = self._model.largest_rate
        if wanted.min() < 0 or wanted.max() > most:
            wrong = wanted[(wanted < 0) | (wanted > most)][0]
            raise InputError(f"rates must lie between 0 and {most}, got {wrong:g}.")
        return self._sensitivity(wanted, [value_and_ends(self.at_leakage(float(rate)).corrected) for rate in wanted])

    def sensitivity_surface(
        self, rates: Sequence[float] | Array | None = None, validation_rates: Sequence[float] | Array | None = None
    ) -> SensitivitySurface:
        """The corrected value over leakage rates of both ways, with no further fit; each is taken as known.

        Parameters
        ----------
        rates : array, optional
            Shares of the training records that truly belong to held-out clusters, by default 0, 0.05, 0.1, 0.15, 0.2.
        validation_rates : array, optional
            Shares of the held-out records that truly belong to training clusters, by default the same.

        Returns
        -------
        SensitivitySurface
        """
        default = np.array([0.0, 0.05, 0.1, 0.15, 0.2])
        p0 = default if rates is None else check_vector("rates", rates)
        r0 = default if validation_rates is None else check_vector("validation_rates", validation_rates)
        self._check_both_ways(float(r0.max()))
        audits = [[self.at_leakage(float(rate), validation=float(share)) for share in r0] for rate in p0]
        rows = np.array([[value_and_ends(result.corrected) for result in row] for row in audits])
        values, low, high = np.moveaxis(rows, 2, 0)
        return SensitivitySurface(p0, r0, values, low, high, self.confidence_level, self.metric)

    def tipping_point(self, threshold: float) -> TippingPoint:
        """The smallest leakage rate at which the corrected value is as bad as a threshold, such as a rival's.

        Rates go up to 0.5, and to 0.9 for fragments. The interval holds the rates at which the threshold lies within
        the interval of the corrected value at that rate, taken as known (:mod:`outofcluster.auditing.tipping`). It is
        rougher for curve methods without derivatives in closed form, for which few rates are looked at.

        Parameters
        ----------
        threshold : float
            A value to compare with, in the metric's own sign.

        Returns
        -------
        TippingPoint
            Its ``rate`` is None where the threshold is not reached; ``print`` it to see why.
        """
        return tipping_point_of(self, threshold)

    @property
    def rate_grid(self) -> Array:
        """Rates up to the largest one for which there can be an answer, in steps of 0.005."""
        return np.arange(round(200 * self._model.largest_rate) + 1) / 200

    # --- saved and shown -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write samples and choices to a file, a zip of arrays and JSON without pickles, complete or not there at all.

        It holds no records. For a metric of a set of records, such as AUC, it holds their targets and predictions.

        Parameters
        ----------
        path : path or binary file
            The file.
        """
        audits = tuple(_SavedAudit.of(result) for result in (self, *self.others))
        write_archive(path, _KIND, _FORMAT, audits)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an audit that `save` wrote; nothing in it is unpickled.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Audit
        """
        saved = read_archive(path, _KIND, _FORMAT, tuple[_SavedAudit, ...])
        first, *others = (cls(**each.arguments) for each in saved)
        return replace(first, others=tuple(others))

    @cached_property
    def summary(self) -> Summary:
        """All numbers as plain data, with the corrected value over rates from 0 to 0.5, or to 0.9 if the rate is above.

        For a curve method with derivatives in closed form there are 101 rates, in steps of 0.005. For other methods
        every interval needs a resampling of its own, so there are eight rates and the assumed one, and their intervals
        are rougher than those of `sensitivity`: they come from 50 draws instead of 300.
        """
        curve = self.curve
        whole = replace(
            self._brief,
            curve=None if curve is None else FittedCurve.of(self.pooled, curve, self.solution.mean_rate),
            sensitivity=self._overview(),
            by_fold=tuple(replace(fold, corrected=self._corrected_of(i)) for i, fold in enumerate(self._brief.by_fold)),
        )
        return replace(whole, methods=self._methods(whole))

    def of_fold(self, position: int) -> Audit:
        """The audit of one fold alone, which is noisier than that of all folds.

        Parameters
        ----------
        position : int
            Position of the fold among those that were audited.

        Returns
        -------
        Audit
        """
        return replace(
            self,
            pooled=self._pooled(samples=replace(self.samples, folds=(self.samples.folds[position],))),
            leakage=None if self.leakage is None else (self.leakage[position],),
            others=(),
        )

    def _corrected_of(self, position: int) -> float | None:
        """The corrected value of a fold; None without a rate, and where the fold's own losses cannot be solved."""
        if self.leakage is None:
            return None
        try:
            fold = self.of_fold(position)
            if self.from_data and fold.pooled.measured is not None:
                return self.metric.shown(fold.pooled.naive + fold.pooled.measured.value)
            return fold.value_at(self.leakage[position].rate)
        except (InputError, SolverError):
            return None

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        return self.summary.to_dict()

    def to_json(self) -> str:
        """The summary as JSON, which ``Summary.from_json`` reads.

        Returns
        -------
        str
            The JSON text.
        """
        return self.summary.to_json()

    def to_frame(self) -> Any:
        """The estimates as a table.

        Returns
        -------
        pandas.DataFrame
            One row per estimate: naive, iid and, with a leakage rate, corrected and optimism.
        """
        return self._brief.to_frame()

    def explain(self) -> str:
        """What the answer rests on, in full: where the rate comes from, what intervals cover, and all notes.

        Returns
        -------
        str
            Several lines of text, to be printed.
        """
        return Text(self._brief.explain())

    def methods_text(self) -> str:
        """What was done and what came out, in words for a paper, following the order of TRIPOD+AI.

        Returns
        -------
        str
            Three paragraphs: methods, results and limitations. Every number in them is one of this audit.
        """
        # Without a rate the text names values at other rates, which the summary has.
        return Text(self.summary.methods if self.leakage is None else self._methods(self._brief))

    def checklist(self, *by: Any) -> Checklist:
        """What reporting guidelines ask for: TRIPOD+AI, REFORMS and GUILD, with what only you know to be filled in.

        Parameters
        ----------
        *by : Subgroups, str, array, or callable
            Subgroups that count for you, as `by` gives or takes them.

        Returns
        -------
        Checklist
            ``print`` it for Markdown. Every number in it is one of this audit, and nothing is fitted.
        """
        summary = self._brief if self.leakage is not None else self.summary
        groups = [each if isinstance(each, Subgroups) else self.by(each) for each in by]
        return checklist(summary, **self._counts, spread=self._spread_or_reason(), by=groups)

    def _spread_or_reason(self) -> Spread | InputError:
        """The spread by the first metric that single records have, or why there is none."""
        reasons = list[InputError]()
        for result in self.metrics.values():
            try:
                return result.spread()
            except InputError as error:
                reasons.append(error)
        return reasons[0]

    def __str__(self) -> str:
        return str(self._brief)

    def _repr_html_(self) -> str:
        return self._brief._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss curve; needs matplotlib. Other pictures are in :mod:`outofcluster.present.display`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LossCurveDisplay
        """
        from outofcluster.present.display import LossCurveDisplay

        return LossCurveDisplay.from_audit(self).plot(ax)

    def write_html(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a report, one self-contained HTML file; needs jinja2.

        Parameters
        ----------
        path : path
            The file.
        **options : dict
            Options of :func:`outofcluster.present.report.write_html`, such as a title.
        """
        from outofcluster.present.report import write_html

        write_html(self, path, **options)

    # --- how the numbers come about -------------------------------------------------------------------

    @cached_property
    def solution(self) -> Solution:
        """All numbers as losses, of which lower ones are better."""
        rates = np.array([leak.rate for leak in self.leakage or ()])
        stds = np.array([leak.std or 0.0 for leak in self.leakage or ()])
        return Solution(self.pooled, self.curve_method, self.confidence_level, rates, stds, self.from_data)

    def value_at(self, rate: float) -> float:
        """The corrected value at a leakage rate, without an interval.

        Parameters
        ----------
        rate : float
            The rate, the same in every fold.

        Returns
        -------
        float
        """
        share, most = check_share("rate", rate), self._model.largest_rate
        if share > most:
            raise InputError(f"rate must be at most {most}, beyond which nothing can be told, got {share:g}.")
        return self.metric.shown(self.solution.loss_at(share))

    def _each(self, change: Callable[[Audit], Audit]) -> Audit:
        """The same change to this audit and to those of the other metrics."""
        return replace(change(self), others=tuple(change(result) for result in self.others))

    def _sensitivity(self, rates: Array, rows: Sequence[tuple[float, float, float]]) -> Sensitivity:
        values, low, high = np.array(rows).T
        return Sensitivity(rates, values, low, high, self.confidence_level, self.error_model, self.metric)

    @cached_property
    def _brief(self) -> Summary:
        """The summary without what printing does not need."""
        aucs = [fold.sides.auc for fold in self.samples.folds if fold.sides is not None]
        made: dict[str, Any] = {
            "version": __version__,
            "estimator": self.samples.estimator,
            "curve_method": repr(self.curve_method),
            "test": None if self.test is None else {**self.test.to_dict(), "sentence": self.test.sentence},
            "levels": tuple(self.pooled.injected.tolist()),
            "losses": tuple(self.metric.shown(self.pooled.means).tolist()),
            "standard_errors": tuple(np.sqrt(self.pooled.monte_carlo).tolist()),
            "sizes": self.pooled.sizes if self._model.has_sizes else (),
            "by_fold": tuple(FoldSummary.of(fold, self.metric) for fold in self.samples.folds),
            "versions": self.samples.versions,
            "unmixed": UnmixedLosses.of(self.pooled, self.curve),
            "auc": float(np.mean(aucs)) if aucs else None,
            "metrics": tuple(
                MetricSummary(result.metric, result.naive, result.corrected, result.optimism)
                for result in self.metrics.values()
                if self.others
            ),
            "curve": None,
            "sensitivity": None,
            "methods": "",
            "at_least": self.solution.at_least,
            "sources": tuple(SourceSummary(**source) for source in self.sources),
            "seen": SeenSummary.of(self.samples),
            "looked_up": LookedUpSummary.of(self.samples),
        }
        # Whatever else a summary has, an audit has by the same name.
        shared = [field.name for field in fields(Summary) if field.name not in made]
        return Summary(**made, **{name: getattr(self, name) for name in shared})

    def _methods(self, summary: Summary) -> str:
        return methods_text(summary, **self._counts)

    @property
    def _counts(self) -> dict[str, Any]:
        """Records and clusters that were held out, and whether models were fitted without some of the others."""
        rows = np.unique(np.concatenate([fold.rows for fold in self.samples.folds]))
        clusters = np.unique(np.concatenate([fold.clusters for fold in self.samples.folds]))
        below = any(UNMIXED in fold.runs or fold.measured for fold in self.samples.folds)
        return {"n_records": len(rows), "n_clusters": len(clusters), "left_out": below}

    def _overview(self) -> Sensitivity | None:
        """The summary's sensitivity; None where the curve cannot be solved for these losses."""
        rows = {0.0: value_and_ends(self.naive)}
        known = {(leak.rate, leak.std or 0.0) for leak in self.leakage or ()}
        try:
            if self.solution.is_exact:
                largest = max(self.solution.rates, default=0.0)
                return self.sensitivity(_FINE if largest <= _FINE[-1] else self.rate_grid)
            if self.corrected is not None and len(known) == 1 and (single := known.pop())[1] == 0:
                rows[single[0]] = value_and_ends(self.corrected)
            for rate in _COARSE:
                if rate not in rows:
                    rows[rate] = value_and_ends(self.solution.roughly_at(rate).shown_as(self.metric))
        except (InputError, SolverError):
            return None
        rates = sorted(rows)
        return self._sensitivity(np.array(rates), [rows[rate] for rate in rates])


_KIND, _FORMAT = "an audit", 6


@dataclass(frozen=True)
class _SavedAudit:
    """The samples and the choices of one metric's audit, as its file holds them."""

    samples: AuditSamples
    units: str
    validation_leakage: float
    leakage: tuple[Leakage, ...] | None
    curve: dict[str, Any]
    confidence_level: float
    mute: tuple[str, ...]
    error_model_reason: str
    units_asked: str
    data_leakage: Leakage | None
    from_data: bool
    table: TableAccount
    source: Source

    @classmethod
    def of(cls, audit: Audit) -> Self:
        """What a file holds of an audit; refuses a curve that cannot be made from its name and its parameters."""
        curve = audit.curve_method
        params = curve.get_params()
        simple = all(value is None or isinstance(value, bool | int | float | str) for value in params.values())
        if not simple or type(curve) not in _curves().values():
            raise InputError(
                f"curve must have numbers as parameters for the audit to be saved, got {short(curve)}; "
                "save with_curve(…) of another one."
            )
        named = {field.name: getattr(audit, field.name) for field in fields(cls) if field.name != "curve"}
        return cls(curve={"name": type(curve).__name__, "params": params}, **named)

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the audit."""
        choices = {field.name: getattr(self, field.name) for field in fields(self)}
        samples, units, reverse = (choices.pop(name) for name in ("samples", "units", "validation_leakage"))
        pooled = error_model_of(samples).pooled(samples, units, reverse)
        curve = choices.pop("curve")
        return choices | {"pooled": pooled, "curve_method": _curves()[curve["name"]](**curve["params"])}


def _curves() -> dict[str, type[Curve]]:
    """The curve methods of this package by name; those of others cannot be made from a file."""
    return {kind.__name__: kind for kind in Curve.__subclasses__() if kind.__module__.startswith("outofcluster.")}
