"""Targets and clusters by the name of their column, and clusterings of the same records at several linkage thresholds.

A linkage joins the records of every pair whose probability reaches the threshold. With a higher threshold there are
fewer links, so clusters can only fall apart: the clustering at the higher threshold is a refinement of that at the
lower one. Where this does not hold, the records are in another order, or the thresholds are mixed up.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import short, shown
from outofcluster._base.exceptions import InputError
from outofcluster.problem.folds import check_labels, label_codes


def named_columns(X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Records, targets and clusters, of which the last two may be given as names of columns of the records.

    A column that is named is no feature any more.

    Examples
    --------
    >>> import pandas as pd
    >>> from outofcluster.problem.columns import named_columns
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
    """Records, and clusters by threshold, of which some may be given as names of columns of the records."""
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


# A number, or a column of splink that ends with one: cluster_p_0_95 is the clustering at 0.95.
_NAME = re.compile(r"(?:[A-Za-z]+_)*(-?\d+(?:[._]\d+)?)")


def read_clusterings(groups_by_threshold: Any, n: int | None) -> dict[float, NDArray[Any]]:
    """The groups by threshold, from the lowest to the highest.

    Examples
    --------
    >>> from outofcluster.problem.columns import read_clusterings
    >>> sorted(read_clusterings({"0.9": ["a", "b"], 0.5: ["a", "a"]}, 2))
    [0.5, 0.9]
    """
    named = groups_by_threshold
    if hasattr(named, "columns") and hasattr(named, "__getitem__"):
        named = {name: named[name] for name in named.columns}
    if not isinstance(named, Mapping) or not named:
        got = "none" if isinstance(named, Mapping) else type(named).__name__
        raise InputError(
            "groups_by_threshold must be a dict of groups by threshold, or a data frame whose columns are thresholds, "
            f"got {got}."
        )
    read = by_threshold("groups_by_threshold", named)
    checked = {
        threshold: check_labels(f"groups_by_threshold[{threshold:g}]", read[threshold], n) for threshold in sorted(read)
    }
    for (low, loose), (high, tight) in pairwise(checked.items()):
        if len(loose) != len(tight):
            raise InputError(
                f"groups_by_threshold must hold as many labels at every threshold, got {len(loose)} at {low:g} and "
                f"{len(tight)} at {high:g}."
            )
        _check_nested(low, loose, high, tight)
    return checked


def by_threshold(name: str, values: Mapping[Any, Any]) -> dict[float, Any]:
    """The values of a mapping whose keys are thresholds, each threshold once."""
    read = dict[float, Any]()
    for key, value in values.items():
        threshold = _number(name, key)
        if threshold in read:
            raise InputError(f"{name} must hold every threshold once, got {threshold:g} more than once.")
        read[threshold] = value
    return read


def _number(name: str, key: Any) -> float:
    threshold = math.nan
    if isinstance(key, str):
        match = _NAME.fullmatch(key.strip())
        threshold = float(match[1].replace("_", ".")) if match else math.nan
    elif isinstance(key, int | float | np.number) and not isinstance(key, bool):
        threshold = float(key)
    if not math.isfinite(threshold):
        raise InputError(f"{name} must have thresholds as keys, numbers such as 0.9, got {short(key)}.")
    return threshold


def _check_nested(low: float, loose: NDArray[Any], high: float, tight: NDArray[Any]) -> None:
    """Refuse two records that are together at the higher threshold and apart at the lower one."""
    outer, inner = label_codes(loose)[0], label_codes(tight)[0]
    first = np.zeros(inner.max() + 1, dtype=np.int64)
    first[inner[::-1]] = np.arange(len(inner))[::-1]  # The first record of each cluster, which is written last.
    apart = np.flatnonzero(outer != outer[first[inner]])
    if len(apart):
        one, other = int(first[inner[apart[0]]]), int(apart[0])
        raise InputError(
            f"groups_by_threshold must be nested, but records {one} and {other} are in one cluster at threshold "
            f"{high:g} and in two at {low:g}, although a higher threshold can only split clusters."
        )
