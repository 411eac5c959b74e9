r"""Clusters that somebody looked up: which other observed clusters are the same entity.

**A draw by design.** The variance of a difference estimate is least where clusters are drawn in proportion to
:math:`\sqrt{e_c}`, with :math:`e_c` the expected square of what an answer about cluster c changes
(:mod:`outofcluster.errormodels.pieces`): the more, the more records it has and the less sure it is who its mates are. A
quarter of the draw is uniform, so that no cluster is hardly ever drawn. Of n out of K clusters

.. math:: π_c = n \Bigl[\frac{1}{4K} + \frac34 \frac{\sqrt{e_c}}{\sum_b \sqrt{e_b}}\Bigr] ,

where probabilities above 1 become 1 and the others grow in proportion. The draw is systematic, over the clusters in a
random order, so that it has exactly n of them; these are listed in another random order.

**A review list** names clusters in the order of a random draw, cluster c with the inclusion probability :math:`π_c`. A
person writes the other clusters of the same entity into it, or "none". Let k of its n rows be answered. The order of
the list is random, so its first k rows are themselves a draw, in which cluster c is with probability

.. math:: π_c\, \frac kn .

Rows that were skipped count the same way. That is right where rows were skipped for no reason that has to do with
their answers. So an answer is taken only from the row in which it stands: the clusters that it names are known to be
mates, but they do not count as looked up themselves. They would be those with mates, and never those without.

**Answers are about sets.** An answer says that a cluster and those it names are one entity. Two such sets are either
the same or have no cluster in common; otherwise at least one of the two answers is wrong, and both are refused.

**Audited records** whose true entities are known say the same about their observed clusters. A cluster with records of
several entities belongs to the one with most of them, and to the first of several such ones. Let cluster c of
:math:`n_c` records, among N in all, stand for :math:`w_c` clusters, up to a factor that all have in common:

- *entities* were drawn: :math:`w_c = 1`;
- *records* were drawn, and large entities are hit more often: :math:`w_c = m_e / n_e`, the hits of its entity over the
  audited records of it, which are the weights of Hansen and Hurwitz;
- *linked clusters* were drawn, and all records of the entities that they touch looked up: :math:`w_c = 1` for a drawn
  cluster, and 0 for one that is known only as a mate of a drawn one. Without those mates nobody knows which of the
  clusters that were not drawn belong to the same entity, and none counts as looked up.

The factor follows from the number of all records (Hájek), since the clusters that were looked up stand for all of them,
:math:`\sum_c n_c / π_c = N`:

.. math:: π_c = \min\Bigl(1,\ \frac{1}{w_c} \cdot \frac{\sum_b n_b w_b}{N}\Bigr) .

Where entities were drawn this is the share of the records that lie in audited clusters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import AnyArray, Array, Codes, check_number, is_missing, listed, short, shown
from outofcluster._base.exceptions import InputError

# The share of a draw for a review list that is uniform.
_UNIFORM_SHARE = 0.25
_COLUMNS = ("cluster", "same_as", "inclusion_probability")
# The answer that no other cluster is the same entity, in lower case.
_NO_MATES = "none"
# Whole numbers as files and frames write them: 17, 17.0 and 017 are the same.
_WHOLE_NUMBER = re.compile(r"(-?)0*(\d+)(?:\.0*)?")


@dataclass(frozen=True, eq=False)
class LookUps:
    """Clusters that somebody looked up, and the other clusters of the same entity.

    Attributes
    ----------
    clusters : array of int
        Numbers of the clusters that were looked up, in the order of the draw.
    mates : tuple of arrays of int
        For each of them the numbers of the other clusters of its entity, in increasing order; empty for "none".
    probability : array
        Inclusion probability of each, in (0, 1].
    reviewer_error : float, default=0.0
        Share of the answers that are wrong, in [0, 0.5).

    Examples
    --------
    >>> from outofcluster.evidence.looked_up import read_reviewed
    >>> answers = {"cluster": ["c", "a"], "same_as": ["none", "b; d"], "inclusion_probability": [0.5, 0.25]}
    >>> looked_up = read_reviewed(answers, ["a", "b", "c", "d"])
    >>> looked_up.clusters
    array([2, 0])
    >>> looked_up.mates
    (array([], dtype=int64), array([1, 3]))
    """

    clusters: Codes
    mates: tuple[Codes, ...]
    probability: Array
    reviewer_error: float = 0.0

    @property
    def entities(self) -> Codes:
        """The entity of each looked-up cluster, by a number that its clusters have in common."""
        first = [min([cluster, *mates.tolist()]) for cluster, mates in zip(self.clusters, self.mates, strict=True)]
        return np.asarray(np.unique(first, return_inverse=True)[1], dtype=np.int64)

    def __read__(self) -> Self:
        # JSON has one kind of number, and arrays are read as floats.
        mates = tuple(numbers.astype(np.int64) for numbers in self.mates)
        return replace(self, clusters=self.clusters.astype(np.int64), mates=mates)


@dataclass(frozen=True)
class AuditedClusters:
    """Observed clusters of audited records, and the entity of each.

    Attributes
    ----------
    names : tuple of str
        Names of the observed clusters.
    entities : tuple of int
        Number of the entity that has most of the audited records of each cluster.
    weights : tuple of float
        How many clusters each one stands for, up to a factor that all have in common. It is 0 for clusters that are
        known only as mates of drawn ones, and do not count as looked up.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> leakage = ooc.Leakage.from_true_groups([1, 1, 1, 2, 2], ["a", "a", "b", "c", "c"])
    >>> leakage.looked_up
    AuditedClusters(names=('a', 'b', 'c'), entities=(0, 0, 1), weights=(1.0, 1.0, 1.0))
    """

    names: tuple[str, ...]
    entities: tuple[int, ...]
    weights: tuple[float, ...]

    def __read__(self) -> Self:
        if not len(self.names) == len(self.entities) == len(self.weights):
            raise ValueError("audited clusters must have as many entities and weights as names")
        if any(not 0 <= weight < np.inf for weight in self.weights):
            raise ValueError("the weights of audited clusters must be at least 0")
        return self

    @classmethod
    def of_true_groups(cls, true: Codes, codes: Codes, names: Sequence[Any], *, weights: Array) -> AuditedClusters:
        """The clusters of audited records.

        Parameters
        ----------
        true, codes : array of int
            Number of the entity and of the observed cluster of every audited record.
        names : sequence
            Labels of the observed clusters, by their numbers.
        weights : array
            How many clusters the cluster of every audited record stands for, up to a common factor, as said by that
            record; for each cluster a record of its entity decides.
        """
        pairs, first, count = np.unique(np.stack([codes, true], axis=1), axis=0, return_index=True, return_counts=True)
        # The last of a cluster's entities in this order has most of its records, and is the first of several such ones.
        order = np.lexsort((-pairs[:, 1], count, pairs[:, 0]))
        last = order[np.flatnonzero(np.diff(pairs[order, 0], append=-1))]
        return cls(
            tuple(str(names[number]) for number in pairs[last, 0]),
            tuple(pairs[last, 1].tolist()),
            tuple(weights[first[last]].astype(float).tolist()),
        )


def read_reviewed(reviewed: Any, cluster_names: Sequence[str], *, reviewer_error: Any = 0.0) -> LookUps:
    """The answers in a review list that somebody filled in.

    Parameters
    ----------
    reviewed : frame or mapping of columns
        Rows in the order of the draw, with the columns ``cluster``, ``same_as`` and ``inclusion_probability``. In
        ``same_as`` stand the other clusters of the same entity, separated by semicolons, or "none"; an empty cell has
        not been looked up.
    cluster_names : sequence of str
        Names of all observed clusters, by their numbers. A whole number is the same cluster as 17, 17.0 or "017",
        unless several clusters are called so.
    reviewer_error : float, default=0.0
        Share of the answers that are wrong, in [0, 0.5).

    Returns
    -------
    LookUps
        One entry for each answer. Their inclusion probabilities are those of a draw of as many clusters as were
        answered.

    Examples
    --------
    >>> from outofcluster.evidence.looked_up import read_reviewed
    >>> cells = {"cluster": [7, 9], "same_as": [8.0, None], "inclusion_probability": [0.5, 0.5]}
    >>> looked_up = read_reviewed(cells, ["7", "8", "9"])
    >>> looked_up.clusters, looked_up.mates, looked_up.probability
    (array([0]), (array([1]),), array([0.25]))
    """
    error = check_number("reviewer_error", reviewer_error, least=0)
    if error >= 0.5:
        raise InputError(f"reviewer_error must lie in [0, 0.5), got {error:g}.")
    numbers = _NumbersOfNames(cluster_names)
    rows = _read_rows(reviewed)
    answers, probabilities = dict[int, frozenset[int]](), list[float]()
    listed_clusters = set[int]()
    for label, same_as, chance in rows:
        if _is_empty(label):
            raise InputError("reviewed must name a cluster in every row, got a row without one.")
        cluster = numbers.of(label)
        if cluster is None:
            raise InputError(
                f"reviewed must be a review list of these data: got the cluster {short(label)}, which they do not have."
            )
        if cluster in listed_clusters:
            raise InputError(f"reviewed must have one row for each cluster, got several for {short(label)}.")
        listed_clusters.add(cluster)
        probability = _read_probability(chance, label)
        if not _is_empty(same_as):
            answers[cluster] = _read_mates(same_as, label, numbers) | {cluster}
            probabilities.append(probability)
    if not answers:
        raise InputError(
            f"reviewed must have an answer in same_as, other clusters or 'none', for at least one cluster, got none in "
            f"{len(rows)} rows."
        )
    _refuse_contradictions(answers, cluster_names)
    return LookUps(
        np.array(list(answers), dtype=np.int64),
        tuple(_sorted(entity - {cluster}) for cluster, entity in answers.items()),
        np.array(probabilities) * (len(answers) / len(rows)),
        error,
    )


def read_audited(audited: AuditedClusters, cluster_names: Sequence[str], sizes: AnyArray) -> LookUps | None:
    """What audited records say about the clusters of a problem.

    Parameters
    ----------
    audited : AuditedClusters
        Clusters of audited records, as `Leakage.from_true_groups` keeps them.
    cluster_names : sequence of str
        Names of all observed clusters of the problem, by their numbers.
    sizes : array
        Number of records of each of them.

    Returns
    -------
    LookUps or None
        One entry for each cluster that was looked up and that the problem has; None where there is no such cluster.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> from outofcluster.evidence.looked_up import read_audited
    >>> audited = ooc.Leakage.from_true_groups([1, 1, 1, 2, 2], ["a", "a", "b", "c", "c"]).looked_up
    >>> looked_up = read_audited(audited, ["a", "b", "c", "d", "e"], [2, 1, 2, 3, 2])
    >>> looked_up.mates
    (array([1]), array([0]), array([], dtype=int64))
    >>> looked_up.probability
    array([0.5, 0.5, 0.5])
    """
    numbers = _NumbersOfNames(cluster_names)
    entities, weights, members = dict[int, int](), dict[int, float](), dict[int, set[int]]()
    for name, entity, weight in zip(audited.names, audited.entities, audited.weights, strict=True):
        cluster = numbers.of(name)
        if cluster is None or cluster in entities:
            continue
        entities[cluster] = entity
        members.setdefault(entity, set()).add(cluster)
        if weight > 0:
            weights[cluster] = weight
    if not weights:
        return None
    clusters, weight_of = np.array(list(weights), dtype=np.int64), np.array(list(weights.values()))
    records = np.asarray(sizes, dtype=float)
    probability = records[clusters] @ weight_of / records.sum() / weight_of
    mates = tuple(_sorted(members[entities[cluster]] - {cluster}) for cluster in weights)
    return LookUps(clusters, mates, np.minimum(probability, 1.0))


def inclusion_probabilities(worth: AnyArray, n: int) -> Array:
    """π of every cluster, for a draw of n of them.

    Parameters
    ----------
    worth : array
        √e: how far an answer about each cluster is expected to move the estimate.
    n : int
        Clusters to draw.

    Returns
    -------
    array
        Probabilities that sum to n, or 1 for all clusters where there are no more than n.

    Examples
    --------
    >>> from outofcluster.evidence.looked_up import inclusion_probabilities
    >>> inclusion_probabilities([1.0, 6.0, 1.0, 0.0], 2).round(2)
    array([0.42, 1.  , 0.42, 0.17])
    """
    matters = np.asarray(worth, dtype=float)
    if n >= len(matters):
        return np.ones(len(matters))
    share = np.full(len(matters), 1 / len(matters))
    if matters.sum() > 0:
        share = _UNIFORM_SHARE * share + (1 - _UNIFORM_SHARE) * matters / matters.sum()
    certain = np.zeros(len(matters), dtype=bool)
    while True:
        left = n - int(certain.sum())
        probability = np.where(certain, 1.0, left * share / share[~certain].sum())
        above = (probability >= 1) & ~certain
        if not above.any():
            return np.asarray(probability)
        certain |= above


def draw_clusters(probability: Array, rng: np.random.Generator) -> Codes:
    """A systematic draw with these inclusion probabilities, in a random order."""
    order = rng.permutation(len(probability))
    ends = np.cumsum(probability[order])
    # Rounding must not cost the last of the clusters.
    ends *= round(float(ends[-1])) / ends[-1]
    steps = np.floor(ends - rng.random())
    return np.asarray(rng.permutation(order[np.diff(steps, prepend=-1) > 0]))


class _NumbersOfNames:
    """The numbers of clusters by their names, however a file or a frame writes them."""

    def __init__(self, names: Sequence[str]) -> None:
        self._exact = {name: number for number, name in enumerate(names)}
        self._alike = dict[str, int | None]()
        for number, name in enumerate(names):
            alike = _without_format(name)
            # Several clusters that differ only in the way in which a number is written are told apart by that alone.
            self._alike[alike] = None if alike in self._alike else number

    def of(self, label: Any) -> int | None:
        """The number of a cluster; None for one that does not exist, or that could be several."""
        name = str(label)
        for written in (name, name.strip()):
            if written in self._exact:
                return self._exact[written]
        return self._alike.get(_without_format(name))


def _without_format(name: str) -> str:
    """A name without spaces around it, and a whole number without leading zeros or a decimal point."""
    bare = name.strip()
    match = _WHOLE_NUMBER.fullmatch(bare)
    return match[1] + match[2] if match else bare


def _read_rows(reviewed: Any) -> list[tuple[Any, Any, Any]]:
    """Cluster, answer and probability of every row that is not blank."""
    if not (hasattr(reviewed, "columns") and hasattr(reviewed, "__getitem__")) and not isinstance(reviewed, Mapping):
        raise InputError(f"reviewed must be a data frame, a review list that was filled in, got {short(reviewed)}.")
    names = list(getattr(reviewed, "columns", reviewed))
    for column in _COLUMNS:
        if column not in names:
            raise InputError(f"reviewed must have the column {column!r}, got {shown(names) or 'no columns'}.")
    columns = [listed(column, reviewed[column]) for column in _COLUMNS]
    if len({len(values) for values in columns}) > 1:
        lengths = ", ".join(str(len(values)) for values in columns)
        raise InputError(f"reviewed must have columns of one length, got {lengths} for {', '.join(_COLUMNS)}.")
    # Spreadsheets leave blank rows at the end of a file.
    return [row for row in zip(*columns, strict=True) if not all(map(_is_empty, row))]


def _is_empty(cell: Any) -> bool:
    return is_missing(cell) or (isinstance(cell, str) and not cell.strip())


def _read_probability(cell: Any, label: Any) -> float:
    """An inclusion probability; a file whose cells were all read as text has it as a string."""
    try:
        if isinstance(cell, bool | np.bool_):
            raise TypeError
        probability = float(cell)
    except Exception:  # Whatever an object does that is asked for its number.
        probability = np.nan
    if not 0 < probability <= 1:
        got = "none" if _is_empty(cell) else short(cell)
        raise InputError(f"inclusion_probability must lie in (0, 1], got {got} for cluster {short(label)}.")
    return probability


def _read_mates(cell: Any, label: Any, numbers: _NumbersOfNames) -> frozenset[int]:
    """The clusters that an answer names."""
    answer = str(cell).strip()
    if answer.lower() == _NO_MATES:
        return frozenset()
    mates = set[int]()
    # A semicolon at the end separates nothing; a cell of semicolons alone is no answer.
    for name in [part for part in map(str.strip, answer.split(";")) if part] or [answer]:
        mate = numbers.of(name)
        if mate is None:
            raise InputError(
                f"same_as must name clusters of these data, separated by semicolons, or be 'none', got {short(name)} "
                f"for cluster {short(label)}."
            )
        mates.add(mate)
    return frozenset(mates)


def _refuse_contradictions(answers: Mapping[int, frozenset[int]], names: Sequence[str]) -> None:
    """Refuse two answers whose entities have clusters in common and are not the same."""
    said_by = dict[int, int]()
    for cluster, entity in answers.items():
        for member in sorted(entity):
            other = said_by.setdefault(member, cluster)
            if answers[other] != entity:
                answered = (_in_words(one, answers[one], names) for one in (other, cluster))
                raise InputError(f"same_as must not contradict itself, got {' but '.join(answered)}.")


def _in_words(cluster: int, entity: frozenset[int], names: Sequence[str]) -> str:
    mates = shown(names[mate] for mate in sorted(entity - {cluster}))
    return f"{mates or repr(_NO_MATES)} for cluster {short(names[cluster])}"


def _sorted(numbers: set[int] | frozenset[int]) -> Codes:
    return np.array(sorted(numbers), dtype=np.int64)


def same_look_ups(one: LookUps | None, other: LookUps | None) -> bool:
    """Whether two audits know the same answers."""
    if one is None or other is None:
        return one is other
    return (
        np.array_equal(one.clusters, other.clusters)
        and np.array_equal(one.probability, other.probability)
        and one.reviewer_error == other.reviewer_error
        and all(map(np.array_equal, one.mates, other.mates))
    )
