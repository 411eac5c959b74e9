"""The checks of an audit: every pitfall that the choices, the samples or the solution can show becomes a finding.

All of them follow from the samples and the choices, so that a result that was read from a file, or that was given
another rate or other units, has its own findings. What no data can show (leaked records may differ from the rest of
their clusters, a rate may be wrong) is mentioned with the estimate that depends on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtrc

from outofcluster.auditing.choices import LARGEST_RATE, TOLD_APART, enough_clusters, looks_linked
from outofcluster.auditing.findings import Finding
from outofcluster.curves.base import Curve
from outofcluster.curves.shape import ShapeCheck, diagnose_points
from outofcluster.evidence.suspects import RateCheck
from outofcluster.inference.intervals import Uncertainty, uncertainty
from outofcluster.inference.optimism import Optimism
from outofcluster.inference.pooled import Pooled
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import AuditSamples

_LOW_LEVEL = 0.25
"""Largest level below which a curve cannot be followed; five folds of equal size reach 0.4."""
_OF_METRICS = {"Decreasing": "Increasing", " rises ": " falls ", "Convex": "Concave", " bulges ": " sags "}
"""Words for the shape of a loss, and those for a metric of which a greater value is better."""
_UNBALANCED = 4
"""How many times the records of the smallest fold the largest one holds, where folds count as unbalanced."""
_UNLIKELY, _VERY_UNLIKELY, _WRONG_BY = 2.0, 3.0, 1.25
"""Standard errors, and the factor of the odds, by which probabilities of records may miss what records look like."""
_WHOLE_ENTITIES = 2.0
"""How many times the share of misplaced records a rate may be before it counts whole entities."""
_FAR = 6.0
"""Multiplier of the losses' noise beyond which an extrapolation counts as far."""


def look_at_choices(samples: AuditSamples, *, reason: str, units: str, units_asked: str) -> list[Finding]:
    """What to know about the error model and the units."""
    model, findings = samples.error_model, list[Finding]()
    if reason:
        findings.append(
            Finding(
                "error-model",
                "info",
                f"Errors are taken to be those of {model}: {reason}.",
                "Check that this is how your clustering errs; if it is not, give error_model='records' or 'fragments'.",
            )
        )
    if model == "records" and looks_linked([fold.clusters for fold in samples.folds]):
        findings.append(
            Finding(
                "fragments-likely",
                "warning",
                "Errors are taken to be those of single records, but the validation clusters are many and small: where "
                "linkage splits an entity, whole pieces leak, and the records model corrects too much.",
                "Use error_model='fragments' with the rate as a share of the validation records.",
            )
        )
    return findings + _few_clusters(samples, units, units_asked) + _sizes(samples)


def _sizes(samples: AuditSamples) -> list[Finding]:
    """A cluster that is too large, folds of very different sizes, and too few records that are left to score."""
    findings, observed, held_out = list[Finding](), samples.observed, samples.fold_sizes
    if observed is not None and observed.is_giant:
        findings.append(
            Finding(
                "giant-cluster",
                "warning",
                f"One of the {observed.n_clusters} clusters holds {observed.largest} of the {observed.n_records} "
                f"records ({observed.share:.0%}), so that it is alone on one side of every fold.",
                "A linkage that chains different entities together needs a higher threshold; look at sweep().",
            )
        )
    if not held_out:
        return findings
    scored, total = sum(fold.n_validation for fold in samples.folds), sum(held_out)
    if max(held_out) >= _UNBALANCED * min(held_out):
        dominates = max(held_out) > total / 2
        findings.append(
            Finding(
                "unbalanced-folds",
                "warning" if dominates else "info",
                f"The folds hold out between {min(held_out)} and {max(held_out)} records"
                + (f", and one of them {max(held_out) / total:.0%} of all." if dominates else "."),
                "Use fewer folds, smaller clusters, or a splitter that balances them, such as GroupKFold.",
            )
        )
    if samples.left_out and scored < total / 2:
        findings.append(
            Finding(
                "mostly-left-out",
                "severe",
                f"The folds that were left out hold {total - scored} of the {total} records, so that the "
                f"{samples.metric.noun} is that of the other {scored} only.",
                "Repair what fold-left-out names, often one giant cluster or a class that is missing.",
            )
        )
    return findings


