"""Every cluster its own control: gains, replicates and effects of units against a computation by hand."""

from dataclasses import replace
from typing import ClassVar

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import make_scorer, r2_score, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

import outofcluster as ooc
from outofcluster._base.exceptions import InputError
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT
from outofcluster.sampling.halves import HalvesRun
from outofcluster.sampling.progress import Progress

RNG = np.random.default_rng(0)
SIZES = np.array([3, 2, 4, 1, 5, 2, 3, 1, 2, 4] * 4)
GROUPS = np.repeat(np.arange(len(SIZES)), SIZES)
CENTRES = RNG.standard_normal((len(SIZES), 2))
X = CENTRES[GROUPS] + 0.3 * RNG.standard_normal((len(GROUPS), 2))
Y = CENTRES[GROUPS, 0] + RNG.standard_normal(len(SIZES))[GROUPS] + 0.2 * RNG.standard_normal(len(GROUPS))
CLASSES = (Y > 0).astype(int)
HELD_OUT = GROUPS % 5 < 2
FOLD = Fold(3, np.flatnonzero(~HELD_OUT), np.flatnonzero(HELD_OUT))
N_CUTS = 3
CUTS = Cuts.draw(GROUPS, N_CUTS, AssumedCuts(), np.random.default_rng(1))
# One of the held-out clusters has leaked already, and counts nothing.
WEIGHT = np.where(np.arange(len(SIZES)) == 5, 0.0, RNG.uniform(0.2, 1.0, len(SIZES)))
# What would be caught is known for two of the three cuts.
CAUGHT = RNG.random((2, len(SIZES))) < 0.5


def halves(estimator, y, *, weight=WEIGHT, caught=CAUGHT, **scored):
    task = Task.check(estimator, X, y, groups=GROUPS, **scored)
    return HalvesRun(task, FOLD, CUTS, weight, caught, 17, ("clusters", "records"))


def started(run, n_jobs=1):
    return run.start(Progress(run.budget, show=False).part(), n_jobs=n_jobs)


def by_hand(make, y, say, weight=WEIGHT, caught=None):
    """Rows (cut, record, weight, prediction) of the records scored without a piece, and of those scored with one."""
    rows, weights = ([], []), np.broadcast_to(weight, (N_CUTS, len(SIZES)))
    held_out = [row for row in FOLD.validation if SIZES[GROUPS[row]] > 1 and weights[:, GROUPS[row]].any()]
    for cut in range(N_CUTS):
        for side in (0, 1):
            joined = [row for row in held_out if CUTS.leaks[cut, row] and CUTS.half[cut, GROUPS[row]] == side]
            model = make().fit(X[[*FOLD.train, *joined]], y[[*FOLD.train, *joined]])
            said = say(model, X)
            for row in held_out:
                if CUTS.leaks[cut, row]:
                    continue
                if caught is not None and (cut >= len(caught) or caught[cut, GROUPS[row]]):
                    continue
                has_piece = int(CUTS.half[cut, GROUPS[row]] == side)
                rows[has_piece].append((cut, row, weights[cut, GROUPS[row]], said[row]))
    return [tuple(np.array(column) for column in zip(*of, strict=True)) for of in rows]


def predicted(model, records):
    return model.predict(records)


# --- means over records ---------------------------------------------------------------------------------


@pytest.mark.parametrize("role", [MAIN, UNCAUGHT])
def test_gains_are_weighted_means_of_the_losses_with_and_without_a_piece(role):
    samples = started(halves(KNeighborsRegressor(2), Y))[role][0]
    assert samples.injected.tolist() == [0, 1]
    assert samples.counts.tolist() == [N_CUTS, N_CUTS]
    caught = CAUGHT if role == UNCAUGHT else None
    columns = by_hand(lambda: KNeighborsRegressor(2), Y, predicted, caught=caught)
    for level, (cut, row, w, prediction) in enumerate(columns):
        losses = (Y[row] - prediction) ** 2
        mean = (w * losses).sum() / w.sum()
        assert samples.means[level] == pytest.approx(mean)
        # A cut counts by the weight that its records have.
        moved = w * (losses - mean) / w.sum() * N_CUTS
        replicates = [mean + moved[cut == each].sum() for each in range(N_CUTS)]
        np.testing.assert_allclose(samples.losses[level], replicates)
        for kind, units in (("clusters", np.unique(GROUPS[FOLD.validation])), ("records", FOLD.validation)):
            effects = samples.effects[kind]
            assert effects.units.tolist() == units.tolist()
            unit = GROUPS[row] if kind == "clusters" else row
            cells = np.array([[moved[(unit == u) & (cut == each)].sum() for each in range(N_CUTS)] for u in units])
            assert effects.sums.shape == (2, len(units))
            np.testing.assert_allclose(effects.sums[level], cells.sum(axis=1), atol=1e-12)
            np.testing.assert_allclose(samples.influences(kind)[level], cells.mean(axis=1), atol=1e-12)
    assert samples.means[0] > samples.means[1]


