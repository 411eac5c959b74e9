"""Targets and clusters by the name of their column, where the records are a data frame."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import short, shown

__all__ = ["named_clusterings", "named_columns"]


def named_columns(X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Records, targets and clusters, of which the last two may be given as names of columns of the records.

    A column that is named is no feature any more.

    Parameters
    ----------
    X : array, sparse matrix, or data frame
        The records; a data frame (pandas or polars) where a column is named.
    y, groups : array or str
        Targets and clusters, or the names of their columns.

    Returns
    -------
    tuple
        The records without the named columns, the targets, and the clusters.

    Examples
    --------
    >>> import pandas as pd
    >>> from outofcluster.auditing.columns import named_columns
    >>> frame = pd.DataFrame({"age": [31, 60], "ill": [0, 1], "patient": ["a", "b"]})
    >>> X, y, groups = named_columns(frame, "ill", "patient")
    >>> list(X.columns), y.tolist(), groups.tolist()
    (['age'], [0, 1], ['a', 'b'])
    """
    named = {argument: name for argument, name in (("y", y), ("groups", groups)) if isinstance(name, str)}
    if not named:
        return X, y, groups
    for argument, name in named.items():
        _check(argument, name, X)
    if len(named) == 2 and y == groups:
        raise InputError(f"y and groups must name different columns, got {short(y)} for both.")
    left = [name for name in X.columns if name not in named.values()]
    if not left:
        raise InputError(f"X must have columns besides {' and '.join(map(short, named.values()))}, got none.")
    return X[left], X[y] if "y" in named else y, X[groups] if "groups" in named else groups


def named_clusterings(X: Any, clusterings: Any) -> tuple[Any, Any]:
    """Records, and clusters by threshold, of which some may be given as names of columns of the records.

    Parameters
    ----------
    X : array, sparse matrix, or data frame
        The records.
    clusterings : dict, or anything else
        Clusters, or names of columns, by threshold.

    Returns
    -------
    tuple
        The records without the named columns, and the clusters.
    """
    if not isinstance(clusterings, Mapping) or not any(isinstance(name, str) for name in clusterings.values()):
        return X, clusterings
    named = [name for name in clusterings.values() if isinstance(name, str)]
    for name in named:
        _check("groups_by_threshold", name, X)
    read = {key: X[value] if isinstance(value, str) else value for key, value in clusterings.items()}
    return X[[name for name in X.columns if name not in named]], read


def _check(argument: str, name: str, X: Any) -> None:
    if not hasattr(X, "columns"):
        raise InputError(
            f"{argument} must be an array, or the name of a column where X is a data frame, got {short(name)} and X of "
            f"type {type(X).__name__}."
        )
    columns = [str(column) for column in X.columns]
    count = sum(column == name for column in X.columns)
    if count == 1:
        return
    if count > 1:
        raise InputError(f"{argument} must name one column of X, got {short(name)}, which {count} columns are called.")
    near = difflib.get_close_matches(name, columns, n=1, cutoff=0.5)
    near = near or [other for other in columns if other.lower() == name.lower()]
    hint = f"; did you mean {short(near[0])}?" if near else f"; there are {shown(columns)}."
    raise InputError(f"{argument} must be a column of X, got {short(name)}{hint}")
