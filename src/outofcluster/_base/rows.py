"""Rows of whatever holds one entry per record.

Records as they come: what would be misread without a word is refused, and what can be made usable is converted.

Orders of records by their clusters, in time that grows as the number of records does.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from scipy import sparse

from outofcluster._base.arguments import AnyArray, Codes, as_array, refuse_unhashable, short
from outofcluster._base.exceptions import InputError


def n_rows(name: str, data: Any) -> int:
    """Number of records of an array, a sparse matrix, a data frame or a list."""
    shape = getattr(data, "shape", None)
    if isinstance(shape, tuple) and shape and isinstance(shape[0], int | np.integer):
        return int(shape[0])
    try:
        if isinstance(data, str | bytes | Mapping | Set) or shape == ():
            raise TypeError
        return len(data)
    except Exception:
        must = f"{name} must be an array or a data frame with one row per record"
        raise InputError(f"{must}, got {short(data)}.") from None


def is_plain_array(data: Any) -> bool:
    """Whether data are an array of numpy itself, in memory or mapped from a file, and not one of another meaning."""
    return type(data) in (np.ndarray, np.memmap)


def bytes_per_row(data: Any) -> int:
    """Memory of one record of an array, a sparse matrix, a data frame or a list, roughly."""
    shape = getattr(data, "shape", (1,))
    itemsize = getattr(getattr(data, "dtype", None), "itemsize", 8)
    if sparse.issparse(data):
        return int(data.nnz * (itemsize + 8) / max(shape[0], 1))
    return int(np.prod(shape[1:], dtype=np.int64)) * itemsize


def take_rows(data: Any, rows: Codes) -> Any:
    """Rows of an array, a sparse matrix, a data frame or a series (pandas or polars), or a list."""
    if hasattr(data, "iloc"):
        return data.iloc[rows]
    if isinstance(data, list | tuple):
        return [data[row] for row in rows]
    if is_plain_array(data):
        # Of a file that is mapped into memory, only the pages with these rows are read.
        return np.asarray(data).take(rows, axis=0)
    # Sparse matrices in coordinates have no rows to index.
    return data[rows] if hasattr(data, "__getitem__") else data.tocsr()[rows]


def refuse_masked(name: str, data: Any) -> None:
    """Refuse a masked array, whose mask would be lost on the way to a model."""
    if isinstance(data, np.ma.MaskedArray):
        got = "a masked array; fill what is masked or leave it out"
        raise InputError(f"{name} must be an array without a mask, got {got}.")


def check_records(X: Any) -> Any:
    """Records that a model can be fitted to; whether the model takes them as they are is for the model to say.

    Examples
    --------
    >>> from outofcluster._base.rows import check_records
    >>> check_records(sparse.coo_matrix(np.eye(3))).format
    'csr'
    """
    refuse_masked("X", X)
    n = n_rows("X", X)
    shape: tuple[int, ...] = getattr(X, "shape", (n,))
    if sparse.issparse(X) and len(shape) != 2:
        raise InputError(f"X must have rows and columns, got a sparse array of shape {shape}.")
    if n == 0:
        raise InputError(f"X must hold at least one record, got shape {shape}.")
    if len(shape) > 1 and shape[1] == 0:
        raise InputError(f"X must have at least one column, got shape {shape}.")
    if getattr(getattr(X, "dtype", None), "kind", "") == "c":
        raise InputError("X must hold real numbers, got complex ones.")
    columns = getattr(X, "columns", None)
    if columns is not None and len(set(columns)) < len(columns):
        repeated = next(name for i, name in enumerate(columns) if name in list(columns)[:i])
        raise InputError(f"X must have columns of different names, got {short(repeated)} more than once.")
    # The rows of other formats of sparse matrices cannot be taken.
    return X.tocsr() if sparse.issparse(X) and X.format not in ("csr", "csc") else X


def target_array(y: Any) -> AnyArray:
    """A target as an array with one row per record; what it holds is for the caller to judge.

    Examples
    --------
    >>> from outofcluster._base.rows import target_array
    >>> target_array([[0, 1], [1, 1]]).shape
    (2, 2)
    """
    refuse_masked("y", y)
    if sparse.issparse(y):
        raise InputError("y must be an array or a series, got a sparse matrix; use y.toarray().")
    target = as_array("y must hold one target per record", y, f"{type(y).__name__} of uneven parts")
    if target.ndim not in (1, 2) or target.size == 0:
        raise InputError(f"y must hold one target per record, shape (n,) or (n, outputs), got shape {target.shape}.")
    if target.dtype.kind == "c":
        raise InputError("y must hold labels or real numbers, got complex ones.")
    if target.dtype.kind == "O":
        refuse_unhashable("y", target.ravel().tolist())
    return target


def check_same_order(**named: Any) -> None:
    """Refuse tables with the same labels in their indexes but in another order: rows are matched by position."""
    indexes = [(name, data.index) for name, data in named.items() if hasattr(data, "iloc")]
    for name, index in indexes[1:]:
        first, other = indexes[0]
        if len(index) != len(other) or index.nlevels != other.nlevels or other.equals(index):
            continue
        if index.isin(other).all() and other.isin(index).all():
            got = "the same labels of the index in another order"
            hint = f"use {name}.loc[{first}.index], or {name}.to_numpy() if its rows are in order already"
            raise InputError(f"{name} must have its rows in the order of {first}, got {got}; {hint}.")


# Records from which counting is faster than comparing.
_MANY = 5000


def order_of_codes(codes: Codes) -> Codes:
    """The order that sorts codes, in which equal ones stay as they were: ``numpy.argsort(codes, kind="stable")``.

    Codes are small whole numbers from 0 on, such as those of clusters, so they can be counted instead of compared. That
    is what the transposition of a sparse matrix does, and several times faster than a sort of many records.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster._base.rows import order_of_codes
    >>> order_of_codes(np.array([2, 0, 2, 1]))
    array([1, 3, 0, 2])
    """
    if len(codes) < _MANY:
        return np.argsort(codes, kind="stable")
    ones = np.broadcast_to(np.int8(1), len(codes))
    by_row = sparse.csr_matrix((ones, codes, np.arange(len(codes) + 1)), shape=(len(codes), int(codes.max()) + 1))
    return np.asarray(by_row.tocsc().indices, dtype=np.int64)
