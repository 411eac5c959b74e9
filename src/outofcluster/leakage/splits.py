"""Which records can leak where: the argument ``cv`` of all sources of a leakage rate, and the side that is counted."""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any, Literal

import numpy as np

from outofcluster._base.arguments import check_choice, check_integer, listed, refuse_unhashable, short
from outofcluster._base.exceptions import InputError, described
from outofcluster.problem.folds import DEFAULT_FOLDS, Clusters, Fold, Rows, check_labels, is_splitter, read_folds

Side = Literal["train", "validation"]
# Rate and standard error of each side that is asked for, the primary one first.
Rates = dict[Side, tuple[float, float | None]]
# The validation share, where clusters are put into folds at random, or these very splits.
Split = float | tuple[Fold, ...]

# Splits of a splitter that is not a K-fold from which its validation share is read.
_SPLITS_SEEN = 100


def check_side(of: Any) -> None:
    """Refuse anything but the two sides of a split."""
    check_choice("of", of, ("train", "validation"))


def read_sides(of: Side | None) -> tuple[Side, ...]:
    """The sides whose rates are asked for, the primary one first: both where ``of`` is None."""
    if of is None:
        return "validation", "train"
    check_side(of)
    return (of,)


def same_index(*named: tuple[str, Any]) -> None:
    """Refuse pandas objects that are meant to belong together row by row, but have different indexes."""
    indexes = [(name, values.index) for name, values in named if hasattr(values, "index") and hasattr(values, "dtype")]
    for name, index in indexes[1:]:
        first, wanted = indexes[0]
        if len(index) == len(wanted) and not index.equals(wanted):
            row = int(np.flatnonzero(np.asarray(index != wanted))[0])
            label, other = index.tolist()[row], wanted.tolist()[row]
            raise InputError(
                f"{name} must have the same index as {first}, got {short(label)} for {short(other)} in row {row}; "
                "align them first, or give arrays."
            )


def read_split(cv: Any, clusters: Clusters) -> Split:
    """The validation share where ``cv`` is a number of folds or a splitter; the splits where it has rows."""
    if cv is None or isinstance(cv, int | float | np.number | np.bool_):
        return 1 / (DEFAULT_FOLDS if cv is None else check_integer("cv", cv, least=2))
    if not is_splitter(cv):
        return read_folds(None, None, clusters, cv)
    # One row per cluster is enough to see which share of the clusters is held out.
    rows = np.arange(len(clusters.names))
    try:
        number = getattr(cv, "n_splits", None)
        if number is not None and not hasattr(cv, "test_size") and cv.get_n_splits(rows, rows, rows) == number:
            return 1 / check_integer("cv", number, least=2)
        # Shuffled, repeated and leave-some-out splitters make more splits than 1/share; a copy keeps their state.
        splits = copy.deepcopy(cv).split(rows, np.zeros(len(rows), dtype=int), rows)
        return float(np.mean([len(test) / (len(train) + len(test)) for train, test in islice(splits, _SPLITS_SEEN)]))
    except Exception as error:
        raise InputError(
            f"cv must be able to split these clusters, but {short(cv)} says: {described(error)}"
        ) from error


def other_share(split: Split, of: Side) -> float:
    """The share of the records that are on the side that is not counted, a mean over the splits that are fixed."""
    if isinstance(split, float):
        return split if of == "train" else 1 - split
    sides = [counted_and_other(fold, of) for fold in split]
    return float(np.mean([len(other) / (len(counted) + len(other)) for counted, other in sides]))


def counted_and_other(fold: Fold, of: Side) -> tuple[Rows, Rows]:
    """The rows whose leakage is counted, and those on the other side."""
    return (fold.train, fold.validation) if of == "train" else (fold.validation, fold.train)


def read_names(name: str, values: Any, n: int | None) -> list[Any]:
    """Names of records as Python values; tuples stay tuples."""
    names = listed(name, values)
    if not any(isinstance(value, tuple | list) for value in names):
        return list(check_labels(name, values, n).tolist())
    if n is not None and len(names) != n:
        raise InputError(f"{name} must hold one label for each of the {n} records, got {len(names)}.")
    return refuse_unhashable(name, [tuple(value) if isinstance(value, list) else value for value in names])
