"""What all displays share: axes, colours, and how numbers are written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from outofcluster._base.exceptions import MissingExtraError
from outofcluster._base.plain import data_frame
from outofcluster.inference.estimates import Estimate, between, decimals

__all__ = [
    "BLUE",
    "GREEN",
    "GREY",
    "INK",
    "ORANGE",
    "axes",
    "bars",
    "estimate_columns",
    "frame",
    "head",
    "in_words",
    "percent_axis",
    "tidy",
]

BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#6E6E6E", "#222222"
"""Measured losses, the corrected loss, thresholds, the loss as it is, and text."""


def axes(ax: Any, *, size: tuple[float, float] = (6.6, 4.2)) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise MissingExtraError("plot() needs matplotlib: pip install 'outofcluster[plot]'.") from None
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def tidy(ax: Any, *, grid: str = "y") -> None:
    """Few lines: no box, and a grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9A9A9A")
    ax.tick_params(colors=INK, length=3)
    ax.grid(axis=grid, color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)


def head(ax: Any, title: str, order: Sequence[str]) -> None:
    """A title, and the legend between it and the axes, where it hides nothing; ``order`` holds starts of labels."""
    handles, labels = ax.get_legend_handles_labels()

    def place(label: str) -> int:
        return next((i for i, start in enumerate(order) if label.startswith(start)), len(order))

    found = sorted(zip(labels, handles, strict=True), key=lambda pair: place(pair[0]))
    half = math.ceil(len(found) / 2)
    widths = [max((len(label) for label, _ in part), default=0) for part in (found[:half], found[half:])]
    columns = 2 if 0.072 * sum(widths) + 1.2 < ax.get_window_extent().width / ax.figure.dpi else 1
    ax.legend(
        [handle for _, handle in found],
        [label for label, _ in found],
        frameon=False,
        fontsize="small",
        loc="lower left",
        bbox_to_anchor=(-0.01, 1),
        ncols=columns,
        borderaxespad=0.3,
        columnspacing=1.6,
    )
    ax.set_title(title, loc="left", color=INK, pad=12 + 13.5 * math.ceil(len(found) / columns))


def percent_axis(axis: Any) -> None:
    """Shares as percentages."""
    axis.set_major_formatter(lambda share, _: f"{round(100 * share, 6):g} %")


def bars(estimate: Estimate) -> tuple[float, float] | None:
    """How far an interval reaches below and above its value; None where it is not known."""
    low, high = (estimate.value - estimate.interval[0], estimate.interval[1] - estimate.value)
    return (max(low, 0.0), max(high, 0.0)) if math.isfinite(low + high) else None


def in_words(estimate: Estimate, *others: Estimate) -> str:
    """Value and interval, with the decimals that suit all of them."""
    digits = min(decimals(estimate, *others), 4)
    digits = 3 if digits == 4 else digits
    if not math.isfinite(sum(estimate.interval)):
        return f"{estimate.value:.{digits}f}"
    return f"{estimate.value:.{digits}f} ({between(estimate, digits)})"


def estimate_columns(naive: Sequence[Estimate], corrected: Sequence[Estimate]) -> dict[str, Any]:
    """Columns of a frame: naive and, where there are any, corrected with low and high."""
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
