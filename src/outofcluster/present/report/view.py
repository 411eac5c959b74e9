"""A summary in the words of a report: what a reader without statistics wants to know, in the order of the questions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, between, decimals, percent
from outofcluster.present.report.chart import (
    curve_chart,
    interval_chart,
    sensitivity_chart,
    slider_end,
    unmixing_chart,
)
from outofcluster.present.words import added, loss_name, share_of

__all__ = ["headline", "view"]

_SEVERITIES = {"severe": "Severe", "warning": "Warning", "info": "Note"}
_SIDES = {"train": "training", "validation": "held-out"}
_TO_NONE = {
    "curve": "A curve is fitted to the losses at those levels. It is extended back beyond the present leakage, to "
    "none.",
    "unmixed": "Which records leaked is partly visible in the records themselves. A classifier tells held-out records "
    "from training records, and further models were fitted without the training records that look like held-out ones. "
    "They show the loss below the present leakage, down to none. A curve that is fitted to the losses at the levels "
    "above stands in where leaving records out turns out not to work.",
}
_PRINTED_RATES = (0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5)


def headline(summary: Summary) -> str:
    """The answer in one sentence.

    Parameters
    ----------
    summary : Summary
        The numbers.

    Returns
    -------
    str
        The sentence.

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
    'Cross-validation shows a loss of 0.025; how far that is from the truth depends on the leakage rate, which ...'
    """
    # One digit less than in the table, because people say this sentence to each other.
    digits = max(decimals(*summary.estimates.values()) - 1, 0)
    naive, corrected = summary.naive, summary.corrected
    if corrected is None:
        return (
            f"Cross-validation shows a loss of {naive.value:.{digits}f}; how far that is from the truth depends on the "
            "leakage rate, which was not given."
        )
    where = "on new clusters" if summary.units == "clusters" else "on these clusters, had nothing leaked"
    value, shown = f"{corrected.value:.{digits}f}", f"{naive.value:.{digits}f}"
    width = corrected.interval[1] - corrected.interval[0]
    interval = (
        f" ({percent(corrected.confidence_level)} interval {between(corrected, digits)})"
        if math.isfinite(width)
        else ""
    )
    # The noise of the fits and the interval do not allow a smaller difference to be told from none.
    least = max(2 * corrected.se_monte_carlo, 0.05 * width if math.isfinite(width) else 0.0)
    if value == shown or abs(corrected.value - naive.value) <= least:
        close = f"cross-validation shows {shown}."
        return f"Leakage changes little here: expect a loss of about {value}{interval} {where}; {close}"
    return f"Expect a loss of about {value}{interval} {where}, not the {shown} that cross-validation shows."


def view(summary: Summary, about: Mapping[str, str], suspects: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Everything that the template needs, as plain data; ``suspects`` are rows with the columns of a frame of them."""
    digits = decimals(*summary.estimates.values())
    severe = [finding for finding in summary.findings if finding.severity == "severe"]
    return {
        "headline": headline(summary),
        "caution": f"{_count(len(severe), 'severe finding')} below: read that first." if severe else "",
        "summary": summary,
        "loss": loss_name(summary.loss),
        "where": "on new clusters" if summary.units == "clusters" else "had nothing leaked",
        "confidence": percent(summary.confidence_level),
        "digits": digits,
        "estimates": _estimates(summary, digits),
        "sentences": summary.sentences,
        "test": summary.test,
        "curve": _curve(summary, digits),
        "unmixing": _unmixing(summary, digits),
        "suspects": [
            (str(row["fold"]), str(row["record"]), f"{100 * row['probability']:.0f} %", str(row["resembles"]))
            for row in suspects
        ],
        "sensitivity": _sensitivity(summary, digits),
        "findings": [{"word": _SEVERITIES.get(f.severity, f.severity), **asdict(f)} for f in summary.findings],
        "folds": _folds(summary, digits),
        "methods": _methods(summary),
        "provenance": _provenance(summary, about),
        "json": summary.to_dict(),
    }


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
            "value": f"{estimate.value:.{digits}f}",
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
    falls = "falls" if losses[-1] < losses[0] else "goes"
    described = (
        f"In the resamples the loss {falls} from {losses[0]:.{digits}f} at {_percent(levels[0])} to "
        f"{losses[-1]:.{digits}f} at {_percent(levels[-1])} ({axis})."
    )
    corrected, moved = summary.corrected, 0.0
    if corrected is not None and summary.curve is not None:
        described += (
            f" Extended to no leakage the curve reaches {corrected.value:.{digits}f} ({between(corrected, digits)}), "
            f"beside {summary.naive.value:.{digits}f} as cross-validated."
        )
        moved = corrected.value - summary.curve.loss[0]
    return {
        "charts": curve_chart(summary),
        "axis": axis,
        "described": described,
        "moved": f"{moved:+.{digits}f}" if float(f"{moved:.{digits}f}") else "",
    }


