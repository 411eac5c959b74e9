"""What all displays share: axes, colours, marks, and how numbers and things are written for readers without statistics.

A display says what it draws and what its table holds; `Display` does the rest.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from textwrap import wrap
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from outofcluster._base.exceptions import needing
from outofcluster._base.plain import data_frame
from outofcluster._base.text import percentage
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.metrics.facts import known_facts

# Colours of measured losses, the corrected loss, thresholds, the loss as it is, and text.
BLUE, ORANGE, GREEN, GREY, INK = "#0072B2", "#D55E00", "#009E73", "#6E6E6E", "#222222"

_MARK = {"linestyle": "none", "markeredgecolor": "white"}
NAIVE: dict[str, Any] = {"marker": "s", "color": GREY, **_MARK}
# Marks of the loss as it is, and of the corrected loss.
CORRECTED: dict[str, Any] = {"marker": "D", "color": ORANGE, **_MARK}

# What a leakage rate is a share of, by error model.
SHARE_OF = {
    "records": "training records that belong to held-out clusters",
    "fragments": "held-out records whose cluster also trains",
}
# What the injected fraction is a share of.
ADDED = {
    "records": "training records drawn from held-out clusters",
    "fragments": "held-out clusters of which a piece is put into training",
}

# Width of a letter of an axis name, in inches.
_LETTER = 0.075


@dataclass(eq=False, repr=False)
class Display(ABC):
    """A picture of a result, and the numbers in it.

    Attributes
    ----------
    ax_, figure_
        Where it was drawn.
    """

    ax_: Any = field(default=None, init=False, repr=False)
    figure_: Any = field(default=None, init=False, repr=False)

    _grid: ClassVar[str] = "y"
    # Beginnings of the labels, in the order in which the legend lists them.
    _legend: ClassVar[tuple[str, ...]] = ()

    def to_frame(self) -> Any:
        """The numbers as a table; needs pandas.

        Returns
        -------
        pandas.DataFrame
            One row for each thing that is drawn; the description of the class names the columns.
        """
        return data_frame(self._columns())

    def plot(self, ax: Any = None) -> Self:
        """Draw; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        Display
            Itself, with ``ax_`` and ``figure_``.
        """
        ax = _new_axes(self._height) if ax is None else ax
        tidy(ax, self._grid)
        self._draw(ax)
        _set_head(ax, self._title, self._legend)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._title}>"

    def _ipython_display_(self) -> None:
        """Show the figure and nothing else; a cell that has just drawn it shows it by itself when it ends."""
        from matplotlib import pyplot

        if self.figure_ is None:
            self.plot()
        elif not pyplot.fignum_exists(getattr(self.figure_, "number", -1)):
            import_module("IPython.display").display(self.figure_)

    @property
    def _height(self) -> float:
        """Height of a new figure, in inches."""
        return 4.2

    @property
    @abstractmethod
    def _title(self) -> str:
        """What the picture shows, in a line above it."""

    @abstractmethod
    def _columns(self) -> dict[str, Any]:
        """The columns of the table, in their order."""

    @abstractmethod
    def _draw(self, ax: Any) -> None:
        """Draw on axes that are tidy already."""


# --- axes and legends -------------------------------------------------------------------------------------


def _new_axes(height: float) -> Any:
    with needing("plot() needs matplotlib", "plot"):
        from matplotlib import pyplot
    return pyplot.subplots(figsize=(6.6, height), layout="constrained")[1]


def tidy(ax: Any, grid: str = "y") -> None:
    """Keep few lines: no box around the axes, and a grid behind everything."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#9A9A9A")
    ax.tick_params(colors=INK, length=3)
    ax.grid(axis=grid, color="#E4E4E4", linewidth=0.8)
    ax.set_axisbelow(True)


def name_axes(ax: Any, x: str = "", y: str = "") -> None:
    """Name the axes; a dollar sign in a name is a dollar sign."""
    ax.set_xlabel(x, color=INK, parse_math=False)
    ax.set_ylabel(y, color=INK, parse_math=False)


def percent_axis(axis: Any) -> None:
    """Write shares as percentages."""
    axis.set_major_formatter(lambda share, _: percentage(share, 6))


def legend_above(ax: Any, *entries: Any, columns: int = 2) -> None:
    """A legend without a frame right above the axes."""
    look = {"frameon": False, "fontsize": "small", "borderaxespad": 0.3, "columnspacing": 1.6}
    ax.legend(*entries, loc="lower left", bbox_to_anchor=(-0.01, 1), ncols=columns, **look)


