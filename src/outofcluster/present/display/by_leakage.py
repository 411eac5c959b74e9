r"""Values over leakage: the losses of one fold, the curve that is extrapolated, what lies below the rate, other rates.

**The curve.** Models fitted to resamples are not the user's own model, so their losses are a little different. What
carries over is how the loss *rises* (an AUC: falls) as leakage vanishes. The curve is therefore drawn moved, by the
corrected loss less :math:`\hat e_0`, so that it passes through the cross-validated loss at the assumed rate and through
the corrected loss at no leakage.

**Below the rate.** To the right of 0 records of held-out clusters were injected; to the left training records that look
like held-out ones were left out, which is a negative injected fraction a. At 0 stands the user's own model. The leaked
share of the training records is

.. math:: p = p_0 + (1-p_0)\,a \quad (a ≥ 0), \qquad p = p_0 + η(1-p_0)\,a \quad (a < 0),

with η the efficiency of leaving records out (:mod:`outofcluster.curves.unmixing`), so that no leakage is left at
:math:`a^* = -p_0/(η(1-p_0))`. There the corrected loss is drawn, and the curve above the leakage rate, extrapolated
without the losses below it, ends there too. Losses of resamples are moved as in the curve; those of the left side are
not, since they are losses of the user's own training records.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import percentage
from outofcluster.auditing.tipping import TippingPoint
from outofcluster.inference.estimates import Estimate, Sensitivity
from outofcluster.metrics.facts import SOME_LOSS, MetricFacts
from outofcluster.present.display.base import (
    ADDED,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    SHARE_OF,
    Display,
    capitalized,
    draw_corrected,
    draw_measured,
    draw_naive,
    in_words,
    loss_name,
    naive_label,
    name_axes,
    percent_axis,
)
from outofcluster.sampling.audit_samples import has_pieces

_SHADE = {"color": "#F1F1F1", "zorder": 0, "linewidth": 0}
_DASHED = (0, (4, 2))


@dataclass(eq=False, repr=False)
class LossSamplesDisplay(Display):
    """Losses of the fits at every injected fraction, before any curve is fitted to them.

    The table has one row per level, with the columns injected, loss, standard_error, low and high.

    Attributes
    ----------
    injected, losses, standard_errors : array
        Injected fractions, mean losses there, and the Monte-Carlo standard errors of these means.
    low, high : array
        At every level, 5 % of the fits have a loss below ``low``, and 5 % have one above ``high``.
    error_model, loss : str
        The error model, and the name of the loss.
    ax_, figure_
        Where it was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.display import LossSamplesDisplay
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> pools = {"train": range(100), "validation": range(100, 200)}
    >>> samples = ooc.sample_losses(Ridge(), X, X[:, 0], **pools, n_fits=60, random_state=0)
    >>> LossSamplesDisplay.from_samples(samples).to_frame()["injected"].tolist() == samples.injected.tolist()
    True
    """

    injected: Array
    losses: Array
    standard_errors: Array
    low: Array
    high: Array
    error_model: str = "records"
    loss: str = "loss"

    _legend = ("mean", "middle")
    _title = "Losses of the fits by leakage added"

    @classmethod
    def from_samples(cls, samples: Any) -> Self:
        """The display of `LossSamples`.

        Parameters
        ----------
        samples : LossSamples
            What to show.

        Returns
        -------
        LossSamplesDisplay
        """
        low, high = np.array([np.quantile(level, (0.05, 0.95)) for level in samples.losses]).T
        about = {name: samples.problem[name] for name in ("error_model", "loss") if name in samples.problem}
        return cls(samples.injected, samples.means, samples.standard_errors, low, high, **about)

    def _columns(self) -> dict[str, Any]:
        numbers = {"injected": self.injected, "loss": self.losses, "standard_error": self.standard_errors}
        return numbers | {"low": self.low, "high": self.high}

    def _draw(self, ax: Any) -> None:
        band = {"alpha": 0.25, "linewidth": 6, "label": "middle 90 % of the fits"}
        ax.vlines(self.injected, self.low, self.high, color=BLUE, **band)
        reach = 2 * self.standard_errors if np.isfinite(self.standard_errors).all() else None
        look = {"linewidth": 1, "markersize": 5, "capsize": 4, "elinewidth": 1.6}
        label = "mean, with two standard errors"
        ax.errorbar(self.injected, self.losses, yerr=reach, fmt="o-", color=BLUE, label=label, **look)
        percent_axis(ax.xaxis)
        name_axes(ax, f"share of {ADDED[self.error_model]}", loss_name(self.loss))


@dataclass(eq=False, repr=False)
class LossCurveDisplay(Display):
    """Losses, or values of a metric, at increasing leakage, the fitted curve, and the value on new clusters.

    The table has one row per level, with the columns level, loss, standard_error, and shown, the loss as it is drawn.

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
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> display = LossCurveDisplay.from_audit(ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options))
    >>> display.to_frame().columns.tolist()
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

    _legend = ("cross-validated", "measured", "on new", "fitted")

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
            unmixed=curve is not None and bool(curve.extrapolated),
            **{name: getattr(summary, name) for name in ("naive", "corrected", "rate", "error_model", "metric")},
        )

    @property
    def shift(self) -> float:
        """By how much the losses of the resamples are moved to meet the loss of the user's own model."""
        if self.corrected is None or not len(self.curve_losses):
            return self.naive.value - float(self.losses[0])
        return self.corrected.value - float(self.curve_losses[0])

    def curve_parts(self) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """The curve as it is drawn, by levels and losses: from no leakage to the first level, and from there on."""
        first, curve = float(self.levels.min()), self.curve_losses + self.shift
        at_first = float(np.interp(first, self.curve_levels, curve))
        before, after = self.curve_levels < first, self.curve_levels > first
        return (
            (np.append(self.curve_levels[before], first), np.append(curve[before], at_first)),
            (np.append(first, self.curve_levels[after]), np.append(at_first, curve[after])),
        )

    def _columns(self) -> dict[str, Any]:
        numbers = {"level": self.levels, "loss": self.losses, "standard_error": self.standard_errors}
        return numbers | {"shown": self.losses + self.shift}

    @property
    def _title(self) -> str:
        if has_pieces(self.error_model):
            return f"{capitalized(self.metric.noun)} without and with a piece in training"
        how = "down to none" if self.unmixed else "extrapolated to none"
        return f"{capitalized(self.metric.noun)} by leakage{' added' if self.corrected is None else f', {how}'}"

    def _draw(self, ax: Any) -> None:
        shown, level = self.losses + self.shift, self.naive.confidence_level
        added = "imitated pieces" if has_pieces(self.error_model) else "more leakage added"
        look = {"fmt": "o", "color": BLUE, "markersize": 5, "label": f"measured, with {added}"}
        draw_measured(ax, self.levels, shown, self.standard_errors, level, **look)
        axis = SHARE_OF[self.error_model]
        if self.corrected is None or self.rate is None:
            axis = ADDED[self.error_model]
            ax.plot(self.levels, shown, color=BLUE, linewidth=1, alpha=0.5)
            draw_naive(ax, 0, self.naive)
        else:
            self._draw_curve(ax, self.corrected, self.rate)
        percent_axis(ax.xaxis)
        name_axes(ax, f"share of {axis}", self.metric.label)

    def _draw_curve(self, ax: Any, corrected: Estimate, rate: float) -> None:
        ax.axvspan(0, float(self.levels.min()), **_SHADE)
        extrapolated, seen = self.curve_parts()
        pieces = has_pieces(self.error_model)
        ax.plot(*seen, color=BLUE, linewidth=1.8, label="line between these" if pieces else "fitted curve")
        label = "by models without look-alikes" if self.unmixed else "extrapolated"
        # Losses without a piece are measured, so that hardly anything is left to extrapolate.
        ax.plot(*extrapolated, color=ORANGE, linewidth=1.8, linestyle=_DASHED, label=None if pieces else label)
        ax.plot([0, rate], [self.naive.value] * 2, color=GREY, linewidth=1, linestyle=":")
        draw_naive(ax, rate, self.naive, corrected)
        draw_corrected(ax, 0, corrected, f"on new clusters: {in_words(corrected, self.naive)}", clip_on=False)
        ax.set_xlim(-0.02 * float(self.levels.max()), None)


