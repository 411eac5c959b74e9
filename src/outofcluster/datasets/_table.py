"""From columns of text to a matrix of features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.validation import Array

__all__ = ["MISSING", "feature_matrix", "read_rows"]

MISSING = "missing"
"""The category of what was not recorded."""


def read_rows(content: bytes, separator: str = ",") -> Iterator[list[str]]:
    """The fields of every line that is not blank."""
    return (line.split(separator) for line in content.decode().splitlines() if line)


def feature_matrix(
    columns: Sequence[tuple[str, Sequence[str]]], categories: Mapping[str, Mapping[str, str] | None]
) -> tuple[Array, tuple[str, ...]]:
    """Numbers as they are, and one column of 0 and 1 for each value that a categorical column takes.

    Parameters
    ----------
    columns : sequence of (name, values)
        In the order wanted.
    categories : dict
        The categorical columns. Values are translated by the dict given for a column, and are their own names for None;
        ``?`` becomes ``missing``. Columns follow the dict's order, or that of the alphabet; ``missing`` comes last.

    Returns
    -------
    matrix : array of shape (n, features)
    names : tuple of str

    Examples
    --------
    >>> from outofcluster.datasets._table import feature_matrix
    >>> sex = ("sex", ["0", "1", "?"])
    >>> matrix, names = feature_matrix([("age", ["63", "28", "40"]), sex], {"sex": {"0": "female", "1": "male"}})
    >>> names
    ('age', 'sex=female', 'sex=male', 'sex=missing')
    >>> matrix
    array([[63.,  1.,  0.,  0.],
           [28.,  0.,  1.,  0.],
           [40.,  0.,  0.,  1.]])
    """
    parts: list[NDArray[np.float64]] = []
    names: list[str] = []
    for name, values in columns:
        if name not in categories:
            parts.append(np.array(values, dtype=float)[:, None])
            names.append(name)
            continue
        taken = set(values)
        labels = categories[name] or {value: value for value in sorted(taken - {"?"})}
        # A value that no record has would be a column of zeros.
        coded = {value: label for value, label in {**labels, "?": MISSING}.items() if value in taken}
        if taken - set(coded):
            raise ValueError(f"{name} has values without a name: {sorted(taken - set(coded))}")
        parts.append((np.array(values)[:, None] == np.array(list(coded))).astype(float))
        names += [f"{name}={label}" for label in coded.values()]
    return np.hstack(parts), tuple(names)