def _few_clusters(samples: AuditSamples, units: str, units_asked: str) -> list[Finding]:
    held_out = [fold.clusters for fold in samples.folds]
    fewest = min(len(np.unique(clusters)) for clusters in held_out)
    total = len(np.unique(np.concatenate(held_out)))
    enough = enough_clusters(held_out, [fold.n_train_clusters for fold in samples.folds])
    count = f"There are {total} held-out clusters ({fewest} in a fold)"
    if units == "clusters":
        return (
            []
            if enough
            else [
                Finding(
                    "few-clusters",
                    "warning",
                    f"{count}: an interval for new clusters of the population is itself uncertain with so few.",
                    "More clusters are needed, or units='records' for these clusters only.",
                )
            ]
        )
    return [
        Finding(
            "few-clusters",
            "warning" if units_asked == "auto" else "info",
            f"{'The' if enough else f'{count}: the'} interval is for these clusters only, and does not cover how "
            "clusters of the population differ.",
            "Use units='clusters' for that." if enough else "More clusters are needed for that.",
        )
    ]


def look_at_samples(pooled: Pooled, *, has_rate: bool) -> list[Finding]:
    """What the samples show: levels, missing folds, redraws, and shapes of the losses that noise does not explain."""
    samples = pooled.samples
    first, findings = samples.folds[0].samples, list[Finding]()
    largest = float(first.injected.max())
    if samples.error_model == "records" and largest < _LOW_LEVEL:
        findings.append(
            Finding(
                "small-validation",
                "warning",
                f"The validation folds are small against n_train = {first.size}: levels go up to {largest:.2g} only.",
                "Use fewer folds or a smaller n_train.",
            )
        )
    if not has_rate:
        findings.append(
            Finding(
                "no-rate",
                "info",
                f"Without a leakage rate there is no corrected {samples.metric.noun}.",
                "Look at sensitivity().",
            )
        )
    findings += [
        Finding("fold-left-out", "severe", f"Fold {index} could not be audited: {why}", "")
        for index, why in samples.left_out.items()
    ]
    if samples.effect is None:
        message = f"The test for a cluster effect could not be run: {samples.effect_problem}"
        findings.append(Finding("no-test", "info", message, ""))
    return findings + _redraws(samples) + _shape(pooled)


def _redraws(samples: AuditSamples) -> list[Finding]:
    redraws = sum(int(fold.samples.redraws.sum()) for fold in samples.folds)
    fits = sum(fold.samples.n_fits for fold in samples.folds)
    if redraws <= 0.01 * fits:
        return []
    return [
        Finding(
            "single-class",
            "warning",
            f"{redraws} resamples held a single class, left nothing to score or left the metric without a value, and "
            f"were drawn again ({fits} fits).",
            "Raise n_train; the losses are those of resamples with every class.",
        )
    ]


def _shape(pooled: Pooled) -> list[Finding]:
    """Losses that rise with leakage, or are not convex in it, by more than noise."""
    metric = pooled.samples.metric
    better = "raise" if metric.greater_is_better else "lower"
    findings, errors = list[Finding](), np.sqrt(pooled.monte_carlo)
    if len(pooled.injected) < 3 or not np.isfinite(errors).all() or errors.min() <= 0:
        return findings
    diagnosis = diagnose_points(pooled.injected, pooled.means, errors, alpha=0.01)
    if diagnosis.decreasing.exceeds_noise:
        # A rise beyond the noise of the fits may be within that of the data: it counts where it matters to the answer.
        rise = float((pooled.means - np.minimum.accumulate(pooled.means)).max())
        spread = float(np.sqrt(uncertainty(pooled, pooled.no_correction()).data))
        findings.append(
            Finding(
                "not-decreasing",
                "warning" if rise > spread / 2 else "info",
                _own_words(diagnosis.decreasing, metric),
                f"The learner is not optimal in its class, so that more leakage need not {better} the "
                f"{metric.noun}; the extrapolation has no theorem behind it.",
            )
        )
    if diagnosis.convex.exceeds_noise:
        findings.append(
            Finding(
                "not-convex",
                "info",
                _own_words(diagnosis.convex, metric),
                "Methods that assume convexity do not fit here.",
            )
        )
    return findings


