"""From the text of a file to a matrix of features."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from outofcluster._base.arguments import Array

MISSING = "missing"
"""The category of values that were not recorded."""


def read_rows(content: bytes, separator: str = ",") -> Iterator[list[str]]:
    """The fields of every line that is not blank."""
    return (line.split(separator) for line in content.decode().splitlines() if line)


def read_numbers(contents: Iterable[bytes], dtype: DTypeLike = float) -> NDArray[Any]:
    """The rows of files that hold numbers with commas between them, one file after another."""
    return np.vstack([np.loadtxt(io.BytesIO(content), delimiter=",", dtype=dtype) for content in contents])


def feature_matrix(
    columns: Sequence[tuple[str, Sequence[str]]], categories: Mapping[str, Mapping[str, str] | None]
) -> tuple[Array, tuple[str, ...]]:
    """Numbers as they are, and one column of 0 and 1 for each value that a categorical column takes.

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
