r"""How clustering errors are injected: the strategies that the sampling loop takes.

Given an injected fraction a and a stream of random numbers, a strategy says which records train and which are
scored. It has

``name``
    what ``error_model=`` calls it;
``size``
    n of the binomial operator: how many things can leak;
``draw(rng, a)``
    a :class:`Draw`, in row numbers;
``describe()``
    what a file of samples must know about it.

*Records* (the paper's Algorithm 1): each of n draws comes from V̂ with probability a, else from T̂, uniformly;
what was not drawn of V̂ is scored. *Fragments*: record linkage splits entities, and a whole piece of one lands
in T̂. Each cluster of V̂ with at least two records is cut in two (the size of the first piece by the law that audited
entities show, else by two assumed laws in turn, :mod:`outofcluster.evidence.laws`; its members uniform). The second
piece is always scored, the first joins T̂ with probability a. Clusters that do not leak are cut as well, so that all
levels score the same kind of records; clusters of one record cannot be cut and are left out. Where large audited
entities are cut more often, small clusters take part in fewer draws. T̂ trains as it is, or a bootstrap of it where
``n_train`` says so. *Second fragments*: the same for clusters of which a piece trains already. A first piece
always joins T̂, and what is left of the cluster is cut as above. How much a further piece lowers the loss is what
clusters that leaked before the audit gain from one.

A third error model is a third class here, in a file of its own if it is long, and an entry in ``INJECTIONS``.

Negative injected fractions: draws of T̂ that leave out what looks like V̂. They need a density ratio, never p0.

With r = dP_V/dT̂ at the records of T̂ (:mod:`outofcluster.evidence.sides`), a draw with the weights

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
"

Training without the likeliest pieces of held-out entities: negative levels where whole pieces of entities leak.

Where record linkage split an entity, a pair classifier can tell which training clusters are likelier than not pieces of
held-out entities (:mod:`outofcluster.evidence.entities`). There are two levels. At -1 these clusters do not train; what
is left of leaked pieces is 1 - η, with η the share of imitated pieces that the classifier finds. At 0 as many other
training clusters of the same sizes do not train, drawn anew in every replicate, so that both levels have equally many
records to learn from.
Both levels score only the held-out clusters that the left-out clusters probably belong with. The difference of their
losses is what such a cluster gains from a piece of it that trains. It needs no leakage rate, and no cut is imitated.

Telling the two sides of a split apart, for a task: the same call for a single run and for every fold of an audit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, check_integer, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.rows import in_increasing_order, order_of_codes
from outofcluster._base.threads import one_thread
from outofcluster.curves.unmixing import mass_of_injected
from outofcluster.evidence.laws import KINDS, AssumedCuts, Law, PieceLaw
from outofcluster.evidence.sides import Sides, tell_sides_apart
from outofcluster.evidence.suspects import LikelyPieces
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task
from outofcluster.sampling.kernels import draw_records

Rows = NDArray[np.int64]

_MEMBERS_PER_SORT = 500
"""Members per size of clusters from which a sort for each size is faster than one sort of all."""


@dataclass(frozen=True)
class Draw:
    """One resample, in positions within T̂ and V̂.

    Attributes
    ----------
    from_train : array of int or None
        Positions in T̂ that train, with repetitions; None where all of T̂ trains, each record once.
    from_validation : array of int
        Positions in V̂ that train, with repetitions.
    scored : array of int
        Positions in V̂ that are scored.
    """

    from_train: Rows | None
    from_validation: Rows
    scored: Rows
    weighted: bool = False
    """Whether T̂'s records were drawn by weights, or not at all, so that the jackknife's sums of uniform draws do not
    hold and are not kept."""


@dataclass(frozen=True)
class Weighting:
    """What the weights of each level leave: of a plain level everything.

    Attributes
    ----------
    effective : array of shape (levels,)
        Effective number of T̂'s records.
    kept : array of shape (levels,)
        What is left of a leaked record, m_V/m_T (:mod:`outofcluster.sampling.resamplers`).
    strata : array of int of shape (levels,)
        Number of parts of V̂ that the replicates score in turn, or of laws by which they cut clusters in turn.
    """

    effective: Array
    kept: Array
    strata: Rows

    @classmethod
    def none(cls, n_levels: int, n_train_pool: int) -> Weighting:
        """That of plain levels."""
        return cls(np.full(n_levels, float(n_train_pool)), np.ones(n_levels), np.ones(n_levels, dtype=np.int64))


class Injection(Protocol):
    """What the sampling loop asks of a strategy."""

    @property
    def name(self) -> str:
        """What ``error_model=`` calls it."""

    @property
    def size(self) -> int:
        """Size n of the binomial operator."""

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """One resample."""

    def weighting(self, injected: Array) -> Weighting:
        """What the weights of each level leave."""

    def describe(self) -> dict[str, Any]:
        """Its parameters."""


@dataclass(frozen=True)
class Records:
    """Single records leak, independently: the paper's model."""

    n_train: int
    n_train_pool: int
    n_validation_pool: int
    replace: bool = True
    name: str = "records"
    unmixing: RatioWeights | None = None
    """Weights for negative injected fractions."""
    by_weights: bool = False
    """Whether positive fractions are drawn by weights as well (remixing)."""
    thinned: bool = False
    """Whether negative fractions keep each record of T̂ with the probability of its weight, instead of drawing n."""

    @property
    def size(self) -> int:
        """Number of training records."""
        return self.n_train

    def is_weighted(self, injected: float) -> bool:
        """Whether a level is drawn by weights."""
        return self.unmixing is not None and (injected < 0 or self.by_weights)

    def is_thinned(self, injected: float) -> bool:
        """Whether a level keeps records with the probability of their weight."""
        return self.thinned and (injected < 0 or (self.unmixing is not None and self.unmixing.has_controls))

    def pools(self, rng: np.random.Generator, injected: float, replicate: int) -> tuple[Rows, Rows]:
        """Positions of T̂ to draw from uniformly (where thinned: to train on), and those of V̂ to score."""
        assert self.unmixing is not None
        part = replicate % self.unmixing.n_parts
        if self.is_thinned(injected):
            weights = self.unmixing.weights(injected, part)
            return np.flatnonzero(rng.random(len(weights)) < weights), self.unmixing.scored(part)
        return self.unmixing.drawn_from(injected, part), self.unmixing.scored(part)

    def weighting(self, injected: Array) -> Weighting:
        """What the weights of each level leave."""
        plain = Weighting.none(len(injected), self.n_train_pool)
        if self.unmixing is None:
            return plain
        for i in np.flatnonzero([self.is_weighted(float(a)) for a in injected]):
            plain.effective[i] = self.unmixing.effective(float(injected[i]))
            plain.kept[i] = self.unmixing.kept(float(injected[i]))
            plain.strata[i] = self.unmixing.n_parts
        return plain

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """Algorithm 1's resample, or a weighted one that a part of V̂ scores."""
        if self.is_weighted(injected):
            listed, scored = self.pools(rng, injected, replicate)
            nothing = np.zeros(0, dtype=np.int64)
            if not self.is_thinned(injected):
                listed = listed[draw_records(rng, 0.0, self.n_train, len(listed), 1, True)[0]]
            return Draw(listed, nothing, scored, weighted=True)
        from_train, from_validation = draw_records(
            rng, injected, self.n_train, self.n_train_pool, self.n_validation_pool, self.replace
        )
        unused = np.ones(self.n_validation_pool, dtype=bool)
        unused[from_validation] = False
        return Draw(from_train, from_validation, np.flatnonzero(unused))

    def describe(self) -> dict[str, Any]:
        """Size and way of drawing."""
        about = {"error_model": self.name, "n_train": self.n_train, "replace": self.replace}
        if self.unmixing is None:
            return about
        about |= {"by_weights": self.by_weights, "thinned": self.thinned}
        return about | {"weights": "per-record rates"} if self.unmixing.has_controls else about


