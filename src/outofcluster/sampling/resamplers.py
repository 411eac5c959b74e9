r"""How clustering errors are injected: the strategies that the sampling loop takes.

Given an injected fraction a and a stream of random numbers, a `Resampler` says which records train and which are
scored. It also says which levels it would choose, how fits are spread over levels, and what a file of samples must
know about it.

*Records are drawn* (`DrawRecords`, the paper's Algorithm 1): each of n draws comes from V̂ with probability a, else from
T̂, uniformly; what was not drawn of V̂ is scored.

*Records are weighed* (`WeighRecords`): negative injected fractions, draws of T̂ that leave out what looks like V̂. They
need a density ratio, never p0. With r = dP_V/dT̂ at the records of T̂ (:mod:`outofcluster.evidence.sides`), a draw with
the weights

.. math:: w_j = \max(0,\; 1 - s\,r_j), \qquad \frac1{|T̂|} \sum_j w_j = 1 - μ ,

removes the mass μ, which stands for the injected fraction a = -μ/(1-μ). s follows from μ: the mean weight is
piecewise linear in s. (With the true ratio s = μ; an estimated one is cut at 0 and does not have mean 1, which
setting s by the mass repairs.) A negative mass adds V̂-like mass instead, weights 1 + \|s\| r: *remixing*.

V̂ is cut in parts. For each part the ratio was taught without it, and models that train with its weights are scored on
this part alone, or the weights would remove what resembles the scored records. Replicate number b scores part
b modulo the number of parts, so that as many replicates as there are parts make a *turn* in which all of V̂ is scored.
Within a turn of k replicates the draws of a record are spread evenly: with U_j uniform, replicate b of the turn keeps
record j where the fractional part of :math:`U_j + b/k` is below its weight, so that of five replicates a record of
weight ⅘ is left out of one, whichever that is. Most of the noise of one replicate is then taken back by the others, and
turns are independent of each other.

*Per-record rates.* Where q_j is known, the probability that record j leaked, r_j = q_j/q̄ takes the place of the ratio
(given for every part of V̂ too, since it may have learned from V̂). Of the leaked records the share
:math:`\sum_j w_j q_j / \sum_j q_j` is expected to be left, so that what is left of a leaked record is known without V̂.
A positive fraction stands for a *control*: the same mass is removed from all records alike, which shows what fewer
records do. A weighted draw is a uniform draw from a list in which each position of T̂ stands as often as its weight
says. That is how the compiled kernels draw by weights as they are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from outofcluster._base.arguments import Array, Codes, check_integer
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import percentage
from outofcluster._base.threads import one_thread
from outofcluster.curves.unmixing import mass_of_injected
from outofcluster.evidence.sides import Sides, tell_sides_apart
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.kernels.kernel import draw_records
from outofcluster.sampling.levels import allocate, extrapolation_design, largest_level

# Length of the list that stands for weights: at least so many entries, and so many for each record.
_LIST, _LIST_PER_RECORD = 1 << 15, 8
# Effective records that must be left: a number, and a share of T̂.
_LEAST_EFFECTIVE, _LEAST_SHARE = 10, 0.1
_LARGEST_MASS = 0.75


@dataclass(frozen=True)
class Draw:
    """One resample, in positions within T̂ and V̂."""

    from_train: Codes
    from_validation: Codes
    scored: Codes


@dataclass(frozen=True)
class Weighting:
    """What the weights of each level leave: of a plain level everything.

    Attributes
    ----------
    effective : array
        Effective number of T̂'s records.
    kept : array
        What is left of a leaked record.
    strata : array of int
        Number of parts that replicates take turns in.
    """

    effective: Array
    kept: Array
    strata: Codes


class Resampler(ABC):
    """What the sampling loop asks of a strategy."""

    # Records of T̂.
    n_train_pool: int
    # Whether fits may be spread over its own levels by the noise that a first round shows.
    adaptive: ClassVar[bool] = False
    # The least fraction that can be drawn, whatever the data.
    least: ClassVar[float] = 0.0

    @property
    @abstractmethod
    def size(self) -> int:
        """Size n of the binomial operator: how many things can leak."""

    @abstractmethod
    def levels(self, largest: float | None) -> Array:
        """The injected fractions to sample where none are asked for."""

    def check(self, levels: Array) -> None:
        """Refuse fractions that cannot be drawn."""
        wrong = levels[(levels < self.least) | (levels > 1)]
        if len(wrong):
            raise InputError(f"injected must hold fractions between 0 and 1, got {wrong[0]:g}.")

    def spread(self, levels: Array, shares: Array, budget: int) -> Codes:
        """The number of fits of each level, by the share that each should have."""
        return allocate(shares, budget, least=2 if budget >= 2 * len(shares) else 1)

    @abstractmethod
    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0, attempt: int = 0) -> Draw:
        """One resample; ``attempt`` counts those of this replicate that could not be used."""

    def weighting(self, levels: Array) -> Weighting:
        """What the weights of each level leave."""
        everything = np.ones(len(levels))
        return Weighting(self.n_train_pool * everything, everything.copy(), np.ones(len(levels), dtype=np.int64))

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """What samples that are merged must share."""

    def details(self) -> dict[str, Any]:
        """What a run that goes on must share beyond that."""
        return {}


@dataclass(frozen=True)
class DrawRecords(Resampler):
    """Single records leak, independently: the paper's model."""

    n_train: int
    n_train_pool: int
    n_validation_pool: int
    replace: bool = True

    # Its levels are those of the optimal extrapolation design.
    adaptive: ClassVar[bool] = True

    @classmethod
    def of(cls, fold: Fold, n_train: int | None = None, *, replace: bool = True) -> DrawRecords:
        """The strategy for a split; refuses a size that cannot be drawn."""
        size = fold.n_train if n_train is None else check_integer("n_train", n_train, least=2)
        if not replace and size > fold.n_train:
            raise InputError(
                f"n_train must be at most {fold.n_train}, the number of training rows, when replace=False, got {size}."
            )
        return cls(size, fold.n_train, len(fold.validation), replace)

    @property
    def size(self) -> int:
        """Number of training records."""
        return self.n_train

    def levels(self, largest: float | None) -> Array:
        """Those of the optimal extrapolation design, up to where enough of V̂ stays unused to score on."""
        highest = largest_level(self.n_train, self.n_validation_pool, self.replace) if largest is None else largest
        return extrapolation_design(3, 1000, highest).injected

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0, attempt: int = 0) -> Draw:
        """Algorithm 1's resample."""
        from_train, from_validation = draw_records(
            rng, injected, self.n_train, self.n_train_pool, self.n_validation_pool, self.replace
        )
        unused = np.ones(self.n_validation_pool, dtype=bool)
        unused[from_validation] = False
        return Draw(from_train, from_validation, np.flatnonzero(unused))

    def describe(self) -> dict[str, Any]:
        """Size and way of drawing."""
        return {"error_model": "records", "n_train": self.n_train, "replace": self.replace}


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
    part: Codes
    _lists: dict[tuple[float, int], Codes] = field(default_factory=dict, init=False, repr=False)

    # Whether positive fractions stand for controls, which thin T̂ as well.
    has_controls: ClassVar[bool] = False

    @classmethod
    def of_sides(cls, sides: Sides) -> RatioWeights:
        """The weights that follow from what tells the sides of a split apart."""
        return cls(sides.ratio_by_part, sides.ratio_validation, sides.part)

    @property
    def n_parts(self) -> int:
        """Number of parts."""
        return len(self.train)

    def describe(self) -> dict[str, Any]:
        """What samples that are merged must share."""
        return {}

    def weights(self, injected: float, part: int) -> Array:
        """Weights of T̂'s records at an injected fraction, for one part."""
        return _weights(self.train[part], self.train[part], injected)

    def _left(self, injected: float, part: int) -> float:
        """What is left of a leaked record, by what is left of a part's held-out records."""
        return float(_weights(self.validation[self.part == part], self.train[part], injected).mean())

    def kept(self, injected: float) -> float:
        """ρ = m_V/m_T: what is left of a leaked record, over what is left of all training records."""
        parts, counts = range(self.n_parts), np.bincount(self.part, minlength=self.n_parts)
        leaked = np.average([self._left(injected, part) for part in parts], weights=counts)
        return float(leaked / np.average([self.weights(injected, part).mean() for part in parts], weights=counts))

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
                removed = percentage(float(mass_of_injected(fraction)), 2)
                raise InputError(
                    f"injected must leave enough of the training records to draw from, got {fraction:g}, which removes "
                    f"{removed} of them and leaves {self.effective(float(fraction)):.0f} "
                    f"effective records of {self.train.shape[1]}."
                )

    def drawn_from(self, injected: float, part: int) -> Codes:
        """Positions of T̂ from which a uniform draw is a weighted one."""
        key = (injected, part)
        if key not in self._lists:
            weights = self.weights(injected, part)
            length = max(_LIST, _LIST_PER_RECORD * len(weights))
            edges = np.cumsum(weights) / weights.sum() * length
            positions = np.searchsorted(edges, np.arange(length) + 0.5, side="right")
            self._lists[key] = np.minimum(positions, len(weights) - 1)
        return self._lists[key]


