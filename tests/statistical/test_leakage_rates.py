"""Leakage rates by seeded simulation of linkage with known truth: bias, standard errors, coverage of intervals."""

import numpy as np
import pytest

from outofcluster.leakage.rate import Leakage
from worlds import audited, link, linkage_truth, paired, with_candidates

pytestmark = pytest.mark.slow

COUNT = 600
SIDES = ["train", "validation"]


def covered(estimates, truth):
    """Share of the 95 % intervals that hold the truth, one truth for all or one each."""
    truth = np.broadcast_to(truth, len(estimates))
    hits = [low <= t <= high for (low, high), t in zip((e.interval() for e in estimates), truth, strict=True)]
    return np.mean(hits)


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize("n_entities", [60, 300])
def test_audits_of_a_sample_of_clusters(n_entities, of):
    rng = np.random.default_rng(1)
    truth = linkage_truth(rng, of)
    audits = [audited(rng, n_entities, of) for _ in range(COUNT)]
    rates = np.array([audit.rate for audit in audits])
    assert rates.mean() == pytest.approx(truth, rel=0.1, abs=0)
    assert rates.mean() == pytest.approx(truth, abs=4 * rates.std() / np.sqrt(COUNT) + 0.003 * truth + 0.0005)
    assert np.mean([audit.std for audit in audits]) == pytest.approx(rates.std(), rel=0.1)
    assert covered(audits, truth) >= 0.9


def test_audits_with_few_or_no_events():
    """About 1.5 cut clusters an audit: a fifth of the audits find none."""
    rng = np.random.default_rng(2)
    truth = Leakage.from_true_groups(*link(rng, 100_000, cut=0.02)).train.rate
    audits = [audited(rng, 80, "train", cut=0.02) for _ in range(COUNT)]
    assert 0.1 < np.mean([audit.rate == 0 for audit in audits]) < 0.3
    assert covered(audits, truth) >= 0.9


@pytest.mark.parametrize("of", SIDES)
def test_audits_of_a_fixed_split(of):
    rng = np.random.default_rng(3)
    truth = linkage_truth(rng, of, split=True)
    audits = [audited(rng, 200, of, split=True) for _ in range(COUNT)]
    rates = np.array([audit.rate for audit in audits])
    assert rates.mean() == pytest.approx(truth, rel=0.1, abs=0)
    assert np.mean([audit.std for audit in audits]) == pytest.approx(rates.std(), rel=0.1)
    assert covered(audits, truth) >= 0.9


def test_a_sample_of_records_underestimates():
    """What the documentation warns of."""
    rng = np.random.default_rng(4)
    entity, groups = link(rng, 5000)
    sample = rng.random(len(entity)) < 0.3
    whole = Leakage.from_true_groups(entity, groups).rate
    assert Leakage.from_true_groups(entity[sample], groups[sample]).rate < 0.8 * whole


@pytest.mark.parametrize("of", SIDES)
@pytest.mark.parametrize(("split", "count", "off"), [(False, 300, 0.03), (True, COUNT, 0.05)], ids=["folds", "split"])
def test_calibrated_pairs(split, count, off, of):
    """The truth is that of one draw of the matches, averaged over many draws of the folds."""
    rng = np.random.default_rng(5)
    estimates, truths = zip(*[paired(rng, of, split=split) for _ in range(count)], strict=True)
    rates, truths = np.array([e.rate for e in estimates]), np.array(truths)
    assert rates.mean() == pytest.approx(truths.mean(), rel=off, abs=0)
    # The probabilities are right here, but nobody reviewed a pair: the standard error allows for odds that are wrong.
    assert 0.9 < np.mean([e.std for e in estimates]) / (truths - rates).std() < 6
    assert covered(estimates, truths) >= 0.9


def test_single_records_with_several_candidates():
    rng = np.random.default_rng(7)
    estimates, truths = zip(*[with_candidates(rng) for _ in range(COUNT)], strict=True)
    assert np.mean([e.rate for e in estimates]) == pytest.approx(np.mean(truths), rel=0.1, abs=0)
    assert covered(estimates, np.array(truths)) >= 0.9
