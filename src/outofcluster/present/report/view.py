"""A summary in the words of a report: what a reader without statistics wants to know, in the order of the questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from outofcluster._base.plain import plain
from outofcluster._base.text import percentage, printable_data
from outofcluster.auditing.subgroups import Subgroups
from outofcluster.auditing.summary import Summary
from outofcluster.auditing.summary_parts import SOURCES_HEADER, counted
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.present.display import LossCurveDisplay
from outofcluster.present.display.base import ADDED, SHARE_OF, capitalized
from outofcluster.present.report.chart import curve_chart, interval_chart, sensitivity_chart, slider_end, unmixing_chart

_SIDES = {"train": "training", "validation": "held-out"}
_PRINTED_RATES = (0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)


def view(summary: Summary, about: Mapping[str, str], suspects: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What the template needs beside the summary; ``suspects`` are rows with the columns of a frame of them."""
    digits = decimals(*summary.estimates.values())
    severe = sum(finding.severity == "severe" for finding in summary.findings)
    return {
        "summary": summary,
        "Noun": capitalized(summary.metric.noun),
        "caution": f"{counted(severe, 'severe finding')} below: read that first." if severe else "",
        "confidence": percentage(summary.confidence_level),
        "digits": digits,
        "estimates": _estimates(summary),
        "sentences": [*([] if summary.optimism is not None else [summary.verdict]), *summary.answers_but_test],
        "parts_header": SOURCES_HEADER,
        "curve": None if summary.of_pieces else _curve(summary, digits),
        "pieces": _pieces(summary, digits) if summary.of_pieces else None,
        "unmixing": _unmixing(summary, digits),
        "suspects": suspects,
        "sensitivity": _sensitivity(summary, digits),
        "data": _data(summary),
        "rates_by_fold": summary.leakage is not None and not summary.without_rate,
        "folds": list(zip(summary.by_fold, summary.leakage or (None,) * len(summary.by_fold), strict=True)),
        "provenance": _provenance(summary, about),
        "machine": _machine(summary),
        "json": printable_data(summary.to_dict()),
    }


def view_of_subgroups(by: Subgroups) -> dict[str, Any]:
    """A table of subgroups, with naive and corrected values drawn on one axis."""
    known = [estimate for group in by.judged for estimate in (group.naive, group.corrected) if estimate is not None]
    spans = iter(interval_chart(known))
    rows = [
        {"group": group, "spans": [next(spans) for each in (group.naive, group.corrected) if each is not None]}
        for group in by.judged
    ]
    return {
        "rows": rows,
        "digits": min(decimals(*known), 3),
        "lines": [line for line in by.lines[1:] if not line.startswith("  ")],
        "level": percentage(by.confidence_level),
    }


def _data(summary: Summary) -> dict[str, Any] | None:
    account = summary.table
    if account is None:
        return None
    classes = list(account.classes)
    if account.n_classes > len(classes):
        rest = account.n_records - sum(number for _, number in classes)
        classes.append((f"{account.n_classes - len(classes)} more", rest))
    lines = [account.clusters_in_words, *([] if classes else [account.target_in_words]), account.features_in_words]
    return {"lines": lines, "classes": classes, "n_records": account.n_records}


def _estimates(summary: Summary) -> list[dict[str, Any]]:
    explained = (
        "what the cross-validation shows",
        "what folds that ignore clusters show",
        "what to expect on new clusters" if summary.units == "clusters" else "had nothing leaked",
    )
    spans = interval_chart(list(summary.estimates.values()))
    rows = zip(summary.estimates.items(), explained, spans, strict=False)
    return [
        {"name": name, "explained": words, "estimate": estimate, "span": span} for (name, estimate), words, span in rows
    ]


def _curve(summary: Summary, digits: int) -> dict[str, Any]:
    display = LossCurveDisplay.from_audit(summary)
    first, last = display.losses[0], display.losses[-1]
    axis = f"share of {(ADDED if summary.curve is None else SHARE_OF)[summary.error_model]}"
    goes = "falls" if last < first else "rises" if last > first else "goes"
    described = (
        f"In the resamples the {summary.metric.noun} {goes} from {fixed(first, digits)} at "
        f"{percentage(display.levels[0])} to {fixed(last, digits)} at {percentage(display.levels[-1])} ({axis})."
    )
    corrected, moved = summary.corrected, 0.0
    if corrected is not None and summary.curve is not None:
        described += (
            f" Extended to no leakage the curve reaches {fixed(corrected.value, digits)} "
            f"({between(corrected, digits)}), beside {fixed(summary.naive.value, digits)} as cross-validated."
        )
        moved = display.shift
    return {
        "charts": curve_chart(summary),
        "axis": axis,
        "short_axis": "leakage" if summary.curve is not None else "injected fraction",
        "described": described,
        "moved": ("+" if moved > 0 else "") + fixed(moved, digits) if round(moved, digits) else "",
    }


def _pieces(summary: Summary, digits: int) -> dict[str, Any]:
    """What a piece in training does to the value of the records that are left."""
    without, with_piece = summary.losses[0], summary.losses[-1]
    gain = with_piece - without if summary.metric.greater_is_better else without - with_piece
    return {
        "rows": [
            ("without the piece in training", fixed(without, digits)),
            ("with the piece in training", fixed(with_piece, digits)),
            ("what a piece gains", fixed(gain, digits)),
        ],
        "seen": summary.seen,
        "looked_up": summary.looked_up,
    }


