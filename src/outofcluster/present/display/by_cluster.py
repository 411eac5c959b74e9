"""Subgroups, and single clusters: for whom a score holds, and how different clusters are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outofcluster._base.text import percentage
from outofcluster.inference.estimates import Estimate
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.display.base import BLUE, ORANGE, Display, name_axes
from outofcluster.present.display.side_by_side import draw_both, name_rows


@dataclass(eq=False, repr=False)
class SubgroupsDisplay(Display):
    """Losses or metrics by subgroup, as they are and corrected, one row per subgroup.

    Subgroups that are too small to be judged have a row without marks. The table is that of `Subgroups.to_frame`.

    Attributes
    ----------
    names : tuple of str
        Names of the subgroups, with their numbers of records and clusters.
    naive, corrected : tuple of Estimate or None
        The values as they are, and on new clusters; None where they are not known.
    column : str
        What the subgroups are of.
    level : float
        The level at which the intervals of one kind hold together.
    metric : MetricFacts
        What is measured.
    subgroups : Subgroups
        What is shown, with the numbers of the table.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import SubgroupsDisplay
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "n_fits": 20, "random_state": 0}
    >>> result = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> sex = ["female" if int(group) % 2 else "male" for group in patients.groups]
    >>> SubgroupsDisplay.from_subgroups(result.by(sex)).column
    'subgroup'
    """

    names: tuple[str, ...]
    naive: tuple[Estimate | None, ...]
    corrected: tuple[Estimate | None, ...]
    column: str
    level: float
    metric: MetricFacts
    subgroups: Any

    _grid = "x"
    _legend = ("cross-validated", "corrected")

    @classmethod
    def from_subgroups(cls, subgroups: Any) -> Self:
        """The display of `Subgroups`.

        Parameters
        ----------
        subgroups : Subgroups
            What to show.

        Returns
        -------
        SubgroupsDisplay
        """
        groups = subgroups.groups
        return cls(
            names=tuple(f"{group.name}\n({group.records} records, {group.clusters} clusters)" for group in groups),
            naive=tuple(group.naive for group in groups),
            corrected=tuple(group.corrected for group in groups),
            column=subgroups.column,
            level=subgroups.confidence_level,
            metric=subgroups.metric,
            subgroups=subgroups,
        )

    def _columns(self) -> dict[str, Any]:
        return dict(self.subgroups.to_frame().items())

    @property
    def _height(self) -> float:
        return max(2.6, 1.7 + 0.55 * len(self.names))

    @property
    def _title(self) -> str:
        return f"{self.metric.title} by {self.column}"

    def _draw(self, ax: Any) -> None:
        y = name_rows(ax, self.names)
        look = {"across": True, "markersize": 7, "elinewidth": 1.6, "capsize": 2.5}
        draw_both(ax, y, self.naive, self.corrected, 0.14, **look)
        for height, known in zip(y, self.naive, strict=True):
            if known is None:
                ax.text(0.5, height, "too small to be judged", transform=ax.get_yaxis_transform(), **_ASIDE)
        intervals = f"{percentage(self.level)} intervals hold together"
        name_axes(ax, f"{self.metric.label} ({self.metric.better} is better); {intervals}")


_ASIDE = {"ha": "center", "va": "center", "fontsize": "small", "color": "#6E6E6E"}

# Clusters up to which each of them is named.
_NAMED = 40


@dataclass(eq=False, repr=False)
class SpreadDisplay(Display):
    """All held-out clusters in order of their loss or metric, and where one new cluster lies: a caterpillar plot.

    Values are drawn towards the mean as far as they are noise. The table is that of `Spread.to_frame`.

    Attributes
    ----------
    spread : Spread
        What to show.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import SpreadDisplay
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> patients = ooc.datasets.make_patients(random_state=0)
    >>> options = {"groups": patients.groups, "n_fits": 20, "random_state": 0}
    >>> result = ooc.audit(KNeighborsClassifier(3), patients.data, patients.target, **options)
    >>> list(SpreadDisplay.from_spread(result.spread()).to_frame())
    ['cluster', 'records', 'raw', 'value', 'low', 'high']
    """

    spread: Any

    _grid = "y"
    _legend = ("one cluster", "one new cluster", "mean")

    @classmethod
    def from_spread(cls, spread: Any) -> Self:
        """The display of a `Spread`.

        Parameters
        ----------
        spread : Spread
            What to show.

        Returns
        -------
        SpreadDisplay
        """
        return cls(spread)

    def _columns(self) -> dict[str, Any]:
        return dict(self.spread.to_frame().items())

    @property
    def _title(self) -> str:
        return f"{self.spread.metric.title} of {len(self.spread.clusters)} clusters"

    def _draw(self, ax: Any) -> None:
        spread = self.spread
        x = np.arange(len(spread.clusters))
        level = percentage(spread.confidence_level)
        low, high = spread.interval
        new = f"one new cluster: {spread.written(low)} to {spread.written(high)} ({level})"
        ax.axhspan(low, high, color=ORANGE, alpha=0.13, linewidth=0, label=new)
        ax.axhline(spread.mean, color=ORANGE, linewidth=1.3, label=f"mean: {spread.written(spread.mean)}")
        reach = np.maximum([spread.values - spread.low, spread.high - spread.values], 0.0)
        look = {
            "fmt": "o",
            "color": BLUE,
            "markersize": 3 if len(x) > _NAMED else 5,
            "elinewidth": 0.9,
            "ecolor": "#8DB9D6",
        }
        ax.errorbar(x, spread.values, yerr=reach, label="one cluster, without its noise", **look)
        ax.set_xlim(-1, len(x))
        if len(x) <= _NAMED:
            ax.set_xticks(x, spread.clusters, rotation=90, fontsize="small", parse_math=False)
        else:
            ax.set_xticks([])
        kind = "corrected " if spread.corrected else ""
        name_axes(ax, "clusters, from the lowest value to the highest", f"{kind}{spread.metric.label}")
