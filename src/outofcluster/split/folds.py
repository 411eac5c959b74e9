"""Which records train and which are held out: folds that keep every observed cluster on one side.

`make_folds` turns any description of a cross-validation into checked pairs T̂, V̂ of row indices. It insists that no
observed cluster has records on both sides: leakage must come from errors of the clustering, since that is what is
corrected, never from the splitter.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import check_integer, first_missing

__all__ = [
    "Clusters",
    "Fold",
    "check_fold",
    "label_array",
    "make_folds",
    "read_pairs",
]

Rows = NDArray[np.int64]

_DEFAULT_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the records.

    Attributes
    ----------
    index : int
        Place among the folds, from 0.
    train, validation : array of int
        Rows of T̂ and of V̂.
    """

    index: int
    train: Rows
    validation: Rows


def make_folds(X: Any, y: Any, groups: Any, cv: Any = None) -> tuple[Fold, ...]:
    """Folds that keep every observed cluster on one side.

    Parameters
    ----------
    X : array, sparse matrix or frame of n records
        Only its number of rows is used, except by a splitter that looks at it.
    y : array of shape (n,) or (n, outputs), or None
        Targets, for splitters that stratify.
    groups : array of shape (n,)
        Observed cluster of every record: numbers, strings, anything that can be told apart.
    cv : int, splitter or iterable, optional
        Number of folds of a ``GroupKFold``, a scikit-learn splitter (called with X, y and groups), or pairs of row
        indices (train, test). By default a ``GroupKFold`` with 5 folds, or as many as there are clusters if fewer.

    Returns
    -------
    tuple of Fold

    Examples
    --------
    >>> from outofcluster.split.folds import make_folds
    >>> folds = make_folds(np.zeros((5, 1)), None, ["ann", "ann", "bob", "cid", "cid"], cv=3)
    >>> [fold.validation.tolist() for fold in folds]
    [[3, 4], [0, 1], [2]]
    """
    n = _n_records("X", X)
    clusters = Clusters.of(groups, n)
    if y is not None and _n_records("y", y) != n:
        raise InputError(f"y must have one value for each of the {n} records of X, got {_n_records('y', y)}.")
    folds = tuple(check_fold(i, pair, clusters) for i, pair in enumerate(read_pairs(X, y, clusters, cv)))
    if not folds:
        raise InputError("cv must give at least one pair of train and test rows, got none.")
    return folds


def read_pairs(X: Any, y: Any, clusters: Clusters, cv: Any) -> list[Any]:
    """The pairs of rows that a splitter, a number or an iterable stands for, not yet checked."""
    wanted = "None, a number of folds, a splitter or an iterable of (train, test) row indices"
    splitter = cv
    if cv is None or isinstance(cv, int | float | np.number | np.bool_):
        from sklearn.model_selection import GroupKFold

        most = len(clusters.names)
        number = min(_DEFAULT_FOLDS, most) if cv is None else check_integer("cv", cv, least=2, most=most)
        splitter = GroupKFold(number)
    if hasattr(splitter, "split") and not isinstance(splitter, str | type):
        with warnings.catch_warnings():
            # What this warns of is refused below, with the cluster named, if it matters.
            warnings.filterwarnings("ignore", message="The groups parameter is ignored")
            try:
                return list(splitter.split(X, y, clusters.sortable))
            except (ValueError, TypeError) as error:
                raise InputError(f"cv must be able to split these records, but {cv!r} says: {error}") from error
    if isinstance(cv, str | bytes | type) or not isinstance(cv, Iterable):
        raise InputError(f"cv must be {wanted}, got {cv!r}.")
    return list(cv)


