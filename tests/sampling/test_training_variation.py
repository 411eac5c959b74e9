"""What training clusters add to the variance of a cross-validated loss, and that intervals of fragments include it."""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.inference.intervals import uncertainty
from outofcluster.problem.folds import make_folds
from outofcluster.problem.problem import Task
from outofcluster.sampling.baselines import fold_losses, training_shares
from worlds import EntityWorld, cut_some


class Constant(DummyRegressor):
    """Predicts 0, whatever it is trained on."""

    def predict(self, X):
        return np.zeros(len(X))


def shares(estimator, X, y, groups, seed=0):
    task, folds = Task.check(estimator, X, y, groups=groups), make_folds(X, y, groups, 5)
    own = fold_losses(task, folds, seed=np.random.SeedSequence(0))
    return training_shares(task, folds, own, seed=np.random.SeedSequence(seed))


def test_a_model_that_learns_nothing_has_no_share():
    rng = np.random.default_rng(0)
    assert shares(Constant(), rng.standard_normal((200, 2)), rng.standard_normal(200), np.arange(200) // 5) == 0


def test_the_share_lies_within_its_range_and_the_seed_decides():
    world, rng = EntityWorld(), np.random.default_rng(0)
    X, y, entity = world.records(rng, world.clusters(rng, 60), 4)
    first, again, other = (shares(KNeighborsClassifier(3), X, y, entity, seed)[0] for seed in (0, 0, 1))
    assert 0 < first < 2
    assert first == again != other


def test_intervals_of_fragments_include_it(tmp_path):
    world, rng = EntityWorld(), np.random.default_rng(0)
    X, y, entity = world.records(rng, world.clusters(rng, 60), 4)
    options = {"groups": cut_some(rng, entity, 0.3), "error_model": "fragments", "leakage": 0.2, "n_fits": 60}
    result = ooc.audit(KNeighborsClassifier(3), X, y, random_state=0, unmix=False, **options)
    share = result.samples.training_share
    assert 0 < share < 2
    pooled = result.pooled
    evaluation = uncertainty(pooled.columns, pooled.naive_functional())
    assert result.naive.se_data**2 == pytest.approx(evaluation.between_units * evaluation.remaining * (1 + share))
    assert result.with_units("records").naive.se_data < result.naive.se_data
    result.save(tmp_path / "audit.zip")
    assert type(result).load(tmp_path / "audit.zip").naive == result.naive
    records = ooc.audit(KNeighborsClassifier(3), X, y, random_state=0, unmix=False, **options | {"n_train": 150})
    assert records.samples.training_share == 0
    assert "another sample of clusters in training and in validation" in result.summary.scope
    assert result.summary.scope in " ".join(result.explain().split())


@pytest.mark.slow
def test_naive_intervals_cover_the_loss_of_data_sets_drawn_anew():
    """3 nearest neighbours of 120 entities: without the training clusters 85 % would be covered."""
    world, intervals, values = EntityWorld(), [], []
    for seed in range(80):
        rng = np.random.default_rng([7, seed])
        X, y, entity = world.records(rng, world.clusters(rng, 120), 4)
        groups = cut_some(rng, entity, 0.3)
        result = ooc.audit(
            KNeighborsClassifier(3), X, y, groups=groups, error_model="fragments", n_fits=60, unmix=False,
            random_state=seed,
        )  # fmt: skip
        intervals.append(result.naive.interval)
        values.append(result.naive.value)
    low, high = np.array(intervals).T
    truth = np.mean(values)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.88
