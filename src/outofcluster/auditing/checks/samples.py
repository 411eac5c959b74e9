"""Checks of the error model, the units, clusters and folds, of the losses of the fits, and of the table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outofcluster._base.text import percentage
from outofcluster.auditing.choices import enough_clusters
from outofcluster.auditing.findings import Context, Remark, check, info, severe, warning
from outofcluster.curves.shape import ShapeCheck, ShapeDiagnosis, diagnose_points
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.folds import count_clusters, looks_linked
from outofcluster.sampling.audit_samples import has_pieces

# How many times the records of the smallest fold the largest one holds, where folds count as unbalanced.
_UNBALANCED = 4


@check("error-model")
def error_model(context: Context) -> Iterator[Remark]:
    """Which error model was taken, and why."""
    if context.error_model_reason:
        yield info(
            f"Errors are taken to be those of {context.samples.error_model}: {context.error_model_reason}.",
            "Check that this is how your clustering errs; if it is not, give error_model='records' or 'fragments'.",
        )


@check("fragments-likely", only="records")
def fragments_likely(context: Context) -> Iterator[Remark]:
    """Single records are taken to leak, but the clusters look like linked entities."""
    if looks_linked([fold.clusters for fold in context.samples.folds]):
        yield warning(
            "Errors are taken to be those of single records, but the validation clusters are many and small: where "
            "linkage splits an entity, whole pieces leak, and the records model corrects too much.",
            "Use error_model='fragments', which needs no rate.",
        )


@check("stopped-early")
def stopped_early(context: Context) -> Iterator[Remark]:
    """Fits ended before the precision that was asked for was reached."""
    why = {
        "time": "since the time limit had passed",
        "interrupt": "since it was interrupted",
        "rounds": "after as many rounds as there may be",
    }.get(context.samples.ended)
    if why:
        share = context.solution.imprecision
        so_far = f"is {percentage(share, 2)} of the standard error" if np.isfinite(share) else "is not known yet"
        yield warning(
            f"The fits ended {why}, before the precision was reached: their own error {so_far} of the optimism.",
            "Audit again with more time, from a checkpoint or with a lower precision.",
        )


@check("few-clusters")
def few_clusters(context: Context) -> Iterator[Remark]:
    """Too few clusters for an interval on new clusters of the population."""
    folds = context.samples.folds
    held_out = [fold.clusters for fold in folds]
    enough = enough_clusters(held_out, [fold.n_train_clusters for fold in folds])
    fewest, total = min(map(count_clusters, held_out)), count_clusters(np.concatenate(held_out))
    count = f"There are {total} held-out clusters ({fewest} in a fold)"
    if context.solution.pooled.unit_kind != "clusters":
        yield Remark(
            "warning" if context.units_asked == "auto" else "info",
            f"{'The' if enough else f'{count}: the'} interval is for these clusters only, and does not cover how "
            "clusters of the population differ.",
            "Use units='clusters' for that." if enough else "More clusters are needed for that.",
        )
    elif not enough:
        yield warning(
            f"{count}: an interval for new clusters of the population is itself uncertain with so few.",
            "More clusters are needed, or units='records' for these clusters only.",
        )


@check("giant-cluster")
def giant_cluster(context: Context) -> Iterator[Remark]:
    """One cluster holds a very large share of the records."""
    observed = context.samples.observed
    if observed.is_giant:
        yield warning(
            f"One of the {observed.n_clusters} clusters holds {observed.largest} of the {observed.n_records} "
            f"records ({percentage(observed.share, 2)}), so that it is alone on one side of every fold.",
            "A linkage that chains different entities together needs a higher threshold; look at sweep().",
        )


@check("unbalanced-folds")
def unbalanced_folds(context: Context) -> Iterator[Remark]:
    """The folds hold out very different numbers of records."""
    held_out = context.samples.fold_sizes
    most, total = max(held_out), sum(held_out)
    if most >= _UNBALANCED * min(held_out):
        dominates = most > total / 2
        yield Remark(
            "warning" if dominates else "info",
            f"The folds hold out between {min(held_out)} and {most} records"
            + (f", and one of them {percentage(most / total, 2)} of all." if dominates else "."),
            "Use fewer folds, smaller clusters, or a splitter that balances them, such as GroupKFold.",
        )


@check("mostly-left-out")
def mostly_left_out(context: Context) -> Iterator[Remark]:
    """The folds that could not be audited hold most of the records."""
    samples, total = context.samples, sum(context.samples.fold_sizes)
    scored = sum(fold.n_validation for fold in samples.folds)
    if samples.left_out and scored < total / 2:
        yield severe(
            f"The folds that were left out hold {total - scored} of the {total} records, so that the "
            f"{context.metric.noun} is that of the other {scored} only.",
            "Repair what fold-left-out names, often one giant cluster or a class that is missing.",
        )


# Largest level below which a curve cannot be followed; five folds of equal size reach 0.4.
_LOW_LEVEL = 0.25
# Words for the shape of a loss, and those for a metric of which a greater value is better.
_OF_METRICS = {"Decreasing": "Increasing", " rises ": " falls ", "Convex": "Concave", " bulges ": " sags "}
# Share of the target's variance below which a mean squared error counts as none.
_PERFECT = 1e-4
_SHOWN_NAMES = 12


# --- the losses of the fits -------------------------------------------------------------------------------


@check("small-validation", only="records")
def small_validation(context: Context) -> Iterator[Remark]:
    """Too few validation records for the levels that extrapolation wants."""
    first = context.samples.folds[0].main
    largest = float(first.injected.max())
    if largest < _LOW_LEVEL:
        yield warning(
            f"The validation folds are small against n_train = {first.size}: levels go up to {largest:.2g} only.",
            "Use fewer folds or a smaller n_train.",
        )


@check("no-rate")
def no_rate(context: Context) -> Iterator[Remark]:
    """There is no corrected loss, since none was asked for or none can come from the records."""
    if context.leakage:
        return
    without = f"there is no corrected {context.metric.noun}."
    if not context.from_data:
        yield info(f"Without a leakage rate {without}", "Look at sensitivity(), or let leakage='data' go by the data.")
    elif has_pieces(context.samples.error_model):
        yield info(
            f"Clusters were not compared with each other (unmix=False), so that no pieces can be seen, and {without}",
            "Leave out unmix=False, or give a leakage rate.",
        )
    else:
        fewest = min(min(fold.n_train, fold.n_validation) for fold in context.samples.folds)
        yield info(
            f"The two sides of the splits are too small to be told apart ({fewest} records on one of them), so that "
            f"the records do not show how much leaks, and {without}",
            "Use fewer folds or more records, or look at sensitivity().",
        )


@check("fold-left-out")
def fold_left_out(context: Context) -> Iterator[Remark]:
    """A fold could not be audited."""
    for index, why in context.samples.left_out.items():
        yield severe(f"Fold {index} could not be audited: {why}")


@check("no-test")
def no_test(context: Context) -> Iterator[Remark]:
    """The hypothesis test could not be run."""
    if context.samples.effect is None:
        yield info(f"The test for a cluster effect could not be run: {context.samples.effect_problem}")


@check("single-class")
def single_class(context: Context) -> Iterator[Remark]:
    """Resamples held a single class and were drawn again."""
    runs = [fold.main for fold in context.samples.folds]
    redraws, fits = sum(int(run.redraws.sum()) for run in runs), sum(run.n_fits for run in runs)
    if redraws > 0.01 * fits:
        yield warning(
            f"{redraws} resamples held a single class, left nothing to score or left the metric without a value, and "
            f"were drawn again ({fits} fits).",
            "Raise n_train; the losses are those of resamples with every class.",
        )


@check("not-decreasing")
def not_decreasing(context: Context) -> Iterator[Remark]:
    """The loss rises with leakage, beyond noise: Theorem 3.1 does not apply."""
    pooled, metric, shape = context.solution.pooled, context.metric, _shape(context)
    if shape is not None and shape.decreasing.exceeds_noise:
        # A rise beyond the noise of the fits may be within that of the data: it counts where it matters to the answer.
        rise = float((pooled.means - np.minimum.accumulate(pooled.means)).max())
        spread = float(np.sqrt(context.solution.naive_uncertainty.data))
        better = "raise" if metric.greater_is_better else "lower"
        yield Remark(
            "warning" if rise > spread / 2 else "info",
            _about_metric(shape.decreasing, metric),
            f"The learner is not optimal in its class, so that more leakage need not {better} the "
            f"{metric.noun}; the extrapolation has no theorem behind it.",
        )


@check("not-convex")
def not_convex(context: Context) -> Iterator[Remark]:
    """The curve is not convex, beyond noise: Theorem 3.2 does not apply."""
    shape = _shape(context)
    if shape is not None and shape.convex.exceeds_noise:
        message = _about_metric(shape.convex, context.metric)
        yield info(message, "Methods that assume convexity do not fit here.")


def _shape(context: Context) -> ShapeDiagnosis | None:
    """The shape of the losses; None where there are too few of them, or none of their noise, to tell it."""
    pooled = context.solution.pooled
    errors = np.sqrt(pooled.monte_carlo)
    if len(pooled.injected) < 3 or not np.isfinite(errors).all() or errors.min() <= 0:
        return None
    return diagnose_points(pooled.injected, pooled.means, errors, alpha=0.01)


def _about_metric(shape: ShapeCheck, metric: MetricFacts) -> str:
    """What a check of the losses' shape says about the metric itself: where the loss rises, an AUC falls."""
    words = str(shape)
    if metric.greater_is_better:
        for of_loss, of_metric in _OF_METRICS.items():
            words = words.replace(of_loss, of_metric)
    return words


