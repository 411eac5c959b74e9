"""Box plots of every estimator's error, the paper's protocol on the left and the field protocol on the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcluster.reproduction.figures.style import COLOURS, INK, QUIET, make_figure, number, tidy

__all__ = ["draw_errors"]

_METHODS = ("iid", "naive", "trend", "sketch", "basis", "default")


def draw_errors(study: Mapping[str, Any]) -> Any:
    """Errors against the true loss; boxes span the quartiles, whiskers reach the extremes, as in the paper."""
    figure, (left, right) = make_figure(12.5, 4.9, sharey=True)
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    _panel(left, paper, lambda m: number(m["median_absolute_error"]), "median\n|error|")
    _panel(right, field, lambda m: f"{number(m['rmse'])}  ({number(m.get('rmse_over_naive'))})", "RMSE\n(÷ LOCO’s)")
    trials, draws = (len(part["methods"]["naive"]["errors"]) for part in (paper, field))
    fits = paper["fits_a_trial"]
    own = "" if fits["default"] == fits["paper"] else f", default {fits['default']:,}"
    left.set_title(
        f"Paper protocol: oracle pools, only Monte-Carlo noise\n{trials} trials of {fits['paper']:,} fits{own}; "
        f"true e₀ = {number(paper['e0'], 4)}",
        fontsize=10.5,
        loc="left",
    )
    sizes, fits = field["records"], field["fits_a_draw"]
    right.set_title(
        f"Field protocol: one leaky data set per point\n{draws} draws of the leak, {sizes['train']:,.0f} + "
        f"{sizes['validation']:,.0f} records, {fits['paper']:,} fits; true e₀ = {number(field['e0'], 4)}",
        fontsize=10.5,
        loc="left",
    )
    left.set_yticks(range(len(_METHODS)), [paper["methods"][name]["label"] for name in _METHODS])
    left.invert_yaxis()
    figure.suptitle(
        f"{study['title']}: error of the estimated loss on a new {study['cluster']}", fontweight="bold", fontsize=13
    )
    figure.supxlabel(f"estimate − true loss ({study['unit']})", fontsize=11)
    return figure


def _limits(errors: list[Any]) -> tuple[float, float]:
    """Limits that hold the true value and nearly all errors: a few far ones must not squeeze the rest."""
    low = min(0.0, *(float(np.quantile(found, 0.02)) for found in errors if len(found)))
    high = max(0.0, *(float(np.quantile(found, 0.98)) for found in errors if len(found)))
    room = high - low or 1.0
    smallest, largest = min(float(found.min()) for found in errors), max(float(found.max()) for found in errors)
    low = low if smallest < low - 0.2 * room else min(low, smallest)
    high = high if largest > high + 0.2 * room else max(high, largest)
    return low - 0.06 * room, high + 0.06 * room


def _panel(axis: Any, protocol: Mapping[str, Any], figures: Any, heading: str) -> None:
    rng = np.random.default_rng(0)
    solved = {
        name: np.array([error for error in protocol["methods"][name]["errors"] if error is not None])
        for name in _METHODS
    }
    low, high = _limits(list(solved.values()))
    for row, (name, errors) in enumerate(solved.items()):
        method = protocol["methods"][name]
        axis.boxplot(
            [errors],
            positions=[row],
            orientation="horizontal",
            whis=(0, 100),
            widths=0.5,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            boxprops={"facecolor": COLOURS[name], "alpha": 0.35, "edgecolor": COLOURS[name]},
            medianprops={"color": INK, "linewidth": 2},
            whiskerprops={"color": COLOURS[name]},
            capprops={"color": COLOURS[name]},
        )
        place = row + 0.32 * (rng.random(len(errors)) - 0.5)
        axis.plot(errors, place, "o", color=COLOURS[name], markersize=3.2, alpha=0.75, markeredgewidth=0)
        for far, edge, mark in ((errors > high, high, ">"), (errors < low, low, "<")):
            if far.any():
                axis.plot([edge], [row], mark, color=COLOURS[name], markersize=8, clip_on=False)
                side = {"xytext": (-6 if mark == ">" else 6, 9), "ha": "right" if mark == ">" else "left"}
                words = f"{far.sum()} beyond, up to {number(float(np.abs(errors[far]).max()))}"
                axis.annotate(words, (edge, row), textcoords="offset points", fontsize=8, color=INK, **side)
        axis.text(1.02, row, figures(method), transform=axis.get_yaxis_transform(), va="center", color=INK)
    axis.text(
        1.02,
        -0.6,
        heading,
        transform=axis.get_yaxis_transform(),
        va="center",
        color=QUIET,
        fontsize=9,
        linespacing=1.1,
    )
    axis.axvline(0, color=INK, linewidth=1.6, zorder=0)
    axis.annotate(
        "true value",
        (0, -0.62),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        color=INK,
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
    )
    axis.set_ylim(-1.0, len(_METHODS) - 0.4)
    axis.set_xlim(low, high)
    axis.locator_params(axis="x", nbins=6)
    axis.tick_params(left=False)
    tidy(axis)
