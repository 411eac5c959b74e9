"""Simulated worlds with a known truth, shared by the calibration study and the statistical tests.

Four of them: clusters that differ (`MixedWorld`), entities of few records (`EntityWorld`), linkage that cuts entities
and pairs that match (leakage rates, `FieldLinkage`), and designs for the test of a cluster effect. A world draws data
and tells the truth about them: a closed form, a count, or the loss on fresh records, never an estimate of the package.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit, logit, owens_t
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsRegressor

from outofcluster.leakage.rate import Leakage

Rng = np.random.Generator

# --- the worlds of the study in words -----------------------------------------------------------------

APART = (
    "Clusters have centres N(0, I) in four features, within which records scatter with variance 1/4, and levels "
    "N(0, 0.49); slopes 1, 1/2, 0, 0; noise N(0, 0.49)"
)
LEVELS = (
    "All clusters have four features N(0, I), and levels N(0, 0.49) of their own; slopes 1, 1/2, 0, 0; noise N(0, 0.49)"
)
SLOPES = (
    "All clusters have four features N(0, I), and levels N(0, 0.49) and slopes N((1, 1/2, 0, 0), 0.49 I) of their own; "
    "noise N(0, 0.49)"
)
ENTITIES = (
    "250 entities of 4 records, six features N(0, 1) of the entity seen with noise N(0, 1/16), and a label of the "
    "entity: the sign of 0.7 times the first feature plus N(0, 1)."
)

# --- records of clusters that differ ------------------------------------------------------------------


@dataclass(frozen=True)
class MixedWorld:
    """Clusters with a centre N(0, between² I), a level N(0, level²) and slopes N(slopes, turn² I) of their own.

    A record has features x ~ N(centre, within² I) and a score x·(own slopes) + level + N(0, noise²): the target itself,
    or with ``classes`` its sign. With ``turn`` = 0 features and score are jointly normal over the population, so that
    the loss of a fitted linear model is known exactly.
    """

    classes: bool
    between: float = 1.0
    within: float = 0.5
    level: float = 0.7
    turn: float = 0.0
    noise: float = 0.7
    slopes: tuple[float, float, float, float] = (1.0, 0.5, 0.0, 0.0)

    @classmethod
    def without_effect(cls, classes: bool) -> MixedWorld:
        """The same features and noise with all clusters alike."""
        return cls(classes, between=0.0, within=math.hypot(1.0, 0.5), level=0.0)

    def clusters(self, rng: Rng, count: int) -> tuple[Any, ...]:
        """Centres, levels and slopes."""
        centres, levels, turns = (rng.standard_normal(shape) for shape in ((count, 4), count, (count, 4)))
        return self.between * centres, self.level * levels, np.array(self.slopes) + self.turn * turns

    def records(self, rng: Rng, clusters: tuple[Any, ...], counts: Any) -> tuple[Any, Any, Any]:
        """So many records of each cluster: features, targets, clusters."""
        centres, levels, slopes = clusters
        cluster = np.repeat(np.arange(len(levels)), counts)
        X = centres[cluster] + self.within * rng.standard_normal((len(cluster), 4))
        score = (X * slopes[cluster]).sum(axis=1) + levels[cluster] + self.noise * rng.standard_normal(len(cluster))
        return X, (score > 0).astype(int) if self.classes else score, cluster

    def draw(self, rng: Rng, n_clusters: int, size: int) -> tuple[Any, Any, Any]:
        """New clusters of equal size."""
        return self.records(rng, self.clusters(rng, n_clusters), size)

    def population_loss(self, model: Any) -> float:
        r"""Loss of a fitted linear model over all clusters, exactly.

        Squared error: :math:`level² + noise² + v‖β̂-β‖² + α̂²`, with α̂ the intercept and v = between² + within² the
        variance of each feature. Zero-one: the score S and the model's M = x·β̂ + α̂ are jointly normal with
        correlation r, S of mean 0, and they disagree in sign with probability :math:`\frac12 - 2 T(α̂/σ_M,
        r/\sqrt{1-r²})`, T Owen's function (arccos(r)/π for α̂ = 0).
        """
        assert self.turn == 0, "with slopes of their own the score is not normal"
        beta, fitted = np.array(self.slopes), np.ravel(model.coef_)
        intercept, v = float(np.ravel(model.intercept_)[0]), self.between**2 + self.within**2
        unexplained = self.level**2 + self.noise**2
        if not self.classes:
            return float(unexplained + v * ((fitted - beta) ** 2).sum() + intercept**2)
        sd = math.sqrt(v * float(fitted @ fitted))
        r = v * float(beta @ fitted) / (sd * math.sqrt(v * float(beta @ beta) + unexplained))
        return 0.5 - 2 * float(owens_t(intercept / sd, r / math.sqrt(1 - r * r)))


# --- entities of few records --------------------------------------------------------------------------


@dataclass(frozen=True)
class EntityWorld:
    """Entities with six features N(0, 1), seen with noise N(0, 1/16), and a label of their own.

    The label is 1 where 0.7 times the first feature plus N(0, 1) is positive. Without ``effect`` every record has
    features and a label of its own, drawn from the same law, and an entity is a name only.
    """

    effect: bool = True
    classes: bool = True

    def clusters(self, rng: Rng, count: int) -> tuple[Any, ...]:
        """Features and labels of entities."""
        features = rng.standard_normal((count, 6))
        return features, (0.7 * features[:, 0] + rng.standard_normal(count) > 0).astype(int)

    def records(self, rng: Rng, clusters: tuple[Any, ...], counts: Any) -> tuple[Any, Any, Any]:
        """So many records of each entity: features, labels, entities."""
        features, labels = clusters
        entity = np.repeat(np.arange(len(labels)), counts)
        if not self.effect:
            features, labels = self.clusters(rng, len(entity))
            return features + 0.25 * rng.standard_normal(features.shape), labels, entity
        return features[entity] + 0.25 * rng.standard_normal((len(entity), 6)), labels[entity], entity


def cut_some(rng: Rng, entity: Any, share: float) -> Any:
    """Approximate clusters: so large a share of the entities is cut in two pieces of random size."""
    groups, fresh = entity.copy(), int(entity.max()) + 1
    for e in np.unique(entity):
        if rng.random() < share:
            rows = rng.permutation(np.flatnonzero(entity == e))
            groups[rows[: rng.integers(1, max(len(rows), 2))]] = fresh
            fresh += 1
    return groups


def chip_off(rng: Rng, entity: Any, share: float, most: int = 1) -> Any:
    """Approximate clusters: with this probability a record, and up to ``most`` - 1 others, are a piece of their own."""
    groups, fresh = entity.copy(), int(entity.max()) + 1
    for e in np.unique(entity):
        rows = rng.permutation(np.flatnonzero(entity == e))
        place = 0
        while place < len(rows):
            size = 1
            if rng.random() < share:
                size = int(rng.integers(1, most + 1))
                groups[rows[place : place + size]] = fresh
                fresh += 1
            place += size
    return groups


def scatter_some(rng: Rng, entity: Any, share: float) -> Any:
    """Approximate clusters: the records of so large a share of the entities fall into two to four pieces at random."""
    groups, fresh = entity.copy(), int(entity.max()) + 1
    for e in np.unique(entity):
        if rng.random() < share:
            rows = np.flatnonzero(entity == e)
            piece = rng.integers(0, rng.integers(2, 5), len(rows))
            groups[rows] = np.where(piece == piece[0], e, fresh + piece)
            fresh += 4
    return groups


# --- the truth about one data set ---------------------------------------------------------------------


def fresh_losses(
    rng: Rng,
    world: MixedWorld | EntityWorld,
    clusters: tuple[Any, ...],
    data: tuple[Any, Any, Any],
    folds: Iterable[tuple[Any, Any]],
    estimator: Any,
    *,
    times: int,
    repeats: int = 1,
) -> tuple[float, float]:
    """Loss on fresh records of the held-out clusters: of models that never saw these, and of the models as they are.

    In each fold the estimator is fitted to the training records whose true cluster is not held out (the truth), and to
    all of them (what a large validation sample would say, leakage included), ``repeats`` times where it is random. Both
    are scored on ``times`` as many fresh records of every held-out cluster as the fold holds out itself.
    """
    X, y, cluster = data
    total, weight = np.zeros(2), 0
    for train, validation in folds:
        clean = train[~np.isin(cluster[train], cluster[validation])]
        counts = times * np.bincount(cluster[validation], minlength=len(clusters[0]))
        fresh, target, _ = world.records(rng, clusters, counts)
        for i, rows in enumerate((clean, train) * repeats):
            predicted = seeded(rng, estimator).fit(X[rows], y[rows]).predict(fresh)
            loss = np.mean(predicted != target) if world.classes else np.mean((predicted - target) ** 2)
            total[i % 2] += float(loss) * len(validation) / repeats
        weight += len(validation)
    return float(total[0] / weight), float(total[1] / weight)


def seeded(rng: Rng, estimator: Any) -> Any:
    """An unfitted copy, with a seed where it takes one."""
    copy = clone(estimator)
    if "random_state" in copy.get_params():
        copy.set_params(random_state=int(rng.integers(2**31)))
    return copy


# --- leakage rates ------------------------------------------------------------------------------------


def link(rng: Rng, n_entities: int, cut: float = 0.15) -> tuple[Any, Any]:
    """True and approximate clusters: entities of 1 to 8 records, large ones cut more often, into up to three pieces."""
    entity = np.repeat(np.arange(n_entities), 1 + rng.binomial(7, 0.4, n_entities))
    sizes = np.bincount(entity)
    pieces = np.where(rng.random(n_entities) < cut * sizes / 4, rng.integers(2, 4, n_entities), 1)
    return entity, entity * 3 + rng.integers(0, pieces[entity])


def fold_average(rng: Rng, entity: Any, groups: Any, k: int, of: str) -> float:
    """The realised share for clusters put into folds at random, averaged over folds."""
    fold = rng.integers(0, k, groups.max() + 1)[groups]
    return float(np.mean([realised(entity, fold == f, of) for f in range(k)]))


def realised(entity: Any, held_out: Any, of: str) -> float:
    """The share of one side's records whose entity has records on the other side too."""
    own, other = (~held_out, held_out) if of == "train" else (held_out, ~held_out)
    return float(np.isin(entity[own], entity[other]).mean())


