r"""The loss against the injected fraction, from negative to positive: what lies below the leakage rate.

To the right of 0 records of held-out clusters were injected; to the left training records that look like held-out ones
were left out, which is a negative injected fraction a. At 0 stands the user's own model. The leaked share of the
training records is

.. math:: p = p_0 + (1-p_0)\,a \quad (a ≥ 0), \qquad p = p_0 + η(1-p_0)\,a \quad (a < 0),

with η the efficiency of leaving records out (:mod:`outofcluster.curves.unmixing`), so that no leakage is left at
:math:`a^* = -p_0/(η(1-p_0))`. There the corrected loss is drawn, and the curve above the leakage rate, extrapolated
without the losses below it, ends there too. Losses of resamples are moved as in `LossCurveDisplay`; those of the left
side are not, since they are losses of the user's own training records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.special import ndtri

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import InputError
from outofcluster.inference.estimates import Estimate
from outofcluster.metrics.facts import MetricFacts
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
from outofcluster.present.words import capitalized


def shown_fractions(clean: float | None, fractions: Array) -> tuple[float, float]:
    """The part of the axis that is drawn: around 0 and the point without leakage, not all that was measured."""
    reach = 0.3 if not clean else max(2.2 * abs(clean), 0.15)
    lowest = min(max(float(fractions.min()), -reach), clean or 0.0)
    return lowest, min(float(fractions.max()), max(1.5 * reach, 0.3))


@dataclass(eq=False)
class UnmixingDisplay:
    """Values with records left out and with records injected, and the point at which no leakage is left.

    Attributes
    ----------
    fractions, losses, standard_errors : array
        Injected fractions from the most negative one on, the losses as they are drawn, and their Monte-Carlo standard
        errors. The loss of the user's own model is at 0.
    extrapolated_fractions, extrapolated_losses : array
        The curve above the leakage rate, without the losses below it; empty without a leakage rate.
    naive, corrected : Estimate
        The loss as it is, and on new clusters (None without a rate).
    clean : float or None
        The fraction at which no leakage is left.
    metric : MetricFacts
        What is measured.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import UnmixingDisplay
    >>> from sklearn.linear_model import Ridge
    >>> rng = np.random.default_rng(0)
    >>> groups = np.repeat(np.arange(20), 20)
    >>> X = rng.standard_normal((20, 2))[groups] + 0.5 * rng.standard_normal((400, 2))
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 750, "random_state": 0}
    >>> display = UnmixingDisplay.from_audit(ooc.audit(Ridge(), X, X[:, 0] ** 2, groups=groups, **options))
    >>> display.frame().columns.tolist()
    ['fraction', 'loss', 'standard_error']
    """

    fractions: Array
    losses: Array
    standard_errors: Array
    extrapolated_fractions: Array
    extrapolated_losses: Array
    naive: Estimate
    corrected: Estimate | None
    clean: float | None
    metric: MetricFacts
    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    @classmethod
    def from_audit(cls, audit: Any) -> Self:
        """The display of an `Audit`, or of its `Summary`.

        Parameters
        ----------
        audit : Audit or Summary
            What to show: an audit of single records with losses below the leakage rate.

        Returns
        -------
        UnmixingDisplay
        """
        summary = getattr(audit, "summary", audit)
        below, curve, corrected = summary.unmixed, summary.curve, summary.corrected
        if below is None:
            raise InputError(
                "audit must have losses below the leakage rate, got one without: it takes single records, enough "
                "fits (150 per fold) and unmix='auto'."
            )
        clean = None if corrected is None or curve is None else below.clean
        observed = np.array(summary.losses)
        p, extrapolated = np.array([]), np.array([])
        shift = summary.naive.value - float(observed[0])
        if clean is not None:
            shift = corrected.value - curve.loss[0]
            observed, extrapolated = np.array(curve.observed), np.array(curve.extrapolated) + shift
            levels, rate = np.array(curve.p), float(curve.at[0])
            p = np.where(levels < rate, (1 - levels / rate) * clean if rate else 0.0, (levels - rate) / (1 - rate))
        left = np.array(below.fractions) <= 0
        right = np.array(summary.levels) > 0
        return cls(
            fractions=np.concatenate([np.array(below.fractions)[left], np.array(summary.levels)[right]]),
            losses=np.concatenate([np.array(below.losses)[left], observed[right] + shift]),
            standard_errors=np.concatenate(
                [np.array(below.standard_errors)[left], np.array(summary.standard_errors)[right]]
            ),
            extrapolated_fractions=p,
            extrapolated_losses=extrapolated,
            naive=summary.naive,
            corrected=None if clean is None else corrected,
            clean=clean,
            metric=summary.metric,
        )

    def frame(self) -> Any:
        """The numbers as a table.

        Returns
        -------
        pandas.DataFrame
            One row per injected fraction, with the columns fraction, loss and standard_error.
        """
        return frame({"fraction": self.fractions, "loss": self.losses, "standard_error": self.standard_errors})

    def plot(self, ax: Any = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        UnmixingDisplay
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = axes(ax)
        tidy(ax)
        low, high = shown_fractions(self.clean, self.fractions)
        shown = (self.fractions >= low - 1e-12) & (self.fractions <= high + 1e-12)
        ax.axvspan(low - 1, 0, color="#F1F1F1", zorder=0, linewidth=0)
        low, high = min(float(self.fractions[shown].min()), self.clean or 0.0), float(self.fractions[shown].max())
        beyond = shown & (self.fractions < (low - 1 if self.clean is None else self.clean))
        left, right = shown & (self.fractions <= 0), shown & (self.fractions > 0)
        self._points(ax, left & ~beyond & (self.fractions < 0), GREEN, "^", "measured, look-alikes left out")
        self._points(ax, beyond, GREEN, "^", "_too much left out", alpha=0.35)
        self._points(ax, right, BLUE, "o", "measured, records injected")
        ax.plot(self.fractions[left], self.losses[left], color=GREEN, linewidth=1, alpha=0.5, zorder=1.5)
        digits = in_words(self.naive, *(() if self.corrected is None else (self.corrected,))).split(" (")[0]
        ax.plot(
            0,
            self.naive.value,
            "s",
            color=GREY,
            markersize=10,
            markeredgecolor="white",
            label=f"cross-validated as it is: {digits}",
            zorder=4,
        )
        if self.corrected is not None and self.clean is not None:
            self._without_leakage(ax, self.corrected, self.clean, (low, high))
        margin = 0.03 * (high - low)
        ax.set_xlim(low - margin, high + margin)
        percent_axis(ax.xaxis)
        ax.set_xlabel("injected fraction\n(below 0: records that look leaked are left out)", color=INK)
        ax.set_ylabel(self.metric.label, color=INK, parse_math=False)
        head(
            ax,
            f"{capitalized(self.metric.noun)} below and above the leakage rate",
            ("on new", "cross-validated", "extrapolated", "measured, look", "measured, rec"),
        )
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _points(self, ax: Any, which: Any, colour: str, marker: str, label: str, **look: Any) -> None:
        reach = ndtri(0.5 + self.naive.confidence_level / 2) * self.standard_errors[which]
        ax.errorbar(
            self.fractions[which],
            self.losses[which],
            yerr=reach if np.isfinite(reach).all() else None,
            fmt=marker,
            color=colour,
            markersize=6,
            capsize=2.5,
            elinewidth=1.2,
            label=label,
            zorder=3,
            **look,
        )

    def _without_leakage(self, ax: Any, corrected: Estimate, clean: float, ends: tuple[float, float]) -> None:
        for start, stop, style, label in (
            (clean, 0.0, (0, (4, 2)), "extrapolated from the injected ones alone"),
            (0.0, ends[1], "-", "_fitted"),
        ):
            a = np.linspace(start, stop, 60)
            curve = np.interp(a, self.extrapolated_fractions, self.extrapolated_losses)
            ax.plot(a, curve, color=BLUE, linewidth=1.6, linestyle=style, label=label, zorder=2)
        ax.axvline(clean, color=ORANGE, linewidth=1, linestyle=":", zorder=1)
        ax.annotate(
            "no leakage left",
            (clean, 0.02),
            xycoords=("data", "axes fraction"),
            xytext=(-4, 0),
            textcoords="offset points",
            ha="right",
            va="bottom",
            rotation=90,
            color=ORANGE,
            fontsize="small",
        )
        reach = bars(corrected)
        ax.errorbar(
            clean,
            corrected.value,
            yerr=None if reach is None else [[reach[0]], [reach[1]]],
            fmt="D",
            color=ORANGE,
            markersize=8,
            markeredgecolor="white",
            capsize=4,
            elinewidth=2,
            label=f"on new clusters: {in_words(corrected, self.naive)}",
            zorder=5,
        )
