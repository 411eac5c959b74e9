r"""The leakage rate of audited records, whose true clusters are known.

p0 and rho0 are averages over the folds. With φ the validation share (1/K for K folds), and clusters put into folds at
random, another approximate cluster is on the validation side with probability φ, whatever the side of one's own. So
for a record j whose true cluster is spread over :math:`h_j` *other* approximate clusters

.. math:: p_0 = \operatorname{mean}_j [1-(1-φ)^{h_j}] , \qquad ρ_0 = \operatorname{mean}_j [1-φ^{h_j}] :

a training record is safe when all the other pieces train too, a validation record when all are held out with it.

The standard error is that of a ratio estimator with true clusters as independent units. It is for the average over
folds; the luck of one assignment to folds is not in it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.leakage.splits import Side, below_one, check_side, counted_and_other, read_split
from outofcluster.split.folds import Clusters, Rows, check_labels

__all__ = ["rate_of_audited_records"]


def rate_of_audited_records(true_groups: Any, groups: Any, cv: Any, of: Side) -> tuple[float, float | None]:
    """The rate and its standard error; see :meth:`outofcluster.Leakage.from_true_groups` for the arguments."""
    check_side(of)
    clusters = Clusters.of(groups, None)
    true = _codes(check_labels("true_groups", true_groups, len(clusters.codes)))
    split = read_split(cv, clusters)
    # For each split, the rows that are counted and the probability with which each of them leaks.
    pools: list[tuple[Any, Array]]
    if isinstance(split, float):
        # The chance that another piece lies on the same side, and so does no harm.
        harmless = 1 - split if of == "train" else split
        pieces = np.unique(np.stack([true, clusters.codes], axis=1), axis=0)[:, 0]
        pools, one_cut = [(slice(None), 1 - harmless ** (np.bincount(pieces)[true] - 1.0))], 1 - harmless
    else:
        sides = [counted_and_other(fold, of) for fold in split]
        pools, one_cut = [(rows, np.isin(true[rows], true[other]).astype(float)) for rows, other in sides], 1.0
    rate, influence = 0.0, np.zeros(true.max() + 1)
    for rows, leaks in pools:
        rate += float(leaks.mean()) / len(pools)
        influence += np.bincount(true[rows], leaks - leaks.mean(), len(influence)) / (len(leaks) * len(pools))
    count = len(np.unique(np.concatenate([true[rows] for rows, _ in pools])))
    if below_one(rate, "true_groups") == 0:
        return rate, one_cut / count
    return rate, None if count < 2 else math.sqrt(count / (count - 1) * float(influence @ influence))


def _codes(labels: Any) -> Rows:
    """Labels of any kind as numbers, in the order in which they first occur."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)
