r"""Several models on the same resamples: the interval of their difference, and whether correcting changes the ranking.

Models are audited on the same folds with the same random numbers, so that replicate r at level i trains every
model on the same records. :mod:`outofcluster.inference.intervals` says how the interval of a difference follows.

*The chance that the order changes.* Let :math:`\hat c_1, …, \hat c_M` be the corrected losses, with the models numbered
in the order that cross-validation gives them, the best first. That order is right if all differences of neighbours in
it, :math:`δ_j = c_{j+1} - c_j`, are positive. The estimated differences are taken as jointly normal around the true
ones, so that what is known about δ is a normal distribution around :math:`\hat δ`, and

.. math:: P(\text{the order changes}) = 1 - P(δ_1 > 0, …, δ_{M-1} > 0) .

Its covariances follow from the variances :math:`V_{ab}` of the paired differences alone, since

.. math:: \operatorname{Cov}(c_a - c_b,\, c_d - c_e) = \tfrac12 (V_{ae} + V_{bd} - V_{ad} - V_{be}) ,

so all that the models share (hard clusters, resamples, the leakage rate) cancels here as it does in the differences.
V has both sources of error, the data and the fits. Each variance has its own correction for the noise of few fits,
which may leave a matrix with slightly negative eigenvalues: these are set to 0. For two models the chance is
:math:`Φ(-\hat δ/\sqrt{V})`. For more it is the share of :math:`2^{16}` draws with a fixed seed, whose error is below
0.002.

The order that cross-validation gives is a fact, and is not drawn. A chance near one half for two models says that the
corrected losses leave it open which of them is better; a chance near one says that cross-validation has them the wrong
way round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Unpack

import numpy as np
from scipy.special import ndtr

from outofcluster._base.arguments import Array, short, shown
from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.plain import data_frame, plain
from outofcluster._base.text import Printed, percentage
from outofcluster.auditing.result import Audit
from outofcluster.auditing.run import audit
from outofcluster.auditing.several import AuditOptions, SeveralAudits, check_options, checkpoint_of_part, common_seed
from outofcluster.auditing.summary_parts import value_and_ends
from outofcluster.auditing.tipping import TippingPoint, find_tipping_point
from outofcluster.inference.estimates import Estimate, chance_in_words
from outofcluster.metrics.facts import SOME_LOSS, MetricFacts
from outofcluster.metrics.resolve import resolve_loss, resolve_scoring
from outofcluster.problem.folds import make_folds
from outofcluster.problem.problem import check_cloneable, named_columns

_DRAWS = 2**16


def compare(
    estimators: Mapping[str, Any], X: Any, y: Any, *, groups: Any, **options: Unpack[AuditOptions]
) -> Comparison:
    """Audit several models on the same resamples.

    Parameters
    ----------
    estimators : dict
        Estimators by name, at least two.
    X, y : array, sparse matrix, or data frame; array or str
        Records and targets, or the name of the column of the targets where X is a data frame.
    groups : array or str
        Approximate cluster of every record, or the name of its column. A column that is named is no feature.
    **options : dict
        The options of `audit`, such as ``leakage``, ``scoring``, ``n_fits`` and ``random_state``, the same for all
        models. ``n_fits`` is the number of models to fit for each estimator. Of several metrics, the comparison is
        about the first one, and ``comparison.metrics`` has one for each. The position of a model in ``estimators``
        is added to the names of its files of a ``checkpoint``.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> rng = np.random.default_rng(0)
    >>> patient = np.repeat(np.arange(60), 4)
    >>> level = rng.standard_normal((60, 3))
    >>> X = level[patient] + 0.2 * rng.standard_normal((240, 3))
    >>> y = (level[:, 0] + rng.standard_normal(60) > 0)[patient]
    >>> models = {"linear": LogisticRegression(), "neighbour": KNeighborsClassifier(1)}
    >>> comparison = ooc.compare(models, X, y, groups=patient, leakage=0.1, n_fits=80, random_state=0)
    >>> comparison.ranking
    ('linear', 'neighbour')
    """
    check_options("compare", options)
    X, y, groups = named_columns(X, y, groups)
    models = _check_models(estimators, options.get("loss"), options.get("scoring"), y)
    pairs = [(fold.train, fold.validation) for fold in make_folds(X, y, groups, options.get("cv"))]
    shared: AuditOptions = {**options, "cv": pairs, "random_state": common_seed(options.get("random_state"))}
    audits, left_out = dict[str, Audit](), dict[str, str]()
    for index, (name, estimator) in enumerate(models.items()):
        shared["checkpoint"] = checkpoint_of_part(options, f".model{index}")
        try:
            audits[name] = audit(estimator, X, y, groups=groups, **shared)
        except FitError as error:
            left_out[name] = str(error)
    folds = {name: tuple(fold.index for fold in result.samples.folds) for name, result in audits.items()}
    for name, result in list(audits.items()):
        # Differences are paired, fold by fold.
        if folds[name] != max(folds.values(), key=len):
            why = next(iter(result.samples.left_out.values()))
            left_out[name] = f"It cannot be compared, since some of its folds could not be audited: {why}"
            del audits[name]
    if not audits:
        name, reason = next(iter(left_out.items()))
        raise FitError(f"No model could be audited; the first, {short(name)}: {reason}", None)
    return Comparison(audits, left_out)


def _check_models(estimators: Any, loss: Any, scoring: Any, y: Any) -> dict[str, Any]:
    """Models that can be cloned and share one loss, before any of them is fitted."""
    if loss is not None and scoring is not None:
        raise InputError("scoring must be left out where loss is given, since either says what is measured.")
    if not isinstance(estimators, Mapping) or len(estimators) < 2:
        got = len(estimators) if isinstance(estimators, Mapping) else type(estimators).__name__
        raise InputError(f"estimators must be a dict of at least two estimators by name, got {got}.")
    names = dict[str, str]()
    for name, estimator in estimators.items():
        if not isinstance(name, str):
            raise InputError(f"estimators must have strings as names, got {short(name)}.")
        check_cloneable(f"estimators[{short(name)}]", estimator)
        if scoring is None:
            names[name] = resolve_loss(loss, estimator, y).name
        else:
            resolve_scoring(scoring, estimator, y)
    if len(set(names.values())) > 1:
        raise InputError(f"estimators must share one loss, got {', '.join(sorted(set(names.values())))}; give loss=.")
    return dict(estimators)


@dataclass(frozen=True)
class Difference(Printed):
    """The loss or metric of one model minus that of another, in the metric's own sign.

    Attributes
    ----------
    first, second : str
        Names of the models.
    naive, corrected : Estimate
        The difference of the cross-validated values, and of the corrected ones (None where nothing is corrected).
    metric : MetricFacts
        What is measured.
    """

    first: str
    second: str
    naive: Estimate
    corrected: Estimate | None
    metric: MetricFacts = SOME_LOSS

    @property
    def chance_of_change(self) -> float | None:
        """The chance that the model that looks better is not the better one.

        None where nothing is corrected, and for metrics with a target, from which either model may be farther away.
        """
        if self.corrected is None or self.metric.target is not None:
            return None
        sign = -1.0 if self.naive.value < 0 else 1.0
        return _chance_below_zero(sign * self.corrected.value, _variance(self.corrected))

    def to_frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per difference, naive and corrected.
        """
        named = {"naive": self.naive} | ({} if self.corrected is None else {"corrected": self.corrected})
        return data_frame([{"difference": name, **estimate.columns} for name, estimate in named.items()])

    def __str__(self) -> str:
        corrected = "" if self.corrected is None else f"; corrected {self.corrected}"
        return f"{self.first} less {self.second}: {self.naive}{corrected}"


