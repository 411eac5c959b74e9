"""Solve time against n, ours and cvxpy's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outofcluster.reproduction.figures.style import COLOURS, INK, QUIET, make_figure

__all__ = ["draw_scaling"]

_LINES = {
    ("T4+mono, penalty per index (the paper's)", "cvxpy"): ("#7f7f7f", "s", (0, (2, 2))),
    ("T4+mono, penalty per index (the paper's)", "outofcluster"): (COLOURS["trend"], "o", "-"),
    ("T4+mono, penalty per unit of p", "outofcluster"): (COLOURS["default"], "v", (0, (7, 2, 1.5, 2))),
    ("Sketch", "outofcluster"): (COLOURS["sketch"], "^", (0, (5, 2))),
    ("Basis", "outofcluster"): (COLOURS["basis"], "D", "-"),
}


def draw_scaling(timing: Mapping[str, Any]) -> Any:
    """A line for each method and solver; crosses where the e_0 found has moved with n."""
    figure, axis = make_figure(9.5, 6.4, columns=1)
    for (method, solver), (colour, mark, dashes) in _LINES.items():
        rows = [row for row in timing["scaling"] if (row["method"], row["solver"]) == (method, solver)]
        rows = [row for row in rows if row["seconds"] is not None]
        if not rows:
            continue
        label = f"{method}, by cvxpy" if solver == "cvxpy" else method
        n, seconds = [row["n"] for row in rows], [row["seconds"] for row in rows]
        axis.plot(n, seconds, color=colour, marker=mark, linestyle=dashes, linewidth=2, markersize=6, label=label)
        off = [row for row in rows if row["moved"]]
        axis.plot([row["n"] for row in off], [row["seconds"] for row in off], "x", color=INK, markersize=12, zorder=5)
    axis.plot([], [], "x", color=INK, markersize=12, label="e₀ has moved by more than 0.02 from n = 100")
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("n: training records")
    axis.set_ylabel("seconds to solve for the curve")
    axis.grid(color="#ececec", linewidth=0.8)
    figure.suptitle(
        f"Solve time against the size of the training sets ({timing['levels']} levels, one thread)",
        fontweight="bold",
        fontsize=13,
    )
    axis.set_title("losses simulated; medians of repeated runs", fontsize=10.5, color=QUIET, loc="left")
    figure.legend(loc="outside lower center", fontsize=10, ncols=2, frameon=False, handlelength=4)
    return figure
