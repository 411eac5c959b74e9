"""Split entities: who belongs with whom, how sure that is, and what is said where features tell nobody apart."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from outofcluster.datasets import make_patients
from outofcluster.evidence.entities import EntityPairs, _share, _size_ratio, entity_suspects, match_clusters
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.problem.folds import Fold, make_folds

# --- the share of split entities ------------------------------------------------------------------------


def likeliest_share(log_ratio, split=0.0, whole=0.0):
    """The share with the largest likelihood: of a mixture with these ratios, and of pairs whose kind is known."""

    def minus_log_likelihood(share):
        of_mixture = np.logaddexp(np.log1p(-share), np.log(share) + log_ratio).sum()
        return -(of_mixture + split * np.log(share) + whole * np.log1p(-share))

    return minimize_scalar(minus_log_likelihood, bounds=(1e-6, 0.9), method="bounded", options={"xatol": 1e-10}).x


def mixed_pairs(count, share, seed=0):
    """Log density ratios of pairs of two normal laws, N(2, 4) and N(-2, 4), whose log ratio is the value itself."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(count) < share, 2, -2) + 2 * rng.standard_normal(count)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4])
def test_the_share_of_split_entities_has_the_largest_likelihood(share):
    log_ratio = mixed_pairs(2000, share)
    found = _share(log_ratio, 0.0, 0.0)
    assert found == pytest.approx(likeliest_share(log_ratio), rel=1e-3)
    assert found == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("count", [0, 30, 300])
def test_a_split_borrows_entities_at_a_known_share(count, rate):
    """Five split ones, and as many whole ones as the known share says."""
    log_ratio = mixed_pairs(count, 0.15)
    found = _share(log_ratio, 5.0, rate)
    assert found == pytest.approx(likeliest_share(log_ratio, 5.0, 5.0 / rate - 5.0), rel=1e-3)
    if not count:
        assert found == pytest.approx(rate)
    else:
        alone = _share(log_ratio, 0.0, 0.0)
        assert min(rate, alone) < found < max(rate, alone)


def test_a_share_is_neither_nothing_nor_all():
    assert _share(np.full(50, -30.0), 0.0, 0.0) == 1e-6
    assert _share(np.full(50, 30.0), 0.0, 0.0) == 0.9
    # Without a pair there is nothing to share.
    assert _share(np.zeros(0), 0.0, 0.0) == 1e-6


def pairs_of(left, right, log_ratio, sizes, imitated=None, **quality):
    imitated = np.full((1, len(sizes)), np.nan) if imitated is None else np.array(imitated)
    good = {"auc": 0.9, "recall": 0.9} | quality
    return EntityPairs(np.array(left), np.array(right), np.array(log_ratio), np.array(sizes), imitated=imitated, **good)


def test_suspicion_by_hand():
    """Clusters 0 to 3 train, 4 and 5 are held out; a cluster has at most one mate."""
    clusters = np.repeat(np.arange(6), [2, 1, 3, 1, 2, 2])
    fold = Fold(0, np.flatnonzero(clusters < 4), np.flatnonzero(clusters >= 4))
    left, right, log_ratio = [0, 0, 0, 1, 2, 3], [1, 4, 5, 4, 3, 5], [1.0, 3.0, 2.0, -1.0, 0.5, -4.0]
    suspects = entity_suspects(pairs_of(left, right, log_ratio, np.bincount(clusters)), fold, clusters)
    of_all = likeliest_share(np.array(log_ratio))
    across = likeliest_share(np.array([3.0, 2.0, -1.0, -4.0]), 5.0, 5.0 / of_all - 5.0)

    def odds(log_ratio, share):
        return np.exp(log_ratio) * share / (1 - share)

    leaked = {
        0: [odds(3, across), odds(2, across)],
        1: [odds(-1, across)],
        2: [],
        3: [odds(-4, across)],
    }
    inside = {0: odds(1, of_all), 1: odds(1, of_all), 2: odds(0.5, of_all), 3: odds(0.5, of_all)}
    expected = [sum(leaked[c]) / (1 + sum(leaked[c]) + inside[c]) for c in range(4)]
    order = np.argsort(-np.array(expected))
    assert suspects.train_clusters.tolist() == order.tolist() == [0, 1, 3, 2]
    np.testing.assert_allclose(suspects.probability, np.array(expected)[order], rtol=1e-3)
    assert suspects.held_out_clusters.tolist() == [4, 4, 5, -1]
    assert suspects.n_records.tolist() == [2, 1, 1, 3]


