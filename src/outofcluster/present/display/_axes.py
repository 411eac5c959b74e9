"""What all displays share: axes, colours, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np

from outofcluster._base.exceptions import MissingExtraError
from outofcluster._base.plain import data_frame
from outofcluster.inference.estimates import Estimate, between, decimals, fixed

BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#6E6E6E", "#222222"
"""Colours of measured losses, the corrected loss, thresholds, the loss as it is, and text."""

_LETTER = 0.075
"""Width of a letter of an axis name, in inches."""


def axes(ax: Any, *, size: tuple[float, float] = (6.6, 4.2)) -> Any:
    """The axes that the user gave, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("plot() needs matplotlib: pip install 'outofcluster[plot]'.") from None
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def tidy(ax: Any, *, grid: str = "y") -> None:
    """Keep few lines: no box around the axes, and a grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9A9A9A")
    ax.tick_params(colors=INK, length=3)
    ax.grid(axis=grid, color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)


def head(ax: Any, title: str, order: Sequence[str]) -> None:
    """Set the title, and put the legend between it and the axes, where it hides nothing.

    In a figure of the user's own, where there may be no room above the axes, the legend sits inside them.
    ``order`` holds the beginnings of the labels, in the order in which the legend lists them.
    """
    handles, labels = ax.get_legend_handles_labels()

    def place(label: str) -> int:
        return next((i for i, start in enumerate(order) if label.startswith(start)), len(order))

    entries = sorted(zip(labels, handles, strict=True), key=lambda entry: place(entry[0]))
    if not _has_room_above(ax):
        # Labels of the axes will take some of the width, so that half of it is left for a line of the legend.
        most = max(int(ax.get_window_extent().width / ax.figure.dpi / _LETTER / 2), 16)
        named = [handle for _, handle in entries], ["\n".join(wrap(label, most)) for label, _ in entries]
        ax.legend(*named, fontsize="x-small", loc="best", framealpha=0.85, edgecolor="none")
        ax.set_title(title, loc="left", color=INK)
        _fold_label(ax)
        return
    half = math.ceil(len(entries) / 2)
    widths = [max((len(label) for label, _ in part), default=0) for part in (entries[:half], entries[half:])]
    columns = 2 if 0.072 * sum(widths) + 1.2 < ax.get_window_extent().width / ax.figure.dpi else 1
    ax.legend(
        [handle for _, handle in entries],
        [label for label, _ in entries],
        frameon=False,
        fontsize="small",
        loc="lower left",
        bbox_to_anchor=(-0.01, 1),
        ncols=columns,
        borderaxespad=0.3,
        columnspacing=1.6,
    )
    ax.set_title(title, loc="left", color=INK, pad=12 + 13.5 * math.ceil(len(entries) / columns))


def _fold_label(ax: Any) -> None:
    """Break the name of the horizontal axis into lines that fit, with room for the labels of the vertical one."""
    wide = ax.get_window_extent().width / ax.figure.dpi
    lines = [part for line in ax.get_xlabel().split("\n") for part in wrap(line, max(int(0.7 * wide / _LETTER), 12))]
    ax.xaxis.label.set_text("\n".join(lines))


def _has_room_above(ax: Any) -> bool:
    """Whether the figure holds these axes alone and makes room for whatever surrounds them."""
    return len(ax.figure.axes) == 1 and ax.figure.get_layout_engine() is not None


def percent_axis(axis: Any) -> None:
    """Write shares as percentages."""
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %".replace("-", "−"))


def bars(estimate: Estimate) -> tuple[float, float] | None:
    """How far an interval reaches below and above its value; None if it is not known."""
    low, high = (estimate.value - estimate.interval[0], estimate.interval[1] - estimate.value)
    return (max(low, 0.0), max(high, 0.0)) if math.isfinite(low + high) else None


def estimate_row(ax: Any, estimates: Sequence[Estimate], y: Any, marker: str, colour: str, **options: Any) -> None:
    """Draw one mark per estimate, at the heights ``y``, with the intervals where all of them are known."""
    reaches = [bars(estimate) for estimate in estimates]
    known = None if any(reach is None for reach in reaches) else np.array(reaches).T
    look = {"markeredgecolor": "white", "capsize": 2.5} | options
    ax.errorbar([estimate.value for estimate in estimates], y, xerr=known, fmt=marker, color=colour, **look)


def in_words(estimate: Estimate, *others: Estimate) -> str:
    """The value and its interval, with as many decimals as suit all the estimates."""
    digits = min(decimals(estimate, *others), 4)
    digits = 3 if digits == 4 else digits
    if not math.isfinite(sum(estimate.interval)):
        return fixed(estimate.value, digits)
    return f"{fixed(estimate.value, digits)} ({between(estimate, digits)})"


def estimate_columns(naive: Sequence[Estimate], corrected: Sequence[Estimate]) -> dict[str, Any]:
    """Columns of a frame: naive, and with a leakage rate also corrected with low and high."""
    columns: dict[str, Any] = {"naive": [estimate.value for estimate in naive]}
    if corrected:
        columns |= {
            "corrected": [estimate.value for estimate in corrected],
            "low": [estimate.interval[0] for estimate in corrected],
            "high": [estimate.interval[1] for estimate in corrected],
        }
    return columns


def frame(columns: Any) -> Any:
    """A pandas DataFrame."""
    return data_frame(columns, asked="frame()")