# --- the table --------------------------------------------------------------------------------------------


@check("singleton-clusters")
def singleton_clusters(context: Context) -> Iterator[Remark]:
    """Most clusters have a single record."""
    table = context.table
    message = f"{table.n_single:,} of {table.n_clusters:,} clusters have a single record."
    if table.looks_like_record_numbers:
        yield warning(message, "Check that groups is the column of the clusters, and not one of record numbers.")
    elif table.n_single > table.n_clusters / 2:
        yield info(message, "Where these people have more records, the linkage missed them; a review list shows some.")


@check("swapped-columns")
def swapped_columns(context: Context) -> Iterator[Remark]:
    """The target looks like the clusters, and the clusters like the target."""
    table = context.table
    if table.looks_swapped:
        yield severe(
            f"groups has {table.n_clusters} clusters, and the target has {table.n_classes} classes.",
            "Check that y and groups are not swapped.",
        )


@check("id-like-feature")
def id_like_feature(context: Context) -> Iterator[Remark]:
    """A feature looks like an id of records or of clusters."""
    table = context.table
    if names := (*table.ids, *table.like_groups):
        yield warning(
            f"Features that look like ids: {_quoted(names)}. A model can learn records by heart with them.",
            "Leave them out of X, unless they are meant.",
        )


@check("target-among-features")
def target_among_features(context: Context) -> Iterator[Remark]:
    """A feature determines the target."""
    table = context.table
    if names := (*table.copies, *table.determining):
        yield warning(
            f"Features that give the target away: {_quoted(names)}. Each of them determines it without exception.",
            "Leave them out of X if they are not known before the target is.",
        )


@check("perfect-score")
def perfect_score(context: Context) -> Iterator[Remark]:
    """The cross-validated value is as good as it can be."""
    table, metric = context.table, context.metric
    value = metric.shown(context.solution.naive.value)
    squared = metric.name in ("squared_error", "neg_mean_squared_error")
    best = metric.range[1] if metric.greater_is_better else metric.range[0]
    if value == best or (squared and value < _PERFECT * (table.variance or 0.0)):
        yield warning(
            f"The cross-validated {metric.noun} is as good as it can be ({value:.4g}).",
            "Look for a feature that is the target in other words, or that is known only after it.",
        )


@check("numbers-as-classes")
def numbers_as_classes(context: Context) -> Iterator[Remark]:
    """Different whole numbers are taken as classes."""
    table = context.table
    if table.numbers and table.n_classes > 2:
        yield info(
            f"The {table.n_classes} different whole numbers of the target are taken as classes.",
            "Use a regressor if they are amounts.",
        )


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:_SHOWN_NAMES])) + (", …" if len(names) > _SHOWN_NAMES else "")
