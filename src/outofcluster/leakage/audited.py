r"""The leakage rate of audited records, whose true clusters are known.

p0 and rho0 are averages over the folds. With φ the validation share (1/K for K folds), and clusters put into folds at
random, another approximate cluster is on the validation side with probability φ, whatever the side of one's own. So
for a record j whose true cluster is spread over :math:`h_j` *other* approximate clusters

.. math:: p_0 = \operatorname{mean}_j [1-(1-φ)^{h_j}] , \qquad ρ_0 = \operatorname{mean}_j [1-φ^{h_j}] :

a training record is safe when all the other pieces train too, a validation record when all are held out with it.

**Misplaced records.** By this definition all records of an entity leak once one of its mates is on the other side.
Where single records of large clusters, such as hospitals, sit in a wrong cluster, nearly every training record counts,
though a held-out hospital has only few records in training. What acts on a model of single records is the share of the
training records that are *there by mistake*. Let the main cluster :math:`M_e` of entity e be the approximate cluster
that holds most of its records (the first one of several). Record j is misplaced where its own cluster
:math:`c_j` is not :math:`M_{e(j)}`, and it teaches a model about a held-out entity where j trains while
:math:`M_{e(j)}` is held out. For random folds the main cluster of a misplaced training record is held out with
probability φ, as any other cluster is, and that of a record in its own main cluster never, so that

.. math:: p_{mis} = φ \operatorname{mean}_j [c_j \ne M_{e(j)}] .

For given splits it is the mean over the splits of that share of T̂. It never exceeds p0, since the main cluster of a
misplaced record is one of its :math:`h_j` others. For entities of two records that are torn apart it is p0/2, and far
less than that where few records of large entities are misplaced.

**How the audited records were drawn.** All records of an entity e of :math:`n_e` records leak alike, with probability
:math:`L_e`, so the rate is :math:`\sum n_e L_e / \sum n_e` over all entities.

- *Entities* drawn at random, all their records looked up: the same ratio over the sample. Its bias is of the order of
  one over their number.
- *Records* drawn at random, all records of their entities looked up. Entity e is hit by :math:`m_e` of the m drawn
  records, and is expected to be hit in proportion to :math:`n_e`. The weights of Hansen and Hurwitz, hits over size,
  undo that: with :math:`m_e/n_e`,

  .. math:: \frac{\sum_e (m_e/n_e)\, n_e L_e}{\sum_e (m_e/n_e)\, n_e} = \frac1m \sum_{j\ \text{drawn}} L_{e(j)} ,

  a mean over drawn records, which is unbiased. Where it is not known which records were drawn, every entity counts as
  hit once, :math:`m_e = 1`, which is right while few entities are hit twice.
- *Linked clusters* drawn at random, all records of the entities that they touch looked up: the ratio over the records
  of the drawn clusters, with linked clusters as units. Without the mates in other clusters, splits are seen only where
  both pieces were drawn by chance, and the rate is a lower bound.

The standard error is that of a ratio estimator whose independent units are the true clusters, or the linked ones
where those were drawn. It is for the average over folds; the luck of one assignment to folds is not in it. Populations
count as large: no correction for a finite one is made, which is conservative.

**What the linkage got wrong.** An entity is *split* where its records lie in two linked clusters or more, and a cluster
*merges* entities where it holds records of two or more. For a record whose piece (the records of its entity in its
cluster) has a records, in an entity of t and a cluster of s, B-cubed recall is the mean of a/t, and B-cubed precision
that of a/s. Splits are what leaks. Merges do not leak, but they tie entities together, so that fewer clusters are
independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, as_array, check_choice
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster._base.text import Printed, percentage
from outofcluster.evidence.laws import PieceLaw
from outofcluster.evidence.looked_up import AuditedClusters
from outofcluster.leakage.splits import Rates, Side, Split, counted_and_other, other_share, read_split, same_index
from outofcluster.problem.folds import Clusters, Rows, check_labels, in_order_of_occurrence

# The pieces as pairs of an entity and a cluster, the number of every record's piece, and the records of every piece.
Pieces = tuple[Rows, Rows, Rows]


def rates_of_audited_records(
    true_groups: Any, groups: Any, cv: Any, drawn: Any, sampled: Any, sides: tuple[Side, ...]
) -> tuple[Rates, dict[str, Any]]:
    """Rates, and by name whether they are lower bounds, how entities are cut, splits and merges, and who is who.

    See :meth:`outofcluster.Leakage.from_true_groups` for the arguments.
    """
    check_choice("drawn", drawn, ("entities", "records", "clusters"))
    same_index(("true_groups", true_groups), ("groups", groups))
    labels = check_labels("groups", groups, None)
    codes, names = in_order_of_occurrence(labels.tolist())
    true, _ = in_order_of_occurrence(check_labels("true_groups", true_groups, len(codes)).tolist())
    split = read_split(cv, Clusters(labels, codes, names, codes))
    pieces = np.unique(np.stack([true, codes], axis=1), axis=0, return_inverse=True, return_counts=True)
    size = np.bincount(true)
    # How much each record counts, and for how many entities each entity stands.
    if sampled is None:
        counts: Array = 1 / size[true] if drawn == "records" else np.ones(len(true))
    elif drawn == "entities":
        raise InputError("sampled must be None for drawn='entities', where all records of drawn entities are audited.")
    else:
        must = f"sampled must say True or False for each of the {len(true)} records"
        mask = as_array(must, sampled)
        if mask.dtype != bool or mask.shape != true.shape:
            raise InputError(f"{must}, got {mask.dtype} of shape {mask.shape}.")
        if not mask.any():
            raise InputError("sampled must be True for at least one record, got none.")
        counts = mask.astype(float)
        if drawn == "clusters" and not np.array_equal(counts, (np.bincount(codes, counts) > 0)[codes]):
            raise InputError("sampled must be True for all records of a drawn cluster, or for none, got some of them.")
    entities = np.bincount(true, counts) / size
    units = codes if drawn == "clusters" else true
    rates: Rates = {of: _rate(true, pieces[0], split, of, counts, units) for of in sides}
    # Nobody looked for the mates of drawn clusters in other ones where it is not known which of them were drawn.
    without_mates = drawn == "clusters" and sampled is None
    weights = counts if drawn == "clusters" else entities[true]
    return rates, {
        "at_least": without_mates,
        "looked_up": None if without_mates else AuditedClusters.of_true_groups(true, codes, names, weights=weights),
        "pieces": PieceLaw.of(pieces[0][:, 0], pieces[2], entities, other_share(split, "train")),
        "linkage_errors": _count_errors(pieces, split, counts, entities),
    }


def _rate(true: Rows, piece: Rows, split: Split, of: Side, counts: Array, units: Rows) -> tuple[float, float | None]:
    """The rate of one side and its standard error."""
    # For each split, the rows that are counted and the probability with which each of them leaks.
    pools: list[tuple[Any, Array]]
    if isinstance(split, float):
        # The chance that another piece lies on the same side, and so does no harm.
        harmless = 1 - split if of == "train" else split
        pools, one_cut = [(slice(None), 1 - harmless ** (np.bincount(piece[:, 0])[true] - 1.0))], 1 - harmless
    else:
        sides = [counted_and_other(fold, of) for fold in split]
        pools, one_cut = [(rows, np.isin(true[rows], true[other]).astype(float)) for rows, other in sides], 1.0
    rate, influence = 0.0, np.zeros(units.max() + 1)
    for rows, leaks in pools:
        weight = counts[rows]
        if not weight.any():
            raise InputError(f"sampled must mark records on the {of} side of every split, got none on that of one.")
        mean = float(weight @ leaks / weight.sum())
        rate += mean / len(pools)
        influence += np.bincount(units[rows], weight * (leaks - mean), len(influence)) / (weight.sum() * len(pools))
    count = len(np.unique(np.concatenate([units[rows][counts[rows] > 0] for rows, _ in pools])))
    if rate == 0:
        return rate, one_cut / count
    if count < 2:
        return rate, None
    # Where all leak alike the spread says nothing; one unit more that does not leak would change the rate so much.
    return rate, math.sqrt(count / (count - 1) * float(influence @ influence)) or rate / (count + 1)


def _misplaced(true: Rows, codes: Rows, piece: Rows, in_piece: Rows, split: Split, counts: Array) -> float:
    """The share of the training records outside their entity's main cluster while that is held out."""
    # The last of an entity's pieces in this order is its largest one, and the first such one where there are several.
    order = np.lexsort((-piece[:, 1], in_piece, piece[:, 0]))
    main = np.empty(true.max() + 1, dtype=np.int64)
    main[piece[order, 0]] = piece[order, 1]
    outside = codes != main[true]
    if isinstance(split, float):
        return split * float(counts @ outside / counts.sum())
    shares = []
    for fold in split:
        rows, weight = fold.train, counts[fold.train]
        if not weight.any():
            return math.nan
        main_is_held_out = np.isin(main[true[rows]], codes[fold.validation])
        shares.append(float(weight @ (outside[rows] & main_is_held_out) / weight.sum()))
    return float(np.mean(shares))


