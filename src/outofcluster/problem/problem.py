"""What is fitted and scored: the estimator, the records, the loss, checked once before any model is fitted.

A `Task` is shared by everything that fits models of one audit (the user's own folds, random folds, the test for a
cluster effect, and the resamples of every fold and size), so that data are checked once and digests are made once.

Targets and clusters may be given as names of columns, and clusters at several thresholds of a linkage. With a higher
threshold there are fewer links, so clusters can only fall apart: the clustering at the higher threshold is a refinement
of that at the lower one. Where this does not hold, the records are in another order, or the thresholds are mixed up.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from outofcluster._base.arguments import AnyArray, Array, Codes, as_array, short, shown
from outofcluster._base.exceptions import InputError, described
from outofcluster._base.rows import check_records, check_same_order, n_rows, refuse_masked, take_rows
from outofcluster.metrics.base import Metric
from outofcluster.metrics.resolve import check_weight, is_a, resolve_metrics
from outofcluster.problem.folds import Clusters, check_labels, label_codes

# Workers on one machine; larger numbers are mistakes, and would end in errors of the system.
_MOST_WORKERS = 10_000
# Numbers that are looked at in one go.
_CHUNK = 1 << 18


@dataclass(frozen=True, eq=False)
class Task:
    """A checked problem.

    Attributes
    ----------
    estimator : estimator
        Never fitted itself, only its clones.
    X, y : array, sparse matrix, or data frame; array
        Records and targets.
    clusters : array of int or None
        Number of the observed cluster of every record, where clusters are known.
    metrics : tuple of Metric
        How fitted models are scored; the first decides how fits are spent.
    params : dict
        Parameters of ``fit``.
    score_weight : array or None
        Weight of every record in scoring.
    cluster_names : tuple of str
        Names of the observed clusters, by their numbers.
    """

    estimator: Any
    X: Any
    y: Any
    clusters: Codes | None
    metrics: tuple[Metric, ...]
    params: dict[str, Any]
    score_weight: Array | None = None
    cluster_names: tuple[str, ...] = ()

    @classmethod
    def check(cls, estimator: Any, X: Any, y: Any, *, groups: Any = None, params: Any = None, **scored: Any) -> Self:
        """Check the arguments against each other; others are ``score_weight`` and those of `resolve_metrics`."""
        X, score_weight = check_records(X), scored.pop("score_weight", None)
        if params is not None and not isinstance(params, Mapping):
            raise InputError(f"params must be a dict of parameters of fit, got {type(params).__name__}.")
        of_fit = {f"params[{short(name)}]": value for name, value in (params or {}).items()}
        check_same_order(X=X, y=y, groups=groups, score_weight=score_weight, **of_fit)
        metrics = resolve_metrics(estimator, y, **scored)
        if score_weight is not None:
            metrics = tuple(metric.weighted() for metric in metrics)
        check_cloneable("estimator", estimator)
        n_records = n_rows("X", X)
        if n_rows("y", y) != n_records:
            raise InputError(f"y must have one value for each of the {n_records} records of X, got {n_rows('y', y)}.")
        clusters = None if groups is None else Clusters.of(groups, n_records)
        for name, value in of_fit.items():
            refuse_masked(name, value)
        for name, value in (params or {}).items():
            _check_fit_weight(name, value, n_records)
        weight = check_weight(score_weight, n_records)
        codes = None if clusters is None else clusters.codes
        names = () if clusters is None else tuple(map(str, clusters.names))
        return cls(estimator, X, y, codes, metrics, dict(params or {}), weight, names)

    def __getstate__(self) -> dict[str, Any]:
        # Workers compute what they need from the data themselves, so that no second copy is sent to them. They need
        # no names.
        sent = {name: value for name, value in vars(self).items() if name not in ("dense", "description")}
        return sent | {"cluster_names": ()}

    @property
    def n_records(self) -> int:
        """Number of records."""
        return n_rows("X", self.X)

    @cached_property
    def classifier(self) -> bool:
        """Whether the estimator predicts classes."""
        return is_a("classifier", self.estimator)

    @property
    def printed(self) -> str:
        """The estimator as scikit-learn prints it, in one line."""
        return " ".join(repr(self.estimator).split())

    @cached_property
    def description(self) -> dict[str, Any]:
        """What a file of samples must know about the task: digests of the data, the estimator, the loss."""
        words = {"estimator": self.printed, "loss": ", ".join(metric.name for metric in self.metrics)}
        data = {"X": self.X, "y": self.y, "groups": self.clusters, "parameters": self.estimator, "params": self.params}
        if self.score_weight is not None:
            data["score_weight"] = self.score_weight
        return words | {name: digest(value) for name, value in data.items()}

    @cached_property
    def is_matrix(self) -> bool:
        """Whether the records are a matrix of finite numbers, found out without a second copy of them."""
        shape: Any = getattr(self.X, "shape", ())
        if len(shape) != 2 or not (isinstance(self.X, np.ndarray) or hasattr(self.X, "to_numpy")):
            return False
        length = max(1, _CHUNK // max(int(shape[1]), 1))
        for start in range(0, int(shape[0]), length):
            part = self.X[start : start + length]
            part = part if isinstance(part, np.ndarray) else part.to_numpy()
            if part.dtype.kind not in "biuf" or not np.isfinite(part).all():
                return False
        return True

    def numbers(self, rows: Codes) -> NDArray[np.float64]:
        """Some of the records as a matrix, where they are one."""
        return _matrix(take_rows(self.X, rows))

    @cached_property
    def dense(self) -> NDArray[np.float64] | None:
        """The records as a matrix of finite numbers, such as a compiled kernel needs; None where they are not."""
        return _matrix(self.X) if self.is_matrix else None


def _matrix(X: Any) -> NDArray[np.float64]:
    return np.ascontiguousarray(X.to_numpy() if hasattr(X, "to_numpy") else X, dtype=float)


def identity_columns(X: Any, identity: Any) -> tuple[Any, Any]:
    """Records, and what tells who is who: a table, an array, or names of columns of the records.

    Columns that are named are no features any more.

    Examples
    --------
    >>> import pandas as pd
    >>> from outofcluster.problem.problem import identity_columns
    >>> frame = pd.DataFrame({"age": [31, 60], "born": [1990, 1961]})
    >>> X, identity = identity_columns(frame, ["born"])
    >>> list(X.columns), list(identity.columns)
    (['age'], ['born'])
    """
    if identity is None:
        return X, None
    names = [identity] if isinstance(identity, str) else identity
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        for name in names:
            _check_column("identity", name, X)
        left = [name for name in X.columns if name not in names]
        if not left:
            raise InputError(f"X must have columns besides those of identity, got {shown(names)} alone.")
        return X[left], X[list(names)]
    refuse_masked("identity", identity)
    if sparse.issparse(identity):
        raise InputError("identity must be a table or an array, got a sparse matrix; use identity.toarray().")
    table = identity if hasattr(identity, "columns") else as_array("identity must be a table or an array", identity)
    n_records = n_rows("X", X)
    if len(table.shape) not in (1, 2) or table.shape[0] != n_records or 0 in table.shape:
        shape = " by ".join(map(str, table.shape)) or short(identity)
        raise InputError(f"identity must have one row for each of the {n_records} records of X, got {shape}.")
    check_same_order(X=X, identity=identity)
    return X, table


def named_columns(X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Records, targets and clusters, of which the last two may be given as names of columns of the records.

    A column that is named is no feature any more.

    Examples
    --------
    >>> import pandas as pd
    >>> from outofcluster.problem.problem import named_columns
    >>> frame = pd.DataFrame({"age": [31, 60], "ill": [0, 1], "patient": ["a", "b"]})
    >>> X, y, groups = named_columns(frame, "ill", "patient")
    >>> list(X.columns), y.tolist(), groups.tolist()
    (['age'], [0, 1], ['a', 'b'])
    """
    named = {argument: name for argument, name in (("y", y), ("groups", groups)) if isinstance(name, str)}
    for argument, name in named.items():
        _check_column(argument, name, X)
    if not named:
        return X, y, groups
    if len(named) == 2 and y == groups:
        raise InputError(f"y and groups must name different columns, got {short(y)} for both.")
    left = [name for name in X.columns if name not in named.values()]
    if not left:
        raise InputError(f"X must have columns besides {' and '.join(map(short, named.values()))}, got none.")
    return X[left], X[y] if "y" in named else y, X[groups] if "groups" in named else groups


