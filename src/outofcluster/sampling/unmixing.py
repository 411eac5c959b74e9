r"""Negative injected fractions: draws of T̂ that leave out what looks like V̂. They need a density ratio, never p0.

With r = dP_V/dT̂ at the records of T̂ (:mod:`outofcluster.split.discriminator`), a draw with the weights

.. math:: w_j = \max(0,\; 1 - s\,r_j), \qquad \frac1{|T̂|} \sum_j w_j = 1 - μ ,

removes the mass μ, which stands for the injected fraction a = -μ/(1-μ). s follows from μ: the mean weight is
piecewise linear in s. (With the true ratio s = μ; an estimated one is cut at 0 and does not have mean 1, which
setting s by the mass repairs.) A negative mass adds V̂-like mass instead, weights 1 + \|s\| r: *remixing*.

V̂ is cut in parts. For each part the ratio was taught without it, and models that train with its weights are scored on
this part alone, or the weights would remove what resembles the scored records. Replicate number b scores part
b modulo the number of parts.

*Per-record rates.* Where q_j is known, the probability that record j leaked, r_j = q_j/q̄ takes the place of the ratio
(given for every part of V̂ too, since it may have learned from V̂). Of the leaked records the share
:math:`\sum_j w_j q_j / \sum_j q_j` is expected to be left, so that what is left of a leaked record is known without V̂.
A positive fraction stands for a *control*: the same mass is removed from all records alike, which shows what fewer
records do.

A weighted draw is a uniform draw from a list in which each position of T̂ stands as often as its weight says. That is
how the compiled kernels draw by weights as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array
from outofcluster.curves.unmixing import mass_of_injected

__all__ = ["RatioWeights", "RecordWeights"]

Rows = NDArray[np.int64]

_LIST = 1 << 15
_LIST_PER_RECORD = 8
"""Length of the list that stands for weights: at least so many entries, and so many for each record."""
_LEAST_EFFECTIVE, _LEAST_SHARE = 10, 0.1
"""Effective records that must be left: a number, and a share of T̂."""
_LARGEST_MASS = 0.75


@dataclass(frozen=True, eq=False)
class RatioWeights:
    """Weights of T̂'s records that remove a mass, for every part of V̂.

    Attributes
    ----------
    train : array of shape (parts, records of T̂)
        The density ratio at T̂'s records, taught without each part.
    validation : array of shape (records of V̂,)
        The ratio at V̂'s records, by models that did not see them.
    part : array of int of shape (records of V̂,)
        The part of each.
    """

    train: Array
    validation: Array
    part: Rows
    _lists: dict[tuple[float, int], Rows] = field(default_factory=dict, init=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        # The lists are made again by whoever needs them.
        return {name: value for name, value in vars(self).items() if name != "_lists"} | {"_lists": {}}

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.train)

    @property
    def has_controls(self) -> bool:
        """Whether positive fractions stand for controls, which thin T̂ as well."""
        return False

    def scored(self, part: int) -> Rows:
        """Positions in V̂ of one part's records."""
        return np.flatnonzero(self.part == part)

    def weights(self, injected: float, part: int) -> Array:
        """Weights of T̂'s records at an injected fraction, for one part."""
        ratio = self.train[part]
        weights: Array = np.maximum(1 - _strength(ratio, float(mass_of_injected(injected))) * ratio, 0.0)
        return weights

    def kept(self, injected: float) -> float:
        """ρ = m_V/m_T: what is left of a leaked record, by what is left of held-out records."""
        of_train, of_validation, counts = [], [], np.bincount(self.part, minlength=self.n_parts)
        for part, ratio in enumerate(self.train):
            strength = _strength(ratio, float(mass_of_injected(injected)))
            own = self.validation[self.part == part]
            of_train.append(float(np.maximum(1 - strength * ratio, 0.0).mean()))
            of_validation.append(float(np.maximum(1 - strength * own, 0.0).mean()))
        return float(np.average(of_validation, weights=counts) / np.average(of_train, weights=counts))

    def effective(self, injected: float) -> float:
        """Effective number of T̂'s records, (Σw)²/Σw², averaged over the parts."""
        weights = [self.weights(injected, part) for part in range(self.n_parts)]
        return float(np.mean([w.sum() ** 2 / (w**2).sum() if w.any() else 0.0 for w in weights]))

    def allows(self, injected: float) -> bool:
        """Whether enough effective records are left to draw from."""
        least = max(_LEAST_EFFECTIVE, _LEAST_SHARE * self.train.shape[1])
        return float(mass_of_injected(injected)) <= _LARGEST_MASS and self.effective(injected) >= least

    def check(self, injected: Array) -> None:
        """Refuse fractions below what the data allow."""
        for fraction in injected[injected < 0]:
            if not self.allows(float(fraction)):
                raise InputError(
                    f"injected must leave enough of the training records to draw from, got {fraction:g}, which removes "
                    f"{float(mass_of_injected(fraction)):.0%} of them and leaves {self.effective(float(fraction)):.0f} "
                    f"effective records of {self.train.shape[1]}."
                )

    def drawn_from(self, injected: float, part: int) -> Rows:
        """Positions of T̂ from which a uniform draw is a weighted one."""
        key = (injected, part)
        if key not in self._lists:
            weights = self.weights(injected, part)
            length = max(_LIST, _LIST_PER_RECORD * len(weights))
            edges = np.cumsum(weights) / weights.sum() * length
            places = np.searchsorted(edges, np.arange(length) + 0.5, side="right")
            self._lists[key] = np.minimum(places, len(weights) - 1)
        return self._lists[key]