@dataclass(frozen=True)
class LinkageErrors(Printed):
    """Splits and merges of a linkage, counted on audited records.

    Attributes
    ----------
    n_records, n_entities, n_clusters : int
        Audited records, and the true and linked clusters that they lie in.
    n_split, n_merged : int
        Entities in several linked clusters, and linked clusters with records of several entities.
    split_rate : float
        Share of the entities with two records or more that are split. Where records or linked clusters were drawn,
        entities count by their chance of being drawn, so it is the share in the population.
    merge_rate : float
        Share of the linked clusters with two records or more that merge entities. Only audited records are seen, so it
        is a lower bound unless the clusters were audited as wholes.
    bcubed_precision, bcubed_recall : float
        Means over the audited records; the precision is an upper bound for the same reason.
    misplaced : float
        Share of the training records that lie outside the main cluster of their entity while that cluster is held out.
        It is the rate for ``error_model="records"`` where single records of large clusters are misplaced; NaN where no
        drawn record trains.
    sizes : tuple of (int, int, float)
        Size of the entity, size of the piece, and how many such pieces there are.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> leakage = ooc.Leakage.from_true_groups([1, 1, 1, 2, 2, 3], ["a", "a", "b", "c", "c", "c"])
    >>> errors = leakage.linkage_errors
    >>> errors.n_split, errors.n_merged, round(errors.bcubed_recall, 3)
    (1, 1, 0.778)
    >>> print(errors)
    1 of 3 entities is split, and 1 of 3 clusters merges entities (6 audited records).
    3.33 % of the training records are misplaced: they lie outside the main cluster of their entity, which is held out.
    """

    n_records: int
    n_entities: int
    n_clusters: int
    n_split: int
    n_merged: int
    split_rate: float
    merge_rate: float
    bcubed_precision: float
    bcubed_recall: float
    misplaced: float
    sizes: tuple[tuple[int, int, float], ...]

    def __str__(self) -> str:
        split, merged = "is" if self.n_split == 1 else "are", "merges" if self.n_merged == 1 else "merge"
        text = (
            f"{self.n_split} of {self.n_entities} entities {split} split, and {self.n_merged} of {self.n_clusters} "
            f"clusters {merged} entities ({self.n_records} audited records)."
        )
        if math.isnan(self.misplaced):
            return text
        return (
            f"{text}\n{percentage(self.misplaced)} of the training records are misplaced: they lie outside the main "
            "cluster of their entity, which is held out."
        )

    def to_frame(self) -> Any:
        """All measures as a table.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> errors = ooc.Leakage.from_true_groups([1, 1, 2], ["a", "b", "b"]).linkage_errors
        >>> errors.to_frame()[["n_split", "n_merged", "split_rate", "merge_rate"]]
           n_split  n_merged  split_rate  merge_rate
        0        1         1         1.0         1.0
        """
        names = [name for name in self.__dataclass_fields__ if name != "sizes"]
        return data_frame({name: [getattr(self, name)] for name in names})


