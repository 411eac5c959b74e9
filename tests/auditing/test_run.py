"""The audit: what it composes, what it answers without another fit, what it says and refuses."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.model_selection import GroupKFold, LeaveOneGroupOut
from sklearn.neighbors import KNeighborsClassifier

import outofcluster as ooc
from ooc_test_results import naive_influence, noise_of_levels
from outofcluster._base.exceptions import FitError, InputError
from outofcluster.inference.functional import Influences
from outofcluster.sampling.audit_samples import MAIN, smaller

rng = np.random.default_rng(0)
groups = np.repeat(np.arange(40), 10)
effect = rng.standard_normal((40, 4))[groups]
X = effect + 0.5 * rng.standard_normal((400, 4))
label = (effect[:, 0] + rng.standard_normal(40)[groups] > 0).astype(int)
target = X[:, 0] + effect[:, 1] + 0.5 * rng.standard_normal(400)


def audit(estimator=None, y=None, **options):
    given = {"groups": groups, "leakage": 0.1, "error_model": "records", "n_fits": 600, "random_state": 0} | options
    given = {"curve": ooc.PolynomialCurve(2)} | given
    estimator = Ridge() if estimator is None else estimator
    return ooc.audit(estimator, X, target if y is None else y, **given)


@pytest.fixture(scope="module")
def result():
    return audit()


def test_naive_is_the_loss_over_the_folds(result):
    losses = np.empty(400)
    for train, test in GroupKFold(5).split(X, target, groups):
        losses[test] = (Ridge().fit(X[train], target[train]).predict(X[test]) - target[test]) ** 2
    assert result.naive.value == pytest.approx(losses.mean())
    assert result.iid.value < result.naive.value
    assert result.naive.se_monte_carlo == 0


def test_corrected_is_naive_plus_the_estimated_optimism(result):
    """The pooled losses, extrapolated by hand."""
    shares = [fold.n_validation / 400 for fold in result.samples.folds]
    by_fold = [fold.main for fold in result.samples.folds]
    b = sum(share * samples.means for share, samples in zip(shares, by_fold, strict=True))
    p = 0.1 + 0.9 * by_fold[0].injected
    q = np.polynomial.Polynomial.fit(p, b, 2, w=1 / noise_of_levels(result.samples.folds))
    assert result.corrected.value == pytest.approx(result.naive.value + q(0) - q(0.1), abs=1e-9)
    assert result.curve.e0_ == pytest.approx(q(0))
    assert result.bias == pytest.approx(q(0) - q(0.1))
    low, high = result.corrected.interval
    assert low < result.corrected.value < high
    assert result.corrected.se_data > result.corrected.se_monte_carlo


def test_another_rate_costs_no_fit(result, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(Ridge, "fit", fail)
    monkeypatch.setattr("outofcluster.sampling.sample.sample_losses", fail)
    doubled = result.at_leakage(0.2)
    assert doubled.corrected.value > result.corrected.value
    assert doubled.naive == result.naive
    assert result.at_leakage(0).corrected.value == pytest.approx(result.naive.value, abs=1e-12)
    table = result.sensitivity([0.0, 0.1, 0.2])
    assert table.values[1] == pytest.approx(result.corrected.value)
    assert (table.low < table.values).all()
    assert table.to_frame().columns.tolist() == ["rate", "value", "low", "high"]


def test_the_tipping_point_is_where_the_corrected_loss_reaches_the_threshold(result):
    assert result.tipping_point(result.corrected.value).rate == pytest.approx(0.1, abs=1e-4)
    assert result.tipping_point(0.0).rate == 0
    assert result.tipping_point(1e9).rate is None


def test_uncertainty_of_the_rate_widens_the_interval(result):
    unsure = result.at_leakage(ooc.Leakage(0.1, std=0.05))
    step = (result.at_leakage(0.101).corrected.value - result.at_leakage(0.099).corrected.value) / 0.002
    assert unsure.corrected.se_data**2 - result.corrected.se_data**2 == pytest.approx((0.05 * step) ** 2, rel=0.02)


def test_one_rate_a_fold(result):
    same = result.at_leakage([0.1] * 5)
    assert same.corrected == result.corrected
    different = result.at_leakage([0.0, 0.05, 0.1, 0.15, 0.2])
    assert different.corrected.value == pytest.approx(result.corrected.value, rel=0.1)


@pytest.mark.slow
def test_the_same_bits_for_any_number_of_workers(result):
    assert audit(n_jobs=2).corrected == result.corrected


@pytest.mark.slow
def test_methods_that_are_not_linear_get_an_interval_too():
    curved = audit(curve=ooc.CompletelyMonotoneCurve())
    assert curved.corrected.se_data > 0
    assert "CompletelyMonotoneCurve" in curved.to_dict()["curve_method"]


def test_fragments_and_the_choice_by_the_clusters():
    small = np.repeat(np.arange(100), 4)
    knn = KNeighborsClassifier(3)
    chosen = ooc.audit(knn, X, label, groups=small, leakage=0.1, n_fits=60, random_state=0)
    assert chosen.error_model == "fragments"
    assert any(f.code == "error-model" and "many and small" in f.message for f in chosen.findings)
    assert chosen.leakage[0].of == "validation"
    assert audit(error_model="auto", n_fits=60).error_model == "records"
    assert (
        ooc.audit(knn, X, label, groups=small, leakage=ooc.Leakage(0.1), n_fits=60, random_state=0).error_model
        == "records"
    )


@pytest.mark.slow
def test_without_a_rate_there_is_no_corrected_loss():
    nothing = audit(leakage=None)
    assert nothing.corrected is None
    assert nothing.bias is None
    assert nothing.curve is None
    assert "no-rate" in [finding.code for finding in nothing.findings]
    assert nothing.sensitivity([0.1]).values[0] > nothing.naive.value
    muted = audit(leakage=None, mute=("no-rate", "small-validation"))
    assert muted.findings == ()


@pytest.mark.slow
def test_one_held_out_cluster_is_audited_with_records_as_units():
    hospitals = np.repeat(np.arange(4), 100)
    train, test = np.flatnonzero(hospitals < 3), np.flatnonzero(hospitals == 3)
    one = audit(groups=hospitals, cv=[(train, test)], n_train=50)
    assert one.units == "records"
    assert one.estimand == "these held-out clusters"
    assert "few-clusters" in [finding.code for finding in one.findings]
    assert "these held-out clusters" in str(one)
    assert audit(groups=hospitals, cv=LeaveOneGroupOut(), n_train=50).units == "records"


class NeedsBothSides(Ridge):
    """Fails on resamples (not on whole training sets) when cluster 39 is among the training rows."""

    def fit(self, X, y):
        if len(X) < 180 and np.isin(X[:, 0], FORBIDDEN).any():
            raise ArithmeticError("no")
        return super().fit(X, y)


FORBIDDEN = X[groups == 39, 0]


def test_a_fold_that_cannot_be_audited_is_named_and_the_others_go_on():
    """Without injection only the fold that holds cluster 39 out never sees it."""
    folds = list(GroupKFold(5).split(X, target, groups))
    odd = next(i for i, (_, test) in enumerate(folds) if 39 in groups[test])
    others = [pair for i, pair in enumerate(folds) if i != odd]
    pairs = [(train[groups[train] != 39] if i < 2 else train, test) for i, (train, test) in enumerate(others)]
    partly = audit(NeedsBothSides(), cv=pairs, n_train=170)
    left_out = [finding.message for finding in partly.findings if finding.code == "fold-left-out"]
    assert len(left_out) == 2
    assert "ArithmeticError: no" in left_out[0]
    assert len(partly.samples.folds) == 2
    assert partly.corrected is not None
    with pytest.raises(FitError, match="No fold could be audited; the first: Fold 0 could not be audited"):
        audit(NeedsBothSides(), cv=pairs[2:], n_train=170)


def test_the_result_as_text_and_json(result):
    text = str(result)
    assert "corrected for 10 % leakage" in text
    assert "new clusters of the population" in text
    plain = json.loads(result.to_json())
    assert plain["schema"] == 5
    assert plain["corrected"]["value"] == result.corrected.value
    assert plain["fits"] == 600
    assert set(plain) >= {"naive", "iid", "corrected", "findings", "test", "leakage"}


@pytest.mark.slow
def test_no_cluster_effect_no_correction():
    """Linear regression on independent records: corrected and naive agree within a standard error."""
    own = np.random.default_rng(5)
    features = own.standard_normal((400, 3))
    independent = ooc.audit(
        LinearRegression(),
        features,
        features[:, 0] + own.standard_normal(400),
        groups=groups,
        leakage=0.1,
        n_fits=900,
        random_state=0,
    )
    assert abs(independent.bias) < independent.corrected.se_data


def test_far_extrapolation_is_found():
    far = audit(leakage=0.45)
    assert "far-extrapolation" in [finding.code for finding in far.findings]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leakage": -0.1}, "leakage must be a finite number at least 0, got -0.1"),
        ({"leakage": 0.6}, "leakage must be at most 0.5"),
        ({"leakage": np.nan}, "leakage must be a finite number at least 0, got nan"),
        ({"leakage": [[0.1, 0.2], [0.1]]}, r"leakage must be one rate, .* records, got \[\[0.1, 0.2\], \[0.1\]\]"),
        (
            {"leakage": [0.1, 0.2]},
            "leakage must be one rate, one for each of the 5 folds, or a probability .* records, got 2 numbers",
        ),
        ({"leakage": ooc.Leakage(0.1, of="validation")}, "leakage must be a share of the train records"),
        ({"groups": None}, "groups"),
        ({"groups": groups[:10]}, "groups"),
        ({"groups": np.zeros(400, dtype=int)}, "groups must hold at least two clusters"),
        ({"cv": [(np.arange(200), np.arange(195, 400))]}, "both"),
        ({"error_model": "both"}, "error_model must be 'auto' or 'records' or 'fragments', got 'both'"),
        (
            {"params": {"sample_weight": np.ones(7)}},
            r"params\['sample_weight'\] must have one weight for each of the 400 records, got 7",
        ),
        ({"params": {"ridge__sample_weight": np.ones(7)}}, r"params\['ridge__sample_weight'\] must have one weight"),
        ({"curve": "magic"}, "curve must be 'auto' or a curve"),
        ({"units": "people"}, "units must be 'auto' or 'clusters' or 'records', got 'people'"),
        ({"mute": ("everything",)}, "mute must hold codes of findings .*, got 'everything'"),
        ({"loss": lambda a, b: 1.0}, "loss"),
    ],
)
def test_bad_input_before_any_fit(options, message, monkeypatch):
    def fail(*_, **__):
        raise AssertionError("a model was fitted")

    monkeypatch.setattr(Ridge, "fit", fail)
    with pytest.raises(InputError, match=message):
        audit(**options)


def test_an_estimator_that_fails_on_a_whole_fold_is_named():
    class Failing(Ridge):
        def fit(self, X, y):
            raise ArithmeticError("never")

    with pytest.raises(FitError, match="The estimator failed in fold 0: ArithmeticError: never"):
        audit(Failing())


def test_labels_of_mixed_types_are_clusters_of_their_own(result):
    """1 and "1" are two clusters, as they are for the folds."""
    mixed = np.array([int(g) if g < 39 else "1" for g in groups], dtype=object)
    pairs = [(np.setdiff1d(np.arange(400), fold.rows), fold.rows) for fold in result.samples.folds]
    assert audit(groups=mixed, cv=pairs).corrected.value == pytest.approx(result.corrected.value)


# --- smaller training sets ----------------------------------------------------------------------------


@pytest.mark.slow
def test_the_default_samples_smaller_training_sets_within_the_budget(tmp_path):
    found = audit(curve="auto", checkpoint=tmp_path / "kept")
    run = found.samples.folds[0]
    assert run.size_roles == (MAIN, smaller(8))
    assert sum(run.n_fits for run in found.samples.folds) == 600
    assert {path.name for path in tmp_path.glob("kept.fold0*")} >= {"kept.fold0.main", "kept.fold0.size-8"}
    again = audit(curve="auto", checkpoint=tmp_path / "kept")
    assert again.corrected == found.corrected
    # The curve that is shown has the levels of the full size alone.
    assert len(found.summary.levels) == len(found.summary.losses) == 4


def test_the_variance_counts_every_size():
    """The influence of a unit on the corrected loss through being scored, summed by hand over sizes and folds."""
    found = audit(curve="auto", unmix=False)
    corrected = found.pooled.corrected(found.solution.correction)
    by_hand = naive_influence(found.pooled)
    assert len(found.pooled.size_roles) == 2
    for position, fold in enumerate(found.samples.folds):
        scored = np.unique(groups[fold.rows])
        for role in fold.size_roles:
            by_hand[scored] += corrected.weights[role][position] @ fold.runs[role].influences()
    np.testing.assert_allclose(Influences(found.pooled.columns).of_units(corrected), by_hand, atol=1e-12)


@pytest.mark.slow
def test_a_learner_that_needs_more_records_than_a_small_set_has():
    """15 neighbours cannot be fitted to 8 records: the other sizes serve."""
    found = audit(KNeighborsClassifier(15), y=label, curve="auto", n_fits=500)
    roles = {fold.size_roles for fold in found.samples.folds}
    assert len(roles) == 1
    assert all(found.samples.folds[0].runs[role].size >= 15 for role in roles.pop())
    both = ooc.compare(
        {"few": KNeighborsClassifier(3), "many": KNeighborsClassifier(15)},
        X,
        label,
        groups=groups,
        leakage=0.1,
        error_model="records",
        n_fits=500,
        random_state=0,
    )
    assert both.difference("few", "many").corrected.se_data > 0


def test_few_fits_all_go_to_the_full_size():
    assert all(run.size_roles == (MAIN,) for run in audit(curve="auto", n_fits=60).samples.folds)
