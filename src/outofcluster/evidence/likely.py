r"""Training clusters that are likelier than not pieces of held-out entities, and the leakage rate that they show.

**Likely pairs.** A pair of a training cluster and a held-out one is *likely* if its odds to be one entity are at least
one: by the pair classifier (:mod:`outofcluster.evidence.entities`), where features tell entities apart, or by a linkage
tool that compared the two and did not link them. Models are trained without the training clusters of all likely pairs
of a fold.

**A control.** Some of the likely pairs are two entities. What leaving out a neighbour that is nobody's mate does to the
loss is seen on other held-out clusters, as many as have a likely pair: those whose likeliest pair comes nearest to
being likely, without the training cluster of that pair. Where no pairs were compared the control leaves out one in
twenty training clusters, to show what fewer records do.

**How many would be caught.** The share of imitated pieces (records of them) whose odds would be at least one.

**Pieces unlike imitated ones.** A linkage misses records that look different. Of n pairs that somebody looked up let b
have a log ratio below the median of the imitated pieces. Imitated pieces below the median then count
:math:`2(b + 2½)/(n + 5)` times, and the others 2 minus that: as often as real ones are so unlike the rest.

**The leakage rate that is seen** is the expected share of held-out records whose cluster has a likely mate in training,

.. math:: \hat ρ = \frac1N \sum_h m_h q_h ,

with m_h the records of held-out cluster h and q_h the largest probability among its likely pairs.

**An upper bound.** Let A(t) be the share of the held-out records whose cluster has a candidate in training with a log
ratio of at least t, and B(t) the share of the records of imitated pieces that have one with each other. Where real
pieces are like imitated ones, ρ B(t) of the held-out records are in A(t), so that ρ ≤ A(t)/B(t) for every t. The
best t is chosen on one half of the clusters and evaluated on the other, and the bound is the mean of both ways of
\exp(\log A/B + 1.645 s), with s the standard error of the logarithm, by clusters. Where entities cannot be told apart
the bound is 1.

**Two searches together.** Two audits of the same problem draw different random numbers. Pairs that either of them found
count, each with the mean of its probabilities where it was found. Rates and shares are averaged. An audit that is
itself made of several counts as often as it has seeds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit, logit

from outofcluster._base.threads import one_thread
from outofcluster.evidence.encoding import Floats, Ints
from outofcluster.evidence.entities import EntityPairs, match_clusters
from outofcluster.evidence.laws import Cuts
from outofcluster.evidence.looked_up import LookUps
from outofcluster.problem.folds import Fold

# Standard errors between an estimate and its 95 % upper bound.
Z95 = 1.6448536269514722
# Thresholds that are tried for the bound of the rate.
_THRESHOLDS = 30
# Decimals of the log ratios that are compared with thresholds.
_DECIMALS = 6
# The least share of imitated pieces above a threshold that can be tried.
_LEAST_SHARE = 0.05
# Probabilities from which a pair is kept for people to look at.
WORTH_A_LOOK = 0.01
# The control is about one in so many held-out clusters at least, or leaves out one in so many training clusters.
_EVERY = 20
# Looked-up pairs as many as which imitated pieces count as they are.
_BORROWED_PAIRS = 5.0
# The share of a fold's training records that may be left out.
_MOST_LEFT_OUT = 0.4
# The share of imitated pieces that must be caught for what is seen not to be called a lower bound.
ENOUGH_CAUGHT = 0.5


@dataclass(frozen=True, eq=False)
class PairList:
    """Pairs of clusters and the log odds that they are one entity, each pair once.

    Attributes
    ----------
    left, right : array of int
        The clusters.
    log_odds : array
        Log odds that the two are one entity.
    """

    left: Ints
    right: Ints
    log_odds: Floats

    @classmethod
    def of(cls, pairs: EntityPairs, compared: PairList | None) -> PairList:
        """The candidates of the pair classifier, and the pairs that a linkage tool compared; the larger odds count."""
        parts = [cls(pairs.left, pairs.right, pairs.log_odds)] if pairs.identified else []
        parts += [] if compared is None else [compared]
        if not parts:
            return cls(*(np.zeros(0, dtype=np.int64),) * 2, np.zeros(0))
        left, right, log_odds = (
            np.concatenate([getattr(each, name) for each in parts]) for name in ("left", "right", "log_odds")
        )
        lower, upper = np.minimum(left, right), np.maximum(left, right)
        order = np.lexsort((-log_odds, upper, lower))
        first = np.ones(len(order), dtype=bool)
        first[1:] = (np.diff(lower[order]) != 0) | (np.diff(upper[order]) != 0)
        kept = order[first]
        return cls(lower[kept], upper[kept], log_odds[kept])

    @classmethod
    def of_probabilities(cls, left: Ints, right: Ints, probability: Floats) -> PairList:
        """Pairs that a linkage tool compared, with its probabilities."""
        return cls(left, right, np.asarray(logit(np.clip(probability, 1e-9, 1 - 1e-9))))


@dataclass(frozen=True)
class NamedPairs:
    """Pairs of clusters that a linkage tool compared and did not link, by their names.

    Attributes
    ----------
    left, right : tuple of str
        Names of the clusters.
    probability : tuple of float
        The tool's probability that the two are one entity, the largest over their records.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    probability: tuple[float, ...]

    def __read__(self) -> Self:
        if not len(self.left) == len(self.right) == len(self.probability):
            raise ValueError("pairs must have as many probabilities as clusters on either side")
        return self


