"""How large the observed clusters are, and whether one of them is a giant.

A linkage joins two records if their probability reaches a threshold. The lower the threshold, the more chains form, and
below some threshold most chains meet in one cluster that holds a large part of all records, as the giant component of a
random graph does. Such a cluster is no entity: it sits on one side of every split, and takes its fold for itself.

A cluster is a giant if it holds half of all records, or if it holds a fifth of them (a whole fold of five) and is more
than twenty times as large as the others are on average. So a hospital with 40 % of the patients is none, where five
hospitals share them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["ClusterSizes"]

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
    >>> from outofcluster.split.sizes import ClusterSizes
    >>> sizes = ClusterSizes.of(np.array([0, 0, 0, 1, 2]))
    >>> sizes.share, sizes.is_giant
    (0.6, True)
    """

    n_records: int
    n_clusters: int
    largest: int

    @classmethod
    def of(cls, codes: NDArray[np.int64]) -> ClusterSizes:
        """The sizes of clusters.

        Parameters
        ----------
        codes : array of int of shape (n,)
            Number of every record's cluster.

        Returns
        -------
        ClusterSizes
        """
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
