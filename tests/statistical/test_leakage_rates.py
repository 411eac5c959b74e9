"""Leakage rates by seeded simulation of linkage with known truth: bias, standard errors, coverage of intervals."""

import numpy as np
import pytest

from outofcluster.leakage import Leakage

COUNT = 600
SIDES = ["train", "validation"]


def link(rng, n_entities, cut=0.15):
    """True and approximate clusters: entities of 1 to 8 records, large ones cut more often, into up to three pieces."""
    entity = np.repeat(np.arange(n_entities), 1 + rng.binomial(7, 0.4, n_entities))
    sizes = np.bincount(entity)
    pieces = np.where(rng.random(n_entities) < cut * sizes / 4, rng.integers(2, 4, n_entities), 1)
    return entity, entity * 3 + rng.integers(0, pieces[entity])


def fold_average(rng, entity, groups, k, of):
    """The realised share for clusters put into folds at random, averaged over folds."""
    fold = rng.integers(0, k, groups.max() + 1)[groups]
    rates = []
    for f in range(k):
        own, other = (fold != f, fold == f) if of == "train" else (fold == f, fold != f)
        rates.append(np.isin(entity[own], entity[other]).mean())
    return np.mean(rates)


def covered(estimates, truth):
    """Share of the 95 % intervals that hold the truth, one truth for all or one each."""
    truth = np.broadcast_to(truth, len(estimates))
    hits = [low <= t <= high for (low, high), t in zip((e.interval() for e in estimates), truth, strict=True)]
    return np.mean(hits)


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("n_entities", [60, 300])
def test_audits_of_a_sample_of_clusters(n_entities, of):
    rng = np.random.default_rng(1)
    entity, groups = link(rng, 60_000)
    truth = np.mean([fold_average(rng, entity, groups, 5, of) for _ in range(10)])
    audits = [Leakage.from_audit(*link(rng, n_entities), of=of) for _ in range(COUNT)]
    rates = np.array([audit.rate for audit in audits])
    assert rates.mean() == pytest.approx(truth, rel=0.1, abs=0)
    assert rates.mean() == pytest.approx(truth, abs=4 * rates.std() / np.sqrt(COUNT) + 0.003 * truth + 0.0005)
    assert np.mean([audit.std for audit in audits]) == pytest.approx(rates.std(), rel=0.1)
    assert covered(audits, truth) >= 0.9


def test_audits_with_few_or_no_events():
    """About 1.5 cut clusters an audit: a fifth of the audits find none."""
    rng = np.random.default_rng(2)
    truth = Leakage.from_audit(*link(rng, 100_000, cut=0.02)).rate
    audits = [Leakage.from_audit(*link(rng, 80, cut=0.02)) for _ in range(COUNT)]
    assert 0.1 < np.mean([audit.rate == 0 for audit in audits]) < 0.3
    assert covered(audits, truth) >= 0.9


@pytest.mark.parametrize("of", SIDES)
def test_audits_of_a_fixed_split(of):
    """Approximate clusters are held out with probability 0.3 once and for all."""

    def draw(rng, n_entities):
        entity, groups = link(rng, n_entities)
        held_out = (rng.random(groups.max() + 1) < 0.3)[groups]
        split = [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]
        return Leakage.from_audit(entity, groups, cv=split, of=of)

    rng = np.random.default_rng(3)
    entity, groups = link(rng, 60_000)
    held_out = (rng.random(groups.max() + 1) < 0.3)[groups]
    own, other = (~held_out, held_out) if of == "train" else (held_out, ~held_out)
    truth = np.isin(entity[own], entity[other]).mean()
    audits = [draw(rng, 200) for _ in range(COUNT)]
    rates = np.array([audit.rate for audit in audits])
    assert rates.mean() == pytest.approx(truth, rel=0.1, abs=0)
    assert np.mean([audit.std for audit in audits]) == pytest.approx(rates.std(), rel=0.1)
    assert covered(audits, truth) >= 0.9


