r"""Where leaked pieces hide: how the rate among the clusters that can be cut follows from the rate among all.

rho0 is the share of V̂'s records whose cluster also has a piece in T̂. Those records sit in clusters that are
smaller than they should be, since a piece is missing. The smallest clusters, of a single record, can be neither cut
nor scored. So the clusters that sampling scores leak less often than V̂ as a whole; where every entity has two records,
they do not leak at all.

With :math:`n_s` clusters of s records observed, :math:`u_s` of them whole, an entity of size t split with the
same odds θ whatever its size, and the size of the piece that stays in V̂ uniform on 1, …, t - 1,

.. math:: n_s = u_s + \min\Bigl(n_s, θ \sum_{t > s} \frac{u_t}{t - 1}\Bigr) ,

which is solved from the largest size down; where the law of the pieces is known, the probability that the kept piece
has s records takes the place of 1/(t - 1), and θ is multiplied by the relative chance :math:`c_t` that an entity of t
records is cut. θ follows from rho0 (by root finding), and the rate among the scored records is that of the clusters of
two records or more, each of which scores half of its records on average, and as often as its :math:`c_s` says. Where
there are too few small clusters to explain all of rho0, the rest is spread evenly over all sizes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from outofcluster._base.validation import Array
from outofcluster.split.pieces import Law, PieceLaw

__all__ = ["PieceLaw", "scored_rate"]

_LARGEST_ODDS = 4.0


def scored_rate(sizes: NDArray[np.int64], rate: float, law: Law | None = None) -> float:
    """The share of leaked records among those that sampling scores.

    Parameters
    ----------
    sizes : array of int
        Records in each approximate cluster of V̂.
    rate : float
        rho0, the share of V̂'s records whose cluster also trains, below 1.
    law : PieceLaw or AssumedCuts, optional
        How entities are cut; by default the size of the kept piece is uniform.

    Returns
    -------
    float
        The rate at which the scored records leak.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.leakage.pieces import scored_rate

    Entities of two records: a leaked one leaves a single record, which cannot be cut and scored.

    >>> scored_rate(np.array([2] * 40 + [1] * 20), 0.2)
    0.0

    Many single records that are whole clusters: the others leak more often.

    >>> round(scored_rate(np.array([4] * 90 + [3] * 10 + [2] * 10 + [1] * 100), 0.1), 3)
    0.103
    """
    counts = np.bincount(sizes).astype(float)
    records = np.arange(len(counts)) * counts
    n_records = records.sum()
    odds = _LARGEST_ODDS
    if _leaked(counts, odds, law).sum() / n_records > rate:
        odds = brentq(lambda x: _leaked(counts, x, law).sum() / n_records - rate, 0, _LARGEST_ODDS, xtol=1e-12)
    leaked = _leaked(counts, odds, law)
    rest = max(rate - leaked.sum() / n_records, 0.0)
    evenly = rest / (1 - leaked.sum() / n_records) if rest > 1e-9 else 0.0
    scored = _chances(len(counts), law)[2:]
    explained = float(scored @ leaked[2:] / (scored @ records[2:])) if records[2:].any() else 0.0
    return explained + (1 - explained) * evenly


def _chances(count: int, law: Law | None) -> Array:
    """Relative chance that an entity is cut, by its size from 0 on."""
    if not isinstance(law, PieceLaw):
        return np.ones(count)
    return np.concatenate([np.ones(min(count, 2)), law.cut_chances(np.arange(2, count))])


def _leaked(counts: Array, odds: float, law: Law | None) -> Array:
    """Records in leaked clusters, by the cluster's size, for the odds that an entity is split."""
    whole, chances = counts.copy(), _chances(len(counts), law)
    pieces = np.zeros(len(counts))
    for size in range(len(counts) - 1, 0, -1):
        whole[size] = max(counts[size] - odds * pieces[size], 0.0)
        if size > 1 and whole[size] > 0:
            # By the size of the piece that is kept, from 1 to size - 1.
            if law is None:
                pieces[1:size] += whole[size] / (size - 1)
            else:
                pieces[1:size] += whole[size] * chances[size] * law.probabilities(size)[::-1]
    leaked: Array = np.arange(len(counts)) * (counts - whole)
    return leaked
