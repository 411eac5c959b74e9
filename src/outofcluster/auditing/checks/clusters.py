"""Checks of the error model, the units, and the sizes of clusters and folds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from outofcluster.auditing.checks.base import Context, Remark, check
from outofcluster.auditing.choices import enough_clusters
from outofcluster.problem.folds import count_clusters, looks_linked

# How many times the records of the smallest fold the largest one holds, where folds count as unbalanced.
_UNBALANCED = 4


@check("error-model")
def error_model(context: Context) -> Iterator[Remark]:
    """Which error model was taken, and why."""
    if context.error_model_reason:
        yield Remark(
            "info",
            f"Errors are taken to be those of {context.samples.error_model}: {context.error_model_reason}.",
            "Check that this is how your clustering errs; if it is not, give error_model='records' or 'fragments'.",
        )


@check("fragments-likely", only="records")
def fragments_likely(context: Context) -> Iterator[Remark]:
    """Single records are taken to leak, but the clusters look like linked entities."""
    if looks_linked([fold.clusters for fold in context.samples.folds]):
        yield Remark(
            "warning",
            "Errors are taken to be those of single records, but the validation clusters are many and small: where "
            "linkage splits an entity, whole pieces leak, and the records model corrects too much.",
            "Use error_model='fragments' with the rate as a share of the validation records.",
        )


@check("few-clusters")
def few_clusters(context: Context) -> Iterator[Remark]:
    """Too few clusters for an interval on new clusters of the population."""
    folds = context.samples.folds
    held_out = [fold.clusters for fold in folds]
    enough = enough_clusters(held_out, [fold.n_train_clusters for fold in folds])
    fewest, total = min(map(count_clusters, held_out)), count_clusters(np.concatenate(held_out))
    count = f"There are {total} held-out clusters ({fewest} in a fold)"
    if context.pooled.unit_kind != "clusters":
        yield Remark(
            "warning" if context.units_asked == "auto" else "info",
            f"{'The' if enough else f'{count}: the'} interval is for these clusters only, and does not cover how "
            "clusters of the population differ.",
            "Use units='clusters' for that." if enough else "More clusters are needed for that.",
        )
    elif not enough:
        yield Remark(
            "warning",
            f"{count}: an interval for new clusters of the population is itself uncertain with so few.",
            "More clusters are needed, or units='records' for these clusters only.",
        )


@check("giant-cluster")
def giant_cluster(context: Context) -> Iterator[Remark]:
    """One cluster holds a very large share of the records."""
    observed = context.samples.observed
    if observed.is_giant:
        yield Remark(
            "warning",
            f"One of the {observed.n_clusters} clusters holds {observed.largest} of the {observed.n_records} "
            f"records ({observed.share:.0%}), so that it is alone on one side of every fold.",
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
            + (f", and one of them {most / total:.0%} of all." if dominates else "."),
            "Use fewer folds, smaller clusters, or a splitter that balances them, such as GroupKFold.",
        )


@check("mostly-left-out")
def mostly_left_out(context: Context) -> Iterator[Remark]:
    """The folds that could not be audited hold most of the records."""
    samples, total = context.samples, sum(context.samples.fold_sizes)
    scored = sum(fold.n_validation for fold in samples.folds)
    if samples.left_out and scored < total / 2:
        yield Remark(
            "severe",
            f"The folds that were left out hold {total - scored} of the {total} records, so that the "
            f"{context.metric.noun} is that of the other {scored} only.",
            "Repair what fold-left-out names, often one giant cluster or a class that is missing.",
        )