@dataclass(eq=False, repr=False)
class UnmixingDisplay(Display):
    """Values with records left out and with records injected, and the point at which no leakage is left.

    The table has one row per injected fraction, with the columns fraction, loss and standard_error.

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
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 150, "random_state": 0}
    >>> options["cv"] = [(range(300), range(300, 400))]
    >>> display = UnmixingDisplay.from_audit(ooc.audit(Ridge(), X, X[:, 0] ** 2, groups=groups, **options))
    >>> display.to_frame().columns.tolist()
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

    _legend = ("on new", "cross-validated", "extrapolated", "measured, look", "measured, rec")

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
        observed, fractions, extrapolated = np.array(summary.losses), np.array([]), np.array([])
        shift = summary.naive.value - float(observed[0])
        if clean is not None:
            shift = corrected.value - curve.loss[0]
            observed, extrapolated = np.array(curve.observed), np.array(curve.extrapolated) + shift
            p, rate = np.array(curve.p), float(curve.at[0])
            fractions = np.where(p < rate, (1 - p / rate) * clean if rate else 0.0, (p - rate) / (1 - rate))
        left, right = np.array(below.fractions) <= 0, np.array(summary.levels) > 0

        def join(left_out: Any, injected: Any) -> Array:
            return np.concatenate([np.array(left_out)[left], np.array(injected)[right]])

        return cls(
            fractions=join(below.fractions, summary.levels),
            losses=join(below.losses, observed + shift),
            standard_errors=join(below.standard_errors, summary.standard_errors),
            extrapolated_fractions=fractions,
            extrapolated_losses=extrapolated,
            naive=summary.naive,
            corrected=None if clean is None else corrected,
            clean=clean,
            metric=summary.metric,
        )

    def shown(self) -> Self:
        """The part that is drawn: around 0 and the point without leakage, not all that was measured."""
        reach = 0.3 if not self.clean else max(2.2 * abs(self.clean), 0.15)
        lowest, highest = min(-reach, self.clean or 0.0), max(1.5 * reach, 0.3)
        inside = (self.fractions >= lowest - 1e-12) & (self.fractions <= highest + 1e-12)
        losses, errors = self.losses[inside], self.standard_errors[inside]
        return replace(self, fractions=self.fractions[inside], losses=losses, standard_errors=errors)

    def curve_parts(self, points: int) -> list[tuple[Array, Array]]:
        """The curve above the leakage rate, by fractions and losses: up to 0, and from 0 on; none without a rate."""
        if self.clean is None:
            return []
        grids = (np.linspace(self.clean, 0, points), np.linspace(0, float(self.fractions.max()), points))
        return [(grid, np.interp(grid, self.extrapolated_fractions, self.extrapolated_losses)) for grid in grids]

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest fraction, of those measured and the one without leakage."""
        return min(float(self.fractions.min()), self.clean or 0.0), float(self.fractions.max())

    def _columns(self) -> dict[str, Any]:
        return {"fraction": self.fractions, "loss": self.losses, "standard_error": self.standard_errors}

    @property
    def _title(self) -> str:
        return f"{capitalized(self.metric.noun)} below and above the leakage rate"

    def _draw(self, ax: Any) -> None:
        part = self.shown()
        a, (low, high) = part.fractions, part.ends
        ax.axvspan(low - 1, 0, **_SHADE)
        beyond = a < (low - 1 if self.clean is None else self.clean)
        for which, colour, marker, look in (
            ((a < 0) & ~beyond, GREEN, "^", {"label": "measured, look-alikes left out"}),
            (beyond, GREEN, "^", {"label": "_too much left out", "alpha": 0.35}),
            (a > 0, BLUE, "o", {"label": "measured, records injected"}),
        ):
            numbers = (a[which], part.losses[which], part.standard_errors[which], self.naive.confidence_level)
            draw_measured(ax, *numbers, fmt=marker, color=colour, markersize=6, **look)
        ax.plot(a[a <= 0], part.losses[a <= 0], color=GREEN, linewidth=1, alpha=0.5, zorder=1.5)
        draw_naive(ax, 0, self.naive, *([] if self.corrected is None else [self.corrected]), zorder=4)
        styles = (_DASHED, "-"), ("extrapolated from the injected ones alone", "_fitted")
        for curve, style, label in zip(part.curve_parts(60), *styles, strict=False):
            ax.plot(*curve, color=BLUE, linewidth=1.6, linestyle=style, label=label, zorder=2)
        if self.corrected is not None and self.clean is not None:
            self._draw_clean(ax, self.corrected, self.clean)
        margin = 0.03 * (high - low)
        ax.set_xlim(low - margin, high + margin)
        percent_axis(ax.xaxis)
        name_axes(ax, "injected fraction\n(below 0: records that look leaked are left out)", self.metric.label)

    def _draw_clean(self, ax: Any, corrected: Estimate, clean: float) -> None:
        ax.axvline(clean, color=ORANGE, linewidth=1, linestyle=":", zorder=1)
        look = {"ha": "right", "va": "bottom", "rotation": 90, "color": ORANGE, "fontsize": "small"}
        place = {"xy": (clean, 0.02), "xycoords": ("data", "axes fraction")}
        ax.annotate("no leakage left", **place, xytext=(-4, 0), textcoords="offset points", **look)
        draw_corrected(ax, clean, corrected, f"on new clusters: {in_words(corrected, self.naive)}", markersize=8)


