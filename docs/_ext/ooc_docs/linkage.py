"""The benchmark of linkages as tables: from benchmarks/linkage.json to Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ooc_docs.accuracy import holds
from ooc_docs.markdown import details, escape, number, percent, table

__all__ = ["page"]

_MODELS = {"neighbours": "3 nearest neighbours", "forest": "forest of 30 trees"}
"""What the names of cells start with that compare the corrected loss with the naive one."""
_AUDITED = (*_MODELS, "coverage")
"""What the names of cells start with whose figures are those of audits, and not of leakage rates."""
_PRESENT = "without a rate"
"""Words in figures of audits of the present design; audits of the design before needed a rate."""


def page(study: Mapping[str, Any]) -> str:
    """One row per data set and model, then every figure with its bound."""
    cells = {name: figures for name, figures in study["cells"].items() if _is_present(name, figures)}
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
                    *(f"{said[f'error {which}']['value']:+.3f}" for which in ("of naive", "of corrected", _PRESENT)),
                    _shown(said["error over naive's"]),
                ]
            )
    judged = [figure for figures in cells.values() for figure in figures if figure["bound"] is not None]
    listed = table(
        ["figure", "measured", "required"],
        [[escape(f["what"]), _shown(f), f"{f['kind']} {number(f['bound'], 2)}"] for f in judged],
        "lrr",
    )
    header = ["data", "model", "records that leak", "error of naive", "with audited entities", "without a rate"]
    header += ["with audited entities, over naive's"]
    made = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    reached = sum(holds(figure) for figure in judged)
    before = len(study["cells"]) - len(cells)
    return "\n".join(
        [
            table(header, rows, "llrrrrr") if rows else "",
            "Audits of some linkages were measured with the design before, which cut clusters at random. They are not "
            "shown, and will be measured again.\n"
            if before
            else "",
            f"**{reached} of {len(judged)} figures reach what was required of them.** Made with {escape(made)}.\n",
            details("Every figure with its bound", listed),
        ]
    )


def _is_present(name: str, figures: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a cell is about rates, or about audits as they are now."""
    return not name.startswith(_AUDITED) or any(_PRESENT in figure["what"] for figure in figures)


def _shown(figure: Mapping[str, Any]) -> str:
    said = percent(figure["value"], 0) if "covers" in figure["what"] else number(figure["value"], 2)
    error = figure["standard_error"]
    if error is not None:
        said += f" ± {percent(error, 0) if 'covers' in figure['what'] else number(error, 1)}"
    return f"{said} ✓" if holds(figure) else f"{said} **short**"
