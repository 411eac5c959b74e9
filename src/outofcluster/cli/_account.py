"""The account of the table that the command line shows before the fits, with an estimate of the time."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from outofcluster.auditing.account import TableAccount
from outofcluster.auditing.beginning import Beginning
from outofcluster.auditing.models import model_in_words
from outofcluster.cli._table import Records

__all__ = ["account_printer"]

_LONG_FIT = 2.0
"""Seconds of a first fit from which it is not timed again."""
_QUICK = 10.0
"""Seconds up to which an estimate says no more than that it is quick."""


def account_printer(
    out: Any, records: Records, account: TableAccount, n_jobs: int | None
) -> Callable[[Beginning], None]:
    """A function that prints the account when the checks are done and the fits begin."""

    def show(beginning: Beginning) -> None:
        about = records.about
        name = about["data"].partition(", ")[0]
        clusters, _, features = account.lines
        out.print(f"{name}: {clusters}", markup=False)
        out.print(f"Target {about['target'].partition(' (')[0]}: {_lower(account.target_in_words)}", markup=False)
        out.print(features, markup=False)
        for said in ("dropped records", "left out"):
            if said in about:
                hint = "; --keep takes a column as a feature" if said == "left out" else ""
                out.print(f"Left out: {about[said]}{hint}.", markup=False)
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
        if account.n_single > account.n_clusters / 2:
            out.print("Most clusters have a single record: is --groups the right column?", markup=False)
        if account.numbers and account.n_classes > 2:
            out.print("Its numbers are taken as classes; --task regression takes them as amounts.", markup=False)
        model = model_in_words(beginning.task.estimator)
        out.print(f"Model: {model}. {_time(beginning, n_jobs)}", markup=False)

    return show


def _lower(sentence: str) -> str:
    return sentence.removeprefix("The target has ").removeprefix("The target is ")


def _time(beginning: Beginning, n_jobs: int | None) -> str:
    """How many models will be fitted, and about how long that takes."""
    seconds = beginning.seconds_per_fit()
    if seconds < _LONG_FIT:
        # The first fit also loads what the model needs.
        seconds = min(seconds, beginning.seconds_per_fit())
    workers = _workers(n_jobs)
    expected = seconds * beginning.fits / workers
    models = f"{beginning.fits + beginning.compiled_fits:,} models will be fitted"
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
