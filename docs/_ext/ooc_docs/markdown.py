"""Small pieces of Markdown: tables, figures, numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

__all__ = ["details", "escape", "figure", "number", "percent", "table"]


def escape(text: str) -> str:
    """Words as they are, with what Markdown would read as markup made harmless."""
    for sign in ("\\", "|", "_", "*", "`", "[", "]", "$"):
        text = text.replace(sign, f"\\{sign}")
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def table(header: Sequence[str], rows: Iterable[Sequence[str]], align: str = "") -> str:
    """A table; ``align`` has a letter a column, l or r, left by default."""
    marks = {"l": ":---", "r": "---:"}
    places = align.ljust(len(header), "l")[: len(header)]
    lines = [header, [marks[place] for place in places], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def figure(path: str, alternative: str) -> str:
    """A picture on a line of its own."""
    return f"```{{image}} {path}\n:alt: {alternative}\n:class: result-figure\n```\n"


def details(summary: str, body: str) -> str:
    """A part that opens on demand."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n</details>\n"


def number(value: float | None, digits: int = 3) -> str:
    """Significant digits, no exponent for what people read.

    >>> number(0.012345), number(35.35), number(None), number(1234567.0), number(0.0000123)
    ('0.0123', '35.4', '–', '1,234,567', '1.2e-05')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    size = math.floor(math.log10(abs(value)))
    if size < -4:
        return f"{value:.2g}"
    return f"{value:,.{max(digits - 1 - size, 0)}f}"


def percent(value: float, digits: int = 1) -> str:
    """A share as a percentage.

    >>> percent(0.9425), percent(0.05, 0)
    ('94.2 %', '5 %')
    """
    return f"{100 * value:.{digits}f} %"