@dataclass(frozen=True)
class Comparison(SeveralAudits[str]):
    """Audits of several models on the same resamples.

    Attributes
    ----------
    audits : dict of Audit
        By the names of the models.
    left_out : dict of str
        Models that could not be fitted, and why.
    """

    _schema = 3
    # Findings about folds, which the models share; the others are those of a model.
    _codes_shown = ("fold-left-out", "giant-cluster", "mostly-left-out", "unbalanced-folds")
    _header = ("model", "as it is", "corrected")

    @property
    def naive_ranking(self) -> tuple[str, ...]:
        """Names by the cross-validated loss or metric, the best first."""
        return tuple(sorted(self.audits, key=lambda name: self.metric.badness(self.audits[name].naive.value)))

    @property
    def ranking(self) -> tuple[str, ...]:
        """Names by the corrected value, the best first; by the cross-validated one without a leakage rate."""
        values = {name: (result.corrected or result.naive).value for name, result in self.audits.items()}
        return tuple(sorted(values, key=lambda name: self.metric.badness(values[name])))

    @property
    def ranking_changes(self) -> bool:
        """Whether correcting changes the ranking."""
        return self.ranking != self.naive_ranking

    @cached_property
    def chance_of_change(self) -> float | None:
        """The chance that the order of the models differs from that of the cross-validation.

        None without a rate, and for metrics with a target: what is known is the error of differences, not of distances.
        The order by the true values on new clusters is meant, of which the corrected ones are estimates
        (:mod:`outofcluster.auditing.comparison`).
        """
        order = self.naive_ranking
        if self.audits[order[0]].leakage is None or self.metric.target is not None:
            return None
        if len(order) < 2:
            return 0.0
        gaps, variances = list[float](), np.zeros((len(order), len(order)))
        for (a, first), (b, second) in combinations(enumerate(order), 2):
            difference = self.difference(first, second).corrected
            assert difference is not None
            variances[a, b] = variances[b, a] = _variance(difference)
            if b == a + 1:
                gaps.append(-self.metric.shown(difference.value))
        return chance_of_change(np.array(gaps), variances)

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """Every pair of models, the better one (by the ranking) first."""
        return tuple(self.difference(first, second) for first, second in combinations(self.ranking, 2))

    def difference(self, first: str, second: str) -> Difference:
        """The value of one model minus that of another, with paired intervals, in the metric's own sign.

        Parameters
        ----------
        first, second : str
            Names of the models.

        Returns
        -------
        Difference
            As it is and corrected.
        """
        a, b = self._audit(first), self._audit(second)
        corrected = None if a.leakage is None else _difference(a, b, corrected=True)
        return Difference(first, second, _difference(a, b, corrected=False), corrected, a.metric)

    def tipping_point(self, first: str, second: str) -> TippingPoint:
        """The smallest leakage rate from which on the model that looks better is the worse one.

        Rates up to 0.5 are looked at, or up to 0.9 for fragments. The interval holds the rates at which the paired
        interval of the difference includes 0 (:mod:`outofcluster.auditing.tipping`). There is none for metrics with a
        target.

        Parameters
        ----------
        first, second : str
            Names of the models.

        Returns
        -------
        TippingPoint
            Its ``rate`` is None where the order stays the same; ``print`` it to see why.
        """
        metric = self.metric
        apart = metric.badness(self._audit(first).value_at(0.0)) - metric.badness(self._audit(second).value_at(0.0))
        better, worse = (first, second) if apart <= 0 else (second, first)
        a, b = self._audit(better), self._audit(worse)
        grid = a.rate_grid[::2]

        def worse_by(rate: float) -> float:
            # Two models that are alike have no order that could change.
            return metric.badness(a.value_at(rate)) - metric.badness(b.value_at(rate)) if apart else -1.0

        def ends() -> tuple[Array, Array, Array]:
            some = grid if apart and metric.target is None else grid[:0]
            at = [_difference(a.at_leakage(float(rate)), b.at_leakage(float(rate)), corrected=True) for rate in some]
            low, high = np.array([each.shown_as(metric).interval for each in at]).reshape(-1, 2).T
            return some, low, high

        def words(rate: float | None) -> str:
            if not apart:
                return f"{better} and {worse} are equally good by cross-validation, so that no order can change"
            if rate is not None:
                start = percentage(rate, 2)
                return f"{better} looks better than {worse}, and is worse from a leakage rate of {start} on"
            most = percentage(float(grid[-1]))
            return f"{better} is better than {worse} up to a leakage rate of {most}, the largest that is looked at"

        return find_tipping_point(worse_by, grid, ends, words, threshold=0.0, confidence_level=a.confidence_level)

    def to_frame(self) -> Any:
        """The losses or metrics as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model, in the order of the ranking: the value as it is, the corrected one and the ends of its
            interval, the optimism, and the difference from the first model with its paired interval. Differences are
            those of corrected values, or of the others where nothing is corrected.
        """
        return data_frame([self._row(name) for name in self.ranking])

    def _row(self, name: str) -> dict[str, Any]:
        result, difference = self.audits[name], self.difference(name, self.ranking[0])
        estimates = {"": result.corrected, "difference_": difference.corrected or difference.naive}
        row: dict[str, Any] = {"model": name, "naive": result.naive.value}
        for begin, estimate in estimates.items():
            value = begin.rstrip("_") or "corrected"
            row |= dict(zip((value, f"{begin}low", f"{begin}high"), value_and_ends(estimate), strict=True))
        return row | {"optimism": math.nan if result.optimism is None else result.optimism.value}

    def plot(self, ax: Any = None) -> Any:
        """Draw the values of all models, as they are and corrected; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
        """
        from outofcluster.present.display import ComparisonDisplay

        return ComparisonDisplay.from_comparison(self).plot(ax)

    @property
    def _content(self) -> dict[str, Any]:
        differences = [{**plain(each), "chance_of_change": each.chance_of_change} for each in self.differences]
        return {
            "models": {name: result.to_dict() for name, result in self.audits.items()},
            "left_out": self.left_out,
            "naive_ranking": self.naive_ranking,
            "ranking": self.ranking,
            "ranking_changes": self.ranking_changes,
            "chance_of_change": self.chance_of_change,
            "metric": self.metric,
            "differences": differences,
        }

    @property
    def cells(self) -> list[tuple[str, ...]]:
        """One row of words per model, the best first: its name, the value as it is, and the corrected one."""
        return [(name, str(self.audits[name].naive), str(self.audits[name].corrected or "")) for name in self.ranking]

    @property
    def _printed(self) -> list[Sequence[str]]:
        rows = [(name, f"{naive:27}", corrected or "not corrected") for name, naive, corrected in self.cells]
        return [("", *self._header[1:]), *rows]

    @property
    def _answers(self) -> list[str]:
        sentences = []
        if self.audits[self.ranking[0]].corrected is not None:
            sentences.append(f"Correcting {'changes' if self.ranking_changes else 'does not change'} the ranking.")
        if self.chance_of_change is not None:
            chance = chance_in_words(self.chance_of_change)
            sentences.append(f"The chance that the true order is not the one that cross-validation shows is {chance}.")
        sentences += [str(difference) for difference in self.differences]
        for one in list(self.metrics.values())[1:]:
            doubt = ""
            if one.chance_of_change is not None:
                doubt = f"; the chance that this is not the true order is {chance_in_words(one.chance_of_change)}"
            order = " before ".join(one.naive_ranking)
            sentences.append(f"By {one.metric.label}, cross-validation puts {order}{doubt}.")
        return sentences

    def _audit(self, name: str) -> Audit:
        if name not in self.audits:
            raise InputError(f"{short(name)} is not one of the models {shown(self.audits)}.")
        return self.audits[name]


