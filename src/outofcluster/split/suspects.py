"""Training clusters that may be pieces of held-out entities, as plain data that can be kept with the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["EntitySuspects", "LikelyPieces"]

Ints = NDArray[np.int64]
Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True, eq=False)
class EntitySuspects:
    """The training clusters of a split, and the held-out clusters that they probably belong with.

    Attributes
    ----------
    train_clusters : array of int of shape (clusters,)
        All training clusters, the most suspicious first.
    held_out_clusters : array of int of shape (clusters,)
        The held-out cluster that each most probably belongs with, -1 where none is a candidate.
    probability : array of shape (clusters,)
        Probability that the training cluster is one entity with a held-out one; 0 where none is a candidate.
    n_records : array of int of shape (clusters,)
        Records of the training cluster.
    auc : float
        Quality of the pair classifier; see `EntityPairs`.
    identified : bool
        Whether features tell entities apart: the AUC is 0.75 or more, and the search finds the mates of at least half
        of the imitated pieces. If not, nobody is suspected and the arrays are empty.
    """

    train_clusters: Ints
    held_out_clusters: Ints
    probability: Floats
    n_records: Ints
    auc: float
    identified: bool


@dataclass(frozen=True, eq=False)
class LikelyPieces:
    """The training clusters of a split that are likelier than not pieces of held-out entities.

    Attributes
    ----------
    train_clusters : array of int
        These clusters.
    held_out_clusters : array of int
        The held-out clusters that they probably belong with.
    caught : float
        Share of imitated pieces that the same rule finds.
    precision : float
        Mean probability of the pairs, which is the share of them that are expected to be one entity.
    """

    train_clusters: Ints
    held_out_clusters: Ints
    caught: float
    precision: float