def _own_words(check: ShapeCheck, metric: MetricFacts) -> str:
    """What a check of the losses' shape says about the metric itself: where the loss rises, an AUC falls."""
    words = str(check)
    if metric.greater_is_better:
        for of_loss, of_metric in _OF_METRICS.items():
            words = words.replace(of_loss, of_metric)
    return words


def look_at_rate(leakage: Sequence[Leakage], error_model: str, metric: MetricFacts) -> list[Finding]:
    """What the source of the leakage rate says about it."""
    findings = list[Finding]()
    if bounds := [leak.rate for leak in leakage if leak.at_least]:
        findings.append(
            Finding(
                "rate-is-a-lower-bound",
                "warning",
                f"The leakage rate of {max(bounds):.1%} is a lower bound, since part of the leakage could not be seen: "
                f"the corrected {metric.noun} is still too optimistic, and the interval does not include by how much.",
                "Give blocking_recall= where the rate comes from pairs, or look up the mates of some records: "
                "Leakage.from_true_groups.",
            )
        )
    if error_model == "records":
        findings += _whole_entities(leakage)
    return findings


def _whole_entities(leakage: Sequence[Leakage]) -> list[Finding]:
    """Whether a rate of audited records counts whole entities, of which only single records are misplaced."""
    counted = [(leak.rate, leak.linkage_errors.misplaced) for leak in leakage if leak.linkage_errors is not None]
    # Entities of two records that are torn apart have exactly twice the rate.
    wrong = [(rate, misplaced) for rate, misplaced in counted if rate > _WHOLE_ENTITIES * misplaced + 1e-9]
    if not wrong:
        return []
    rate, misplaced = max(wrong)
    return [
        Finding(
            "rate-counts-whole-entities",
            "warning",
            f"The leakage rate of {rate:.1%} counts whole entities once one of their records is on the other side. "
            f"By the audited records only {misplaced:.2%} of the training records are misplaced, so that the "
            "correction is too large.",
            f"Give leakage={misplaced:.3g}, which is linkage_errors.misplaced, or use error_model='fragments' where "
            "linkage leaves whole pieces behind.",
        )
    ]


def look_at_sides(samples: AuditSamples, by_data: Leakage | None, leakage: Sequence[Leakage] | None) -> list[Finding]:
    """What the records of both sides say about the leakage rate."""
    entities = [fold.entities for fold in samples.folds if fold.entities is not None]
    if entities and not any(own.identified for own in entities):
        return [
            Finding(
                "sides-alike",
                "info",
                f"These features cannot tell entities apart (AUC {float(np.mean([own.auc for own in entities])):.2f}), "
                "so that no pieces of held-out entities are suspected, and no models are fitted without them.",
                "The correction rests on imitated cuts alone.",
            )
        ]
    facts = [fold.sides for fold in samples.folds if fold.sides is not None]
    if by_data is None or not facts or by_data.upper is None:
        return []
    findings, auc = list[Finding](), float(np.mean([own.auc for own in facts]))
    if auc < TOLD_APART:
        findings.append(
            Finding(
                "sides-alike",
                "warning" if leakage is not None and by_data in leakage else "info",
                "Held-out and training records can hardly be told apart (a classifier of the two has an AUC of "
                f"{auc:.2f}), so that the records themselves say little about the leakage rate (at most "
                f"{by_data.upper:.0%}).",
                "Where nothing tells the sides apart, leaked records teach a model little as well; else look up some "
                "records: Leakage.from_true_groups.",
            )
        )
    assumed = None if leakage is None else max(leak.rate for leak in leakage)
    if assumed is not None and assumed > by_data.upper:
        findings.append(
            Finding(
                "rate-above-bound",
                "warning",
                f"The data allow a leakage rate of at most {by_data.upper:.1%} (95 % bound), and {assumed:.1%} was "
                f"assumed{_in_which_fold(samples, leakage)}.",
                "Check where the rate comes from and what it is a share of; leakage='data' takes the data's own.",
            )
        )
    if samples.rate_check is not None and assumed is not None:
        findings += _record_rates(samples.rate_check) or _mean_of_rates(samples.rate_check, by_data, leakage, auc)
    return findings


