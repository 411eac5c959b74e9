"""What is written of a run: tidy CSV with one row per observation, JSON, figures as PNG and SVG, and a summary in text.

All files of a study are made in memory first, and only then written, each whole or not at all.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import outofcluster as ooc
from outofcluster._base.files import shown_path, write_whole
from outofcluster.reproduction.figures import draw_curves, draw_errors, draw_scaling, draw_shape, number, rendered
from outofcluster.reproduction.parts import to_json
from outofcluster.reproduction.results import LABELS

__all__ = ["make_folder", "summary", "write_overall", "write_study", "write_timing"]

Rows = Iterable[Mapping[str, Any]]

_PROTOCOLS = ("paper", "field")
_SUMMARY = ("median_error", "median_absolute_error", "rmse", "rmse_over_naive", "worst_relative_error", "failed")


def make_folder(folder: Path) -> Path:
    """A folder that exists, made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ooc.InputError(f"out must be a folder that can be written, got {shown_path(folder)}: {reason}.") from None
    return folder


def write_study(folder: Path, study: Mapping[str, Any]) -> None:
    """Figures, tables and results of one study."""
    tables = {name: rows(study) for name, rows in _TABLES.items()}
    _write(folder, study, tables, {"errors": draw_errors, "curves": draw_curves, "shape": draw_shape})


def write_timing(folder: Path, timing: Mapping[str, Any]) -> None:
    """The table and the figure of solve times."""
    _write(folder, timing, {key: timing[key] for key in ("table", "scaling")}, {"scaling": draw_scaling})


def write_overall(folder: Path, results: Mapping[str, Any]) -> None:
    """Everything of this run in one file, with the claims."""
    claims = [{key: claim[key] for key in ("claim", "where", "verdict", "sentence")} for claim in results["claims"]]
    _write(folder, results, {"claims": claims} if claims else {}, {})


def _write(folder: Path, results: Mapping[str, Any], tables: Mapping[str, Rows], figures: Mapping[str, Any]) -> None:
    files = {f"{name}.csv": _csv(list(rows)).encode() for name, rows in tables.items()}
    for name, draw in figures.items():
        files |= {f"{name}.{kind}": content for kind, content in rendered(draw(results)).items()}
    for name, content in (files | {"results.json": to_json(results).encode()}).items():
        write_whole("out", folder / name, content)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns of the first.

    Examples
    --------
    >>> print(_csv([{"n": 10, "seconds": 0.5}, {"n": 100, "seconds": None}]), end="")
    n,seconds
    10,0.5
    100,
    """
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return buffer.getvalue()


def _estimates(study: Mapping[str, Any]) -> Rows:
    """Every estimate, with the truth and the error."""
    for protocol, name, method in _methods(study):
        for replicate, (value, error) in enumerate(zip(method["estimates"], method["errors"], strict=True)):
            row = {"study": study["name"], "protocol": protocol, "replicate": replicate, "method": name}
            yield row | {"estimate": value, "truth": None if value is None else value - error, "error": error}


def _summaries(study: Mapping[str, Any]) -> Rows:
    """One row for each protocol and method."""
    for protocol, name, method in _methods(study):
        row = {"study": study["name"], "protocol": protocol, "method": name, "label": method["label"]}
        yield row | {"replicates": len(method["errors"])} | {key: method.get(key) for key in _SUMMARY}


def _methods(study: Mapping[str, Any]) -> Iterable[tuple[str, str, Mapping[str, Any]]]:
    for protocol in _PROTOCOLS:
        for name, method in study["protocols"][protocol]["methods"].items():
            yield protocol, name, method


def _curves(study: Mapping[str, Any]) -> Rows:
    """Observed and true losses of both protocols, and the paper protocol's fitted curves."""
    paper, field = (study["protocols"][protocol] for protocol in _PROTOCOLS)
    yield from _points(study, "paper", "observed", paper["observed"])
    yield from _points(study, "paper", "true", paper["truth"])
    yield from _points(study, "field", "observed", field["observed"])
    p = paper["curves"]["p"]
    for name, curve in paper["curves"].items():
        if name != "p":
            yield from _points(study, "paper", name, {"p": p, "standard_error": [None] * len(p)} | curve)


def _shapes(study: Mapping[str, Any]) -> Rows:
    """The losses whose shape was judged."""
    for protocol in _PROTOCOLS:
        yield from _points(study, protocol, "judged", study["protocols"][protocol]["shape"])


def _points(study: Mapping[str, Any], protocol: str, kind: str, points: Mapping[str, Any]) -> Rows:
    keys = ("p", "loss", "standard_error")
    for values in zip(*(points[key] for key in keys), strict=True):
        row = {"study": study["name"], "protocol": protocol, "kind": kind}
        yield row | dict(zip(keys, values, strict=True))


def _tests(study: Mapping[str, Any]) -> Rows:
    """Every p-value of the hypothesis test: on the clean split, and on each draw of the leak."""
    for protocol, test in (("paper", study["test"]), ("field", study["protocols"]["field"]["test"])):
        for replicate, pvalue in enumerate(test["pvalues"]):
            row = {"study": study["name"], "protocol": protocol, "replicate": replicate}
            yield row | {"pvalue": pvalue, "rejected": pvalue <= 0.05}


_TABLES = {"estimates": _estimates, "summary": _summaries, "curves": _curves, "shape": _shapes, "test": _tests}


def summary(results: Mapping[str, Any]) -> str:
    """Errors by study, protocol and method, solve times, and the verdicts, in a few lines of text."""
    lines: list[str] = []
    for study in results["studies"].values():
        paper, field = (study["protocols"][protocol] for protocol in _PROTOCOLS)
        e0 = f"true e_0 {number(paper['e0'], 4)} paper, {number(field['e0'], 4)} field"
        trials, draws = (len(part["methods"]["naive"]["errors"]) for part in (paper, field))
        lines += [
            f"{study['title']} ({study['unit']}; {e0})",
            f"  {'':24s}{f'paper, {trials} trials':>20s}{f'field, {draws} draws':>30s}",
            f"  {'':24s}{'median |error|':>20s}{'median |error|':>18s}{'RMSE':>12s}{'over LOCO':>12s}",
        ]
        for name, label in LABELS.items():
            theirs = field["methods"][name]
            row = f"  {label:24s}{number(paper['methods'][name]['median_absolute_error'], 3):>20s}"
            row += f"{number(theirs['median_absolute_error'], 3):>18s}{number(theirs['rmse'], 3):>12s}"
            lines.append(f"{row}{number(theirs.get('rmse_over_naive'), 3):>12s}")
        lines += [f"  {study['test']['first']['sentence']}", ""]
    if results["timing"] is not None:
        lines += [
            "Solve times in milliseconds",
            f"  {'':12s}{'T4+mono':>10s}{'Sketch':>10s}{'Basis':>10s}{'cvxpy T4+mono':>16s}",
        ]
        times = {(row["study"], row["method"]): row for row in results["timing"]["table"]}
        for study in dict.fromkeys(study for study, _ in times):
            cells = [f"{number(1000 * times[study, name]['seconds']):>10s}" for name in ("trend", "sketch", "basis")]
            seconds = times[study, "trend"]["cvxpy_seconds"]
            lines.append(f"  {study:12s}{''.join(cells)}{number(None if seconds is None else 1000 * seconds):>16s}")
        lines.append("")
    if results["claims"]:
        lines.append("Claims of the paper:")
        lines += [f"  [{claim['verdict']}] {claim['claim']} {claim['sentence']}" for claim in results["claims"]]
    return "\n".join(lines)
