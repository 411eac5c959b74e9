"""Rows of whatever holds one entry per record."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import short

__all__ = ["bytes_per_row", "is_plain_array", "n_rows", "take_rows"]


def n_rows(name: str, data: Any) -> int:
    """Number of records of an array, a sparse matrix, a data frame or a list.

    Parameters
    ----------
    name : str
        The argument that held the data, for the message.
    data : array, sparse matrix, data frame, series or list
        One entry per record.

    Returns
    -------
    int
    """
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape and isinstance(shape[0], int | np.integer):
        return int(shape[0])
    try:
        if isinstance(data, str | bytes | Mapping | Set) or shape == ():
            raise TypeError
        return len(data)
    except Exception:
        raise InputError(
            f"{name} must be an array or a data frame with one row per record, got {short(data)}."
        ) from None


def is_plain_array(data: Any) -> bool:
    """Whether data are an array of numpy itself, in memory or mapped from a file, and not one of another meaning.

    Parameters
    ----------
    data : object
        Anything.

    Returns
    -------
    bool
    """
    return type(data) in (np.ndarray, np.memmap)


def bytes_per_row(data: Any) -> int:
    """Memory of one record of an array, a sparse matrix, a data frame or a list, roughly.

    Parameters
    ----------
    data : array, sparse matrix, data frame, series or list
        One entry per record.

    Returns
    -------
    int
        Texts and other objects count as their addresses.
    """
    shape = getattr(data, "shape", (1,))
    itemsize = getattr(getattr(data, "dtype", None), "itemsize", 8)
    if sparse.issparse(data):
        return int(data.nnz * (itemsize + 8) / max(shape[0], 1))
    return int(np.prod(shape[1:], dtype=np.int64)) * itemsize


def take_rows(data: Any, rows: NDArray[np.int64]) -> Any:
    """Rows of an array, a sparse matrix, a data frame or a series (pandas or polars), or a list.

    Parameters
    ----------
    data : array, sparse matrix, data frame, series or list
        One entry per record.
    rows : array of int
        Row numbers.

    Returns
    -------
    same type as data
        These rows.
    """
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, list | tuple):
        return [data[row] for row in rows]
    if is_plain_array(data):
        # Of a file that is mapped into memory, only the pages with these rows are read.
        return np.asarray(data).take(rows, axis=0)
    # Sparse matrices in coordinates have no rows to index.
    return data[rows] if hasattr(data, "__getitem__") else data.tocsr()[rows]
