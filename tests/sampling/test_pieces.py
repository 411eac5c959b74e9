"""Audits of pieces: killed and started again, answered again, merged, saved and loaded."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_estimators import Counting, Interrupted
from outofcluster._base.exceptions import InputError
from outofcluster.datasets import make_patients
from outofcluster.errormodels import pieces as pieces_module
from outofcluster.evidence.likely import (
    NOTHING_LIKELY,
    LikelyPieces,
    SeenPieces,
    joined_pieces,
    joined_seen,
    look_for_pieces,
)
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT
from outofcluster.sampling.store import Store

PATIENTS = make_patients(70, record_noise=0.1, split_share=0.3, random_state=3)
OPTIONS = {"groups": PATIENTS.groups, "cv": 3, "n_fits": 12, "random_state": 0}


@pytest.fixture(autouse=True)
def searched_once(monkeypatch):
    """The search for likely pieces takes longest here, and depends on nothing but its seed."""
    monkeypatch.setattr(pieces_module, "look_for_pieces", search)


FOUND = {}


def search(*data, seed, **options):
    key = (seed.entropy, seed.spawn_key)
    if key not in FOUND:
        FOUND[key] = look_for_pieces(*data, seed=seed, **options)
    return FOUND[key]


def audit(estimator=None, **options):
    model = KNeighborsClassifier(3) if estimator is None else estimator
    return ooc.audit(model, PATIENTS.data, PATIENTS.target, **OPTIONS | options)


@cache
def audited(seed=0, scoring=None):
    return audit(random_state=seed, scoring=scoring)


def mates_of(cluster):
    """The other observed clusters of the same patient, as somebody who looks it up writes them down."""
    patient = PATIENTS.entities[PATIENTS.groups == cluster][0]
    others = np.unique(PATIENTS.groups[PATIENTS.entities == patient])
    return "; ".join(str(other) for other in others if other != cluster) or "none"


def answered(result, n, seed=0):
    """A review list with the truth in it."""
    frame = result.review_list(n, random_state=seed)
    return frame.assign(same_as=[mates_of(int(cluster)) for cluster in frame["cluster"]])


def bits(result):
    """All losses of an audit."""
    return [
        array.tobytes()
        for fold in result.samples.folds
        for array in (
            fold.own_losses,
            *(level for run in fold.runs.values() for level in run.losses),
            *(effects.sums for run in fold.runs.values() for effects in run.effects.values()),
            *(losses for model in fold.measured.values() for losses in model.values()),
        )
    ]


# --- killed and started again ---------------------------------------------------------------------------


@pytest.fixture
def parts(monkeypatch):
    """The names of the parts that are computed, with the number of fits before and after."""
    computed, part = [], Store.part

    def noted(store, name, kind, compute):
        def counted():
            before = Interrupted.fits
            value = compute()
            computed.append((name.split(" of ")[0].split()[0], before, Interrupted.fits))
            return value

        return part(store, name, kind, counted)

    monkeypatch.setattr(Store, "part", noted)
    monkeypatch.setattr(Interrupted, "fits", 0)
    monkeypatch.setattr(Interrupted, "at", None)
    return computed


def test_an_audit_that_is_killed_goes_on_where_it_was(tmp_path, parts):
    undisturbed = audit(Interrupted())
    whole, total = bits(undisturbed), Interrupted.fits
    finished = [0, *(after for _, _, after in parts)]
    kept = ["own", "random", "effect", "seen", "control", *["imitated"] * 3, "finished"]
    assert [name for name, _, _ in parts] == kept
    assert finished[-1] == total
    for at in (finished[4], total):
        path = tmp_path / f"run {at}"
        Interrupted.fits, Interrupted.at = 0, at
        with pytest.raises(KeyboardInterrupt):
            audit(Interrupted(), checkpoint=path)
        Interrupted.fits, Interrupted.at = 0, None
        resumed = audit(Interrupted(), checkpoint=path)
        # Parts that were finished before that fit are not fitted again, and all others are.
        assert Interrupted.fits == total - max(done for done in finished if done < at)
        assert bits(resumed) == whole
        assert resumed.to_json() == undisturbed.to_json()
        Interrupted.fits = 0
        assert audit(Interrupted(), checkpoint=path).to_json() == undisturbed.to_json()
        assert Interrupted.fits == 0


def test_models_with_random_numbers_go_on_with_the_same_ones(tmp_path, monkeypatch):
    """Every model without some clusters has the random numbers of the user's own, in whatever order they come."""
    forest = RandomForestClassifier(3, max_depth=3)
    whole = bits(audit(forest))
    part, stops = Store.part, ["control", "imitated"]

    def stopped(store, name, kind, compute):
        if stops and name.startswith(stops[0]):
            raise KeyboardInterrupt
        return part(store, name, kind, compute)

    monkeypatch.setattr(Store, "part", stopped)
    for _ in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            audit(forest, checkpoint=tmp_path / "run")
        stops.pop(0)
    assert bits(audit(forest, checkpoint=tmp_path / "run")) == whole