@dataclass(frozen=True)
class Fragments:
    """Pieces of whole clusters leak: what record linkage does when it splits an entity."""

    members: Rows
    """Positions in V̂ of the records that can be cut, cluster by cluster."""
    sizes: Rows
    """Records of each of these clusters."""
    n_train_pool: int
    n_train: int | None
    law: Law
    """How large the pieces are."""
    second: bool = False
    """Whether a piece of every cluster trains already."""

    @property
    def name(self) -> str:
        """What ``error_model=`` calls it."""
        return "second-fragments" if self.second else "fragments"

    @property
    def size(self) -> int:
        """Number of clusters that can be cut."""
        return len(self.sizes)

    def weighting(self, injected: Array) -> Weighting:
        """All of it, in as many parts as there are laws that take turns."""
        plain = Weighting.none(len(injected), self.n_train_pool)
        in_turn = len(KINDS) if self.law == AssumedCuts() else 1
        return replace(plain, strata=np.full(len(injected), in_turn, dtype=np.int64))

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
        place, cluster = self._places
        joined, scored = order[place < joining[cluster]], order[place >= cut[cluster]]
        # Where all of T̂ trains in every replicate, its units have no influence: S = N - M|c|/n is 0.
        from_train = None if self.n_train is None else rng.integers(self.n_train_pool, size=self.n_train)
        return Draw(from_train, joined, in_increasing_order(scored), weighted=from_train is None)

    @cached_property
    def _chances(self) -> Array | None:
        """How often each cluster takes part; None where all always do."""
        if not isinstance(self.law, PieceLaw):
            return None
        chances = self.law.cut_chances(self.sizes)
        return None if (chances == 1).all() else chances

    def _taking_part(self, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Clusters by the chance that an entity of their size is cut; all of them where none was chosen."""
        if self._chances is not None:
            chosen = rng.random(len(self.sizes)) < self._chances
            if chosen.any():
                return chosen
        return np.ones(len(self.sizes), dtype=bool)

    @cached_property
    def _places(self) -> tuple[Rows, Rows]:
        """For each of the members, its place within its cluster, and the number of the cluster."""
        starts = np.cumsum(self.sizes) - self.sizes
        places = np.arange(len(self.members)) - np.repeat(starts, self.sizes)
        return places, np.repeat(np.arange(len(self.sizes)), self.sizes)

    @cached_property
    def _of_equal_size(self) -> list[Rows]:
        """For each size of a cluster, one row per cluster with the places of its members; empty for few members."""
        different = np.flatnonzero(np.bincount(self.sizes))
        if len(self.members) < _MEMBERS_PER_SORT * len(different):
            return []
        starts = np.cumsum(self.sizes) - self.sizes
        return [starts[self.sizes == size][:, None] + np.arange(size) for size in different]

    def _shuffled(self, rng: np.random.Generator) -> Rows:
        """The members, cluster by cluster, in random order within each, by a sort of random numbers.

        Many members are sorted as tables of clusters of equal size, which is much faster than one sort of them all.
        """
        bits = 62 - len(self.sizes).bit_length()
        keys = rng.integers(1 << bits, size=len(self.members))
        if not self._of_equal_size:
            keys += self._places[1] << bits
            shuffled: Rows = self.members[np.argsort(keys)]
            return shuffled
        shuffled = np.empty_like(self.members)
        for places in self._of_equal_size:
            shuffled[places] = self.members[np.take_along_axis(places, np.argsort(keys[places], axis=1), axis=1)]
        return shuffled

    def __getstate__(self) -> dict[str, Any]:
        computed = ("_places", "_chances", "_of_equal_size")
        return {name: value for name, value in vars(self).items() if name not in computed}

    def describe(self) -> dict[str, Any]:
        """Number of clusters, the size of the bootstrap, and the law of the pieces."""
        about = {"error_model": self.name, "n_train": self.n_train, "clusters": self.size}
        return about | {"law": plain(self.law)}


def _records(
    n_train: int | None, train: Rows, validation: Rows, groups: Any, replace: bool, law: PieceLaw | None
) -> Records:
    size = len(train) if n_train is None else check_integer("n_train", n_train, least=2)
    if not replace and size > len(train):
        raise InputError(
            f"n_train must be at most {len(train)}, the number of training rows, when replace=False, got {size}."
        )
    return Records(size, len(train), len(validation), replace)


def _fragments(
    n_train: int | None,
    train: Rows,
    validation: Rows,
    groups: Any,
    replace: bool,
    law: PieceLaw | None,
    second: bool = False,
) -> Fragments:
    least, name = (3, "second-fragments") if second else (2, "fragments")
    if groups is None:
        raise InputError(
            f"groups must be given for error_model={name!r}, which cuts the clusters of the validation rows."
        )
    labels = groups[validation]
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
    return Fragments(members, cuttable, len(train), size, AssumedCuts() if law is None else law, second)


INJECTIONS: dict[str, Callable[[int | None, Rows, Rows, Any, bool, PieceLaw | None], Injection]] = {
    "records": _records,
    "fragments": _fragments,
    "second-fragments": partial(_fragments, second=True),
}
"""The strategies by the name that ``error_model=`` gives them."""


def make_injection(
    error_model: str,
    *,
    n_train: int | None,
    train: Rows,
    validation: Rows,
    groups: Any,
    replace: bool,
    law: PieceLaw | None = None,
) -> Injection:
    """The strategy for a problem; refuses what it cannot do."""
    if error_model not in INJECTIONS:
        raise InputError(f"error_model must be {' or '.join(map(repr, INJECTIONS))}, got {short(error_model)}.")
    return INJECTIONS[error_model](n_train, train, validation, groups, replace, law)


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
        """The weights for some probabilities, which may all be 0: then nothing is removed."""
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


@dataclass(frozen=True)
class WithoutPieces:
    """T̂ without the likeliest pieces of held-out entities, or without as many other clusters.

    Attributes
    ----------
    cluster : array of int of shape (records of T̂,)
        Place of each record's cluster among the clusters of T̂.
    left_out : array of int
        Places of the clusters that are probably pieces.
    scored : array of int
        Positions in V̂ of the records that lose a piece.
    caught : float
        η: share of imitated pieces that are found.
    """

    cluster: Rows
    left_out: Rows
    scored: Rows
    caught: float
    name: str = "without-pieces"

    @classmethod
    def of(cls, pieces: LikelyPieces, clusters: Rows, train: Rows, validation: Rows) -> WithoutPieces:
        """The strategy for a split."""
        numbers, cluster = renumbered(clusters[train])
        loses = np.zeros(int(clusters.max()) + 1, dtype=bool)
        loses[pieces.held_out_clusters] = True
        scored = np.flatnonzero(loses[clusters[validation]])
        return cls(cluster, np.searchsorted(numbers, pieces.train_clusters), scored, pieces.caught)

    @property
    def size(self) -> int:
        """Number of scored records."""
        return len(self.scored)

    @property
    def levels(self) -> Array:
        """The level without the pieces, and the one without other clusters."""
        return np.array([-1.0, 0.0])

    def draw(self, rng: np.random.Generator, injected: float, replicate: int = 0) -> Draw:
        """All of T̂ but the pieces, or all but other clusters of the same sizes."""
        left_out = self.left_out if injected < 0 else self._others(rng)
        stays = np.ones(int(self.cluster.max()) + 1, dtype=bool)
        stays[left_out] = False
        trains = np.flatnonzero(stays[self.cluster])
        return Draw(trains, np.zeros(0, dtype=np.int64), self.scored, weighted=True)

    def _others(self, rng: np.random.Generator) -> Rows:
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

    def weighting(self, injected: Array) -> Weighting:
        """What is left of T̂'s records, and of imitated pieces."""
        left = float(len(self.cluster) - np.isin(self.cluster, self.left_out).sum())
        ones = np.ones(len(injected), dtype=np.int64)
        return Weighting(np.full(len(injected), left), np.where(injected < 0, 1 - self.caught, 1.0), ones)

    def describe(self) -> dict[str, Any]:
        """The name alone: which clusters are left out depends on the seed, and runs of other seeds can be merged."""
        return {"error_model": self.name}


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


def weights_of(sides: Sides) -> RatioWeights:
    """The weights for negative injected fractions that follow."""
    return RatioWeights(sides.ratio_by_part, sides.ratio_validation, sides.part)