@dataclass(eq=False, repr=False)
class SensitivityDisplay(Display):
    """How much the answer depends on the leakage rate, and the rate at which it reaches a threshold.

    The table has one row per rate, with the columns rate, value, low and high.

    Attributes
    ----------
    rates, values, low, high : array
        Leakage rates, the corrected value at each of them, and the ends of its interval.
    naive, corrected : Estimate or None
        The value as it is, and on new clusters at the assumed rate, where they are known.
    rate : float or None
        The assumed rate.
    tipping_point : TippingPoint or None
        The smallest rate at which the corrected value reaches a threshold, with its interval.
    error_model : str
        The error model.
    metric : MetricFacts
        What is measured.
    confidence_level : float
        Confidence level of the intervals.
    from_data : bool
        Whether the rate is what the records show, and not an assumed one.
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
    >>> options = {"leakage": 0.1, "error_model": "records", "n_fits": 60, "random_state": 0}
    >>> result = ooc.audit(Ridge(), X, X[:, 0], groups=groups, **options)
    >>> SensitivityDisplay.from_audit(result, rates=[0.0, 0.1, 0.2]).to_frame()["rate"].tolist()
    [0.0, 0.1, 0.2]
    """

    rates: Array
    values: Array
    low: Array
    high: Array
    naive: Estimate | None = None
    corrected: Estimate | None = None
    rate: float | None = None
    tipping_point: TippingPoint | None = None
    error_model: str = "records"
    metric: MetricFacts = SOME_LOSS
    confidence_level: float = 0.95
    from_data: bool = False

    _legend = ("cross-validated", "corrected", "at the", "by what")

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
        return replace(
            cls.from_sensitivity(audit.sensitivity(rates)),
            rate=audit.summary.rate,
            tipping_point=None if threshold is None else audit.tipping_point(threshold),
            **{name: getattr(audit, name) for name in ("naive", "corrected", "from_data")},
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
        names = ("rates", "values", "low", "high", "error_model", "metric", "confidence_level")
        return cls(**{name: getattr(sensitivity, name) for name in names})

    def _columns(self) -> dict[str, Any]:
        return {"rate": self.rates, "value": self.values, "low": self.low, "high": self.high}

    @property
    def _title(self) -> str:
        return f"Corrected {self.metric.noun} by leakage rate"

    def _draw(self, ax: Any) -> None:
        if np.isfinite(self.low + self.high).all():
            label = f"{percentage(self.confidence_level)} interval"
            ax.fill_between(self.rates, self.low, self.high, color=BLUE, alpha=0.15, linewidth=0, label=label)
        label = f"corrected {self.metric.noun}, if this is the rate"
        ax.plot(self.rates, self.values, color=BLUE, linewidth=2, label=label)
        if self.naive is not None:
            ax.axhline(self.naive.value, color=GREY, linewidth=1.2, linestyle=":", label=naive_label(self.naive))
        if self.corrected is not None and self.rate is not None:
            where = "by what the records show" if self.from_data else f"at the assumed {percentage(self.rate)}"
            label = f"{where}: {in_words(self.corrected)}"
            draw_corrected(ax, self.rate, self.corrected, label, zorder=4)
        if self.tipping_point is not None:
            self._draw_threshold(ax, self.tipping_point)
        percent_axis(ax.xaxis)
        ax.margins(x=0.01)
        name_axes(ax, f"leakage rate: share of {SHARE_OF[self.error_model]}", self.metric.label)

    def _draw_threshold(self, ax: Any, tipping: TippingPoint) -> None:
        """The threshold, the rate at which the corrected value reaches it, and the interval of that rate."""
        rate, threshold, drawn = tipping.rate, tipping.threshold, float(self.rates.max())
        reached = f"reached at {percentage(rate)}" if rate is not None else ""
        label = f"threshold {threshold:.4g}: {reached or f'not reached up to {percentage(tipping.largest_rate)}'}"
        ax.axhline(threshold, color=GREEN, linewidth=1.4, linestyle=(0, (6, 2)), label=label)
        low, high = tipping.interval
        if low is not None and low <= drawn:
            ax.plot(
                [low, drawn if high is None else min(high, drawn)],
                [threshold] * 2,
                color=GREEN,
                linewidth=4,
                alpha=0.35,
            )
        if rate is not None and rate <= drawn:
            ax.plot(rate, threshold, "o", color=GREEN, markersize=8, markeredgecolor="white", zorder=5)
            lowest = min(np.nanmin(self.low), threshold, np.inf if self.naive is None else self.naive.value)
            ax.plot([rate] * 2, [lowest, threshold], color=GREEN, linewidth=1, linestyle=":", zorder=1)
            ax.set_ylim(bottom=lowest)