@dataclass(frozen=True, eq=False)
class RecordWeights(RatioWeights):
    """Weights that follow from the probability of every record of T̂ that it leaked.

    Attributes
    ----------
    stated : array of shape (records of T̂,)
        The probabilities as the caller states them, which identify the run.
    """

    stated: Array

    has_controls: ClassVar[bool] = True

    @classmethod
    def of(cls, probabilities: Array, part: Codes, stated: Array | None = None) -> RecordWeights:
        """The weights for some probabilities, which may all be 0: then nothing is removed."""
        means = probabilities.mean(axis=1, keepdims=True)
        ratio = probabilities / np.where(means > 0, means, 1.0)
        return cls(ratio, np.ones(len(part)), part, probabilities[0] if stated is None else stated)

    def describe(self) -> dict[str, Any]:
        """The probabilities that were stated."""
        return {"weights": "per-record rates", "record_rates": digest(self.stated)}

    def weights(self, injected: float, part: int) -> Array:
        """Weights of T̂'s records; those of a control are all the same."""
        mass = float(mass_of_injected(injected))
        return np.full(self.train.shape[1], 1 + mass) if mass < 0 else super().weights(injected, part)

    def _left(self, injected: float, part: int) -> float:
        """What is left of a leaked record, by the probabilities themselves."""
        ratio = self.train[part]
        return float(self.weights(injected, part) @ ratio / (ratio.sum() or 1.0))

    def allows(self, injected: float) -> bool:
        """Whether so much can be removed at all, and enough is left."""
        if not self.train.any():
            return True
        can_go = float((self.train > 0).mean(axis=1).min())
        return float(mass_of_injected(injected)) < can_go and super().allows(injected)


