r"""The loss over the share of leaked records, and how it is extrapolated to none.

Models fitted to resamples are not the user's own model, so their losses are a little different. What carries over is
how the loss *rises* (an AUC: falls) as leakage vanishes. The curve is therefore drawn moved, by the corrected loss less
:math:`\hat e_0`, so that it passes through the cross-validated loss at the assumed rate and through the corrected loss
at no leakage.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from outofcluster._base.arguments import Array
from outofcluster.inference.estimates import Estimate
from outofcluster.metrics.facts import MetricFacts
from outofcluster.present.display._axes import (
    BLUE,
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
from outofcluster.present.words import added, capitalized, share_of


@dataclass(eq=False)
class LossCurveDisplay:
    """Losses, or values of a metric, at increasing leakage, the fitted curve, and the value on new clusters.

    Attributes
    ----------
    levels, losses, standard_errors : array
        Shares of leaked records in the resamples, mean losses there, and their Monte-Carlo standard errors.
    curve_levels, curve_losses : array
        The fitted curve from no leakage on; empty without a leakage rate.
    naive, corrected : Estimate
        The loss as it is, and on new clusters (None without a rate).
    rate : float or None
        The assumed leakage rate.
    error_model : str
        The error model.
    metric : MetricFacts
        What is measured.
    unmixed : bool
        Whether losses that were measured below the leakage rate say where the curve ends; `UnmixingDisplay` shows them.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import LossCurveDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> groups = np.repeat(np.arange(20), 10)
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 200, "random_state": 0}
    >>> display = LossCurveDisplay.from_audit(ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options))
    >>> display.frame().columns.tolist()
    ['level', 'loss', 'standard_error', 'shown']
    """

    levels: Array
    losses: Array
    standard_errors: Array
    curve_levels: Array
    curve_losses: Array
    naive: Estimate
    corrected: Estimate | None
    rate: float | None
    error_model: str
    metric: MetricFacts
    unmixed: bool = False
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(cls, audit: Any) -> Self:
        """The display of an `Audit`, or of its `Summary`.

        Parameters
        ----------
        audit : Audit or Summary
            What to show.

        Returns
        -------
        LossCurveDisplay
        """
        summary = getattr(audit, "summary", audit)
        curve = summary.curve
        return cls(
            levels=np.array(summary.levels if curve is None else curve.at),
            losses=np.array(summary.losses if curve is None else curve.observed),
            standard_errors=np.array(summary.standard_errors),
            curve_levels=np.array([] if curve is None else curve.p),
            curve_losses=np.array([] if curve is None else curve.loss),
            naive=summary.naive,
            corrected=summary.corrected,
            rate=summary.rate,
            error_model=summary.error_model,
            metric=summary.metric,
            unmixed=curve is not None and bool(curve.extrapolated),
        )

    @property
    def shift(self) -> float:
        """By how much the losses of the resamples are moved to meet the loss of the user's own model."""
        if self.corrected is None or not len(self.curve_losses):
            return self.naive.value - float(self.losses[0])
        return self.corrected.value - float(self.curve_losses[0])

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per level, with the columns level, loss, standard_error, and shown, the loss as it is drawn.
        """
        return frame(
            {
                "level": self.levels,
                "loss": self.losses,
                "standard_error": self.standard_errors,
                "shown": self.losses + self.shift,
            }
        )

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LossCurveDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = axes(ax)
        tidy(ax)
        self._points(ax)
        if self.corrected is None or self.rate is None:
            self._without_rate(ax)
        else:
            self._extrapolated(ax, self.corrected, self.rate)
        percent_axis(ax.xaxis)
        ax.set_ylabel(self.metric.label, color=INK, parse_math=False)
        title = f"{capitalized(self.metric.noun)} by leakage, {'down' if self.unmixed else 'extrapolated'} to none"
        title = f"{capitalized(self.metric.noun)} by leakage added" if self.corrected is None else title
        head(ax, title, ("cross-validated", "measured", "on new", "fitted"))
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _points(self, ax: Any) -> None:
        reach = ndtri(0.5 + self.naive.confidence_level / 2) * self.standard_errors
        ax.errorbar(
            self.levels,
            self.losses + self.shift,
            yerr=reach if np.isfinite(reach).all() else None,
            fmt="o",
            color=BLUE,
            markersize=5,
            capsize=2.5,
            elinewidth=1.2,
            label="measured, with more leakage added",
            zorder=3,
        )

    def _extrapolated(self, ax: Any, corrected: Estimate, rate: float) -> None:
        first = float(self.levels.min())
        p, curve = self.curve_levels, self.curve_losses + self.shift
        seen = p >= first
        at_first = float(np.interp(first, p, curve))
        ax.axvspan(0, first, color="#F1F1F1", zorder=0, linewidth=0)
        ax.plot([first, *p[seen]], [at_first, *curve[seen]], color=BLUE, linewidth=1.8, label="fitted curve")
        ax.plot(
            [*p[~seen], first],
            [*curve[~seen], at_first],
            color=ORANGE,
            linewidth=1.8,
            linestyle=(0, (4, 2)),
            label="by models without look-alikes" if self.unmixed else "extrapolated",
        )
        ax.plot([0, rate], [self.naive.value] * 2, color=GREY, linewidth=1, linestyle=":")
        ax.plot(
            rate,
            self.naive.value,
            "s",
            color=GREY,
            markersize=10,
            markeredgecolor="white",
            label=f"cross-validated as it is: {in_words(self.naive, corrected).split(' (')[0]}",
            zorder=2.5,
        )
        reach = bars(corrected)
        ax.errorbar(
            0,
            corrected.value,
            yerr=None if reach is None else [[reach[0]], [reach[1]]],
            fmt="D",
            color=ORANGE,
            markersize=7,
            markeredgecolor="white",
            capsize=4,
            elinewidth=2,
            label=f"on new clusters: {in_words(corrected, self.naive)}",
            zorder=5,
            clip_on=False,
        )
        ax.set_xlim(-0.02 * float(self.levels.max()), None)
        ax.set_xlabel(f"share of {share_of(self.error_model)}", color=INK)

    def _without_rate(self, ax: Any) -> None:
        ax.plot(self.levels, self.losses + self.shift, color=BLUE, linewidth=1, alpha=0.5)
        ax.plot(
            0,
            self.naive.value,
            "s",
            color=GREY,
            markersize=10,
            markeredgecolor="white",
            label=f"cross-validated as it is: {in_words(self.naive).split(' (')[0]}",
            zorder=2.5,
        )
        ax.set_xlabel(f"share of {added(self.error_model)}", color=INK)
