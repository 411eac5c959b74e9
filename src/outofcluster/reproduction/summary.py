"""A run's results in a few lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from outofcluster.reproduction.estimators import LABELS
from outofcluster.reproduction.figures.style import number

__all__ = ["summary"]


def summary(results: Mapping[str, Any]) -> str:
    """Errors by study, protocol and method, solve times, and the verdicts."""
    lines: list[str] = []
    for study in results["studies"].values():
        lines += _study_lines(study)
    if results["timing"] is not None:
        lines += _timing_lines(results["timing"])
    if results["claims"]:
        lines.append("Claims of the paper:")
        for claim in results["claims"]:
            lines.append(f"  [{claim['verdict']}] {claim['claim']} {claim['sentence']}")
    return "\n".join(lines)


def _study_lines(study: Mapping[str, Any]) -> list[str]:
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    trials, draws = (len(part["methods"]["naive"]["errors"]) for part in (paper, field))
    lines = [
        f"{study['title']} ({study['unit']}; true e_0 {number(paper['e0'], 4)} paper, {number(field['e0'], 4)} field)",
        f"  {'':24s}{'paper, ' + str(trials) + ' trials':>20s}{'field, ' + str(draws) + ' draws':>30s}",
        f"  {'':24s}{'median |error|':>20s}{'median |error|':>18s}{'RMSE':>12s}{'over LOCO':>12s}",
    ]
    for name, label in LABELS.items():
        ours, theirs = paper["methods"][name], field["methods"][name]
        cells = (theirs["median_absolute_error"], theirs["rmse"], theirs.get("rmse_over_naive"))
        lines.append(
            f"  {label:24s}{number(ours['median_absolute_error'], 3):>20s}"
            f"{number(cells[0], 3):>18s}{number(cells[1], 3):>12s}{number(cells[2], 3):>12s}"
        )
    lines.append(f"  {study['test']['first']['sentence']}")
    return [*lines, ""]


def _timing_lines(timing: Mapping[str, Any]) -> list[str]:
    lines = [
        "Solve times in milliseconds",
        f"  {'':12s}{'T4+mono':>10s}{'Sketch':>10s}{'Basis':>10s}{'cvxpy T4+mono':>16s}",
    ]
    studies = dict.fromkeys(row["study"] for row in timing["table"])
    for study in studies:
        found = {row["method"]: row for row in timing["table"] if row["study"] == study}
        cells = [found[method]["seconds"] for method in ("trend", "sketch", "basis")]
        theirs = found["trend"]["cvxpy_seconds"]
        numbers = "".join(f"{number(1000 * cell):>10s}" for cell in cells)
        lines.append(f"  {study:12s}{numbers}{number(None if theirs is None else 1000 * theirs):>16s}")
    return [*lines, ""]