def hold_out(rng: Rng, groups: Any) -> tuple[Any, list[tuple[Any, Any]]]:
    """Approximate clusters held out with probability 0.3 once and for all: which records, and the split."""
    held_out = (rng.random(groups.max() + 1) < 0.3)[groups]
    return held_out, [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]


def linkage_truth(rng: Rng, of: str, *, split: bool = False, cut: float = 0.15) -> float:
    """The rate of a linkage of 60,000 entities, over ten draws of 5 folds or of one split."""
    entity, groups = link(rng, 60_000, cut)
    if split:
        return float(np.mean([realised(entity, hold_out(rng, groups)[0], of) for _ in range(10)]))
    return float(np.mean([fold_average(rng, entity, groups, 5, of) for _ in range(10)]))


def audited(rng: Rng, n_entities: int, of: str, *, split: bool = False, cut: float = 0.15) -> Leakage:
    """The rate estimated from so many audited entities, for 5 folds or for one split."""
    entity, groups = link(rng, n_entities, cut)
    return Leakage.from_true_groups(entity, groups, cv=hold_out(rng, groups)[1] if split else 5, of=of)  # type: ignore[arg-type]


def matches(rng: Rng, n_clusters: int = 300, size: int = 3, n_pairs: int = 90) -> tuple[tuple[Any, Any, Any], Any, Any]:
    """Approximate clusters of ``size`` records, and pairs of clusters that match as wholes with probability m."""
    groups = np.repeat(np.arange(n_clusters), size)
    partners = rng.permutation(n_clusters)[: 2 * n_pairs].reshape(2, -1)
    m = rng.beta(0.4, 1.2, n_pairs)
    one, two = (np.repeat(side, size) * size + np.tile(np.arange(size), n_pairs) for side in partners)
    true = np.arange(n_clusters)
    same = rng.random(n_pairs) < m
    true[partners[1, same]] = true[partners[0, same]]
    return (one, two, np.repeat(m, size)), groups, true[groups]


