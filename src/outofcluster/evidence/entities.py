r"""Pairs of approximate clusters that are probably one entity, by a classifier that these clusters teach themselves.

**Two scores of a pair of clusters.** Both are taught by the approximate clusters, whose records mostly are one entity
each.

*Means.* In the directions that tell clusters apart best (linear discriminant analysis), a record is its entity's
profile, of variance λ, plus noise of variance 1. The mean of n records then has the variance λ + 1/n, and two pieces
of one entity have the covariance λ. The log likelihood ratio of the two means, one entity against two, is a sum of
closed forms over the directions.

*Records.* A logistic regression tells pairs of records within a cluster from pairs across clusters, by the absolute
differences of their standardised features and targets, and by the squares of these. The score of two clusters is the
mean of its log odds over their pairs of records.

**What the scores are worth.** Only clusters with near means are candidates: the ten nearest, in those directions.
Pieces of an entity are imitated (:class:`outofcluster.evidence.laws.Cuts`). The imitated pairs that would be candidates
are compared with all candidate pairs. Most of the latter are two entities, but a share ε of them are one, so the labels
are uncertain, and the regression on both scores has a ceiling (:mod:`outofcluster.evidence.sides`). It gives η,
the log density ratio of one entity to two. The size of both clusters together says something too: two whole entities
have more records than one that was cut. The log ratio of how often imitated pieces and candidate pairs have so many
(in steps of half a power of two, at most 3) is added to η. ε is then learned by EM, and the odds of a candidate pair
are o = e^η ε/(1-ε). For one split ε is learned again from the candidate pairs across it, which borrow five split
entities at the ε of all pairs.

A cluster has at most one mate among its candidates, or nearly so. It therefore belongs with cluster l with probability
o_l/(1 + Σ o), and a training cluster leaked with probability Σ_{l held out} o_l/(1 + Σ o). The sums Σ o go over all its
candidates.

All of this is cross-fitted over clusters: the models that score a pair of clusters saw neither of the two.

Which pairs are likely enough to be left out of training, and what they say about the leakage rate, is the subject of
:mod:`outofcluster.evidence.likely`.

**Very many clusters.** At most 10,000 clusters with 50,000 records are compared with each other. Where there are more,
these are the ones nearest to eight random clusters, so that both pieces of a split entity are mostly among them. All
others are never suspected. What the pieces teach is a mean over those that are found, and needs no more of them.

What is supposed: a split entity looks like an entity that was not split. Where a linkage missed pairs because their
records differ, the probabilities of real mates come out too low.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.special import logit

from outofcluster._base.rows import order_of_codes
from outofcluster.evidence.encoding import Encoded, Floats, Ints, encode, encode_identity
from outofcluster.evidence.laws import Cuts
from outofcluster.evidence.members import logistic_log_ratio
from outofcluster.evidence.sides import auc, fit_stack
from outofcluster.problem.folds import Fold

# Folds of clusters.
_FOLDS = 4
# Clusters with the nearest means that are candidates of a cluster.
_NEIGHBOURS = 10
# Pairs of records within clusters, and across, that teach the classifier of pairs.
_MOST_PAIRS = 4000
# Records of a cluster whose pairs are scored.
_MOST_RECORDS = 8
# Directions in which means are compared.
_MOST_DIRECTIONS = 12
# Share of the total spread in the spread within clusters.
_SHRINK = 0.05
# Clusters of at least two records that the classifier needs.
_LEAST_CLUSTERS = 20
# AUC of the pairs, and share of imitated mates among the candidates, from which features tell entities apart.
_LEAST_AUC, _LEAST_RECALL = 0.75, 0.5
# Split entities that a split borrows from the rate of all pairs.
_BORROWED = 5.0
# Pairs of every size that are added before sizes are compared, and the most that sizes alone can say.
_EVERY_SIZE, _MOST_BY_SIZE = 2.0, 3.0
# Cuts that are compared; further ones are imitated without.
_MOST_CUTS = 4
# Clusters that are compared with each other, and the records that they have together, or nearly so.
_MOST_CLUSTERS, _MOST_ROWS = 10_000, 50_000
# Where there are more clusters: those nearest to so many random ones, by the means of so many records of each.
_REGIONS, _RECORDS_TO_PLACE = 8, 2
# Pairs of records that are scored at once.
_CHUNK = 8192
# Rounds of EM for the share of split entities.
_ROUNDS = 100
# No clusters.
_NONE: Ints = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class EntitySuspects:
    """The training clusters of a split, and the held-out clusters that they probably belong with.

    Attributes
    ----------
    train_clusters : array of int of shape (clusters,)
        All training clusters, the most suspicious first.
    held_out_clusters : array of int of shape (clusters,)
        The held-out cluster that each most probably belongs with, -1 where none is a candidate.
    probability : array of shape (clusters,)
        Probability that the training cluster is one entity with a held-out one; 0 where none is a candidate.
    n_records : array of int of shape (clusters,)
        Records of the training cluster.
    auc : float
        Quality of the pair classifier; see `EntityPairs`.
    identified : bool
        Whether features tell entities apart: the AUC is 0.75 or more, and the search finds the mates of at least half
        of the imitated pieces. If not, nobody is suspected and the arrays are empty.
    """

    train_clusters: Ints
    held_out_clusters: Ints
    probability: Floats
    n_records: Ints
    auc: float
    identified: bool


@dataclass(frozen=True, eq=False)
class EntityPairs:
    """Candidate pairs of approximate clusters, with the evidence that they are one entity.

    Attributes
    ----------
    left, right : array of int of shape (pairs,)
        The clusters, each pair once, the smaller number first.
    log_ratio : array of shape (pairs,)
        Log density ratio of one entity to two.
    sizes : array of int
        Records of every cluster.
    auc : float
        Of the pair classifier, cross-fitted: the probability that two records of one cluster have a higher score than
        two of different clusters. NaN where too few clusters have two records.
    recall : float
        Share of imitated pieces whose mate is among the ten candidates; NaN as well.
    imitated : array of shape (cuts, clusters)
        Log density ratio of the two pieces of every imitated cut, by models that did not see the cluster; minus
        infinity where they would not be candidates, NaN for clusters that cannot be cut or were not compared.
    """

    left: Ints
    right: Ints
    log_ratio: Floats
    sizes: Ints
    auc: float
    recall: float
    imitated: Floats

    @property
    def identified(self) -> bool:
        """Whether features tell entities apart well enough for the probabilities to mean something."""
        return bool(self.auc >= _LEAST_AUC and self.recall >= _LEAST_RECALL)

    @cached_property
    def log_odds(self) -> Floats:
        """Log odds that the pair is one entity, at the share of all pairs that are."""
        return np.asarray(self.log_ratio + self._prior)

    @property
    def _prior(self) -> float:
        return float(logit(_share(self.log_ratio, 0.0, 0.0)))

    @cached_property
    def is_caught(self) -> NDArray[np.bool_]:
        """For every cut and cluster, whether the two pieces would be likelier than not one entity."""
        return np.asarray(self.imitated + self._prior >= 0)

    @property
    def caught(self) -> float:
        """Share of the records of imitated pieces whose pair would be likelier than not one entity."""
        records = np.where(np.isnan(self.imitated), 0.0, self.sizes)
        return float(records[self.is_caught].sum() / max(records.sum(), 1.0)) if self.identified else 0.0

    def both_ways(self, fold: Fold, clusters: Ints) -> tuple[Ints, Ints, Floats, Any, Any]:
        """Every pair both ways, its log density ratio, and of all clusters which train and which are held out."""
        one, other = np.concatenate([self.left, self.right]), np.concatenate([self.right, self.left])
        codes, every = np.asarray(clusters), np.arange(len(self.sizes))
        trains, tests = np.isin(every, codes[fold.train]), np.isin(every, codes[fold.validation])
        return one, other, np.tile(self.log_ratio, 2), trains, tests


def match_clusters(
    X: Any, y: Any, clusters: Ints, *, cuts: Cuts, seed: Any, discrete: bool | None = None, identity: Any = None
) -> EntityPairs:
    """Candidate pairs of approximate clusters, and how well each pair fits one entity.

    Examples
    --------
    >>> from outofcluster.datasets import make_patients
    >>> from outofcluster.evidence.entities import match_clusters
    >>> from outofcluster.evidence.laws import AssumedCuts, Cuts
    >>> patients = make_patients(100, random_state=0)
    >>> cuts = Cuts.draw(patients.groups, 2, AssumedCuts(), np.random.default_rng(0))
    >>> pairs = match_clusters(patients.data, patients.target, patients.groups, cuts=cuts, seed=0)
    >>> pairs.auc > 0.95
    True
    """
    codes = np.asarray(clusters, dtype=np.int64)
    sizes = np.bincount(codes)
    if (sizes >= 2).sum() < _LEAST_CLUSTERS:
        return EntityPairs(_NONE, _NONE, np.zeros(0), sizes, np.nan, np.nan, np.full((1, len(sizes)), np.nan))
    rng = np.random.default_rng(seed)
    n_clusters = np.count_nonzero(sizes)
    most = min(_MOST_CLUSTERS, int(n_clusters * _MOST_ROWS / len(codes)))
    leaks = cuts.leaks[:_MOST_CUTS]
    chosen = np.flatnonzero(sizes)
    if n_clusters > most:
        chosen = _near_some(X, y, codes, most, rng, discrete)
    number = np.full(len(sizes), -1)
    number[chosen] = np.arange(len(chosen))
    rows = np.flatnonzero(number[codes] >= 0)
    records = encode_entities(X, y, rows, identity, discrete)
    pairs = _match(records, number[codes[rows]], leaks[:, rows], rng)
    imitated = np.full((len(leaks), len(sizes)), np.nan)
    imitated[:, chosen] = pairs.imitated
    return replace(pairs, left=chosen[pairs.left], right=chosen[pairs.right], sizes=sizes, imitated=imitated)


def encode_entities(X: Any, y: Any, rows: Ints, identity: Any, discrete: bool | None) -> Encoded:
    """Features and target as columns, with those that tell who is who and that no model sees."""
    records = encode(X, y, rows, discrete=discrete)
    if identity is None:
        return records
    return replace(records, features=np.column_stack([records.features, encode_identity(identity, rows)]))


def _match(records: Encoded, codes: Ints, leaks: NDArray[np.bool_], rng: np.random.Generator) -> EntityPairs:
    """The pairs among the clusters of these records, which have the numbers ``codes``."""
    sizes = np.bincount(codes)
    fold = _deal(sizes, rng)
    whole = _Pieces(codes, rng)
    cut_clusters = np.flatnonzero(sizes >= 2)
    number = np.full(len(sizes), -1)
    number[cut_clusters] = np.arange(len(cut_clusters))
    halves = [_Pieces(np.where(number[codes] < 0, -1, 2 * number[codes] + leak), rng) for leak in leaks]
    means = _Means(records.points, whole, np.flatnonzero(sizes))
    left, right = _candidates(means, whole)
    imitable = np.stack([_would_be_candidates(means, whole, pieces, cut_clusters) for pieces in halves])
    scores, piece_scores = np.empty((len(left), 2)), np.empty((*imitable.shape, 2))
    within, across = list[Floats](), list[Floats]()
    lower, upper = np.minimum(fold[left], fold[right]), np.maximum(fold[left], fold[right])
    for f, g in itertools.combinations_with_replacement(range(_FOLDS), 2):
        teaches = (fold != f) & (fold != g)
        near = teaches[left] & teaches[right]
        score = _Score(records, whole, np.flatnonzero(teaches & (sizes > 0)), (left[near], right[near]), rng)
        new = (lower == f) & (upper == g)
        scores[new] = score(whole, left[new], right[new])
        if f == g:
            held_out = np.flatnonzero(fold[cut_clusters] == f)
            for cut, pieces in enumerate(halves):
                piece_scores[cut, held_out] = score(pieces, 2 * held_out, 2 * held_out + 1)
            within.append(score.of_pairs(*whole.within(np.flatnonzero((fold == f) & (sizes > 1)), rng)))
            across.append(score.of_pairs(*whole.across(np.flatnonzero((fold == f) & (sizes > 0)), rng)))
    folds = np.broadcast_to((_FOLDS + 1) * fold[cut_clusters], imitable.shape)[imitable]
    of_cuts = np.full(imitable.shape, -np.inf)
    # Further cuts of the same clusters are no further evidence: the first one of each teaches.
    first = np.zeros(imitable.shape, dtype=bool)
    first[imitable.argmax(axis=0), np.arange(imitable.shape[1])] = imitable.any(axis=0)
    taught = first[imitable]
    log_ratio, of_cuts[imitable] = _log_ratio(
        scores, piece_scores[imitable], _FOLDS * lower + upper, folds, taught, rng
    )
    together = np.broadcast_to(sizes[cut_clusters], imitable.shape)[imitable]
    by_size = _size_ratio(sizes[left] + sizes[right], together)
    log_ratio = log_ratio + by_size(sizes[left] + sizes[right])
    of_cuts[imitable] += by_size(together)
    imitated = np.full((len(leaks), len(sizes)), np.nan)
    imitated[:, cut_clusters] = of_cuts
    quality = auc(np.concatenate(within), np.concatenate(across))
    return EntityPairs(left, right, log_ratio, sizes, quality, float(imitable.mean()), imitated)


def entity_suspects(pairs: EntityPairs, fold: Fold, clusters: Ints) -> EntitySuspects:
    """The training clusters of a split that are probably pieces of held-out entities.

    Examples
    --------
    >>> from outofcluster.datasets import make_patients
    >>> from outofcluster.evidence.entities import entity_suspects, match_clusters
    >>> from outofcluster.evidence.laws import AssumedCuts, Cuts
    >>> from outofcluster.problem.folds import make_folds
    >>> patients = make_patients(150, record_noise=0.1, random_state=0)
    >>> fold = make_folds(patients.data, None, patients.groups)[0]
    >>> cuts = Cuts.draw(patients.groups, 2, AssumedCuts(), np.random.default_rng(0))
    >>> pairs = match_clusters(patients.data, patients.target, patients.groups, cuts=cuts, seed=0)
    >>> suspects = entity_suspects(pairs, fold, patients.groups)
    >>> suspects.identified, bool(suspects.probability[0] > 0.9)
    (True, True)
    """
    if not pairs.identified:
        return EntitySuspects(_NONE, _NONE, np.zeros(0), _NONE, pairs.auc, False)
    one, other, log_ratio, trains, tests = pairs.both_ways(fold, clusters)
    known = trains[one] & (trains[other] | tests[other])
    one, other, log_ratio = one[known], other[known], log_ratio[known]
    leaks = tests[other]
    rate = _share(pairs.log_ratio, 0.0, 0.0)
    of_split = _share(log_ratio[leaks], _BORROWED, rate)
    odds = np.exp(log_ratio + np.where(leaks, logit(of_split), logit(rate)))
    total = np.bincount(one, odds, minlength=len(pairs.sizes))
    leaked = np.bincount(one[leaks], odds[leaks], minlength=len(pairs.sizes)) / (1 + total)
    # The last of a cluster's held-out candidates, by increasing odds, is its most probable one.
    order = np.flatnonzero(leaks)[np.argsort(odds[leaks], kind="stable")]
    best = np.full(len(pairs.sizes), -1)
    best[one[order]] = other[order]
    train = np.flatnonzero(trains)
    train = train[np.argsort(-leaked[train], kind="stable")]
    return EntitySuspects(train, best[train], leaked[train], pairs.sizes[train], pairs.auc, True)


def _near_some(X: Any, y: Any, codes: Ints, most: int, rng: np.random.Generator, discrete: bool | None) -> Ints:
    """The clusters that are near a few random ones, by the means of a few records of each."""
    order = order_of_codes(codes)
    sizes = np.bincount(codes)
    position = np.arange(len(codes)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    rows = np.sort(order[position < _RECORDS_TO_PLACE])
    pieces = _Pieces(codes[rows], rng)
    exists = np.flatnonzero(sizes)
    means = _Means(encode(X, y, rows, discrete=discrete).points, pieces, exists)
    points = means.weighted(pieces)[exists]
    taken = np.zeros(len(exists), dtype=bool)
    for centre in rng.choice(len(exists), _REGIONS, replace=False):
        distance = ((points - points[centre]) ** 2).sum(axis=1)
        distance[taken] = np.inf
        taken[np.argpartition(distance, most // _REGIONS)[: most // _REGIONS]] = True
    return exists[taken]


class _Pieces:
    """Groups of records, numbered from 0; records with the number -1 belong to none."""

    def __init__(self, codes: Ints, rng: np.random.Generator) -> None:
        order = np.lexsort((rng.random(len(codes)), codes))
        self.rows = order[codes[order] >= 0]
        self.codes = codes
        self.sizes = np.bincount(codes[codes >= 0])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self._last: tuple[Floats, Floats] | None = None

    def means(self, points: Floats) -> Floats:
        """Mean of the points of every piece; asked for the same points again and again, it computes them once."""
        if self._last is None or self._last[0] is not points:
            codes = self.codes[self.rows]
            totals = [np.bincount(codes, column, minlength=len(self.sizes)) for column in points[self.rows].T]
            self._last = points, np.column_stack(totals) / np.maximum(self.sizes, 1)[:, None]
        return self._last[1]

    def pairs(self, left: Ints, right: Ints) -> tuple[Ints, Ints, Ints]:
        """Pairs of records of these pairs of pieces, at most 8 records of each: index of the pair, and two rows."""
        a, b = np.minimum(self.sizes[left], _MOST_RECORDS), np.minimum(self.sizes[right], _MOST_RECORDS)
        pair = np.repeat(np.arange(len(left)), a * b)
        number = np.arange(len(pair)) - np.repeat(np.cumsum(a * b) - a * b, a * b)
        one = self.rows[self.starts[left][pair] + number // b[pair]]
        return pair, one, self.rows[self.starts[right][pair] + number % b[pair]]

    def within(self, pieces: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Pairs of records of the same piece, one of these, which hold two records at least."""
        piece = rng.choice(pieces, _MOST_PAIRS)
        first = rng.integers(self.sizes[piece])
        second = (first + rng.integers(1, self.sizes[piece])) % self.sizes[piece]
        return self.rows[self.starts[piece] + first], self.rows[self.starts[piece] + second]

    def across(self, pieces: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
        """Pairs of records of different pieces, both among these."""
        one, two = rng.choice(pieces, (2, _MOST_PAIRS))
        one, two = one[one != two], two[one != two]
        return self.some_record(one, rng), self.some_record(two, rng)

    def some_record(self, pieces: Ints, rng: np.random.Generator) -> Ints:
        """A random record of each of these pieces."""
        return np.asarray(self.rows[self.starts[pieces] + rng.integers(self.sizes[pieces])])


class _Means:
    """Directions in which the means of clusters differ, and the log likelihood ratio of one entity to two."""

    def __init__(self, points: Floats, whole: _Pieces, taught: Ints) -> None:
        self.points = points
        rows = np.flatnonzero(np.isin(whole.codes, taught))
        around = self.points[rows]
        rest = around - whole.means(self.points)[whole.codes[rows]]
        inner = rest.T @ rest / max(int((whole.sizes[taught] - 1).sum()), 1)
        inner = (1 - _SHRINK) * inner + _SHRINK * np.diag(np.diag(inner)) + 1e-6 * np.eye(len(inner))
        self.centre = around.mean(axis=0)
        around -= self.centre
        outer = around.T @ around / len(rows) - inner
        inverse = np.linalg.inv(np.linalg.cholesky(inner))
        values, vectors = np.linalg.eigh(inverse @ outer @ inverse.T)
        best = np.argsort(-values)[:_MOST_DIRECTIONS]
        best = best[values[best] > 0.02] if values[best[0]] > 0.02 else best[:1]
        self.spread = np.maximum(values[best], 0.02)
        self.directions = inverse.T @ vectors[:, best]

    def means(self, pieces: _Pieces) -> Floats:
        """Means of pieces in these directions, in which records vary by 1 around their entity."""
        return np.asarray((pieces.means(self.points) - self.centre) @ self.directions)

    def weighted(self, pieces: _Pieces) -> Floats:
        """The same, directions counting as well as they tell entities apart."""
        return np.asarray(self.means(pieces) * np.sqrt(self.spread / (1 + self.spread)))

    def log_ratio(self, pieces: _Pieces, left: Ints, right: Ints) -> Floats:
        """Log likelihood ratio of one entity to two."""
        means = self.means(pieces)
        one, two = (self.spread + 1 / pieces.sizes[side][:, None] for side in (left, right))
        x, y = means[left] / np.sqrt(one), means[right] / np.sqrt(two)
        rho = self.spread / np.sqrt(one * two)
        left_over = 1 - rho**2
        ratio = -0.5 * (np.log(left_over) + ((x**2 + y**2) * rho**2 - 2 * rho * x * y) / left_over)
        return np.asarray(np.clip(ratio.sum(axis=1), -40, 40))


class _Score:
    """Both scores of a pair of pieces, by models that some of the clusters taught."""

    def __init__(
        self, records: Encoded, whole: _Pieces, taught: Ints, near: tuple[Ints, Ints], rng: np.random.Generator
    ) -> None:
        self.columns = records.columns
        self.by_means = _Means(records.points, whole, taught)
        within = whole.within(taught[whole.sizes[taught] > 1], rng)
        across = whole.across(taught, rng)
        if len(near[0]):
            # Half of the pairs across are of clusters that are near, which are harder to tell apart.
            half = _MOST_PAIRS // 2
            pair = rng.integers(len(near[0]), size=half)
            one, two = (whole.some_record(clusters[pair], rng) for clusters in near)
            across = np.concatenate([across[0][:half], one]), np.concatenate([across[1][:half], two])
        terms = np.concatenate([self._terms(*within), self._terms(*across)])
        middle, scale = terms.mean(axis=0), np.maximum(terms.std(axis=0), 1e-9)
        side = np.repeat([1, 0], [len(within[0]), len(across[0])])
        # The log odds are linear, so their values at 0 and at the unit vectors give the coefficients.
        corners = np.vstack([np.zeros(len(middle)), np.eye(len(middle))])
        values = logistic_log_ratio((terms - middle) / scale, side, corners)
        self.slopes = (values[1:] - values[0]) / scale
        self.intercept = values[0] - middle @ self.slopes

    def _terms(self, one: Ints, two: Ints) -> Floats:
        apart = np.abs(self.columns[one] - self.columns[two])
        return np.column_stack([apart, apart**2])

    def of_pairs(self, one: Ints, two: Ints) -> Floats:
        """Log odds that two records are one entity."""
        linear, squared = np.split(self.slopes, 2)
        odds = np.empty(len(one))
        for start in range(0, len(one), _CHUNK):
            some = slice(start, start + _CHUNK)
            apart = np.abs(self.columns[one[some]] - self.columns[two[some]])
            odds[some] = apart @ linear + apart**2 @ squared + self.intercept
        return odds

    def __call__(self, pieces: _Pieces, left: Ints, right: Ints) -> Floats:
        pair, one, two = pieces.pairs(left, right)
        total = np.bincount(pair, self.of_pairs(one, two), minlength=len(left))
        count = np.bincount(pair, minlength=len(left))
        return np.column_stack([self.by_means.log_ratio(pieces, left, right), total / np.maximum(count, 1)])


def _deal(sizes: Ints, rng: np.random.Generator) -> Ints:
    """Folds of clusters, even among those with two records or more."""
    order = np.lexsort((rng.random(len(sizes)), sizes >= 2))
    fold = np.empty(len(sizes), dtype=np.int64)
    fold[order] = np.arange(len(sizes)) % _FOLDS
    return fold


def _candidates(means: _Means, whole: _Pieces) -> tuple[Ints, Ints]:
    """Pairs of clusters with near means."""
    exists = np.flatnonzero(whole.sizes)
    points = means.weighted(whole)[exists]
    k = min(_NEIGHBOURS, len(exists) - 1)
    _, near = cKDTree(points).query(points, k + 1)
    one, two = np.repeat(exists, k + 1), exists[near.ravel()]
    pairs = np.unique(np.column_stack([np.minimum(one, two), np.maximum(one, two)])[one != two], axis=0)
    return pairs[:, 0], pairs[:, 1]


def _would_be_candidates(means: _Means, whole: _Pieces, halves: _Pieces, cut_clusters: Ints) -> NDArray[np.bool_]:
    """For each cut cluster whether its two pieces would be among each other's candidates."""
    exists = np.flatnonzero(whole.sizes)
    k = min(_NEIGHBOURS, len(exists) - 1)
    tree = cKDTree(means.weighted(whole)[exists])
    pieces = means.weighted(halves)
    apart = np.sqrt(((pieces[::2] - pieces[1::2]) ** 2).sum(axis=1))
    imitable = np.zeros(len(cut_clusters), dtype=bool)
    for side in (0, 1):
        distance, near = tree.query(pieces[side::2], k + 1)
        others = exists[near] != cut_clusters[:, None]
        imitable |= (others & (distance < apart[:, None])).sum(axis=1) < k
    return imitable


def _log_ratio(
    candidates: Floats,
    pieces: Floats,
    candidate_folds: Ints,
    piece_folds: Ints,
    taught: NDArray[np.bool_],
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Log density ratio of one entity to two, at candidates and imitated pairs, by stacks without the same folds."""
    side = np.repeat([1, 0], [len(pieces), len(candidates)])
    part = np.unique(np.concatenate([piece_folds, candidate_folds]), return_inverse=True)[1]
    scores = np.concatenate([pieces, candidates])
    teaches = np.concatenate([taught, np.ones(len(candidates), dtype=bool)])
    stack = fit_stack(scores[teaches], side[teaches], part[teaches], rng.random(int(teaches.sum())))
    ceiling = stack.without_fold[part, -1]
    mate = np.minimum(ceiling * np.exp(stack.log_ratio(scores, part)), 1 - 1e-12)
    log_ratio = np.asarray(logit(mate) - logit(ceiling))
    return log_ratio[len(pieces) :], log_ratio[: len(pieces)]


def _size_ratio(candidates: Ints, pieces: Ints) -> Callable[[Ints], Floats]:
    """The log ratio of how often imitated pieces, and candidate pairs, have so many records together."""

    def bins(records: Ints) -> Ints:
        return np.asarray(np.rint(2 * np.log2(records)), dtype=np.int64)

    count = int(bins(np.maximum(candidates.max(initial=1), pieces.max(initial=1)))) + 1
    shares = []
    for records in (pieces, candidates):
        number = np.bincount(bins(records), minlength=count)
        shares.append((number + _EVERY_SIZE) / (number.sum() + count * _EVERY_SIZE))
    ratio = np.clip(np.log(shares[0] / shares[1]), -_MOST_BY_SIZE, _MOST_BY_SIZE)
    return lambda records: np.asarray(ratio[bins(records)])


def _share(log_ratio: Floats, borrowed: float, rate: float) -> float:
    """Share of split entities among pairs with these log ratios, by EM; some are borrowed at a known share."""
    share = rate or 0.005
    more = borrowed / rate if borrowed else 0.0
    for _ in range(_ROUNDS):
        odds = np.exp(log_ratio + logit(share))
        share = ((odds / (1 + odds)).sum() + more * rate) / max(len(odds) + more, 1)
        share = float(np.clip(share, 1e-6, 0.9))
    return share
