r"""Which records train and which are held out: folds, and clustering errors made on purpose.

`make_folds` turns any description of a cross-validation into checked pairs T̂, V̂ of row indices. It insists that no
observed cluster has records on both sides: leakage must come from errors of the clustering, since that is what is
corrected, never from the splitter.

`simulate_leakage` makes such errors at a wanted rate. Records of the giving side (V for "to_train", T for
"to_validation") move independently with probability q; the expected share of the receiving side that they make up is

.. math:: p_0 = \frac{q M}{R + q M}, \qquad\text{so}\qquad q = \frac{p_0 R}{(1-p_0) M} ,

with R the records of the receiving side and M = those of the giving side. For fragments, q is the probability that
a cluster of s ≥ 2 records is cut; the moving piece has 1 to s-1 records, each size as likely as another, s/2 on
average, so :math:`M = \sum_{s \ge 2} s/2`. (It is the ratio of the expectations; the mean of the realised share
differs from it by a term of order 1/R.)
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._validation import check_choice, check_integer, check_number, first_missing
from outofcluster.errors import InputError

__all__ = [
    "Clusters",
    "Fold",
    "SimulatedLeakage",
    "check_fold",
    "label_array",
    "make_folds",
    "read_pairs",
    "simulate_leakage",
]

Rows = NDArray[np.int64]

_DEFAULT_FOLDS = 5


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the records.

    Attributes
    ----------
    index : int
        Place among the folds, from 0.
    train, validation : array of int
        Rows of T̂ and of V̂.
    """

    index: int
    train: Rows
    validation: Rows


def make_folds(X: Any, y: Any, groups: Any, cv: Any = None) -> tuple[Fold, ...]:
    """Folds that keep every observed cluster on one side.

    Parameters
    ----------
    X : array, sparse matrix or frame of n records
        Only its number of rows is used, except by a splitter that looks at it.
    y : array of shape (n,) or (n, outputs), or None
        Targets, for splitters that stratify.
    groups : array of shape (n,)
        Observed cluster of every record: numbers, strings, anything that can be told apart.
    cv : int, splitter or iterable, optional
        Number of folds of a ``GroupKFold``, a scikit-learn splitter (called with X, y and groups), or pairs of row
        indices (train, test). By default a ``GroupKFold`` with 5 folds, or as many as there are clusters if fewer.

    Returns
    -------
    tuple of Fold

    Examples
    --------
    >>> from outofcluster.split import make_folds
    >>> folds = make_folds(np.zeros((5, 1)), None, ["ann", "ann", "bob", "cid", "cid"], cv=3)
    >>> [fold.validation.tolist() for fold in folds]
    [[3, 4], [0, 1], [2]]
    """
    n = _n_records("X", X)
    clusters = Clusters.of(groups, n)
    if y is not None and _n_records("y", y) != n:
        raise InputError(f"y must have one value for each of the {n} records of X, got {_n_records('y', y)}.")
    folds = tuple(check_fold(i, pair, clusters) for i, pair in enumerate(read_pairs(X, y, clusters, cv)))
    if not folds:
        raise InputError("cv must give at least one pair of train and test rows, got none.")
    return folds


def read_pairs(X: Any, y: Any, clusters: Clusters, cv: Any) -> list[Any]:
    """The pairs of rows that a splitter, a number or an iterable stands for, not yet checked."""
    wanted = "None, a number of folds, a splitter or an iterable of (train, test) row indices"
    splitter = cv
    if cv is None or isinstance(cv, int | float | np.number | np.bool_):
        from sklearn.model_selection import GroupKFold

        most = len(clusters.names)
        number = min(_DEFAULT_FOLDS, most) if cv is None else check_integer("cv", cv, least=2, most=most)
        splitter = GroupKFold(number)
    if hasattr(splitter, "split") and not isinstance(splitter, str | type):
        with warnings.catch_warnings():
            # What this warns of is refused below, with the cluster named, if it matters.
            warnings.filterwarnings("ignore", message="The groups parameter is ignored")
            try:
                return list(splitter.split(X, y, clusters.sortable))
            except (ValueError, TypeError) as error:
                raise InputError(f"cv must be able to split these records, but {cv!r} says: {error}") from error
    if isinstance(cv, str | bytes | type) or not isinstance(cv, Iterable):
        raise InputError(f"cv must be {wanted}, got {cv!r}.")
    return list(cv)