def _in_which_fold(samples: AuditSamples, leakage: Sequence[Leakage] | None) -> str:
    """Where the largest rate is assumed, and the mean one, as the table has it; empty where all folds have the same."""
    rates = [leak.rate for leak in leakage or ()]
    if len(set(rates)) < 2:
        return ""
    # The mean is that of a summary: over the records that the folds score.
    mean = float(np.average(rates, weights=[fold.n_validation for fold in samples.folds]))
    return f" in fold {samples.folds[int(np.argmax(rates))].index} ({mean:.1%} on average)"


def _record_rates(check: RateCheck) -> list[Finding]:
    """Whether the records look as the probabilities that were given for them say."""
    if abs(check.z) < _UNLIKELY or 1 / _WRONG_BY < check.factor < _WRONG_BY:
        return []
    too_high = check.z < 0
    times = 1 / check.factor if too_high else check.factor
    return [
        Finding(
            "per-record-rates",
            "warning" if abs(check.z) > _VERY_UNLIKELY else "info",
            f"The probabilities that were given for single records seem too {'high' if too_high else 'low'}, by what "
            f"the records look like: their odds by a factor of about {times:.1f} ({abs(check.z):.1f} standard errors).",
            "Calibrate them on records that were looked up; the corrected value rests on them.",
        )
    ]


def _mean_of_rates(check: RateCheck, by_data: Leakage, leakage: Sequence[Leakage] | None, auc: float) -> list[Finding]:
    """Whether probabilities that know features and target have a mean that the data contradict."""
    if leakage is None or check.known == 0 or auc < TOLD_APART:
        return []
    assumed = float(np.mean([leak.rate for leak in leakage]))
    spread = float(np.hypot(by_data.std or 0.0, max(leak.std or 0.0 for leak in leakage)))
    if spread == 0 or abs(by_data.rate - assumed) < _VERY_UNLIKELY * spread:
        return []
    return [
        Finding(
            "per-record-rates",
            "info",
            f"The probabilities that were given for single records have a mean of {assumed:.1%}, and the records "
            f"themselves show a leakage rate of {by_data.rate:.1%}.",
            "Calibrate them on records that were looked up; the corrected value rests on them.",
        )
    ]


def look_at_estimate(
    pooled: Pooled,
    optimism: Optimism,
    curve: Curve,
    source: Uncertainty,
    *,
    value: float,
    se_data: float,
    leakage: Sequence[Leakage],
) -> list[Finding]:
    """What the solution shows, and what it depends on."""
    findings = list[Finding]()
    assumed = max(leak.rate for leak in leakage)
    if optimism.multiplier > _FAR or assumed > LARGEST_RATE:
        most = (
            f" from a leakage rate of {assumed:.0%}{_in_which_fold(pooled.samples, leakage)}"
            if assumed > LARGEST_RATE
            else ""
        )
        findings.append(
            Finding(
                "far-extrapolation",
                "warning",
                f"The extrapolation{most} to no leakage multiplies the noise of the losses by up to "
                f"{optimism.multiplier:.1f}.",
                "Lower the leakage by better linkage, or read the interval before the value.",
            )
        )
    metric = pooled.samples.metric
    low, high = metric.range
    if not low <= value <= high:
        findings.append(
            Finding(
                "out-of-range",
                "severe",
                f"The corrected {metric.noun}, {value:.4g}, lies outside [{low:g}, {high:g}].",
                "The leakage rate or the curve method does not fit these losses.",
            )
        )
    if not source.reliable:
        findings.append(
            Finding(
                "data-variance",
                "warning",
                "The fits are too few to tell the data's variance from 0; the interval is wider than need be.",
                "Raise n_fits.",
            )
        )
    findings += _assumed_cuts(pooled, optimism, value, se_data)
    findings += _lack_of_fit(pooled, optimism, curve, se_data) + _disagreement(optimism, curve, se_data)
    if any(leak.rate > 0 and leak.std is None for leak in leakage):
        findings.append(
            Finding(
                "exact-rate",
                "info",
                "The leakage rate is taken to be exact; the interval does not include that it may be wrong.",
                "Give Leakage(rate, std=…), or look at sensitivity().",
            )
        )
    if any(leak.rate > 0 for leak in leakage):
        findings.append(
            Finding(
                "leaked-like-the-rest",
                "info",
                "Leaked records are taken to be like the rest of their clusters, which these data cannot show.",
                "Compare leaked and other records in an audited sample, if there is one.",
            )
        )
    return findings


