"""Draw the pictures of the pages, each for light and for dark pages: ``python docs/pictures/draw.py``.

The SVG files beside this script are what it makes; text is drawn as outlines, so that they look alike everywhere.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

HERE = Path(__file__).parent
BLUE, ORANGE, GREEN = "#1f8ac9", "#e0701a", "#12a07a"


@dataclass(frozen=True)
class Theme:
    """Colours that stand out on a page's background."""

    name: str
    ink: str
    quiet: str
    box: str
    shade: str


LIGHT = Theme("light", "#222222", "#6e6e6e", "#f4f4f4", "#ececec")
DARK = Theme("dark", "#e8e8e8", "#a3a3a3", "#1f2226", "#2a2d31")


def canvas(width: float, height: float) -> tuple[Figure, Any]:
    """Axes for a drawing, in tenths of an inch."""
    figure = Figure(figsize=(width, height))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, 10 * width), ylim=(0, 10 * height))
    ax.axis("off")
    return figure, ax


def box(ax: Any, theme: Theme, x: float, y: float, width: float, height: float, title: str = "") -> None:
    """A side of a split."""
    ax.add_patch(
        FancyBboxPatch(
            (x, y), width, height, boxstyle="round,pad=0,rounding_size=1", fc=theme.box, ec=theme.quiet, lw=1
        )
    )
    ax.text(x + width / 2, y + height + 1, title, ha="center", color=theme.ink, fontsize=10, weight="bold")


def records(ax: Any, places: Sequence[tuple[float, float]], colour: str, marker: str = "o", **options: Any) -> None:
    """Records as marks."""
    x, y = zip(*places, strict=True)
    ax.plot(x, y, marker, color=colour, markersize=8, markeredgewidth=1.6, linestyle="none", **options)


def arrow(ax: Any, start: tuple[float, float], stop: tuple[float, float], colour: str, bend: float = 0.0) -> None:
    """An arrow, straight or bent."""
    style = f"arc3,rad={bend}"
    ax.add_patch(
        FancyArrowPatch(start, stop, arrowstyle="-|>", mutation_scale=13, color=colour, lw=1.6, connectionstyle=style)
    )


def row(x: float, y: float, count: int, step: float = 2.2) -> list[tuple[float, float]]:
    """Places in a row."""
    return [(x + step * i, y) for i in range(count)]


def problem(theme: Theme) -> Figure:
    """A patient on both sides of the split."""
    figure, ax = canvas(7.2, 2.7)
    box(ax, theme, 2, 3, 32, 19, "training records")
    box(ax, theme, 40, 3, 30, 19, "held-out records")
    for y, marker in ((18, "o"), (13.5, "s"), (9, "^")):
        records(ax, row(5, y, 5), theme.quiet, marker, fillstyle="none")
    for y, marker in ((18, "o"), (13.5, "s")):
        records(ax, row(43, y, 4), BLUE, marker, fillstyle="none")
    records(ax, row(43, 7.5, 2), ORANGE, "D")
    records(ax, row(24, 7.5, 2), ORANGE, "D")
    ax.text(56, 15.6, "new patients", color=BLUE, fontsize=9, va="center")
    ax.text(19, 15.6, "other patients", color=theme.quiet, fontsize=9, va="center")
    ax.text(50, 7.5, "linked as two people", color=ORANGE, fontsize=9, va="center")
    arrow(ax, (27.5, 6.4), (42, 6.4), ORANGE, bend=0.25)
    ax.text(
        36, 0.5, "the model has seen this patient, so its loss here is too low", ha="center", color=ORANGE, fontsize=9
    )
    return figure


