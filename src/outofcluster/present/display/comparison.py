"""Several models side by side: the value as it is and the corrected one, in the order of the ranking."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster.inference.estimates import Estimate, chance_in_words, percent
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.display._axes import (
    GREY,
    INK,
    ORANGE,
    axes,
    estimate_columns,
    estimate_row,
    frame,
    head,
    tidy,
)


@dataclass(eq=False)
class ComparisonDisplay:
    """Losses or metrics of several models before and after correction.

    Each interval is that of one model alone. All models were fitted to the same resamples, so two of them can differ
    clearly although their intervals overlap. ``Comparison.difference`` says whether they do.

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
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

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

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per model, with the columns model and naive, and with a leakage rate corrected, low and high.
        """
        return frame({"model": self.models} | estimate_columns(self.naive, self.corrected))

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        ComparisonDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        count, better = len(self.models), "greater" if self.metric.greater_is_better else "smaller"
        ax = axes(ax, size=(6.6, max(2.6, 1.7 + 0.5 * count)))
        tidy(ax, grid="x")
        y = np.arange(count, dtype=float)
        apart = 0.14 if self.corrected else 0.0
        look = {"markersize": 7, "elinewidth": 1.6}
        estimate_row(ax, self.naive, y - apart, "s", GREY, label="cross-validated as it is", **look)
        if self.corrected:
            estimate_row(ax, self.corrected, y + apart, "D", ORANGE, label="corrected: on new clusters", **look)
        ax.set_yticks(y, self.models, parse_math=False)
        ax.set_ylim(count - 0.5, -0.5)
        ax.set_xlabel(
            f"{self.metric.label} ({better} is better), with {percent(self.naive[0].confidence_level)} intervals",
            color=INK,
            parse_math=False,
        )
        changes = "changes" if self.ranking_changes else "does not change"
        title = f"Models by their {self.metric.noun} as it is"
        if self.corrected:
            title = f"Correcting {changes} the ranking"
        if self.chance_of_change is not None:
            chance = chance_in_words(self.chance_of_change)
            title += f"\nChance that cross-validation shows a wrong order: {chance}"
        head(ax, title, ("cross-validated", "corrected"))
        self.ax_, self.figure_ = ax, ax.figure
        return self