@dataclass(frozen=True, eq=False)
class LikelyPieces:
    """The training clusters of a split that are likelier than not pieces of held-out entities, pair by pair.

    Attributes
    ----------
    train_clusters, held_out_clusters : array of int of shape (pairs,)
        The two clusters of every likely pair.
    probability : array of shape (pairs,)
        Probability that the two are one entity.
    control_clusters : array of int
        The training clusters that the control leaves out.
    control_held_out, control_probability : array of shape (pairs of the control,)
        The held-out clusters whose likeliest mates these are, and the probability of every pair.
    """

    train_clusters: Ints
    held_out_clusters: Ints
    probability: Floats
    control_clusters: Ints
    control_held_out: Ints
    control_probability: Floats


NOTHING_LIKELY = LikelyPieces(*(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), np.zeros(0)) * 2)


@dataclass(frozen=True, eq=False)
class SeenPieces:
    """What the records of all folds show about split entities.

    Attributes
    ----------
    left, right : array of int of shape (pairs,)
        Pairs of clusters that may be one entity.
    probability : array of shape (pairs,)
        Probability that they are.
    sizes : array of int of shape (clusters,)
        Records of every cluster.
    auc : float
        Quality of the pair classifier; NaN where there is none.
    caught : float
        Share of imitated pieces that would be caught.
    rate, upper : float
        The share of held-out records whose entity is seen to train, and a 95 % upper bound of the share that does.
    """

    left: Ints
    right: Ints
    probability: Floats
    sizes: Ints
    auc: float
    caught: float
    rate: float
    upper: float