def _weights(at: Array, ratio: Array, injected: float) -> Array:
    """Weights of records with the ratios ``at``, where ``ratio`` are those of T̂'s records."""
    weights: Array = np.maximum(1 - _strength(ratio, float(mass_of_injected(injected))) * at, 0.0)
    return weights


def _strength(ratio: Array, mass: float) -> float:
    """The s with mean(max(0, 1 - s r)) = 1 - mass, exactly, by the sorted ratios; 0 where all of them are 0."""
    if not ratio.any():
        return 0.0
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


@dataclass(frozen=True)
class WeighRecords(Resampler):
    """Training records are drawn, or kept, by weights at negative fractions, and at all of them if ``always``.

    Attributes
    ----------
    plain : DrawRecords
        How levels that are not weighted are drawn.
    weights : RatioWeights
        The weights.
    always : bool
        Whether positive fractions are drawn by weights as well (remixing).
    thin : bool
        Whether negative fractions keep each record of T̂ with the probability of its weight, instead of drawing n.
    seed : int
        Seed of the turns of thinned draws.
    """

    plain: DrawRecords
    weights: RatioWeights
    always: bool = False
    thin: bool = False
    seed: int = 0

    least: ClassVar[float] = -np.inf

    @property
    def size(self) -> int:
        """Number of training records."""
        return self.plain.n_train

    def levels(self, largest: float | None) -> Array:
        """Those of the optimal extrapolation design, which are not negative."""
        return self.plain.levels(largest)

    def check(self, levels: Array) -> None:
        """Refuse fractions above 1, and below what the data allow."""
        super().check(levels)
        self.weights.check(levels)

    def spread(self, levels: Array, shares: Array, budget: int) -> Codes:
        """Every part of V̂ is scored by as many replicates of a weighted level."""
        fits, parts = super().spread(levels, shares, budget), self.weighting(levels).strata
        in_turn = np.maximum(np.rint(fits / parts), 1).astype(np.int64) * parts
        return np.where(parts > 1, in_turn, fits)

    def is_weighted(self, injected: float) -> bool:
        """Whether a level is drawn by weights."""
        return injected < 0 or self.always

    def is_thinned(self, injected: float) -> bool:
        """Whether a level keeps records with the probability of their weight."""
        return self.thin and (injected < 0 or self.weights.has_controls)

    def pools(
        self, injected: float, replicate: int, rng: np.random.Generator | None = None
    ) -> tuple[Codes, Codes, DrawRecords]:
        """Positions of T̂ to draw from (where thinned: to train on), those of V̂ to score, and how records are drawn.

        A thinned draw has its turn, or where that could not be used other random numbers.
        """
        turn, part = divmod(replicate, self.weights.n_parts)
        scored = np.flatnonzero(self.weights.part == part)
        if self.is_thinned(injected):
            weights = self.weights.weights(injected, part)
            if rng is None:
                shared = np.random.default_rng([self.seed, turn]).random(len(weights))
                uniform = (shared + part / self.weights.n_parts) % 1
            else:
                uniform = rng.random(len(weights))
            listed = np.flatnonzero(uniform < weights)
            return listed, scored, replace(self.plain, n_train=len(listed), replace=False)
        return self.weights.drawn_from(injected, part), scored, self.plain

    def weighting(self, levels: Array) -> Weighting:
        """What the weights of each level leave."""
        weighting = self.plain.weighting(levels)
        for i in np.flatnonzero([self.is_weighted(float(a)) for a in levels]):
            weighting.effective[i] = self.weights.effective(float(levels[i]))
            weighting.kept[i] = self.weights.kept(float(levels[i]))
            weighting.strata[i] = self.weights.n_parts
        return weighting

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0, attempt: int = 0) -> Draw:
        """A weighted resample that a part of V̂ scores, or a plain one."""
        if not self.is_weighted(injected):
            return self.plain.draw(rng, injected, replicate, attempt)
        listed, scored, _ = self.pools(injected, replicate, rng if attempt else None)
        if not self.is_thinned(injected):
            listed = listed[draw_records(rng, 0.0, self.plain.n_train, len(listed), 1, True)[0]]
        return Draw(listed, np.zeros(0, dtype=np.int64), scored)

    def describe(self) -> dict[str, Any]:
        """Size and way of drawing, and where the weights come from."""
        return self.plain.describe() | {"by_weights": self.always, "thinned": self.thin} | self.weights.describe()

    def details(self) -> dict[str, Any]:
        """The weights."""
        return {"ratios": digest(self.weights.train)}


def sides_of(task: Task, fold: Fold, *, seed: np.random.SeedSequence, classifier: Any = None) -> Sides:
    """What the records of a task say about the two sides of a split."""
    clusters = task.clusters
    if clusters is None:
        clusters = np.zeros(task.n_records, dtype=np.int64)
        clusters[fold.validation] = 1
    with one_thread():
        return tell_sides_apart(
            task.X,
            task.y,
            fold.train,
            fold.validation,
            clusters=clusters,
            seed=seed,
            classifier=classifier,
            estimator=task.estimator,
            discrete=task.classifier,
        )
