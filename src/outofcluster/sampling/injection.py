"""How clustering errors are injected: the strategies that the sampling loop takes.

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
entities show, else by two assumed laws in turn, :mod:`outofcluster.split.pieces`; its members uniform). The second
piece is always scored, the first joins T̂ with probability a. Clusters that do not leak are cut as well, so that all
levels score the same kind of records; clusters of one record cannot be cut and are left out. Where large audited
entities are cut more often, small clusters take part in fewer draws. T̂ trains as it is, or a bootstrap of it where
``n_train`` says so. *Second fragments*: the same for clusters of which a piece trains already. A first piece
always joins T̂, and what is left of the cluster is cut as above. How much a further piece lowers the loss is what
clusters that leaked before the audit gain from one.

A third error model is a third class here, in a file of its own if it is long, and an entry in ``INJECTIONS``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.ordering import in_increasing_order, order_of_codes
from outofcluster._base.plain import plain
from outofcluster._base.validation import Array, check_integer, short
from outofcluster.sampling.kernels import draw_records
from outofcluster.sampling.unmixing import RatioWeights
from outofcluster.split.pieces import KINDS, AssumedCuts, Law, PieceLaw

__all__ = ["INJECTIONS", "Draw", "Fragments", "Injection", "Records", "Weighting", "make_injection"]

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
        What is left of a leaked record, m_V/m_T (:mod:`outofcluster.sampling.unmixing`).
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
