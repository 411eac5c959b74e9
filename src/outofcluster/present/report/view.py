"""A summary in the words of a report: what a reader without statistics wants to know, in the order of the questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from outofcluster._base.text import printable_data
from outofcluster.auditing.findings import Finding
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, between, decimals, fixed, percent
from outofcluster.present.display.base import added, capitalized, share_of
from outofcluster.present.report.chart import (
    curve_chart,
    interval_chart,
    sensitivity_chart,
    slider_end,
    unmixing_chart,
)

_SEVERITIES = {"severe": "Severe", "warning": "Warning", "info": "Note"}
_SIDES = {"train": "training", "validation": "held-out"}
_TO_NONE = {
    "curve": "A curve is fitted to the values at those levels. It is extended back beyond the present leakage, to "
    "none.",
    "unmixed": "Which records leaked is partly visible in the records themselves. A classifier tells held-out records "
    "from training records, and further models were fitted without the training records that look like held-out ones. "
    "They show the {noun} below the present leakage, down to none. A curve that is fitted to the values at the levels "
    "above stands in where leaving records out turns out not to work.",
}
_PRINTED_RATES = (0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9)


def headline(summary: Summary) -> str:
    """The answer in one or two sentences.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.present.report import headline
    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> X, groups = rng.standard_normal((200, 2)), np.repeat(np.arange(20), 10)
    >>> options = {"error_model": "records", "n_fits": 100, "random_state": 0}
    >>> result = ooc.audit(LogisticRegression(), X, X[:, 0] + X[:, 1] > 0, groups=groups, **options)
    >>> headline(result.summary)
    'Error rate 0.025 by cross-validation; how far that is from the truth depends on the leakage rate, which was ...'
    """
    return summary.headline


def view(summary: Summary, about: Mapping[str, str], suspects: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Everything that the template needs, as plain data; ``suspects`` are rows with the columns of a frame of them."""
    digits = decimals(*summary.estimates.values())
    severe = [finding for finding in summary.findings if finding.severity == "severe"]
    return {
        "headline": headline(summary),
        "caution": f"{_count(len(severe), 'severe finding')} below: read that first." if severe else "",
        "summary": summary,
        "metric": summary.metric,
        "noun": summary.metric.noun,
        "Noun": capitalized(summary.metric.noun),
        "optimism": summary.optimism and (fixed(summary.optimism.value, digits), between(summary.optimism, digits)),
        "metrics": [one.words for one in summary.metrics],
        "where": "on new clusters" if summary.units == "clusters" else "had nothing leaked",
        "confidence": percent(summary.confidence_level),
        "digits": digits,
        "estimates": _estimates(summary, digits),
        "sentences": [*([] if summary.optimism is not None else [summary.verdict]), *summary.answers_but_test],
        "rests": [line for line in (summary.without_curve, summary.standing_assumption, summary.scope) if line],
        "test": summary.test,
        "curve": _curve(summary, digits),
        "unmixing": _unmixing(summary, digits),
        "suspects": [
            (str(row["fold"]), str(row["record"]), f"{100 * row['probability']:.0f} %", str(row["resembles"]))
            for row in suspects
        ],
        "sensitivity": _sensitivity(summary, digits),
        "loud": [_finding(finding) for finding in summary.loud],
        "notes": [_finding(finding) for finding in summary.notes],
        "data": _data(summary),
        "folds": _folds(summary, digits),
        "methods": _methods(summary),
        "provenance": _provenance(summary, about),
        "machine": _machine(summary),
        "json": printable_data(summary.to_dict()),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {"word": _SEVERITIES.get(finding.severity, finding.severity), **asdict(finding)}


def _data(summary: Summary) -> dict[str, Any] | None:
    account = summary.table
    if account is None:
        return None
    classes = [(name, f"{count:,}", _percent(count / account.n_records)) for name, count in account.classes]
    if account.n_classes > len(classes):
        rest = account.n_records - sum(count for _, count in account.classes)
        classes.append((f"{account.n_classes - len(classes)} more", f"{rest:,}", _percent(rest / account.n_records)))
    lines = [account.clusters_in_words, *([] if classes else [account.target_in_words]), account.features_in_words]
    return {"lines": lines, "classes": classes}


def _estimates(summary: Summary, digits: int) -> list[dict[str, Any]]:
    explained = [
        "what the cross-validation shows",
        "what folds that ignore clusters show",
        "what to expect on new clusters" if summary.units == "clusters" else "had nothing leaked",
    ]
    spans = interval_chart([(estimate.value, estimate.interval) for estimate in summary.estimates.values()])
    rows = zip(summary.estimates.items(), explained, spans, strict=False)
    return [
        {
            "name": name,
            "explained": words,
            "value": fixed(estimate.value, digits),
            "interval": between(estimate, digits),
            "span": span,
            "main": place == 2,
        }
        for place, ((name, estimate), words, span) in enumerate(rows)
    ]


def _curve(summary: Summary, digits: int) -> dict[str, Any]:
    levels, losses = np.array(summary.levels), np.array(summary.losses)
    axis = f"share of {added(summary.error_model)}"
    if summary.curve is not None:
        levels, losses = np.array(summary.curve.at), np.array(summary.curve.observed)
        axis = f"share of {share_of(summary.error_model)}"
    goes = "falls" if losses[-1] < losses[0] else "rises" if losses[-1] > losses[0] else "goes"
    described = (
        f"In the resamples the {summary.metric.noun} {goes} from {fixed(losses[0], digits)} at {_percent(levels[0])} "
        f"to {fixed(losses[-1], digits)} at {_percent(levels[-1])} ({axis})."
    )
    corrected, moved = summary.corrected, 0.0
    if corrected is not None and summary.curve is not None:
        described += (
            f" Extended to no leakage the curve reaches {fixed(corrected.value, digits)} "
            f"({between(corrected, digits)}), beside {fixed(summary.naive.value, digits)} as cross-validated."
        )
        moved = corrected.value - summary.curve.loss[0]
    return {
        "charts": curve_chart(summary),
        "axis": axis,
        "short_axis": "leakage" if summary.curve is not None else "injected fraction",
        "described": described,
        "moved": ("+" if moved > 0 else "") + fixed(moved, digits) if round(moved, digits) else "",
    }


def _unmixing(summary: Summary, digits: int) -> dict[str, Any] | None:
    below = summary.unmixed
    if below is None:
        return None
    lowest = below.fractions[0]
    described = (
        f"Without the records that look leaked the {summary.metric.noun} goes from "
        f"{fixed(summary.naive.value, digits)} to {fixed(below.losses[0], digits)} at an injected fraction of "
        f"{_percent(lowest)}."
    )
    corrected, curve = summary.corrected, summary.curve
    if below.clean is not None and corrected is not None and curve is not None:
        alone = corrected.value + curve.extrapolated[0] - curve.loss[0]
        described = (
            f"No leakage is left at an injected fraction of {_percent(below.clean)}, where the {summary.metric.noun} "
            f"is {fixed(corrected.value, digits)} ({between(corrected, digits)}). The injected records alone, "
            f"extrapolated, would have given {fixed(alone, digits)}."
        )
    return {"charts": unmixing_chart(summary), "described": described}


def _sensitivity(summary: Summary, digits: int) -> dict[str, Any] | None:
    over = summary.sensitivity
    if over is None:
        return None
    end, start = slider_end(summary), summary.rate or 0.0
    shown = over.rates <= end + 1e-9
    several = summary.leakage is not None and len({leak.rate for leak in summary.leakage}) > 1
    spread = summary.leakage is not None and any(leak.std for leak in summary.leakage)
    notes = ["Each rate is taken as exactly known."]
    if spread:
        notes = [
            "Each rate is taken as exactly known. The interval in the table above also allows for an uncertain rate."
        ]
    if several:
        notes.append("The same rate is used for all folds.")
    if len(over.rates) < 50:
        notes.append(f"Straight lines connect the {int(shown.sum())} rates that were computed.")
    printed = [rate for rate in _PRINTED_RATES if rate <= end]
    return {
        "charts": sensitivity_chart(summary),
        "axis": f"leakage rate: share of {share_of(summary.error_model)}",
        "end": end,
        "start": start,
        "notes": " ".join(notes),
        "described": (
            f"The corrected {summary.metric.noun} goes from {fixed(over.values[0], digits)} at no leakage to "
            f"{fixed(over.values[shown][-1], digits)} at {_percent(float(over.rates[shown][-1]))}, within an interval."
        ),
        "rows": [_at(summary, rate, digits) for rate in printed],
        "data": {
            "rates": over.rates.tolist(),
            "values": _known(over.values),
            "low": _known(over.low),
            "high": _known(over.high),
            "naive": summary.naive.value,
            "start": start,
            "confidence": percent(summary.confidence_level),
            "digits": digits,
            "noun": summary.metric.noun,
            "greater": summary.metric.greater_is_better,
        },
    }


def _known(values: Any) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _at(summary: Summary, rate: float, digits: int) -> tuple[str, str, str]:
    over = summary.sensitivity
    assert over is not None
    value, low, high = (float(np.interp(rate, over.rates, part)) for part in (over.values, over.low, over.high))
    estimate = Estimate(value, (low, high), math.nan, math.nan)
    return _percent(rate), fixed(value, digits), between(estimate, digits)


def _folds(summary: Summary, digits: int) -> list[tuple[str, ...]]:
    leaks = summary.leakage or (None,) * len(summary.by_fold)
    return [
        (
            str(fold.fold),
            fixed(fold.naive, digits),
            "not known" if fold.corrected is None else fixed(fold.corrected, digits),
            f"{fold.n_train:,}",
            f"{fold.n_validation:,}",
            "not given" if leak is None else _percent(leak.rate),
        )
        for fold, leak in zip(summary.by_fold, leaks, strict=True)
    ]


def _methods(summary: Summary) -> list[str]:
    folds, fits, metric = len(summary.by_fold), summary.fits, summary.metric
    noun = metric.noun
    lowers = "raises" if metric.greater_is_better else "lowers"
    rise, sign = ("The fall", "less") if metric.greater_is_better else ("The rise", "plus")
    resampled = (
        f"{fits:,} further models were fitted to resamples of the training records, in which a growing share of "
        "records was drawn from the held-out clusters. Each was scored on held-out records that it had not seen."
        if summary.error_model == "records"
        else f"{fits:,} further models were fitted with a growing share of the held-out clusters cut in two: one "
        "piece of such a cluster joined training, the other was scored."
    )
    if len(summary.sizes) > 1:
        few = " and ".join(f"{size:,}" for size in summary.sizes[1:])
        resampled += (
            f" Some were trained on {few} records only. Such training sets often hold no leaked record at all, which "
            "shows the course of the curve near no leakage."
        )
    steps = [
        f"The model was cross-validated over {_count(folds, 'fold')}, with each cluster on one side only. That gives "
        f"the {noun} as it is ({metric.label}; {'greater' if metric.greater_is_better else 'smaller'} is better).",
        "The clusters are not known exactly. If part of a cluster was missed, some of its records can train a model "
        f"that is scored on the others, and the {noun} comes out {metric.flattered}. Nothing in a cross-validation "
        "shows that.",
        f"To measure what leakage does to this model, {resampled}",
        _TO_NONE["curve" if summary.unmixed is None else "unmixed"].format(noun=noun),
        f"{rise} on that last part is the optimism of the cross-validation. The {noun} as it is {sign} this optimism "
        f"is the corrected {noun}.",
        f"The test asks whether training on records of the held-out clusters {lowers} their {noun} at all. It needs no "
        "leakage rate. An effect does not mean that anything leaked.",
    ]
    if summary.leakage is None:
        steps[3:5] = ["The values at those levels show how much leakage would matter. The leakage rate was not given."]
    return steps


def _provenance(summary: Summary, about: Mapping[str, str]) -> list[tuple[str, str]]:
    rows = list(about.items())
    rows += [
        ("model", summary.model),
        ("as code", summary.estimator if summary.estimator != summary.model else ""),
        (
            "metric",
            summary.loss if summary.loss == summary.metric.label else f"{summary.loss} ({summary.metric.label})",
        ),
        ("error model", f"{summary.error_model} (what leaks)"),
        ("units", f"{summary.units}: intervals are for {summary.estimand}"),
        ("curve", summary.curve_method),
    ]
    if summary.leakage is not None:
        rates = {(leak.rate, leak.std) for leak in summary.leakage}
        words = [f"{rate:g}" if std is None else f"{rate:g} ± {std:g}" for rate, std in sorted(rates, key=str)]
        least = "at least " if any(leak.at_least for leak in summary.leakage) else ""
        rows.append(("leakage", least + ", ".join(words) + f", of the {_SIDES[summary.leakage[0].of]} records"))
    rows += [
        ("fits", f"{summary.fits:,} over {_count(len(summary.by_fold), 'fold')}"),
        ("levels", ", ".join(f"{level:.4g}" for level in summary.levels)),
        ("training sets", ", ".join(f"{size:,} records" for size in summary.sizes)),
    ]
    return [(name, value) for name, value in rows if value]


def _machine(summary: Summary) -> list[tuple[str, str]]:
    """Seeds and versions, which few readers need."""
    seeds = "; ".join(f"fold {f.fold}: {', '.join(map(str, f.seeds))}" for f in summary.by_fold)
    versions = [(name, version) for name, version in summary.versions.items() if name != "outofcluster"]
    return [("seeds", seeds), ("outofcluster", summary.version), *versions]


def _percent(share: float) -> str:
    return f"{round(100 * share, 1):g} %".replace("-", "−")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
