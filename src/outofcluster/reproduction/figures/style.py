"""What the figures share: colours that colour-blind readers can tell apart, fonts, and how a figure becomes a file.

Colours are those of Okabe and Ito. Lines and marks differ in style as well, so that a figure can be read in grey.
"""

from __future__ import annotations

import io
from typing import Any

from outofcluster._base.exceptions import MissingExtraError

__all__ = ["COLOURS", "DASHES", "INK", "QUIET", "check_matplotlib", "make_figure", "number", "rendered", "tidy"]

COLOURS = {
    "iid": "#7f7f7f",
    "naive": "#D55E00",
    "trend": "#0072B2",
    "sketch": "#009E73",
    "basis": "#E69F00",
    "default": "#CC79A7",
    "sketch_code": "#56B4E9",
}
DASHES: dict[str, Any] = {
    "trend": "-",
    "sketch": (0, (5, 2)),
    "basis": (0, (1, 1.2)),
    "default": (0, (7, 2, 1.5, 2)),
}
INK, QUIET = "#222222", "#777777"

_SETTINGS = {
    "font.size": 11,
    "font.family": "DejaVu Sans",
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": QUIET,
    "axes.titlelocation": "left",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.hashsalt": "outofcluster",
    "svg.fonttype": "none",
}


def check_matplotlib() -> Any:
    """The module, or a sentence that says what brings it."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtraError("figures need matplotlib: pip install 'outofcluster[plot]'.") from None
    return matplotlib


def make_figure(width: float, height: float, rows: int = 1, columns: int = 2, **options: Any) -> tuple[Any, Any]:
    """A figure of its own, apart from whatever the caller plots, and its axes."""
    from matplotlib.figure import Figure

    with check_matplotlib().rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.subplots(rows, columns, **options)
    return figure, axes


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


def tidy(axis: Any) -> None:
    """Faint lines behind the data."""
    axis.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axis.set_axisbelow(True)


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
    from math import floor, log10

    places = max(digits - 1 - floor(log10(abs(value))), 0)
    return f"{value:.{places}f}"