def check_fold(i: int, pair: Any, clusters: Clusters) -> Fold:
    """A fold whose rows exist, are on one side each, and split no cluster."""
    if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise InputError(f"cv must give pairs (train, test) of row indices, got {type(pair).__name__} as fold {i}.")
    n = len(clusters.codes)
    train, validation = (_check_rows(i, side, rows, n) for side, rows in zip(("train", "test"), pair, strict=True))
    # Marks instead of sorts: folds of many clusters are checked in one pass each.
    both = validation[_marked(train, n)[validation]]
    if len(both):
        raise InputError(f"cv must not train and test on the same record, got row {both[0]} on both sides of fold {i}.")
    marked = [_marked(clusters.codes[rows], len(clusters.names)) for rows in (train, validation)]
    shared = np.flatnonzero(marked[0] & marked[1])
    if len(shared):
        raise InputError(
            f"cv must keep every cluster on one side, got records of cluster {clusters.names[shared[0]]!r} on both "
            f"sides of fold {i}; use a splitter for groups such as GroupKFold."
        )
    return Fold(i, train, validation)


def _marked(codes: Rows, n: int) -> NDArray[np.bool_]:
    marked = np.zeros(n, dtype=bool)
    marked[codes] = True
    return marked


def _check_rows(i: int, side: str, rows: Any, n: int) -> Rows:
    given = np.asarray(rows)
    if given.ndim != 1 or len(given) == 0:
        raise InputError(f"cv must give at least one {side} row a fold, got shape {given.shape} in fold {i}.")
    if given.dtype.kind not in "iu":
        raise InputError(f"cv must give row indices, whole numbers, got {given.dtype} as {side} rows of fold {i}.")
    outside = (given < 0) | (given >= n)
    if outside.any():
        raise InputError(f"cv must give rows between 0 and {n - 1}, got {side} row {given[outside][0]} in fold {i}.")
    if _marked(given, n).sum() < len(given):
        raise InputError(f"cv must give every row at most once a side, got repeated {side} rows in fold {i}.")
    return given.astype(np.int64)


@dataclass(frozen=True, eq=False)
class SimulatedLeakage:
    """A clustering with errors, and the split that it leads to.

    Attributes
    ----------
    groups : array of shape (n,)
        Observed, partly wrong, cluster of every record.
    train, validation : array of int
        Rows of T̂ and V̂.
    moved : array of bool of shape (n,)
        Records on the wrong side.
    rate : float
        Realised share of T̂ that truly belongs to validation clusters (p0); for "to_validation", of V̂ that truly
        belongs to training clusters.
    validation_rate : float
        Realised share of V̂'s records whose true cluster also has records in T̂ (rho0).
    """

    groups: NDArray[Any]
    train: Rows
    validation: Rows
    moved: NDArray[np.bool_]
    rate: float
    validation_rate: float