def _difference(a: Audit, b: Audit, *, corrected: bool) -> Estimate:
    """The difference of two losses; audits without the same folds are refused, since they are not paired."""
    if not np.array_equal(a.pooled.units, b.pooled.units) or a.pooled.n_folds != b.pooled.n_folds:
        raise InputError("Models can be compared on the same folds only, and some fold of one could not be audited.")
    return a.solution.less(b.solution, corrected=corrected).shown_as(a.metric)


def _variance(estimate: Estimate) -> float:
    return estimate.se_data**2 + estimate.se_monte_carlo**2


def _chance_below_zero(value: float, variance: float) -> float:
    if not variance > 0:
        return float(value < 0)
    return float(ndtr(-value / math.sqrt(variance)))


def chance_of_change(gaps: Array, variances: Array) -> float:
    """The chance that not all true gaps between neighbours of an order are positive (see the module's head)."""
    if not np.isfinite(variances).all():
        return math.nan
    if len(gaps) == 1:
        return _chance_below_zero(float(gaps[0]), float(variances[0, 1]))
    upper, lower = variances[1:], variances[:-1]
    covariance = (upper[:, :-1] + lower[:, 1:] - upper[:, 1:] - lower[:, :-1]) / 2
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(gaps)))
    return float(1 - (draws @ root.T + gaps >= 0).all(axis=1).mean())