def check_fold(i: int, pair: Any, clusters: Clusters) -> Fold:
    """A fold whose rows exist, are on one side each, and split no cluster."""
    if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise InputError(f"cv must give pairs (train, test) of row indices, got {type(pair).__name__} as fold {i}.")
    n = len(clusters.codes)
    train, validation = (_check_rows(i, side, rows, n) for side, rows in zip(("train", "test"), pair, strict=True))
    # Marks instead of sorts: folds of many clusters are checked in one pass each.
    both = validation[_marked(train, n)[validation]]
    if len(both):
        raise InputError(f"cv must not train and test on the same record, got row {both[0]} on both sides of fold {i}.")
    marked = [_marked(clusters.codes[rows], len(clusters.names)) for rows in (train, validation)]
    shared = np.flatnonzero(marked[0] & marked[1])
    if len(shared):
        raise InputError(
            f"cv must keep every cluster on one side, got records of cluster {clusters.names[shared[0]]!r} on both "
            f"sides of fold {i}; use a splitter for groups such as GroupKFold."
        )
    return Fold(i, train, validation)


def _marked(codes: Rows, n: int) -> NDArray[np.bool_]:
    marked = np.zeros(n, dtype=bool)
    marked[codes] = True
    return marked


def _check_rows(i: int, side: str, rows: Any, n: int) -> Rows:
    given = np.asarray(rows)
    if given.ndim != 1 or len(given) == 0:
        raise InputError(f"cv must give at least one {side} row a fold, got shape {given.shape} in fold {i}.")
    if given.dtype.kind not in "iu":
        raise InputError(f"cv must give row indices, whole numbers, got {given.dtype} as {side} rows of fold {i}.")
    outside = (given < 0) | (given >= n)
    if outside.any():
        raise InputError(f"cv must give rows between 0 and {n - 1}, got {side} row {given[outside][0]} in fold {i}.")
    if _marked(given, n).sum() < len(given):
        raise InputError(f"cv must give every row at most once a side, got repeated {side} rows in fold {i}.")
    return given.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Checked groups: the label of every record, its cluster as a number, and the clusters' labels."""

    labels: NDArray[Any]
    codes: Rows
    names: list[Any]
    sortable: NDArray[Any]
    """The labels, or their numbers where labels cannot be ordered: what a splitter can work with."""

    @classmethod
    def of(cls, groups: Any, n: int | None) -> Clusters:
        """Clusters of checked labels; n is how many there must be, where that is known."""
        if groups is None:
            raise InputError("groups must give the cluster of every record, got None.")
        labels = label_array(groups)
        if labels.ndim != 1 or (n is not None and len(labels) != n):
            wanted = "one label a record" if n is None else f"one label for each of the {n} records"
            raise InputError(f"groups must hold {wanted}, got shape {labels.shape}.")
        row = first_missing(labels)
        if row is not None:
            raise InputError(f"groups must not have missing labels, got groups[{row}] = {labels[row]}.")
        try:
            unique, codes = np.unique(labels, return_inverse=True)
            names, sortable = unique.tolist(), labels
        except TypeError:
            numbers: dict[Any, int] = {}
            codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
            names, sortable = list(numbers), codes
        if len(names) < 2:
            raise InputError(f"groups must hold at least two clusters, got {len(names)} over {len(labels)} records.")
        return cls(labels, codes.astype(np.int64), names, sortable)


def label_array(groups: Any) -> NDArray[Any]:
    """Labels as an array that keeps their types."""
    if hasattr(groups, "dtype"):
        return np.asarray(groups)
    try:
        array = np.asarray(groups)
    except ValueError:
        raise InputError(f"groups must hold one label a record, got {type(groups).__name__} of uneven parts.") from None
    # In a list, a number or NaN next to a string would become a string, and be taken for a label.
    if array.dtype.kind in "US" and not all(isinstance(label, str | bytes) for label in groups):
        return np.asarray(groups, dtype=object)
    return array


def _n_records(name: str, values: Any) -> int:
    shape = getattr(values, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[0])
    try:
        return len(values)
    except TypeError:
        raise InputError(f"{name} must hold one row a record, got {type(values).__name__}.") from None
