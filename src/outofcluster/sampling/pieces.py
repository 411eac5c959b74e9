"""Training without the likeliest pieces of held-out entities: negative levels where whole pieces of entities leak.

Where record linkage split an entity, a pair classifier can tell which training clusters are likelier than not pieces of
held-out entities (:mod:`outofcluster.split.entities`). There are two levels. At -1 these clusters do not train; what is
left of leaked pieces is 1 - η, with η the share of imitated pieces that the classifier finds. At 0 as many other
training clusters of the same sizes do not train, drawn anew in every replicate, so that both levels have equally many
records to learn from.
Both levels score only the held-out clusters that the left-out clusters probably belong with. The difference of their
losses is what such a cluster gains from a piece of it that trains. It needs no leakage rate, and no cut is imitated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.validation import Array
from outofcluster.sampling.injection import Draw, Weighting
from outofcluster.split.folds import renumbered
from outofcluster.split.suspects import LikelyPieces

__all__ = ["WithoutPieces"]

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class WithoutPieces:
    """T̂ without the likeliest pieces of held-out entities, or without as many other clusters.

    Attributes
    ----------
    cluster : array of int of shape (records of T̂,)
        Place of each record's cluster among the clusters of T̂.
    left_out : array of int
        Places of the clusters that are probably pieces.
    scored : array of int
        Positions in V̂ of the records that lose a piece.
    caught : float
        η: share of imitated pieces that are found.
    """

    cluster: Rows
    left_out: Rows
    scored: Rows
    caught: float
    name: str = "without-pieces"

    @classmethod
    def of(cls, pieces: LikelyPieces, clusters: Rows, train: Rows, validation: Rows) -> WithoutPieces:
        """The strategy for a split.

        Parameters
        ----------
        pieces : LikelyPieces
            The clusters to leave out.
        clusters : array of int of shape (n,)
            Cluster of every record.
        train, validation : array of int
            Rows of T̂ and of V̂.

        Returns
        -------
        WithoutPieces
        """
        numbers, cluster = renumbered(clusters[train])
        loses = np.zeros(int(clusters.max()) + 1, dtype=bool)
        loses[pieces.held_out_clusters] = True
        scored = np.flatnonzero(loses[clusters[validation]])
        return cls(cluster, np.searchsorted(numbers, pieces.train_clusters), scored, pieces.caught)

    @property
    def size(self) -> int:
        """Number of scored records."""
        return len(self.scored)

    @property
    def levels(self) -> Array:
        """The level without the pieces, and the one without other clusters."""
        return np.array([-1.0, 0.0])

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """All of T̂ but the pieces, or all but other clusters of the same sizes."""
        left_out = self.left_out if injected < 0 else self._others(rng)
        stays = np.ones(int(self.cluster.max()) + 1, dtype=bool)
        stays[left_out] = False
        trains = np.flatnonzero(stays[self.cluster])
        return Draw(trains, np.zeros(0, dtype=np.int64), self.scored, weighted=True)

    def _others(self, rng: np.random.Generator) -> Rows:
        """As many other clusters of T̂, of the same sizes or else of the nearest ones."""
        sizes = np.bincount(self.cluster)
        free = np.ones(len(sizes), dtype=bool)
        free[self.left_out] = False
        chosen = [np.zeros(0, dtype=np.int64)]
        for size, count in zip(*np.unique(sizes[self.left_out], return_counts=True), strict=True):
            others = rng.permutation(np.flatnonzero(free))
            nearest = others[np.argsort(np.abs(sizes[others] - size), kind="stable")][:count]
            free[nearest] = False
            chosen.append(nearest)
        return np.concatenate(chosen)

    def weighting(self, injected: Array) -> Weighting:
        """What is left of T̂'s records, and of imitated pieces."""
        left = float(len(self.cluster) - np.isin(self.cluster, self.left_out).sum())
        ones = np.ones(len(injected), dtype=np.int64)
        return Weighting(np.full(len(injected), left), np.where(injected < 0, 1 - self.caught, 1.0), ones)

    def describe(self) -> dict[str, Any]:
        """The name alone: which clusters are left out depends on the seed, and runs of other seeds can be merged."""
        return {"error_model": self.name}