def likely_pieces(pairs: PairList, fold: Fold, clusters: Ints) -> LikelyPieces:
    """The pairs across a split whose odds are at least one, and clusters for a control."""
    n_clusters = int(clusters.max()) + 1
    across = _across(pairs, fold, clusters)
    one, other, log_odds = across.left, across.right, across.log_odds
    likely = log_odds >= 0
    trained = np.bincount(clusters[fold.train], minlength=n_clusters)
    by_odds = np.flatnonzero(likely)[np.argsort(-log_odds[likely], kind="stable")]
    left_out_first = np.zeros(len(by_odds), dtype=np.int64)
    first = np.unique(one[by_odds], return_index=True)[1]
    left_out_first[first] = trained[one[by_odds[first]]]
    # The likeliest of them, as far as enough records are left to train on.
    likely[by_odds[np.cumsum(left_out_first) > _MOST_LEFT_OUT * fold.n_train]] = False
    left_out = np.zeros(n_clusters, dtype=bool)
    left_out[one[likely]] = True
    has_likely = np.zeros(n_clusters, dtype=bool)
    has_likely[other[likely]] = True
    spare = np.flatnonzero(~left_out[one] & ~has_likely[other])
    # The likeliest pair of every other held-out cluster comes first, and the likeliest of these are taken.
    spare = spare[np.lexsort((-log_odds[spare], other[spare]))]
    spare = spare[np.diff(other[spare], prepend=-1) != 0]
    wanted = max(int(has_likely.sum()), -(-len(np.unique(clusters[fold.validation])) // _EVERY))
    control = spare[np.argsort(-log_odds[spare], kind="stable")[:wanted]]
    nobody = np.flatnonzero(trained)[_EVERY // 2 :: _EVERY] if not len(control) else one[control]
    return LikelyPieces(
        one[likely],
        other[likely],
        np.asarray(expit(log_odds[likely])),
        nobody,
        other[control],
        np.asarray(expit(log_odds[control])),
    )


def _across(pairs: PairList, fold: Fold, clusters: Ints) -> PairList:
    """The pairs across a split, the training cluster first."""
    trains, tests = (np.zeros(int(clusters.max()) + 1, dtype=bool) for _ in range(2))
    trains[clusters[fold.train]] = True
    tests[clusters[fold.validation]] = True
    one, other = np.concatenate([pairs.left, pairs.right]), np.concatenate([pairs.right, pairs.left])
    kept = trains[one] & tests[other]
    return PairList(one[kept], other[kept], np.tile(pairs.log_odds, 2)[kept])


@dataclass(frozen=True, eq=False)
class LookedThrough:
    """What a search for split entities gives.

    Attributes
    ----------
    pairs : EntityPairs
        Candidate pairs of clusters.
    likely : dict
        For every fold the training clusters that are likely pieces of held-out entities.
    seen : SeenPieces
        What all folds show.
    """

    pairs: EntityPairs
    likely: dict[int, LikelyPieces]
    seen: SeenPieces


def look_for_pieces(
    X: Any,
    y: Any,
    clusters: Ints,
    folds: Sequence[Fold],
    *,
    cuts: Cuts,
    seed: Any,
    discrete: bool | None = None,
    identity: Any = None,
    compared: PairList | None = None,
) -> LookedThrough:
    """Which training clusters of every fold are probably pieces of held-out entities, and what that shows."""
    with one_thread():
        pairs = match_clusters(X, y, clusters, cuts=cuts, seed=seed, discrete=discrete, identity=identity)
    joined = PairList.of(pairs, compared)
    likely = {fold.index: likely_pieces(joined, fold, clusters) for fold in folds}
    return LookedThrough(pairs, likely, seen_pieces(pairs, joined, tuple(folds), likely, clusters))


def tilt(pairs: EntityPairs, look_ups: LookUps | None) -> Floats | None:
    """How much every imitated cut of every cluster counts; None where no pairs were looked up."""
    known = pairs.imitated[~np.isnan(pairs.imitated)]
    if look_ups is None or not pairs.identified or not len(known):
        return None
    of_pair = dict(zip(zip(pairs.left.tolist(), pairs.right.tolist(), strict=True), pairs.log_ratio, strict=True))
    looked_up = {
        (min(cluster, mate), max(cluster, mate))
        for cluster, mates in zip(look_ups.clusters.tolist(), look_ups.mates, strict=True)
        for mate in mates.tolist()
    }
    if not looked_up:
        return None
    middle = float(np.median(known))
    below = sum(of_pair.get(pair, -math.inf) < middle for pair in looked_up)
    often = 2 * (below + _BORROWED_PAIRS / 2) / (len(looked_up) + _BORROWED_PAIRS)
    return np.where(np.isnan(pairs.imitated), 1.0, np.where(pairs.imitated < middle, often, 2 - often))


def seen_pieces(
    pairs: EntityPairs, joined: PairList, folds: tuple[Fold, ...], likely: dict[int, LikelyPieces], clusters: Ints
) -> SeenPieces:
    """What all folds show about the share of held-out records whose entity also trains."""
    total, expected = 0, 0.0
    for fold in folds:
        probability = np.zeros(len(pairs.sizes))
        pieces = likely[fold.index]
        np.maximum.at(probability, pieces.held_out_clusters, pieces.probability)
        total += len(fold.validation)
        expected += float(probability[clusters[fold.validation]].sum())
    rate = expected / max(total, 1)
    upper = max(_bound(pairs, folds, clusters), rate)
    shown = expit(joined.log_odds) >= WORTH_A_LOOK
    return SeenPieces(
        joined.left[shown],
        joined.right[shown],
        np.asarray(expit(joined.log_odds[shown])),
        pairs.sizes,
        pairs.auc,
        pairs.caught,
        rate,
        min(upper, 1.0),
    )


def _bound(pairs: EntityPairs, folds: tuple[Fold, ...], clusters: Ints) -> float:
    """The upper bound of the module's head."""
    if not pairs.identified:
        return 1.0
    # Rounded, so that the last bits of a log ratio do not decide which records are above a threshold.
    candidates = PairList(pairs.left, pairs.right, np.round(pairs.log_ratio, _DECIMALS))
    imitated = np.round(pairs.imitated, _DECIMALS)
    best, records = list[Floats](), list[Floats]()
    numbers = list[Ints]()
    for fold in folds:
        across = _across(candidates, fold, clusters)
        largest = np.full(len(pairs.sizes), -np.inf)
        np.maximum.at(largest, across.right, across.log_odds)
        held_out, counts = np.unique(clusters[fold.validation], return_counts=True)
        best.append(largest[held_out])
        records.append(counts.astype(float))
        numbers.append(held_out)
    of_clusters = _Shares(np.concatenate(best), np.concatenate(records), np.concatenate(numbers))
    cut, cluster = np.nonzero(~np.isnan(imitated))
    of_cuts = _Shares(imitated[cut, cluster], pairs.sizes[cluster].astype(float), cluster)
    finite = of_cuts.value[np.isfinite(of_cuts.value)]
    if len(finite) < 2:
        return 1.0
    shares = np.linspace(0, 1 - _LEAST_SHARE, _THRESHOLDS)
    thresholds = np.unique(np.quantile(finite, shares, method="lower"))
    bounds = []
    for half in (0, 1):
        ratios = np.array([_ratio(of_clusters, of_cuts, threshold, half) for threshold in thresholds])
        # The first of several that are equal but for their last bits.
        chosen = thresholds[np.argmax(ratios <= ratios.min() * (1 + 1e-9))]
        bounds.append(_ratio(of_clusters, of_cuts, chosen, 1 - half))
    return float(np.mean(bounds))


@dataclass(frozen=True, eq=False)
class _Shares:
    """Values with weights; entries of the same cluster are one unit, and even and odd clusters are two halves."""

    value: Floats
    weight: Floats
    cluster: Ints

    def above(self, threshold: float, half: int) -> tuple[float, float]:
        """The share of the weight of one half at or above a threshold, and its variance over clusters."""
        some = self.cluster % 2 == half
        weight, inside = self.weight[some], self.value[some] >= threshold
        total = max(float(weight.sum()), 1.0)
        share = float(weight[inside].sum()) / total
        moved = np.bincount(self.cluster[some], weight * (inside - share))
        return share, float((moved**2).sum()) / total**2


def _ratio(of_clusters: _Shares, of_cuts: _Shares, threshold: float, half: int) -> float:
    """A(t)/B(t) with the error of its logarithm on top."""
    (a, a_variance), (b, b_variance) = (each.above(threshold, half) for each in (of_clusters, of_cuts))
    if b < _LEAST_SHARE:
        return 1.0
    # One cluster more, so that no cluster above the threshold does not mean that there is none.
    a += float(of_clusters.weight.max()) / float(of_clusters.weight.sum())
    a_variance = max(a_variance, a * float(of_clusters.weight.max()) / float(of_clusters.weight.sum()))
    return min(a / b * math.exp(Z95 * math.sqrt(a_variance / a**2 + b_variance / b**2)), 1.0)


def joined_pieces(one: LikelyPieces, other: LikelyPieces, counts: Sequence[int]) -> LikelyPieces:
    """The likely pairs of two searches, and those of both controls."""
    likely = [(each.train_clusters, each.held_out_clusters, each.probability) for each in (one, other)]
    control = [(each.control_clusters, each.control_held_out, each.control_probability) for each in (one, other)]
    if any(len(clusters) != len(held_out) for clusters, held_out, _ in control):
        nothing, clusters = np.zeros(0, dtype=np.int64), np.union1d(one.control_clusters, other.control_clusters)
        return LikelyPieces(*_joined_pairs(likely, counts), clusters, nothing, np.zeros(0))
    return LikelyPieces(*_joined_pairs(likely, counts), *_joined_pairs(control, counts))


def joined_seen(one: SeenPieces, other: SeenPieces, counts: Sequence[int]) -> SeenPieces:
    """What two searches show."""
    left, right, probability = _joined_pairs(
        [(each.left, each.right, each.probability) for each in (one, other)], counts
    )
    averaged: dict[str, Any] = {
        name: float(np.average([getattr(one, name), getattr(other, name)], weights=counts))
        for name in ("auc", "caught", "rate", "upper")
    }
    return replace(one, left=left, right=right, probability=probability, **averaged)


def _joined_pairs(searches: Sequence[tuple[Ints, Ints, Floats]], counts: Sequence[int]) -> tuple[Ints, Ints, Floats]:
    """The pairs of clusters that any of two searches found, each with its mean probability where it was found."""
    left, right, probability = (np.concatenate(column) for column in zip(*searches, strict=True))
    weight = np.repeat(np.asarray(counts, dtype=float), [len(pairs) for pairs, _, _ in searches])
    pairs, number = np.unique(np.column_stack([left, right]), axis=0, return_inverse=True)
    # Some versions of numpy give the numbers as a column.
    number = number.ravel()
    mean = np.bincount(number, weight * probability) / np.bincount(number, weight)
    return pairs[:, 0], pairs[:, 1], np.asarray(mean, dtype=np.float64)
