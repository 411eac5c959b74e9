"""Orders of records by their clusters, in time that grows as the number of records does."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

__all__ = ["in_increasing_order", "order_of_codes"]

Codes = NDArray[np.int64]

_MANY = 5000
"""Records from which counting is faster than comparing."""


def order_of_codes(codes: Codes) -> Codes:
    """The order that sorts codes, in which equal ones stay as they were: ``numpy.argsort(codes, kind="stable")``.

    Codes are small whole numbers from 0 on, such as those of clusters, so they can be counted instead of compared. That
    is what the transposition of a sparse matrix does, and several times faster than a sort of many records.

    Parameters
    ----------
    codes : array of int of shape (n,)
        Numbers from 0 on, few of which are missing.

    Returns
    -------
    array of int of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster._base.ordering import order_of_codes
    >>> order_of_codes(np.array([2, 0, 2, 1]))
    array([1, 3, 0, 2])
    """
    if len(codes) < _MANY:
        return np.argsort(codes, kind="stable")
    ones = np.broadcast_to(np.int8(1), len(codes))
    by_row = sparse.csr_matrix((ones, codes, np.arange(len(codes) + 1)), shape=(len(codes), int(codes.max()) + 1))
    order: Codes = by_row.tocsc().indices.astype(np.int64)
    return order


def in_increasing_order(rows: Codes) -> Codes:
    """Distinct row numbers in increasing order: ``numpy.sort(rows)``, by marks instead of comparisons.

    Parameters
    ----------
    rows : array of int of shape (n,)
        Row numbers from 0 on, each at most once.

    Returns
    -------
    array of int of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster._base.ordering import in_increasing_order
    >>> in_increasing_order(np.array([4, 0, 2]))
    array([0, 2, 4])
    """
    marked = np.zeros(int(rows.max()) + 1 if len(rows) else 0, dtype=bool)
    marked[rows] = True
    return np.flatnonzero(marked)
