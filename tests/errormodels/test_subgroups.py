"""A part of the held-out records as a problem of its own, against audits in which only that part counts."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GroupKFold
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.errormodels.subgroups import PiecesOfSubgroup, subgroup_of


def patients(seed=0, count=120):
    rng = np.random.default_rng(seed)
    entity = np.repeat(np.arange(count), rng.integers(2, 8, count))
    profile = rng.standard_normal((count, 4))
    X = profile[entity] + 0.3 * rng.standard_normal((len(entity), 4))
    y = (profile[entity, 0] + rng.standard_normal(count)[entity] > 0).astype(int)
    groups = entity.copy()
    for e in range(0, count, 3):
        groups[np.flatnonzero(entity == e)[0]] = count + e
    return X, y, entity, groups


@pytest.fixture(scope="module")
def pieces():
    X, y, entity, groups = patients()
    folds = list(GroupKFold(4, shuffle=True, random_state=0).split(X, y, groups))
    result = ooc.audit(KNeighborsClassifier(3), X, y, groups=groups, cv=folds, n_fits=32, random_state=0)
    return result, entity


@pytest.fixture(scope="module")
def records():
    X, y, entity, _ = patients(1)
    options = {"groups": entity, "error_model": "records", "leakage": 0.1, "n_fits": 600, "random_state": 0}
    return ooc.audit(LogisticRegression(), X, y, **options, unmix=False), (X, y, entity, options)


def kept(result, chosen):
    return [chosen[fold.rows] for fold in result.samples.folds]


@pytest.mark.parametrize("name", ["pieces", "records"])
def test_all_records_are_a_subgroup_like_the_whole(name, request):
    result = request.getfixturevalue(name)[0]
    part = subgroup_of(result.pooled, [np.ones(fold.n_validation, dtype=bool) for fold in result.samples.folds])
    assert part.naive == pytest.approx(result.pooled.naive)
    np.testing.assert_allclose(part.losses, result.pooled.losses, rtol=1e-9)
    if name == "pieces":
        one, other = part.measured, result.pooled.measured
        assert one.value == pytest.approx(other.value)
        assert one.estimate.choice == pytest.approx(other.estimate.choice)


def test_losses_of_levels_are_those_of_an_audit_that_scores_the_subgroup_alone(records):
    """The same fits, of which an audit with weights in scoring counts the subgroup only."""
    result, (X, y, entity, options) = records
    chosen = entity % 3 == 0
    weight = np.where(chosen, 1.0, 1e-9)
    alone = ooc.audit(LogisticRegression(), X, y, **options, unmix=False, score_weight=weight)
    part = subgroup_of(result.pooled, kept(result, chosen))
    # With weights every fold counts as much.
    np.testing.assert_allclose(part.losses, alone.pooled.losses, atol=0.035)
    np.testing.assert_allclose(part.shares @ part.losses, part.shares @ alone.pooled.losses, atol=0.012)
    assert np.abs(part.losses - result.pooled.losses).max() > 0.1


@pytest.mark.parametrize("name", ["pieces", "records"])
def test_subgroups_make_up_the_whole(name, request):
    result = request.getfixturevalue(name)[0]
    chosen = np.arange(result.table.n_records) % 2 == 0
    shares, means = [], []
    for some in (chosen, ~chosen):
        part = subgroup_of(result.pooled, kept(result, some))
        means.append(part.naive)
        shares.append(sum(map(np.count_nonzero, kept(result, some))))
    assert np.average(means, weights=shares) == pytest.approx(result.pooled.naive)


def test_influences_of_a_part_are_those_of_its_own_mean(records):
    result, (_, _, entity, _) = records
    chosen = entity % 2 == 0
    part = subgroup_of(result.pooled, kept(result, chosen))
    for fold in part.folds:
        # They sum to nothing, and belong to clusters of the subgroup alone.
        np.testing.assert_allclose(fold.main.influences("clusters").sum(axis=1), 0, atol=1e-12)
        assert (fold.main.effects["clusters"].units % 2 == 0).all()


def test_odds_of_pairs_follow_the_pairs_that_a_subgroup_has(pieces):
    """Every third person was cut: a subgroup of these alone has more pairs, and one without them has fewer."""
    result, entity = pieces
    times = {}
    for name, chosen in (("cut", entity % 3 == 0), ("whole", entity % 3 != 0)):
        part = subgroup_of(result.pooled, kept(result, chosen))
        assert isinstance(part, PiecesOfSubgroup)
        times[name] = part._times_odds, part.seen_rate
    assert times["cut"][0] > 1.2 > 0.8 > times["whole"][0]
    assert times["cut"][1] > 2 * times["whole"][1]
