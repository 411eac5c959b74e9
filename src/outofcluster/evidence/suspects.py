"""What the records show about who leaked, as plain data that can be kept with the samples.

For pieces these are the training clusters that may belong with held-out ones (:mod:`outofcluster.evidence.entities`),
for single records whether they agree with the probabilities of having leaked that were given for them
(:mod:`outofcluster.leakage.data`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from outofcluster._base.arguments import Array, Codes


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

    train_clusters: Codes
    held_out_clusters: Codes
    probability: Array
    n_records: Codes
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

    train_clusters: Codes
    held_out_clusters: Codes
    caught: float
    precision: float


# The largest logarithm of a factor that is believed.
_LARGEST_STEP = 3.0


@dataclass(frozen=True)
class RateCheck:
    """What features and target of records say about their probabilities.

    Attributes
    ----------
    score : float
        U: by how many records the probabilities rise in all when features and target are taken into account.
    information : float
        I: the variance of that if the probabilities are right.
    known : float
        d: how much the probabilities know of features and target, from 0 to 1.
    """

    score: float
    information: float
    known: float

    @classmethod
    def pooled(cls, checks: Sequence[RateCheck]) -> RateCheck | None:
        """Those of all folds together, whose held-out clusters are different ones; None without any."""
        if not checks:
            return None
        known = sum(check.known for check in checks) / len(checks)
        return cls(sum(check.score for check in checks), sum(check.information for check in checks), known)

    @property
    def factor(self) -> float:
        """By what the odds of all records would have to be multiplied."""
        if self.information <= 0:
            return 1.0
        return math.exp(min(max(self.score / self.information, -_LARGEST_STEP), _LARGEST_STEP))

    @property
    def z(self) -> float:
        """The score in standard errors; negative where the probabilities are too high."""
        return self.score / math.sqrt(self.information) if self.information > 0 else 0.0