def paired(rng: Rng, of: str, *, split: bool = False) -> tuple[Leakage, float]:
    """The rate estimated from calibrated pairs, and that of the matches drawn: over 4 folds, or for one split."""
    pairs, groups, true = matches(rng)
    if split:
        held_out, folds = hold_out(rng, groups)
        truth = realised(true, held_out, of)
        return Leakage.from_pair_probabilities(*pairs, groups=groups, cv=folds, of=of), truth  # type: ignore[arg-type]
    truth = float(np.mean([fold_average(rng, true, groups, 4, of) for _ in range(20)]))
    return Leakage.from_pair_probabilities(*pairs, groups=groups, cv=4, of=of), truth  # type: ignore[arg-type]


def with_candidates(rng: Rng, n: int = 150, k: int = 5) -> tuple[Leakage, float]:
    """A record belongs to at most one of three candidates; the probabilities are calibrated pair by pair."""
    # Records 0 to n-1, and three clusters of one record each as the candidates of each of them.
    groups, left, right = np.arange(4 * n), np.repeat(np.arange(n), 3), np.arange(n, 4 * n)
    m = rng.dirichlet([0.3, 0.3, 0.3, 1.5], n)
    candidates = {"groups": groups, "ids": groups, "cv": k, "of": "train"}
    estimate = Leakage.from_pair_probabilities(left, right, m[:, :3].ravel(), **candidates)
    # A match is two records, each of which leaks in the folds that hold the other one and not itself.
    matched = (rng.random(n) < m[:, :3].sum(axis=1)).sum()
    return estimate, float(2 * matched / k / (4 * n))


