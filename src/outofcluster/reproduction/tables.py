"""Results as tidy CSV: one row an observation, one column a variable."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["csv_text", "curve_rows", "estimate_rows", "shape_rows", "summary_rows", "test_rows"]

Rows = list[dict[str, Any]]

_PROTOCOLS = ("paper", "field")


def csv_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV, with the columns of the first.

    Examples
    --------
    >>> print(csv_text([{"n": 10, "seconds": 0.5}, {"n": 100, "seconds": None}]), end="")
    n,seconds
    10,0.5
    100,
    """
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    return repr(value) if isinstance(value, float) else value


def estimate_rows(study: Mapping[str, Any]) -> Rows:
    """Every estimate: protocol, replicate, method, estimate, truth, error."""
    rows = []
    for protocol in _PROTOCOLS:
        for name, method in study["protocols"][protocol]["methods"].items():
            for i, (value, error) in enumerate(zip(method["estimates"], method["errors"], strict=True)):
                rows.append(
                    {
                        "study": study["name"],
                        "protocol": protocol,
                        "replicate": i,
                        "method": name,
                        "estimate": value,
                        "truth": None if value is None else value - error,
                        "error": error,
                    }
                )
    return rows


def summary_rows(study: Mapping[str, Any]) -> Rows:
    """A row for each protocol and method."""
    keys = ("median_error", "median_absolute_error", "rmse", "rmse_over_naive", "worst_relative_error", "failed")
    return [
        {
            "study": study["name"],
            "protocol": protocol,
            "method": name,
            "label": method["label"],
            "replicates": len(method["errors"]),
            **{key: method.get(key) for key in keys},
        }
        for protocol in _PROTOCOLS
        for name, method in study["protocols"][protocol]["methods"].items()
    ]


def curve_rows(study: Mapping[str, Any]) -> Rows:
    """Observed and true losses of both protocols, and the paper protocol's fitted curves."""
    rows: Rows = []
    paper, field = study["protocols"]["paper"], study["protocols"]["field"]
    for protocol, kind, curve in (
        ("paper", "observed", paper["observed"]),
        ("paper", "true", paper["truth"]),
        ("field", "observed", field["observed"]),
    ):
        rows += _points(study, protocol, kind, curve["p"], curve["loss"], curve["standard_error"])
    for name, curve in paper["curves"].items():
        if name != "p":
            p = paper["curves"]["p"]
            rows += _points(study, "paper", name, p, curve["loss"], [None] * len(p))
    return rows


def shape_rows(study: Mapping[str, Any]) -> Rows:
    """The losses whose shape was judged."""
    rows: Rows = []
    for protocol in _PROTOCOLS:
        shape = study["protocols"][protocol]["shape"]
        rows += _points(study, protocol, "judged", shape["p"], shape["loss"], shape["standard_error"])
    return rows


def test_rows(study: Mapping[str, Any]) -> Rows:
    """Every p-value of the hypothesis test: on the clean split, and on each draw of the leak."""
    found = {"paper": study["test"]["pvalues"], "field": study["protocols"]["field"]["test"]["pvalues"]}
    return [
        {"study": study["name"], "protocol": protocol, "replicate": i, "pvalue": pvalue, "rejected": pvalue <= 0.05}
        for protocol, pvalues in found.items()
        for i, pvalue in enumerate(pvalues)
    ]


def _points(
    study: Mapping[str, Any], protocol: str, kind: str, p: Iterable[Any], loss: Iterable[Any], error: Iterable[Any]
) -> Rows:
    return [
        {"study": study["name"], "protocol": protocol, "kind": kind, "p": x, "loss": y, "standard_error": e}
        for x, y, e in zip(p, loss, error, strict=True)
    ]