def _set_head(ax: Any, title: str, order: Sequence[str]) -> None:
    """Set the title, and put the legend between it and the axes, where it hides nothing.

    In a figure of the user's own, where there may be no room above the axes, the legend sits inside them.
    """
    handles, labels = ax.get_legend_handles_labels()

    def rank(label: str) -> int:
        return next((i for i, start in enumerate(order) if label.startswith(start)), len(order))

    entries = sorted(zip(labels, handles, strict=True), key=lambda entry: rank(entry[0]))
    labels, handles = [label for label, _ in entries], [handle for _, handle in entries]
    width = ax.get_window_extent().width / ax.figure.dpi
    if len(ax.figure.axes) > 1 or ax.figure.get_layout_engine() is None:
        # Labels of the axes will take some of the width, so that half of it is left for a line of the legend.
        folded = ["\n".join(wrap(label, max(int(width / _LETTER / 2), 16))) for label in labels]
        ax.legend(handles, folded, fontsize="x-small", loc="best", framealpha=0.85, edgecolor="none")
        ax.set_title(title, loc="left", color=INK)
        letters = max(int(0.7 * width / _LETTER), 12)
        ax.xaxis.label.set_text("\n".join(part for line in ax.get_xlabel().split("\n") for part in wrap(line, letters)))
        return
    half = math.ceil(len(labels) / 2)
    longest = sum(max(map(len, part), default=0) for part in (labels[:half], labels[half:]))
    columns = 2 if 0.072 * longest + 1.2 < width else 1
    legend_above(ax, handles, labels, columns=columns)
    ax.set_title(title, loc="left", color=INK, pad=12 + 13.5 * math.ceil(len(labels) / columns))


# --- marks ------------------------------------------------------------------------------------------------


def draw_estimates(
    ax: Any, positions: ArrayLike, estimates: Sequence[Estimate], *, across: bool = False, **look: Any
) -> None:
    """One mark per estimate, with the intervals where all of them are known; with ``across`` the values run along x."""
    values = np.array([estimate.value for estimate in estimates])
    low, high = np.array([estimate.interval for estimate in estimates]).T
    reach = np.maximum([values - low, high - values], 0.0)
    x, y = (values, positions) if across else (positions, values)
    ax.errorbar(x, y, **{"xerr" if across else "yerr": reach if np.isfinite(reach).all() else None}, **look)


def draw_measured(ax: Any, x: Any, losses: Any, errors: Any, level: float, **look: Any) -> None:
    """Mean losses of resamples with intervals of the level of confidence, as far as they vary by chance."""
    reach = ndtri(0.5 + level / 2) * errors
    known = reach if np.isfinite(reach).all() else None
    ax.errorbar(x, losses, yerr=known, **{"capsize": 2.5, "elinewidth": 1.2, "zorder": 3} | look)


def draw_naive(ax: Any, x: float, naive: Estimate, *others: Estimate, zorder: float = 2.5) -> None:
    """The loss of the user's own model, as large as it is written."""
    ax.plot(x, naive.value, **NAIVE, markersize=10, label=naive_label(naive, *others), zorder=zorder)


def draw_corrected(ax: Any, x: float, corrected: Estimate, label: str, **look: Any) -> None:
    """The loss on new clusters, with its interval."""
    look = {"markersize": 7, "capsize": 4, "elinewidth": 2, "zorder": 5} | CORRECTED | look
    draw_estimates(ax, [x], [corrected], label=label, **look)


def naive_label(naive: Estimate, *others: Estimate) -> str:
    """What a legend calls the loss as it is, with as many decimals as suit all the estimates."""
    return f"cross-validated as it is: {in_words(naive, *others).split(' (')[0]}"


# --- words ------------------------------------------------------------------------------------------------


def in_words(estimate: Estimate, *others: Estimate) -> str:
    """The value and its interval, with as many decimals as suit all the estimates."""
    digits = min(decimals(estimate, *others), 4)
    digits = 3 if digits == 4 else digits
    if not math.isfinite(sum(estimate.interval)):
        return fixed(estimate.value, digits)
    return f"{fixed(estimate.value, digits)} ({between(estimate, digits)})"


def loss_name(loss: str) -> str:
    """A loss or metric in words; one of the user's own keeps its name."""
    known = known_facts(loss)
    return loss if known is None else known.label


def capitalized(words: str) -> str:
    """The same words with a capital letter at the beginning, and no other change."""
    return words[:1].upper() + words[1:]


def estimate_columns(naive: Sequence[Estimate | None], corrected: Sequence[Estimate | None]) -> dict[str, Any]:
    """Columns of a table: naive, and with a leakage rate also corrected with low and high."""
    columns: dict[str, Any] = {"naive": [math.nan if known is None else known.value for known in naive]}
    if corrected:
        intervals = [(math.nan,) * 3 if known is None else (known.value, *known.interval) for known in corrected]
        columns |= dict(zip(("corrected", "low", "high"), map(list, zip(*intervals, strict=True)), strict=True))
    return columns
