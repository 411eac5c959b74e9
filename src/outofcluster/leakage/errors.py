r"""What a linkage got wrong, counted on audited records: splits, merges, B-cubed precision and recall, piece sizes.

An entity is *split* where its records lie in two linked clusters or more, and a cluster *merges* entities where it
holds records of two or more. For a record whose piece (the records of its entity in its cluster) has a records, in an
entity of t and a cluster of s, B-cubed recall is the mean of a/t, and B-cubed precision that of a/s.

The *main cluster* of an entity is the linked cluster that holds most of its records. Records of the entity that lie
elsewhere are *misplaced*, and the number of them that train while their main cluster is held out is derived in
:mod:`outofcluster.leakage.audited`.

Splits are what leaks. Merges do not leak, but they tie entities together, so that fewer clusters are independent.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.plain import data_frame, number, reading, whole
from outofcluster._base.validation import Array, short
from outofcluster.split.folds import Rows

__all__ = ["LinkageErrors", "count_errors"]


@dataclass(frozen=True)
class LinkageErrors:
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
    3.33% of the training records are misplaced: they lie outside the main cluster of their entity, which is held out.
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
            f"{text}\n{100 * self.misplaced:.3g}% of the training records are misplaced: they lie outside the main "
            "cluster of their entity, which is held out."
        )

    def to_frame(self) -> Any:
        """All measures as a table.

        Returns
        -------
        pandas.DataFrame
            One row, and one column per measure.

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

    def piece_sizes(self) -> Any:
        """The pieces of the entities by size, as a table.

        Returns
        -------
        pandas.DataFrame
            Columns ``entity_size``, ``piece_size`` and ``pieces``, how many there are of these sizes.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> errors = ooc.Leakage.from_true_groups([1, 1, 1, 2], ["a", "a", "b", "c"]).linkage_errors
        >>> errors.piece_sizes()
           entity_size  piece_size  pieces
        0            1           1     1.0
        1            3           1     1.0
        2            3           2     1.0
        """
        columns = zip(*self.sizes, strict=True) if self.sizes else ((), (), ())
        return data_frame(dict(zip(("entity_size", "piece_size", "pieces"), map(list, columns), strict=True)))

    @classmethod
    def from_dict(cls, data: Any) -> LinkageErrors:
        """Errors from plain data, as `plain` of them gives.

        Parameters
        ----------
        data : mapping
            The fields by name.

        Returns
        -------
        LinkageErrors
        """
        with reading("linkage errors"):
            if not isinstance(data, Mapping):
                raise TypeError(f"{short(data)} is not an object")
            names = [name for name in cls.__dataclass_fields__ if name not in ("sizes", "misplaced")]
            values: dict[str, Any] = {name: (whole if name.startswith("n_") else number)(data[name]) for name in names}
            # Files of earlier versions do not have it.
            values["misplaced"] = number(data.get("misplaced", math.nan))
            return cls(**values, sizes=tuple((size, piece, count) for size, piece, count in data["sizes"]))


def count_errors(entity: Rows, cluster: Rows, of_record: Array, of_entity: Array, misplaced: float) -> LinkageErrors:
    """Splits and merges of audited records.

    Parameters
    ----------
    entity, cluster : array of int of shape (n,)
        Number of the true and of the linked cluster of every record.
    of_record : array of shape (n,)
        How much each record counts.
    of_entity : array
        How many entities each entity stands for, by its number.
    misplaced : float
        Share of the training records that are misplaced.

    Returns
    -------
    LinkageErrors
    """
    piece, piece_of, in_piece = np.unique(
        np.stack([entity, cluster], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    piece_of = piece_of.reshape(-1)
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
        split_rate=float(several @ (entity_pieces > 1) / several.sum()) if several.any() else float("nan"),
        merge_rate=float((cluster_pieces[large] > 1).mean()) if large.any() else float("nan"),
        bcubed_precision=float(weight @ (in_piece[piece_of] / in_cluster[cluster])),
        bcubed_recall=float(weight @ (in_piece[piece_of] / in_entity[entity])),
        misplaced=misplaced,
        sizes=tuple(
            (int(size), int(part), float(count)) for (size, part), count in zip(kinds, counts, strict=True) if count > 0
        ),
    )