def test_clusters_may_count_differently_in_every_cut():
    """As they do where imitated pieces are to be as unlike the rest as real ones are."""
    tilted = WEIGHT * np.random.default_rng(3).uniform(0.2, 1.8, (N_CUTS, len(SIZES)))
    samples = started(halves(KNeighborsRegressor(2), Y, weight=tilted))[MAIN][0]
    for level, (_, row, w, prediction) in enumerate(by_hand(lambda: KNeighborsRegressor(2), Y, predicted, tilted)):
        assert samples.means[level] == pytest.approx((w * (Y[row] - prediction) ** 2).sum() / w.sum())


def test_every_record_of_a_cut_is_scored_once_with_a_piece_and_once_without():
    without, with_piece = by_hand(lambda: KNeighborsRegressor(2), Y, predicted)
    for cut in range(N_CUTS):
        assert sorted(without[1][without[0] == cut]) == sorted(with_piece[1][with_piece[0] == cut])


def test_weights_in_scoring_count_beside_those_of_the_clusters():
    of_records = np.random.default_rng(4).uniform(0.5, 3, len(Y))
    samples = started(halves(KNeighborsRegressor(2), Y, score_weight=of_records))[MAIN][0]
    for level, (_, row, w, prediction) in enumerate(by_hand(lambda: KNeighborsRegressor(2), Y, predicted)):
        total = w * of_records[row]
        assert samples.means[level] == pytest.approx((total * (Y[row] - prediction) ** 2).sum() / total.sum())


# --- metrics that are no means --------------------------------------------------------------------------


def minus_auc(row, prediction, w):
    return -roc_auc_score(CLASSES[row], prediction, sample_weight=w)


def minus_r2(row, prediction, w):
    return -r2_score(Y[row], prediction, sample_weight=w)


@pytest.mark.parametrize("role", [MAIN, UNCAUGHT])
@pytest.mark.parametrize(
    ("scoring", "metric", "make", "y", "say"),
    [
        (
            "roc_auc",
            minus_auc,
            lambda: KNeighborsClassifier(5),
            CLASSES,
            lambda model, records: model.predict_proba(records)[:, 1],
        ),
        ("r2", minus_r2, lambda: KNeighborsRegressor(2), Y, predicted),
    ],
    ids=["auc", "r2"],
)
def test_metrics_that_are_no_means_are_those_of_all_records_of_all_cuts_together(role, scoring, metric, make, y, say):
    samples = started(halves(make(), y, scoring=scoring))[role][0]
    caught = CAUGHT if role == UNCAUGHT else None
    for level, (_, row, w, prediction) in enumerate(by_hand(make, y, say, caught=caught)):
        value = metric(row, prediction, w)
        assert samples.means[level] == pytest.approx(value)
        units, n = np.unique(GROUPS[FOLD.validation]), len(row)
        # Leave one cluster out, with its records of all cuts: what it adds is that of the module on metrics.
        counts = np.array([(GROUPS[row] == unit).sum() for unit in units])
        rest = [
            metric(row[kept], prediction[kept], w[kept]) if (kept := GROUPS[row] != unit).sum() < n else value
            for unit in units
        ]
        moved = (n - counts) * (value - np.array(rest))
        effects = (moved - counts * moved.sum() / n) / n
        np.testing.assert_allclose(samples.influences("clusters")[level], effects, atol=1e-12)
    assert samples.means[0] > samples.means[1]