class FieldLinkage:
    """Records with five fields of which some are wrong, and the exact probability that two records match.

    ``right`` is the probability that a field is right. The first ``rules`` fields are those of which blocking asks one
    to be equal, or all pairs are compared. Pairs from ``threshold`` on are linked.
    """

    def __init__(
        self,
        seed: Any,
        sizes: tuple[int, ...] = (1, 2, 3, 4),
        right: float = 0.9,
        rules: int | None = None,
        threshold: float = 0.95,
        count: int = 200,
    ) -> None:
        rng = np.random.default_rng(seed)
        size = rng.choice(sizes, count)
        self.entity = np.repeat(np.arange(count), size)
        values = 25
        self.fields = rng.integers(values, size=(count, 5))[self.entity]
        wrong = rng.random(self.fields.shape) > right
        self.fields[wrong] = rng.integers(values, size=wrong.sum())
        one, two = np.triu_indices(len(self.entity), 1)
        agree = self.fields[one] == self.fields[two]
        both = right**2 + (1 - right**2) / values
        ratio = np.where(agree, np.log(both * values), np.log((1 - both) / (1 - 1 / values))).sum(axis=1)
        m = expit(logit((size * (size - 1) / 2).sum() / len(one)) + ratio)
        caught = agree[:, : rules or 5]
        compared = caught.any(axis=1) if rules else np.ones(len(m), dtype=bool)
        same = self.entity[one] == self.entity[two]
        self.recall = float(compared[same].mean())
        listed = compared & (m >= 0.001)
        self.left, self.right, self.m = one[listed], two[listed], m[listed]
        self.caught, self.same = caught[listed], same[listed]
        links = compared & (m >= threshold)
        graph = coo_array((np.ones(links.sum()), (one[links], two[links])), shape=2 * (len(self.entity),))
        self.groups = connected_components(graph, directed=False)[1]

    def truth(self, share: float) -> float:
        """Share of the records of which another piece is on the other side, counted record by record."""
        pieces = pd.Series(self.groups).groupby(self.entity).nunique().loc[self.entity].to_numpy()
        return float(np.mean(1 - (1 - share) ** (pieces - 1)))

    def leakage(self, m: Any = None, **options: Any) -> Leakage:
        """The rate that follows from the pairs, by default with their exact probabilities."""
        ids = np.arange(len(self.groups))
        m = self.m if m is None else m
        return Leakage.from_pair_probabilities(self.left, self.right, m, groups=self.groups, ids=ids, **options)