def test_what_would_be_caught_by_hand():
    """Odds at the share of all pairs; records count, and pieces that are no candidates are missed."""
    log_ratio = mixed_pairs(400, 0.1)
    prior = np.log(likeliest_share(log_ratio) / (1 - likeliest_share(log_ratio)))
    below, above = -prior - 0.1, -prior + 0.1
    imitated = [[above, below, np.nan, -np.inf], [above, above, np.nan, below]]
    every = np.zeros(400, dtype=int)
    pairs = pairs_of(every, every + 1, log_ratio, [2, 5, 1, 3], imitated)
    assert pairs.is_caught.tolist() == [[True, False, False, False], [True, True, False, False]]
    assert pairs.caught == pytest.approx((2 + 2 + 5) / (2 * (2 + 5 + 3)))
    np.testing.assert_allclose(pairs.log_odds, log_ratio + prior, atol=2e-3)
    for quality in ({"auc": 0.74}, {"recall": 0.49}, {"auc": np.nan}):
        hidden = pairs_of(every, every + 1, log_ratio, [2, 5, 1, 3], imitated, **quality)
        assert not hidden.identified
        assert hidden.caught == 0


def test_sizes_say_who_may_be_one_entity():
    """Pieces of four records together, and candidates of eight: how often each occurs, with two more of every size."""
    ratio = _size_ratio(np.array([8] * 30 + [4] * 10), np.array([4] * 36 + [8] * 4))
    # Records are counted in seven steps, of half a power of two, up to eight of them.
    many, few = (36 + 2) / (40 + 14), (4 + 2) / (40 + 14)
    of_four, of_eight = (10 + 2) / (40 + 14), (30 + 2) / (40 + 14)
    expected = np.log([many / of_four, few / of_eight, 1.0])
    np.testing.assert_allclose(ratio(np.array([4, 8, 3])), expected)
    far = _size_ratio(np.array([64] * 5000), np.array([2] * 5000))
    assert far(np.array([2, 64])).tolist() == [3, -3]


# --- who belongs with whom ------------------------------------------------------------------------------


def matched(X, y, groups, seed=0):
    return match_clusters(
        X, y, groups, cuts=Cuts.draw(groups, 4, AssumedCuts(0.0), np.random.default_rng(seed)), seed=seed
    )


def judged(patients, seed=0, X=None):
    """For all five folds: probability and truth of the suspects, precision among as many as leaked, right mates."""
    X = patients.data if X is None else X
    pairs = matched(X, patients.target, patients.groups, seed)
    entity = np.zeros(patients.groups.max() + 1, dtype=int)
    entity[patients.groups] = patients.entities
    probability, truth, hits, leaked, mates = [], [], 0, 0, 0
    for fold in make_folds(X, None, patients.groups, 5):
        suspects = entity_suspects(pairs, fold, patients.groups)
        of_train = entity[np.unique(patients.groups[fold.train])]
        held_out = patients.entities[fold.validation]
        total = np.isin(of_train, held_out).sum()
        right = np.isin(entity[suspects.train_clusters], held_out)
        probability.append(suspects.probability)
        truth.append(right)
        hits, leaked = hits + right[:total].sum(), leaked + total
        mates += (entity[suspects.train_clusters] == entity[suspects.held_out_clusters])[:total].sum()
    return np.concatenate(probability), np.concatenate(truth), hits / max(leaked, 1), mates / max(leaked, 1), pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "noise", "least"),
    [("classification", 0.1, 0.95), ("classification", 0.25, 0.75), ("regression", 0.4, 0.95)],
)
def test_split_patients_are_recognised(target, noise, least):
    probability, truth, precision, mates, pairs = judged(
        make_patients(250, target=target, record_noise=noise, random_state=1)
    )
    assert pairs.identified
    assert pairs.auc > 0.98
    assert precision >= least
    assert mates >= least
    assert probability.sum() == pytest.approx(truth.sum(), rel=0.25)


