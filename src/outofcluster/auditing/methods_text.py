"""An audit as the paragraphs that a paper needs: what was done, what came out, and what limits it.

The order and the words follow TRIPOD+AI, the reporting guideline for prediction models: the data and how clusters were
handled, internal validation, the performance measures with their confidence intervals, and the limitations. The text is
made of a `Summary` alone, so whatever it says is a number or a choice of that audit.
"""

from __future__ import annotations

from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, between, decimals, fixed, percent

_ERRORS = {
    "records": "single records of a held-out cluster can be among the training records",
    "fragments": "a cluster can be split, so that a whole piece of it is among the training records",
}
_SHARE = {
    "records": "training records that belong to held-out clusters",
    "fragments": "held-out records whose cluster also has records in training",
}
_ADDED = {
    "records": "training sets to which records of held-out clusters were added on purpose",
    "fragments": "training sets to which pieces of held-out clusters were added on purpose",
}
_LEFT_OUT = {
    "records": "training sets without the records that look leaked",
    "fragments": "training sets without the clusters that are probably pieces of held-out ones",
}


def methods_text(summary: Summary, *, n_records: int, n_clusters: int, left_out: bool) -> str:
    """Three short paragraphs for a paper: methods, results and limitations."""
    parts = {
        "Methods": _methods(summary, n_records, n_clusters, left_out=left_out),
        "Results": _results(summary),
        "Limitations": _limitations(summary),
    }
    return "\n\n".join(f"{title}. {' '.join(sentences)}" for title, sentences in parts.items())


def _methods(summary: Summary, n_records: int, n_clusters: int, *, left_out: bool) -> list[str]:
    folds, model = len(summary.by_fold), summary.error_model
    splits = f"{folds} folds" if folds > 1 else "one split"
    validated = (
        f"For internal validation, {n_records:,} records of {n_clusters:,} clusters were held out over {splits}; all "
        "records of a cluster were held out together."
    )
    code = "" if summary.model == summary.estimator else f", in code {summary.estimator}"
    fitted = f"The model was {summary.model}{code}." if summary.estimator else ""
    named = [one.metric.label for one in summary.metrics] or [summary.metric.label]
    measures = f"Performance was measured by the {_listed(named)}."
    why = (
        f"The clusters come from a clustering that makes errors: {_ERRORS[model]}. Such leakage makes cross-validation "
        "too optimistic."
    )
    what = _LEFT_OUT[model] if left_out else ""
    audited = (
        f"We audited it with outofcluster {summary.version}, which extends the method of Barnes and Dubrawski (AISTATS "
        f"2019). It fitted {summary.fits:,} further models to {_ADDED[model]}{f' and to {what}' if what else ''}."
    )
    return [validated, fitted, measures, why, audited, _rate(summary), _intervals(summary)]


def _rate(summary: Summary) -> str:
    if summary.leakage is None or summary.rate is None:
        return "The leakage rate is not known, and performance is reported over a range of rates."
    std = max(leak.std or 0.0 for leak in summary.leakage)
    source = (
        ", an estimate from the records themselves"
        if all(leak == summary.data_leakage for leak in summary.leakage)
        else ""
    )
    least = "at least " if any(leak.at_least for leak in summary.leakage) else ""
    certainty = f"with a standard error of {_points(std)}" if std else "taken as known"
    return (
        f"The leakage rate, the share of {_SHARE[summary.error_model]}, was {least}{_share(summary.rate)}{source}, "
        f"{certainty}. "
        f"A curve ({summary.curve_method}) was fitted to their performance and read off where no leakage is left. The "
        "difference that this makes was added to the cross-validated performance."
    )


def _intervals(summary: Summary) -> str:
    units = "clusters" if summary.units == "clusters" else "records"
    return (
        f"Confidence intervals have a level of {percent(summary.confidence_level)}, are about {summary.estimand}, and "
        f"take {units} as the independent units."
    )


def _results(summary: Summary) -> list[str]:
    sentences = []
    several = [(one.metric.label, one.naive, one.corrected, one.optimism) for one in summary.metrics]
    for label, naive, corrected, optimism in several or [
        (summary.metric.label, summary.naive, summary.corrected, summary.optimism)
    ]:
        level = percent(summary.confidence_level)
        if corrected is None or optimism is None:
            sentences.append(f"The cross-validated {label} was {_shown(naive, level)}.")
            continue
        digits = decimals(naive, corrected)
        sentences.append(
            f"The cross-validated {label} was {_shown(naive, level, digits)}; corrected for leakage it was "
            f"{_shown(corrected, level, digits)}, an optimism of {_shown(optimism, level, digits)}."
        )
    if summary.corrected is None and summary.sensitivity is not None:
        sentences.append(_over_rates(summary))
    if summary.test is not None:
        sentences.append(str(summary.test["sentence"]))
    return sentences


def _over_rates(summary: Summary) -> str:
    assert summary.sensitivity is not None
    digits = decimals(summary.naive)
    told = [
        f"{fixed(float(value), digits)} at {_share(float(rate))}"
        for rate, value in zip(summary.sensitivity.rates, summary.sensitivity.values, strict=True)
        if any(abs(rate - wanted) < 1e-9 for wanted in (0.05, 0.1, 0.2, 0.3))
    ]
    return f"For other leakage rates the corrected {summary.metric.label} would be {_listed(told)}."


def _limitations(summary: Summary) -> list[str]:
    sentences = ["Leaked records are assumed to be like the other records of their clusters."]
    if summary.leakage is not None and not any(leak.std for leak in summary.leakage):
        sentences.append("The interval does not include the uncertainty of the leakage rate.")
    if summary.units == "records":
        sentences.append("There were too few clusters for an interval on new clusters, or records were asked for.")
    sentences += [finding.message for finding in summary.findings if finding.severity != "info"]
    return list(dict.fromkeys(sentences))


def _shown(estimate: Estimate, level: str, digits: int | None = None) -> str:
    digits = decimals(estimate) if digits is None else digits
    return f"{fixed(estimate.value, digits)} ({level} CI {between(estimate, digits)})"


def _share(rate: float) -> str:
    return f"{100 * rate:.3g} %"


def _points(std: float) -> str:
    return f"{100 * std:.2g} percentage points"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
