"""The calibration study as tables: from benchmarks/calibration.json to Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ooc_docs.markdown import details, escape, number, percent, table

__all__ = ["page"]

Cell = Mapping[str, Any]

_SECTIONS = (
    ("Intervals of the corrected loss", ("coverage",)),
    ("Intervals with levels below the leakage rate", ("below the rate, coverage",)),
    ("Pieces of entities", ("bias, fragments", "no leakage, fragments", "no cluster effect, fragments")),
    ("Bias that is removed", ("bias",)),
    ("Bias that is removed with levels below the leakage rate", ("below the rate, bias",)),
    ("Where there is nothing to correct", ("no leakage", "no cluster effect")),
    ("Leakage rates", ("rate",)),
)
"""Titles, and how the names of their cells begin; what begins otherwise has a section of its own at the end."""

_OF_THE_STUDY = "standard error of the truth"
"""Figures that are about the simulation rather than about the package; they stand with the designs."""


def page(study: Mapping[str, Any]) -> str:
    """All sections, the verdict first."""
    left = list(study["cells"])
    parts = [_verdict(study)]
    for title, starts in _SECTIONS:
        own = [cell for cell in left if cell["name"].startswith(tuple(f"{start}," for start in starts))]
        left = [cell for cell in left if cell not in own]
        if own:
            parts.append(_section(title, own, "" if len(starts) > 1 else f"{starts[0]}, "))
    if left:
        parts.append(_section("Further cells", left, ""))
    parts.append(_provenance(study))
    return "\n".join(parts)


def _verdict(study: Mapping[str, Any]) -> str:
    judged = [figure for cell in study["cells"] for figure in cell["figures"] if figure["holds"] is not None]
    hold, data_sets = sum(figure["holds"] for figure in judged), sum(cell["data_sets"] for cell in study["cells"])
    said = (
        f"{len(study['cells'])} designs, {data_sets:,} simulated data sets. "
        f"**{hold} of {len(judged)} figures reach what was required of them.**"
    )
    if not study["short"]:
        return f"{said}\n"
    listed = "\n".join(f"- {escape(short)}" for short in study["short"])
    return f"{said} These fall short, and are shown as they are:\n\n{listed}\n"


def _section(title: str, cells: Sequence[Cell], prefix: str) -> str:
    judged = (f["what"] for cell in cells for f in cell["figures"] if f["holds"] is not None)
    names = dict.fromkeys(what for what in judged if not what.startswith(_OF_THE_STUDY))
    common = {name: _common_bound(name, cells) for name in names}
    header = ["design", "data sets"]
    header += [escape(name) + (f" ({bound})" if (bound := common[name]) else "") for name in names]
    rows = []
    for cell in cells:
        found = {figure["what"]: figure for figure in cell["figures"]}
        label = escape(cell["name"].removeprefix(prefix))
        shown = (_shown(found.get(name), with_bound=common[name] is None) for name in names)
        rows.append([label, f"{cell['data_sets']:,}", *shown])
    body = "\n".join(_cell_details(cell) for cell in cells)
    return (
        f"## {title}\n\n{table(header, rows, 'lr' + 'r' * len(names))}\n{details('Designs and further figures', body)}"
    )


def _common_bound(name: str, cells: Sequence[Cell]) -> str | None:
    """The bound of a figure in words where all cells have the same, else None."""
    bounds = {_bound(f) for cell in cells for f in cell["figures"] if f["what"] == name and f["bound"] is not None}
    return bounds.pop() if len(bounds) == 1 else None


def _bound(figure: Mapping[str, Any]) -> str:
    limits = figure["bound"] if isinstance(figure["bound"], list | tuple) else [figure["bound"]]
    said = [_value(figure["what"], limit, rough=True) for limit in limits]
    return f"{said[0]} to {said[1]}" if len(said) == 2 else f"{figure['kind']} {said[0]}"


def _shown(figure: Mapping[str, Any] | None, *, with_bound: bool) -> str:
    if figure is None:
        return "–"
    said = _value(figure["what"], figure["value"])
    if figure["standard_error"] is not None:
        said += f" ± {_value(figure['what'], figure['standard_error'])}"
    if figure["holds"] is not None:
        said += " ✓" if figure["holds"] else " **short**"
        if with_bound:
            said += f" ({_bound(figure)})"
    return said


def _value(what: str, value: float, *, rough: bool = False) -> str:
    if not any(word in what for word in ("share", "covers", "bias of the rate")):
        return number(value)
    return f"{100 * value:g} %" if rough else percent(value)


def _cell_details(cell: Cell) -> str:
    rows = [
        [escape(f["what"].strip()), _shown(f, with_bound=True), "" if f["bound"] is None else escape(_bound(f))]
        for f in cell["figures"]
    ]
    return f"**{escape(cell['name'])}.** {escape(cell['design'])}\n\n" + table(
        ["figure", "measured", "required"], [[what, shown.split(" (")[0], bound] for what, shown, bound in rows], "lrr"
    )


def _provenance(study: Mapping[str, Any]) -> str:
    made = ", ".join(f"{name} {version}" for name, version in study["versions"].items())
    return f"## How it was made\n\nSeed {study['seed']}; {escape(study['seeding'])}. Made with {escape(made)}.\n"