def test_functions_of_the_model_are_means_over_its_scored_records():
    """Of each of the six models twice: of the records with a piece, and of those without one; clusters count alike."""

    def correlation(model, records, target):
        return np.corrcoef(model.predict(records), target)[0, 1]

    even = np.ones(len(SIZES))
    samples = started(halves(KNeighborsRegressor(2), Y, weight=even, scoring=correlation))[MAIN][0]
    for level, (cut, row, _, prediction) in enumerate(by_hand(lambda: KNeighborsRegressor(2), Y, predicted, even)):
        side = CUTS.half[cut, GROUPS[row]]
        some = [(cut == each) & (side == half) for each in range(N_CUTS) for half in (0, 1)]
        values = [np.corrcoef(prediction[of], Y[row[of]])[0, 1] for of in some]
        assert samples.means[level] == pytest.approx(-np.average(values, weights=[of.sum() for of in some]))


def test_functions_of_predictions_take_the_weights_of_records():
    def weighted_bias(target, prediction, sample_weight=None):
        return np.average(prediction - target, weights=sample_weight) ** 2

    of_records = np.random.default_rng(4).uniform(0.5, 3, len(Y))
    scoring, even = make_scorer(weighted_bias, greater_is_better=False), np.ones(len(SIZES))
    for score_weight in (None, of_records):
        run = halves(KNeighborsRegressor(2), Y, weight=even, scoring=scoring, score_weight=score_weight)
        samples = started(replace(run, units=("clusters",)))[MAIN][0]
        for level, (_, row, _, prediction) in enumerate(by_hand(lambda: KNeighborsRegressor(2), Y, predicted, even)):
            w = None if score_weight is None else score_weight[row]
            assert samples.means[level] == pytest.approx(weighted_bias(Y[row], prediction, w))


def test_several_metrics_come_from_the_same_fits():
    both = started(halves(KNeighborsRegressor(2), Y, scoring=["r2", "neg_mean_squared_error"]))[MAIN]
    for samples, scoring in zip(both, ("r2", "neg_mean_squared_error"), strict=True):
        alone = started(halves(KNeighborsRegressor(2), Y, scoring=scoring))[MAIN][0]
        assert samples.means.tolist() == alone.means.tolist()
        assert samples.problem["loss"] == alone.problem["loss"]


# --- what trains ----------------------------------------------------------------------------------------


class Remembers(RegressorMixin, BaseEstimator):
    """Keeps what it was trained on, and its seed."""

    seen: ClassVar[list] = []

    def __init__(self, random_state=None):
        self.random_state = random_state

    def fit(self, records, target):
        Remembers.seen.append((self.random_state, records[:, 0].tolist()))
        return self

    def predict(self, records):
        return np.zeros(len(records))


def test_both_fits_of_a_cut_have_the_same_random_numbers_and_the_pieces_of_one_half_each():
    Remembers.seen = []
    started(halves(Remembers(), Y, caught=None))
    assert len(Remembers.seen) == 2 * N_CUTS
    held_out = FOLD.validation[(SIZES[GROUPS[FOLD.validation]] > 1) & (WEIGHT[GROUPS[FOLD.validation]] > 0)]
    seeds = []
    for cut in range(N_CUTS):
        (one, first), (other, second) = Remembers.seen[2 * cut : 2 * cut + 2]
        assert one == other
        seeds.append(one)
        n = FOLD.n_train
        assert first[:n] == second[:n] == X[FOLD.train, 0].tolist()
        assert sorted(first[n:] + second[n:]) == sorted(X[held_out[CUTS.leaks[cut, held_out]], 0])
        of_half = [{GROUPS[np.flatnonzero(X[:, 0] == x)[0]] for x in half[n:]} for half in (first, second)]
        assert not of_half[0] & of_half[1]
    assert len(set(seeds)) == N_CUTS


@pytest.mark.parametrize("backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scoring", [None, "roc_auc"])
def test_workers_do_not_change_a_bit(scoring, backend):
    run = halves(RandomForestClassifier(3), CLASSES, scoring=scoring)
    one = started(run)
    with parallel_config(backend):
        two = started(run, n_jobs=2)
    assert one.keys() == two.keys() == {MAIN, UNCAUGHT}
    for role, (samples,) in one.items():
        (other,) = two[role]
        assert [level.tolist() for level in samples.losses] == [level.tolist() for level in other.losses]
        for kind in ("clusters", "records"):
            assert samples.effects[kind].sums.tolist() == other.effects[kind].sums.tolist()


