"""Records as they come: what would be misread without a word is refused, and what can be made usable is converted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import n_rows
from outofcluster._base.validation import refuse_unhashable, short

__all__ = ["check_records", "check_same_order", "refuse_masked", "target_array"]

_WITH_ROWS = ("csr", "csc")
"""Formats of sparse matrices whose rows can be taken."""


def refuse_masked(name: str, data: Any) -> None:
    """Refuse a masked array, whose mask would be lost on the way to a model.

    Parameters
    ----------
    name : str
        The argument that held the data.
    data : object
        Anything.
    """
    if isinstance(data, np.ma.MaskedArray):
        raise InputError(
            f"{name} must be an array without a mask, got a masked array; fill what is masked or leave it out."
        )


def check_records(X: Any) -> Any:
    """Records that a model can be fitted to; whether the model takes them as they are is for the model to say.

    Parameters
    ----------
    X : array, sparse matrix, data frame or list
        One row per record.

    Returns
    -------
    array, sparse matrix, data frame or list
        The same, except that sparse matrices without rows to take are turned into compressed rows.

    Examples
    --------
    >>> from outofcluster._base.records import check_records
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
    return X.tocsr() if sparse.issparse(X) and X.format not in _WITH_ROWS else X


def target_array(y: Any) -> NDArray[Any]:
    """A target as an array with one row per record; what it holds is for the caller to judge.

    Parameters
    ----------
    y : array, series, data frame or list
        One entry, or one row, per record.

    Returns
    -------
    array of shape (n,) or (n, outputs)

    Examples
    --------
    >>> from outofcluster._base.records import target_array
    >>> target_array([[0, 1], [1, 1]]).shape
    (2, 2)
    """
    refuse_masked("y", y)
    if sparse.issparse(y):
        raise InputError("y must be an array or a series, got a sparse matrix; use y.toarray().")
    try:
        target = np.asarray(y)
    except Exception:
        raise InputError(f"y must hold one target per record, got {type(y).__name__} of uneven parts.") from None
    if target.ndim not in (1, 2) or target.size == 0:
        raise InputError(f"y must hold one target per record, shape (n,) or (n, outputs), got shape {target.shape}.")
    if target.dtype.kind == "c":
        raise InputError("y must hold labels or real numbers, got complex ones.")
    if target.dtype.kind == "O":
        refuse_unhashable("y", target.ravel().tolist())
    return target


def check_same_order(**named: Any) -> None:
    """Refuse tables with the same labels in their indexes but in another order: rows are matched by position.

    Parameters
    ----------
    **named : object
        The arguments by name; those without an index do not matter.
    """
    indexes = [(name, data.index) for name, data in named.items() if hasattr(data, "iloc")]
    for name, index in indexes[1:]:
        first, other = indexes[0]
        if len(index) != len(other) or index.nlevels != other.nlevels or other.equals(index):
            continue
        if index.isin(other).all() and other.isin(index).all():
            raise InputError(
                f"{name} must have its rows in the order of {first}, got the same labels of the index in another "
                f"order; use {name}.loc[{first}.index], or {name}.to_numpy() if its rows are in order already."
            )
