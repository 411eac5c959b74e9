"""One audited fold: its rows, the user's own losses, and the samples, of the full size of training sets and of others.

A column is a level of one of the sizes: those of the full size come first. Weights, losses and influences have one
entry for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.sampling.samples import LossSamples
from outofcluster.split.folds import Fold

__all__ = ["FoldRun", "Moments", "sizes_of"]


@dataclass(frozen=True)
class FoldRun:
    """One audited fold: its rows, the user's own losses on them, and the samples.

    ``smaller`` holds the losses of smaller training sets at the same levels, ``second`` those with and without a second
    piece of clusters of which one trains already.
    """

    fold: Fold
    records: Array
    samples: LossSamples
    smaller: tuple[LossSamples, ...] = ()
    second: LossSamples | None = None

    @property
    def by_size(self) -> tuple[LossSamples, ...]:
        """The samples of every size, the full one first."""
        return (self.samples, *self.smaller)

    @property
    def replicates(self) -> dict[tuple[int, float], Array]:
        """Replicate losses by size and level: the columns of weights, losses and influences, in this order."""
        return {
            (samples.size, float(level)): losses
            for samples in self.by_size
            for level, losses in zip(samples.injected, samples.losses, strict=True)
        }

    def moments(self, *, clusters: bool) -> tuple[Moments, Moments, Moments | None]:
        """Influences of the units of T̂ through training, those of V̂'s, and those on what a second piece gains.

        Where units are ``clusters``, those of V̂ count through evaluation alone.
        """
        found = [(samples, samples.jackknife()) for samples in self.by_size]
        scored = [(run, jackknife.evaluation if clusters else jackknife.validation) for run, jackknife in found]
        second = None if self.second is None else Moments.of([(self.second, self.second.jackknife().evaluation)])
        return Moments.of([(run, jackknife.train) for run, jackknife in found]), Moments.of(scored), second


@dataclass(frozen=True)
class Moments:
    """Influences of units, a column a level of each size, and their Monte-Carlo noise summed over units."""

    mean: Array
    noise: Array

    @classmethod
    def of(cls, pools: list[tuple[LossSamples, Any]]) -> Moments:
        """Of the pools of every size."""
        noise = [
            pool.variance.sum(axis=1) / np.array([len(level) for level in samples.losses]) for samples, pool in pools
        ]
        return cls(np.concatenate([pool.mean.T for _, pool in pools], axis=1), np.concatenate(noise))


def sizes_of(runs: tuple[FoldRun, ...], shares: Array) -> tuple[int, ...]:
    """Sizes n of the binomial operator, the full one first, averaged over folds where they differ."""
    return tuple(
        round(float(np.average(sizes, weights=shares)))
        for sizes in zip(*([samples.size for samples in run.by_size] for run in runs), strict=True)
    )
