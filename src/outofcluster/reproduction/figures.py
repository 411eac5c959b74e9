"""The figures of a reproduction, each drawn from plain results and from nothing else.

Colours are those of Okabe and Ito, which colour-blind readers can tell apart. Lines and marks differ in style as well,
so that a figure can be read in grey.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from math import floor, log10
from typing import Any

import numpy as np

import outofcluster as ooc
from outofcluster.reproduction.studies import LEAKAGE
from outofcluster.reproduction.timing import PER_INDEX

__all__ = ["check_matplotlib", "draw_curves", "draw_errors", "draw_scaling", "draw_shape", "number", "rendered"]

_COLOURS = {
    "iid": "#7f7f7f",
    "naive": "#D55E00",
    "trend": "#0072B2",
    "sketch": "#009E73",
    "basis": "#E69F00",
    "default": "#CC79A7",
}
_DASHES: dict[str, Any] = {
    "trend": "-",
    "sketch": (0, (5, 2)),
    "basis": (0, (1, 1.2)),
    "default": (0, (7, 2, 1.5, 2)),
}
_LINES: dict[tuple[str, str], tuple[str, str, Any]] = {
    (PER_INDEX, "cvxpy"): ("#7f7f7f", "s", (0, (2, 2))),
    (PER_INDEX, "outofcluster"): (_COLOURS["trend"], "o", "-"),
    ("T4+mono, penalty per unit of p", "outofcluster"): (_COLOURS["default"], "v", _DASHES["default"]),
    ("Sketch", "outofcluster"): (_COLOURS["sketch"], "^", _DASHES["sketch"]),
    ("Basis", "outofcluster"): (_COLOURS["basis"], "D", "-"),
}
"""Colour, mark and dashes of every method and solver in the figure of solve times."""

_INK, _QUIET, _GOOD, _BAD = "#222222", "#777777", "#0072B2", "#D55E00"
_HEADING: dict[str, Any] = {"fontweight": "bold", "fontsize": 13}
_TITLE: dict[str, Any] = {"fontsize": 10.5, "loc": "left"}
_SHARE = "p: share of training records from validation clusters"
_SETTINGS = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _QUIET,
    "axes.titlelocation": "left",
    "xtick.color": _INK,
    "ytick.color": _INK,
    "legend.frameon": False,
    "svg.hashsalt": "outofcluster",
    "svg.fonttype": "none",
}
_WIDE = 20
"""Ratio of the largest loss to the smallest from which the scale is logarithmic."""


def check_matplotlib() -> Any:
    """The module, or a sentence that says what brings it."""
    try:
        import matplotlib
    except ImportError:
        raise ooc.MissingExtraError("figures need matplotlib: pip install 'outofcluster[plot]'.") from None
    return matplotlib


def _make_figure(width: float, height: float, rows: int = 1, columns: int = 2, **options: Any) -> tuple[Any, Any]:
    """A figure of its own, apart from whatever the caller plots, and its axes."""
    from matplotlib.figure import Figure

    with check_matplotlib().rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def rendered(figure: Any) -> dict[str, bytes]:
    """The figure as PNG, with 256 colours, and SVG; the same results give the same bytes."""
    from PIL import Image

    files = {}
    with check_matplotlib().rc_context(_SETTINGS):
        for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None, "Creator": None})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
            files[kind] = buffer.getvalue()
    # Few colours make a third of the size; without dithering, flat areas stay flat.
    few = Image.open(io.BytesIO(files["png"])).convert("RGB").quantize(256, dither=Image.Dither.NONE)
    buffer = io.BytesIO()
    few.save(buffer, "PNG", optimize=True, dpi=(150, 150))
    return files | {"png": buffer.getvalue()}


def number(value: float | None, digits: int = 2) -> str:
    """A number with so many significant digits, without an exponent where it can be read without.

    Examples
    --------
    >>> number(0.01284), number(25.44), number(None)
    ('0.013', '25', '–')
    """
    if value is None:
        return "–"
    if value == 0 or not 1e-5 <= abs(value) < 1e5:
        return f"{value:.{digits}g}"
    return f"{value:.{max(digits - 1 - floor(log10(abs(value))), 0)}f}"


def draw_errors(study: Mapping[str, Any]) -> Any:
    """Box plots of errors, the paper's protocol on the left and the field protocol on the right.

    Boxes span the quartiles, whiskers reach the extremes, as in the paper.
    """
    figure, (left, right) = _make_figure(12.5, 4.9, sharey=True)
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    _errors_panel(left, paper, lambda m: number(m["median_absolute_error"]), "median\n|error|")
    _errors_panel(
        right, field, lambda m: f"{number(m['rmse'])}  ({number(m.get('rmse_over_naive'))})", "RMSE\n(÷ LOCO’s)"
    )
    trials, draws = (len(part["methods"]["naive"]["errors"]) for part in (paper, field))
    fits = paper["fits_a_trial"]
    of_default = "" if fits["default"] == fits["paper"] else f", default {fits['default']:,}"
    left.set_title(
        f"Paper protocol: oracle pools, only Monte-Carlo noise\n{trials} trials of {fits['paper']:,} fits{of_default}; "
        f"true e₀ = {number(paper['e0'], 4)}",
        **_TITLE,
    )
    sizes, fits = field["records"], field["fits_a_draw"]
    right.set_title(
        f"Field protocol: one leaky data set per point\n{draws} draws of the leak, {sizes['train']:,.0f} + "
        f"{sizes['validation']:,.0f} records, {fits['paper']:,} fits; true e₀ = {number(field['e0'], 4)}",
        **_TITLE,
    )
    left.set_yticks(range(len(_COLOURS)), [paper["methods"][name]["label"] for name in _COLOURS])
    left.invert_yaxis()
    figure.suptitle(f"{study['title']}: error of the estimated loss on a new {study['cluster']}", **_HEADING)
    figure.supxlabel(f"estimate − true loss ({study['unit']})", fontsize=11)
    return figure


def _limits(errors: list[Any]) -> tuple[float, float]:
    """Limits that hold the true value and nearly all errors: a few far ones must not squeeze the rest."""
    low = min(0.0, *(float(np.quantile(method, 0.02)) for method in errors if len(method)))
    high = max(0.0, *(float(np.quantile(method, 0.98)) for method in errors if len(method)))
    room = high - low or 1.0
    smallest, largest = min(float(method.min()) for method in errors), max(float(method.max()) for method in errors)
    low = low if smallest < low - 0.2 * room else min(low, smallest)
    high = high if largest > high + 0.2 * room else max(high, largest)
    return low - 0.06 * room, high + 0.06 * room


def _errors_panel(
    axis: Any, protocol: Mapping[str, Any], figures: Callable[[Mapping[str, Any]], str], heading: str
) -> None:
    rng = np.random.default_rng(0)
    solved = {
        name: np.array([error for error in protocol["methods"][name]["errors"] if error is not None])
        for name in _COLOURS
    }
    low, high = _limits(list(solved.values()))
    beside: dict[str, Any] = {"transform": axis.get_yaxis_transform(), "va": "center"}
    for row, (name, errors) in enumerate(solved.items()):
        colour = _COLOURS[name]
        axis.boxplot(
            [errors],
            positions=[row],
            orientation="horizontal",
            whis=(0, 100),
            widths=0.5,
            patch_artist=True,
            showfliers=False,
            manage_ticks=False,
            boxprops={"facecolor": colour, "alpha": 0.35, "edgecolor": colour},
            medianprops={"color": _INK, "linewidth": 2},
            whiskerprops={"color": colour},
            capprops={"color": colour},
        )
        height = row + 0.32 * (rng.random(len(errors)) - 0.5)
        axis.plot(errors, height, "o", color=colour, markersize=3.2, alpha=0.75, markeredgewidth=0)
        for far, edge, mark in ((errors > high, high, ">"), (errors < low, low, "<")):
            if far.any():
                axis.plot([edge], [row], mark, color=colour, markersize=8, clip_on=False)
                side = {"xytext": (-6 if mark == ">" else 6, 9), "ha": "right" if mark == ">" else "left"}
                words = f"{far.sum()} beyond, up to {number(float(np.abs(errors[far]).max()))}"
                axis.annotate(words, (edge, row), textcoords="offset points", fontsize=8, color=_INK, **side)
        axis.text(1.02, row, figures(protocol["methods"][name]), color=_INK, **beside)
    axis.text(1.02, -0.6, heading, color=_QUIET, fontsize=9, linespacing=1.1, **beside)
    axis.axvline(0, color=_INK, linewidth=1.6, zorder=0)
    box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
    style: dict[str, Any] = {"va": "center", "color": _INK, "fontsize": 9, "bbox": box}
    axis.annotate("true value", (0, -0.62), xytext=(5, 0), textcoords="offset points", **style)
    axis.set_ylim(-1.0, len(_COLOURS) - 0.4)
    axis.set_xlim(low, high)
    axis.locator_params(axis="x", nbins=6)
    axis.tick_params(left=False)
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)


def draw_curves(study: Mapping[str, Any]) -> Any:
    """Expected loss against p, from 0 to 1 and again near 0, where the estimate is read off.

    There are the losses that a user sees, every method's fit to them, and the true loss at each leakage.
    """
    paper = study["protocols"]["paper"]
    figure, axes = _make_figure(12.5, 5.0, gridspec_kw={"width_ratios": [1.25, 1]})
    for axis, limit in zip(axes, (1.0, 0.25), strict=True):
        _curves_panel(axis, paper, limit)
    axes[0].set_ylabel(f"expected loss ({study['unit']})")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=6, handlelength=3.2, frameon=False)
    trials = len(paper["methods"]["naive"]["errors"])
    figure.suptitle(f"{study['title']}: loss by leakage, paper protocol", **_HEADING)
    axes[0].set_title(
        f"Whole range. Dots: mean over {trials} trials of {paper['fits_a_trial']['paper']:,} fits\n"
        "Curves: fits to the first trial. Bars: ± 2 standard errors",
        **_TITLE,
    )
    e0 = number(paper["e0"], 4)
    axes[1].set_title(f"Near p = 0, where the estimate is read off (diamonds)\ntrue e₀ = {e0}", **_TITLE)
    return figure


def _curves_panel(axis: Any, paper: Mapping[str, Any], limit: float) -> None:
    curves = {name: paper["curves"][name] for name in _DASHES if name in paper["curves"]}
    axis.axvspan(0, LEAKAGE, color="#f2f2f2", zorder=0)
    p, loss = np.array(paper["observed"]["p"]), np.array(paper["observed"]["loss"])
    p, loss = p[p <= limit + 1e-9], loss[p <= limit + 1e-9]
    axis.plot(p, loss, "o", color="#b0b0b0", markersize=3.5, label="losses a user sees", zorder=1)
    grid = np.array(paper["curves"]["p"])
    for name, curve in curves.items():
        # No further than the losses it was fitted to.
        inside = grid <= min(limit, curve["largest_p"]) + 1e-9
        style = {"color": _COLOURS[name], "linestyle": _DASHES[name], "label": paper["methods"][name]["label"]}
        axis.plot(grid[inside], np.array(curve["loss"])[inside], linewidth=2.2, zorder=3, **style)
    x, y, error = (np.array(paper["truth"][key], dtype=float) for key in ("p", "loss", "standard_error"))
    x, y, error = x[x <= limit + 1e-9], y[x <= limit + 1e-9], error[x <= limit + 1e-9]
    marks: dict[str, Any] = {"fmt": "s", "color": _INK, "markersize": 5, "capsize": 3, "linewidth": 1.2}
    axis.errorbar(x, y, 2 * error, **marks, zorder=5, label="true loss", clip_on=False)
    # Curves may leave the picture; the truth and the data may not.
    low, high = min(loss.min(), y.min()), max(loss.max(), y.max())
    room = high - low or abs(high) or 1.0
    starts = {name: curve["loss"][0] for name, curve in curves.items()}
    top = min(max([high, *starts.values()]), high + room)
    bottom = max(min([low, *starts.values()]), low - 0.5 * room)
    if low > 0 and high > _WIDE * low:
        axis.set_yscale("log")
        axis.set_ylim(low / 2, 2 * top)
    else:
        axis.set_ylim(bottom - 0.12 * room, top + 0.08 * room)
    axis.set_xlim(0, limit)
    bounds = axis.get_ylim()
    for name, start in starts.items():
        if bounds[0] <= start <= bounds[1]:
            axis.plot([0], [start], "D", color=_COLOURS[name], markersize=7, zorder=4, clip_on=False)
    axis.axhline(paper["e0"], color=_INK, linewidth=1, linestyle=(0, (2, 3)), zorder=2)
    small: dict[str, Any] = {"fontsize": 9, "va": "bottom"}
    axis.text(LEAKAGE, 0.02, " p₀ = 0.1", transform=axis.get_xaxis_transform(), color=_QUIET, **small)
    axis.text(0.985, paper["e0"], "true e₀", transform=axis.get_yaxis_transform(), color=_INK, ha="right", **small)
    axis.set_xlabel(_SHARE)
    axis.grid(color="#ececec", linewidth=0.8)
    axis.set_axisbelow(True)


def draw_shape(study: Mapping[str, Any]) -> Any:
    """Slopes, which must not be positive, and changes of slope, which must not be negative, for both protocols."""
    figure, axes = _make_figure(12.5, 7.6, rows=2, columns=2)
    for row, protocol in zip(axes, ("paper", "field"), strict=True):
        shape = study["protocols"][protocol]["shape"]
        name = f"{protocol.capitalize()} protocol, {shape['n_fits']:,} fits"
        _shape_panel(row[0], shape["slopes"], 1, f"{name}: slope", shape["decreasing"])
        _shape_panel(row[1], shape["bends"], -1, f"{name}: change of slope", shape["convex"])
        row[0].set_ylabel(f"loss per unit of p\n({study['unit']})")
        row[1].set_ylabel("change between neighbours")
    for axis in axes[1]:
        axis.set_xlabel(_SHARE)
    heading = f"{study['title']}: does the loss fall, and ever more slowly?  (bars: ± 2 standard errors)"
    figure.suptitle(heading, **_HEADING)
    return figure


def _shape_panel(axis: Any, points: Mapping[str, Any], wrong: int, title: str, check: Mapping[str, Any]) -> None:
    """Points with bars; the forbidden side is shaded, and what lies there by more than two errors is marked."""
    x, y, error = (np.array(points[key], dtype=float) for key in ("p", "value", "standard_error"))
    bad = wrong * y > 2 * error
    for mask, colour, mark in ((~bad, _GOOD, "o"), (bad, _BAD, "X")):
        axis.errorbar(x[mask], y[mask], 2 * error[mask], fmt=mark, color=colour, capsize=3, markersize=7, linewidth=1.4)
    low, high = min((y - 2 * error).min(), 0), max((y + 2 * error).max(), 0)
    room = 0.12 * (high - low)
    axis.set_ylim(low - room, high + room)
    axis.axhspan(0, high + room if wrong > 0 else low - room, color="#f7e6da", zorder=0)
    axis.axhline(0, color=_INK, linewidth=1.2)
    axis.set_xlim(0, 1.02)
    words, height, align = ("rises", 0.98, "top") if wrong > 0 else ("concave", 0.02, "bottom")
    axis.text(0.005, height, words, transform=axis.transAxes, color=_BAD, fontsize=9, va=align)
    colour = _BAD if check["exceeds_noise"] else _INK
    axis.set_title(f"{title}\n{_verdict(check)}", fontsize=10, color=colour, loc="left")
    axis.tick_params(colors=_QUIET)


def _verdict(check: Mapping[str, Any]) -> str:
    """The verdict in one line: the largest violation, if any, and whether noise explains it."""
    if check["holds"]:
        return f"{check['shape']}: yes"
    worst = max(check["violations"], key=lambda violation: violation["size"])
    error = "" if worst["standard_error"] is None else f" ± {worst['standard_error']:.1g}"
    judged = {True: "beyond the noise", False: "within the noise", None: "too few draws to judge"}
    where = f"p {worst['start']:.2g} to {worst['stop']:.2g}"
    return f"{check['shape']}: off by {worst['size']:.2g}{error} at {where}, {judged[check['exceeds_noise']]}"


def draw_scaling(timing: Mapping[str, Any]) -> Any:
    """Solve time against n, one line for each method and solver; crosses where the e_0 found has moved with n."""
    figure, axis = _make_figure(9.5, 6.4, columns=1)
    cross: dict[str, Any] = {"color": _INK, "markersize": 12}
    for (method, solver), (colour, mark, dashes) in _LINES.items():
        rows = [row for row in timing["scaling"] if (row["method"], row["solver"]) == (method, solver)]
        rows = [row for row in rows if row["seconds"] is not None]
        if not rows:
            continue
        label = f"{method}, by cvxpy" if solver == "cvxpy" else method
        n, seconds = [row["n"] for row in rows], [row["seconds"] for row in rows]
        axis.plot(n, seconds, color=colour, marker=mark, linestyle=dashes, linewidth=2, markersize=6, label=label)
        moved = [row for row in rows if row["moved"]]
        axis.plot([row["n"] for row in moved], [row["seconds"] for row in moved], "x", zorder=5, **cross)
    axis.plot([], [], "x", label="e₀ has moved by more than 0.02 from n = 100", **cross)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlabel("n: training records")
    axis.set_ylabel("seconds to solve for the curve")
    axis.grid(color="#ececec", linewidth=0.8)
    heading = f"Solve time against the size of the training sets ({timing['levels']} levels, one thread)"
    figure.suptitle(heading, **_HEADING)
    axis.set_title("losses simulated; medians of repeated runs", fontsize=10.5, color=_QUIET, loc="left")
    figure.legend(loc="outside lower center", fontsize=10, ncols=2, frameon=False, handlelength=4)
    return figure