def named_groups(X: Any, clusterings: Any) -> tuple[Any, Any]:
    """Records, and clusters by threshold, of which some may be given as names of columns of the records."""
    named = [name for name in clusterings.values() if isinstance(name, str)] if isinstance(clusterings, Mapping) else []
    if not named:
        return X, clusterings
    for name in named:
        _check_column("groups_by_threshold", name, X)
    read = {key: X[value] if isinstance(value, str) else value for key, value in clusterings.items()}
    return X[[name for name in X.columns if name not in named]], read


def _check_column(argument: str, name: str, X: Any) -> None:
    if not hasattr(X, "columns"):
        must = f"{argument} must be an array, or the name of a column where X is a data frame"
        raise InputError(f"{must}, got {short(name)} and X of type {type(X).__name__}.")
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


def read_clusterings(groups_by_threshold: Any, n: int | None) -> dict[float, AnyArray]:
    """The groups by threshold, from the lowest to the highest.

    Examples
    --------
    >>> from outofcluster.problem.problem import read_clusterings
    >>> sorted(read_clusterings({"0.9": ["a", "b"], 0.5: ["a", "a"]}, 2))
    [0.5, 0.9]
    """
    named = groups_by_threshold
    if hasattr(named, "columns") and hasattr(named, "__getitem__"):
        named = {name: named[name] for name in named.columns}
    if not isinstance(named, Mapping) or not named:
        got = "none" if isinstance(named, Mapping) else type(named).__name__
        must = "a dict of groups by threshold, or a data frame whose columns are thresholds"
        raise InputError(f"groups_by_threshold must be {must}, got {got}.")
    read = by_threshold("groups_by_threshold", named)
    checked = {at: check_labels(f"groups_by_threshold[{at:g}]", read[at], n) for at in sorted(read)}
    for (low, loose), (high, tight) in pairwise(checked.items()):
        if len(loose) != len(tight):
            got = f"{len(loose)} at {low:g} and {len(tight)} at {high:g}"
            raise InputError(f"groups_by_threshold must hold as many labels at every threshold, got {got}.")
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