def test_a_sample_of_records_underestimates():
    """What the documentation warns of."""
    rng = np.random.default_rng(4)
    entity, groups = link(rng, 5000)
    sample = rng.random(len(entity)) < 0.3
    whole = Leakage.from_audit(entity, groups).rate
    assert Leakage.from_audit(entity[sample], groups[sample]).rate < 0.8 * whole


def matches(rng, n_clusters=300, size=3, n_pairs=90):
    """Approximate clusters of ``size`` records, and pairs of clusters that match as wholes with probability m."""
    groups = np.repeat(np.arange(n_clusters), size)
    partners = rng.permutation(n_clusters)[: 2 * n_pairs].reshape(2, -1)
    m = rng.beta(0.4, 1.2, n_pairs)
    one, two = (np.repeat(side, size) * size + np.tile(np.arange(size), n_pairs) for side in partners)
    true = np.arange(n_clusters)
    same = rng.random(n_pairs) < m
    true[partners[1, same]] = true[partners[0, same]]
    return (one, two, np.repeat(m, size)), groups, true[groups]


@pytest.mark.parametrize("of", SIDES)
def test_calibrated_pairs_over_folds(of):
    """The truth is that of one draw of the matches, averaged over many draws of the folds."""
    rng = np.random.default_rng(5)
    estimates, truths = [], []
    for _ in range(300):
        pairs, groups, true = matches(rng)
        estimates.append(Leakage.from_pair_probabilities(*pairs, groups=groups, cv=4, of=of))
        truths.append(np.mean([fold_average(rng, true, groups, 4, of) for _ in range(20)]))
    rates, truths = np.array([e.rate for e in estimates]), np.array(truths)
    assert rates.mean() == pytest.approx(truths.mean(), rel=0.03, abs=0)
    # Whole clusters match here, as the standard error supposes: it is exact but for the folds' share of the scatter.
    assert np.mean([e.std for e in estimates]) == pytest.approx((truths - rates).std(), rel=0.15)
    assert covered(estimates, truths) >= 0.9


@pytest.mark.parametrize("of", SIDES)
def test_calibrated_pairs_over_a_fixed_split(of):
    rng = np.random.default_rng(6)
    estimates, truths = [], []
    for _ in range(COUNT):
        pairs, groups, true = matches(rng)
        held_out = (rng.random(groups.max() + 1) < 0.3)[groups]
        split = [(np.flatnonzero(~held_out), np.flatnonzero(held_out))]
        estimates.append(Leakage.from_pair_probabilities(*pairs, groups=groups, cv=split, of=of))
        own, other = (~held_out, held_out) if of == "train" else (held_out, ~held_out)
        truths.append(np.isin(true[own], true[other]).mean())
    rates, truths = np.array([e.rate for e in estimates]), np.array(truths)
    assert rates.mean() == pytest.approx(truths.mean(), rel=0.05, abs=0)
    assert np.mean([e.std for e in estimates]) == pytest.approx((truths - rates).std(), rel=0.15)
    assert covered(estimates, truths) >= 0.9


def test_single_records_with_several_candidates():
    """A record belongs to at most one of three candidates; the probabilities are calibrated pair by pair."""
    rng = np.random.default_rng(7)
    n, k = 150, 5
    # Records 0 to n-1, and three clusters of one record each as the candidates of each of them.
    groups, left, right = np.arange(4 * n), np.repeat(np.arange(n), 3), np.arange(n, 4 * n)
    estimates, truths = [], []
    for _ in range(COUNT):
        m = rng.dirichlet([0.3, 0.3, 0.3, 1.5], n)
        estimates.append(Leakage.from_pair_probabilities(left, right, m[:, :3].ravel(), groups=groups, cv=k))
        # A match is two records, each of which leaks in the folds that hold the other one and not itself.
        matched = (rng.random(n) < m[:, :3].sum(axis=1)).sum()
        truths.append(2 * matched / k / (4 * n))
    rates, truths = np.array([e.rate for e in estimates]), np.array(truths)
    assert rates.mean() == pytest.approx(truths.mean(), rel=0.1, abs=0)
    assert covered(estimates, truths) >= 0.9