def test_pieces_that_would_all_be_caught_have_no_samples_of_their_own():
    everything = np.ones((N_CUTS, len(SIZES)), dtype=bool)
    assert started(halves(KNeighborsRegressor(2), Y, caught=everything)).keys() == {MAIN}
    # One cluster alone is missed, in one cut: AUC of a single class has no value.
    everything[1, GROUPS[FOLD.validation][0]] = False
    run = halves(KNeighborsClassifier(2), CLASSES, caught=everything, scoring="roc_auc")
    assert started(run).keys() == {MAIN}


def test_what_is_known_in_a_checkpoint_depends_on_all_that_decides_the_losses():
    run = halves(KNeighborsRegressor(2), Y)
    others = [
        replace(run, fold=Fold(4, FOLD.train, FOLD.validation)),
        replace(run, cuts=Cuts.draw(GROUPS, N_CUTS, AssumedCuts(), np.random.default_rng(2))),
        replace(run, weight=np.ones(len(SIZES))),
        replace(run, caught=None),
        replace(run, caught=~CAUGHT),
        replace(run, units=("records",)),
    ]
    known = {each.identity for each in (run, *others)}
    assert len(known) == 1 + len(others)
    assert halves(KNeighborsRegressor(2), Y).identity == run.identity


def test_too_few_clusters_that_can_be_cut_are_refused():
    single = Fold(0, FOLD.train, np.flatnonzero(np.isin(GROUPS, [3, 7, 10])))
    with pytest.raises(InputError, match=r"at least 2 validation clusters with 2 or more records, got 1; use"):
        replace(halves(KNeighborsRegressor(2), Y), fold=single)


# --- the public call ------------------------------------------------------------------------------------


def sample(**options):
    given = {"train": FOLD.train, "validation": FOLD.validation, "groups": GROUPS, "n_fits": 9, "random_state": 1}
    return ooc.sample_losses(LogisticRegression(), X, CLASSES, error_model="fragments", **given | options)


def test_the_public_call_cuts_by_assumption_and_spends_an_even_number_of_fits():
    samples = sample(units="both")
    assert samples.counts.tolist() == [4, 4]
    assert samples.n_fits == 8
    assert samples.units == ("clusters", "records")
    assert samples.size == np.count_nonzero(SIZES[np.unique(GROUPS[FOLD.validation])] > 1)
    assert samples.means.tolist() == sample().means.tolist()
    other = sample(random_state=2)
    assert other.means.tolist() != samples.means.tolist()
    assert sample().units == ("clusters",)
    assert samples.problem["error_model"] == "fragments"


def test_two_runs_of_the_public_call_make_a_larger_one():
    one, two = sample(), sample(random_state=2)
    both = one.merge(two)
    assert both.counts.tolist() == [8, 8]
    np.testing.assert_allclose(both.means, (one.means + two.means) / 2)
    np.testing.assert_allclose(both.influences(), (one.influences() + two.influences()) / 2)
    with pytest.raises(InputError, match="Samples with the same seed cannot be merged"):
        one.merge(sample())
    with pytest.raises(InputError, match="they differ in error_model"):
        one.merge(sample_records())


def sample_records():
    options = {"train": FOLD.train, "validation": FOLD.validation, "groups": GROUPS, "n_fits": 12, "random_state": 3}
    return ooc.sample_losses(LogisticRegression(), X, CLASSES, **options)


def test_no_effects_are_kept_where_none_are_asked_for(tmp_path):
    samples = sample(units="none")
    assert samples.units == ()
    assert samples.means.tolist() == sample().means.tolist()
    with pytest.raises(InputError, match=r"drawn without the effects of units \(units='none'\)"):
        samples.influences()
    samples.save(tmp_path / "samples")
    assert ooc.LossSamples.load(tmp_path / "samples").means.tolist() == samples.means.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_fits": 1}, "n_fits must be a whole number at least 2, got 1"),
        ({"injected": [0, 1]}, r"injected must be left out for error_model='fragments', got \[0, 1\]"),
        ({"n_train": 30}, "n_train must be left out for error_model='fragments', got 30"),
        ({"largest": 0.5}, "largest must be left out for error_model='fragments', got 0.5"),
        ({"standard_error": 0.1}, "standard_error must be left out for error_model='fragments', got 0.1"),
        ({"checkpoint": "file"}, "checkpoint must be left out for error_model='fragments', got 'file'"),
        ({"groups": None}, "groups must be given for error_model='fragments'"),
    ],
)
def test_what_the_public_call_refuses(options, message):
    with pytest.raises(InputError, match=message):
        sample(**options)
