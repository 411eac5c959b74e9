"""The loss of every fold as it is and, with a leakage rate, what the fold alone says about new clusters."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster.inference.estimates import Estimate, percent
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
    in_words,
    tidy,
)


@dataclass(eq=False)
class FoldsDisplay:
    """The loss or metric of every fold beside that of all folds.

    A fold's own corrected value comes from its fits alone, so it is noisier than the common one.

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
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 200, "random_state": 0}
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
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

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
        alone = [audit.of_fold(place) for place in range(len(folds))]
        corrected = [single.corrected for single in alone]
        return cls(
            folds=tuple(fold.index for fold in folds),
            n_validation=tuple(fold.n_validation for fold in folds),
            naive=tuple(single.naive for single in alone),
            corrected=tuple(estimate for estimate in corrected if estimate is not None),
            overall_naive=audit.naive,
            overall_corrected=audit.corrected,
            metric=audit.metric,
        )

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per fold, with the columns fold, n_validation and naive, and with a leakage rate corrected, low and
            high.
        """
        named = {"fold": self.folds, "n_validation": self.n_validation}
        return frame(named | estimate_columns(self.naive, self.corrected))

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        FoldsDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        count = len(self.folds)
        ax = axes(ax, size=(6.6, max(2.6, 1.6 + 0.42 * count)))
        tidy(ax, grid="x")
        y = np.arange(count, dtype=float)
        apart = 0.13 if self.corrected else 0.0
        _row(ax, self.naive, y - apart, self.overall_naive, "s", GREY, ":", "cross-validated as it is, all folds")
        if self.overall_corrected is not None:
            _row(
                ax, self.corrected, y + apart, self.overall_corrected, "D", ORANGE, (0, (4, 2)), "corrected, all folds"
            )
        named = zip(self.folds, self.n_validation, strict=True)
        ax.set_yticks(y, [f"fold {fold} ({size} records)" for fold, size in named])
        ax.set_ylim(count - 0.5, -0.5)
        ax.set_xlabel(
            f"{self.metric.label}, with {percent(self.overall_naive.confidence_level)} intervals",
            color=INK,
            parse_math=False,
        )
        head(ax, "Fold by fold", ("cross-validated", "corrected"))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _row(
    ax: Any, estimates: tuple[Estimate, ...], y: Any, overall: Estimate, marker: str, colour: str, line: Any, name: str
) -> None:
    estimate_row(ax, estimates, y, marker, colour, markersize=6, elinewidth=1.4)
    ax.axvline(overall.value, color=colour, linewidth=1.3, linestyle=line, label=f"{name}: {in_words(overall)}")
