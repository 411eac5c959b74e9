"""The account of the table that the command line shows before the fits, with an estimate of the time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from outofcluster.auditing.beginning import Beginning
from outofcluster.cli._table import Records
from outofcluster.problem.account import TableAccount
from outofcluster.problem.models import model_in_words

_LONG_FIT = 2.0
"""Seconds of a first fit from which it is not timed again."""
_QUICK = 10.0
"""Seconds up to which an estimate says no more than that it is quick."""


_LEAST_CLUSTERS = 10
"""Clusters, and records that share one, from which a column that keeps to their bounds hardly does so by chance."""


def account_printer(
    out: Any, records: Records, account: TableAccount, n_jobs: int | None, *, n_thresholds: int | None = None
) -> Callable[[Beginning], None]:
    """A function that prints the account when the checks are done and the fits begin.

    ``n_thresholds`` is the number of linkage thresholds of a sweep, whose clusters are in its own table.
    """

    def show(beginning: Beginning) -> None:
        about = records.about
        name = about["data"].partition(", ")[0]
        clusters, _, features = account.lines
        if n_thresholds is not None:
            clusters = f"{account.n_records:,} records, with clusters by {n_thresholds} linkage thresholds."
        out.print(f"{name}: {clusters}", markup=False)
        out.print(f"Target {about['target'].partition(' (')[0]}: {_lower(account.target_in_words)}", markup=False)
        out.print(features, markup=False)
        for said in ("dropped records", "left out"):
            if said in about:
                hint = "; --keep takes a column as a feature" if said == "left out" else ""
                out.print(f"Left out: {about[said]}{hint}.", markup=False)
        if "infinite values" in about:
            out.print(f"Infinite values: {about['infinite values']}.", markup=False)
        if "decimal commas" in about:
            out.print(f"Read as numbers with decimal commas: {about['decimal commas']}.", markup=False)
        if "nearly numbers" in about:
            out.print(
                "Taken as text, although nearly all values are numbers with decimal commas, because of others: "
                f"{about['nearly numbers']}.",
                markup=False,
            )
        if "encoded" in about:
            out.print(f"Columns {about['encoded']}.", markup=False)
        if account.determining:
            out.print(f"These features give the target away: {', '.join(account.determining)}.", markup=False)
        if others := columns_like_clusters(records):
            out.print(
                f"These features look like clusters as well: {', '.join(others)}; --drop leaves a column out.",
                markup=False,
            )
        if n_thresholds is None and account.n_single > account.n_clusters / 2:
            out.print("Most clusters have a single record: is --groups the right column?", markup=False)
        if account.numbers and account.n_classes > 2:
            out.print("Its numbers are taken as classes; --task regression takes them as amounts.", markup=False)
        model = model_in_words(beginning.task.estimator)
        out.print(f"Model: {model}. {_time(beginning, n_jobs, n_thresholds or 1)}", markup=False)

    return show


def columns_like_clusters(records: Records) -> list[str]:
    """Features that may be clusters of another linkage: they split or join these clusters, and have about as many."""
    import pandas as pd

    given = [_codes(labels) for labels in (records.groups, *records.more_groups.values())]
    named = list[str]()
    for name in records.frame.columns:
        values = records.frame[name]
        if values.dtype.kind not in "iuO" or values.isna().any() or pd.api.types.is_bool_dtype(values.dtype):
            continue
        own = _codes(values.astype(str).to_numpy() if values.dtype.kind == "O" else values.to_numpy())
        if any(_is_nested(own, clusters) or _is_nested(clusters, own) for clusters in given):
            named.append(str(name))
    return named


def _codes(labels: Any) -> Any:
    return np.unique(labels.astype(str) if labels.dtype.kind == "O" else labels, return_inverse=True)[1].reshape(-1)


def _is_nested(inner: Any, outer: Any) -> bool:
    """Whether each of many inner clusters, some of them of several records, lies inside one of many outer ones."""
    n_inner, n_outer = int(inner.max()) + 1, int(outer.max()) + 1
    if n_outer < max(_LEAST_CLUSTERS, n_inner / 2) or len(inner) - n_inner < _LEAST_CLUSTERS:
        return False
    outer_of = np.zeros(n_inner, dtype=np.int64)
    outer_of[inner] = outer
    return bool((outer_of[inner] == outer).all())


def _lower(sentence: str) -> str:
    return sentence.removeprefix("The target has ").removeprefix("The target is ")


def _time(beginning: Beginning, n_jobs: int | None, n_thresholds: int) -> str:
    """How many models will be fitted, and about how long that takes."""
    seconds = beginning.seconds_per_fit()
    if seconds < _LONG_FIT:
        # The first fit also loads what the model needs.
        seconds = min(seconds, beginning.seconds_per_fit())
    workers = _workers(n_jobs)
    expected = n_thresholds * seconds * beginning.fits / workers
    models = f"{beginning.fits + beginning.compiled_fits:,} models will be fitted"
    if n_thresholds > 1:
        models += f" at each of {n_thresholds} thresholds"
    if expected < _QUICK:
        return f"{models}, which takes some seconds."
    return f"{models}, which takes about {_duration(expected)}."


def _workers(n_jobs: int | None) -> int:
    if n_jobs is None or n_jobs == 0:
        return 1
    cores = os.cpu_count() or 1
    return max(n_jobs if n_jobs > 0 else cores + 1 + n_jobs, 1)


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{round(seconds, -1):.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"
