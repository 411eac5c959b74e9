"""The benchmark of entities in pieces as tables: from benchmarks/people.json to Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ooc_docs.accuracy import holds
from ooc_docs.markdown import details, escape, number, percent, table

__all__ = ["page"]

_SHARES = ("covers", "said to be inflated", ": holds")
"""Words by which a figure is known to be a share of data sets."""


def page(study: Mapping[str, Any]) -> str:
    """Every figure that has a bound, then all others."""
    figures: list[Mapping[str, Any]] = [figure for cell in study["cells"].values() for figure in cell]
    judged = [figure for figure in figures if figure["bound"] is not None]
    others = [figure for figure in figures if figure["bound"] is None]
    made = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    reached = sum(holds(figure) for figure in judged)
    rows = [[escape(each["what"]), _judged(each), _bound(each)] for each in judged]
    listed = [[escape(each["what"]), _value(each)] for each in others]
    return "\n".join(
        [
            table(["figure", "measured", "required"], rows, "lrr"),
            f"**{reached} of {len(judged)} figures reach what was required of them.** Made with {escape(made)}.\n",
            details("All other figures", table(["figure", "measured"], listed, "lr")) if listed else "",
        ]
    )


def _in_words(what: str, value: float) -> str:
    return percent(value, 1) if any(words in what for words in _SHARES) else number(value, 2)


def _value(figure: Mapping[str, Any]) -> str:
    said = _in_words(figure["what"], figure["value"])
    error = figure["standard_error"]
    return said if error is None else f"{said} ± {_in_words(figure['what'], error)}"


def _judged(figure: Mapping[str, Any]) -> str:
    return f"{_value(figure)} {'✓' if holds(figure) else '**short**'}"


def _bound(figure: Mapping[str, Any]) -> str:
    limits: Sequence[float] = figure["bound"] if isinstance(figure["bound"], list) else [figure["bound"]]
    said = [_in_words(figure["what"], limit) for limit in limits]
    return f"{said[0]} to {said[1]}" if len(said) == 2 else f"{figure['kind']} {said[0]}"
