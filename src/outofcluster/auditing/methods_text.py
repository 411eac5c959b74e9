"""An audit as the paragraphs that a paper needs: what was done, what came out, and what limits it.

The order and the words follow TRIPOD+AI, the reporting guideline for prediction models: the data and how clusters were
handled, internal validation, the performance measures with their confidence intervals, and the limitations. The text is
made of a `Summary` alone, so whatever it says is a number or a choice of that audit.
"""

from __future__ import annotations

from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, Sensitivity, between, decimals, fixed, percent

# The error models in words: their errors, what the rate is a share of, and the training sets of further models.
_WORDS = {
    "records": {
        "errors": "single records of a held-out cluster can be among the training records",
        "share": "training records that belong to held-out clusters",
        "added": "training sets to which records of held-out clusters were added on purpose",
        "left_out": "training sets without the records that look leaked",
    },
    "fragments": {
        "errors": "a cluster can be split, so that a whole piece of it is among the training records",
        "share": "held-out records whose cluster also has records in training",
        "added": "training sets to which pieces of held-out clusters were added on purpose",
        "left_out": "training sets without the clusters that are probably pieces of held-out ones",
    },
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
    folds, words = len(summary.by_fold), _WORDS[summary.error_model]
    splits = f"{folds} folds" if folds > 1 else "one split"
    code = "" if summary.model == summary.estimator else f", in code {summary.estimator}"
    further = f" and to {words['left_out']}" if left_out else ""
    named = [one.metric.label for one in summary.metrics] or [summary.metric.label]
    return [
        f"For internal validation, {n_records:,} records of {n_clusters:,} clusters were held out over {splits}; all "
        "records of a cluster were held out together.",
        f"The model was {summary.model}{code}." if summary.estimator else "",
        f"Performance was measured by the {_listed(named)}.",
        f"The clusters come from a clustering that makes errors: {words['errors']}. Such leakage makes "
        "cross-validation too optimistic.",
        f"We audited it with outofcluster {summary.version}, which extends the method of Barnes and Dubrawski (AISTATS "
        f"2019). It fitted {summary.fits:,} further models to {words['added']}{further}.",
        _rate(summary, words["share"]),
        f"Confidence intervals have a level of {percent(summary.confidence_level)}, are about {summary.estimand}, and "
        f"take {summary.units} as the independent units.",
    ]


def _rate(summary: Summary, share: str) -> str:
    if summary.leakage is None or summary.rate is None:
        return "The leakage rate is not known, and performance is reported over a range of rates."
    std = max(leak.std or 0.0 for leak in summary.leakage)
    source = ", an estimate from the records themselves" if summary.rate_is_of_the_data else ""
    least = "at least " if any(leak.at_least for leak in summary.leakage) else ""
    certainty = f"with a standard error of {100 * std:.2g} percentage points" if std else "taken as known"
    return (
        f"The leakage rate, the share of {share}, was {least}{100 * summary.rate:.3g} %{source}, {certainty}. "
        f"A curve ({summary.curve_method}) was fitted to their performance and read off where no leakage is left. The "
        "difference that this makes was added to the cross-validated performance."
    )


def _results(summary: Summary) -> list[str]:
    sentences, level = [], percent(summary.confidence_level)
    for one in summary.metrics or (summary,):
        known = [estimate for estimate in (one.naive, one.corrected) if estimate is not None]
        digits = decimals(*known)
        naive, *corrected = (_with_interval(estimate, level, digits) for estimate in known)
        sentence = f"The cross-validated {one.metric.label} was {naive}"
        if one.optimism is not None:
            optimism = _with_interval(one.optimism, level, digits)
            sentence += f"; corrected for leakage it was {corrected[0]}, an optimism of {optimism}"
        sentences.append(f"{sentence}.")
    if summary.corrected is None and summary.sensitivity is not None:
        sentences.append(_over_rates(summary, summary.sensitivity))
    if summary.test is not None:
        sentences.append(str(summary.test["sentence"]))
    return sentences


def _over_rates(summary: Summary, sensitivity: Sensitivity) -> str:
    digits = decimals(summary.naive)
    values = [
        f"{fixed(float(value), digits)} at {100 * rate:.3g} %"
        for rate, value in zip(sensitivity.rates, sensitivity.values, strict=True)
        if any(abs(rate - wanted) < 1e-9 for wanted in (0.05, 0.1, 0.2, 0.3))
    ]
    return f"For other leakage rates the corrected {summary.metric.label} would be {_listed(values)}."


def _limitations(summary: Summary) -> list[str]:
    sentences = ["Leaked records are assumed to be like the other records of their clusters."]
    if summary.leakage is not None and not any(leak.std for leak in summary.leakage):
        sentences.append("The interval does not include the uncertainty of the leakage rate.")
    if summary.units != "clusters":
        sentences.append("There were too few clusters for an interval on new clusters, or records were asked for.")
    sentences += [finding.message for finding in summary.findings if finding.severity != "info"]
    return list(dict.fromkeys(sentences))


def _with_interval(estimate: Estimate, level: str, digits: int) -> str:
    return f"{fixed(estimate.value, digits)} ({level} CI {between(estimate, digits)})"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