@pytest.mark.slow
def test_features_that_say_little_say_so_in_the_probabilities():
    """Patients have two to nine records, so that sizes do not give their pieces away."""
    probability, truth, _, _, pairs = judged(make_patients(400, n_records=(2, 9), record_noise=0.8, random_state=0))
    assert pairs.identified
    most = np.argsort(-probability)[:40]
    assert truth[most].mean() > 3 * truth.mean()
    assert (probability > 0.5).sum() < 0.2 * truth.sum()
    assert probability.sum() < 2 * truth.sum()


def test_nobody_is_suspected_where_features_do_not_tell_entities_apart():
    patients = make_patients(150, record_noise=50, signal=0, random_state=0)
    noise = np.random.default_rng(0).integers(0, 2, len(patients.target))
    fold = make_folds(patients.data, None, patients.groups)[0]
    pairs = matched(patients.data, noise, patients.groups)
    suspects = entity_suspects(pairs, fold, patients.groups)
    assert suspects.auc < 0.6
    assert not suspects.identified
    assert len(suspects.train_clusters) == len(suspects.probability) == len(suspects.n_records) == 0
    assert pairs.caught == 0


def test_nothing_is_learned_where_hardly_any_cluster_has_two_records():
    clusters = np.r_[np.arange(60), np.arange(10)]
    X = np.random.default_rng(0).standard_normal((70, 3))
    pairs = matched(X, None, clusters)
    assert np.isnan(pairs.auc)
    assert not pairs.identified
    assert len(pairs.left) == 0


@pytest.mark.slow
def test_hardly_anybody_is_suspected_where_no_entity_is_split():
    probability, _, _, _, pairs = judged(make_patients(250, split_share=0, random_state=3))
    assert pairs.identified
    assert probability.sum() < 0.02 * len(probability)


@pytest.mark.slow
def test_categories_and_missing_values_identify_as_well():
    patients = make_patients(200, random_state=5)
    rng = np.random.default_rng(0)
    town, doctor = rng.integers(0, 15, (2, 200))
    frame = pd.DataFrame({"town": town[patients.entities].astype(str), "doctor": doctor[patients.entities].astype(str)})
    frame["height"] = np.where(rng.random(len(frame)) < 0.1, np.nan, patients.data[:, 0])
    frame["weight"] = patients.data[:, 1]
    _, _, precision, _, pairs = judged(patients, X=frame)
    assert pairs.identified
    assert precision > 0.6


def test_the_same_seed_gives_the_same_bits_and_the_order_is_that_of_suspicion():
    patients = make_patients(100, random_state=0)
    fold = make_folds(patients.data, None, patients.groups)[2]
    several = [matched(patients.data, patients.target, patients.groups, seed=7) for _ in range(2)]
    one, two = (entity_suspects(pairs, fold, patients.groups) for pairs in several)
    for name in ("train_clusters", "held_out_clusters", "probability", "n_records"):
        assert np.array_equal(getattr(one, name), getattr(two, name))
    assert np.all(np.diff(one.probability) <= 0)
    assert np.array_equal(np.sort(one.train_clusters), np.unique(patients.groups[fold.train]))
    alone = one.held_out_clusters < 0
    assert np.isin(one.held_out_clusters[~alone], patients.groups[fold.validation]).all()
    assert (one.probability[alone] == 0).all()
    assert np.array_equal(one.n_records, np.bincount(patients.groups)[one.train_clusters])
    assert ((one.probability >= 0) & (one.probability <= 1)).all()


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.1, 0.25, 0.4])
def test_probabilities_mean_what_they_say(noise):
    worlds = (make_patients(250, n_records=(2, 9), record_noise=noise, random_state=seed) for seed in range(8))
    parts = [judged(patients, seed)[:2] for seed, patients in enumerate(worlds)]
    probability, truth = (np.concatenate(column) for column in zip(*parts, strict=True))
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (probability >= low) & (probability < high)
        if inside.sum() >= 50:
            assert probability[inside].mean() == pytest.approx(truth[inside].mean(), abs=0.15)
