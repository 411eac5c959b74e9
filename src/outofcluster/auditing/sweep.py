"""One audit per linkage threshold, to see which clusters a cross-validation should keep together.

A linkage product needs clusters that are right, so its threshold weighs splits against merges. A cross-validation does
not: a merge only ties two entities together, which costs a little variance, while a split leaks and makes the loss too
small. So folds should be made of looser clusters than the product has. There is an end to it. Below some threshold most
clusters chain up to one giant (:mod:`outofcluster.problem.folds`), which fills a fold alone and leaves few records
to train or to score on.

Everything is checked before the first fit. All thresholds have the same seed and the same error model: where "auto"
would choose different ones, that of fragments is taken, since clusters that look like linked entities at one threshold
are linked at the others too. A threshold that cannot be audited (one cluster only, folds that cannot be made, an
estimator that fails) is named with its reason, and the others are audited.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import FitError, InputError, SolverError
from outofcluster._base.plain import data_frame, plain
from outofcluster._base.rows import n_rows
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster._base.text import element, fragment, table
from outofcluster.auditing.choices import asks_the_data, choose_error_model, read_leakage
from outofcluster.auditing.findings import Finding, in_words
from outofcluster.auditing.result import Audit
from outofcluster.auditing.run import audit
from outofcluster.curves.base import Curve
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.columns import by_threshold, named_clusterings, named_columns, read_clusterings
from outofcluster.problem.folds import Clusters, ClusterSizes, Fold, Rows, is_splitter, label_codes, make_folds
from outofcluster.problem.problem import check_cloneable

_SCHEMA = 1
_HEADER = ("threshold", "leakage", "clusters", "largest", "as it is", "corrected", "optimism")


def sweep(
    estimator: Any,
    X: Any,
    y: Any,
    groups_by_threshold: Any,
    *,
    leakage: Any = None,
    error_model: Literal["auto", "records", "fragments"] = "auto",
    cv: Any = None,
    loss: Any = None,
    scoring: Any = None,
    pool: Literal["records", "folds"] | None = None,
    pos_label: Any = None,
    score_weight: Any = None,
    curve: Literal["auto"] | Curve = "auto",
    n_fits: int | None = None,
    n_train: int | None = None,
    units: Literal["auto", "clusters", "records"] = "auto",
    params: dict[str, Any] | None = None,
    unmix: Any = "auto",
    confidence_level: float = 0.95,
    mute: Sequence[str] = (),
    kernel: bool | Literal["auto"] = "auto",
    n_jobs: int | None = None,
    random_state: RandomState = None,
    progress: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Sweep:
    """Audit a model at several linkage thresholds.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn estimator or Pipeline; it is cloned, never fitted itself.
    X, y : array, sparse matrix, or data frame; array or str
        Records and targets, or the name of the column of the targets where X is a data frame.
    groups_by_threshold : dict or data frame
        Approximate cluster of every record by linkage threshold, in the order of ``X``. The values of a dict may be
        names of columns of ``X``, which then are no features. The columns of a data frame are
        thresholds, or names that end with one, such as splink's ``cluster_p_0_95``. Clusters at a higher threshold lie
        inside those at a lower one.
    leakage : float, Leakage, one for each fold, "data", or a dict of these by threshold, optional
        The leakage rate, as in `audit`: one for all thresholds, or one for each of them. A tighter clustering leaks
        more, so that one rate is rarely right for all.
    error_model : {"auto", "records", "fragments"}
        How clustering errors happen, as in `audit`, and the same at all thresholds.
    cv : int, splitter or iterable, optional
        Folds that keep every approximate cluster on one side, made anew at each threshold; 5 group folds by default.
        Pairs of rows must suit the clusters of every threshold.
    loss : str or callable, optional
        As in `sample_losses`.
    scoring : str, scorer, callable, or a list or dict of these, optional
        Metrics in the place of a loss, as in `audit`. Of several, the sweep is about the first one, and
        ``sweep.metrics`` has one for each.
    pool : {"records", "folds"}, optional
        How a metric is pooled over folds, as in `audit`.
    pos_label : label, optional
        The positive one of two classes, as in `audit`.
    score_weight : array, optional
        Weight of every record in scoring, as in `audit`.
    curve : Curve, optional
        Curve method, as in `audit`.
    n_fits : int, optional
        Models to fit at each threshold, over all folds, as in `audit`.
    n_train : int, optional
        Size of a resample, by default that of the smallest training set.
    units : {"auto", "clusters", "records"}
        What the intervals are about: new clusters of the population, or these held-out clusters.
    params : dict, optional
        Parameters of ``fit``, as in `audit`.
    unmix : {"auto", False} or classifier
        Whether some models are fitted without the training records that look leaked, as in `audit`.
    confidence_level : float, default=0.95
        Confidence level of the intervals.
    mute : sequence of str
        Codes of findings to leave out.
    kernel : {"auto", True, False}
        Whether a compiled kernel is used where there is one, as in `sample_losses`.
    n_jobs : int, optional
        Workers, as in joblib. The result does not depend on it.
    random_state : int, RandomState or Generator, optional
        Seed, or where to draw one from; every threshold has the same.
    progress : bool, default=False
        Show a bar for each threshold, on a terminal or in a notebook.
    checkpoint : path, optional
        As in `audit`; the threshold is added to the names of its files.

    Returns
    -------
    Sweep

    Examples
    --------
    Sixty patients with four visits each. At the higher threshold a tenth of the visits is not linked:

    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> patient = np.repeat(np.arange(60), 4)
    >>> level = rng.standard_normal((60, 3))
    >>> X = level[patient] + 0.2 * rng.standard_normal((240, 3))
    >>> y = (level[:, 0] + rng.standard_normal(60) > 0)[patient]
    >>> tight = np.where(rng.random(240) < 0.1, 60 + np.arange(240), patient)
    >>> leakage = {0.5: 0.0, 0.9: ooc.Leakage.from_true_groups(patient, tight)}
    >>> linked = {0.5: patient, 0.9: tight}
    >>> swept = ooc.sweep(KNeighborsClassifier(1), X, y, linked, leakage=leakage, n_fits=80, random_state=0)
    >>> swept.to_frame()[["threshold", "leakage", "clusters", "largest_cluster"]].round(3)
       threshold  leakage  clusters  largest_cluster
    0        0.5    0.000        60            0.017
    1        0.9    0.357        90            0.017
    >>> swept.optimism[0.9].value > 0
    True
    >>> print(swept.advice)
    Group the cross-validation more loosely than the linkage product, until a giant cluster forms: at 0.5, the lowest of
    these thresholds, there is none yet.
    """
    check_cloneable("estimator", estimator)
    X, groups_by_threshold = named_clusterings(X, groups_by_threshold)
    X, y, _ = named_columns(X, y, None)
    clusterings = read_clusterings(groups_by_threshold, n_rows("X", X))
    rates = _read_rates(leakage, tuple(clusterings))
    sizes = {threshold: ClusterSizes.of(label_codes(labels)[0]) for threshold, labels in clusterings.items()}
    folds, left_out, first = _folds(X, y, clusterings, cv)
    model = _check_rates(error_model, rates, clusterings, folds)
    seed = seed_of(random_state)
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    audits, first_of_audits = dict[float, Audit](), None
    for threshold, own in folds.items():
        try:
            audits[threshold] = _solved(
                audit(
                    estimator,
                    X,
                    y,
                    groups=clusterings[threshold],
                    leakage=rates[threshold],
                    error_model=model,
                    cv=[(fold.train, fold.validation) for fold in own],
                    loss=loss,
                    scoring=scoring,
                    pool=pool,
                    pos_label=pos_label,
                    score_weight=score_weight,
                    curve=curve,
                    n_fits=n_fits,
                    n_train=n_train,
                    units=units,
                    params=params,
                    unmix=unmix,
                    confidence_level=confidence_level,
                    mute=mute,
                    kernel=kernel,
                    n_jobs=n_jobs,
                    random_state=seed,
                    progress=progress,
                    checkpoint=None if checkpoint is None else f"{os.fspath(checkpoint)}.threshold{threshold:.12g}",
                )
            )
        except (FitError, InputError, SolverError) as error:
            first_of_audits = first_of_audits or error
            left_out[threshold] = str(error)
    if not audits:
        reason = first_of_audits or first
        if isinstance(reason, InputError):
            raise reason
        raise FitError(f"No threshold could be audited; the first: {reason}", None)
    return Sweep(audits, dict(sorted(left_out.items())), sizes)


def _solved(result: Audit) -> Audit:
    """The same audit, solved: a curve that does not suit the losses fails here, and not when all audits are printed."""
    str(result.corrected)
    return result


def _read_rates(leakage: Any, thresholds: Sequence[float]) -> dict[float, Any]:
    """What was said about leakage at each threshold, not yet checked."""
    if not isinstance(leakage, Mapping):
        return dict.fromkeys(thresholds, leakage)
    rates = by_threshold("leakage", leakage)
    missing = [threshold for threshold in thresholds if threshold not in rates]
    unknown = [threshold for threshold in rates if threshold not in thresholds]
    if missing:
        raise InputError(f"leakage must have a rate for every threshold, got none for {missing[0]:g}.")
    if unknown:
        listed = ", ".join(f"{threshold:g}" for threshold in thresholds)
        raise InputError(f"leakage must have rates for the thresholds {listed} only, got one for {unknown[0]:g}.")
    return rates


def _folds(
    X: Any, y: Any, clusterings: Mapping[float, Any], cv: Any
) -> tuple[dict[float, tuple[Fold, ...]], dict[float, str], InputError | None]:
    """The folds of every threshold, why some thresholds have none, and the first error."""
    by_rows = cv is not None and not is_splitter(cv) and not isinstance(cv, int | float | np.number | str | type)
    if by_rows:
        cv = list(cv) if hasattr(cv, "__iter__") else cv
    folds, left_out, first = dict[float, tuple[Fold, ...]](), dict[float, str](), None
    for threshold, labels in clusterings.items():
        try:
            folds[threshold] = make_folds(X, y, labels, cv)
        except InputError as error:
            if by_rows:
                raise InputError(f"{str(error).rstrip('.')} (at threshold {threshold:g}).") from None
            first = first or error
            left_out[threshold] = str(error)
    if first is not None and not folds:
        raise first
    return folds, left_out, first


def _check_rates(
    error_model: Any,
    rates: Mapping[float, Any],
    clusterings: Mapping[float, Any],
    folds: Mapping[float, Sequence[Fold]],
) -> Any:
    """The error model of all thresholds, for which every rate is checked; "auto" where that says the same for all."""
    codes: dict[float, Rows] = {threshold: Clusters.of(clusterings[threshold], None).codes for threshold in folds}
    chosen = {
        threshold: choose_error_model(error_model, rates[threshold], own, codes[threshold])[0]
        for threshold, own in folds.items()
    }
    several = len(set(chosen.values())) > 1
    for threshold, own in folds.items():
        rate, model = rates[threshold], "fragments" if several else chosen[threshold]
        try:
            if rate is not None and not asks_the_data(rate, model):
                read_leakage(rate, model, len(own))
        except InputError as error:
            raise InputError(f"{str(error).rstrip('.')} (at threshold {threshold:g}).") from None
    return "fragments" if several else error_model


@dataclass(frozen=True)
class Sweep:
    """Audits of one model at several linkage thresholds.

    Attributes
    ----------
    audits : dict of Audit
        By threshold, from the lowest to the highest.
    left_out : dict of str
        Thresholds that could not be audited, and why.
    sizes : dict of ClusterSizes
        Number of clusters and size of the largest one, by threshold, of all thresholds.
    """

    audits: dict[float, Audit]
    left_out: dict[float, str]
    sizes: dict[float, ClusterSizes]

    @property
    def thresholds(self) -> tuple[float, ...]:
        """All thresholds, from the lowest to the highest."""
        return tuple(self.sizes)

    @property
    def metric(self) -> MetricFacts:
        """What is measured."""
        return next(iter(self.audits.values())).metric

    @property
    def metrics(self) -> dict[str, Sweep]:
        """The sweep by each metric, by its name, this one first."""
        names = next(iter(self.audits.values())).metrics
        return {name: replace(self, audits={t: a.metrics[name] for t, a in self.audits.items()}) for name in names}

    @property
    def clusters(self) -> dict[float, int]:
        """Number of clusters by threshold."""
        return {threshold: sizes.n_clusters for threshold, sizes in self.sizes.items()}

    @property
    def largest_cluster(self) -> dict[float, float]:
        """Share of the records that the largest cluster holds, by threshold."""
        return {threshold: sizes.share for threshold, sizes in self.sizes.items()}

    @property
    def leakage(self) -> dict[float, float]:
        """The leakage rate by threshold, averaged over the folds; NaN where none was given."""
        return {threshold: _rate(result) for threshold, result in self.audits.items()}

    @property
    def naive(self) -> dict[float, Estimate]:
        """The cross-validated loss or metric by threshold."""
        return {threshold: result.naive for threshold, result in self.audits.items()}

    @property
    def corrected(self) -> dict[float, Estimate]:
        """The loss or metric on new clusters by threshold, where there is a leakage rate."""
        return {t: result.corrected for t, result in self.audits.items() if result.corrected is not None}

    @property
    def optimism(self) -> dict[float, Estimate]:
        """By how much cross-validation is too optimistic, by threshold, where there is a leakage rate."""
        return {t: result.optimism for t, result in self.audits.items() if result.optimism is not None}

    @property
    def giants(self) -> tuple[float, ...]:
        """Thresholds at which one giant cluster holds a large part of the records."""
        return tuple(threshold for threshold, sizes in self.sizes.items() if sizes.is_giant)

    @property
    def findings(self) -> dict[float, tuple[Finding, ...]]:
        """The findings of each audit, the most severe first."""
        return {threshold: result.findings for threshold, result in self.audits.items()}

    @property
    def advice(self) -> str:
        """How to group the cross-validation, in one sentence."""
        until = "Group the cross-validation more loosely than the linkage product, until a giant cluster forms"
        if not self.giants:
            return f"{until}: at {self.thresholds[0]:g}, the lowest of these thresholds, there is none yet."
        highest = max(self.giants)
        share = f"one cluster holds {_percent(self.sizes[highest].share)} of the records"
        looser = [threshold for threshold in self.thresholds if threshold > highest]
        if not looser:
            return f"{until}: even at {highest:g} {share}, so that a higher threshold is needed."
        return f"{until}: at {highest:g} {share}, so that {looser[0]:g} is the loosest of these thresholds to use."

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        data: dict[str, Any] = plain(
            {
                "schema": _SCHEMA,
                "metric": self.metric,
                "thresholds": self._rows,
                "advice": self.advice,
                "audits": {f"{threshold:.12g}": result.to_dict() for threshold, result in self.audits.items()},
            }
        )
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

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per threshold: leakage, number of clusters, share of the largest one, scored records, and naive,
            corrected and optimism with the ends of their intervals. A threshold that could not be audited has NaN,
            and the reason as ``problem``.
        """
        return data_frame(self._rows)

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return [self._row(threshold) for threshold in self.thresholds]

    def _row(self, threshold: float) -> dict[str, Any]:
        sizes, result = self.sizes[threshold], self.audits.get(threshold)
        row: dict[str, Any] = {
            "threshold": threshold,
            "leakage": math.nan if result is None else _rate(result),
            "error_model": "" if result is None else result.error_model,
            "clusters": sizes.n_clusters,
            "largest_cluster": sizes.share,
            "scored": 0 if result is None else sum(fold.n_validation for fold in result.samples.folds),
        }
        for name in ("naive", "corrected", "optimism"):
            estimate = None if result is None else getattr(result, name)
            low, high = (math.nan, math.nan) if estimate is None else estimate.interval
            row |= {name: math.nan if estimate is None else estimate.value, f"{name}_low": low, f"{name}_high": high}
        return row | {"problem": self.left_out.get(threshold, "")}

    def plot(self, ax: Any = None) -> Any:
        """Draw the values by threshold, above the leakage rate and the largest cluster; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SweepDisplay
        """
        from outofcluster.present.display import SweepDisplay

        return SweepDisplay.from_sweep(self).plot(ax)

    def __str__(self) -> str:
        better = "greater" if self.metric.greater_is_better else "smaller"
        rows = [_HEADER, *self.cells]
        widths = [max(len(row[place]) for row in rows) for place in range(len(_HEADER))]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([f"{self.metric.title} by linkage threshold, {better} is better", *lines, *self.sentences])

    def _repr_html_(self) -> str:
        sentences = [element("p", line) for line in self.sentences]
        label = self.metric.label
        header = (*_HEADER[:4], f"{label} as it is", f"corrected {label}", _HEADER[6])
        return fragment(table(header, self.cells), *sentences)

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """One row of words per threshold: leakage, clusters, the largest one, as it is, corrected and optimism."""
        known = [*self.naive.values(), *self.corrected.values()]
        digits = decimals(*known)

        def words(estimate: Estimate | None) -> str:
            return "" if estimate is None else f"{fixed(estimate.value, digits)} ({between(estimate, digits)})"

        cells = list[tuple[str, ...]]()
        for threshold, sizes in self.sizes.items():
            result = self.audits.get(threshold)
            facts = (f"{threshold:g}", "", str(sizes.n_clusters), _percent(sizes.share))
            if result is None:
                cells.append((*facts, "left out", "", ""))
                continue
            rate = "not given" if result.leakage is None else _percent(_rate(result))
            estimates = (words(result.naive), words(result.corrected), words(result.optimism))
            cells.append((facts[0], rate, *facts[2:], *estimates))
        return cells

    @property
    def sentences(self) -> list[str]:
        """The advice, warnings and severe findings, and what was left out."""
        sentences = [self.advice, *in_words({f"{threshold:g}": own for threshold, own in self.findings.items()})]
        return sentences + [f"{t:g} was left out: {reason}" for t, reason in self.left_out.items()]


def _rate(result: Audit) -> float:
    """The leakage rate, averaged over the records that the folds score."""
    if result.leakage is None:
        return math.nan
    rates: Array = np.array([leak.rate for leak in result.leakage])
    return float(np.average(rates, weights=[fold.n_validation for fold in result.samples.folds]))


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"
