"""Clusters are cut by the pieces that audited entities show."""

from functools import cache

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.evidence.laws import AssumedCuts, PieceLaw, read_law
from outofcluster.problem.folds import Fold
from outofcluster.sampling.resamplers import CutPieces

CHIPPED = PieceLaw(((10,), (9, 1)), (50.0, 50.0))


def injection(law, *, second=False):
    """Six held-out clusters of ten records, cut by a law."""
    return CutPieces.of(
        Fold(0, np.arange(60), np.arange(60, 120)), np.repeat(np.arange(12), 10), None, law, second=second
    )


def leaked_sizes(strategy, draws=400):
    rng = np.random.default_rng(0)
    sizes = []
    for replicate in range(draws):
        draw = strategy.draw(rng, 1.0, replicate)
        sizes.append(np.bincount(draw.from_validation // 10, minlength=6))
    return np.concatenate(sizes)


@pytest.mark.parametrize("law", [None, CHIPPED])
def test_the_sizes_of_pieces_follow_the_law(law):
    expected = (AssumedCuts() if law is None else law).probabilities(10)
    seen = np.bincount(leaked_sizes(injection(law)), minlength=10)[1:] / 2400
    np.testing.assert_allclose(seen, expected, atol=4 * np.sqrt(0.25 / 2400))


def test_every_record_is_scored_or_joins():
    draw = injection(CHIPPED).draw(np.random.default_rng(1), 1.0)
    assert np.sort(np.concatenate([draw.from_validation, draw.scored])).tolist() == list(range(60))


def test_a_second_piece_is_cut_by_the_law_too():
    second = injection(PieceLaw(((10,), (9, 1)), (1.0, 1000.0)), second=True)
    draw = second.draw(np.random.default_rng(2), 0.0)
    # One piece of every cluster trains; nearly all are single records or all but one.
    assert np.isin(np.bincount(draw.from_validation // 10, minlength=6), (1, 9)).mean() > 0.8


def test_second_fragments_train_a_piece_of_every_cluster():
    groups = np.repeat(np.arange(6), [5, 4, 3, 2, 2, 4])
    rows = np.arange(len(groups))
    strategy = CutPieces.of(Fold(0, np.arange(30), rows), groups, None, second=True)
    assert strategy.size == 4
    draws = np.random.default_rng(0)
    for injected in (0.0, 1.0):
        pieces = []
        for _ in range(300):
            draw = strategy.draw(draws, injected, replicate=1)  # The second of the laws that take turns is uniform.
            assert not np.intersect1d(draw.from_validation, draw.scored).size
            joined, scored = groups[draw.from_validation], groups[draw.scored]
            assert set(joined) == {0, 1, 2, 5}
            assert set(scored) <= {0, 1, 2, 5}
            pieces.append(len(joined))
        # The first piece has half of a cluster on average (2.5 + 2 + 1.5 + 2 records), the second half of what is
        # left where that is two records or more: E[r/2; r ≥ 2] with r uniform on 1, …, s - 1.
        second = sum(sum(r / 2 for r in range(2, s)) / (s - 1) for s in (5, 4, 3, 4))
        assert np.mean(pieces) == pytest.approx(8 + injected * second, abs=0.25)


def law_of(result):
    return read_law(result.samples.folds[0].main.problem["law"])


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
    assert law_of(by_law) == learned.pieces
    plain = ooc.audit(KNeighborsClassifier(3), X, y, leakage=learned.validation, **options)
    assert law_of(plain) == AssumedCuts()
    assert by_law.by_cuts == {}
    assert list(plain.by_cuts) == ["single", "uniform"]
    assert by_law.naive.value == plain.naive.value
    assert by_law.corrected.value != plain.corrected.value
    by_law.save(tmp_path / "audit.zip")
    again = ooc.Audit.load(tmp_path / "audit.zip")
    assert law_of(again) == learned.pieces
    assert again.corrected == by_law.corrected


# --- no audited entities --------------------------------------------------------------------------------


def test_assumed_laws_take_turns():
    strategy = injection(None)
    rng = np.random.default_rng(0)
    single = [np.bincount(strategy.draw(rng, 1.0, 2 * r).from_validation // 10, minlength=6) for r in range(100)]
    assert set(np.concatenate(single).tolist()) == {1, 9}
    uniform = [np.bincount(strategy.draw(rng, 1.0, 2 * r + 1).from_validation // 10, minlength=6) for r in range(100)]
    assert set(np.concatenate(uniform).tolist()) == set(range(1, 10))


def test_single_records_are_more_likely_than_not_to_be_all_that_leaks():
    """Counted by held-out records, of which a kept piece of nine has nine."""
    for size in (2, 3, 4, 10, 30):
        law = AssumedCuts().probabilities(size)
        assert law.sum() == pytest.approx(1)
        kept = law * np.arange(size - 1, 0, -1)
        assert kept[0] / kept.sum() > 0.5
    kept = AssumedCuts().probabilities(10) * np.arange(9, 0, -1)
    assert kept[0] / kept.sum() == pytest.approx(0.55)


def test_laws_are_read_back():
    assert read_law(None) is None
    assert read_law({"kind": "single"}) == AssumedCuts("single")
    with pytest.raises(InputError, match="kind must be 'both' or 'single' or 'uniform', got 'wide'"):
        AssumedCuts("wide")


@pytest.fixture(scope="module")
def assumed():
    """Sixty entities of ten records whose labels a neighbour can memorise."""
    rng = np.random.default_rng(0)
    entity = np.repeat(np.arange(60), 10)
    centres = rng.standard_normal((60, 6))
    X = centres[entity] + 0.3 * rng.standard_normal((600, 6))
    y = (centres[:, 0] + rng.standard_normal(60) > 0).astype(int)[entity]
    options = {"groups": entity, "leakage": 0.2, "error_model": "fragments", "n_fits": 180, "cv": 3, "unmix": False}

    @cache
    def audit(seed=0, **changes):
        return ooc.audit(KNeighborsClassifier(3), X, y, random_state=seed, **options | changes)

    return audit


def test_the_answer_by_each_assumed_law_needs_no_further_fit(assumed, tmp_path):
    result = assumed()
    counts = [samples.counts for fold in result.samples.folds for samples in fold.runs.values()]
    assert all((count % 2 == 0).all() for count in counts)
    assert sum(fold.n_fits for fold in result.samples.folds) == 180
    single, uniform = result.by_cuts["single"], result.by_cuts["uniform"]
    # Three neighbours profit more from five mates than from one.
    assert result.naive.value - 0.01 < single < result.corrected.value < uniform
    assert result.corrected.value == pytest.approx((single + uniform) / 2, abs=0.2 * (uniform - single))
    finding = next(finding for finding in result.findings if finding.code == "assumed-cuts")
    assert f"would be {single:.4g} if single records alone came off, and {uniform:.4g}" in finding.message
    result.save(tmp_path / "audit")
    assert ooc.Audit.load(tmp_path / "audit").by_cuts == result.by_cuts
    assert result.at_leakage(0.0).by_cuts == {"single": result.naive.value, "uniform": result.naive.value}
    merged = result.merge(assumed(1))
    assert single - 0.05 < merged.by_cuts["single"] < merged.by_cuts["uniform"] < uniform + 0.05


@pytest.mark.slow
def test_the_answers_are_those_of_audits_that_cut_by_one_law(assumed, monkeypatch):
    """Against runs in which every replicate cuts by the same law, as an independent way."""
    shared = assumed(n_fits=600).by_cuts
    for kind in ("single", "uniform"):
        monkeypatch.setattr("outofcluster.sampling.resamplers.AssumedCuts.of_replicate", lambda _, __, k=kind: CUTS[k])
        alone = assumed.__wrapped__(1, n_fits=300)
        assert alone.corrected.value == pytest.approx(shared[kind], abs=0.02)


CUTS = {kind: AssumedCuts(kind) for kind in ("single", "uniform")}


def test_the_interval_includes_that_the_law_is_not_known(assumed):
    result = assumed()
    optimism = result.solution.correction
    apart = optimism.facts["by_cuts"]["uniform"] - optimism.facts["by_cuts"]["single"]
    noise = result.solution.pooled.monte_carlo_of(optimism.estimate)
    of_imitation = (0.15 * optimism.value) ** 2
    assert optimism.estimate.choice == pytest.approx((apart**2 - 4 * noise) / 4 + of_imitation)
    assert assumed(n_fits=36).by_cuts.keys() == {"single", "uniform"}


def test_runs_that_end_within_a_turn_are_not_told_apart_once_they_are_merged(assumed):
    odd = [assumed(seed, n_fits=63, cv=3) for seed in (0, 1)]
    assert sum(fold.n_fits for fold in odd[0].samples.folds) == 63
    assert odd[0].by_cuts
    merged = odd[0].merge(odd[1])
    assert merged.by_cuts == {}
    assert merged.corrected.value == pytest.approx(np.mean([one.corrected.value for one in odd]), abs=0.02)


def test_small_clusters_take_part_less_often_where_small_entities_are_cut_less_often():
    """Entities of two are cut in one case of twenty, those of eight in every second case."""
    law = PieceLaw(((1, 1), (2,), (7, 1), (8,)), (10.0, 190.0, 100.0, 100.0))
    groups = np.repeat(np.arange(40), np.where(np.arange(40) % 2, 8, 2))
    rows = np.arange(len(groups))
    strategy = CutPieces.of(Fold(0, rows[:5], rows), groups, None, law)
    rng, counts = np.random.default_rng(3), np.zeros(40)
    for _ in range(300):
        counts[np.unique(groups[strategy.draw(rng, 0.5).scored])] += 1
    chances = law.cut_chances([2, 8])
    assert chances[0] < 0.35
    assert chances[1] == 1
    np.testing.assert_allclose(counts[::2].mean() / 300, chances[0], atol=0.03)
    assert (counts[1::2] == 300).all()
    # Without audited entities all take part, with the same random numbers as without a law of who does.
    assert (PieceLaw().cut_chances([2, 8]) == 1).all()


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
    validation = np.flatnonzero(held_out)
    strategy = CutPieces.of(Fold(0, np.arange(5), validation), groups, None, law)
    seen = []
    for _ in range(20):
        draw = strategy.draw(rng, 1.0)
        joined = np.bincount(groups[validation[draw.from_validation]], minlength=groups.max() + 1)
        seen.append(np.mean(joined[groups[validation[draw.scored]]] == 1))
    assert np.mean(seen) == pytest.approx(truth, abs=0.04)


def test_many_members_are_drawn_as_one_sort_of_all_would_draw_them(monkeypatch):
    groups = np.random.default_rng(3).integers(0, 400, 4000)
    fold = Fold(0, np.arange(2000), np.arange(2000, 4000))
    drawn = []
    for least in (1, 10**9):
        monkeypatch.setattr("outofcluster.sampling.resamplers._MEMBERS_PER_SORT", least)
        strategy = CutPieces.of(fold, groups, None)
        drawn.append([strategy.draw(np.random.default_rng(seed), 0.5, seed) for seed in range(3)])
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_array_equal(one.from_validation, other.from_validation)
        np.testing.assert_array_equal(one.scored, other.scored)