def test_models_without_the_same_clusters_have_the_same_losses():
    """An answer that says what was likely already: only training clusters differ between the models of a fold."""
    likely = audited().samples.folds[0].likely
    answer = {"cluster": likely.held_out_clusters[:1], "same_as": likely.train_clusters[:1]}
    result = audit(RandomForestClassifier(3), reviewed=answer | {"inclusion_probability": [0.5]})
    for fold in result.samples.folds:
        assert fold.measured["looked up"]["own"].tolist() == fold.measured["seen"]["own"].tolist()
        assert fold.measured["control"]["own"].tolist() != fold.measured["seen"]["own"].tolist()


def test_other_answers_with_the_same_checkpoint_do_not_take_losses_of_the_first_ones(tmp_path):
    path, fold = tmp_path / "run", audited().samples.folds[0]
    held_out, piece = int(fold.likely.held_out_clusters[0]), int(fold.likely.train_clusters[0])
    others = np.setdiff1d(PATIENTS.groups, [*fold.clusters, *fold.likely.train_clusters])
    # The likely piece is one, or it is none after all and comes back, or another one goes out in its place.
    answers = {str(piece): 0, "none": 3, str(others[0]): 3}
    for number, (same_as, refitted) in enumerate(answers.items()):
        reviewed = {"cluster": [held_out], "same_as": [same_as], "inclusion_probability": [0.5]}
        Counting.fits = 0
        kept = audit(Counting(), checkpoint=path, reviewed=reviewed)
        # Three models without what was looked up, and the imitated cuts where the answers change their weights.
        assert Counting.fits > 30 if number == 0 else Counting.fits in (refitted, refitted + 12)
        fresh = audit(Counting(), reviewed=reviewed)
        assert bits(kept) == bits(fresh)
        assert kept.to_json() == fresh.to_json()


# --- merged ---------------------------------------------------------------------------------------------


def pieces(likely, control):
    columns = [np.array(column) for rows in (likely, control) for column in zip(*rows, strict=True)]
    return LikelyPieces(*columns)


def as_mapping(train, held_out, probability):
    return dict(zip(zip(train.tolist(), held_out.tolist(), strict=True), probability, strict=True))


def test_pairs_of_two_searches_by_hand():
    one = pieces([(3, 8, 0.6), (4, 9, 0.9)], [(1, 6, 0.2), (2, 7, 0.1)])
    other = pieces([(4, 9, 0.7), (3, 9, 0.8)], [(2, 7, 0.3), (5, 7, 0.2)])
    both = joined_pieces(one, other, [1, 3])
    found = as_mapping(both.train_clusters, both.held_out_clusters, both.probability)
    assert found == pytest.approx({(3, 8): 0.6, (3, 9): 0.8, (4, 9): (0.9 + 3 * 0.7) / 4})
    control = as_mapping(both.control_clusters, both.control_held_out, both.control_probability)
    assert control == pytest.approx({(1, 6): 0.2, (2, 7): (0.1 + 3 * 0.3) / 4, (5, 7): 0.2})
    assert joined_pieces(NOTHING_LIKELY, NOTHING_LIKELY, [1, 1]).train_clusters.tolist() == []
    assert joined_pieces(NOTHING_LIKELY, one, [1, 1]).probability.tolist() == [0.6, 0.9]
    # A control that is about nobody leaves no pairs of a control.
    alone = replace(NOTHING_LIKELY, control_clusters=np.array([5, 9]))
    assert joined_pieces(alone, one, [1, 1]).control_clusters.tolist() == [1, 2, 5, 9]
    assert len(joined_pieces(alone, one, [1, 1]).control_held_out) == 0


def test_what_two_searches_show_by_hand():
    shown = (np.array([0]), np.array([1]), np.array([0.5]), np.array([2, 3]))
    one, other = SeenPieces(*shown, 0.9, 0.5, 0.1, 0.2), SeenPieces(*shown, 0.8, 0.7, 0.2, 0.5)
    both = joined_seen(one, other, [2, 1])
    assert (both.auc, both.caught, both.rate, both.upper) == pytest.approx((2.6 / 3, 1.7 / 3, 0.4 / 3, 0.3))
    assert (both.left.tolist(), both.right.tolist(), both.probability.tolist()) == ([0], [1], [0.5])
    assert both.sizes.tolist() == [2, 3]


