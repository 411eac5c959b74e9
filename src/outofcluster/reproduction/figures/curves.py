"""The whole curve: losses that a user sees, every method's fit to them, and the true loss at each leakage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcluster.reproduction.figures.style import COLOURS, DASHES, INK, QUIET, make_figure, number
from outofcluster.reproduction.parameters import LEAKAGE

__all__ = ["draw_curves"]

_METHODS = ("trend", "sketch", "basis", "default")
_ZOOM = 0.25

_WIDE = 20
"""Ratio of the largest loss to the smallest from which the scale is logarithmic."""


def draw_curves(study: Mapping[str, Any]) -> Any:
    """Expected loss against p, from 0 to 1 and again near 0, where the estimate is read off."""
    paper = study["protocols"]["paper"]
    figure, axes = make_figure(12.5, 5.0, gridspec_kw={"width_ratios": [1.25, 1]})
    for axis, limit in zip(axes, (1.0, _ZOOM), strict=True):
        _draw(axis, study, limit)
    axes[0].set_ylabel(f"expected loss ({study['unit']})")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, handlelength=3.2, frameon=False)
    trials = len(paper["methods"]["naive"]["errors"])
    figure.suptitle(f"{study['title']}: loss by leakage, paper protocol", fontweight="bold", fontsize=13)
    axes[0].set_title(
        f"Whole range. Dots: mean over {trials} trials of {paper['fits_a_trial']['paper']:,} fits\n"
        "Curves: fits to the first trial. Bars: ± 2 standard errors",
        fontsize=10.5,
        loc="left",
    )
    axes[1].set_title(
        f"Near p = 0, where the estimate is read off (diamonds)\ntrue e₀ = {number(paper['e0'], 4)}",
        fontsize=10.5,
        loc="left",
    )
    return figure


def _draw(axis: Any, study: Mapping[str, Any], limit: float) -> None:
    paper = study["protocols"]["paper"]
    truth, observed, curves = paper["truth"], paper["observed"], paper["curves"]
    axis.axvspan(0, LEAKAGE, color="#f2f2f2", zorder=0)
    p, loss = np.array(observed["p"]), np.array(observed["loss"])
    shown = p <= limit + 1e-9
    axis.plot(p[shown], loss[shown], "o", color="#b0b0b0", markersize=3.5, label="losses a user sees", zorder=1)
    grid = np.array(curves["p"])
    lows, highs = [loss[shown].min()], [loss[shown].max()]
    for name in _METHODS:
        if name in curves:
            # No further than the losses it was fitted to.
            inside = grid <= min(limit, curves[name]["largest_p"]) + 1e-9
            fitted = np.array(curves[name]["loss"])[inside]
            axis.plot(
                grid[inside],
                fitted,
                color=COLOURS[name],
                linestyle=DASHES[name],
                linewidth=2.2,
                zorder=3,
                label=paper["methods"][name]["label"],
            )
    x, y, error = (np.array(truth[key], dtype=float) for key in ("p", "loss", "standard_error"))
    keep = x <= limit + 1e-9
    axis.errorbar(
        x[keep],
        y[keep],
        2 * error[keep],
        fmt="s",
        color=INK,
        markersize=5,
        capsize=3,
        linewidth=1.2,
        zorder=5,
        label="true loss",
        clip_on=False,
    )
    lows.append(y[keep].min())
    highs.append(y[keep].max())
    # Curves may leave the picture; the truth and the data may not.
    low, high = min(lows), max(highs)
    room = high - low or abs(high) or 1.0
    starts = [curves[name]["loss"][0] for name in _METHODS if name in curves]
    top = min(max([high, *starts]), high + room)
    bottom = max(min([low, *starts]), low - 0.5 * room)
    if low > 0 and high > _WIDE * low:
        axis.set_yscale("log")
        axis.set_ylim(low / 2, 2 * top)
    else:
        axis.set_ylim(bottom - 0.12 * room, top + 0.08 * room)
    axis.set_xlim(0, limit)
    bounds = axis.get_ylim()
    for name in _METHODS:
        start = curves[name]["loss"][0] if name in curves else None
        if start is not None and bounds[0] <= start <= bounds[1]:
            axis.plot([0], [start], "D", color=COLOURS[name], markersize=7, zorder=4, clip_on=False)
    axis.axhline(paper["e0"], color=INK, linewidth=1, linestyle=(0, (2, 3)), zorder=2)
    axis.text(LEAKAGE, 0.02, " p₀ = 0.1", transform=axis.get_xaxis_transform(), color=QUIET, fontsize=9, va="bottom")
    axis.text(
        0.985,
        paper["e0"],
        "true e₀",
        transform=axis.get_yaxis_transform(),
        color=INK,
        fontsize=9,
        va="bottom",
        ha="right",
    )
    axis.set_xlabel("p: share of training records from validation clusters")
    axis.grid(color="#ececec", linewidth=0.8)
    axis.set_axisbelow(True)
