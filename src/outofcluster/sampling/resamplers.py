r"""How clustering errors are injected: the strategies that the sampling loop takes.

Given an injected fraction a and a stream of random numbers, a `Resampler` says which records train and which are
scored. It also says which levels it would choose, how fits are spread over levels, and what a file of samples must
know about it.

*Records are drawn* (`DrawRecords`, the paper's Algorithm 1): each of n draws comes from V̂ with probability a, else from
T̂, uniformly; what was not drawn of V̂ is scored.

*Pieces are cut* (`CutPieces`): record linkage splits entities, and a whole piece of one lands in T̂. Each cluster of V̂
with at least two records is cut in two (the size of the first piece by the law that audited entities show, else by two
assumed laws in turn, :mod:`outofcluster.evidence.laws`; its members uniform). The second piece is always scored, the
first joins T̂ with probability a. Clusters that do not leak are cut as well, so that all levels score the same kind of
records; clusters of one record cannot be cut and are left out. Where large audited entities are cut more often, small
clusters take part in fewer draws. T̂ trains as it is, or a bootstrap of it where ``n_train`` says so. *Second pieces*:
the same for clusters of which a piece trains already. A first piece always joins T̂, and what is left of the cluster is
cut as above. How much a further piece lowers the loss is what clusters that leaked before the audit gain from one.

*Records are weighed* (`WeighRecords`): negative injected fractions, draws of T̂ that leave out what looks like V̂. They
need a density ratio, never p0. With r = dP_V/dT̂ at the records of T̂ (:mod:`outofcluster.evidence.sides`), a draw with
the weights

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
records do. A weighted draw is a uniform draw from a list in which each position of T̂ stands as often as its weight
says. That is how the compiled kernels draw by weights as they are.

*Clusters are left out* (`WithoutClusters`): where record linkage split an entity, a pair classifier can tell which
training clusters are likelier than not pieces of held-out entities (:mod:`outofcluster.evidence.entities`). There are
two levels. At -1 these clusters do not train; what is left of leaked pieces is 1 - η, with η the share of imitated
pieces that the classifier finds. At 0 as many other training clusters of the same sizes do not train, drawn anew in
every replicate, so that both levels have equally many records to learn from. Both levels score only the held-out
clusters that the left-out clusters probably belong with. The difference of their losses is what such a cluster gains
from a piece of it that trains. It needs no leakage rate, and no cut is imitated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes, check_integer
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.rows import in_increasing_order, order_of_codes
from outofcluster._base.threads import one_thread
from outofcluster.curves.unmixing import mass_of_injected
from outofcluster.evidence.entities import LikelyPieces
from outofcluster.evidence.laws import KINDS, AssumedCuts, Law, PieceLaw
from outofcluster.evidence.sides import Sides, tell_sides_apart
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.kernels.kernel import draw_records
from outofcluster.sampling.levels import allocate, extrapolation_design, largest_level

# Members per size of clusters from which a sort for each size is faster than one sort of all.
_MEMBERS_PER_SORT = 500
# Where whole pieces leak the curve is close to a line.
_PIECE_LEVELS = 4
# Length of the list that stands for weights: at least so many entries, and so many for each record.
_LIST, _LIST_PER_RECORD = 1 << 15, 8
# Effective records that must be left: a number, and a share of T̂.
_LEAST_EFFECTIVE, _LEAST_SHARE = 10, 0.1
_LARGEST_MASS = 0.75


@dataclass(frozen=True)
class Draw:
    """One resample, in positions within T̂ and V̂.

    ``from_train`` is None where all of T̂ trains.
    """

    from_train: Codes | None
    from_validation: Codes
    scored: Codes
    # Whether T̂'s records were drawn by weights, or not at all, so that the jackknife's sums of uniform draws do not
    # hold and are not kept.
    weighted: bool = False


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
    # Whether a compiled kernel can draw like this.
    compilable: ClassVar[bool] = False
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
    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """One resample."""

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

    compilable: ClassVar[bool] = True
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

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
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
                raise InputError(
                    f"injected must leave enough of the training records to draw from, got {fraction:g}, which removes "
                    f"{float(mass_of_injected(fraction)):.0%} of them and leaves {self.effective(float(fraction)):.0f} "
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
    """

    plain: DrawRecords
    weights: RatioWeights
    always: bool = False
    thin: bool = False

    compilable: ClassVar[bool] = True
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
        in_turn = np.maximum(np.rint(fits / parts), 2).astype(np.int64) * parts
        return np.where(parts > 1, in_turn, fits)

    def is_weighted(self, injected: float) -> bool:
        """Whether a level is drawn by weights."""
        return injected < 0 or self.always

    def is_thinned(self, injected: float) -> bool:
        """Whether a level keeps records with the probability of their weight."""
        return self.thin and (injected < 0 or self.weights.has_controls)

    def pools(self, rng: np.random.Generator, injected: float, replicate: int) -> tuple[Codes, Codes, DrawRecords]:
        """Positions of T̂ to draw from (where thinned: to train on), those of V̂ to score, and how records are drawn."""
        part = replicate % self.weights.n_parts
        scored = np.flatnonzero(self.weights.part == part)
        if self.is_thinned(injected):
            weights = self.weights.weights(injected, part)
            listed = np.flatnonzero(rng.random(len(weights)) < weights)
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

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """A weighted resample that a part of V̂ scores, or a plain one."""
        if not self.is_weighted(injected):
            return self.plain.draw(rng, injected, replicate)
        listed, scored, _ = self.pools(rng, injected, replicate)
        if not self.is_thinned(injected):
            listed = listed[draw_records(rng, 0.0, self.plain.n_train, len(listed), 1, True)[0]]
        return Draw(listed, np.zeros(0, dtype=np.int64), scored, weighted=True)

    def describe(self) -> dict[str, Any]:
        """Size and way of drawing, and where the weights come from."""
        return self.plain.describe() | {"by_weights": self.always, "thinned": self.thin} | self.weights.describe()

    def details(self) -> dict[str, Any]:
        """The weights."""
        return {"ratios": digest(self.weights.train)}


