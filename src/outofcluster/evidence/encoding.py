"""Features and target as columns of numbers, whatever the records are made of.

Numbers are standardised and cut at four standard deviations. Missing numbers become the median, with an indicator.
Anything else is a category and becomes one indicator for each of its most frequent levels. Tables that are still wide
are replaced by their leading principal components. Where the estimator is a pipeline, its own preprocessing comes
first.

Which side a record is on plays no part here, so nothing is learned that could make a cross-fit optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import is_missing
from outofcluster._base.rows import take_rows

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Columns of features after encoding; more are replaced by so many principal components.
_MOST_COLUMNS = 40
# Columns from which components are found at random directions instead of exactly, and sparse tables stay sparse.
_WIDE = 200
# Levels of a category with an indicator of their own, and distinct whole numbers that still count as classes.
_MOST_LEVELS = 20
# Classes of the target with a column of their own; the rarest beyond them share the last one.
_MOST_CLASSES = 6
# Columns that stand for a column of text with many different values.
_LETTER_COLUMNS = 12
# Standard deviations at which columns are cut.
_LARGEST = 4.0
# Types of missing values that are no floats.
_MISSING = ("NoneType", "NAType", "NaTType")


@dataclass(frozen=True, eq=False)
class Encoded:
    """Records as columns of numbers.

    Attributes
    ----------
    features : array of shape (n, columns)
        At least one column, standardised.
    targets : array of shape (n, columns)
        The target, standardised: numbers, or indicators of classes. No column where the target is constant.
    classes : array of int of shape (n,), or None
        Class of every record; None where the target is a number.
    """

    features: Floats
    targets: Floats
    classes: Ints | None

    @cached_property
    def columns(self) -> Floats:
        """Features and targets side by side."""
        return np.column_stack([self.features, self.targets])

    @property
    def points(self) -> Floats:
        """The features, with the target where it is a number."""
        return self.columns if self.classes is None else self.features


def encode(X: Any, y: Any, rows: Ints, *, estimator: Any = None, discrete: bool | None = None) -> Encoded:
    """Encode some of the records."""
    target = np.zeros(len(rows)) if y is None else np.asarray(take_rows(y, rows))
    features = _components(_numeric(_preprocessed(estimator, take_rows(X, rows), target, len(rows))))
    if not features.shape[1]:
        features = np.zeros((len(rows), 1))
    if not (is_discrete(target) if discrete is None else discrete):
        columns = target.reshape(len(target), -1)
        return Encoded(features, standardise(np.column_stack([_column(column) for column in columns.T])), None)
    classes = _classes(target)
    return Encoded(features, standardise(np.eye(classes.max() + 1)[classes][:, 1:]), classes)


def encode_identity(identity: Any, rows: Ints) -> Floats:
    """Columns that tell who is who as numbers; text with many different values by the pairs of letters that it has."""
    table = take_rows(identity, rows)
    if hasattr(table, "iloc"):
        columns = [table.iloc[:, j] for j in range(table.shape[1])]
    elif hasattr(table, "columns"):
        columns = [table[name].to_numpy() for name in table.columns]
    else:
        array = np.asarray(table).reshape(len(table), -1)
        if array.dtype.kind in "iufb":
            return _components(_numeric(array))
        columns = list(array.T)
    return _components(
        np.column_stack([_letters(column) if _is_text(column) else _column(column) for column in columns])
    )


def _is_text(values: Any) -> bool:
    """Whether a column is text with too many different values for an indicator of each."""
    if values.dtype.kind in "iufbmM":
        return False
    return len({value for value in values if isinstance(value, str)}) > _MOST_LEVELS


def _letters(values: Any) -> Floats:
    """The counts of pairs of letters of texts, in so many principal components: texts with a slip stay close."""
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer

    hashed = HashingVectorizer(analyzer="char_wb", ngram_range=(2, 2), n_features=2**12, alternate_sign=False)
    counts = hashed.transform(["" if is_missing(value) else str(value) for value in values])
    return np.asarray(TruncatedSVD(_LETTER_COLUMNS, random_state=0).fit_transform(counts))


def is_discrete(y: Any) -> bool:
    """Whether a target looks like classes: no numbers, two distinct ones, or few distinct whole numbers."""
    target = np.asarray(y)
    if target.dtype.kind not in "iufc":
        return True
    return len(np.unique(target)) <= (_MOST_LEVELS if target.dtype.kind in "iu" else 2)


def standardise(columns: Floats) -> Floats:
    """Columns with mean 0 and standard deviation 1, cut at four deviations; constant columns are left out.

    The array is overwritten: it is among the largest next to the records themselves, and no caller needs it again.
    """
    largest = np.maximum(columns.max(axis=0, initial=0.0), -columns.min(axis=0, initial=0.0))
    centred = np.subtract(columns, columns.mean(axis=0), out=columns)
    scale = centred.std(axis=0)
    varies = scale > 1e-12 * np.maximum(largest, 1.0)
    if not varies.all():
        centred, scale = centred[:, varies], scale[varies]
    centred /= scale
    return np.asarray(np.clip(centred, -_LARGEST, _LARGEST, out=centred))


def _preprocessed(estimator: Any, features: Any, target: Any, n: int) -> Any:
    """The features after the steps of a pipeline before its last one, or as they are."""
    if not hasattr(estimator, "steps"):
        return features
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if not isinstance(estimator, Pipeline) or len(estimator) < 2:
        return features
    transformed = clone(estimator[:-1]).fit_transform(features, target)
    # Steps that draw other records cannot be used here: the columns must belong to these ones.
    return transformed if np.shape(transformed)[:1] == (n,) else features


def _components(columns: Any) -> Floats:
    """Standardised columns, or their leading principal components where there are many."""
    if columns.shape[1] > _WIDE:
        from sklearn.decomposition import TruncatedSVD

        table = columns if hasattr(columns, "tocsr") else standardise(columns)
        return standardise(np.asarray(TruncatedSVD(_MOST_COLUMNS, random_state=0).fit_transform(table)))
    features = standardise(columns)
    if features.shape[1] > _MOST_COLUMNS:
        directions = np.linalg.eigh(features.T @ features)[1][:, ::-1]
        features = standardise(features @ directions[:, :_MOST_COLUMNS])
    return features


def _numeric(table: Any) -> Any:
    """A table of numbers; it stays sparse where it is sparse and wide."""
    if hasattr(table, "toarray"):
        if table.shape[1] > _WIDE:
            return table
        table = table.toarray()
    if hasattr(table, "iloc") and table.ndim == 2:
        columns = [_column(table.iloc[:, j]) for j in range(table.shape[1])]
    else:
        array = np.asarray(table)
        array = array.reshape(len(array), -1)
        if array.dtype.kind in "iub" or (array.dtype.kind == "f" and np.isfinite(array).all()):
            return array.astype(np.float64)
        columns = [_column(column) for column in array.T]
    return np.column_stack(columns) if columns else np.zeros((len(table), 0))


def _column(values: Any) -> Floats:
    """A number, with an indicator of missing ones, or indicators of the most frequent levels."""
    try:
        if hasattr(values, "iloc") and values.dtype.kind in "iufb":  # The missing values of pandas are no floats.
            number = values.to_numpy(dtype=np.float64, na_value=np.nan)
        elif (array := np.asarray(values)).dtype.kind in "mM":
            number = np.where(np.isnat(array), np.nan, array.astype(np.int64).astype(np.float64))
        else:
            if array.dtype.kind == "O":
                # In place of a new array of the values, which would have more columns where values are arrays.
                array = array.copy()
                array[[type(value).__name__ in _MISSING for value in array]] = np.nan
            number = array.astype(np.float64)
    except (TypeError, ValueError):
        _, codes, counts = np.unique([str(value) for value in values], return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[: min(_MOST_LEVELS, max(len(counts) - 1, 1))]
        return np.asarray(codes[:, None] == frequent, dtype=np.float64)
    missing = ~np.isfinite(number)
    if not missing.any():
        return np.asarray(number[:, None])
    middle = 0.0 if missing.all() else float(np.median(number[~missing]))
    return np.column_stack([np.where(missing, middle, number), missing.astype(np.float64)])


def _classes(target: NDArray[Any]) -> Ints:
    """Class of every record, as a number; the rarest classes share the last one."""
    names = target if target.dtype.kind != "O" else target.astype(str)
    along = 0 if target.ndim > 1 else None
    _, codes, counts = np.unique(names, return_inverse=True, return_counts=True, axis=along)
    number = np.empty(len(counts), dtype=np.int64)
    number[np.argsort(-counts, kind="stable")] = np.minimum(np.arange(len(counts)), _MOST_CLASSES - 1)
    return number[codes.ravel()]
