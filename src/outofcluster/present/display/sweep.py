"""One model at several linkage thresholds: its value as it is and corrected, the leakage rate, the largest cluster."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster.inference.estimates import Estimate, percent
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.display._axes import (
    BLUE,
    GREY,
    INK,
    ORANGE,
    axes,
    bars,
    estimate_columns,
    frame,
    head,
    percent_axis,
    tidy,
)

_HEIGHTS = (3, 2)
"""Heights of the upper and the lower axes."""


@dataclass(eq=False)
class SweepDisplay:
    """Losses or metrics by linkage threshold, above the leakage rate and the share of the largest cluster.

    Thresholds stand side by side at equal distances. Those with a giant cluster are shaded.

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
    ax_: Any = field(default=None, init=False, repr=False)
    below_ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

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

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per threshold, with the columns threshold, leakage, largest_cluster, naive, corrected, low and high.
        """
        columns = {"threshold": self.thresholds, "leakage": self.leakage, "largest_cluster": self.largest_cluster}
        unknown = Estimate(math.nan, (math.nan, math.nan), math.nan, math.nan)
        naive, corrected = ([known or unknown for known in row] for row in (self.naive, self.corrected))
        return frame(columns | estimate_columns(naive, corrected))

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default. The lower part of its place is used for the leakage rate and the
            largest cluster.

        Returns
        -------
        SweepDisplay
            Itself, with ``ax_``, ``below_ax_`` and ``figure_``.
        """
        ax = axes(ax, size=(6.6, 5.8))
        below = _divided(ax)
        x = np.arange(len(self.thresholds), dtype=float)
        for each in (ax, below):
            tidy(each)
            for place, threshold in zip(x, self.thresholds, strict=True):
                if threshold in self.giants:
                    each.axvspan(place - 0.5, place + 0.5, color=GREY, alpha=0.12, linewidth=0)
        apart = 0.0 if all(known is None for known in self.corrected) else 0.07
        self._values(ax, x - apart, self.naive, "s", GREY, "cross-validated as it is")
        if apart:
            self._values(ax, x + apart, self.corrected, "D", ORANGE, "corrected: on new clusters")
        for place, known in zip(x, self.naive, strict=True):
            if known is None:
                look = {"rotation": 90, "ha": "center", "va": "center", "color": GREY, "fontsize": "small"}
                ax.text(place, 0.5, "could not be audited", transform=ax.get_xaxis_transform(), **look)
        self._shares(below, x)
        better = "greater" if self.metric.greater_is_better else "smaller"
        ax.set_ylabel(f"{self.metric.label}\n({better} is better)", color=INK, parse_math=False)
        ax.tick_params(labelbottom=False)
        ax.set_xlim(-0.5, len(x) - 0.5)
        below.set_xticks(x, [f"{threshold:g}" for threshold in self.thresholds])
        below.set_xlabel("linkage threshold: looser clusters to the left", color=INK)
        below.set_ylabel("share of records", color=INK)
        level = percent(next(known for known in self.naive if known is not None).confidence_level)
        title = f"{self.metric.title} by linkage threshold, with {level} intervals"
        if self.giants:
            title += "\nShaded: one giant cluster holds a large part of the records"
        head(ax, title, ("cross-validated", "corrected"))
        self.ax_, self.below_ax_, self.figure_ = ax, below, ax.figure
        return self

    @staticmethod
    def _values(ax: Any, x: Any, estimates: Any, marker: str, colour: str, label: str) -> None:
        """Values at the thresholds that have one, with their intervals, joined by a line."""
        known = [(place, estimate) for place, estimate in zip(x, estimates, strict=True) if estimate is not None]
        reaches = [bars(estimate) for _, estimate in known]
        ax.errorbar(
            [place for place, _ in known],
            [estimate.value for _, estimate in known],
            yerr=None if any(reach is None for reach in reaches) else np.array(reaches).T,
            fmt=f"{marker}-",
            color=colour,
            markeredgecolor="white",
            markersize=8,
            capsize=3,
            elinewidth=1.6,
            linewidth=1.2,
            label=label,
        )

    def _shares(self, ax: Any, x: Any) -> None:
        """The largest cluster as bars, and the leakage rate as a line."""
        ax.bar(x, self.largest_cluster, width=0.36, color="#C9C9C9", label="largest cluster")
        if not all(math.isnan(rate) for rate in self.leakage):
            ax.plot(
                x, self.leakage, "o-", color=BLUE, markeredgecolor="white", markersize=7, linewidth=1.6,
                label="leakage rate", zorder=3,
            )  # fmt: skip
        percent_axis(ax.yaxis)
        ax.set_ylim(bottom=0)
        ax.legend(frameon=False, fontsize="small", loc="lower left", bbox_to_anchor=(-0.01, 1), ncols=2,
                  borderaxespad=0.3, columnspacing=1.6)  # fmt: skip


def _divided(ax: Any) -> Any:
    """Axes in the lower part of the place of others, which keep the upper part."""
    if (place := ax.get_subplotspec()) is not None:
        upper, lower = place.subgridspec(2, 1, height_ratios=_HEIGHTS)
        ax.set_subplotspec(upper)
        return ax.figure.add_subplot(lower, sharex=ax)
    box, share = ax.get_position(), _HEIGHTS[1] / sum(_HEIGHTS)
    ax.set_position([box.x0, box.y0 + (share + 0.05) * box.height, box.width, (0.95 - share) * box.height])
    return ax.figure.add_axes([box.x0, box.y0, box.width, (share - 0.1) * box.height], sharex=ax)