def _check_nested(low: float, loose: AnyArray, high: float, tight: AnyArray) -> None:
    """Refuse two records that are together at the higher threshold and apart at the lower one."""
    outer, inner = label_codes(loose)[0], label_codes(tight)[0]
    first = np.unique(inner, return_index=True)[1]  # The first record of each cluster.
    apart = np.flatnonzero(outer != outer[first[inner]])
    if len(apart):
        one, other = int(first[inner[apart[0]]]), int(apart[0])
        got = f"records {one} and {other} are in one cluster at threshold {high:g} and in two at {low:g}"
        why = "although a higher threshold can only split clusters"
        raise InputError(f"groups_by_threshold must be nested, but {got}, {why}.")


def _check_fit_weight(name: Any, value: Any, n_records: int) -> None:
    """Refuse weights of another length than the records, also those of a step of a pipeline, before any fit."""
    if str(name).rpartition("__")[2] != "sample_weight" or value is None or np.ndim(value) == 0:
        return
    if n_rows(f"params[{short(name)}]", value) != n_records:
        must = f"params[{short(name)}] must have one weight for each of the {n_records} records"
        raise InputError(f"{must}, got {n_rows('sample_weight', value)}.")


def check_cloneable(name: str, estimator: Any) -> None:
    """Refuse what scikit-learn cannot clone; ``name`` is the argument it came in."""
    from sklearn.base import clone

    try:
        clone(estimator)
    except Exception as error:
        got = f"{type(estimator).__name__}: {described(error)}"
        raise InputError(f"{name} must be one that scikit-learn can clone, got {got}") from None


def check_n_jobs(n_jobs: Any) -> None:
    """Refuse what is neither None nor a whole number other than 0, and more workers than any machine can start."""
    if n_jobs is None:
        return
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int | np.integer) or n_jobs == 0:
        raise InputError(f"n_jobs must be None or a whole number other than 0, got {short(n_jobs)}.")
    if abs(int(n_jobs)) > _MOST_WORKERS:
        raise InputError(f"n_jobs must be at most {_MOST_WORKERS:,}, got {short(n_jobs)}.")


def digest(data: Any) -> str:
    """A digest of data or parameters; their printed form where they cannot be pickled, such as a lambda."""
    import joblib

    try:
        return str(joblib.hash(data))
    except Exception:
        return repr(data)
