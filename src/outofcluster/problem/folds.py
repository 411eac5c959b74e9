"""Which records train and which are held out: folds that keep every observed cluster on one side.

`make_folds` turns any description of a cross-validation into checked pairs T̂, V̂ of row indices. It refuses folds in
which an observed cluster has records on both sides: leakage must come from errors of the clustering, which can be
corrected, and never from the splitter.

**Giant clusters.** A linkage joins two records if their probability reaches a threshold. The lower the threshold, the
more chains form, and below some threshold most chains meet in one cluster that holds a large part of all records, as
the giant component of a random graph does. Such a cluster is no entity: it sits on one side of every split, and takes
its fold for itself.

A cluster is a giant if it holds half of all records, or if it holds a fifth of them (a whole fold of five) and is more
than twenty times as large as the others are on average. So a hospital with 40 % of the patients is none, where five
hospitals share them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import as_array, check_integer, first_missing, refuse_unhashable, short
from outofcluster._base.exceptions import InputError, described
from outofcluster._base.rows import n_rows, order_of_codes, refuse_masked

Rows = NDArray[np.int64]
T = TypeVar("T")

DEFAULT_FOLDS = 5
# Number of held-out clusters from which, and records per cluster up to which, they look like linked entities.
_MANY_CLUSTERS, _SMALL_CLUSTER = 10, 20
# Clusters from which on a part of the data is made of whole ones.
_WHOLE_CLUSTERS = 1000


class Fold:
    """One split of the records.

    Attributes
    ----------
    index : int
        Place among the folds, from 0.
    train, validation : array of int
        Rows of T̂ and of V̂. Where T̂ is everything else of n records, the fold is made of n in the place of its rows;
        they are listed when they are asked for and not kept, so that thousands of folds of a large table fit into
        memory.
    """

    def __init__(self, index: int, train: Any, validation: Rows) -> None:
        self.index, self.validation, self._train = index, validation, train
        self._kept: dict[str, Any] = {}

    def shared(self, name: str, compute: Callable[[], T]) -> T:
        """What is computed once for the fold and shared by everything that samples it."""
        if name not in self._kept:
            self._kept[name] = compute()
        value: T = self._kept[name]
        return value

    def forget(self) -> None:
        """Drop what was computed once, when nothing samples the fold any more."""
        self._kept.clear()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kept": {}}

    def without(self, left_out: NDArray[np.bool_]) -> Fold:
        """The same fold without some of its training records."""
        if isinstance(self._train, int):
            return Fold(self.index, ~left_out & ~_marked(self.validation, self._train), self.validation)
        return Fold(self.index, self.train[~left_out[self.train]], self.validation)

    @property
    def train(self) -> Rows:
        """Rows of T̂."""
        if isinstance(self._train, int):
            return np.flatnonzero(~_marked(self.validation, self._train))
        return np.asarray(np.flatnonzero(self._train) if self._train.dtype == bool else self._train)

    @property
    def n_train(self) -> int:
        """Number of records of T̂."""
        return self._train - len(self.validation) if isinstance(self._train, int) else len(self.train)


def make_folds(X: Any, y: Any, groups: Any, cv: Any = None) -> tuple[Fold, ...]:
    """Folds that keep every observed cluster on one side.

    Examples
    --------
    >>> from outofcluster.problem.folds import make_folds
    >>> folds = make_folds(np.zeros((5, 1)), None, ["ann", "ann", "bob", "cid", "cid"], cv=3)
    >>> [fold.validation.tolist() for fold in folds]
    [[3, 4], [0, 1], [2]]
    """
    n = n_rows("X", X)
    clusters = Clusters.of(groups, n)
    if y is not None and n_rows("y", y) != n:
        raise InputError(f"y must have one value for each of the {n} records of X, got {n_rows('y', y)}.")
    return read_folds(X, y, clusters, cv)


def read_folds(X: Any, y: Any, clusters: Clusters, cv: Any) -> tuple[Fold, ...]:
    """Checked folds of clusters that are known already; X and y may be None where ``cv`` holds pairs of rows."""
    if type(cv).__name__ == "LeaveOneGroupOut" and type(cv).__module__.startswith("sklearn."):
        # One sort of the clusters gives all folds.
        order, ends = order_of_codes(clusters.codes), np.cumsum(np.bincount(clusters.codes))
        return tuple(Fold(i, len(order), rows) for i, rows in enumerate(np.split(order, ends[:-1])))
    with warnings.catch_warnings():
        # A splitter that ignores groups is refused, with the cluster named, if it splits one.
        warnings.filterwarnings("ignore", message="The groups parameter is ignored")
        folds = tuple(_check_fold(i, pair, clusters) for i, pair in enumerate(_read_pairs(X, y, clusters, cv)))
    if not folds:
        raise InputError("cv must give at least one pair of train and test rows, got none.")
    return folds


def is_splitter(cv: Any) -> bool:
    """Whether ``cv`` is an object that splits, rather than its class, a number or pairs of rows."""
    return hasattr(cv, "split") and not isinstance(cv, str | type)


def looks_linked(clusters_by_fold: Sequence[Rows]) -> bool:
    """Whether the held-out clusters look like linked entities rather than like hospitals or countries.

    They do if every V̂ has at least ten clusters that could be cut, and their median size is twenty records or fewer.
    """
    cuttable = [sizes[sizes > 1] for sizes in map(np.bincount, clusters_by_fold)]
    many = min(map(len, cuttable)) >= _MANY_CLUSTERS
    return many and float(np.median(np.concatenate(cuttable))) <= _SMALL_CLUSTER


def _read_pairs(X: Any, y: Any, clusters: Clusters, cv: Any) -> Iterable[Any]:
    """The pairs of rows that a splitter, a number or an iterable stands for, not yet checked."""
    splitter = cv
    if cv is None or isinstance(cv, int | float | np.number | np.bool_):
        from sklearn.model_selection import GroupKFold

        most = len(clusters.names)
        number = min(DEFAULT_FOLDS, most) if cv is None else check_integer("cv", cv, least=2)
        if number > most:
            raise InputError(f"cv must be at most the number of clusters, got {number}; {_counted(clusters, y)}")
        splitter = GroupKFold(number)
    if is_splitter(splitter):
        return _split(splitter, X, y, clusters, cv)
    if isinstance(cv, str | bytes | type) or not isinstance(cv, Iterable):
        allowed = "None, a number of folds, a splitter or an iterable of (train, test) row indices"
        raise InputError(f"cv must be {allowed}, got {short(cv)}.")
    try:
        return list(cv)
    except Exception as error:
        raise InputError(f"cv must give pairs of train and test rows, but says: {described(error)}") from error


def _counted(clusters: Clusters, y: Any) -> str:
    """How many clusters there are, and whether the targets look like what the clusters should have been."""
    words, values = f"groups has {len(clusters.names)} clusters", np.asarray(y)
    different = len(np.unique(values.astype(str))) if values.ndim == 1 else 0
    # Targets that are clusters have many values, each of which occurs several times.
    if len(clusters.names) < different <= len(values) / 2:
        return f"{words}, and the target has {different} different values: are the two swapped?"
    return f"{words}."


def _split(splitter: Any, X: Any, y: Any, clusters: Clusters, cv: Any) -> Iterator[Any]:
    """The pairs of a splitter one by one, since many folds of a large table do not fit into memory together."""
    try:
        yield from splitter.split(X, y, clusters.sortable)
    except Exception as error:
        raise InputError(f"cv must be able to split these records, but {short(cv)} says: {described(error)}") from error


def _check_fold(i: int, pair: Any, clusters: Clusters) -> Fold:
    """A fold whose rows exist, are on one side each, and split no cluster."""
    if isinstance(pair, str | bytes) or not hasattr(pair, "__len__") or len(pair) != 2:
        raise InputError(f"cv must give pairs (train, test) of row indices, got {type(pair).__name__} as fold {i}.")
    n = len(clusters.codes)
    train, validation = (_check_rows(i, side, rows, n) for side, rows in zip(("train", "test"), pair, strict=True))
    # Marks instead of sorts: folds of many clusters are checked in one pass each.
    both = validation[_marked(train, n)[validation]]
    if len(both):
        raise InputError(f"cv must not train and test on the same record, got row {both[0]} on both sides of fold {i}.")
    trains, held_out = (_marked(clusters.codes[rows], len(clusters.names)) for rows in (train, validation))
    shared = np.flatnonzero(trains & held_out)
    if len(shared):
        got = f"records of cluster {short(clusters.names[shared[0]])} on both sides of fold {i}"
        hint = "use a splitter for groups such as GroupKFold"
        raise InputError(f"cv must keep every cluster on one side, got {got}; {hint}.")
    is_the_rest = len(train) + len(validation) == n and (n < 2 or (train[1:] > train[:-1]).all())
    return Fold(i, n if is_the_rest else train, validation)


def _marked(codes: Rows, n: int) -> NDArray[np.bool_]:
    """Which of the numbers below n occur among these."""
    return np.asarray(np.bincount(codes, minlength=n) > 0)


def _check_rows(i: int, side: str, rows: Any, n: int) -> Rows:
    try:
        array = np.asarray(rows)
    except Exception:
        raise InputError(f"cv must give row indices, whole numbers, got {short(rows)} in fold {i}.") from None
    if array.ndim != 1 or len(array) == 0:
        raise InputError(f"cv must give at least one {side} row per fold, got shape {array.shape} in fold {i}.")
    if array.dtype.kind not in "iu":
        raise InputError(f"cv must give row indices, whole numbers, got {array.dtype} as {side} rows of fold {i}.")
    outside = (array < 0) | (array >= n)
    if outside.any():
        raise InputError(f"cv must give rows between 0 and {n - 1}, got {side} row {array[outside][0]} in fold {i}.")
    if _marked(array, n).sum() < len(array):
        raise InputError(f"cv must give every row at most once per side, got repeated {side} rows in fold {i}.")
    return array.astype(np.int64)


@dataclass(frozen=True, eq=False)
class Clusters:
    """Checked groups: the label of every record, the number of its cluster, and the label of each cluster."""

    labels: NDArray[Any]
    codes: Rows
    names: list[Any]
    # The labels, or their numbers where labels cannot be ordered, as splitters need them.
    sortable: NDArray[Any]

    @classmethod
    def of(cls, groups: Any, n: int | None) -> Clusters:
        """Clusters of checked labels; n is how many labels there must be, where that is known."""
        labels = check_labels("groups", groups, n)
        codes, names, ordered = label_codes(labels)
        if len(names) < 2:
            raise InputError(f"groups must hold at least two clusters, got {len(names)} over {len(labels)} records.")
        return cls(labels, codes, names, labels if ordered else codes)


def label_codes(labels: NDArray[Any]) -> tuple[Rows, list[Any], bool]:
    """The number of every label, the labels by their numbers, and whether labels can be ordered."""
    if labels.dtype.kind in "iu" and len(labels) and labels.min() >= 0 and labels.max() < 4 * len(labels):
        # Whole numbers that are not much larger than their count can be counted, which is faster than a sort of them.
        names, codes = renumbered(labels.astype(np.int64))
        return codes, names.tolist(), True
    try:
        unique, codes = np.unique(labels, return_inverse=True)
    except TypeError:
        return *in_order_of_occurrence(labels.tolist()), False
    return codes.astype(np.int64), unique.tolist(), True


def in_order_of_occurrence(labels: Iterable[Any]) -> tuple[Rows, list[Any]]:
    """The number of every label, in the order in which they first occur, and the labels by their numbers."""
    numbers: dict[Any, int] = {}
    codes = np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)
    return codes, list(numbers)


def count_clusters(codes: Rows) -> int:
    """How many different clusters these records belong to."""
    return int(np.count_nonzero(np.bincount(codes)))


def some_records(rows: Rows, codes: Rows, most: int, rng: np.random.Generator) -> Rows:
    """These rows, or where there are too many of them a random part, in increasing order.

    The part is made of whole clusters where a thousand of them or more fit in, else of single records.
    """
    if len(rows) <= most:
        return rows
    sizes = np.bincount(codes[rows])
    if most * np.count_nonzero(sizes) < _WHOLE_CLUSTERS * len(rows):
        return np.sort(rng.choice(rows, most, replace=False))
    order = rng.permutation(np.flatnonzero(sizes))
    kept = _marked(order[np.cumsum(sizes[order]) <= most], len(sizes))
    return np.asarray(rows[kept[codes[rows]]])


def renumbered(codes: Rows) -> tuple[Rows, Rows]:
    """The distinct numbers that occur among these, in their order, and the place of each one's number among them.

    The same as ``numpy.unique`` with ``return_inverse``, without a sort: codes of clusters are small numbers from 0 on.
    """
    occurs = np.bincount(codes) > 0
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[codes]


def check_labels(name: str, labels: Any, n: int | None) -> NDArray[Any]:
    """One label per record, none missing, as an array that keeps their types; n is the number of records, if known."""
    if labels is None:
        raise InputError(f"{name} must give the cluster of every record, got None.")
    refuse_masked(name, labels)
    array = as_array(f"{name} must hold one label per record", labels, f"{type(labels).__name__} of uneven parts")
    # In a list, a number or NaN next to a string would become a string, and be taken for a label.
    became_strings = not hasattr(labels, "dtype") and array.dtype.kind in "US"
    if became_strings and not all(isinstance(label, str | bytes) for label in labels):
        array = np.asarray(labels, dtype=object)
    if array.ndim != 1 or (n is not None and len(array) != n):
        wanted = "one label per record" if n is None else f"one label for each of the {n} records"
        raise InputError(f"{name} must hold {wanted}, got shape {array.shape}.")
    if (row := first_missing(array)) is not None:
        raise InputError(f"{name} must not have missing labels, got {name}[{row}] = {array[row]}.")
    if array.dtype.kind == "O":
        refuse_unhashable(name, array.tolist())
    return array


_HALF, _FOLD, _TIMES_OTHERS = 0.5, 0.2, 20


@dataclass(frozen=True)
class ClusterSizes:
    """Sizes of observed clusters in short.

    Attributes
    ----------
    n_records, n_clusters : int
        Number of records, and of clusters.
    largest : int
        Records of the largest cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.problem.folds import ClusterSizes
    >>> sizes = ClusterSizes.of(np.array([0, 0, 0, 1, 2]))
    >>> sizes.share, sizes.is_giant
    (0.6, True)
    """

    n_records: int
    n_clusters: int
    largest: int

    @classmethod
    def of(cls, codes: NDArray[np.int64]) -> ClusterSizes:
        """The sizes of clusters."""
        counts = np.bincount(codes)
        return cls(len(codes), int((counts > 0).sum()), int(counts.max()))

    @property
    def share(self) -> float:
        """Share of the records that the largest cluster holds."""
        return self.largest / self.n_records

    @property
    def is_giant(self) -> bool:
        """Whether the largest cluster is a giant."""
        others = (self.n_records - self.largest) / max(self.n_clusters - 1, 1)
        return self.share >= _HALF or (self.share >= _FOLD and self.largest > _TIMES_OTHERS * others)
