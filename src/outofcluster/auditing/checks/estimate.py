"""Checks of the leakage rate, against its source and against the records, and of the corrected value."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import chdtrc

from outofcluster._base.text import chance, percentage
from outofcluster.auditing.findings import Context, Remark, check, info, severe, warning
from outofcluster.errormodels.records import TOLD_APART, Records, rate_check
from outofcluster.leakage.rate import Leakage

# Standard errors, and the factor of the odds, by which probabilities of records may miss what records look like.
_UNLIKELY, _VERY_UNLIKELY, _WRONG_BY = 2.0, 3.0, 1.25
# How many times the share of misplaced records a rate may be before it counts whole entities.
_WHOLE_ENTITIES = 2.0
# Multiplier of the losses' noise beyond which an extrapolation counts as far.
_FAR = 6.0


# --- the leakage rate -------------------------------------------------------------------------------------


def _bound_by_records(context: Context) -> tuple[Leakage, float, float] | None:
    """The rate that the records show, its upper bound, and the AUC of their sides; None where they were not asked."""
    aucs = [fold.sides.auc for fold in context.samples.folds if fold.sides is not None]
    by_data = context.data_leakage
    if by_data is None or by_data.upper is None or not aucs:
        return None
    return by_data, by_data.upper, float(np.mean(aucs))


@check("sides-alike")
def sides_alike(context: Context) -> Iterator[Remark]:
    """Held-out and training records can hardly be told apart."""
    entities = [fold.entities for fold in context.samples.folds if fold.entities is not None]
    if entities and not any(each.identified for each in entities):
        yield info(
            f"These features cannot tell entities apart (AUC {float(np.mean([each.auc for each in entities])):.2f}), "
            "so that no training cluster looks like a piece of a held-out entity.",
            "Give identity=, what tells who is who and no model sees, or look up some clusters: review_list().",
        )
    elif (bound := _bound_by_records(context)) and bound[2] < TOLD_APART:
        by_data, upper, auc = bound
        yield Remark(
            "warning" if by_data in context.leakage else "info",
            "Held-out and training records can hardly be told apart (a classifier of the two has an AUC of "
            f"{auc:.2f}), so that the records themselves say little about the leakage rate (at most "
            f"{percentage(upper, 2)}).",
            "Where nothing tells the sides apart, leaked records teach a model little as well; else look up some "
            "records: Leakage.from_true_groups.",
        )


@check("rate-above-bound", needs_rate=True)
def rate_above_bound(context: Context) -> Iterator[Remark]:
    """The assumed leakage rate is above what the records themselves allow."""
    bound, assumed = _bound_by_records(context), context.largest_rate
    if bound is not None and assumed > bound[1]:
        yield warning(
            f"The data allow a leakage rate of at most {percentage(bound[1])} (95 % bound), and {percentage(assumed)} "
            f"was assumed{context.fold_of_largest_rate}.",
            "Check where the rate comes from and what it is a share of; leakage='data' takes the data's own.",
        )


@check("per-record-rates", needs_rate=True)
def per_record_rates(context: Context) -> Iterator[Remark]:
    """The records do not look as the probabilities that were given for them say."""
    rates, bound = rate_check(context.samples), _bound_by_records(context)
    if rates is None or bound is None:
        return
    remedy = "Calibrate them on records that were looked up; the corrected value rests on them."
    if abs(rates.z) >= _UNLIKELY and not 1 / _WRONG_BY < rates.factor < _WRONG_BY:
        level, times = ("high", 1 / rates.factor) if rates.z < 0 else ("low", rates.factor)
        yield Remark(
            "warning" if abs(rates.z) > _VERY_UNLIKELY else "info",
            f"The probabilities that were given for single records seem too {level}, by what the records look like: "
            f"their odds by a factor of about {times:.1f} ({abs(rates.z):.1f} standard errors).",
            remedy,
        )
        return
    by_data, _, auc = bound
    assumed = float(np.mean([leak.rate for leak in context.leakage]))
    spread = float(np.hypot(by_data.std or 0.0, max(leak.std or 0.0 for leak in context.leakage)))
    differs = spread > 0 and abs(by_data.rate - assumed) >= _VERY_UNLIKELY * spread
    # The mean of probabilities that know neither features nor target says nothing about the records.
    if differs and rates.known != 0 and auc >= TOLD_APART:
        yield info(
            f"The probabilities that were given for single records have a mean of {percentage(assumed)}, and the "
            f"records themselves show a leakage rate of {percentage(by_data.rate)}.",
            remedy,
        )


@check("rate-is-a-lower-bound")
def rate_is_a_lower_bound(context: Context) -> Iterator[Remark]:
    """The leakage rate is a lower bound, so that the correction may be too small."""
    # Where no rate was given, what is missed is the subject of another finding.
    if context.without_rate:
        return
    if bounds := [leak.rate for leak in context.leakage if leak.at_least]:
        yield warning(
            f"The leakage rate of {percentage(max(bounds))} is a lower bound, since part of the leakage could not be "
            f"seen: the corrected {context.metric.noun} is still too optimistic, and the interval does not include by "
            "how much.",
            "Give blocking_recall= where the rate comes from pairs, or look up the mates of some records: "
            "Leakage.from_true_groups.",
        )


@check("linkage-facts")
def linkage_facts(context: Context) -> Iterator[Remark]:
    """What the rate supposes about the linkage that it comes from."""
    facts = next((leak.facts for leak in context.leakage if leak.facts is not None), None)
    if facts is None or not str(facts):
        return
    if not (facts.calibrated and facts.reviewed) and (facts.blocking is None or not facts.blocking.at_most):
        remedy = "Review some pairs that the tool listed, and give reviewed=."
    elif facts.blocking is not None and facts.blocking.source == "reviewed":
        remedy = "Such pairs must have been drawn by something that the linkage does not look at."
    else:
        remedy = "Draw pairs by something that the linkage does not look at, and give blocking_recall='reviewed'."
    yield Remark("info" if facts.calibrated else "warning", str(facts), remedy)


@check("rate-counts-whole-entities", only="records")
def rate_counts_whole_entities(context: Context) -> Iterator[Remark]:
    """The leakage rate counts whole entities of which single records are misplaced."""
    audited = [(leak.rate, leak.linkage_errors.misplaced) for leak in context.leakage if leak.linkage_errors]
    # Entities of two records that are torn apart have exactly twice the rate.
    if wrong := [(rate, misplaced) for rate, misplaced in audited if rate > _WHOLE_ENTITIES * misplaced + 1e-9]:
        rate, misplaced = max(wrong)
        yield warning(
            f"The leakage rate of {percentage(rate)} counts whole entities once one of their records is on the other "
            f"side. By the audited records only {percentage(misplaced)} of the training records are misplaced, so that "
            "the correction is too large.",
            f"Give leakage={misplaced:.3g}, which is linkage_errors.misplaced, or use error_model='fragments' where "
            "linkage leaves whole pieces behind.",
        )


# --- the corrected value ----------------------------------------------------------------------------------

# What a constant prediction has by metrics for which that does not depend on the targets.
_CONSTANT = dict.fromkeys(("roc_auc", "roc_auc_ovr", "roc_auc_ovr_weighted", "roc_auc_ovo", "concordance"), 0.5)
_CONSTANT |= dict.fromkeys(("r2", "explained_variance", "d2_absolute_error_score", "d2_log_loss_score"), 0.0)
_CONSTANT |= dict.fromkeys(("d2_brier_score", "matthews_corrcoef"), 0.0)
# Scores of scikit-learn that are means of losses of this package.
_LOSSES = {
    "neg_brier_score": "brier",
    "neg_log_loss": "log_loss",
    "neg_mean_squared_error": "squared_error",
    "neg_mean_absolute_error": "absolute_error",
}


def _of_constant(context: Context) -> float | None:
    """The value of the metric for the best constant prediction; None where it is not known."""
    name, losses = context.metric.name, context.table.constant
    if name == "accuracy" and "zero_one" in losses:
        return 1 - losses["zero_one"]
    if name == "neg_root_mean_squared_error" and "squared_error" in losses:
        return float(np.sqrt(losses["squared_error"]))
    if name == "balanced_accuracy" and context.table.n_classes:
        return 1 / context.table.n_classes
    return _CONSTANT.get(name, losses.get(_LOSSES.get(name, name)))


@check("far-extrapolation", needs_rate=True)
def far_extrapolation(context: Context) -> Iterator[Remark]:
    """The leakage rate is so large that noise is multiplied."""
    # Without a rate that is known there is nothing to extrapolate from.
    if context.without_rate or context.solution.nothing_seen:
        return
    multiplier, assumed = context.solution.correction.multiplier, context.largest_rate
    if multiplier > _FAR or assumed > Records.largest_rate:
        large = f" from a leakage rate of {percentage(assumed, 2)}{context.fold_of_largest_rate}"
        most = large if assumed > Records.largest_rate else ""
        yield warning(
            f"The extrapolation{most} to no leakage multiplies the noise of the losses by up to {multiplier:.1f}.",
            "Lower the leakage by better linkage, or read the interval before the value.",
        )


@check("out-of-range", needs_rate=True)
def out_of_range(context: Context) -> Iterator[Remark]:
    """The estimate lies outside what the loss can be."""
    (low, high), value = context.metric.range, context.corrected.value
    if not low <= value <= high:
        yield severe(
            f"The corrected {context.metric.noun}, {value:.4g}, lies outside [{low:g}, {high:g}].",
            "The leakage rate or the curve method does not fit these losses.",
        )


@check("worse-than-guessing", needs_rate=True)
def worse_than_guessing(context: Context) -> Iterator[Remark]:
    """The corrected value is worse than that of a constant prediction."""
    metric, guess = context.metric, _of_constant(context)
    if guess is None:
        return
    # As losses, of which a larger one is worse.
    naive, corrected, at_most = context.solution.naive.value, metric.shown(context.corrected.value), metric.shown(guess)
    if corrected > at_most + 1e-9 * max(abs(at_most), 1.0):
        already = naive > at_most
        yield Remark(
            "info" if already else "warning",
            f"The corrected {metric.noun}, {context.corrected.value:.4g}, is worse than that of a constant prediction, "
            f"{guess:.4g}" + (", and so is the cross-validated one." if already else "."),
            "The model tells nothing about these targets."
            if already
            else "Either the model does no more than to recognise clusters, or the correction is too large.",
        )


@check("lack-of-fit", needs_rate=True)
def lack_of_fit(context: Context) -> Iterator[Remark]:
    """The curve misses the losses by more than their noise."""
    pooled, curve = context.solution.pooled, context.curve
    spare = 0 if curve.rank_ is None else len(pooled.injected) - curve.rank_
    if spare < 1 or not np.isfinite(pooled.monte_carlo).all() or pooled.monte_carlo.min() <= 0:
        return
    largest = float(np.abs(curve.residual_).max())
    pvalue = float(chdtrc(spare, float((curve.residual_**2 / pooled.monte_carlo).sum())))
    if pvalue < 0.01:
        matters = largest * context.solution.correction.multiplier > context.corrected.se_data
        yield Remark(
            "warning" if matters else "info",
            f"The curve misses the losses by up to {largest:.2g}, more than their noise explains "
            f"({chance(pvalue)})" + ("." if matters else ", but little against the interval."),
            "Try another curve, such as PolynomialCurve(3) or CompletelyMonotoneCurve().",
        )


@check("curve-and-unmixing", needs_rate=True)
def curve_and_unmixing(context: Context) -> Iterator[Remark]:
    """The curve above the leakage rate and the losses below it disagree."""
    error, below = context.corrected.se_data, getattr(context.curve, "unmixing_", None)
    if below is not None and abs(below.optimism - below.optimism_above) > error:
        yield info(
            f"The losses below the leakage rate put the optimism at {below.optimism:.3g}, the curve above it at "
            f"{below.optimism_above:.3g}; the first counts {percentage(below.mass_probability, 2)}.",
            "The curve cannot see a fall below the leakage rate; look at range for what needs no curve.",
        )


@check("exact-rate")
def exact_rate(context: Context) -> Iterator[Remark]:
    """The leakage rate was given without an uncertainty."""
    if not context.without_rate and any(leak.rate > 0 and leak.std is None for leak in context.leakage):
        yield info(
            "The leakage rate is taken to be exact; the interval does not include that it may be wrong.",
            "Give Leakage(rate, std=…), or look at sensitivity().",
        )


@check("leaked-like-the-rest", only="records")
def leaked_like_the_rest(context: Context) -> Iterator[Remark]:
    """Leaked records are taken to be like the rest of their clusters."""
    if any(leak.rate > 0 for leak in context.leakage):
        yield info(
            "Leaked records are taken to be like the rest of their clusters, which these data cannot show.",
            "Compare leaked and other records in an audited sample, if there is one.",
        )