@pytest.mark.parametrize("scoring", [None, pytest.param("roc_auc", marks=pytest.mark.slow)])
def test_two_audits_with_other_seeds_make_a_larger_one(scoring):
    one, two = audited(0, scoring), audited(1, scoring)
    both = one.merge(two)
    for mine, theirs, merged in zip(one.samples.folds, two.samples.folds, both.samples.folds, strict=True):
        assert merged.main.counts.tolist() == [4, 4]
        np.testing.assert_allclose(merged.main.means, (mine.main.means + theirs.main.means) / 2)
        assert set(merged.runs) == set(mine.runs) & set(theirs.runs) <= {MAIN, UNCAUGHT}
        for name, losses in merged.measured.items():
            for key, values in losses.items():
                mean = (mine.measured[name][key] + theirs.measured[name][key]) / 2
                np.testing.assert_allclose(values, mean)
    values = [result.optimism.value for result in (one, two)]
    assert min(values) - 0.01 <= both.optimism.value <= max(values) + 0.01
    assert both.naive == one.naive
    assert both.samples.seen.rate == pytest.approx((one.samples.seen.rate + two.samples.seen.rate) / 2)
    third = both.merge(audited(2, scoring))
    assert third.samples.folds[0].main.counts.tolist() == [6, 6]
    rates = [result.samples.seen.rate for result in (one, two, audited(2, scoring))]
    assert third.samples.seen.rate == pytest.approx(np.mean(rates))


def test_a_model_that_one_of_two_audits_did_not_need_is_the_user_s_own():
    one, two = audited(0), audited(1)
    folds = tuple(
        replace(fold, measured={name: losses for name, losses in fold.measured.items() if name != "control"})
        for fold in two.samples.folds
    )
    merged = one.samples.merge(replace(two.samples, folds=folds))
    for mine, both in zip(one.samples.folds, merged.folds, strict=True):
        expected = (mine.measured["control"]["own"] + mine.own_losses) / 2
        np.testing.assert_allclose(both.measured["control"]["own"], expected)


def test_audits_that_know_different_things_are_not_merged():
    with pytest.raises(InputError, match="both compared their clusters, or neither of them"):
        audited().merge(audit(random_state=1, unmix=False))
    reviewed = answered(audited(), 4)
    one = audit(reviewed=reviewed)
    for other in (
        audited(1),
        audit(random_state=1, reviewed=reviewed[:3]),
        audit(random_state=1, reviewed=reviewed, reviewer_error=0.1),
        audit(random_state=1, reviewed=reviewed.assign(inclusion_probability=0.5)),
    ):
        with pytest.raises(InputError, match="if the same clusters were looked up, with the same answers"):
            one.merge(other)
    with pytest.raises(InputError, match="Samples with the same seed cannot be merged"):
        audited().merge(audit())
    assert one.merge(audit(random_state=1, reviewed=reviewed)).samples.look_ups is one.samples.look_ups


# --- saved and loaded -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scoring", [None, pytest.param(["roc_auc", "accuracy"], marks=pytest.mark.slow)])
def test_files_keep_what_was_seen_and_looked_up(tmp_path, scoring):
    result = audit(scoring=scoring, reviewed=answered(audited(), 10), reviewer_error=0.02)
    result.save(tmp_path / "audit")
    loaded = ooc.Audit.load(tmp_path / "audit")
    for one, two in zip(result.metrics.values(), loaded.metrics.values(), strict=True):
        assert str(two) == str(one)
        assert two.to_json() == one.to_json()
        assert two.explain() == one.explain()
        assert two.parts().to_csv() == one.parts().to_csv()
        assert {"seen", "looked up"} <= set(two.parts()["source"])
        assert two.review_list(9, random_state=5).to_csv() == one.review_list(9, random_state=5).to_csv()
        assert two.suspects().to_csv() == one.suspects().to_csv()
        assert two.at_leakage(0.2).parts().to_csv() == one.at_leakage(0.2).parts().to_csv()
    mine, theirs = result.samples.look_ups, loaded.samples.look_ups
    assert theirs.clusters.tolist() == mine.clusters.tolist()
    assert [mates.tolist() for mates in theirs.mates] == [mates.tolist() for mates in mine.mates]
    assert theirs.probability.tolist() == mine.probability.tolist()
    assert (theirs.reviewer_error, mine.reviewer_error) == (0.02, 0.02)
    assert bits(loaded) == bits(result)
    # What is merged can be saved as well.
    merged = result.merge(audit(scoring=scoring, reviewed=answered(audited(), 10), reviewer_error=0.02, random_state=1))
    merged.save(tmp_path / "merged")
    assert ooc.Audit.load(tmp_path / "merged").to_json() == merged.to_json()
