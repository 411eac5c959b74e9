"""Rows of whatever holds one entry per record."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["take_rows"]


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
    # Sparse matrices in coordinates have no rows to index.
    return data[rows] if hasattr(data, "__getitem__") else data.tocsr()[rows]
