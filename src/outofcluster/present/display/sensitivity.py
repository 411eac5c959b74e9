"""The corrected value over a range of leakage rates, its intervals, and the rate at which it reaches a threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array, check_number
from outofcluster.inference.estimates import Estimate, Sensitivity, percent
from outofcluster.metrics.facts import SOME_LOSS, MetricFacts
from outofcluster.present.display._axes import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    axes,
    bars,
    frame,
    head,
    in_words,
    percent_axis,
    tidy,
)
from outofcluster.present.words import share_of


@dataclass(eq=False)
class SensitivityDisplay:
    """How much the answer depends on the leakage rate.

    Attributes
    ----------
    rates, values, low, high : array
        Leakage rates, the corrected value at each of them, and the ends of its interval.
    naive, corrected : Estimate or None
        The value as it is, and on new clusters at the assumed rate, where they are known.
    rate : float or None
        The assumed rate.
    threshold, tipping_point : float or None
        A value to compare with, and the smallest rate at which the corrected one reaches it.
    error_model : str
        The error model.
    metric : MetricFacts
        What is measured.
    confidence_level : float
        Confidence level of the intervals.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import SensitivityDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> groups = np.repeat(np.arange(20), 10)
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 200, "random_state": 0}
    >>> result = ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options)
    >>> SensitivityDisplay.from_audit(result, rates=[0.0, 0.1, 0.2]).frame()["rate"].tolist()
    [0.0, 0.1, 0.2]
    """

    rates: Array
    values: Array
    low: Array
    high: Array
    naive: Estimate | None = None
    corrected: Estimate | None = None
    rate: float | None = None
    threshold: float | None = None
    tipping_point: float | None = None
    error_model: str = "records"
    metric: MetricFacts = SOME_LOSS
    confidence_level: float = 0.95
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(cls, audit: Any, *, threshold: float | None = None, rates: Any = None) -> Self:
        """The display of an `Audit`.

        Parameters
        ----------
        audit : Audit
            What to show.
        threshold : float, optional
            A value to compare with, such as that of a rival or of the model in use.
        rates : array, optional
            Leakage rates, by default from 0 to 0.3.

        Returns
        -------
        SensitivityDisplay
        """
        level = None if threshold is None else check_number("threshold", threshold, least=-math.inf)
        over = audit.sensitivity(rates)
        return cls(
            rates=over.rates,
            values=over.values,
            low=over.low,
            high=over.high,
            naive=audit.naive,
            corrected=audit.corrected,
            rate=audit.summary.rate,
            threshold=level,
            tipping_point=None if level is None else audit.tipping_point(level),
            error_model=audit.error_model,
            metric=audit.metric,
            confidence_level=audit.confidence_level,
        )

    @classmethod
    def from_sensitivity(cls, sensitivity: Sensitivity) -> Self:
        """The display of a `Sensitivity` alone, without the assumed rate and the value as it is.

        Parameters
        ----------
        sensitivity : Sensitivity
            What to show.

        Returns
        -------
        SensitivityDisplay
        """
        return cls(
            rates=sensitivity.rates,
            values=sensitivity.values,
            low=sensitivity.low,
            high=sensitivity.high,
            error_model=sensitivity.error_model,
            metric=sensitivity.metric,
            confidence_level=sensitivity.confidence_level,
        )

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per rate, with the columns rate, value, low and high.
        """
        return frame({"rate": self.rates, "value": self.values, "low": self.low, "high": self.high})

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        SensitivityDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = axes(ax)
        tidy(ax)
        if np.isfinite(self.low + self.high).all():
            label = f"{percent(self.confidence_level)} interval"
            ax.fill_between(self.rates, self.low, self.high, color=BLUE, alpha=0.15, linewidth=0, label=label)
        ax.plot(
            self.rates, self.values, color=BLUE, linewidth=2, label=f"corrected {self.metric.noun}, if this is the rate"
        )
        if self.naive is not None:
            ax.axhline(
                self.naive.value,
                color=GREY,
                linewidth=1.2,
                linestyle=":",
                label=f"cross-validated as it is: {in_words(self.naive).split(' (')[0]}",
            )
        self._assumed(ax)
        self._tipping(ax)
        percent_axis(ax.xaxis)
        ax.margins(x=0.01)
        ax.set_xlabel(f"leakage rate: share of {share_of(self.error_model)}", color=INK)
        ax.set_ylabel(self.metric.label, color=INK, parse_math=False)
        head(
            ax,
            f"Corrected {self.metric.noun} by leakage rate",
            ("cross-validated", "corrected", "at the", percent(self.confidence_level)),
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _assumed(self, ax: Any) -> None:
        if self.corrected is None or self.rate is None:
            return
        reach = bars(self.corrected)
        ax.errorbar(
            self.rate,
            self.corrected.value,
            yerr=None if reach is None else [[reach[0]], [reach[1]]],
            fmt="D",
            color=ORANGE,
            markersize=7,
            markeredgecolor="white",
            capsize=4,
            elinewidth=2,
            label=f"at the assumed {100 * self.rate:.3g} %: {in_words(self.corrected)}",
            zorder=4,
        )

    def _tipping(self, ax: Any) -> None:
        if self.threshold is None:
            return
        reached = (
            "not reached up to 50 %" if self.tipping_point is None else f"reached at {100 * self.tipping_point:.3g} %"
        )
        ax.axhline(
            self.threshold,
            color=GREEN,
            linewidth=1.4,
            linestyle=(0, (6, 2)),
            label=f"threshold {self.threshold:.4g}: {reached}",
        )
        if self.tipping_point is not None and self.tipping_point <= self.rates.max():
            ax.plot(
                self.tipping_point, self.threshold, "o", color=GREEN, markersize=8, markeredgecolor="white", zorder=5
            )
            lowest = min(np.nanmin(self.low), self.threshold, np.inf if self.naive is None else self.naive.value)
            ax.plot(
                [self.tipping_point] * 2, [lowest, self.threshold], color=GREEN, linewidth=1, linestyle=":", zorder=1
            )
            ax.set_ylim(bottom=lowest)
