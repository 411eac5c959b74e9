"""The benchmark of linkages as tables: from benchmarks/linkage.json to Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ooc_docs.accuracy import holds
from ooc_docs.markdown import details, escape, number, percent, table

__all__ = ["page"]

_MODELS = {"neighbours": "3 nearest neighbours", "forest": "forest of 30 trees"}
"""What the names of cells start with that compare the corrected loss with the naive one."""


def page(study: Mapping[str, Any]) -> str:
    """One row per data set and model, then every figure with its bound."""
    cells: Mapping[str, Sequence[Mapping[str, Any]]] = study["cells"]
    rows = []
    for name, figures in cells.items():
        kind, _, world = name.partition(", ")
        if kind in _MODELS:
            said = {figure["what"].rpartition(": ")[2]: figure for figure in figures}
            rows.append(
                [
                    escape(world),
                    _MODELS[kind],
                    percent(said["validation records that leak"]["value"], 0),
                    *(f"{said[f'error of {which}']['value']:+.3f}" for which in ("naive", "corrected")),
                    _shown(said["error over naive's"]),
                ]
            )
    judged = [figure for figures in cells.values() for figure in figures if figure["bound"] is not None]
    listed = table(
        ["figure", "measured", "required"],
        [[escape(f["what"]), _shown(f), f"{f['kind']} {number(f['bound'], 2)}"] for f in judged],
        "lrr",
    )
    header = ["data", "model", "records that leak", "error of naive", "error of corrected", "the one over the other"]
    made = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    reached = sum(holds(figure) for figure in judged)
    return "\n".join(
        [
            table(header, rows, "llrrrr"),
            f"**{reached} of {len(judged)} figures reach what was required of them.** Made with {escape(made)}.\n",
            details("Every figure with its bound", listed),
        ]
    )


def _shown(figure: Mapping[str, Any]) -> str:
    said = percent(figure["value"], 0) if "covers" in figure["what"] else number(figure["value"], 2)
    error = figure["standard_error"]
    if error is not None:
        said += f" ± {percent(error, 0) if 'covers' in figure['what'] else number(error, 1)}"
    return f"{said} ✓" if holds(figure) else f"{said} **short**"
