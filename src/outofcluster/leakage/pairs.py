r"""The leakage rate that follows from the match probabilities of a linkage tool.

Pair probabilities give :math:`m_{jk}`, that record j belongs with approximate cluster k: the largest over k's records.
With odds :math:`o = m/(1-m)` and j belonging to at most one of the clusters on the other side, it leaks with
probability :math:`q_j = S/(1+S)`, :math:`S = \sum_k o_{jk}` over the other side. For K folds each k is there with
probability s (φ, the validation share, for p0 and 1-φ for rho0), independently, and
:math:`1/(1+S) = \int_0^1 u^S du` gives the average

.. math:: q_j = 1 - \int_0^1 \prod_k (1 - s + s\,u^{o_{jk}})\, du \qquad (= s\,m_{jk}\ \text{for one candidate}) ,

between the averages of max m and of min(1, Σ m). Decision: only candidates on a fold's other side compete, as in a
fixed split. Sharing out one unit of probability over all candidates, :math:`s \sum_k o/(1+\sum_k o)`, contradicts
calibration: two candidates at ½ would leak s·⅔, where calibrated ones leak between s - s²/2 and s.

The standard error is for the average over folds; the luck of one assignment to folds is not in it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array, check_vector
from outofcluster.leakage.splits import Side, below_one, check_side, counted_and_other, read_split
from outofcluster.split.folds import Clusters, Rows

__all__ = ["Candidates", "rate_of_pairs"]

# Nodes and weights on (0, 1) that stay exact for odds from tiny to huge: u = expit(π sinh s) (double exponential),
# with -log(u) in place of u so that nothing is lost near 1.
_STEP = np.linspace(-3.2, 3.2, 129)
_DECAY = np.logaddexp(0, -np.pi * np.sinh(_STEP))
_WEIGHT = expit(np.pi * np.sinh(_STEP)) * expit(-np.pi * np.sinh(_STEP)) * np.cosh(_STEP)
_WEIGHT /= _WEIGHT.sum()


def rate_of_pairs(left: Any, right: Any, probability: Any, groups: Any, cv: Any, of: Side) -> tuple[float, float]:
    """The rate and its standard error; see :meth:`outofcluster.Leakage.from_pair_probabilities` for the arguments."""
    parts = _read_candidates(left, right, probability, groups, cv, of)
    rate = sum(float(part.leaks().sum()) / part.size for part in parts) / len(parts)
    units = np.concatenate([part.unit for part in parts])
    spread = [part.share / part.size * np.sqrt(part.m * (1 - part.m)) for part in parts]
    together = np.bincount(np.unique(units, return_inverse=True)[1], np.concatenate(spread)) / len(parts)
    return below_one(rate, "probability"), math.sqrt(float(together @ together))


@dataclass(frozen=True, eq=False)
class Candidates:
    """For the records of one side, the clusters that they may belong with: sorted by record, each pair once."""

    size: int  # records of the side
    share: float  # probability that a candidate is on the other side; 1 where only those that are there are listed
    record: Rows
    m: Array
    unit: Rows  # number of the pair of approximate clusters, the same both ways

    @classmethod
    def of(cls, record: Rows, other: Rows, m: Array, codes: Rows, size: int, share: float) -> Candidates:
        """Candidates of pairs of records with their probabilities; the most probable pair of a cluster counts."""
        own, cluster = codes[record], codes[other]
        order = np.lexsort((m, cluster, record))
        record, own, cluster, m = record[order], own[order], cluster[order], m[order]
        # The last of equal pairs is the most probable one.
        last = np.ones(len(m), dtype=bool)
        last[:-1] = (record[1:] != record[:-1]) | (cluster[1:] != cluster[:-1])
        unit = np.minimum(own, cluster) * (int(codes.max()) + 1) + np.maximum(own, cluster)
        return cls(size, share, record[last], m[last], unit[last])

    def leaks(self) -> Array:
        """The probability of leaking for each record that has candidates."""
        if len(self.m) == 0:
            return np.zeros(0)
        _, start, count = np.unique(self.record, return_index=True, return_counts=True)
        with np.errstate(divide="ignore"):
            odds = self.m / (1 - self.m)
        if self.share == 1:
            return -np.expm1(-np.log1p(np.add.reduceat(odds, start)))
        leaks = self.share * self.m[start]
        several = count > 1
        if several.any():
            odds, count = odds[np.repeat(several, count)], count[several]
            first = np.cumsum(count) - count
            safe = np.zeros(len(count))
            for decay, weight in zip(_DECAY, _WEIGHT, strict=True):
                safe += weight * np.multiply.reduceat(1 + self.share * np.expm1(-odds * decay), first)
            leaks[several] = 1 - safe
        return leaks


def _read_candidates(left: Any, right: Any, probability: Any, groups: Any, cv: Any, of: Side) -> list[Candidates]:
    """Checked pairs as candidates: one set for random folds, or one for each fixed split."""
    check_side(of)
    clusters = Clusters.of(groups, None)
    codes, n = clusters.codes, len(clusters.codes)
    m = check_vector("probability", probability)
    if m.min() < 0 or m.max() > 1:
        i = int(np.flatnonzero((m < 0) | (m > 1))[0])
        raise InputError(f"probability must lie in [0, 1], got probability[{i}] = {m[i]:g}.")
    one, two = _check_records("left", left, len(m), n), _check_records("right", right, len(m), n)
    # Each pair counts both ways, unless it lies inside one cluster.
    record, other, m = np.concatenate([one, two]), np.concatenate([two, one]), np.concatenate([m, m])
    apart = codes[record] != codes[other]
    record, other, m = record[apart], other[apart], m[apart]
    split = read_split(cv, clusters)
    if isinstance(split, float):
        return [Candidates.of(record, other, m, codes, n, split if of == "train" else 1 - split)]
    parts = []
    for rows, other_rows in (counted_and_other(fold, of) for fold in split):
        across = np.isin(record, rows) & np.isin(other, other_rows)
        parts.append(Candidates.of(record[across], other[across], m[across], codes, len(rows), 1.0))
    return parts


def _check_records(name: str, rows: Any, count: int, n: int) -> Rows:
    array = np.asarray(rows)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise InputError(f"{name} must hold one row number for each of {count} pairs, got {array.dtype} {array.shape}.")
    if array.min() < 0 or array.max() >= n:
        raise InputError(f"{name} must hold rows between 0 and {n - 1}, got {array[(array < 0) | (array >= n)][0]}.")
    return array.astype(np.int64)
