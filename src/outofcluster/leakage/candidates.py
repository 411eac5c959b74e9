"""Records that may belong with clusters elsewhere, by the probabilities of a linkage, and how likely they leak."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from outofcluster._base.validation import Array
from outofcluster.split.folds import Rows

__all__ = ["Candidates"]

# Nodes and weights on (0, 1) that stay exact for odds from tiny to huge: u = expit(π sinh s) (double exponential),
# with -log(u) in place of u so that nothing is lost near 1.
_STEP = np.linspace(-3.2, 3.2, 129)
_DECAY = np.logaddexp(0, -np.pi * np.sinh(_STEP))
_WEIGHT = expit(np.pi * np.sinh(_STEP)) * expit(-np.pi * np.sinh(_STEP)) * np.cosh(_STEP)
_WEIGHT /= _WEIGHT.sum()


@dataclass(frozen=True, eq=False)
class Candidates:
    """For the records of one side, the clusters that they may belong with: sorted by record, each pair once."""

    size: int  # records of the side
    share: float  # probability that a candidate is on the other side; 1 where only those that are were kept
    record: Rows
    m: Array
    unit: Rows  # number of the pair of approximate clusters, the same both ways

    @classmethod
    def of(cls, record: Rows, other: Rows, m: Array, codes: Rows, size: int, share: float) -> Candidates:
        """Of pairs of records, each way, with their probabilities; the most probable pair of a cluster counts."""
        own, cluster = codes[record], codes[other]
        order = np.lexsort((m, cluster, record))
        record, own, cluster, m = record[order], own[order], cluster[order], m[order]
        # The last of equal pairs is the most probable one.
        last = np.ones(len(m), dtype=bool)
        last[:-1] = (record[1:] != record[:-1]) | (cluster[1:] != cluster[:-1])
        unit = np.minimum(own, cluster) * (int(codes.max()) + 1) + np.maximum(own, cluster)
        return cls(size, share, record[last], m[last], unit[last])

    def leaks(self) -> Array:
        """Probability of leaking of each record that has candidates."""
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
