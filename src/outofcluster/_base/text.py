"""Text for people without what a terminal or a page would act on: names in data may hold anything.

Taken out are whole escape sequences, control characters other than a new line and a tab, marks that change the
direction of what follows (which can make a name look like another one), and halves of characters.

Notebook fragments: small, self-contained pieces of HTML that show results in light and in dark.

The functions of this module escape all text that they are given, and only what they return counts as markup. So a
result whose loss is called ``<script>`` shows this name as text. Colours come from the surrounding text and from
translucent greys; accents have a light and a dark form, by the notebook's theme where it says so, else by the
reader's system.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from outofcluster._base.arguments import Array

_SEQUENCES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x9b[0-?]*[ -/]*[@-~]"
_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_MOST_DECIMALS = 4
_UNWANTED = re.compile(f"{_SEQUENCES}|{_CHARACTERS}")


def printable(text: str) -> str:
    r"""The text without escape sequences and control characters.

    Examples
    --------
    >>> from outofcluster._base.text import printable
    >>> printable("dose \x1b[31min mg\x1b[0m")
    'dose in mg'
    """
    return _UNWANTED.sub("", text)


def printable_data(value: Any) -> Any:
    """Plain data with the same done to every string in it."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_data(key): printable_data(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable_data(inner) for inner in value]
    return value


def percentage(share: float, digits: int = 3, *, error: float | None = None) -> str:
    """A share as a percentage, in the one way in which it is written everywhere.

    It has so many digits that count, or as many decimals as two digits of its error need, and four decimals at most. A
    share below 1 is never rounded to all of it.

    Examples
    --------
    >>> from outofcluster._base.text import percentage
    >>> percentage(0.0796), percentage(0.5), percentage(2e-15), percentage(0.9997)
    ('7.96 %', '50 %', '0 %', '99.97 %')
    >>> percentage(0.0796, error=0.0123)
    '8.0 %'
    """
    value = 100 * share
    known = error is not None and 0 < error < math.inf
    scale = 100 * error if known and error else abs(value)
    needed = (1 if known else digits - 1) - math.floor(math.log10(scale)) if 0 < scale < math.inf else 0
    decimals = min(max(needed, 0), _MOST_DECIMALS)
    while decimals < _MOST_DECIMALS and share < 1 and float(f"{value:.{decimals}f}") == 100:
        decimals += 1
    written = f"{value:.{decimals}f}"
    if not known and "." in written:
        written = written.rstrip("0").rstrip(".")
    return f"{written.lstrip('-') if float(written) == 0 else written.replace('-', '−')} %"


def chance(pvalue: float) -> str:
    """A p-value as journals ask for it: two digits that count, or that it is below 0.001.

    Examples
    --------
    >>> from outofcluster._base.text import chance
    >>> chance(0.0213), chance(3e-12)
    ('p = 0.021', 'p < 0.001')
    """
    return "p < 0.001" if pvalue < 0.001 else f"p = {pvalue:.2g}"


class Printed:
    """Results that a notebook shows as ``print`` does, where the code that makes them would list all their arrays."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # IPython takes what the class itself has: a dataclass has its own __repr__, which would come first otherwise.
        cls._repr_pretty_ = _print  # type: ignore[attr-defined]


class Text(str):
    """Text of several lines, which a notebook shows as lines, and not in quotes."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        printer.text(str(self))


def _print(result: Any, printer: Any, _: bool) -> None:
    printer.text(str(result))


class Markup(str):
    """HTML that is safe to show as it is; every other string is escaped."""

    __slots__ = ()


def fragment(*parts: str) -> str:
    """A styled block of HTML that holds the parts."""
    return f'<div class="outofcluster"><style>{_style()}</style>{_joined(parts)}</div>'


@cache
def _style() -> str:
    rules = files("outofcluster._base").joinpath("notebook.css").read_text(encoding="utf-8")
    return "".join(rules.splitlines())


def element(tag: str, *parts: str, css: str = "") -> Markup:
    """One element around text or markup."""
    attribute = f' class="{escape(css)}"' if css else ""
    return Markup(f"<{tag}{attribute}>{_joined(parts)}</{tag}>")


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """A table with a line of headings; the first cell of each row is the heading of that row."""
    head = element("tr", *(Markup(f'<th scope="col">{_safe(cell)}</th>') for cell in header))
    body = [
        element("tr", Markup(f'<th scope="row">{_safe(first)}</th>'), *(element("td", cell) for cell in cells))
        for first, *cells in rows
    ]
    return element("table", element("thead", head), element("tbody", *body))


def span(value: float, low: float, high: float, ends: tuple[float, float], *, accent: bool = False) -> Markup:
    """An interval and its value as a line with a dot, on an axis between two ends."""
    numbers = (value, low, high, *ends)
    if not all(math.isfinite(number) for number in numbers) or ends[1] <= ends[0]:
        return Markup("")
    dot, left, right = (8 + 144 * (x - ends[0]) / (ends[1] - ends[0]) for x in (value, low, high))
    css = ' class="accent"' if accent else ""
    return Markup(
        f'<svg{css} width="160" height="14" viewBox="0 0 160 14" aria-hidden="true" fill="currentColor" '
        f'stroke="currentColor"><line x1="{left:.1f}" x2="{right:.1f}" y1="7" y2="7" stroke-width="2" '
        f'stroke-opacity=".5"/><circle cx="{dot:.1f}" cy="7" r="3.5" stroke="none"/></svg>'
    )


def band(x: Array, value: Array, low: Array, high: Array, described: str) -> Markup:
    """A line within the band of its intervals, with the ends of both axes written out."""
    numbers = [*value, *low, *high]
    if len(x) < 2 or not all(math.isfinite(number) for number in numbers):
        return Markup("")
    bottom, top = min(numbers), max(numbers)
    height = top - bottom or 1.0

    def path(levels: Iterable[float], values: Iterable[float]) -> str:
        wide = float(x[-1] - x[0]) or 1.0
        return " ".join(
            f"{60 + 330 * (p - x[0]) / wide:.1f},{130 - 115 * (v - bottom) / height:.1f}"
            for p, v in zip(levels, values, strict=True)
        )

    def label(left: int, down: int, anchor: str, number: str) -> str:
        return f'<text x="{left}" y="{down}" text-anchor="{anchor}">{number}</text>'

    around = path([*x, *x[::-1]], [*low, *high[::-1]])
    written = label(56, 134, "end", f"{bottom:.3g}") + label(56, 19, "end", f"{top:.3g}")
    written += label(60, 150, "start", percentage(x[0])) + label(390, 150, "end", percentage(x[-1]))
    return Markup(
        f'<svg class="accent" role="img" aria-label="{escape(described)}" width="400" height="156" '
        f'viewBox="0 0 400 156" font-size="11" fill="currentColor"><polygon points="{around}" fill-opacity=".18"/>'
        f'<polyline points="{path(x, value)}" fill="none" stroke="currentColor" stroke-width="2"/>{written}</svg>'
    )


def _joined(parts: Iterable[str]) -> str:
    return "".join(_safe(part) for part in parts)


def _safe(part: str) -> str:
    return part if isinstance(part, Markup) else escape(printable(part))
