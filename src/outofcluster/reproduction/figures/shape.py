"""Is the loss decreasing and convex? Slopes and changes of slope with error bars, for both protocols."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from outofcluster.reproduction.figures.style import INK, QUIET, make_figure

__all__ = ["draw_shape"]

_GOOD, _BAD = "#0072B2", "#D55E00"
_NAMES = {"paper": "Paper protocol", "field": "Field protocol"}


def draw_shape(study: Mapping[str, Any]) -> Any:
    """Slopes, which must not be positive, and changes of slope, which must not be negative."""
    figure, axes = make_figure(12.5, 7.6, rows=2, columns=2)
    for row, protocol in zip(axes, ("paper", "field"), strict=True):
        shape = study["protocols"][protocol]["shape"]
        name = f"{_NAMES[protocol]}, {shape['n_fits']:,} fits"
        _panel(row[0], shape["slopes"], 1, f"{name}: slope", shape["decreasing"])
        _panel(row[1], shape["bends"], -1, f"{name}: change of slope", shape["convex"])
        row[0].set_ylabel(f"loss per unit of p\n({study['unit']})")
        row[1].set_ylabel("change between neighbours")
    for axis in axes[1]:
        axis.set_xlabel("p: share of training records from validation clusters")
    figure.suptitle(
        f"{study['title']}: does the loss fall, and ever more slowly?  (bars: ± 2 standard errors)",
        fontweight="bold",
        fontsize=13,
    )
    return figure


def _panel(axis: Any, points: Mapping[str, Any], wrong: int, title: str, check: Mapping[str, Any]) -> None:
    """Points with bars; the forbidden side is shaded, and what lies there by more than two errors is marked."""
    x, y, error = (np.array(points[key], dtype=float) for key in ("p", "value", "standard_error"))
    bad = wrong * y > 2 * error
    for mask, colour, mark in ((~bad, _GOOD, "o"), (bad, _BAD, "X")):
        axis.errorbar(x[mask], y[mask], 2 * error[mask], fmt=mark, color=colour, capsize=3, markersize=7, linewidth=1.4)
    low, high = min((y - 2 * error).min(), 0), max((y + 2 * error).max(), 0)
    room = 0.12 * (high - low)
    axis.set_ylim(low - room, high + room)
    axis.axhspan(0, high + room if wrong > 0 else low - room, color="#f7e6da", zorder=0)
    axis.axhline(0, color=INK, linewidth=1.2)
    axis.set_xlim(0, 1.02)
    side = "rises" if wrong > 0 else "concave"
    axis.text(
        0.005,
        0.98 if wrong > 0 else 0.02,
        side,
        transform=axis.transAxes,
        color=_BAD,
        fontsize=9,
        va="top" if wrong > 0 else "bottom",
    )
    colour = _BAD if check["exceeds_noise"] else INK
    axis.set_title(f"{title}\n{_short(check)}", fontsize=10, color=colour, loc="left")
    axis.tick_params(colors=QUIET)


def _short(check: Mapping[str, Any]) -> str:
    """The verdict in a line: the largest violation, if any, and whether noise explains it."""
    name = str(check["shape"])
    if check["holds"]:
        return f"{name}: yes"
    worst = max(check["violations"], key=lambda v: v["size"])
    error = "" if worst["standard_error"] is None else f" ± {worst['standard_error']:.1g}"
    judged = {True: "beyond the noise", False: "within the noise", None: "too few draws to judge"}
    where = f"p {worst['start']:.2g} to {worst['stop']:.2g}"
    return f"{name}: off by {worst['size']:.2g}{error} at {where}, {judged[check['exceeds_noise']]}"