def _unmixing(summary: Summary, digits: int) -> dict[str, Any] | None:
    below = summary.unmixed
    if below is None:
        return None
    described = (
        f"Without the records that look leaked the {summary.metric.noun} goes from "
        f"{fixed(summary.naive.value, digits)} to {fixed(below.losses[0], digits)} at an injected fraction of "
        f"{percentage(below.fractions[0])}."
    )
    corrected, curve = summary.corrected, summary.curve
    if below.clean is not None and corrected is not None and curve is not None:
        alone = corrected.value + curve.extrapolated[0] - curve.loss[0]
        described = (
            f"No leakage is left at an injected fraction of {percentage(below.clean)}, where the {summary.metric.noun} "
            f"is {fixed(corrected.value, digits)} ({between(corrected, digits)}). The injected records alone, "
            f"extrapolated, would have given {fixed(alone, digits)}."
        )
    return {"charts": unmixing_chart(summary), "described": described}


def _sensitivity(summary: Summary, digits: int) -> dict[str, Any] | None:
    over = summary.sensitivity
    if over is None:
        return None
    end, start = slider_end(summary), summary.rate or 0.0
    corrected = summary.corrected if summary.without_rate else None
    shown = over.rates <= end + 1e-9
    leaks = summary.leakage or ()
    notes = ["Each rate is taken as exactly known."]
    if corrected is not None:
        notes.append(
            f"At {percentage(start)}, which is what the records show, the answer is the one above, which needs no "
            "rate. At other rates imitated pieces count as well."
        )
    if any(leak.std for leak in leaks):
        notes.append("The interval in the table above also allows for an uncertain rate.")
    if len({leak.rate for leak in leaks}) > 1:
        notes.append("The same rate is used for all folds.")
    if len(over.rates) < 50:
        notes.append(f"Straight lines connect the {int(shown.sum())} rates that were computed.")
    numbers = {"values": over.values, "low": over.low, "high": over.high}
    printed = [rate for rate in _PRINTED_RATES if rate <= end]
    rows = zip(printed, *(np.interp(printed, over.rates, part) for part in numbers.values()), strict=True)
    return {
        "charts": sensitivity_chart(summary),
        "axis": f"leakage rate: share of {SHARE_OF[summary.error_model]}",
        "end": end,
        "start": start,
        "notes": " ".join(notes),
        "described": (
            f"The corrected {summary.metric.noun} goes from {fixed(over.values[0], digits)} at no leakage to "
            f"{fixed(over.values[shown][-1], digits)} at {percentage(over.rates[shown][-1])}, within an interval."
        ),
        "rows": [(rate, Estimate(value, (low, high), math.nan, math.nan)) for rate, value, low, high in rows],
        "data": plain(
            {
                "rates": over.rates,
                **numbers,
                "naive": summary.naive.value,
                "start": start,
                "answer": None if corrected is None else [corrected.value, *corrected.interval],
                "confidence": percentage(summary.confidence_level),
                "digits": digits,
                "noun": summary.metric.noun,
                "greater": summary.metric.greater_is_better,
                "target": summary.metric.target,
            }
        ),
    }


def _provenance(summary: Summary, about: Mapping[str, str]) -> list[tuple[str, str]]:
    label = summary.metric.label
    rows = [
        *about.items(),
        ("model", summary.model),
        ("as code", summary.estimator if summary.estimator != summary.model else ""),
        ("metric", label if summary.loss == label else f"{summary.loss} ({label})"),
        ("error model", f"{summary.error_model} (what leaks)"),
        ("units", f"{summary.units}: intervals are for {summary.estimand}"),
        ("curve", "" if summary.of_pieces else summary.curve_method),
        ("answer from", "" if summary.from_data is False else "the records themselves"),
    ]
    if summary.without_rate and summary.seen is not None:
        rate, upper = (percentage(share) for share in (summary.seen.rate, summary.seen.upper))
        rows.append(("leakage", f"not assumed; seen in {rate} of the held-out records, at most in {upper}"))
    elif summary.leakage is not None:
        rates = {(leak.rate, leak.std) for leak in summary.leakage}
        words = [f"{rate:g}" if std is None else f"{rate:g} ± {std:g}" for rate, std in sorted(rates, key=str)]
        least = "at least " if any(leak.at_least for leak in summary.leakage) else ""
        rows.append(("leakage", least + ", ".join(words) + f", of the {_SIDES[summary.leakage[0].of]} records"))
    rows += [
        ("fits", f"{summary.fits:,} over {counted(len(summary.by_fold), 'fold')}"),
        ("fits without some training clusters", str(sum(f.fits_without for f in summary.by_fold) or "")),
        ("levels", ", ".join(f"{level:.4g}" for level in summary.levels)),
        ("training sets", ", ".join(f"{size:,} records" for size in summary.sizes)),
    ]
    return [(name, value) for name, value in rows if value]


def _machine(summary: Summary) -> list[tuple[str, str]]:
    """Seeds and versions, which few readers need."""
    seeds = "; ".join(f"fold {f.fold}: {', '.join(map(str, f.seeds))}" for f in summary.by_fold)
    versions = [(name, version) for name, version in summary.versions.items() if name != "outofcluster"]
    return [("seeds", seeds), ("outofcluster", summary.version), *versions]
