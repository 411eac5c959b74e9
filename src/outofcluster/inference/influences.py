r"""How much each unit of one fold moves the losses: the means of the jackknife's Z, and the Monte-Carlo noise in them.

A *column* is one level of one size of training sets; those of the full size come first. A unit of T̂ moves the losses
through training. A unit of V̂ moves them through evaluation, E in :mod:`outofcluster.sampling.samples`, and through
training where its records are injected. Where clusters are the units, what they do when they are injected is left out
(:mod:`outofcluster.inference.pooled` says why), so that only E counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster.sampling.audit_samples import FoldSamples
from outofcluster.sampling.samples import LossSamples, PoolJackknife


@dataclass(frozen=True)
class Moments:
    """Influences of the units of a pool, one row per unit and one column per level of each size.

    ``noise`` is the Monte-Carlo variance of each column's influences, summed over the units.
    """

    mean: Array
    noise: Array

    @classmethod
    def of(cls, pools: list[tuple[LossSamples, PoolJackknife]]) -> Self:
        """Put the pools of all sizes together."""
        noise = [pool.variance.sum(axis=1) / samples.counts for samples, pool in pools]
        return cls(np.concatenate([pool.mean.T for _, pool in pools], axis=1), np.concatenate(noise))

    def beside(self, other: Moments) -> Moments:
        """These columns and then those of others, of the same units."""
        return Moments(np.concatenate([self.mean, other.mean], axis=1), np.concatenate([self.noise, other.noise]))


def _unmixed_moments(fold: FoldSamples, units: str, unit_numbers: NDArray[np.int64]) -> Moments:
    """Influences through evaluation on the unmixed losses, by increasing mass, and on that of the user's own model."""
    assert fold.unmixed is not None
    below = Moments.of([(fold.unmixed, fold.unmixed.jackknife(units).evaluation)])
    places = np.searchsorted(unit_numbers, fold.scored_units(units), sorter=np.argsort(unit_numbers))
    places = np.argsort(unit_numbers)[places]
    losses = fold.losses_by(units, "parts")
    deviations = (losses - losses.mean()) / fold.n_validation
    own = np.bincount(places, deviations, len(unit_numbers))
    at = unmixed_place(fold.unmixed)
    mean = np.insert(below.mean[:, ::-1], at, own, axis=1)
    return Moments(mean, np.insert(below.noise[::-1], at, 0.0))


def unmixed_place(unmixed: LossSamples) -> int:
    """Where the user's own model, which removes no mass, stands among the unmixed losses by increasing mass."""
    return int((unmixed.injected > 0).sum())


@dataclass(frozen=True)
class FoldInfluences:
    """Influences of the units of one fold.

    Attributes
    ----------
    train_units, validation_units : array of int
        Number of each unit of T̂ and of V̂.
    train, validation : Moments
        Their influences on the losses.
    second : Moments or None
        Those of V̂'s units on the losses with and without a second piece.
    without_pieces : Moments or None
        Those of V̂'s units on the losses without the likeliest pieces, and without other clusters.
    """

    train_units: NDArray[np.int64]
    validation_units: NDArray[np.int64]
    train: Moments
    validation: Moments
    second: Moments | None
    without_pieces: Moments | None

    @classmethod
    def of(cls, fold: FoldSamples, units: str) -> Self:
        """The influences that follow from the jackknife's sums."""
        jackknives = [(samples, samples.jackknife(units)) for samples in fold.by_size]
        train = Moments.of([(samples, own.train) for samples, own in jackknives])
        scored = [(samples, own.evaluation if units == "clusters" else own.validation) for samples, own in jackknives]
        sums = fold.samples.sums[units]
        validation = Moments.of(scored)
        if fold.unmixed is not None:
            below = _unmixed_moments(fold, units, sums.validation_units)
            train = train.beside(Moments(np.zeros((len(train.mean), len(below.noise))), np.zeros(len(below.noise))))
            validation = validation.beside(below)
        return cls(
            sums.train_units,
            sums.validation_units,
            train,
            validation,
            *(
                None if samples is None else Moments.of([(samples, samples.jackknife(units).evaluation)])
                for samples in (fold.second, fold.without_pieces)
            ),
        )
