"""Checks of the table, and of the losses of the fits: levels, missing folds, redraws, and shapes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outofcluster.auditing.checks.base import Context, Remark, check
from outofcluster.curves.shape import ShapeCheck, ShapeDiagnosis, diagnose_points
from outofcluster.metrics.facts import MetricFacts

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
        yield Remark(
            "warning",
            f"The validation folds are small against n_train = {first.size}: levels go up to {largest:.2g} only.",
            "Use fewer folds or a smaller n_train.",
        )


@check("no-rate")
def no_rate(context: Context) -> Iterator[Remark]:
    """No leakage rate was given, so there is no corrected loss."""
    if not context.leakage:
        yield Remark(
            "info", f"Without a leakage rate there is no corrected {context.metric.noun}.", "Look at sensitivity()."
        )


@check("fold-left-out")
def fold_left_out(context: Context) -> Iterator[Remark]:
    """A fold could not be audited."""
    for index, why in context.samples.left_out.items():
        yield Remark("severe", f"Fold {index} could not be audited: {why}")


@check("no-test")
def no_test(context: Context) -> Iterator[Remark]:
    """The hypothesis test could not be run."""
    if context.samples.effect is None:
        yield Remark("info", f"The test for a cluster effect could not be run: {context.samples.effect_problem}")


@check("single-class")
def single_class(context: Context) -> Iterator[Remark]:
    """Resamples held a single class and were drawn again."""
    runs = [fold.main for fold in context.samples.folds]
    redraws, fits = sum(int(run.redraws.sum()) for run in runs), sum(run.n_fits for run in runs)
    if redraws > 0.01 * fits:
        yield Remark(
            "warning",
            f"{redraws} resamples held a single class, left nothing to score or left the metric without a value, and "
            f"were drawn again ({fits} fits).",
            "Raise n_train; the losses are those of resamples with every class.",
        )


@check("not-decreasing")
def not_decreasing(context: Context) -> Iterator[Remark]:
    """The loss rises with leakage, beyond noise: Theorem 3.1 does not apply."""
    pooled, metric, shape = context.pooled, context.metric, _shape(context)
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
        yield Remark("info", message, "Methods that assume convexity do not fit here.")


def _shape(context: Context) -> ShapeDiagnosis | None:
    """The shape of the losses; None where there are too few of them, or none of their noise, to tell it."""
    pooled = context.pooled
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
    if table.n_single > table.n_clusters / 2:
        yield Remark(
            "warning",
            f"{table.n_single:,} of {table.n_clusters:,} clusters have a single record.",
            "Check that groups is the column of the clusters, and not one of record numbers.",
        )


@check("id-like-feature")
def id_like_feature(context: Context) -> Iterator[Remark]:
    """A feature looks like an id of records or of clusters."""
    table = context.table
    if names := (*table.ids, *table.like_groups):
        yield Remark(
            "warning",
            f"Features that look like ids: {_quoted(names)}. A model can learn records by heart with them.",
            "Leave them out of X, unless they are meant.",
        )


@check("target-among-features")
def target_among_features(context: Context) -> Iterator[Remark]:
    """A feature determines the target."""
    table = context.table
    if names := (*table.copies, *table.determining):
        yield Remark(
            "warning",
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
        yield Remark(
            "warning",
            f"The cross-validated {metric.noun} is as good as it can be ({value:.4g}).",
            "Look for a feature that is the target in other words, or that is known only after it.",
        )


@check("numbers-as-classes")
def numbers_as_classes(context: Context) -> Iterator[Remark]:
    """Different whole numbers are taken as classes."""
    table = context.table
    if table.numbers and table.n_classes > 2:
        yield Remark(
            "info",
            f"The {table.n_classes} different whole numbers of the target are taken as classes.",
            "Use a regressor if they are amounts.",
        )


def _quoted(names: tuple[str, ...]) -> str:
    return ", ".join(map(repr, names[:_SHOWN_NAMES])) + (", …" if len(names) > _SHOWN_NAMES else "")
