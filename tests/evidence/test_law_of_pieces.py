"""Clusters are cut by the pieces that audited entities show, or by assumption; every one of them, in two halves."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.evidence.laws import AssumedCuts, Cuts, PieceLaw

CHIPPED = PieceLaw(((10,), (9, 1)), (50.0, 50.0))
SIZES = np.array([1, 2, 3, 5, 10, 1, 2, 7, 4, 6, 2])


def cut(sizes, n_cuts, law, seed=0):
    """The cuts of clusters of these sizes, whose records are in a random order, and the clusters."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return Cuts.draw(clusters, n_cuts, law, rng), clusters


# --- every cluster --------------------------------------------------------------------------------------


@pytest.mark.parametrize("law", [AssumedCuts(), CHIPPED], ids=["assumed", "learned"])
def test_every_cluster_of_two_records_or_more_is_cut_in_two(law):
    cuts, clusters = cut(SIZES, 50, law)
    assert cuts.leaks.shape == (50, SIZES.sum())
    for leaks in cuts.leaks:
        leaked = np.bincount(clusters[leaks], minlength=len(SIZES))
        assert (leaked[SIZES == 1] == 0).all()
        assert ((leaked[SIZES > 1] >= 1) & (leaked[SIZES > 1] <= SIZES[SIZES > 1] - 1)).all()
    assert cuts.cuttable.tolist() == (SIZES[clusters] > 1).tolist()


