"""Audits by any metric: values and errors against scikit-learn and a bootstrap of clusters, several, and refusals."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import average_precision_score, f1_score, get_scorer, r2_score, roc_auc_score
from sklearn.model_selection import GroupKFold
from sklearn.svm import LinearSVC

import outofcluster as ooc
from ooc_test_results import naive_influence
from outofcluster._base.exceptions import FitError, InputError
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import UNMIXED
from outofcluster.sampling.baselines import random_losses

patients = ooc.datasets.make_patients(random_state=0)
groups = np.asarray(patients.groups)
keep = np.isin(groups, np.unique(groups)[:120])
X, groups = patients.data[keep], groups[keep]
y = (patients.target[keep] == np.unique(patients.target)[-1]).astype(int)
cv = GroupKFold(4)
FAST = {"groups": groups, "cv": cv, "n_fits": 96, "unmix": False, "random_state": 0}
RATE = ooc.Leakage(0.1, of="validation")


def run(estimator=None, target=y, **options):
    model = LogisticRegression() if estimator is None else estimator
    return ooc.audit(model, X, target, **FAST | {"leakage": RATE} | options)


def predictions(target=y):
    folds = []
    for train, test in cv.split(X, target, groups):
        folds.append((test, LogisticRegression().fit(X[train], target[train]).predict_proba(X[test])[:, 1]))
    return folds


def bootstrap(metric, folds, pooled=False, n=300):
    """Standard deviation of a metric over draws of whole clusters within every fold."""
    rng, draws = np.random.default_rng(0), []
    for _ in range(n):
        parts = []
        for test, p in folds:
            members = [np.flatnonzero(groups[test] == each) for each in np.unique(groups[test])]
            i = np.concatenate([members[k] for k in rng.integers(len(members), size=len(members))])
            parts.append((y[test][i], p[i]))
        if pooled:
            parts = [tuple(np.concatenate(side) for side in zip(*parts, strict=True))]
        draws.append(np.mean([metric(target, p) for target, p in parts]))
    return np.std(draws)


def called_f1(target, p):
    return f1_score(target, p > 0.5)


@pytest.fixture(scope="module")
def several():
    return run(scoring=["roc_auc", "average_precision", "f1", "neg_brier_score"])


def test_values_are_those_of_scikit_learn(several):
    folds = predictions()
    for name, metric in (("roc_auc", roc_auc_score), ("average_precision", average_precision_score), ("f1", called_f1)):
        expected = np.mean([metric(y[test], p) for test, p in folds])
        assert several.metrics[name].naive.value == pytest.approx(expected, abs=1e-12)
    brier = np.concatenate([(y[test] - p) ** 2 for test, p in folds])
    assert several.metrics["neg_brier_score"].naive.value == pytest.approx(brier.mean(), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "metric"), [("roc_auc", roc_auc_score), ("average_precision", average_precision_score), ("f1", called_f1)]
)
def test_the_error_of_scoring_is_that_of_a_bootstrap_of_clusters(several, name, metric):
    pooled = several.metrics[name].pooled
    own = np.sqrt(np.sum(naive_influence(pooled) ** 2) * pooled.n_scored / (pooled.n_scored - 1))
    assert 0.85 < own / bootstrap(metric, predictions()) < 1.15


@pytest.fixture(scope="module")
def of_all_records():
    return run(scoring="roc_auc", pool="records", n_fits=48)


@pytest.mark.slow
def test_the_error_of_one_metric_of_all_records_is_that_of_a_bootstrap(of_all_records):
    pooled = of_all_records.pooled
    own = np.sqrt(np.sum(naive_influence(pooled) ** 2) * pooled.n_scored / (pooled.n_scored - 1))
    assert 0.85 < own / bootstrap(roc_auc_score, predictions(), pooled=True) < 1.15


def test_one_metric_of_all_records(of_all_records):
    result = of_all_records
    folds = predictions()
    rows, p = np.concatenate([test for test, _ in folds]), np.concatenate([own for _, own in folds])
    assert result.naive.value == pytest.approx(roc_auc_score(y[rows], p), abs=1e-12)
    by_records = result.with_units("records")
    assert by_records.naive.value == result.naive.value
    assert naive_influence(by_records.pooled).sum() == pytest.approx(0, abs=1e-12)


@pytest.mark.slow
def test_the_same_quantity_has_the_same_interval():
    one, two = run(loss="brier"), run(scoring="neg_brier_score")
    for name in ("naive", "corrected", "iid"):
        ours, theirs = getattr(one, name), getattr(two, name)
        assert ours.value == pytest.approx(theirs.value, abs=1e-9)
        np.testing.assert_allclose(ours.interval, theirs.interval, atol=1e-9)
    rate, accuracy = run(loss="zero_one"), run(scoring="accuracy")
    assert accuracy.naive.value == pytest.approx(1 - rate.naive.value, abs=1e-12)
    np.testing.assert_allclose(np.ptp(accuracy.naive.interval), np.ptp(rate.naive.interval), atol=1e-9)
    assert accuracy.corrected.value == pytest.approx(1 - rate.corrected.value, abs=1e-9)


def test_several_are_what_each_is_alone(several):
    assert list(several.metrics) == ["roc_auc", "average_precision", "f1", "neg_brier_score"]
    assert several.metrics["roc_auc"] is several
    alone = run(scoring="average_precision").metrics["average_precision"]
    together = several.metrics["average_precision"]
    assert together.naive.value == pytest.approx(alone.naive.value, abs=1e-12)
    assert together.corrected.value == pytest.approx(alone.corrected.value, abs=1e-9)
    np.testing.assert_allclose(together.corrected.interval, alone.corrected.interval, atol=1e-9)
    for result in several.metrics.values():
        low, high = result.corrected.interval
        assert low < result.corrected.value < high
    other = several.at_leakage(0.2)
    assert other.metrics["f1"].leakage == other.leakage


def test_saved_and_read_again(several, tmp_path):
    several.save(tmp_path / "audit")
    read = ooc.Audit.load(tmp_path / "audit")
    for name, result in several.metrics.items():
        assert read.metrics[name].corrected.interval == result.corrected.interval
        assert read.metrics[name].with_units("records").naive == result.with_units("records").naive


def test_a_run_from_its_checkpoint(tmp_path):
    first, again = (run(scoring=["roc_auc", "f1"], n_fits=48, checkpoint=tmp_path / "run") for _ in range(2))
    for name, result in first.metrics.items():
        assert again.metrics[name].corrected == result.corrected


@pytest.mark.slow
def test_records_that_leak_and_levels_below_the_rate():
    result = run(
        scoring=["roc_auc", "average_precision"], error_model="records", leakage=0.05, n_fits=800, unmix="auto"
    )
    for audit in result.metrics.values():
        fold = audit.samples.folds[0]
        assert UNMIXED in fold.runs
        assert fold.losses_by("clusters").mean() == pytest.approx(fold.losses_by("records").mean(), abs=1e-12)
        parts = fold.losses_by("clusters", "parts").mean()
        assert parts == pytest.approx(fold.losses_by("records", "parts").mean(), abs=1e-12)
        assert parts != fold.own_losses.mean()
        assert abs(audit.corrected.value - audit.naive.value) < 0.1


def test_labels_that_are_no_numbers(several):
    target = np.where(y == 1, "yes", "no")
    result = run(target=target, scoring=["average_precision", "f1", "roc_auc"], n_fits=48)
    for name, audit in result.metrics.items():
        assert audit.naive.value == pytest.approx(several.metrics[name].naive.value, abs=1e-9)


def test_several_classes_and_regression():
    three = np.digitize(X[:, 0] + 0.5 * y, [0.0, 0.6])
    result = run(target=three, scoring=["roc_auc_ovr", "roc_auc_ovo", "neg_log_loss", "f1_macro"], n_fits=48)
    assert all(np.isfinite(audit.corrected.value) for audit in result.metrics.values())
    number = X[:, 0] + y
    result = run(Ridge(), target=number, scoring=["r2", "concordance", "neg_root_mean_squared_error"], n_fits=48)
    folds = [
        r2_score(number[test], Ridge().fit(X[train], number[train]).predict(X[test]))
        for train, test in cv.split(X, number, groups)
    ]
    assert result.naive.value == pytest.approx(np.mean(folds), abs=1e-12)
    assert result.metrics["concordance"].naive.value > 0.5


def calls(estimator, X, y):
    return float(np.mean(estimator.predict(X) == y))


@pytest.mark.slow
def test_a_function_of_the_model_has_the_interval_of_the_metric():
    own, known = run(scoring=calls), run(scoring="accuracy", pool="folds")
    assert own.naive.value == pytest.approx(known.naive.value, abs=1e-12)
    np.testing.assert_allclose(naive_influence(own.pooled), naive_influence(known.pooled), atol=1e-12)


def test_weights_in_scoring():
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    result = run(scoring=["roc_auc", "neg_brier_score"], score_weight=weight, n_fits=48)
    folds = predictions()
    auc = np.mean([roc_auc_score(y[test], p, sample_weight=weight[test]) for test, p in folds])
    assert result.naive.value == pytest.approx(auc, abs=1e-12)
    rows, p = np.concatenate([test for test, _ in folds]), np.concatenate([own for _, own in folds])
    brier = np.average((y[rows] - p) ** 2, weights=weight[rows])
    assert result.metrics["neg_brier_score"].naive.value == pytest.approx(brier, abs=1e-12)


@pytest.mark.slow
def test_equal_weights_in_scoring_change_nothing():
    equal = run(loss="brier", score_weight=np.full(len(y), 2.0))
    plain = run(loss="brier", kernel=False)
    assert equal.corrected.value == pytest.approx(plain.corrected.value, abs=1e-9)
    # A weighted mean is computed over all cuts together, so that the noise between cuts comes from pseudo losses.
    np.testing.assert_allclose(equal.corrected.interval, plain.corrected.interval, atol=2e-6)


def test_a_fold_with_one_class_is_named_and_the_others_go_on():
    folds = [(train, test) for train, test in cv.split(X, y, groups)]
    single = y.copy()
    single[folds[2][1]] = 0
    result = run(target=single, scoring=["roc_auc", "neg_brier_score"], cv=folds)
    assert [fold.index for fold in result.samples.folds] == [0, 1, 3]
    texts = [str(finding) for finding in result.findings]
    assert any("Fold 2" in text and "roc_auc" in text and "single class" in text for text in texts)
    with pytest.raises(InputError, match="roc_auc is not defined"):
        run(target=single, scoring="roc_auc", cv=[folds[2]])


class NotForSome(LogisticRegression):
    """Predicts the same for all records of which the last feature is 1."""

    def predict_proba(self, X):
        chances = super().predict_proba(X)
        chances[X[:, -1] == 1] = 0.5
        return chances


def test_a_fold_without_a_calibration_slope_is_named_and_the_others_go_on():
    folds = [(train, test) for train, test in cv.split(X, y, groups)]
    marked = np.column_stack([X, np.isin(np.arange(len(y)), folds[2][1])])
    chosen = FAST | {"cv": folds, "leakage": RATE, "n_fits": 48, "scoring": ["calibration_slope", "roc_auc"]}
    result = ooc.audit(NotForSome(), marked, y, **chosen)
    assert [fold.index for fold in result.samples.folds] == [0, 1, 3]
    texts = [str(finding) for finding in result.findings]
    assert any("Fold 2" in text and "calibration_slope is not defined" in text for text in texts)


def test_random_folds_that_define_no_calibration_slope_are_named():
    task = Task.check(DummyClassifier(), X, y, groups=groups, scoring="calibration_slope")
    with pytest.raises(FitError, match="not defined for any of the 4 random folds, since the predictions are all the"):
        random_losses(task, 4, seed=np.random.SeedSequence(0))


def test_constant_predictions_have_no_calibration_slope_and_no_effect():
    with pytest.raises(FitError, match="calibration_slope is not defined for its held-out part, since the predictions"):
        run(DummyClassifier(), scoring="calibration_slope")
    with pytest.raises(InputError, match="predictions are all the same"):
        ooc.leakage_test(DummyClassifier(), X, y, groups=groups, scoring="calibration_slope", random_state=0)
    with pytest.raises(FitError, match="calibration_slope is not defined for some records"):
        ooc.leakage_test(
            DummyClassifier(), X, y, groups=groups, scoring="calibration_slope", method="welch", random_state=0
        )


class SometimesConstant(LogisticRegression):
    """Predicts the same for all records where it was fitted to few of one class, as some resamples are."""

    least_share = 0.0

    def fit(self, X, y):
        super().fit(X, y)
        self.constant_ = np.mean(y) < self.least_share
        return self

    def predict_proba(self, X):
        chances = super().predict_proba(X)
        return np.full_like(chances, 0.5) if self.constant_ else chances


def test_resamples_without_a_calibration_slope_are_drawn_again(monkeypatch):
    shares = [y[train].mean() for train, _ in cv.split(X, y, groups)]
    monkeypatch.setattr(SometimesConstant, "least_share", min(shares))
    result = run(SometimesConstant(), scoring="calibration_slope", error_model="records", leakage=0.1, n_fits=48)
    assert sum(int(fold.main.redraws.sum()) for fold in result.samples.folds) > 0
    assert all(np.isfinite(np.concatenate(fold.main.losses)).all() for fold in result.samples.folds)


class NeverFitted(ClassifierMixin, BaseEstimator):
    """Without scores, and an error where it is fitted."""

    def fit(self, X, y):
        raise AssertionError("fitted")

    def predict(self, X):
        raise AssertionError("asked")


def test_refused_before_any_fit():
    for options, message in (
        ({"scoring": "roc_auc"}, "must have decision_function or predict_proba for roc_auc, got NeverFitted"),
        ({"scoring": "accuracy", "score_weight": [1.0]}, "score_weight must have one weight"),
    ):
        with pytest.raises(InputError, match=message) as refusal:
            run(NeverFitted(), **options)
        assert "\n" not in str(refusal.value)


def test_decision_values_serve_as_scores():
    result = run(LinearSVC(), scoring=get_scorer("roc_auc"))
    assert result.naive.value == pytest.approx(
        np.mean(
            [
                roc_auc_score(y[test], LinearSVC().fit(X[train], y[train]).decision_function(X[test]))
                for train, test in cv.split(X, y, groups)
            ]
        ),
        abs=1e-3,
    )


def drawn_anew(rng, clusters=40, size=6):
    """Clusters with a level of their own in the feature and in the outcome."""
    of = np.repeat(np.arange(clusters), size)
    level = rng.standard_normal(clusters)
    x = level[of] + rng.standard_normal((len(of), 1))[:, 0]
    risk = 0.8 * x + 0.8 * rng.standard_normal(clusters)[of]
    return np.column_stack([x, rng.standard_normal(len(of))]), (risk + rng.logistic(size=len(of)) > 0).astype(int), of


def cross_validated(X, y, of):
    folds = GroupKFold(4).split(X, y, of)
    return np.mean(
        [
            roc_auc_score(y[test], LogisticRegression().fit(X[train], y[train]).decision_function(X[test]))
            for train, test in folds
        ]
    )


@pytest.mark.slow
def test_intervals_of_auc_cover_over_data_sets_drawn_anew():
    truth = np.mean([cross_validated(*drawn_anew(np.random.default_rng([7, i]))) for i in range(700)])
    covered, ratios, values = [], [], []
    for i in range(120):
        X, y, of = drawn_anew(np.random.default_rng([8, i]))
        result = ooc.audit(
            LogisticRegression(), X, y, groups=of, cv=GroupKFold(4), scoring="roc_auc", error_model="records",
            n_fits=96, unmix=False, leakage=None, random_state=i,
        )  # fmt: skip
        low, high = result.naive.interval
        covered.append(low <= truth <= high)
        values.append(result.naive.value)
        ratios.append(result.naive.se_data)
    # 95 % of 120 with a standard error of 2 %.
    assert 0.89 <= np.mean(covered) <= 0.995
    assert 0.85 < np.mean(ratios) / np.std(values, ddof=1) < 1.2
