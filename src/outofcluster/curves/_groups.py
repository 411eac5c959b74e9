"""Partitions of the positions 0, …, n into groups whose columns of A are alike.

The radius of a partition is ε = max_j ‖A_j - S_{r(j)}/|r(j)|‖. Its maximum over all n + 1 columns is taken over
a bounded number of them: all of them while they are few, otherwise those that matter. Columns vanish between the bells
of the rows and are smooth within them. So the maximum lies, to the precision of the grid, on a grid of points in the
window of each row, or at the edge of a group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.validation import Array
from outofcluster.curves.operator import BinomialOperator

__all__ = ["Groups", "adjacent_groups", "medoid_groups"]

_MAX_MEDOID_SIZE = 5000
"""Largest number of columns, whose distances then take 200 MB."""

_ALL_COLUMNS = 20_000
"""Number of columns up to which the radius is taken over every one of them."""

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Groups:
    """A partition of 0, …, n.

    Attributes
    ----------
    sizes : array of int
        Number of positions in each group.
    representative : array of int
        The position that stands for each group: its middle, or its medoid.
    edges : array of int or None
        For groups of adjacent positions, where each of them starts, followed by n + 1.
    labels : array of int or None
        For other groups, the group of each position.
    first_alone : bool
        Whether position 0 is a group of its own.
    """

    sizes: Indices
    representative: Indices
    edges: Indices | None
    labels: Indices | None
    first_alone: bool

    def of(self, j: Any) -> Indices:
        """The groups of positions."""
        if self.labels is not None:
            members: Indices = self.labels[j]
            return members
        assert self.edges is not None
        return np.asarray(np.searchsorted(self.edges, j, side="right") - 1, dtype=np.int64)

    def sums(self, operator: BinomialOperator) -> Array:
        """Sum of A's columns in each group."""
        if self.edges is not None:
            return operator.range_sums(self.edges)
        one_hot = np.eye(len(self.sizes))[self.labels]
        return operator.matrix() @ one_hot

    def representatives(self, operator: BinomialOperator) -> Array:
        """The representative column of each group times the group's size."""
        return operator.columns(self.representative) * self.sizes

    def radius(self, operator: BinomialOperator, design: Array) -> float:
        """The largest distance of a column of A from that of its group, divided by the size of the group."""
        columns = np.arange(operator.n + 1)
        if operator.n > _ALL_COLUMNS:
            bells = operator.lattice()
            edges = np.array([0]) if self.edges is None else np.concatenate([self.edges[:-1], self.edges[1:] - 1])
            columns = np.unique(np.concatenate([bells, edges]))
        distance = operator.columns(columns) - (design / self.sizes)[:, self.of(columns)]
        return float(np.linalg.norm(distance, axis=0).max())


def adjacent_groups(n: int, n_groups: int, first_alone: bool) -> Groups:
    """Runs of adjacent positions of nearly equal size, after position 0 if that is alone."""
    start = int(first_alone)
    # Whole numbers throughout, so that the sizes differ by at most one for any n.
    cuts = [start + (n + 1 - start) * g // n_groups for g in range(n_groups + 1)]
    edges = np.array([0] * start + cuts, dtype=np.int64)
    return Groups(np.diff(edges), (edges[:-1] + edges[1:] - 1) // 2, edges, None, first_alone)


def medoid_groups(operator: BinomialOperator, n_groups: int, first_alone: bool) -> Groups:
    """Groups of similar columns by k-medoids (FasterPAM), in the order of their medoids."""
    if operator.n > _MAX_MEDOID_SIZE:
        raise InputError(
            f"n must be at most {_MAX_MEDOID_SIZE} for grouping='medoid', which compares all columns with each other, "
            f"got {operator.n}; use grouping='adjacent'."
        )
    try:
        import kmedoids
    except ImportError:
        raise MissingExtraError("grouping='medoid' needs kmedoids: pip install 'outofcluster[medoids]'.") from None
    start = int(first_alone)
    columns = operator.matrix().T[start:]
    # Started by BUILD, not at random: the same groups every time.
    clustering = kmedoids.fasterpam(cdist(columns, columns), n_groups, init="build", n_cpu=1)
    medoids = np.asarray(clustering.medoids, dtype=np.int64)
    order = np.argsort(medoids)
    rank = np.argsort(order)
    labels = rank[np.asarray(clustering.labels, dtype=np.int64)] + start
    if first_alone:
        labels = np.concatenate([[0], labels])
    representative = np.concatenate([np.zeros(start, dtype=np.int64), medoids[order] + start])
    return Groups(np.bincount(labels, minlength=n_groups + start), representative, None, labels, first_alone)