@dataclass(frozen=True, eq=False)
class RecordWeights(RatioWeights):
    """Weights that follow from the probability of every record of T̂ that it leaked.

    Attributes
    ----------
    given : array of shape (records of T̂,)
        The probabilities as they were given, which identify the run.
    """

    given: Array = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(cls, probabilities: Array, part: Rows, given: Array | None = None) -> RecordWeights:
        """The weights for some probabilities, which may all be 0: then nothing is removed.

        Parameters
        ----------
        probabilities : array of shape (parts, records of T̂)
            Probabilities of having leaked, for every part of V̂.
        part : array of int of shape (records of V̂,)
            The part of each record of V̂.
        given : array of shape (records of T̂,), optional
            The probabilities as they were given; the same for the first part by default.

        Returns
        -------
        RecordWeights
        """
        means = probabilities.mean(axis=1, keepdims=True)
        ratio = probabilities / np.where(means > 0, means, 1.0)
        return cls(ratio, np.ones(len(part)), part, given=probabilities[0] if given is None else given)

    @property
    def has_controls(self) -> bool:
        """Positive fractions thin T̂ as well."""
        return True

    def weights(self, injected: float, part: int) -> Array:
        """Weights of T̂'s records; those of a control are all the same."""
        mass = float(mass_of_injected(injected))
        if mass < 0:
            return np.full(self.train.shape[1], 1 + mass)
        ratio = self.train[part]
        if not ratio.any():
            return np.ones(len(ratio))
        weights: Array = np.maximum(1 - _strength(ratio, mass) * ratio, 0.0)
        return weights

    def kept(self, injected: float) -> float:
        """What is left of a leaked record, by the probabilities themselves."""
        counts = np.bincount(self.part, minlength=self.n_parts)
        weights = [self.weights(injected, part) for part in range(self.n_parts)]
        left = [float(w @ ratio / (ratio.sum() or 1.0)) for w, ratio in zip(weights, self.train, strict=True)]
        return float(np.average(left, weights=counts) / np.average([w.mean() for w in weights], weights=counts))

    def allows(self, injected: float) -> bool:
        """Whether so much can be removed at all, and enough is left."""
        if not self.train.any():
            return True
        can_go = float((self.train > 0).mean(axis=1).min())
        return float(mass_of_injected(injected)) < can_go and super().allows(injected)


def _strength(ratio: Array, mass: float) -> float:
    """The s with mean(max(0, 1 - s r)) = 1 - mass, exactly, by the sorted ratios."""
    if mass <= 0:
        return mass / float(ratio.mean())
    ordered = np.sort(ratio)
    n, below = len(ordered), np.cumsum(ordered)
    # With s = 1/ordered[i] the records above i are cut: removed = (s · sum up to i + number above i) / n.
    slopes = np.divide(below, ordered, out=np.zeros(n), where=ordered > 0)
    removed = (slopes + np.minimum(n - 1 - np.arange(n), np.count_nonzero(ordered))) / n
    reached = np.flatnonzero(removed >= mass)
    if len(reached) == 0:
        return mass / float(ratio.mean())
    i = int(reached[-1])
    return float((mass * n - (n - 1 - i)) / below[i])
