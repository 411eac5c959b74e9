"""Training without the likeliest pieces: what trains, what is scored, and what is compared."""

import numpy as np
import pytest

from outofcluster.evidence.entities import LikelyPieces
from outofcluster.problem.folds import Fold
from outofcluster.sampling.resamplers import WithoutClusters

CLUSTERS = np.repeat([7, 3, 5, 9, 1, 4, 8], [2, 1, 1, 2, 3, 1, 2])
TRAIN = np.flatnonzero(np.isin(CLUSTERS, [7, 3, 5, 9, 1]))
VALIDATION = np.flatnonzero(np.isin(CLUSTERS, [4, 8]))
FOLD = Fold(0, TRAIN, VALIDATION)


@pytest.fixture
def strategy():
    pieces = LikelyPieces(np.array([3, 7]), np.array([8]), 0.8, 0.9)
    return WithoutClusters.of(pieces, CLUSTERS, FOLD)


def test_the_likeliest_pieces_do_not_train_and_those_who_lose_them_are_scored(strategy):
    draw = strategy.draw(np.random.default_rng(0), -1.0)
    assert set(CLUSTERS[TRAIN[draw.from_train]]) == {5, 9, 1}
    assert set(CLUSTERS[VALIDATION[draw.scored]]) == {8}
    assert len(draw.from_validation) == 0
    assert draw.weighted
    assert strategy.size == 2


def test_as_many_other_clusters_of_the_same_sizes_are_left_out_in_their_place(strategy):
    for seed in range(5):
        draw = strategy.draw(np.random.default_rng(seed), 0.0)
        assert set(CLUSTERS[TRAIN[draw.from_train]]) == {7, 3, 1}  # 5 has the size of 3, and 9 that of 7
        assert set(CLUSTERS[VALIDATION[draw.scored]]) == {8}


def test_sizes_that_no_other_cluster_has_are_replaced_by_the_nearest_ones():
    pieces = LikelyPieces(np.array([1]), np.array([4]), 0.8, 0.9)
    strategy = WithoutClusters.of(pieces, CLUSTERS, FOLD)
    others = {
        frozenset({7, 3, 5, 9, 1} - set(CLUSTERS[TRAIN[strategy.draw(np.random.default_rng(seed), 0.0).from_train]]))
        for seed in range(20)
    }
    assert others == {frozenset({7}), frozenset({9})}


def test_what_is_left_is_said(strategy):
    levels = strategy.levels(None)
    left = strategy.weighting(levels)
    assert levels.tolist() == [-1, 0]
    assert left.effective.tolist() == [6, 6]
    assert left.kept == pytest.approx([0.2, 1])
    assert left.strata.tolist() == [1, 1]