def _assumed_cuts(pooled: Pooled, optimism: Optimism, value: float, se_data: float) -> list[Finding]:
    """How much the corrected value depends on how entities are assumed to be cut."""
    if not optimism.by_cuts:
        return []
    single, uniform = (optimism.by_cuts[kind] - optimism.value for kind in ("single", "uniform"))
    metric = pooled.samples.metric
    ends = [value + metric.shown(moved) for moved in (single, uniform)]
    return [
        Finding(
            "assumed-cuts",
            "warning" if abs(uniform - single) > 2 * se_data else "info",
            "How the linkage cuts entities is assumed: in half of the imitated cuts a single record comes off, in the "
            f"other half a piece of any size. The corrected {metric.noun} would be {ends[0]:.4g} if single records "
            f"alone came off, and {ends[1]:.4g} if pieces of all sizes were equally likely.",
            "Look up the mates of some records, and give Leakage.from_true_groups, which learns how entities are cut.",
        )
    ]


def _disagreement(optimism: Optimism, curve: Curve, se_data: float) -> list[Finding]:
    """Whether the curve above the leakage rate and the losses below it differ by more than a standard error."""
    readings = optimism.readings
    if readings is not None and abs(readings.by_pieces - readings.by_curve) > se_data:
        return [
            Finding(
                "curve-and-unmixing",
                "info",
                f"Models without the likeliest pieces of held-out entities put the optimism at "
                f"{readings.by_pieces:.3g}, the curve of imitated cuts at {readings.by_curve:.3g}; the first counts "
                f"{readings.weight:.0%}.",
                "Entities may be cut in other ways than the imitation does; look at suspects() for the pieces.",
            )
        ]
    below = getattr(curve, "unmixing_", None)
    if below is None or abs(below.optimism - below.optimism_above) <= se_data:
        return []
    return [
        Finding(
            "curve-and-unmixing",
            "info",
            f"The losses below the leakage rate put the optimism at {below.optimism:.3g}, the curve above it at "
            f"{below.optimism_above:.3g}; the first counts {below.mass_probability:.0%}.",
            "The curve cannot see a fall below the leakage rate; look at range for what needs no curve.",
        )
    ]


def _lack_of_fit(pooled: Pooled, optimism: Optimism, curve: Curve, se_data: float) -> list[Finding]:
    """Residuals beyond noise, where the method leaves degrees of freedom; a warning only where they matter."""
    spare = 0 if curve.rank_ is None else len(pooled.injected) - curve.rank_
    if spare < 1 or not np.isfinite(pooled.monte_carlo).all() or pooled.monte_carlo.min() <= 0:
        return []
    residual = curve.residual_
    pvalue = float(chdtrc(spare, float((residual**2 / pooled.monte_carlo).sum())))
    if pvalue >= 0.01:
        return []
    matters = float(np.abs(residual).max()) * optimism.multiplier > se_data
    return [
        Finding(
            "lack-of-fit",
            "warning" if matters else "info",
            f"The curve misses the losses by up to {np.abs(residual).max():.2g}, more than their noise explains "
            f"(p = {pvalue:.1g})" + ("." if matters else ", but little against the interval."),
            "Try another curve, such as PolynomialCurve(3) or CompletelyMonotoneCurve().",
        )
    ]
