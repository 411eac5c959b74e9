r"""How a linkage cuts entities: the law of the pieces, learned from audited entities.

An entity of t records that linkage cut has pieces :math:`s_1, …, s_k` of :math:`t = \sum s_i` records. Each of them is
held out in some fold, and then each of the others trains with probability 1-φ, φ the validation share. So the pairs
(kept, leaked) are the pieces, each counting once, and the sum of those others that train, where there are any.

*Entities of another size.* What carries over is the smaller of the two parts, in records: linkage chips one or two
records off an entity, be it large or small. A cut of an entity of t records into (kept, leaked) becomes for a cluster
of s records

.. math:: (s - c, c) \text{ if leaked} < \text{kept, else } (c, s - c) , \qquad
          c = \min(\text{kept}, \text{leaked}, \lfloor s/2 \rfloor) ,

half of it each where both parts are equal, and with weight :math:`\exp(-\tfrac12 \log_2^2(t/s))`: entities of half or
twice the size count 0.6, of a quarter 0.14.

*Few audited entities.* The learned law is shrunk towards a default, which counts as much as 5 such pairs do. By
default the smaller part has c records with a probability proportional to :math:`c^{-2}`, and either part trains as
often as the other. Of the held-out records of cut entities of ten, 61 % then have a single mate in training; 63 to 76 %
were seen in real linkages, where a cut at random gives 20 %.

*No audited entities at all.* Then cuts are assumed (`AssumedCuts`): seven times in ten a single record comes off, as
real linkage mostly does, else a piece of any size; either part trains as often as the other.

*Which entities are cut.* Large ones are cut more often than small ones. An entity that was cut has k held-out pieces
in all, and one that is whole has none. The mean of k over audited entities of two records or more says how often a
cluster of s records stands for a cut entity, up to a factor. Entities of another size have the same weights as above,
and the mean of all counts as much as 5 of them.

Each piece counts once, so held-out records have their right weights where the kept records of many draws are pooled:
a draw that keeps nine records counts nine times as much as one that keeps a single record.

**Imitated cuts.** `Cuts` cuts every cluster of two or more records in two, several times: one piece would train, the
other would be held out. Each cluster is its own control (:mod:`outofcluster.sampling.halves`), so a cut also says in
which of two fits its piece trains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes, check_integer, check_share, check_vector
from outofcluster._base.exceptions import InputError
from outofcluster.problem.simulate import random_position

# Held-out pieces of cut entities that the default law counts as much as.
_DEFAULT_WEIGHT = 5.0


@dataclass(frozen=True)
class PieceLaw:
    """The law of the pieces into which a linkage cuts entities.

    Parameters
    ----------
    pieces : tuple of tuples of int
        The different ways in which audited entities are cut: records of each piece, the largest piece first. An entity
        that is whole has one piece.
    weights : tuple of float
        How many audited entities are cut in each of these ways.
    validation_share : float, default=0.2
        Share of the clusters that is held out: 1/K for K folds.

    Examples
    --------
    >>> from outofcluster.evidence.laws import PieceLaw

    Sixty entities were whole, and thirty lost one of their five records:

    >>> law = PieceLaw(((5,), (4, 1)), (60.0, 30.0))
    >>> law.probabilities(5).round(2)
    array([0.49, 0.01, 0.01, 0.49])
    >>> law.n_split, law.n_entities
    (30.0, 90.0)
    """

    pieces: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    validation_share: float = 0.2

    def __post_init__(self) -> None:
        pieces = tuple(tuple(check_integer("pieces", size, least=1) for size in cut) for cut in self.pieces)
        weights = tuple(check_vector("weights", self.weights).tolist()) if len(self.weights) else ()
        if len(weights) != len(pieces) or not all(pieces) or min(weights, default=1.0) <= 0:
            raise InputError(f"weights must hold one number above 0 for each of the {len(pieces)} ways to be cut.")
        object.__setattr__(self, "pieces", pieces)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "validation_share", check_share("validation_share", self.validation_share, "(0, 1)"))

    @classmethod
    def of(cls, entity: Codes, sizes: Codes, weight: Array, validation_share: float) -> PieceLaw:
        """The law of audited pieces: the number of each one's entity, in order, its records, and entities' weights."""
        counted: dict[tuple[int, ...], float] = {}
        starts = np.flatnonzero(np.diff(entity, prepend=-1))
        for number, parts in zip(entity[starts], np.split(sizes, starts[1:]), strict=True):
            cut = tuple(sorted(parts.tolist(), reverse=True))
            counted[cut] = counted.get(cut, 0.0) + float(weight[number])
        cuts = sorted(cut for cut, total in counted.items() if total > 0)
        return cls(tuple(cuts), tuple(counted[cut] for cut in cuts), validation_share)

    @property
    def n_entities(self) -> float:
        """Number of audited entities."""
        return float(sum(self.weights))

    @property
    def n_split(self) -> float:
        """Number of audited entities that are cut."""
        return float(sum(weight for cut, weight in zip(self.pieces, self.weights, strict=True) if len(cut) > 1))

    @cached_property
    def _cuts(self) -> NDArray[np.float64]:
        """Rows (entity's size, kept, leaked, weight) of the cuts that were seen, from V̂'s side."""
        rows = []
        for cut, weight in zip(self.pieces, self.weights, strict=True):
            for i, kept in enumerate(cut if len(cut) > 1 else ()):
                leaked = _sums(cut[:i] + cut[i + 1 :], 1 - self.validation_share)
                rows += [(sum(cut), kept, size, weight * leaked[size]) for size in np.flatnonzero(leaked[1:]) + 1]
        return np.array(rows, dtype=float).reshape(-1, 4)

    def probabilities(self, size: int) -> Array:
        """Probabilities of the sizes 1, …, size - 1 of the leaked piece.

        Examples
        --------
        >>> from outofcluster.evidence.laws import PieceLaw
        >>> PieceLaw().probabilities(4)
        array([0.4, 0.2, 0.4])
        """
        smaller = np.arange(1, size // 2 + 1)
        halves = smaller**-2.0 / (smaller**-2.0).sum() / 2
        chance = np.zeros(size)
        np.add.at(chance, smaller, _DEFAULT_WEIGHT * halves)
        np.add.at(chance, size - smaller, _DEFAULT_WEIGHT * halves)
        if len(self._cuts):
            entity, kept, leaked, weight = self._cuts.T
            part = np.minimum(np.minimum(kept, leaked), size // 2).astype(np.int64)
            near = weight * _nearness(entity, size)
            # Two equal parts say that a small one is cut off, and not which of the two is held out.
            small = np.where(leaked < kept, 1.0, np.where(leaked > kept, 0.0, 0.5))
            np.add.at(chance, part, near * small)
            np.add.at(chance, size - part, near * (1 - small))
        return np.asarray(chance[1:] / chance.sum())

    def draw_many(self, rng: np.random.Generator, sizes: Any) -> NDArray[np.int64]:
        """Sizes of the leaked pieces of many clusters.

        Examples
        --------
        >>> import numpy as np
        >>> from outofcluster.evidence.laws import PieceLaw
        >>> PieceLaw().draw_many(np.random.default_rng(0), np.array([1, 2, 10, 10]))
        array([0, 1, 1, 1])
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        chance = rng.random(len(sizes))
        drawn = np.zeros(len(sizes), dtype=np.int64)
        for size in np.unique(sizes[sizes > 1]):
            clusters = sizes == size
            steps = np.cumsum(self.probabilities(int(size)))
            drawn[clusters] = 1 + np.minimum(np.searchsorted(steps, chance[clusters], side="right"), size - 2)
        return drawn

    def cut_chances(self, sizes: Any) -> Array:
        """How often clusters of these sizes stand for cut entities, relative to the size that does so most often.

        Examples
        --------
        Every tenth entity of two records was cut, and every second one of eight:

        >>> from outofcluster.evidence.laws import PieceLaw
        >>> law = PieceLaw(((1, 1), (2,), (7, 1), (8,)), (10.0, 90.0, 50.0, 50.0))
        >>> law.cut_chances([2, 8, 8]).round(2)
        array([0.35, 1.  , 1.  ])
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        several = [(sum(cut), len(cut), weight) for cut, weight in zip(self.pieces, self.weights, strict=True)]
        entity, pieces, weight = np.array([row for row in several if row[0] > 1], dtype=float).reshape(-1, 3).T
        held_out = weight * np.where(pieces > 1, pieces, 0.0)
        if not held_out.any() or len(sizes) == 0:
            return np.ones(len(sizes))
        chances = np.zeros(len(sizes))
        for size in np.unique(sizes):
            near = _nearness(entity, size)
            borrowed = _DEFAULT_WEIGHT * held_out.sum() / weight.sum()
            chances[sizes == size] = (near @ held_out + borrowed) / (near @ weight + _DEFAULT_WEIGHT)
        return np.asarray(chances / chances.max())


@dataclass(frozen=True)
class AssumedCuts:
    """How entities are cut where no audited ones show it.

    Parameters
    ----------
    single : float, default=0.7
        Share of the cuts that take off a single record, which trains as often as it stays. In the other cuts the piece
        that trains has any size with the same probability.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.evidence.laws import AssumedCuts
    >>> AssumedCuts().draw_many(np.random.default_rng(0), np.array([1, 2, 10, 10]))
    array([0, 1, 1, 5])
    """

    single: float = 0.7

    def draw_many(self, rng: np.random.Generator, sizes: Any) -> NDArray[np.int64]:
        """Sizes of the leaked pieces of many clusters; 0 for clusters of one record."""
        most: NDArray[np.int64] = np.asarray(sizes, dtype=np.int64)
        cuttable = np.maximum(most, 2)
        single = np.where(rng.random(len(most)) < 0.5, 1, cuttable - 1)
        drawn = np.where(rng.random(len(most)) < self.single, single, rng.integers(1, cuttable))
        return np.where(most > 1, drawn, 0)

    def cut_chances(self, sizes: Any) -> Array:
        """How often clusters of these sizes stand for cut entities: all alike."""
        return np.ones(len(sizes))


Law = PieceLaw | AssumedCuts


@dataclass(frozen=True, eq=False)
class Cuts:
    """Every cluster of two or more records cut in two, several times.

    Attributes
    ----------
    leaks : array of bool of shape (cuts, records)
        Whether a record is in the piece of its cluster that would train.
    half : array of int of shape (cuts, clusters)
        In which of the two fits of a cut the piece trains, 0 or 1.
    cuttable : array of bool of shape (records,)
        Whether the cluster of a record has two or more records.
    chance : array of shape (clusters,)
        How often a cluster of this size stands for a cut entity, relative to the size that does so most often.
    """

    leaks: NDArray[np.bool_]
    half: Codes
    cuttable: NDArray[np.bool_]
    chance: Array

    @classmethod
    def draw(cls, clusters: Codes, n_cuts: int, law: Law, rng: np.random.Generator) -> Cuts:
        """Cut clusters by a law; the members of a piece are drawn at random."""
        sizes = np.bincount(clusters)
        leaks = np.empty((n_cuts, len(clusters)), dtype=bool)
        half = np.empty((n_cuts, len(sizes)), dtype=np.int64)
        for cut in range(n_cuts):
            leaks[cut] = random_position(clusters, rng) < law.draw_many(rng, sizes)[clusters]
            # As many clusters in one half as in the other: a random order, in turn.
            half[cut, rng.permutation(len(sizes))] = np.arange(len(sizes)) % 2
        return cls(leaks, half, sizes[clusters] > 1, law.cut_chances(np.maximum(sizes, 1)))


def _nearness(entity: Array, size: float) -> Array:
    """How much entities of these sizes count for a cluster of another size."""
    return np.asarray(np.exp(-0.5 * np.log2(entity / size) ** 2))


def _sums(sizes: tuple[int, ...], chance: float) -> Array:
    """Law of the sum of those sizes that are taken, each with the same chance."""
    law = np.ones(1)
    for size in sizes:
        law = np.pad((1 - chance) * law, (0, size)) + np.pad(chance * law, (size, 0))
    return law
