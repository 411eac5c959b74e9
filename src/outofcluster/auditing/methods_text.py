"""An audit as the paragraphs that a paper needs: what was done, what came out, and what limits it.

The order and the words follow TRIPOD+AI, the reporting guideline for prediction models: the data and how clusters were
handled, internal validation, the performance measures with their confidence intervals, and the limitations. The text is
made of a `Summary` alone, so whatever it says is a number or a choice of that audit. Its pieces are those of
:mod:`outofcluster.auditing.checklist` as well.
"""

from __future__ import annotations

from outofcluster._base.text import percentage
from outofcluster.auditing.summary import Summary
from outofcluster.inference.estimates import Estimate, Sensitivity, between, decimals, fixed

# Letters of a model's code up to which it is part of a sentence.
_LONGEST_CODE = 60
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
        "left_out": "",
    },
}


def methods_text(summary: Summary, *, n_records: int, n_clusters: int, left_out: bool) -> str:
    """Three short paragraphs for a paper: methods, results and limitations."""
    parts = {
        "Methods": _methods(summary, n_records, n_clusters, left_out=left_out),
        "Results": results(summary),
        "Limitations": limitations(summary),
    }
    return "\n\n".join(f"{title}. {' '.join(filter(None, sentences))}" for title, sentences in parts.items())


def _methods(summary: Summary, n_records: int, n_clusters: int, *, left_out: bool) -> list[str]:
    return [
        held_out(summary, n_records, n_clusters),
        model_and_code(summary),
        measures(summary),
        *correction(summary, left_out=left_out),
        about_intervals(summary),
    ]


def held_out(summary: Summary, n_records: int, n_clusters: int) -> str:
    """How the records were split."""
    folds = len(summary.by_fold)
    splits = f"{folds} folds" if folds > 1 else "one split"
    return (
        f"For internal validation, {n_records:,} records of {n_clusters:,} clusters were held out over {splits}; all "
        "records of a cluster were held out together."
    )


def model_and_code(summary: Summary) -> str:
    """The model by its name and as code; empty where it is not known."""
    is_short = summary.model != summary.estimator and len(summary.estimator) <= _LONGEST_CODE
    code = f", in code {summary.estimator}" if is_short else ""
    return f"The model was {summary.model}{code}." if summary.estimator else ""


def measures(summary: Summary) -> str:
    """What performance was measured by."""
    named = [one.metric.label for one in summary.metrics] or [summary.metric.label]
    return f"Performance was measured by the {_listed(named)}."


def correction(summary: Summary, *, left_out: bool) -> list[str]:
    """Which errors the clusters have, and how the performance was corrected for them."""
    words = _WORDS[summary.error_model]
    further = f" and to {words['left_out']}" if left_out and words["left_out"] else ""
    return [
        f"The clusters come from a clustering that makes errors: {words['errors']}. Such leakage makes "
        "cross-validation too optimistic.",
        f"We audited it with outofcluster {summary.version}, which extends the method of Barnes and Dubrawski (AISTATS "
        f"2019). It fitted {summary.fits:,} further models to {words['added']}{further}.",
        *(_pieces(summary) if summary.of_pieces else [_rate(summary, words["share"])]),
    ]


def about_intervals(summary: Summary) -> str:
    """The level of the intervals, and what they are about."""
    return (
        f"Confidence intervals have a level of {percentage(summary.confidence_level)}, are about {summary.estimand}, "
        f"and take {summary.units} as the independent units."
    )


def _pieces(summary: Summary) -> list[str]:
    """What was left out of training, what was looked up, and what the rate was where one was known."""
    if summary.corrected is None:
        return ["The leakage rate is not known, and performance is reported over a range of rates."]
    used = {source.source: source for source in summary.sources}
    sentences = list[str]()
    if summary.without_rate:
        sentences.append("No leakage rate was assumed.")
    elif summary.leakage is not None and summary.rate is not None:
        share = _WORDS["fragments"]["share"]
        sentences.append(f"The leakage rate, the share of {share}, was {_size_of_rate(summary)}.")
    if (seen := summary.seen) is not None and "seen" in used:
        number = f"{seen.pairs:,}" if seen.pairs else "no"
        sentences.append(
            f"A classifier of pairs of clusters, taught by the clusters themselves, named {number} pairs of a training "
            "and a held-out cluster that are likelier than not one entity."
        )
        if seen.pairs:
            sentences.append("The model was fitted again without these training clusters, and without as many others.")
        caught = percentage(seen.caught, 2)
        sentences.append(f"The classifier would have named {caught} of pieces that were cut off on purpose.")
    if (looked_up := summary.looked_up) is not None and "looked up" in used:
        drawn = "drawn with equal probabilities" if looked_up.even else "drawn with known, unequal probabilities"
        sentences.append(
            f"For {looked_up.clusters:,} clusters, {drawn}, it was looked up which other clusters are the same entity; "
            f"{looked_up.with_mates:,} had such mates. The model was fitted without these, and the difference was "
            "weighted by one over the probabilities (difference estimator)."
        )
        if looked_up.reviewer_error:
            sentences.append(f"The interval allows for {percentage(looked_up.reviewer_error, 2)} wrong answers.")
    if "imitated" in used:
        sentences.append("At the leakage rate, the gain from pieces that were cut off on purpose was added up.")
    if len(used) > 1:
        named = [f"{name} {percentage(source.weight, 2)}" for name, source in used.items()]
        sentences.append(
            f"The optimism is the mean of these estimates, weighted by their precision ({_listed(named)})."
        )
    return [*sentences, "The optimism was added to the cross-validated performance."]