def injection(theme: Theme) -> Figure:
    """Three training sets with more and more records that truly belong to held-out clusters."""
    figure, ax = canvas(7.2, 3.1)
    p0, n = 0.1, 40
    for place, a in enumerate((0.0, 0.15, 0.5)):
        left = 2 + 24 * place
        box(ax, theme, left, 8, 20, 17, f"inject a = {a:g}")
        leaked = round(n * (1 - a) * p0)
        injected = round(n * a)
        colours = [BLUE] * injected + [ORANGE] * leaked + [theme.quiet] * (n - injected - leaked)
        order = np.random.default_rng(3).permutation(n)
        for spot, i in enumerate(order):
            filled = {"fillstyle": "none"} if colours[i] == theme.quiet else {}
            records(ax, [(left + 2 + 2.3 * (spot % 8), 10.2 + 3 * (spot // 8))], colours[i], **filled)
        share = p0 + (1 - p0) * a
        ax.text(left + 10, 5, f"truly held-out clusters': p = {share:.3g}", ha="center", color=theme.ink, fontsize=8.5)
        if place:
            arrow(ax, (left - 3.6, 16.5), (left - 0.4, 16.5), theme.quiet)
    entries = ((4, theme.quiet, "other clusters", "none"), (22, ORANGE, "leaked before, unseen", "full"))
    for x, colour, text, fill in (*entries, (47, BLUE, "injected on purpose", "full")):
        records(ax, [(x, 1.6)], colour, fillstyle=fill)
        ax.text(x + 1.6, 1.6, text, color=theme.ink, fontsize=9, va="center")
    return figure


def _losses(p: Any, floor: float = 0.24, fall: float = 0.16) -> Any:
    return floor + fall / (1 + np.asarray(p) / 0.12)


def _chart(theme: Theme, width: float = 6.2, height: float = 3.3) -> tuple[Figure, Any]:
    figure = Figure(figsize=(width, height), layout="constrained")
    ax = figure.add_subplot()
    ax.set_facecolor("none")
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(theme.quiet)
    ax.tick_params(colors=theme.quiet, labelsize=9)
    ax.xaxis.label.set_color(theme.ink)
    ax.yaxis.label.set_color(theme.ink)
    ax.set(
        xlabel="p, share of training records that truly belong to held-out clusters", ylabel="loss on held-out records"
    )
    return figure, ax


def curve(theme: Theme) -> Figure:
    """Losses at levels, the fitted curve, and its extrapolation."""
    figure, ax = _chart(theme)
    p0 = 0.1
    levels = p0 + (1 - p0) * np.array([0, 0.03, 0.1, 0.25, 0.6])
    seen, unseen = np.linspace(p0, 0.7, 100), np.linspace(0, p0, 40)
    ax.axvspan(0, p0, color=theme.shade, zorder=0)
    ax.plot(seen, _losses(seen), color=BLUE, lw=2)
    ax.plot(unseen, _losses(unseen), color=ORANGE, lw=2, ls=(0, (4, 2)))
    noise = np.array([0.0004, -0.001, 0.0012, -0.0008, 0.0005])
    ax.errorbar(levels, _losses(levels) + noise, yerr=0.003, fmt="o", color=BLUE, ms=6, capsize=2.5)
    ax.plot(0, _losses(0), "D", color=ORANGE, ms=9, clip_on=False, zorder=5)
    ax.plot(p0, _losses(p0), "s", mfc="none", mec=theme.ink, ms=13)
    ax.annotate(
        "$e_0$: the loss without leakage", (0.006, _losses(0)), (0.12, 0.395), color=ORANGE, fontsize=10, va="center"
    )
    ax.annotate(
        "what cross-validation sees", (0.115, _losses(p0)), (0.19, 0.342), color=theme.ink, fontsize=10, va="center"
    )
    ax.annotate("measured with more leakage added", (0.37, 0.284), color=BLUE, fontsize=10)
    ax.annotate("never\nobserved", (0.05, 0.262), color=theme.quiet, fontsize=9, ha="center")
    ax.set(xlim=(0, 0.7), ylim=(0.25, 0.41), xticks=[0, p0, 0.2, 0.4, 0.6])
    ax.set_xticklabels(["0", "$p_0$", "0.2", "0.4", "0.6"])
    return figure


def transfer(theme: Theme) -> Figure:
    """The resamples' rise added to the user's own loss."""
    figure, ax = _chart(theme)
    p0, gap = 0.1, 0.055
    whole = np.linspace(0, 0.5, 120)
    ax.axvspan(0, p0, color=theme.shade, zorder=0)
    ax.plot(whole, _losses(whole), color=BLUE, lw=2)
    ax.plot(whole[whole <= p0], _losses(whole[whole <= p0]) - gap, color=ORANGE, lw=2, ls=(0, (4, 2)))
    naive, corrected = _losses(p0) - gap, _losses(0) - gap
    ax.plot(p0, naive, "s", color=theme.quiet, ms=10)
    ax.plot(0, corrected, "D", color=ORANGE, ms=9, clip_on=False, zorder=5)
    for x, low, high, colour in ((0.135, _losses(p0), _losses(0), BLUE), (0.155, naive, corrected, ORANGE)):
        arrow(ax, (x, low), (x, high), colour)
    ax.plot([p0, 0.135], [_losses(p0)] * 2, color=BLUE, lw=0.8, ls=":")
    ax.plot([0, 0.135], [_losses(0)] * 2, color=BLUE, lw=0.8, ls=":")
    ax.plot([p0, 0.155], [naive] * 2, color=ORANGE, lw=0.8, ls=":")
    ax.plot([0, 0.155], [corrected] * 2, color=ORANGE, lw=0.8, ls=":")
    ax.text(0.165, 0.375, "optimism, measured on resamples", color=BLUE, fontsize=10, va="center")
    ax.text(0.165, 0.322, "the same rise, added to your own loss", color=ORANGE, fontsize=10, va="center")
    ax.text(0.115, 0.262, "naive: your cross-validated loss", color=theme.quiet, fontsize=10, va="center")
    ax.set(xlim=(0, 0.5), ylim=(0.24, 0.41), xticks=[0, p0, 0.3, 0.5])
    ax.set_xticklabels(["0", "$p_0$", "0.3", "0.5"])
    return figure


def errors(theme: Theme) -> Figure:
    """Single records of large clusters leak, or pieces of small ones."""
    figure, ax = canvas(7.2, 3.1)
    for left, title in (
        (1, "records: few large clusters"),
        (37, "fragments: many small clusters"),
    ):
        ax.text(left + 17, 28.4, title, ha="center", color=theme.ink, fontsize=10, weight="bold")
        box(ax, theme, left, 4, 15.5, 20)
        box(ax, theme, left + 18.5, 4, 15.5, 20)
        ax.text(left + 7.7, 25.4, "training", ha="center", color=theme.quiet, fontsize=9)
        ax.text(left + 26.2, 25.4, "held out", ha="center", color=theme.quiet, fontsize=9)
    rng = np.random.default_rng(1)
    spots = [(3 + 2.3 * i, 6 + 2.5 * j) for i in range(6) for j in range(7)]
    strays = set(rng.choice(len(spots), 5, replace=False).tolist())
    records(ax, [s for i, s in enumerate(spots) if i not in strays], theme.quiet, fillstyle="none")
    records(ax, [s for i, s in enumerate(spots) if i in strays], ORANGE)
    records(ax, [(x + 18.5, y) for x, y in spots], ORANGE)
    pieces = (
        (20.6, "o", BLUE, 0),
        (17, "s", GREEN, 0),
        (13.4, "^", ORANGE, 2),
        (9.8, "v", BLUE, 0),
        (6.2, "P", GREEN, 0),
    )
    for y, marker, colour, gone in pieces:
        records(ax, row(58.5, y, 4 - gone), colour, marker)
        if gone:
            records(ax, row(45.5, y, gone), colour, marker)
            arrow(ax, (57.3, y), (49.6, y), ORANGE)
    for y, marker in ((20.6, "o"), (17, "s"), (9.8, "v"), (6.2, "P")):
        records(ax, row(39.5, y, 4), theme.quiet, marker, fillstyle="none")
    ax.text(18, 0.8, "rate: share of the training records", ha="center", color=ORANGE, fontsize=9)
    ax.text(54, 0.8, "rate: share of the held-out records whose cluster trains", ha="center", color=ORANGE, fontsize=9)
    return figure


def _split(ax: Any, theme: Theme, left: float, title: str, loss: str) -> None:
    """The two sides of a split, with a title above and a loss below."""
    box(ax, theme, left, 5, 9.3, 15)
    box(ax, theme, left + 10.7, 5, 9.3, 15)
    ax.text(left + 10, 23, title, ha="center", color=theme.ink, fontsize=10, weight="bold")
    ax.text(left + 4.6, 20.7, "training", ha="center", color=theme.quiet, fontsize=8.5)
    ax.text(left + 15.3, 20.7, "held out", ha="center", color=theme.quiet, fontsize=8.5)
    ax.text(left + 10, 1.8, loss, ha="center", color=theme.ink, fontsize=10, style="italic")


def left_out(theme: Theme) -> Figure:
    """A model as it is, one without a likely piece, and one without another cluster as a control."""
    figure, ax = canvas(7.2, 2.6)
    states = (("as it is", "loss L"), ("without the likely piece", "loss S"), ("control: without another", "loss C"))
    for place, (title, loss) in enumerate(states):
        left = 2 + 24 * place
        _split(ax, theme, left, title, loss)
        rows = ((16.5, ORANGE, "D", place == 1), (12, BLUE, "s", place == 2), (7.5, theme.quiet, "o", False))
        for y, colour, marker, gone in rows:
            places = row(left + 2.4, y, 2)
            records(ax, places, colour, marker, fillstyle="none" if gone or colour == theme.quiet else "full")
            if gone:
                ax.plot([left + 1.2, left + 7], [y - 1.6, y + 1.6], color=theme.ink, lw=1.4)
        records(ax, row(left + 12.7, 16.5, 3), ORANGE, "D")
        records(ax, row(left + 12.7, 9.5, 3), theme.quiet, "^", fillstyle="none")
    return figure


def halves(theme: Theme) -> Figure:
    """Two held-out clusters that are cut; the piece of each trains in one of two models."""
    figure, ax = canvas(7.2, 2.6)
    for place, title in enumerate(("model 1", "model 2")):
        left = 1 + 36 * place
        _split(ax, theme, left, title, "")
        for y, colour, marker, trains in ((15.5, ORANGE, "D", place == 0), (8.5, BLUE, "s", place == 1)):
            if trains:
                records(ax, row(left + 3.6, y, 2), colour, marker)
                arrow(ax, (left + 12.2, y), (left + 7.4, y), theme.quiet)
            records(ax, row(left + 13.4, y, 3), colour, marker)
            said = "scored with its piece" if trains else "scored without it"
            ax.text(left + 20.5, y, said, color=colour, fontsize=8.5, va="center")
    ax.text(
        36, 1.2, "each cluster is its own control: both of its losses count", ha="center", color=theme.ink, fontsize=9
    )
    return figure


def voices(theme: Theme) -> Figure:
    """What the study of voices shows at each step, beside the truth: numbers of docs/tutorial/numbers.json."""
    numbers = json.loads((HERE.parent / "tutorial" / "numbers.json").read_text(encoding="utf-8"))
    figure = Figure(figsize=(7.2, 2.7), layout="constrained")
    ax = figure.add_subplot()
    rows = {
        "random folds": ("folds at random", theme.quiet),
        "by group": ("folds by person, as linked", theme.quiet),
        "audited": ("audited", ORANGE),
        "after 20 look-ups": ("audited, after 20 look-ups", ORANGE),
    }
    for place, (name, (_, colour)) in enumerate(rows.items()):
        value, low, high = numbers[name]
        ax.plot([low, high], [place, place], color=colour, lw=2, solid_capstyle="butt")
        ax.plot(value, place, "o", color=colour, markersize=7)
        ax.annotate(f"{value:.3f}", (high, place), (8, 0), textcoords="offset points", va="center", color=colour)
    ax.axvline(numbers["truth"], color=GREEN, linestyle="--", lw=1.6, zorder=0)
    ax.annotate(
        f"without leakage: {numbers['truth']:.3f}",
        (numbers["truth"], -0.5),
        (6, 0),
        textcoords="offset points",
        va="center",
        color=GREEN,
    )
    ax.set_yticks(range(len(rows)), [words for words, _ in rows.values()])
    ax.set(ylim=(len(rows) - 0.6, -0.8))
    ax.set_xlabel("error rate, with 95 % intervals", color=theme.ink)
    ax.patch.set_alpha(0)
    ax.tick_params(colors=theme.ink, length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.spines["bottom"].set_color(theme.quiet)
    return figure


PICTURES: tuple[Callable[[Theme], Figure], ...] = (
    problem,
    injection,
    curve,
    transfer,
    errors,
    left_out,
    halves,
    voices,
)


def main() -> None:
    """Draw all of them."""
    settings = {
        "svg.hashsalt": "outofcluster",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "mathtext.fontset": "dejavusans",
    }
    with mpl.rc_context(settings):
        for draw in PICTURES:
            for theme in (LIGHT, DARK):
                figure = draw(theme)
                figure.savefig(HERE / f"{draw.__name__}-{theme.name}.svg", transparent=True, metadata={"Date": None})


if __name__ == "__main__":
    main()
