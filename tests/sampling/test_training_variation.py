"""Other training clusters would move a cross-validated loss too: intervals of pieces include that."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from worlds import EntityWorld, cut_some


def between_units(folds, kind):
    """The variance of the mean loss over the records of all folds from having these units, from the losses."""
    units = np.concatenate([fold.scored_units(kind) for fold in folds])
    losses = np.concatenate([fold.own_losses for fold in folds])
    moved = (losses - losses.mean()) / len(losses)
    influence = np.array([moved[units == unit].sum() for unit in np.unique(units)])
    return len(influence) / (len(influence) - 1) * (influence**2).sum()


def test_intervals_of_pieces_include_it(tmp_path):
    world, rng = EntityWorld(), np.random.default_rng(0)
    X, y, entity = world.records(rng, world.clusters(rng, 60), 4)
    options = {"groups": cut_some(rng, entity, 0.3), "error_model": "fragments", "leakage": 0.2, "n_fits": 30}
    result = ooc.audit(KNeighborsClassifier(3), X, y, random_state=0, unmix=False, **options)
    # Training adds seven tenths to the variance between the clusters that are scored.
    assert result.pooled.training_share == 0.7
    assert result.naive.se_data**2 == pytest.approx(1.7 * between_units(result.samples.folds, "clusters"))
    # Of these clusters no others could train.
    of_records = result.with_units("records")
    assert of_records.pooled.training_share == 0
    assert of_records.naive.se_data**2 == pytest.approx(between_units(result.samples.folds, "records"))
    assert of_records.naive.se_data < result.naive.se_data
    result.save(tmp_path / "audit.zip")
    assert type(result).load(tmp_path / "audit.zip").naive == result.naive
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
            KNeighborsClassifier(3), X, y, groups=groups, error_model="fragments", leakage=None, n_fits=20,
            unmix=False, random_state=seed,
        )  # fmt: skip
        intervals.append(result.naive.interval)
        values.append(result.naive.value)
    low, high = np.array(intervals).T
    truth = np.mean(values)
    assert np.mean((low <= truth) & (truth <= high)) >= 0.88
