r"""How many look-ups, or how many clusters, an interval of a wanted width needs.

**Look-ups.** The answers are not known before anybody has looked anything up, but how likely they are is. Every pair of
clusters is one entity with its probability. Of the other clusters a share has a piece that no pair names: as large a
share as may be missed (:mod:`outofcluster.errormodels.sources`), or as the answers so far say. So a truth is drawn, and
a list of n clusters by the design of ``review_list``, which is answered by that truth. A likely piece that is none
comes back into training, and its held-out cluster has the loss of the user's own model again. A missed piece that is
found gains what an imitated one does. The optimism of these losses and answers is computed as ever, with its interval.
With :math:`W_r(n)` the width for the truth r,

.. math:: w(n) = \frac1R \sum_r W_r(n) ,

made to fall by isotonic regression over a grid of n, and read between its points on logarithmic scales. Where all K
clusters are looked up, only that is left which answers do not tell, and w(K) is the bound.

**Clusters.** The variance of the corrected value is :math:`V = V_1 + V_∞`. With K clusters scored, :math:`V_1` is what
having these clusters and these fits adds, and falls as 1/K. :math:`V_∞` is what more clusters do not tell: how much is
missed, how far imitated pieces differ from real ones, which curve is right, and an uncertain rate. For k clusters

.. math:: w(k) = 2\, t_{k-1} \sqrt{\frac Kk V_1 + V_∞} ,

with Student's quantile t, as the interval itself is made. As many look-ups as now are supposed. The bound is w(∞).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import isotonic_regression

from outofcluster._base.arguments import Array, check_number, check_share, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster._base.text import Printed
from outofcluster.auditing.result import Audit
from outofcluster.auditing.summary_parts import counted as n_of
from outofcluster.errormodels.choose import error_model_of
from outofcluster.inference.estimates import Estimate

# Truths that are drawn, and numbers of look-ups at which each of them is answered.
_TRUTHS, _STEPS = 16, 10
# The fewest look-ups, and the fewest clusters, that are planned for.
_FEWEST_LOOK_UPS, _FEWEST_CLUSTERS = 5, 3
# As good as infinitely many clusters.
_ENDLESS = 10**9
# Points of the curve of a plan for clusters, and how far beyond the larger of its two numbers it goes.
_POINTS, _BEYOND = 41, 2.0


@dataclass(frozen=True, eq=False)
class Plan(Printed, ABC):
    """The curve that a plan is read off: the width of an interval that is to be expected, by a number.

    Attributes
    ----------
    width : float
        The width that is wanted.
    now, width_now : number
        The number as it is, and the width of the interval as it is.
    counts, widths : array
        Numbers, and the width that is to be expected with each of them.
    """

    width: float
    now: int
    width_now: float
    counts: Array
    widths: Array

    # What is counted, as the name of an axis.
    counted: ClassVar[str]

    @property
    @abstractmethod
    def needed(self) -> int:
        """The number that the plan gives."""

    def to_frame(self) -> Any:
        """The curve as a table; needs pandas.

        Returns
        -------
        pandas.DataFrame
            One row per number, with the columns count and width.
        """
        return data_frame({"count": self.counts, "width": self.widths})

    def plot(self, ax: Any = None) -> Any:
        """Draw the width by number, with the plan; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        PlanDisplay
        """
        from outofcluster.present.display import PlanDisplay

        return PlanDisplay.from_plan(self).plot(ax)


@dataclass(frozen=True, eq=False)
class ReviewPlan(Plan):
    """How many look-ups bring the interval of the optimism to a width; ``print`` it for the answer in words.

    Attributes
    ----------
    width : float
        The width that is wanted.
    now, width_now : number
        Look-ups that have been made, and the width of the interval as it is.
    counts, widths : array
        Numbers of look-ups, and the width that is to be expected with each of them.
    look_ups : int
        Look-ups that are needed, those that have been made among them.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> model = KNeighborsClassifier(3)
    >>> result = ooc.audit(model, patients.data, patients.target, groups=patients.groups, random_state=0)
    >>> few, many = ooc.plan_review(result, width=0.03), ooc.plan_review(result, width=0.02)
    >>> 0 < few.look_ups < many.look_ups
    True
    """

    look_ups: int

    counted = "look-ups, those that have been made among them"
    interval_of = "optimism"

    @property
    def needed(self) -> int:
        """The number that the plan gives."""
        return self.look_ups

    def __str__(self) -> str:
        if self.look_ups == self.now:
            wide = f"The interval of the optimism is {self.width_now:.3g} wide"
            return f"{wide}, so that a width of {self.width:g} needs no further look-ups."
        made = f", {self.now} of which have been made," if self.now else ""
        return (
            f"About {n_of(self.look_ups, 'look-up')}{made} bring the interval of the optimism to a width of "
            f"{self.width:g}; it is {self.width_now:.3g} wide now."
        )


@dataclass(frozen=True, eq=False)
class ClusterPlan(Plan):
    """How many clusters an evaluation needs for an interval of a width; ``print`` it for the answer in words.

    Attributes
    ----------
    width : float
        The width that is wanted.
    now, width_now : number
        Clusters that are scored, and the width of the interval as it is.
    counts, widths : array
        Numbers of clusters, and the width that is to be expected with each of them.
    clusters : int
        Clusters that are needed in all.
    interval_of : str
        What the interval is about: the corrected value, or the cross-validated one where nothing is corrected.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> model = KNeighborsClassifier(3)
    >>> result = ooc.audit(model, patients.data, patients.target, groups=patients.groups, random_state=0)
    >>> few, many = ooc.plan_clusters(result, width=0.08), ooc.plan_clusters(result, width=0.06)
    >>> few.now < few.clusters < many.clusters
    True
    """

    clusters: int
    interval_of: str

    counted = "clusters"

    @property
    def needed(self) -> int:
        """The number that the plan gives."""
        return self.clusters

    def __str__(self) -> str:
        return (
            f"About {n_of(self.clusters, 'cluster')} bring the interval of the {self.interval_of} to a width of "
            f"{self.width:g}; with the {self.now:,} of this audit it is {self.width_now:.3g} wide."
        )


def plan_review(result: Audit, width: float = 0.02, *, reviewer_error: float = 0.0) -> ReviewPlan:
    """How many look-ups bring the interval of the optimism to a width.

    It is planned for a list as `Audit.review_list` draws it, and no model is fitted: answers are imagined that are as
    likely as the records say. Before anybody has looked anything up, this rests on how many pieces are supposed to be
    missed. Look up twenty first, audit again with the answers, and plan with that audit: then it rests on them.

    Parameters
    ----------
    result : Audit
        An audit of pieces of entities (``error_model="fragments"``).
    width : float, default=0.02
        Width of the interval that is wanted, from its lower to its upper end.
    reviewer_error : float, default=0.0
        Share of the answers that may be wrong, in [0, 0.5), as `audit` takes it.

    Returns
    -------
    ReviewPlan
        With ``look_ups``, the number in all, and ``plot()``.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> model = KNeighborsClassifier(3)
    >>> result = ooc.audit(model, patients.data, patients.target, groups=patients.groups, random_state=0)
    >>> ooc.plan_review(result, width=1e-6)
    Traceback (most recent call last):
    ...
    outofcluster._base.exceptions.InputError: width must be at least 0.00..., got 1e-06: it is that wide with all ...
    """
    wanted, wrong = _check(result, width), check_share("reviewer_error", reviewer_error)
    if wrong >= 0.5:
        raise InputError(f"reviewer_error must lie in [0, 0.5), got {wrong:g}.")
    if result.optimism is None:
        raise InputError("plan_review() needs an audit with a correction, got one without a leakage rate.")
    pooled, solution, look_ups = result.pooled, result.solution, result.samples.look_ups
    model, now = error_model_of(result.samples), 0 if look_ups is None else len(look_ups.clusters)
    clusters = len(np.unique(np.concatenate([fold.clusters for fold in pooled.folds])))
    counts = np.unique(np.geomspace(min(max(_FEWEST_LOOK_UPS, now), clusters), clusters, _STEPS).round().astype(int))
    rate, std = None, 0.0
    if not result.from_data:
        rate, std = solution.mean_rate, float(pooled.shares @ solution.stds)
    sums = np.zeros(len(counts))
    # The same samples give the same plan.
    for seed in np.random.SeedSequence([fold.main.seeds[0] % 2**64 for fold in pooled.folds]).spawn(_TRUTHS):
        answered = model.imagined(
            pooled, counts.tolist(), np.random.default_rng(seed), rate=rate, std=std, reviewer_error=wrong
        )
        sums += [_width(replace(result, pooled=each).optimism) for each in answered]
    widths = -isotonic_regression(-sums / _TRUTHS).x
    width_now, needed = _width(result.optimism), now
    if width_now > wanted:
        if widths[-1] > wanted:
            raise InputError(
                f"width must be at least {_rounded_up(widths[-1])}, got {wanted:g}: it is that wide with all "
                f"{clusters:,} clusters looked up."
            )
        needed = max(_first(counts, widths, wanted), now + 1)
    return ReviewPlan(wanted, now, width_now, counts, widths, needed)


def plan_clusters(result: Audit, width: float = 0.05) -> ClusterPlan:
    """How many clusters an evaluation would need for an interval of a width.

    The interval is that of the corrected value, or of the cross-validated one where nothing is corrected. It is planned
    for a study like this one that only has more clusters, or fewer, of the same kind, and as many look-ups as now.

    Parameters
    ----------
    result : Audit
        An audit whose intervals are over clusters.
    width : float, default=0.05
        Width of the interval that is wanted, from its lower to its upper end.

    Returns
    -------
    ClusterPlan
        With ``clusters``, the number in all, and ``plot()``.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> model = KNeighborsClassifier(3)
    >>> result = ooc.audit(model, patients.data, patients.target, groups=patients.groups, random_state=0)
    >>> print(ooc.plan_clusters(result, width=0.08))
    About ... clusters bring the interval of the corrected loss to a width of 0.08; with the ... wide.
    """
    wanted, solution, now = _check(result, width), result.solution, result.pooled.n_scored
    if result.units != "clusters":
        raise InputError(
            f"plan_clusters() needs intervals over clusters, got those over {result.units}; with_units('clusters') "
            "makes them."
        )
    estimate, noun = result.corrected, f"corrected {result.metric.noun}"
    if estimate is None:
        estimate, noun = result.naive, f"cross-validated {result.metric.noun}"
    width_now = _width(estimate)
    if not math.isfinite(width_now):
        raise InputError(f"plan_clusters() needs an interval with two ends, got one of the {noun} that is open.")

    def expected(count: int) -> float:
        # An interval between quantiles of draws falls as the linear one does.
        return width_now * _width(solution.with_clusters(count)) / _width(solution.with_clusters(now))

    if expected(_ENDLESS) > wanted:
        raise InputError(
            f"width must be at least {_rounded_up(expected(_ENDLESS))}, got {wanted:g}: no number of clusters makes "
            f"the interval of the {noun} narrower than that{', as long as nobody looks any up' * solution.at_least}."
        )
    low, high = _FEWEST_CLUSTERS - 1, _ENDLESS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if expected(middle) <= wanted else (middle, high)
    ends = max(min(now, high) / _BEYOND, _FEWEST_CLUSTERS), min(max(now, high) * _BEYOND, _ENDLESS)
    counts = np.unique(np.geomspace(*ends, _POINTS).round().astype(int))
    widths = np.array([expected(int(count)) for count in counts])
    return ClusterPlan(wanted, now, width_now, counts, widths, high, noun)


def _check(result: Any, width: Any) -> float:
    if not isinstance(result, Audit):
        raise InputError(f"result must be an Audit, got {short(result)}.")
    return check_number("width", width, least=0, strict=True)


def _width(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.interval[1] - estimate.interval[0]


def _first(counts: Array, widths: Array, wanted: float) -> int:
    """The first number at which falling widths reach the wanted one, on logarithmic scales between those of a grid."""
    after = int(np.flatnonzero(widths <= wanted)[0])
    if after == 0:
        return int(counts[0])
    ends = np.log(np.maximum(widths[[after, after - 1]], 1e-12))
    return math.ceil(math.exp(np.interp(math.log(wanted), ends, np.log(counts[[after, after - 1]]))) - 1e-9)


def _rounded_up(width: float) -> str:
    """A width with three digits that is not below it."""
    digits = 2 - math.floor(math.log10(width))
    return f"{math.ceil(width * 10**digits) / 10**digits:g}"