def simulate_leakage(
    groups: Any,
    validation_groups: Any,
    rate: float,
    *,
    of: Literal["train", "validation", "moved"] = "train",
    direction: Literal["to_train", "to_validation"] = "to_train",
    unit: Literal["records", "fragments"] = "records",
    random_state: int | None = None,
) -> SimulatedLeakage:
    """Put records on the wrong side of a split at a wanted rate, as a wrong clustering would.

    Parameters
    ----------
    groups : array of shape (n,)
        True cluster of every record.
    validation_groups : array
        The clusters that are held out.
    rate : float
        How much leaks; see ``of``.
    of : {"train", "validation", "moved"}, default="train"
        What ``rate`` is a share of. "train" (with direction "to_train"): the expected share of T̂ that truly belongs to
        validation clusters. "validation" (with direction "to_validation"): the expected share of V̂ that truly belongs
        to training clusters. "moved": the probability with which a record moves, or a cluster is cut.
    direction : {"to_train", "to_validation"}, default="to_train"
        Side on which the records wrongly end up.
    unit : {"records", "fragments"}, default="records"
        "records": single records move, and take the label of a random cluster of the other side. "fragments": a cluster
        of at least two records is cut in two, and one piece moves, with a label of its own.
    random_state : int, optional
        Seed.

    Returns
    -------
    SimulatedLeakage

    Examples
    --------
    >>> from outofcluster.split import simulate_leakage
    >>> hospital = np.repeat(["A", "B", "C", "D"], 250)
    >>> split = simulate_leakage(hospital, ["D"], rate=0.1, random_state=0)
    >>> len(split.train), len(split.validation), round(split.rate, 3)
    (823, 177, 0.089)
    >>> bool((hospital[split.moved] == "D").all()), sorted(set(split.groups[split.moved].tolist()))
    (True, ['A', 'B', 'C'])
    """
    check_choice("of", of, ("train", "validation", "moved"))
    check_choice("direction", direction, ("to_train", "to_validation"))
    check_choice("unit", unit, ("records", "fragments"))
    clusters = Clusters.of(groups, None)
    held_out = _held_out(clusters, validation_groups)
    if of not in ("moved", direction.removeprefix("to_")):
        raise InputError(
            f"of must be {direction.removeprefix('to_')!r} or 'moved' for direction {direction!r}, got {of!r}."
        )
    seed = None if random_state is None else check_integer("random_state", random_state, least=0)
    rng = np.random.default_rng(np.random.SeedSequence(seed))

    gives = held_out if direction == "to_train" else ~held_out
    giving = gives[clusters.codes]
    sizes = np.bincount(clusters.codes)
    cut = gives & (sizes >= 2)
    if unit == "fragments" and not cut.any():
        raise InputError("groups must hold a cluster of at least two records on the giving side for unit 'fragments'.")
    most = int(giving.sum()) if unit == "records" else float(sizes[cut].sum() / 2)
    q = _probability(rate, of, most, int((~giving).sum()))

    names: list[Any] = clusters.names
    if unit == "records":
        moved = giving & (rng.random(len(giving)) < q)
        receiving = np.flatnonzero(~gives)
        codes = np.where(moved, rng.choice(receiving, size=len(giving)), clusters.codes)
    else:
        # The records of a cluster in random order, of which the first few move.
        piece = np.where(cut & (rng.random(len(sizes)) < q), rng.integers(1, np.maximum(sizes, 2)), 0)
        order = np.lexsort((rng.random(len(giving)), clusters.codes))
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order)) - (np.cumsum(sizes) - sizes)[clusters.codes[order]]
        moved = place < piece[clusters.codes]
        fresh = np.cumsum(piece > 0) - 1 + len(sizes)
        codes = np.where(moved, fresh[clusters.codes], clusters.codes)
        names = names + _new_names(names, np.flatnonzero(piece > 0), clusters.labels.dtype.kind)
    if moved.sum() == giving.sum():
        raise InputError(
            f"rate must leave records on the giving side, got {rate:g}, at which all {most:g} of them moved."
        )

    trains = ~held_out[clusters.codes] ^ moved
    train, validation = np.flatnonzero(trains), np.flatnonzero(~trains)
    received = train if direction == "to_train" else validation
    return SimulatedLeakage(
        groups=_array(names, clusters.labels.dtype.kind)[codes],
        train=train,
        validation=validation,
        moved=moved,
        rate=float(moved[received].mean()),
        validation_rate=float(np.isin(clusters.codes[validation], clusters.codes[train]).mean()),
    )