@dataclass(frozen=True)
class CutPieces(Resampler):
    """Pieces of whole clusters leak: what record linkage does when it splits an entity.

    Attributes
    ----------
    members : array of int
        Positions in V̂ of the records that can be cut, cluster by cluster.
    sizes : array of int
        Records of each of these clusters.
    n_train_pool : int
        Records of T̂.
    n_train : int or None
        Size of a bootstrap of T̂, which trains as it is by default.
    law : PieceLaw or AssumedCuts
        How large the pieces are.
    second : bool
        Whether a piece of every cluster trains already.
    """

    members: Codes
    sizes: Codes
    n_train_pool: int
    n_train: int | None
    law: Law
    second: bool = False

    @classmethod
    def of(
        cls, fold: Fold, clusters: Codes | None, n_train: Any, law: PieceLaw | None = None, *, second: bool = False
    ) -> CutPieces:
        """The strategy for a split; refuses one without clusters that can be cut."""
        least, name = (3, "second-fragments") if second else (2, "fragments")
        if clusters is None:
            raise InputError(
                f"groups must be given for error_model={name!r}, which cuts the clusters of the validation rows."
            )
        labels = clusters[fold.validation]
        sizes = np.bincount(labels)
        members = np.flatnonzero(sizes[labels] >= least)
        members = members[order_of_codes(labels[members])]
        cuttable = sizes[sizes >= least]
        if len(cuttable) < 2:
            raise InputError(
                f"error_model={name!r} needs at least 2 validation clusters with {least} or more records, "
                f"got {len(cuttable)}; use error_model='records'."
            )
        size = None if n_train is None else check_integer("n_train", n_train, least=2)
        return cls(members, cuttable, fold.n_train, size, AssumedCuts() if law is None else law, second)

    @property
    def size(self) -> int:
        """Number of clusters that can be cut."""
        return len(self.sizes)

    def levels(self, largest: float | None) -> Array:
        """A few levels for a line."""
        return np.linspace(0, 1, _PIECE_LEVELS)

    def spread(self, levels: Array, shares: Array, budget: int) -> Codes:
        """Every level has equally many replicates of laws that take turns, but for an odd fit."""
        if not isinstance(self.law, AssumedCuts) or budget < 2 * len(levels):
            return super().spread(levels, shares, budget)
        fits = 2 * allocate(shares, budget // 2, least=1)
        fits[-1] += budget % 2
        return fits

    def weighting(self, levels: Array) -> Weighting:
        """All of it, in as many parts as there are laws that take turns."""
        turns = len(KINDS) if self.law == AssumedCuts() else 1
        return replace(super().weighting(levels), strata=np.full(len(levels), turns))

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """Cut every cluster that takes part, and let the first piece of some join training."""
        law = self.law.of_replicate(replicate) if isinstance(self.law, AssumedCuts) else self.law
        takes_part = self._taking_part(rng)
        order = self._shuffled(rng)
        first = law.draw_many(rng, self.sizes) if self.second else np.zeros_like(self.sizes)
        left = self.sizes - first
        cut = first + law.draw_many(rng, left)
        leaks = rng.random(len(self.sizes)) < injected
        # What is left of a cluster may be a single record, which is neither cut nor scored.
        joining = np.where(takes_part, np.where(leaks & (left > 1), cut, first), 0)
        cut = np.where(takes_part & (left > 1), cut, self.sizes)
        position, cluster = self._positions
        joined, scored = order[position < joining[cluster]], order[position >= cut[cluster]]
        # Where all of T̂ trains in every replicate, its units have no influence: S = N - M|c|/n is 0.
        from_train = None if self.n_train is None else rng.integers(self.n_train_pool, size=self.n_train)
        return Draw(from_train, joined, in_increasing_order(scored), weighted=from_train is None)

    @cached_property
    def _chances(self) -> Array:
        """How often each cluster takes part."""
        return self.law.cut_chances(self.sizes) if isinstance(self.law, PieceLaw) else np.ones(len(self.sizes))

    def _taking_part(self, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Clusters by the chance that an entity of their size is cut; all of them where none was chosen."""
        certain = self._chances == 1
        chosen = certain if certain.all() else rng.random(len(self.sizes)) < self._chances
        return chosen if chosen.any() else ~chosen

    @cached_property
    def _positions(self) -> tuple[Codes, Codes]:
        """For each of the members, its position within its cluster, and the number of the cluster."""
        starts = np.cumsum(self.sizes) - self.sizes
        positions = np.arange(len(self.members)) - np.repeat(starts, self.sizes)
        return positions, np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def _of_equal_size(self) -> list[Codes]:
        """For each size of a cluster, one row per cluster with the positions of its members; empty for few members."""
        different = np.flatnonzero(np.bincount(self.sizes))
        if len(self.members) < _MEMBERS_PER_SORT * len(different):
            return []
        starts = np.cumsum(self.sizes) - self.sizes
        return [starts[self.sizes == size][:, None] + np.arange(size) for size in different]

    def _shuffled(self, rng: np.random.Generator) -> Codes:
        """The members, cluster by cluster, in random order within each, by a sort of random numbers.

        Many members are sorted as tables of clusters of equal size, which is much faster than one sort of them all.
        """
        bits = 62 - len(self.sizes).bit_length()
        keys = rng.integers(1 << bits, size=len(self.members))
        if not self._of_equal_size:
            return np.take(self.members, np.argsort(keys + (self._positions[1] << bits)))
        shuffled = np.empty_like(self.members)
        for positions in self._of_equal_size:
            order = np.argsort(keys[positions], axis=1)
            shuffled[positions] = self.members[np.take_along_axis(positions, order, axis=1)]
        return shuffled

    def describe(self) -> dict[str, Any]:
        """Number of clusters, the size of the bootstrap, and the law of the pieces."""
        name = "second-fragments" if self.second else "fragments"
        return {"error_model": name, "n_train": self.n_train, "clusters": self.size, "law": plain(self.law)}


@dataclass(frozen=True)
class WithoutClusters(Resampler):
    """T̂ without the likeliest pieces of held-out entities, or without as many other clusters.

    Attributes
    ----------
    cluster : array of int
        Number of the cluster of every record of T̂.
    left_out : array of int
        Numbers of the clusters that are likely pieces.
    scored : array of int
        Positions in V̂ of the records that lose a piece.
    pieces : LikelyPieces
        Where this comes from.
    """

    cluster: Codes
    left_out: Codes
    scored: Codes
    pieces: LikelyPieces

    @classmethod
    def of(cls, pieces: LikelyPieces, clusters: Codes, fold: Fold) -> WithoutClusters:
        """The strategy for a split."""
        numbers, cluster = renumbered(clusters[fold.train])
        scored = np.flatnonzero(np.isin(clusters[fold.validation], pieces.held_out_clusters))
        return cls(cluster, np.searchsorted(numbers, pieces.train_clusters), scored, pieces)

    @property
    def size(self) -> int:
        """Number of scored records."""
        return len(self.scored)

    def levels(self, largest: float | None) -> Array:
        """The level without the pieces, and the one without other clusters."""
        return np.array([-1.0, 0.0])

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """All of T̂ but the pieces, or all but other clusters of the same sizes."""
        left_out = self.left_out if injected < 0 else self._others(rng)
        trains = np.flatnonzero(~np.isin(self.cluster, left_out))
        return Draw(trains, np.zeros(0, dtype=np.int64), self.scored, weighted=True)

    def _others(self, rng: np.random.Generator) -> Codes:
        """As many other clusters of T̂, of the same sizes or else of the nearest ones."""
        sizes = np.bincount(self.cluster)
        free = np.ones(len(sizes), dtype=bool)
        free[self.left_out] = False
        chosen = [np.zeros(0, dtype=np.int64)]
        for size, count in zip(*np.unique(sizes[self.left_out], return_counts=True), strict=True):
            others = rng.permutation(np.flatnonzero(free))
            nearest = others[np.argsort(np.abs(sizes[others] - size), kind="stable")][:count]
            free[nearest] = False
            chosen.append(nearest)
        return np.concatenate(chosen)

    def weighting(self, levels: Array) -> Weighting:
        """What is left of T̂'s records, and of imitated pieces."""
        left = float(len(self.cluster) - np.isin(self.cluster, self.left_out).sum())
        kept = np.where(levels < 0, 1 - self.pieces.caught, 1.0)
        return Weighting(np.full(len(levels), left), kept, np.ones(len(levels), dtype=np.int64))

    def describe(self) -> dict[str, Any]:
        """The name alone: which clusters are left out depends on the seed, and runs of other seeds can be merged."""
        return {"error_model": "without-pieces"}

    def details(self) -> dict[str, Any]:
        """The clusters that are left out."""
        return {"pieces": digest(vars(self.pieces))}


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