def _count_errors(pieces: Pieces, split: Split, of_record: Array, of_entity: Array) -> LinkageErrors:
    """Splits, merges and misplaced records among audited records."""
    piece, piece_of, in_piece = pieces
    piece_of = piece_of.reshape(-1)
    entity, cluster = piece[piece_of].T
    in_entity, in_cluster = np.bincount(entity), np.bincount(cluster)
    entity_pieces, cluster_pieces = np.bincount(piece[:, 0]), np.bincount(piece[:, 1])
    several = np.where(in_entity > 1, of_entity, 0.0)
    large = in_cluster > 1
    weight = of_record / of_record.sum()
    kinds, kind_of = np.unique(np.stack([in_entity[piece[:, 0]], in_piece], axis=1), axis=0, return_inverse=True)
    counts = np.bincount(kind_of.reshape(-1), of_entity[piece[:, 0]])
    return LinkageErrors(
        n_records=len(entity),
        n_entities=len(in_entity),
        n_clusters=len(in_cluster),
        n_split=int((entity_pieces > 1).sum()),
        n_merged=int((cluster_pieces > 1).sum()),
        split_rate=float(several @ (entity_pieces > 1) / several.sum()) if several.any() else math.nan,
        merge_rate=float((cluster_pieces[large] > 1).mean()) if large.any() else math.nan,
        bcubed_precision=float(weight @ (in_piece[piece_of] / in_cluster[cluster])),
        bcubed_recall=float(weight @ (in_piece[piece_of] / in_entity[entity])),
        misplaced=_misplaced(entity, cluster, piece, in_piece, split, of_record),
        sizes=tuple((*kind, count) for kind, count in zip(kinds.tolist(), counts.tolist(), strict=True) if count > 0),
    )
