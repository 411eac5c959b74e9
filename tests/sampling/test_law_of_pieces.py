"""Clusters are cut by the pieces that audited entities show."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster.sampling.injection import make_injection
from outofcluster.split.pieces import PieceLaw

CHIPPED = PieceLaw(((10,), (9, 1)), (50.0, 50.0))


def injection(law, error_model="fragments"):
    groups = np.repeat(np.arange(12), 10)
    return make_injection(
        error_model,
        n_train=None,
        train=np.arange(60),
        validation=np.arange(60, 120),
        groups=groups,
        replace=True,
        law=law,
    )


def leaked_sizes(strategy, draws=400):
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(draws):
        draw = strategy.draw(rng, 1.0)
        sizes.append(np.bincount(draw.from_validation // 10, minlength=6))
    return np.concatenate(sizes)


@pytest.mark.parametrize("law", [None, CHIPPED])
def test_the_sizes_of_pieces_follow_the_law(law):
    expected = np.full(9, 1 / 9) if law is None else law.probabilities(10)
    seen = np.bincount(leaked_sizes(injection(law)), minlength=10)[1:] / 2400
    np.testing.assert_allclose(seen, expected, atol=4 * np.sqrt(0.25 / 2400))


def test_every_record_is_scored_or_joins():
    draw = injection(CHIPPED).draw(np.random.default_rng(1), 1.0)
    assert np.sort(np.concatenate([draw.from_validation, draw.scored])).tolist() == list(range(60))


def test_a_second_piece_is_cut_by_the_law_too():
    second = injection(PieceLaw(((10,), (9, 1)), (1.0, 1000.0)), "second-fragments")
    draw = second.draw(np.random.default_rng(2), 0.0)
    # One piece of every cluster trains; nearly all are single records or all but one.
    assert np.isin(np.bincount(draw.from_validation // 10, minlength=6), (1, 9)).mean() > 0.8


def test_an_audit_cuts_by_what_its_rate_was_learned_from(tmp_path):
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 6)
    centres = rng.standard_normal((60, 3))
    X = centres[entity] + 0.3 * rng.standard_normal((360, 3))
    y = (centres[:, 0] > 0).astype(int)[entity]
    groups = entity.copy()
    alone = rng.choice(360, 25, replace=False)
    groups[alone] = 60 + np.arange(25)
    learned = ooc.Leakage.from_true_groups(entity, groups, cv=5)
    options = {"groups": groups, "n_fits": 120, "unmix": False, "random_state": 0, "error_model": "fragments"}
    by_law = ooc.audit(KNeighborsClassifier(3), X, y, leakage=learned, **options)
    assert by_law.samples.pieces == learned.pieces
    plain = ooc.audit(KNeighborsClassifier(3), X, y, leakage=learned.validation, **options)
    assert plain.samples.pieces is None
    assert by_law.naive.value == plain.naive.value
    assert by_law.corrected.value != plain.corrected.value
    by_law.save(tmp_path / "audit.zip")
    again = ooc.Audit.load(tmp_path / "audit.zip")
    assert again.samples.pieces == learned.pieces
    assert again.corrected == by_law.corrected
