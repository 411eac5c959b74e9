"""The files of a run: for every table and figure a CSV, a JSON, a PNG and an SVG, each whole or not there.

All files of a study are made in memory first, and only then written.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from outofcluster.reproduction.figures import draw_curves, draw_errors, draw_scaling, draw_shape, rendered
from outofcluster.reproduction.store import write_json, write_whole
from outofcluster.reproduction.tables import csv_text, curve_rows, estimate_rows, shape_rows, summary_rows, test_rows

__all__ = ["write_overall", "write_study", "write_timing"]


def write_study(folder: Path, study: Mapping[str, Any]) -> None:
    """Figures, tables and results of one study."""
    files = {
        "estimates.csv": csv_text(estimate_rows(study)).encode(),
        "summary.csv": csv_text(summary_rows(study)).encode(),
        "curves.csv": csv_text(curve_rows(study)).encode(),
        "shape.csv": csv_text(shape_rows(study)).encode(),
        "test.csv": csv_text(test_rows(study)).encode(),
    }
    for name, draw in (("errors", draw_errors), ("curves", draw_curves), ("shape", draw_shape)):
        files |= {f"{name}.{kind}": content for kind, content in rendered(draw(study)).items()}
    _write(folder, files)
    write_json(folder / "results.json", study)


def write_timing(folder: Path, timing: Mapping[str, Any]) -> None:
    """The table and the figure of solve times."""
    files = {
        "table.csv": csv_text(timing["table"]).encode(),
        "scaling.csv": csv_text(timing["scaling"]).encode(),
    }
    files |= {f"scaling.{kind}": content for kind, content in rendered(draw_scaling(timing)).items()}
    _write(folder, files)
    write_json(folder / "results.json", timing)


def write_overall(folder: Path, results: Mapping[str, Any]) -> None:
    """Everything of this run in one file, with the claims."""
    claims = [{key: claim[key] for key in ("claim", "where", "verdict", "sentence")} for claim in results["claims"]]
    if claims:
        write_whole(folder / "claims.csv", csv_text(claims).encode())
    write_json(folder / "results.json", results)


def _write(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        write_whole(folder / name, content)
