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

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from outofcluster._base.exceptions import FitError, InputError, SolverError
from outofcluster._base.plain import data_frame
from outofcluster._base.rows import n_rows
from outofcluster._base.text import percentage
from outofcluster.auditing.choices import read_rates
from outofcluster.auditing.result import Audit
from outofcluster.auditing.run import audit
from outofcluster.auditing.several import AuditOptions, SeveralAudits, check_options, checkpoint_of_part, common_seed
from outofcluster.auditing.summary_parts import in_digits, mean_rate, value_and_ends
from outofcluster.errormodels.choose import choose_error_model
from outofcluster.errormodels.pieces import Pieces
from outofcluster.inference.estimates import Estimate, decimals
from outofcluster.problem.folds import ClusterSizes, Fold, is_splitter, label_codes, make_folds
from outofcluster.problem.problem import by_threshold, check_cloneable, named_columns, named_groups, read_clusterings


def sweep(estimator: Any, X: Any, y: Any, groups_by_threshold: Any, **options: Unpack[AuditOptions]) -> Sweep:
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
    **options : dict
        The options of `audit`, such as ``scoring``, ``n_fits`` and ``random_state``, the same at all thresholds.
        By default each threshold goes by what its own records show. ``leakage`` may also be a dict of rates by
        threshold: a tighter clustering leaks more, so that one rate is rarely right for all. Folds are made anew at
        each threshold; pairs of rows as ``cv`` must suit the clusters of every threshold. Of several metrics, the sweep
        is about the first one, and ``sweep.metrics`` has one for each. The threshold is added to the names of the files
        of a ``checkpoint``.

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
    check_options("sweep", options)
    if options.get("reviewed") is not None:
        raise InputError("reviewed must be left out of sweep(), got a list: it is about the clusters of one threshold.")
    check_cloneable("estimator", estimator)
    X, groups_by_threshold = named_groups(X, groups_by_threshold)
    X, y, _ = named_columns(X, y, None)
    clusterings = read_clusterings(groups_by_threshold, n_rows("X", X))
    rates = _read_rates(options.get("leakage", "data"), tuple(clusterings))
    sizes = {threshold: ClusterSizes.of(label_codes(labels)[0]) for threshold, labels in clusterings.items()}
    folds, left_out = _folds(X, y, clusterings, options.get("cv"))
    shared: AuditOptions = {
        **options,
        "error_model": _check_rates(options.get("error_model", "auto"), rates, clusterings, folds),
        "random_state": common_seed(options.get("random_state")),
    }
    audits, failures = dict[float, Audit](), list[Exception]()
    for threshold, of_threshold in folds.items():
        shared["leakage"] = rates[threshold]
        shared["cv"] = [(fold.train, fold.validation) for fold in of_threshold]
        shared["checkpoint"] = checkpoint_of_part(options, f".threshold{threshold:.12g}")
        try:
            result = audit(estimator, X, y, groups=clusterings[threshold], **shared)
            str(result.corrected)  # A curve that does not suit the losses fails here, and not when all are printed.
            audits[threshold] = result
        except (FitError, InputError, SolverError) as error:
            failures.append(error)
            left_out[threshold] = str(error)
    if not audits:
        if isinstance(failures[0], InputError):
            raise failures[0]
        raise FitError(f"No threshold could be audited; the first: {failures[0]}", None)
    return Sweep(audits, dict(sorted(left_out.items())), sizes)


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
) -> tuple[dict[float, tuple[Fold, ...]], dict[float, str]]:
    """The folds of every threshold, and why some thresholds have none."""
    by_rows = cv is not None and not is_splitter(cv) and not isinstance(cv, int | float | np.number | str | type)
    if by_rows:
        cv = list(cv) if hasattr(cv, "__iter__") else cv
    folds, failures = dict[float, tuple[Fold, ...]](), dict[float, InputError]()
    for threshold, labels in clusterings.items():
        try:
            folds[threshold] = make_folds(X, y, labels, cv)
        except InputError as error:
            if by_rows:
                raise _at_threshold(error, threshold) from None
            failures[threshold] = error
    if not folds:
        raise next(iter(failures.values()))
    return folds, {threshold: str(error) for threshold, error in failures.items()}