# --- designs for the test of a cluster effect: estimator, X, y, groups, further options ----------------


def logistic(rng: Rng) -> tuple[Any, ...]:
    """800 records in 40 clusters without a part in anything, five features, logistic regression with zero-one loss."""
    X = rng.standard_normal((800, 5))
    return LogisticRegression(), X, (X[:, 0] + rng.standard_normal(800) > 0).astype(int), np.arange(800) // 20, {}


def coin(rng: Rng) -> tuple[Any, ...]:
    """Nothing to learn: a stratified draw would find the classes' shares of V̂ and reject too often."""
    return GaussianNB(), rng.standard_normal((400, 2)), rng.integers(0, 2, 400), np.arange(400) // 10, {}


def rare(rng: Rng) -> tuple[Any, ...]:
    """A rare class."""
    X = rng.standard_normal((800, 2))
    return GaussianNB(), X, X[:, 0] + rng.standard_normal(800) > 1.8, np.arange(800) // 20, {}


def skewed(rng: Rng) -> tuple[Any, ...]:
    """300 records in 30 clusters without a part in anything, linear regression, squared error, lognormal noise."""
    X = rng.standard_normal((300, 2))
    return LinearRegression(), X, X[:, 0] + rng.lognormal(size=300), np.arange(300) // 10, {}


def single_split(rng: Rng) -> tuple[Any, ...]:
    """One split instead of folds."""
    X = rng.standard_normal((600, 2))
    split = [(np.arange(300), np.arange(300, 600))]
    return GaussianNB(), X, X[:, 0] + rng.standard_normal(600) > 0, np.arange(600) // 20, {"cv": split}


def noisy_clusters(rng: Rng) -> tuple[Any, ...]:
    """Clusters differ in their noise, so in their loss, but no cluster teaches anything about itself."""
    X, groups = rng.standard_normal((800, 2)), np.arange(800) // 20
    deviation = rng.lognormal(size=40)[groups]
    return LinearRegression(), X, X[:, 0] + deviation * rng.standard_normal(800), groups, {}


def hospitals(rng: Rng) -> tuple[Any, ...]:
    """Five hospitals of 160 records, each with slopes of its own: N(0, 4) for three features, noise N(0, 1/4)."""
    X, groups = rng.standard_normal((800, 3)), np.arange(800) // 160
    slopes = 2 * rng.standard_normal((5, 3))
    y = (X * slopes[groups]).sum(axis=1) + 0.5 * rng.standard_normal(800) > 0
    return LogisticRegression(), X, y, groups, {}


def patients(rng: Rng) -> tuple[Any, ...]:
    """Forty patients of 20 records, each with a level N(0, 1) of its own, noise N(0, 1/4), told by two features."""
    groups = np.arange(800) // 20
    X = rng.standard_normal((40, 2))[groups] + 0.05 * rng.standard_normal((800, 2))
    return KNeighborsRegressor(1), X, rng.standard_normal(40)[groups] + 0.5 * rng.standard_normal(800), groups, {}
