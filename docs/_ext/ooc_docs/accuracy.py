"""The accuracy benchmark as tables: from benchmarks/accuracy.json to Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ooc_docs.markdown import details, escape, number, percent, table

__all__ = ["holds", "page"]

_ELSEWHERE = ("paper protocol", "field protocol", "solve time", "scenarios")
"""How the figures begin that are not of a scenario."""
_COLUMNS = (
    "naive bias",
    "RMSE over naive's",
    "RMSE with the bias known, over naive's",
    "95 % interval covers",
    "without unmixing it covers",
    "width over that without unmixing",
)
"""The figures of a scenario that the table has."""


def page(study: Mapping[str, Any]) -> str:
    """One row per scenario, then every figure with its bound."""
    figures = study["figures"]
    judged = [figure for figure in figures if figure["bound"] is not None]
    reached = sum(holds(figure) for figure in judged)
    rows: dict[str, dict[str, str]] = {}
    for figure in figures:
        if not figure["what"].startswith(_ELSEWHERE):
            name, _, what = figure["what"].rpartition(": ")
            rows.setdefault(name, {})[what.removesuffix(", biased")] = _shown(figure)
    columns = [what for what in _COLUMNS if any(what in row for row in rows.values())]
    listed = table(
        ["figure", "measured", "required"],
        [[escape(f["what"]), _shown(f), f"{f['kind']} {number(f['bound'], 2)}"] for f in judged],
        "lrr",
    )
    made = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    return "\n".join(
        [
            table(
                ["scenario", *(escape(what) for what in columns)],
                [[escape(name), *(row.get(what, "–") for what in columns)] for name, row in rows.items()],
                "l" + "r" * len(columns),
            ),
            f"**{reached} of {len(judged)} figures reach what was required of them**, those of the paper's experiments "
            f"included. Made with {escape(made)}.\n",
            details("Every figure with its bound", listed),
        ]
    )


def holds(figure: Mapping[str, Any]) -> bool:
    """Whether a figure reaches its bound."""
    value, bound = figure["value"], figure["bound"]
    if isinstance(bound, list):
        return bool(bound[0] <= value <= bound[1])
    return bool(value <= bound if figure["kind"] == "at most" else value >= bound)


def _shown(figure: Mapping[str, Any]) -> str:
    said = percent(figure["value"], 0) if "covers" in figure["what"] else number(figure["value"])
    if figure["bound"] is None:
        return said
    return f"{said} ✓" if holds(figure) else f"{said} **short**"
