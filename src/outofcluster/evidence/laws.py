r"""How a linkage cuts entities: the law of the pieces, learned from audited entities.

An entity of t records that linkage cut has pieces :math:`s_1, …, s_k` of :math:`t = \sum s_i` records. Each of them is
held out in some fold, and then each of the others trains with probability 1-φ, φ the validation share. So the pairs
(kept, leaked) are the pieces, each counting once, and the sum of those others that train, where there are any.

*Entities of another size.* What carries over is the smaller of the two parts, in records: linkage chips one or two
records off an entity, be it large or small. A cut of an entity of t records into (kept, leaked) becomes for a cluster
of s records

.. math:: (s - c, c) \text{ if leaked} < \text{kept, else } (c, s - c) , \qquad
          c = \min(\text{kept}, \text{leaked}, \lfloor s/2 \rfloor) ,

half of it each where both parts are equal, and with weight :math:`\exp(-\tfrac12 \log_2^2(t/s))`: entities of half or
twice the size count 0.6, of a quarter 0.14.

*Few audited entities.* The learned law is shrunk towards a default, which counts as much as 5 such pairs do. By
default the smaller part has c records with a probability proportional to :math:`c^{-2}`, and either part trains as
often as the other. Of the held-out records of cut entities of ten, 61 % then have a single mate in training; 63 to 76 %
were seen in real linkages, where a cut at random gives 20 %.

*No audited entities at all.* Then replicates take turns between two extremes (`AssumedCuts`): every cluster loses one
record, which is as often the one that trains as the one that stays; or the leaked piece has any size from 1 to t - 1
with the same probability. Of the held-out records of cut entities of ten, 55 % then have a single mate in training. The
losses of the two halves of the replicates show what the answer owes to the assumption, without a further fit. A linkage
may well cut in one of these ways only, and nothing says in which: with even odds, a quarter of the squared difference
of the two answers is added to the variance. (A share of each way that is uniform on [0, 1] would add a twelfth. In
trials the optimism's interval then missed the truth too often.)

*Which entities are cut.* Large ones are cut more often than small ones. An entity that was cut has k held-out pieces
in all, and one that is whole has none. The mean of k over audited entities of two records or more says how often a
cluster of s records stands for a cut entity, up to a factor. Entities of another size have the same weights as above,
and the mean of all counts as much as 5 of them.

Each piece counts once, so held-out records have their right weights where the kept records of many draws are pooled:
a draw that keeps nine records counts nine times as much as one that keeps a single record.

**Where leaked pieces hide.** How does the rate among the clusters that can be cut follow from the rate among all? rho0
is the share of V̂'s records whose cluster also has a piece in T̂. Those records sit in clusters that are
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

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from outofcluster._base.arguments import Array, Codes, check_choice, check_integer, check_share, check_vector
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import read

# Held-out pieces of cut entities that the default law counts as much as.
_DEFAULT_WEIGHT = 5.0


@dataclass(frozen=True)
class PieceLaw:
    """The law of the pieces into which a linkage cuts entities.

    Parameters
    ----------
    pieces : tuple of tuples of int
        The different ways in which audited entities are cut: records of each piece, the largest piece first. An entity
        that is whole has one piece.
    weights : tuple of float
        How many audited entities are cut in each of these ways.
    validation_share : float, default=0.2
        Share of the clusters that is held out: 1/K for K folds.

    Examples
    --------
    >>> from outofcluster.evidence.laws import PieceLaw

    Sixty entities were whole, and thirty lost one of their five records:

    >>> law = PieceLaw(((5,), (4, 1)), (60.0, 30.0))
    >>> law.probabilities(5).round(2)
    array([0.49, 0.01, 0.01, 0.49])
    >>> law.n_split, law.n_entities
    (30.0, 90.0)
    """

    pieces: tuple[tuple[int, ...], ...] = ()
    weights: tuple[float, ...] = ()
    validation_share: float = 0.2

    def __post_init__(self) -> None:
        pieces = tuple(tuple(check_integer("pieces", size, least=1) for size in cut) for cut in self.pieces)
        weights = tuple(check_vector("weights", self.weights).tolist()) if len(self.weights) else ()
        if len(weights) != len(pieces) or not all(pieces) or min(weights, default=1.0) <= 0:
            raise InputError(f"weights must hold one number above 0 for each of the {len(pieces)} ways to be cut.")
        object.__setattr__(self, "pieces", pieces)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "validation_share", check_share("validation_share", self.validation_share, "(0, 1)"))

    @classmethod
    def of(cls, entity: Codes, sizes: Codes, weight: Array, validation_share: float) -> PieceLaw:
        """The law of audited pieces: the number of each one's entity, in order, its records, and entities' weights."""
        counted: dict[tuple[int, ...], float] = {}
        starts = np.flatnonzero(np.diff(entity, prepend=-1))
        for number, parts in zip(entity[starts], np.split(sizes, starts[1:]), strict=True):
            cut = tuple(sorted(parts.tolist(), reverse=True))
            counted[cut] = counted.get(cut, 0.0) + float(weight[number])
        cuts = sorted(cut for cut, total in counted.items() if total > 0)
        return cls(tuple(cuts), tuple(counted[cut] for cut in cuts), validation_share)

    @property
    def n_entities(self) -> float:
        """Number of audited entities."""
        return float(sum(self.weights))

    @property
    def n_split(self) -> float:
        """Number of audited entities that are cut."""
        return float(sum(weight for cut, weight in zip(self.pieces, self.weights, strict=True) if len(cut) > 1))

    @cached_property
    def _cuts(self) -> NDArray[np.float64]:
        """Rows (entity's size, kept, leaked, weight) of the cuts that were seen, from V̂'s side."""
        rows = []
        for cut, weight in zip(self.pieces, self.weights, strict=True):
            for i, kept in enumerate(cut if len(cut) > 1 else ()):
                leaked = _sums(cut[:i] + cut[i + 1 :], 1 - self.validation_share)
                rows += [(sum(cut), kept, size, weight * leaked[size]) for size in np.flatnonzero(leaked[1:]) + 1]
        return np.array(rows, dtype=float).reshape(-1, 4)

    def probabilities(self, size: int) -> Array:
        """Probabilities of the sizes 1, …, size - 1 of the leaked piece.

        Examples
        --------
        >>> from outofcluster.evidence.laws import PieceLaw
        >>> PieceLaw().probabilities(4)
        array([0.4, 0.2, 0.4])
        """
        if size in self._by_size:
            return self._by_size[size]
        smaller = np.arange(1, size // 2 + 1)
        halves = smaller**-2.0 / (smaller**-2.0).sum() / 2
        chance = np.zeros(size)
        np.add.at(chance, smaller, _DEFAULT_WEIGHT * halves)
        np.add.at(chance, size - smaller, _DEFAULT_WEIGHT * halves)
        if len(self._cuts):
            entity, kept, leaked, weight = self._cuts.T
            part = np.minimum(np.minimum(kept, leaked), size // 2).astype(np.int64)
            near = weight * _nearness(entity, size)
            # Two equal parts say that a small one is cut off, and not which of the two is held out.
            small = np.where(leaked < kept, 1.0, np.where(leaked > kept, 0.0, 0.5))
            np.add.at(chance, part, near * small)
            np.add.at(chance, size - part, near * (1 - small))
        self._by_size[size] = chance[1:] / chance.sum()
        return self._by_size[size]

    @cached_property
    def _by_size(self) -> dict[int, Array]:
        return {}

    def draw_many(self, rng: np.random.Generator, sizes: Any) -> NDArray[np.int64]:
        """Sizes of the leaked pieces of many clusters.

        Examples
        --------
        >>> import numpy as np
        >>> from outofcluster.evidence.laws import PieceLaw
        >>> PieceLaw().draw_many(np.random.default_rng(0), np.array([1, 2, 10, 10]))
        array([0, 1, 1, 1])
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        chance = rng.random(len(sizes))
        drawn = np.zeros(len(sizes), dtype=np.int64)
        for size in np.unique(sizes[sizes > 1]):
            clusters = sizes == size
            steps = np.cumsum(self.probabilities(int(size)))
            drawn[clusters] = 1 + np.minimum(np.searchsorted(steps, chance[clusters], side="right"), size - 2)
        return drawn

    def cut_chances(self, sizes: Any) -> Array:
        """How often clusters of these sizes stand for cut entities, relative to the size that does so most often.

        Examples
        --------
        Every tenth entity of two records was cut, and every second one of eight:

        >>> from outofcluster.evidence.laws import PieceLaw
        >>> law = PieceLaw(((1, 1), (2,), (7, 1), (8,)), (10.0, 90.0, 50.0, 50.0))
        >>> law.cut_chances([2, 8, 8]).round(2)
        array([0.35, 1.  , 1.  ])
        """
        sizes = np.asarray(sizes, dtype=np.int64)
        several = [(sum(cut), len(cut), weight) for cut, weight in zip(self.pieces, self.weights, strict=True)]
        entity, pieces, weight = np.array([row for row in several if row[0] > 1], dtype=float).reshape(-1, 3).T
        held_out = weight * np.where(pieces > 1, pieces, 0.0)
        if not held_out.any() or len(sizes) == 0:
            return np.ones(len(sizes))
        chances = np.zeros(len(sizes))
        for size in np.unique(sizes):
            near = _nearness(entity, size)
            borrowed = _DEFAULT_WEIGHT * held_out.sum() / weight.sum()
            chances[sizes == size] = (near @ held_out + borrowed) / (near @ weight + _DEFAULT_WEIGHT)
        return np.asarray(chances / chances.max())


@dataclass(frozen=True)
class AssumedCuts:
    """How entities are cut where no audited ones show it: two extremes, in turn.

    Parameters
    ----------
    kind : {"both", "single", "uniform"}, default="both"
        "single": one record is taken off, and it leaks as often as it stays. "uniform": the leaked piece has any size
        with the same probability. "both": the first and the second in turn.

    Examples
    --------
    >>> from outofcluster.evidence.laws import AssumedCuts
    >>> AssumedCuts("single").probabilities(4)
    array([0.5, 0. , 0.5])
    >>> AssumedCuts().probabilities(5)
    array([0.375, 0.125, 0.125, 0.375])
    """

    kind: str = "both"

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ("both", "single", "uniform"))

    def of_replicate(self, replicate: int) -> AssumedCuts:
        """The law by which a replicate cuts all its clusters."""
        return AssumedCuts(KINDS[replicate % len(KINDS)]) if self.kind == "both" else self

    def probabilities(self, size: int) -> Array:
        """Probabilities of the sizes 1, …, size - 1 of the leaked piece, as often as clusters are cut so."""
        uniform, single = np.full(size - 1, 1 / (size - 1)), np.zeros(size - 1)
        single[[0, -1]] += 0.5 if size > 2 else 1.0
        return np.asarray({"single": single, "uniform": uniform, "both": (single + uniform) / 2}[self.kind])

    def draw_many(self, rng: np.random.Generator, sizes: Any) -> NDArray[np.int64]:
        """Sizes of the leaked pieces of many clusters, for one of the two kinds."""
        most: NDArray[np.int64] = np.maximum(np.asarray(sizes, dtype=np.int64), 2)
        if self.kind == "single":
            return np.where(rng.random(len(most)) < 0.5, 1, most - 1)
        return rng.integers(1, most)


# The laws that take turns where none was learned.
KINDS = ("single", "uniform")

Law = PieceLaw | AssumedCuts


def read_law(data: Any) -> Law | None:
    """A law from plain data; None where there is none."""
    if data is None:
        return None
    kind: type[Law] = AssumedCuts if "kind" in data else PieceLaw
    return read(kind, data, "a law of pieces")


def _nearness(entity: Array, size: float) -> Array:
    """How much entities of these sizes count for a cluster of another size."""
    return np.asarray(np.exp(-0.5 * np.log2(entity / size) ** 2))


def _sums(sizes: tuple[int, ...], chance: float) -> Array:
    """Law of the sum of those sizes that are taken, each with the same chance."""
    law = np.ones(1)
    for size in sizes:
        law = np.pad((1 - chance) * law, (0, size)) + np.pad(chance * law, (size, 0))
    return law


_LARGEST_ODDS = 4.0


def scored_rate(sizes: NDArray[np.int64], rate: float, law: Law | None = None) -> float:
    """The share of leaked records among those that sampling scores.

    Examples
    --------
    >>> import numpy as np
    >>> from outofcluster.evidence.laws import scored_rate

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
    return np.arange(len(counts)) * (counts - whole)
