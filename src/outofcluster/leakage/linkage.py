r"""What linkage tools give, in the order of the data: pairs with probabilities, and the cluster of every record.

- splink: frames ``predictions`` (``unique_id_l``, ``unique_id_r``, ``match_probability``, with ``source_dataset_l`` and
  ``source_dataset_r`` where several tables were linked) and ``clusters`` (``cluster_id``, ``unique_id``), in any order.
- recordlinkage: a Series of probabilities with an index of two levels; it makes no clusters but connected components.
- dedupe: a structured array with the fields ``pairs`` and ``score``, and clusters as tuples of names.

None of the tools is imported: their results are frames and arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from outofcluster._base.arguments import Array, as_array, check_share, check_vector, listed, short, shown
from outofcluster._base.exceptions import InputError
from outofcluster.leakage.blocking import capture_recapture
from outofcluster.leakage.splits import Split, read_names, read_split, same_index
from outofcluster.problem.folds import Clusters, Rows, in_order_of_occurrence

# Row numbers are doubted if so many pairs are so likely, and more than this share of them lies across clusters.
_LIKELY, _MANY_LIKELY, _MOSTLY = 0.95, 20, 0.9


@dataclass(frozen=True, eq=False)
class Linkage:
    """What a linkage gives: pairs by the names of their records, and the cluster of every record."""

    left: Any
    right: Any
    probability: Any
    groups: Any
    # The name of every record in the order of ``groups``; None where pairs are named by row numbers.
    ids: Any = None
    blocking_recall: Any = None
    # Whether the clusters are a tool's, and not the user's own.
    by_tool: bool = True
    calibrated: bool = True


@dataclass(frozen=True, eq=False)
class Pairs:
    """Checked pairs of records, each once: rows, probabilities, and the clusters of all records."""

    one: Rows
    two: Rows
    m: Array
    # Position of each pair among those that the user listed.
    position: Rows
    codes: Rows
    # How many pairs were listed that name records which are not in the data.
    outside: int = 0

    @property
    def across(self) -> NDArray[np.bool_]:
        """Which pairs lie between two approximate clusters."""
        return np.asarray(self.codes[self.one] != self.codes[self.two])

    @property
    def of_clusters(self) -> tuple[Rows, Rows, Array]:
        """Pairs of clusters, each once, in order, and the largest probability of their pairs of records."""
        across = self.across
        one, two, m = self.codes[self.one[across]], self.codes[self.two[across]], self.m[across]
        low, high = np.minimum(one, two), np.maximum(one, two)
        order = np.lexsort((-m, high, low))
        low, high, m = low[order], high[order], m[order]
        first = (np.diff(low, prepend=-1) != 0) | (np.diff(high, prepend=-1) != 0)
        return low[first], high[first], m[first]


def read_pairs(linkage: Linkage, cv: Any) -> tuple[Pairs, Split]:
    """Checked pairs, each once, and the validation share or the splits."""
    clusters = Clusters.of(linkage.groups, None)
    n, left, right = len(clusters.codes), linkage.left, linkage.right
    same_index(("left", left), ("right", right), ("probability", linkage.probability))
    m = check_vector("probability", linkage.probability)
    if m.min() < 0 or m.max() > 1:
        i = int(np.flatnonzero((m < 0) | (m > 1))[0])
        raise InputError(f"probability must lie in [0, 1], got probability[{i}] = {m[i]:g}.")
    if linkage.ids is None:
        one, two = _check_records("left", left, len(m), n), _check_records("right", right, len(m), n)
        kept = np.arange(len(m))
    else:
        row_of = read_ids(linkage.ids, n)
        one, two = (_find(name, names, len(m), row_of) for name, names in (("left", left), ("right", right)))
        kept = np.flatnonzero((one >= 0) & (two >= 0))
        if not len(kept):
            raise InputError(
                f"ids must name linked records, got {short(next(iter(row_of)))} and others, of which no pair names two."
            )
    pairs = _each_once(one[kept], two[kept], m[kept], clusters.codes)
    pairs = replace(pairs, position=kept[pairs.position], outside=len(m) - len(kept))
    split = read_split(cv, clusters)
    across = pairs.across
    if not across.any():
        raise InputError(
            f"probability must list pairs across clusters, got {len(m)} pairs that are all inside one: they are links, "
            "and what leaks are the pairs below the threshold; ask the tool for pairs down to small probabilities."
        )
    likely = pairs.m >= _LIKELY
    if linkage.ids is None and likely.sum() >= _MANY_LIKELY and across[likely].mean() > _MOSTLY:
        raise InputError(
            f"left and right must hold row numbers where ids is None, but {int((likely & across).sum())} of the "
            f"{int(likely.sum())} pairs with probability {_LIKELY:g} or more lie across clusters; "
            "give ids=, if need be the row numbers."
        )
    return pairs, split


def _each_once(one: Rows, two: Rows, m: Array, codes: Rows) -> Pairs:
    """Each pair once, without records paired with themselves; other probabilities for the same pair are refused."""
    position = np.flatnonzero(one != two)
    low, high = np.minimum(one, two)[position], np.maximum(one, two)[position]
    _, first, pair = np.unique(low * len(codes) + high, return_index=True, return_inverse=True)
    before = position[first][pair]
    other = np.flatnonzero(m[position] != m[before])
    if len(other):
        i = other[np.argmin(pair[other])]
        raise InputError(
            f"probability must be the same wherever a pair is listed, got {m[before[i]]:g} in row {before[i]} and "
            f"{m[position[i]]:g} in row {position[i]} for the same two records."
        )
    kept = np.sort(position[first])
    return Pairs(one[kept], two[kept], m[kept], kept, codes)


def _check_records(name: str, rows: Any, count: int, n: int) -> Rows:
    """Row numbers of records; columns whose name says that they hold names instead are refused."""
    column = str(getattr(rows, "name", "") or "")
    if "id" in column.lower().split("_"):
        raise InputError(
            f"ids must be given, the name of every record in the data's order, since the pairs are named by "
            f"the column {short(column)}, and not by row numbers."
        )
    must = f"{name} must hold one row number for each of {count} pairs"
    array = as_array(must, rows)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise InputError(f"{must}, got {array.dtype} {array.shape}; for other names of records give ids=.")
    if array.min() < 0 or array.max() >= n:
        raise InputError(
            f"{name} must hold rows between 0 and {n - 1}, got {array[(array < 0) | (array >= n)][0]}; "
            "for other names of records give ids=."
        )
    return array.astype(np.int64)


def read_ids(ids: Any, n: int | None) -> dict[Any, int]:
    """The row of every record by its name; names that are missing or occur twice are refused."""
    names = read_names("ids", ids, n)
    if not names:
        raise InputError("ids must name at least one record, got none.")
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) < len(names):
        twice = next(name for row, name in enumerate(names) if row_of[name] != row)
        raise InputError(f"ids must name every record once, got {short(twice)} several times.")
    return row_of


def _find(name: str, values: Any, count: int, row_of: dict[Any, int]) -> Rows:
    """Rows of the records that are named; -1 for linked records that are not in the data."""
    names = read_names(name, values, None)
    if len(names) != count:
        raise InputError(f"{name} must name one record for each of {count} pairs, got {len(names)}.")
    return np.fromiter((row_of.get(each, -1) for each in names), dtype=np.int64, count=count)


def read_splink(predictions: Any, clusters: Any, ids: Any, blocking_rules: Any) -> Linkage:
    """What splink gives; see :meth:`outofcluster.Leakage.from_splink` for the arguments."""
    pairs, nodes = _frame("predictions", predictions), _frame("clusters", clusters)
    # splink's settings may change the name of the unique id to a column of the data.
    column = getattr(ids, "name", None)
    if not isinstance(column, str) or f"{column}_l" not in pairs.columns:
        column = "unique_id"
    _check_columns("predictions", pairs, [f"{column}_l", f"{column}_r", "match_probability"])
    _check_columns("clusters", nodes, ["cluster_id", column])
    row_of = read_ids(ids, None)
    first = next(iter(row_of))
    several_tables = "source_dataset" in nodes.columns and isinstance(first, tuple)
    if several_tables:
        _check_columns("predictions", pairs, ["source_dataset_l", "source_dataset_r"])

    def named(table: Any, side: str = "") -> list[Any]:
        names: list[Any] = table[column + side].tolist()
        return list(zip(table["source_dataset" + side].tolist(), names, strict=True)) if several_tables else names

    clustered = named(nodes)
    if not several_tables and len(set(clustered)) < len(clustered):
        raise InputError(
            "ids must be pairs (source_dataset, unique_id) where the same unique id occurs in several tables, "
            f"got {short(first)}."
        )
    probability = check_vector("match_probability", pairs["match_probability"])
    recall = None
    if blocking_rules is not None:
        recall = capture_recapture(which_rules("predictions", pairs, blocking_rules), np.clip(probability, 0, 1))
    groups = _labels(row_of, dict(zip(clustered, nodes["cluster_id"].tolist(), strict=True)))
    return Linkage(named(pairs, "_l"), named(pairs, "_r"), probability, groups, list(row_of), recall)


def read_recordlinkage(
    probabilities: Any, clusters: Any, ids: Any, threshold: Any, blocking_rules: Any, records: Any
) -> Linkage:
    """What recordlinkage gives; see :meth:`outofcluster.Leakage.from_recordlinkage` for the arguments."""
    index: Any = getattr(probabilities, "index", None)
    if getattr(index, "nlevels", 0) != 2:
        raise InputError(
            f"probabilities must be a Series with an index of two levels, the records of each pair, "
            f"got {type(probabilities).__name__}."
        )
    row_of = read_ids(ids, None)
    left, right = index.get_level_values(0).tolist(), index.get_level_values(1).tolist()
    probability = check_vector("probabilities", probabilities)
    if clusters is None:
        if threshold is None:
            raise InputError("clusters must be given, or threshold, from which pairs are links, got None for both.")
        groups = _components(row_of, left, right, probability >= check_share("threshold", threshold))
    elif threshold is not None:
        raise InputError("threshold must be None where clusters are given.")
    elif isinstance(clusters, Mapping) or (hasattr(clusters, "items") and hasattr(clusters, "index")):
        groups = _labels(row_of, dict(clusters.items()))
    elif isinstance(clusters, list | tuple) and len(clusters) and getattr(clusters[0], "nlevels", 0) == 2:
        # Connected components: the links of each.
        groups = _numbers(row_of, [{name for pair in links for name in pair} for links in clusters])
    else:
        must = f"clusters must hold one label for each of the {len(row_of)} ids"
        groups = as_array(must, clusters)
        if groups.shape != (len(row_of),):
            raise InputError(f"{must}, got shape {groups.shape}.")
    recall = None
    if blocking_rules is not None:
        recall = capture_recapture(_rules_of_records(records, left, right, blocking_rules), np.clip(probability, 0, 1))
    elif records is not None:
        raise InputError("records must be left out where blocking_rules is not given.")
    return Linkage(left, right, probability, groups, list(row_of), recall)


def _rules_of_records(records: Any, left: list[Any], right: list[Any], blocking_rules: Any) -> NDArray[np.bool_]:
    """Which blocking rules each pair satisfies, by the fields of the records."""
    table = _frame("records", records)
    unknown = next((name for names in (left, right) for name in names if name not in table.index), None)
    if unknown is not None or not table.index.is_unique:
        raise InputError(
            "records must have an index that names every compared record once, "
            f"got {'a name several times' if unknown is None else f'none for {short(unknown)}'}."
        )
    one, two = (
        table.loc[names].reset_index(drop=True).add_suffix(side) for names, side in ((left, "_l"), (right, "_r"))
    )
    return which_rules("records", one.join(two), blocking_rules)


def read_dedupe(scores: Any, clusters: Any, ids: Any) -> Linkage:
    """What dedupe gives; see :meth:`outofcluster.Leakage.from_dedupe` for the arguments."""
    fields = getattr(getattr(scores, "dtype", None), "names", None) or ()
    if not {"pairs", "score"} <= set(fields):
        raise InputError(
            f"scores must be an array with the fields 'pairs' and 'score', as deduper.score gives it, "
            f"got {short(scores)}."
        )
    row_of = read_ids(ids, None)
    try:
        members = [set(listed("clusters", names)) for names, _ in clusters]
    except Exception:
        raise InputError(
            "clusters must be pairs of record names and confidences, as deduper.cluster gives them, "
            f"got {short(clusters)}."
        ) from None
    probability = check_vector("score", np.array(scores["score"], dtype=float))
    pairs, groups = np.array(scores["pairs"]), _numbers(row_of, members)
    return Linkage(pairs[:, 0].tolist(), pairs[:, 1].tolist(), probability, groups, list(row_of), calibrated=False)


def _frame(name: str, table: Any) -> Any:
    """A pandas frame of a SplinkDataFrame, or the frame itself."""
    for method in ("as_pandas_dataframe", "to_pandas"):
        if hasattr(table, method):
            table = getattr(table, method)()
    if not hasattr(table, "columns"):
        raise InputError(f"{name} must be a SplinkDataFrame or a frame, got {short(table)}.")
    return table


def _check_columns(name: str, table: Any, wanted: Sequence[str]) -> None:
    missing = [column for column in wanted if column not in table.columns]
    if missing:
        raise InputError(f"{name} must have the column {missing[0]!r}, got {shown(table.columns)}.")


def which_rules(name: str, pairs: Any, blocking_rules: Any) -> NDArray[np.bool_]:
    """Which blocking rules each pair of a table satisfies, by the columns that are equal on both sides."""
    rules = [blocking_rules] if isinstance(blocking_rules, str) else listed("blocking_rules", blocking_rules)
    if not rules:
        raise InputError("blocking_rules must hold the rules that made the pairs, got none.")
    caught: NDArray[np.bool_] = np.ones((len(pairs), len(rules)), dtype=bool)
    for equal, rule in zip(caught.T, rules, strict=True):
        for column in [rule] if isinstance(rule, str) else listed("blocking_rules", rule):
            _check_columns(name, pairs, [f"{column}_l", f"{column}_r"])
            one, two = pairs[f"{column}_l"], pairs[f"{column}_r"]
            equal &= ((one == two) & one.notna() & two.notna()).to_numpy(dtype=bool)
    satisfied = caught.any(axis=1)
    if not satisfied.all():
        raise InputError(
            "blocking_rules must be all the rules that made the pairs, got a list of which "
            f"{int((~satisfied).sum())} of {len(caught)} pairs satisfy none."
        )
    return caught


def _labels(names: Iterable[Any], label_of: Mapping[Any, Any]) -> NDArray[Any]:
    """The label of every record's cluster; records without one are refused."""
    missing = next((name for name in names if name not in label_of), None)
    if missing is not None:
        raise InputError(f"clusters must have every record of ids, got none for {short(missing)}.")
    labels = [label_of[name] for name in names]
    return np.array(labels) if len({type(label) for label in labels}) == 1 else np.array(labels, dtype=object)


def _numbers(names: Iterable[Any], members: Sequence[set[Any]]) -> NDArray[Any]:
    """The number of every record's cluster, in the order of the data; records in none are clusters of their own."""
    cluster_of: dict[Any, Any] = {}
    for number, cluster in enumerate(members):
        for name in cluster:
            if cluster_of.setdefault(name, number) != number:
                raise InputError(f"clusters must hold every record once, got {short(name)} in two of them.")
    return in_order_of_occurrence(cluster_of.get(name, (name,)) for name in names)[0]


def _components(row_of: Mapping[Any, int], left: list[Any], right: list[Any], linked: Any) -> NDArray[Any]:
    """Records joined along links, also by way of records that are not in the data, as numbers in their order."""
    number_of = dict(row_of)
    for name in (*left, *right):
        number_of.setdefault(name, len(number_of))
    ends = np.array([[number_of[name] for name in names] for names in (left, right)], dtype=np.int64)[:, linked]
    graph = coo_array((np.ones(ends.shape[1]), ends), shape=[len(number_of)] * 2)
    component = connected_components(graph, directed=False)[1][: len(row_of)]
    return in_order_of_occurrence(component.tolist())[0]