def test_halves_are_balanced_and_drawn_anew_for_every_cut():
    for sizes in (SIZES, SIZES[:-1]):
        cuts, _ = cut(sizes, 400, AssumedCuts())
        assert cuts.half.shape == (400, len(sizes))
        assert set(np.unique(cuts.half)) == {0, 1}
        second = cuts.half.sum(axis=1)
        assert (second == len(sizes) // 2).all()
        # Every cluster is in the second half about as often as in the first, and every pair apart as chance has it.
        np.testing.assert_allclose(cuts.half.mean(axis=0), second[0] / len(sizes), atol=0.1)
        n, m = len(sizes), int(second[0])
        apart = np.mean(cuts.half[:, 0] != cuts.half[:, 1])
        assert apart == pytest.approx(2 * m * (n - m) / (n * (n - 1)), abs=0.1)


def assumed(single, size):
    """A share of the cuts takes off a single record, which trains as often as it stays; else any size."""
    expected = np.full(size - 1, (1 - single) / (size - 1))
    expected[[0, -1]] += single / 2
    return expected if size > 2 else np.ones(1)


@pytest.mark.parametrize("law", [AssumedCuts(), AssumedCuts(0.2), CHIPPED], ids=["assumed", "mostly any", "learned"])
def test_the_sizes_of_pieces_follow_the_law(law):
    for size in (10, 4):
        cuts, clusters = cut([size] * 60, 100, law)
        leaked = np.concatenate([np.bincount(clusters[leaks], minlength=60) for leaks in cuts.leaks])
        seen = np.bincount(leaked, minlength=size)[1:] / len(leaked)
        expected = law.probabilities(size) if law is CHIPPED else assumed(law.single, size)
        np.testing.assert_allclose(seen, expected, atol=4 * np.sqrt(0.25 / len(leaked)))


def test_all_members_are_in_a_piece_as_often():
    cuts, clusters = cut([5] * 4, 3000, CHIPPED)
    share = CHIPPED.probabilities(5) @ np.arange(1, 5) / 5
    np.testing.assert_allclose(cuts.leaks.mean(axis=0), share, atol=4 * np.sqrt(0.25 / 3000))
    assert len(clusters) == 20


def test_clusters_count_as_often_as_they_stand_for_entities_that_are_cut():
    """Entities of two are cut in one case of twenty, those of eight in every second case."""
    law = PieceLaw(((1, 1), (2,), (7, 1), (8,)), (10.0, 190.0, 100.0, 100.0))
    cuts, _ = cut([2, 8, 2, 1, 8], 1, law)
    assert cuts.chance.tolist() == law.cut_chances([2, 8, 2, 1, 8]).tolist()
    assert cuts.chance[1] == cuts.chance[4] == 1
    assert cuts.chance[0] == cuts.chance[2] < 0.35
    # Without audited entities all count alike.
    for other in (AssumedCuts(), PieceLaw()):
        assert (cut([2, 8, 2, 1, 8], 1, other)[0].chance == 1).all()


def test_numbers_that_no_record_has_are_no_clusters():
    cuts = Cuts.draw(np.array([0, 0, 3, 3, 3]), 4, AssumedCuts(), np.random.default_rng(0))
    assert cuts.half.shape == (4, 4)
    assert cuts.chance.shape == (4,)
    assert (cuts.leaks.sum(axis=1) >= 2).all()


# --- laws -----------------------------------------------------------------------------------------------


def test_assumed_cuts_by_hand():
    """Most held-out records of cut entities have a single mate in training."""
    for size in (2, 3, 4, 10, 30):
        expected = assumed(AssumedCuts().single, size)
        # Counted by held-out records, of which a kept piece of nine has nine.
        kept = expected * np.arange(size - 1, 0, -1)
        assert kept[0] / kept.sum() > 0.5
    drawn = AssumedCuts().draw_many(np.random.default_rng(0), [1, 2, 2, 1])
    assert drawn.tolist() == [0, 1, 1, 0]


def test_an_audit_cuts_by_what_its_rate_was_learned_from(monkeypatch):
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 6)
    centres = rng.standard_normal((60, 3))
    X = centres[entity] + 0.3 * rng.standard_normal((360, 3))
    y = (centres[:, 0] > 0).astype(int)[entity]
    groups = entity.copy()
    alone = rng.choice(360, 25, replace=False)
    groups[alone] = 60 + np.arange(25)
    learned = ooc.Leakage.from_true_groups(entity, groups, cv=5)
    laws, draw = [], Cuts.draw
    monkeypatch.setattr(Cuts, "draw", lambda clusters, n, law, seed: laws.append(law) or draw(clusters, n, law, seed))
    options = {"groups": groups, "n_fits": 20, "unmix": False, "random_state": 0, "error_model": "fragments"}
    by_law = ooc.audit(KNeighborsClassifier(3), X, y, leakage=learned, **options)
    plain = ooc.audit(KNeighborsClassifier(3), X, y, leakage=learned.validation, **options)
    assert laws == [learned.pieces, AssumedCuts()]
    assert by_law.naive.value == plain.naive.value
    assert by_law.samples.folds[0].main.means.tolist() != plain.samples.folds[0].main.means.tolist()


def test_records_of_cut_entities_see_as_many_mates_as_in_the_linkage():
    """Entities of varied sizes lose single records: how many mates their held-out records have in training."""
    rng = np.random.default_rng(4)
    entity = np.repeat(np.arange(3000), rng.integers(1, 7, 3000))
    groups = entity.copy()
    alone = np.flatnonzero(rng.random(len(entity)) < 0.08)
    groups[alone] = 3000 + np.arange(len(alone))
    held_out = (rng.random(groups.max() + 1) < 0.2)[groups]
    mates = np.bincount(entity[~held_out], minlength=3000)[entity[held_out]]
    truth = np.mean(mates[mates > 0] == 1)
    law = ooc.Leakage.from_true_groups(entity, groups, cv=5).pieces
    clusters = np.unique(groups[held_out], return_inverse=True)[1]
    cuts = Cuts.draw(clusters, 20, law, rng)
    single = total = 0.0
    for leaks in cuts.leaks:
        joined = np.bincount(clusters[leaks], minlength=clusters.max() + 1)
        scored = clusters[~leaks & cuts.cuttable]
        single += (cuts.chance[scored] * (joined[scored] == 1)).sum()
        total += cuts.chance[scored].sum()
    assert single / total == pytest.approx(truth, abs=0.04)
