"""Split entities: who belongs with whom, how sure that is, and what is said where features tell nobody apart."""

import numpy as np
import pandas as pd
import pytest

from outofcluster.datasets import make_patients
from outofcluster.evidence.entities import _share, entity_suspects, likely_pieces, match_clusters
from outofcluster.problem.folds import make_folds


@pytest.mark.parametrize(("borrowed", "known_rate"), [(0, 0.0), (5, 0.02), (5, 0.2)])
def test_the_share_of_split_entities_has_the_largest_likelihood(borrowed, known_rate):
    """Of a mixture of two laws with this density ratio, next to pairs whose kind is known, which are borrowed."""
    rng = np.random.default_rng(0)
    split = rng.random(300) < 0.1
    log_ratio = np.where(split, 4, -4) + 2 * rng.standard_normal(300)
    shares = np.linspace(1e-4, 0.5, 20_001)
    likelihood = np.log1p(shares[:, None] * np.expm1(log_ratio)).sum(axis=1)
    if borrowed:
        whole = borrowed / known_rate - borrowed
        likelihood += borrowed * np.log(shares) + whole * np.log(1 - shares)
    assert _share(log_ratio, borrowed, known_rate) == pytest.approx(shares[likelihood.argmax()], abs=5e-5)


def judged(patients, seed=0, X=None):
    """For all five folds: probability and truth of the suspects, precision among as many as leaked, right mates."""
    X = patients.data if X is None else X
    pairs = match_clusters(X, patients.target, patients.groups, seed=seed)
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
    probability, truth, _, _, pairs = judged(make_patients(400, record_noise=0.6, random_state=0))
    assert pairs.identified
    most = np.argsort(-probability)[:40]
    assert truth[most].mean() > 3 * truth.mean()
    assert (probability > 0.5).sum() < 0.2 * truth.sum()
    assert probability.sum() < 2 * truth.sum()


def test_nobody_is_suspected_where_features_do_not_tell_entities_apart():
    patients = make_patients(150, record_noise=50, signal=0, random_state=0)
    noise = np.random.default_rng(0).integers(0, 2, len(patients.target))
    fold = make_folds(patients.data, None, patients.groups)[0]
    pairs = match_clusters(patients.data, noise, patients.groups, seed=0)
    suspects = entity_suspects(pairs, fold, patients.groups)
    assert suspects.auc < 0.6
    assert not suspects.identified
    assert len(suspects.train_clusters) == len(suspects.probability) == len(suspects.n_records) == 0
    pieces = likely_pieces(pairs, fold, patients.groups)
    assert (len(pieces.train_clusters), len(pieces.held_out_clusters), pieces.caught) == (0, 0, 0)


def test_nothing_is_learned_where_hardly_any_cluster_has_two_records():
    clusters = np.r_[np.arange(60), np.arange(10)]
    X = np.random.default_rng(0).standard_normal((70, 3))
    pairs = match_clusters(X, None, clusters, seed=0)
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
    matched = [match_clusters(patients.data, patients.target, patients.groups, seed=7) for _ in range(2)]
    one, two = (entity_suspects(pairs, fold, patients.groups) for pairs in matched)
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
    parts = [judged(make_patients(250, record_noise=noise, random_state=seed), seed)[:2] for seed in range(8)]
    probability, truth = (np.concatenate(column) for column in zip(*parts, strict=True))
    for low, high in ((0, 0.1), (0.1, 0.5), (0.5, 0.9), (0.9, 1.01)):
        inside = (probability >= low) & (probability < high)
        if inside.sum() >= 50:
            assert probability[inside].mean() == pytest.approx(truth[inside].mean(), abs=0.15)


@pytest.mark.slow
def test_likely_pieces_are_mostly_pieces_and_the_imitated_ones_say_how_many_are_found():
    patients = make_patients(250, record_noise=0.1, random_state=1)
    pairs = match_clusters(patients.data, patients.target, patients.groups, seed=0)
    entity = np.zeros(patients.groups.max() + 1, dtype=int)
    entity[patients.groups] = patients.entities
    right, found, leaked = 0, 0, 0
    for fold in make_folds(patients.data, None, patients.groups, 5):
        pieces = likely_pieces(pairs, fold, patients.groups)
        held_out = patients.entities[fold.validation]
        right += np.isin(entity[pieces.train_clusters], held_out).sum()
        found += len(pieces.train_clusters)
        leaked += np.isin(entity[np.unique(patients.groups[fold.train])], held_out).sum()
        assert np.isin(pieces.train_clusters, patients.groups[fold.train]).all()
        assert np.isin(pieces.held_out_clusters, patients.groups[fold.validation]).all()
        assert 0.5 < pieces.precision <= 1
    assert right / found > 0.9
    assert right / leaked == pytest.approx(pieces.caught, abs=0.15)
