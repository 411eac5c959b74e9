r"""The laws of both sides as mixtures: one Student law for every approximate cluster, and for every class in it.

A component's mean borrows one record from its cluster's mean. A cluster's spread is its own, with 4 records per column
borrowed from the spread of the side; a cluster with fewer records than columns has the spread of the side. The laws of
a side are added up with their shares. Tails are those of 20 degrees of freedom, since distant records prove nothing.

Leaked records would widen the laws of T̂'s clusters until they cover V̂. So what describes T̂ is learned by EM, with the
weight 1 - q for a record that leaked with probability q (:mod:`outofcluster.split.discriminator.logistic`).
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from outofcluster.split.discriminator.encoding import Encoded, Floats, Ints
from outofcluster.split.discriminator.logistic import FIRST_RATE, ROUNDS, probability_of_leaking

__all__ = ["cluster_log_ratio"]

_BORROWED = 4.0
"""Records per column that a cluster's spread borrows from its side's."""
_FREEDOM = 20.0
"""Degrees of freedom of the Student laws."""
_MOST_CLUSTERS = 200
"""Clusters of a side with a law of their own; where there are more, clusters with near means share one."""
_CHUNK = 1 << 14
"""Records at which densities are worked out at once."""


def cluster_log_ratio(records: Encoded, clusters: Ints, side: Ints, taught: Ints, new: Ints) -> Floats:
    """Log ratio of V's law to T's at the records ``new``, by laws that were taught by the records ``taught``."""
    if records.classes is None:
        points, classes = np.column_stack([records.features, records.targets]), np.zeros(len(side), dtype=np.int64)
    else:
        points, classes = records.features, records.classes
    n_classes = int(classes.max()) + 1
    training, held_out = taught[side[taught] == 0], taught[side[taught] == 1]
    of_training, of_held_out = (_merged(points[rows], clusters[rows]) for rows in (training, held_out))
    law_v = _Law(points[held_out], classes[held_out], of_held_out, np.ones(len(held_out)), n_classes)
    law_t = _Law(points[training], classes[training], of_training, np.ones(len(training)), n_classes)
    by_v, rate = law_v(points[training], classes[training]), FIRST_RATE
    for _ in range(ROUNDS):
        leaked, rate = probability_of_leaking(by_v - law_t(points[training], classes[training]), rate)
        law_t = _Law(points[training], classes[training], of_training, 1 - leaked, n_classes)
    return law_v(points[new], classes[new]) - law_t(points[new], classes[new])


def _merged(points: Floats, clusters: Ints) -> Ints:
    """Clusters numbered from 0; where there are very many, those with near means become one."""
    codes = np.unique(clusters, return_inverse=True)[1]
    n = int(codes.max()) + 1
    if n <= _MOST_CLUSTERS:
        return codes
    from scipy.cluster.vq import vq

    means = np.column_stack([np.bincount(codes, column) for column in points.T]) / np.bincount(codes)[:, None]
    examples = means[np.linspace(0, n - 1, _MOST_CLUSTERS).astype(np.int64)]
    nearest, _ = vq(means, examples)
    return np.unique(nearest[codes], return_inverse=True)[1]


class _Law:
    """A mixture of Student laws, one for every cluster and class; means and spreads borrow from cluster and side."""

    def __init__(self, points: Floats, classes: Ints, clusters: Ints, weight: Floats, n_classes: int) -> None:
        d, n = points.shape[1], int(clusters.max()) + 1
        component = clusters * n_classes + classes
        self.d, self.n, self.n_classes = d, n, n_classes
        self.sizes = np.bincount(component, weight, minlength=n * n_classes)
        by_cluster = self.sizes.reshape(n, n_classes)
        totals = np.column_stack([np.bincount(component, weight * z, minlength=n * n_classes) for z in points.T])
        of_cluster = by_cluster.sum(axis=1) + 1e-9
        middles = totals.reshape(n, n_classes, d).sum(axis=1) / of_cluster[:, None]
        self.means = (totals + np.repeat(middles, n_classes, axis=0)) / (self.sizes + 1)[:, None]
        shares = of_cluster[:, None] / of_cluster.sum() * (by_cluster + 1 / n_classes) / (of_cluster[:, None] + 1)
        self.log_shares = np.log(shares.ravel())
        rest = (points - self.means[component]) * np.sqrt(weight)[:, None]
        free = max(weight.sum() - min((self.sizes > 0).sum(), weight.sum() / 2), 1.0)
        pooled = rest.T @ rest / free
        pooled = 0.95 * pooled + 0.05 * np.diag(np.diag(pooled)) + 1e-3 * np.eye(d)
        self.shared = _root(pooled)
        large = np.flatnonzero(np.bincount(clusters, minlength=n) > d)
        self.small = np.setdiff1d(np.arange(n), large)
        self.roots = {}
        for cluster in large:
            own = rest[clusters == cluster]
            spread = (own.T @ own + _BORROWED * d * pooled) / (of_cluster[cluster] + _BORROWED * d)
            self.roots[int(cluster)] = _root(spread)

    def __call__(self, points: Floats, classes: Ints) -> Floats:
        """Log density at some records, up to a constant that all laws share."""
        starts = range(0, max(len(points), 1), _CHUNK)
        return np.concatenate([self._at(points[i : i + _CHUNK], classes[i : i + _CHUNK]) for i in starts])

    def _at(self, points: Floats, classes: Ints) -> Floats:
        density = np.full((len(points), self.n), -np.inf)
        for label in np.unique(classes):
            rows = np.flatnonzero(classes == label)
            for cluster, root in self.roots.items():
                component = np.array([cluster * self.n_classes + label])
                density[rows, cluster] = self._components(points[rows], root, component)[:, 0]
            if len(self.small):
                components = self.small * self.n_classes + label
                density[np.ix_(rows, self.small)] = self._components(points[rows], self.shared, components)
        return np.asarray(logsumexp(density, axis=1))

    def _components(self, points: Floats, root: tuple[Floats, float], components: Ints) -> Floats:
        """Log densities of components that share a root of the inverse spread."""
        inverse, log_determinant = root
        z, means = points @ inverse.T, self.means[components] @ inverse.T
        squares = np.maximum((z**2).sum(axis=1)[:, None] + (means**2).sum(axis=1) - 2 * z @ means.T, 0)
        wider = 1 + 1 / (self.sizes[components] + 1)  # The mean is uncertain as well.
        tails = 0.5 * (_FREEDOM + self.d) * np.log1p(squares / (_FREEDOM * wider))
        return np.asarray(self.log_shares[components] - 0.5 * (log_determinant + self.d * np.log(wider)) - tails)


def _root(spread: Floats) -> tuple[Floats, float]:
    """A root of the inverse, and the log determinant."""
    inverse = np.linalg.inv(np.linalg.cholesky(spread))
    return inverse, float(-2 * np.log(np.diag(inverse)).sum())