def _check_rates(
    error_model: Any,
    rates: Mapping[float, Any],
    clusterings: Mapping[float, Any],
    folds: Mapping[float, Sequence[Fold]],
) -> Any:
    """The error model of all thresholds, for which every rate is checked; "auto" where that says the same for all."""
    codes = {threshold: label_codes(clusterings[threshold])[0] for threshold in folds}
    chosen = {
        threshold: choose_error_model(error_model, rates[threshold], of_threshold, codes[threshold])[0]
        for threshold, of_threshold in folds.items()
    }
    several = len({model.name for model in chosen.values()}) > 1
    for threshold, of_threshold in folds.items():
        model = Pieces() if several else chosen[threshold]
        try:
            read_rates(rates[threshold], model, of_threshold, len(codes[threshold]))
        except InputError as error:
            raise _at_threshold(error, threshold) from None
    return Pieces.name if several else error_model


def _at_threshold(error: InputError, threshold: float) -> InputError:
    return InputError(f"{str(error).rstrip('.')} (at threshold {threshold:g}).")


@dataclass(frozen=True)
class Sweep(SeveralAudits[float]):
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

    sizes: dict[float, ClusterSizes]

    _schema = 1
    _by = " by linkage threshold"
    _header = ("threshold", "leakage", "clusters", "largest", "as it is", "corrected", "optimism")

    @property
    def thresholds(self) -> tuple[float, ...]:
        """All thresholds, from the lowest to the highest."""
        return tuple(self.sizes)

    @property
    def largest_cluster(self) -> dict[float, float]:
        """Share of the records that the largest cluster holds, by threshold."""
        return {threshold: sizes.share for threshold, sizes in self.sizes.items()}

    @property
    def leakage(self) -> dict[float, float]:
        """The leakage rate by threshold, given or seen, averaged over the folds; NaN where there is none."""
        return {threshold: mean_rate(result.leakage, result.samples.folds) for threshold, result in self.audits.items()}

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
    def advice(self) -> str:
        """How to group the cross-validation, in one sentence."""
        until = "Group the cross-validation more loosely than the linkage product, until a giant cluster forms"
        if not self.giants:
            return f"{until}: at {self.thresholds[0]:g}, the lowest of these thresholds, there is none yet."
        highest = max(self.giants)
        share = f"one cluster holds {percentage(self.sizes[highest].share)} of the records"
        looser = [threshold for threshold in self.thresholds if threshold > highest]
        if not looser:
            return f"{until}: even at {highest:g} {share}, so that a higher threshold is needed."
        return f"{until}: at {highest:g} {share}, so that {looser[0]:g} is the loosest of these thresholds to use."

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per threshold: leakage, number of clusters, share of the largest one, scored records, and naive,
            corrected and optimism with the ends of their intervals. A threshold that could not be audited has NaN,
            and the reason as ``problem``.
        """
        return data_frame([self._row(threshold) for threshold in self.thresholds])

    def _row(self, threshold: float) -> dict[str, Any]:
        sizes, result = self.sizes[threshold], self.audits.get(threshold)
        row: dict[str, Any] = {
            "threshold": threshold,
            "leakage": self.leakage.get(threshold, math.nan),
            "error_model": "" if result is None else result.error_model,
            "clusters": sizes.n_clusters,
            "largest_cluster": sizes.share,
            "scored": 0 if result is None else sum(fold.n_validation for fold in result.samples.folds),
        }
        for name in ("naive", "corrected", "optimism"):
            estimate = None if result is None else getattr(result, name)
            row |= zip((name, f"{name}_low", f"{name}_high"), value_and_ends(estimate), strict=True)
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

    @property
    def _content(self) -> dict[str, Any]:
        return {
            "metric": self.metric,
            "thresholds": [self._row(threshold) for threshold in self.thresholds],
            "advice": self.advice,
            "audits": {f"{threshold:.12g}": result.to_dict() for threshold, result in self.audits.items()},
        }

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """One row of words per threshold: leakage, clusters, the largest one, as it is, corrected and optimism."""
        digits = decimals(*self.naive.values(), *self.corrected.values())
        cells = list[tuple[str, ...]]()
        for threshold, sizes in self.sizes.items():
            result = self.audits.get(threshold)
            rate, estimates = "", ["left out", "", ""]
            if result is not None:
                rate = "not seen" if result.from_data else "not given"
                if result.leakage is not None:
                    rate = f"{percentage(self.leakage[threshold])}{' seen' if result.from_data else ''}"
                estimates = in_digits(digits, result.naive, result.corrected, result.optimism)
            cells.append((f"{threshold:g}", rate, str(sizes.n_clusters), percentage(sizes.share), *estimates))
        return cells

    @property
    def _answers(self) -> list[str]:
        return [self.advice]