def _probability(rate: float, of: str, most: float, receiving: int) -> float:
    """The probability of moving that gives the wanted rate; ``most`` records are expected to move at probability 1."""
    wanted = check_number("rate", rate, least=0)
    if of == "moved":
        if wanted > 1:
            raise InputError(f"rate must be a probability between 0 and 1, got {wanted:g}.")
        return wanted
    largest = most / (receiving + most)
    if wanted > largest:
        raise InputError(f"rate must be at most {largest:.6g}, the share when all that can move does, got {wanted:g}.")
    return min(1.0, wanted * receiving / ((1 - wanted) * most))


def _held_out(clusters: Clusters, validation_groups: Any) -> NDArray[np.bool_]:
    """For each cluster, whether it is one of the validation clusters."""
    place = {name: i for i, name in enumerate(clusters.names)}
    held_out = np.zeros(len(place), dtype=bool)
    single = isinstance(validation_groups, str) or not isinstance(validation_groups, Iterable)
    for name in [validation_groups] if single else validation_groups:
        if name not in place:
            raise InputError(f"validation_groups must hold clusters of groups, got {name!r}, which is none of them.")
        held_out[place[name]] = True
    if not held_out.any() or held_out.all():
        count = f"{int(held_out.sum())} of {len(place)}"
        raise InputError(
            f"validation_groups must leave clusters for validation and for training, got {count} clusters."
        )
    return held_out


def _new_names(names: list[Any], cut: Rows, kind: str) -> list[Any]:
    """A label that is not used yet for each cluster that was cut: the next number, or "patient 7 (2)"."""
    if kind in "biuf":
        return [max(names) + 1 + i for i in range(len(cut))]
    used, fresh = set(names), []
    for c in cut:
        number = 2
        while (name := f"{names[c]} ({number})") in used:
            number += 1
        used.add(name)
        fresh.append(name)
    return fresh


def _array(names: list[Any], kind: str) -> NDArray[Any]:
    """Labels as an array of the kind they came in; objects stay the objects they are."""
    if kind in "biufU":
        return np.asarray(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


@dataclass(frozen=True, eq=False)
class Clusters:
    """Checked groups: the label of every record, its cluster as a number, and the clusters' labels."""

    labels: NDArray[Any]
    codes: Rows
    names: list[Any]
    sortable: NDArray[Any]
    """The labels, or their numbers where labels cannot be ordered: what a splitter can work with."""

    @classmethod
    def of(cls, groups: Any, n: int | None) -> Clusters:
        """Clusters of checked labels; n is how many there must be, where that is known."""
        if groups is None:
            raise InputError("groups must give the cluster of every record, got None.")
        labels = label_array(groups)
        if labels.ndim != 1 or (n is not None and len(labels) != n):
            wanted = "one label a record" if n is None else f"one label for each of the {n} records"
            raise InputError(f"groups must hold {wanted}, got shape {labels.shape}.")
        row = first_missing(labels)
        if row is not None:
            raise InputError(f"groups must not have missing labels, got groups[{row}] = {labels[row]}.")
        try:
            unique, codes = np.unique(labels, return_inverse=True)
            names, sortable = unique.tolist(), labels
        except TypeError:
            numbers: dict[Any, int] = {}
            codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
            names, sortable = list(numbers), codes
        if len(names) < 2:
            raise InputError(f"groups must hold at least two clusters, got {len(names)} over {len(labels)} records.")
        return cls(labels, codes.astype(np.int64), names, sortable)


def label_array(groups: Any) -> NDArray[Any]:
    """Labels as an array that keeps their types."""
    if hasattr(groups, "dtype"):
        return np.asarray(groups)
    try:
        array = np.asarray(groups)
    except ValueError:
        raise InputError(f"groups must hold one label a record, got {type(groups).__name__} of uneven parts.") from None
    # In a list, a number or NaN next to a string would become a string, and be taken for a label.
    if array.dtype.kind in "US" and not all(isinstance(label, str | bytes) for label in groups):
        return np.asarray(groups, dtype=object)
    return array


def _n_records(name: str, values: Any) -> int:
    shape = getattr(values, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[0])
    try:
        return len(values)
    except TypeError:
        raise InputError(f"{name} must hold one row a record, got {type(values).__name__}.") from None