def _unmixing(summary: Summary, digits: int) -> dict[str, Any] | None:
    below = summary.unmixed
    if below is None:
        return None
    lowest = below.fractions[0]
    described = (
        f"Without the records that look leaked the loss goes from {summary.naive.value:.{digits}f} to "
        f"{below.losses[0]:.{digits}f} at an injected fraction of {_percent(lowest)}."
    )
    corrected, curve = summary.corrected, summary.curve
    if below.clean is not None and corrected is not None and curve is not None:
        alone = corrected.value + curve.extrapolated[0] - curve.loss[0]
        described = (
            f"No leakage is left at an injected fraction of {_percent(below.clean)}, where the loss is "
            f"{corrected.value:.{digits}f} ({between(corrected, digits)}). The injected records alone, extrapolated, "
            f"would have given {alone:.{digits}f}."
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
            f"The corrected loss goes from {over.values[0]:.{digits}f} at no leakage to "
            f"{over.values[shown][-1]:.{digits}f} at {_percent(float(over.rates[shown][-1]))}, within an interval."
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
        },
    }


def _known(values: Any) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _at(summary: Summary, rate: float, digits: int) -> tuple[str, str, str]:
    over = summary.sensitivity
    assert over is not None
    value, low, high = (float(np.interp(rate, over.rates, part)) for part in (over.values, over.low, over.high))
    estimate = Estimate(value, (low, high), math.nan, math.nan)
    return _percent(rate), f"{value:.{digits}f}", between(estimate, digits)


def _folds(summary: Summary, digits: int) -> list[tuple[str, str, str, str, str]]:
    leaks = summary.leakage or (None,) * len(summary.by_fold)
    return [
        (
            str(fold.fold),
            f"{fold.naive:.{digits}f}",
            f"{fold.n_train:,}",
            f"{fold.n_validation:,}",
            "not given" if leak is None else _percent(leak.rate),
        )
        for fold, leak in zip(summary.by_fold, leaks, strict=True)
    ]


def _methods(summary: Summary) -> list[str]:
    folds, fits = len(summary.by_fold), summary.fits
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
        f"the loss as it is ({loss_name(summary.loss)}; smaller is better).",
        "The clusters are not known exactly. If part of a cluster was missed, some of its records can train a model "
        "that is scored on the others, and the loss comes out too low. Nothing in a cross-validation shows that.",
        f"To measure what leakage does to this model, {resampled}",
        _TO_NONE["curve" if summary.unmixed is None else "unmixed"],
        "The rise on that last part is the optimism of the cross-validation. The loss as it is plus this optimism is "
        "the corrected loss.",
        "The test asks whether training on records of the held-out clusters lowers their loss at all. It needs no "
        "leakage rate. An effect does not mean that anything leaked.",
    ]
    if summary.leakage is None:
        steps[3:5] = ["The losses at those levels show how much leakage would matter. The leakage rate was not given."]
    return steps


def _provenance(summary: Summary, about: Mapping[str, str]) -> list[tuple[str, str]]:
    rows = list(about.items())
    rows += [
        ("model", summary.estimator),
        ("loss", summary.loss),
        ("error model", f"{summary.error_model} (what leaks)"),
        ("units", f"{summary.units}: intervals are for {summary.estimand}"),
        ("curve", summary.curve_method),
    ]
    if summary.leakage is not None:
        rates = {(leak.rate, leak.std) for leak in summary.leakage}
        words = [f"{rate:g}" if std is None else f"{rate:g} ± {std:g}" for rate, std in sorted(rates, key=str)]
        rows.append(("leakage", ", ".join(words) + f", of the {_SIDES[summary.leakage[0].of]} records"))
    rows += [
        ("fits", f"{summary.fits:,} over {_count(len(summary.by_fold), 'fold')}"),
        ("levels", ", ".join(f"{level:.4g}" for level in summary.levels)),
        ("training sets", ", ".join(f"{size:,} records" for size in summary.sizes)),
        ("seeds", "; ".join(f"fold {f.fold}: {', '.join(map(str, f.seeds))}" for f in summary.by_fold)),
        ("outofcluster", summary.version),
    ]
    rows += [(name, version) for name, version in summary.versions.items() if name != "outofcluster"]
    return [(name, value) for name, value in rows if value]


def _percent(share: float) -> str:
    return f"{round(100 * share, 1):g} %"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"