def _rate(summary: Summary, share: str) -> str:
    if summary.leakage is None or summary.rate is None:
        return "The leakage rate is not known, and performance is reported over a range of rates."
    return (
        f"The leakage rate, the share of {share}, was {_size_of_rate(summary)}. "
        f"A curve ({summary.curve_method}) was fitted to their performance and read off where no leakage is left. The "
        "difference that this makes was added to the cross-validated performance."
    )


def _size_of_rate(summary: Summary) -> str:
    assert summary.leakage is not None
    assert summary.rate is not None
    std = max(leak.std or 0.0 for leak in summary.leakage)
    source = ", an estimate from the records themselves" if summary.rate_is_of_the_data else ""
    least = "at least " if any(leak.at_least for leak in summary.leakage) else ""
    certainty = f"with a standard error of {100 * std:.2g} percentage points" if std else "taken as known"
    return f"{least}{percentage(summary.rate, error=std)}{source}, {certainty}"


def results(summary: Summary) -> list[str]:
    """The estimates with their intervals, and the test."""
    sentences, level = [], percentage(summary.confidence_level)
    for one in summary.metrics or (summary,):
        known = [estimate for estimate in (one.naive, one.corrected) if estimate is not None]
        digits = _decimals(*known)
        naive, *corrected = (_with_interval(estimate, level, digits) for estimate in known)
        sentence = f"The cross-validated {one.metric.label} was {naive}"
        if one.optimism is not None:
            optimism = _with_interval(one.optimism, level, max(digits, _decimals(one.optimism)))
            least = "at least " if summary.at_least else ""
            amount = f"an optimism of {least}{optimism}" if any(one.optimism.interval) else "the same"
            sentence += f"; corrected for leakage it was {corrected[0]}, {amount}"
        sentences.append(f"{sentence}.")
    if summary.corrected is None and summary.sensitivity is not None:
        sentences.append(_over_rates(summary, summary.sensitivity))
    if summary.test is not None:
        sentences.append(str(summary.test["sentence"]))
    return sentences


def _decimals(*estimates: Estimate) -> int:
    """Decimals for print: one less than a table has, which leaves two digits of the narrowest interval's width."""
    return max(decimals(*estimates) - 1, 0)


def _over_rates(summary: Summary, sensitivity: Sensitivity) -> str:
    digits = _decimals(summary.naive)
    values = [
        f"{fixed(float(value), digits)} at {percentage(rate)}"
        for rate, value in zip(sensitivity.rates, sensitivity.values, strict=True)
        if any(abs(rate - wanted) < 1e-9 for wanted in (0.05, 0.1, 0.2, 0.3))
    ]
    return f"For other leakage rates the corrected {summary.metric.label} would be {_listed(values)}."


def limitations(summary: Summary) -> list[str]:
    """What limits the answer, warnings among the findings included."""
    sentences = []
    if not summary.of_pieces:
        sentences.append("Leaked records are assumed to be like the other records of their clusters.")
    elif summary.at_least and summary.optimism is not None:
        sentences.append("Much of the leakage may have been missed, so that the optimism is a lower bound.")
    elif any(source.source == "imitated" for source in summary.sources):
        sentences.append("Pieces that were cut off on purpose may differ from those that the linkage left behind.")
    elif summary.without_rate:
        sentences.append("Pieces that neither features nor people show are left in, so that more may leak.")
    if summary.corrected is None:
        sentences.append("The performance is not corrected for leakage.")
    known = summary.leakage is not None and not summary.without_rate
    if known and not any(leak.std for leak in summary.leakage or ()):
        sentences.append("The interval does not include the uncertainty of the leakage rate.")
    if summary.nothing_seen:
        sentences.append(summary.verdict)
    if summary.units != "clusters":
        sentences.append("There were too few clusters for an interval on new clusters, or records were asked for.")
    sentences += [finding.message for finding in summary.findings if finding.severity != "info"]
    return list(dict.fromkeys(sentences))


def _with_interval(estimate: Estimate, level: str, digits: int) -> str:
    return f"{fixed(estimate.value, digits)} ({level} CI {between(estimate, digits)})"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
