"""Things side by side: folds, models, linkage thresholds, and what the models of the test were trained on.

Folds, models and thresholds have a value as it is and, with a leakage rate, a corrected one with its interval.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.text import chance, percentage
from outofcluster.inference.estimates import Estimate, chance_in_words
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.display.base import (
    BLUE,
    CORRECTED,
    GREY,
    NAIVE,
    ORANGE,
    Display,
    draw_estimates,
    estimate_columns,
    in_words,
    legend_above,
    loss_name,
    name_axes,
    percent_axis,
    tidy,
)

# Heights of the upper and the lower axes of a sweep.
_HEIGHTS = (3, 2)

# Estimates of things side by side, some of which may not be known.
Estimates = Sequence[Estimate | None]

_TRAINED_ON = ("other clusters", "the same clusters")


@dataclass(eq=False, repr=False)
class ComparisonDisplay(Display):
    """Losses or metrics of several models before and after correction, in the order of the ranking.

    Each interval is that of one model alone. All models were fitted to the same resamples, so two of them can differ
    clearly although their intervals overlap. ``Comparison.difference`` says whether they do. The table has one row per
    model, with the columns model and naive, and with a leakage rate corrected, low and high.

    Attributes
    ----------
    models : tuple of str
        Names of the models in the order of the ranking, the best first.
    naive, corrected : tuple of Estimate
        The values as they are, and on new clusters; the second is empty without a leakage rate.
    ranking_changes : bool
        Whether correcting changes the ranking.
    chance_of_change : float or None
        The chance that the true order is not the one that cross-validation shows.
    metric : MetricFacts
        What is measured.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import ComparisonDisplay
    >>> from sklearn.linear_model import Lasso, Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> groups = np.repeat(np.arange(20), 10)
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> comparison = ooc.compare({"ridge": Ridge(), "lasso": Lasso()}, X, X[:, 0], groups=groups, **options)
    >>> ComparisonDisplay.from_comparison(comparison).models
    ('ridge', 'lasso')
    """

    models: tuple[str, ...]
    naive: tuple[Estimate, ...]
    corrected: tuple[Estimate, ...]
    ranking_changes: bool
    metric: MetricFacts
    chance_of_change: float | None = None

    _grid = "x"
    _legend = ("cross-validated", "corrected")

    @classmethod
    def from_comparison(cls, comparison: Any) -> Self:
        """The display of a `Comparison`.

        Parameters
        ----------
        comparison : Comparison
            What to show.

        Returns
        -------
        ComparisonDisplay
        """
        audits = [comparison.audits[name] for name in comparison.ranking]
        return cls(
            models=tuple(comparison.ranking),
            naive=tuple(audit.naive for audit in audits),
            corrected=tuple(audit.corrected for audit in audits if audit.corrected is not None),
            ranking_changes=comparison.ranking_changes,
            metric=audits[0].metric,
            chance_of_change=comparison.chance_of_change,
        )

    def _columns(self) -> dict[str, Any]:
        return {"model": self.models} | estimate_columns(self.naive, self.corrected)

    @property
    def _height(self) -> float:
        return max(2.6, 1.7 + 0.5 * len(self.models))

    @property
    def _title(self) -> str:
        title = f"Models by their {self.metric.noun} as it is"
        if self.corrected:
            title = f"Correcting {'changes' if self.ranking_changes else 'does not change'} the ranking"
        if self.chance_of_change is not None:
            chance = chance_in_words(self.chance_of_change)
            title += f"\nChance that cross-validation shows a wrong order: {chance}"
        return title

    def _draw(self, ax: Any) -> None:
        y = name_rows(ax, self.models)
        look = {"across": True, "markersize": 7, "elinewidth": 1.6, "capsize": 2.5}
        draw_both(ax, y, self.naive, self.corrected, 0.14, **look)
        intervals = f"with {percentage(self.naive[0].confidence_level)} intervals"
        name_axes(ax, f"{self.metric.label} ({self.metric.better} is better), {intervals}")


@dataclass(eq=False, repr=False)
class FoldsDisplay(Display):
    """The loss or metric of every fold beside that of all folds.

    A fold's own corrected value comes from its fits alone, so it is noisier than the common one. The table has one row
    per fold, with the columns fold, n_validation and naive, and with a leakage rate corrected, low and high.

    Attributes
    ----------
    folds, n_validation : tuple of int
        Numbers of the folds, and the number of records that each of them holds out.
    naive, corrected : tuple of Estimate
        The value of each fold as it is, and on new clusters. The second is empty without a leakage rate.
    overall_naive, overall_corrected : Estimate
        The same over all folds.
    metric : MetricFacts
        What is measured.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import FoldsDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> groups = np.repeat(np.arange(20), 10)
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> FoldsDisplay.from_audit(ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options)).n_validation
    (40, 40, 40, 40, 40)
    """

    folds: tuple[int, ...]
    n_validation: tuple[int, ...]
    naive: tuple[Estimate, ...]
    corrected: tuple[Estimate, ...]
    overall_naive: Estimate
    overall_corrected: Estimate | None
    metric: MetricFacts

    _grid = "x"
    _legend = ("cross-validated", "corrected")
    _title = "Fold by fold"

    @classmethod
    def from_audit(cls, audit: Any) -> Self:
        """The display of an `Audit`.

        Parameters
        ----------
        audit : Audit
            What to show.

        Returns
        -------
        FoldsDisplay
        """
        folds = audit.samples.folds
        alone = [audit.of_fold(position) for position in range(len(folds))]
        return cls(
            folds=tuple(fold.index for fold in folds),
            n_validation=tuple(fold.n_validation for fold in folds),
            naive=tuple(single.naive for single in alone),
            corrected=tuple(single.corrected for single in alone if single.corrected is not None),
            overall_naive=audit.naive,
            overall_corrected=audit.corrected,
            metric=audit.metric,
        )

    def _columns(self) -> dict[str, Any]:
        named = {"fold": self.folds, "n_validation": self.n_validation}
        return named | estimate_columns(self.naive, self.corrected)

    @property
    def _height(self) -> float:
        return max(2.6, 1.6 + 0.42 * len(self.folds))

    def _draw(self, ax: Any) -> None:
        named = zip(self.folds, self.n_validation, strict=True)
        y = name_rows(ax, [f"fold {fold} ({size} records)" for fold, size in named])
        look = {"across": True, "markersize": 6, "elinewidth": 1.4, "capsize": 2.5, "label": ""}
        draw_both(ax, y, self.naive, self.corrected, 0.13, **look)
        for overall, mark, line, name in (
            (self.overall_naive, NAIVE, ":", "cross-validated as it is"),
            (self.overall_corrected, CORRECTED, (0, (4, 2)), "corrected"),
        ):
            if overall is not None:
                label = f"{name}, all folds: {in_words(overall)}"
                ax.axvline(overall.value, color=mark["color"], linewidth=1.3, linestyle=line, label=label)
        name_axes(ax, f"{self.metric.label}, with {percentage(self.overall_naive.confidence_level)} intervals")


@dataclass(eq=False, repr=False)
class SweepDisplay(Display):
    """Losses or metrics by linkage threshold, above the leakage rate and the share of the largest cluster.

    Thresholds stand side by side at equal distances. Those with a giant cluster are shaded. The lower part of the axes
    that are given is used for the leakage rate and the largest cluster. The table has one row per threshold, with the
    columns threshold, leakage, largest_cluster, naive, corrected, low and high.

    Attributes
    ----------
    thresholds : tuple of float
        Thresholds from the lowest to the highest.
    naive, corrected : tuple of Estimate or None
        The values as they are, and on new clusters; None at thresholds that could not be audited, and of the corrected
        ones also where there is no leakage rate.
    leakage, largest_cluster : tuple of float
        The leakage rate (NaN where it is not known), and the share of the records in the largest cluster.
    giants : tuple of float
        Thresholds at which one giant cluster holds a large part of the records.
    metric : MetricFacts
        What is measured.
    ax_, figure_
        Where it was drawn.
    below_ax_
        The axes below with the leakage rate and the largest cluster.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import SweepDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> linked = {0.5: np.arange(200) // 10, 0.9: np.arange(200) // 5}
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> SweepDisplay.from_sweep(ooc.sweep(Ridge(), X, X[:, 0], linked, **options)).thresholds
    (0.5, 0.9)
    """

    thresholds: tuple[float, ...]
    naive: tuple[Estimate | None, ...]
    corrected: tuple[Estimate | None, ...]
    leakage: tuple[float, ...]
    largest_cluster: tuple[float, ...]
    giants: tuple[float, ...]
    metric: MetricFacts
    below_ax_: Any = field(default=None, init=False, repr=False)

    _height = 5.8
    _legend = ("cross-validated", "corrected")

    @classmethod
    def from_sweep(cls, sweep: Any) -> Self:
        """The display of a `Sweep`.

        Parameters
        ----------
        sweep : Sweep
            What to show.

        Returns
        -------
        SweepDisplay
        """
        return cls(
            thresholds=sweep.thresholds,
            naive=tuple(sweep.naive.get(threshold) for threshold in sweep.thresholds),
            corrected=tuple(sweep.corrected.get(threshold) for threshold in sweep.thresholds),
            leakage=tuple(sweep.leakage.get(threshold, math.nan) for threshold in sweep.thresholds),
            largest_cluster=tuple(sweep.largest_cluster.values()),
            giants=sweep.giants,
            metric=sweep.metric,
        )

    def _columns(self) -> dict[str, Any]:
        columns = {"threshold": self.thresholds, "leakage": self.leakage, "largest_cluster": self.largest_cluster}
        return columns | estimate_columns(self.naive, self.corrected)

    @property
    def _title(self) -> str:
        level = percentage(next(known for known in self.naive if known is not None).confidence_level)
        title = f"{self.metric.title} by linkage threshold, with {level} intervals"
        return title + ("\nShaded: one giant cluster holds a large part of the records" if self.giants else "")

    def _draw(self, ax: Any) -> None:
        self.below_ax_ = below = _divide(ax)
        tidy(below)
        x = np.arange(len(self.thresholds), dtype=float)
        for position, threshold, known in zip(x, self.thresholds, self.naive, strict=True):
            if threshold in self.giants:
                for part in (ax, below):
                    part.axvspan(position - 0.5, position + 0.5, color=GREY, alpha=0.12, linewidth=0)
            if known is None:
                look = {"rotation": 90, "ha": "center", "va": "center", "color": GREY, "fontsize": "small"}
                ax.text(position, 0.5, "could not be audited", transform=ax.get_xaxis_transform(), **look)
        look = {"linestyle": "-", "linewidth": 1.2, "elinewidth": 1.6, "markersize": 8, "capsize": 3}
        draw_both(ax, x, self.naive, self.corrected, 0.07, **look)
        self._draw_shares(below, x)
        name_axes(ax, y=f"{self.metric.label}\n({self.metric.better} is better)")
        name_axes(below, "linkage threshold: looser clusters to the left", "share of records")
        ax.tick_params(labelbottom=False)
        ax.set_xlim(-0.5, len(x) - 0.5)
        below.set_xticks(x, [f"{threshold:g}" for threshold in self.thresholds])

    def _draw_shares(self, ax: Any, x: Array) -> None:
        """The largest cluster as bars, and the leakage rate as a line."""
        ax.bar(x, self.largest_cluster, width=0.36, color="#C9C9C9", label="largest cluster")
        if not all(math.isnan(rate) for rate in self.leakage):
            look = {"color": BLUE, "markeredgecolor": "white", "markersize": 7, "linewidth": 1.6, "zorder": 3}
            ax.plot(x, self.leakage, "o-", label="leakage rate", **look)
        percent_axis(ax.yaxis)
        ax.set_ylim(bottom=0)
        legend_above(ax)


@dataclass(eq=False, repr=False)
class LeakageTestDisplay(Display):
    """Losses on held-out records of models trained on other clusters, and of models trained on the same clusters.

    The table has one row per model, with the columns trained_on and loss.

    Attributes
    ----------
    losses_train, losses_validation : array
        Mean loss, or metric in its own sign, of every model on clusters that it was not trained on, and on clusters
        that it was trained on.
    rejected : bool
        Whether a cluster effect was found.
    pvalue : float
        The one-sided p-value.
    loss : str
        Name of the loss or metric.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import LeakageTestDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> test = ooc.leakage_test(Ridge(), X, X[:, 0], groups=np.repeat(np.arange(20), 10), random_state=0)
    >>> LeakageTestDisplay.from_test(test).to_frame()["trained_on"].unique().tolist()
    ['other clusters', 'the same clusters']
    """

    losses_train: Array
    losses_validation: Array
    rejected: bool
    pvalue: float
    loss: str

    _grid = "x"
    _height = 2.8
    _legend = ("one model", "mean")

    @classmethod
    def from_test(cls, test: Any) -> Self:
        """The display of a `LeakageTest`.

        Parameters
        ----------
        test : LeakageTest
            What to show.

        Returns
        -------
        LeakageTestDisplay
        """
        sign = -1.0 if test.greater_is_better else 1.0
        losses = (sign * np.ravel(test.losses_train), sign * np.ravel(test.losses_validation))
        return cls(*losses, rejected=test.rejected, pvalue=test.pvalue, loss=test.loss)

    def _columns(self) -> dict[str, Any]:
        trained_on = np.repeat(_TRAINED_ON, [len(self.losses_train), len(self.losses_validation)])
        return {"trained_on": trained_on, "loss": np.concatenate([self.losses_train, self.losses_validation])}

    @property
    def _title(self) -> str:
        return f"{'A' if self.rejected else 'No'} cluster effect was found ({chance(self.pvalue)})"

    def _draw(self, ax: Any) -> None:
        both = (self.losses_train, self.losses_validation)
        labels = (("one model", "mean of the models"), ("", ""))
        for y, (losses, colour, (single, mean)) in enumerate(zip(both, (GREY, BLUE), labels, strict=True)):
            # Marks are spread over a band, since many models have the same loss.
            spread = y + 0.16 * np.linspace(-1, 1, len(losses))
            ax.plot(losses, spread, "o", color=colour, markersize=5, alpha=0.6, label=single)
            ax.plot([losses.mean()] * 2, [y - 0.3, y + 0.3], color=ORANGE, linewidth=2.5, label=mean)
        named = zip(_TRAINED_ON, both, strict=True)
        name_rows(ax, [f"trained on {kind}\n(mean {losses.mean():.4g})" for kind, losses in named])
        name_axes(ax, f"{loss_name(self.loss)} on held-out records")


def draw_both(ax: Any, at: Array, naive: Estimates, corrected: Estimates, apart: float, **look: Any) -> None:
    """The values as they are and, this much apart, the corrected ones; those that are not known are left out."""
    shift = apart if any(known is not None for known in corrected) else 0.0
    marks = (NAIVE | {"label": "cross-validated as it is"}, CORRECTED | {"label": "corrected: on new clusters"})
    for positions, estimates, mark in zip((at - shift, at + shift), (naive, corrected), marks, strict=True):
        if drawn := {x: known for x, known in zip(positions, estimates, strict=False) if known is not None}:
            draw_estimates(ax, list(drawn), list(drawn.values()), **mark | look)


def name_rows(ax: Any, names: Any) -> Array:
    """Name rows from the top down, and return their heights."""
    y: Array = np.arange(len(names), dtype=float)
    ax.set_yticks(y, names, parse_math=False)
    ax.set_ylim(len(names) - 0.5, -0.5)
    return y


def _divide(ax: Any) -> Any:
    """Leave the upper part of their area to axes, and make new ones in the lower part."""
    if (area := ax.get_subplotspec()) is not None:
        upper, lower = area.subgridspec(2, 1, height_ratios=_HEIGHTS)
        ax.set_subplotspec(upper)
        return ax.figure.add_subplot(lower, sharex=ax)
    box, share = ax.get_position(), _HEIGHTS[1] / sum(_HEIGHTS)
    ax.set_position([box.x0, box.y0 + (share + 0.05) * box.height, box.width, (0.95 - share) * box.height])
    return ax.figure.add_axes([box.x0, box.y0, box.width, (share - 0.1) * box.height], sharex=ax)


@dataclass(eq=False, repr=False)
class PlanDisplay(Display):
    """The width of an interval that is to be expected, by the number of look-ups or of clusters.

    The table has one row per number, with the columns count and width.

    Attributes
    ----------
    counts, widths : array
        Numbers, and the width that is to be expected with each of them.
    wanted, now : tuple of number
        The number that the plan gives with the width that is wanted, and the present number with its width.
    counted, interval : str
        What is counted, and what the interval is about.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import PlanDisplay
    >>> from sklearn.linear_model import Ridge
    >>> groups = [cluster for cluster in range(40) for _ in range(5)]
    >>> X = [[number * 7 % 11, number * 3 % 13] for number in range(200)]
    >>> result = ooc.audit(Ridge(), X, [x[0] for x in X], groups=groups, leakage=None, random_state=0)
    >>> plan = ooc.plan_clusters(result, width=0.5 * (result.naive.interval[1] - result.naive.interval[0]))
    >>> PlanDisplay.from_plan(plan).to_frame().columns.tolist()
    ['count', 'width']
    """

    counts: Array
    widths: Array
    wanted: tuple[int, float]
    now: tuple[int, float]
    counted: str
    interval: str

    _legend = ("expected", "wanted", "now")

    @classmethod
    def from_plan(cls, plan: Any) -> Self:
        """The display of what `plan_review` or `plan_clusters` gives.

        Parameters
        ----------
        plan : ReviewPlan or ClusterPlan
            What to show.

        Returns
        -------
        PlanDisplay
        """
        wanted, now = (plan.needed, plan.width), (plan.now, plan.width_now)
        return cls(plan.counts, plan.widths, wanted, now, plan.counted, plan.interval_of)

    def _columns(self) -> dict[str, Any]:
        return {"count": self.counts, "width": self.widths}

    @property
    def _title(self) -> str:
        return f"Width of the interval of the {self.interval}"

    def _draw(self, ax: Any) -> None:
        ax.plot(self.counts, self.widths, color=BLUE, linewidth=2, label="expected width")
        number, width = self.wanted
        ax.axhline(width, color=ORANGE, linewidth=1.2, linestyle=(0, (6, 2)))
        ax.plot(number, width, **CORRECTED, markersize=8, zorder=4, label=f"wanted: {width:.3g}, with {number:,}")
        ax.plot(*self.now, **NAIVE, markersize=8, zorder=4, label=f"now: {self.now[1]:.3g}, with {self.now[0]:,}")
        ax.set_ylim(bottom=0)
        name_axes(ax, self.counted, "width of the interval")
