"""Metrics without each unit and pseudo losses, against deleting the unit and asking scikit-learn again."""

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import cohen_kappa_score, fbeta_score, get_scorer, make_scorer, roc_auc_score
from sklearn.neighbors import KNeighborsClassifier

from outofcluster.metrics.base import NotDefinedError, Partition, shared_predictions
from outofcluster.metrics.predictions import Predictions, StoredPredictions
from outofcluster.metrics.resolve import resolve_scoring

rng = np.random.default_rng(0)
n = 54
X = rng.standard_normal((n, 3))
number = X[:, 0] + rng.standard_normal(n)
two = np.where(number > 0.3, "yes", "no")
three = np.digitize(number, [-0.5, 0.7])
clusters = rng.integers(0, 8, n)
weight = rng.random(n) + 0.1
BINARY = ["roc_auc", "balanced_accuracy", "matthews_corrcoef", "f1_macro", "f1_micro"]
BINARY += ["f1_weighted", "precision_macro", "recall_weighted", "jaccard_macro"]
NUMBERED = ["average_precision", "f1", "precision", "recall", "jaccard"]
SEVERAL = ["roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted", "roc_auc_ovo_weighted", "balanced_accuracy"]
SEVERAL += ["matthews_corrcoef", "f1_macro", "jaccard_weighted", "precision_micro"]
REGRESSION = ["r2", "explained_variance", "neg_root_mean_squared_error", "neg_median_absolute_error", "neg_max_error"]


def partitions(of=clusters):
    # One more unit than there are, which has no records.
    return [Partition(of, of.max() + 2), Partition(np.arange(len(of)), len(of))]


def measured(scoring, model, X, y, w=None):
    [metric] = resolve_scoring(scoring, model, y)
    return metric, *metric.thorough().leave_out(shared_predictions([metric], model, X, y), w, partitions())


def by_deletion(scorer, model, X, y, w=None):
    """The score of all records and, for both partitions, without each unit."""

    def score(keep):
        weights = {} if w is None else {"sample_weight": w[keep]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return scorer._sign * scorer(model, X[keep], y[keep], **weights)

    everything = np.ones(len(y), dtype=bool)
    without = [[score(part.of != unit) for unit in range(part.count)] for part in partitions()]
    return score(everything), without


CASES = (
    [(name, LogisticRegression(), two) for name in BINARY]
    + [(name, LogisticRegression(), (two == "yes").astype(int)) for name in NUMBERED]
    + [(make_scorer(fbeta_score, beta=2), LogisticRegression(), (two == "yes").astype(int))]
    + [(make_scorer(cohen_kappa_score), LogisticRegression(), three)]
    + [(make_scorer(roc_auc_score, response_method="predict_proba", max_fpr=0.5), LogisticRegression(), two)]
    + [(name, LogisticRegression(), three) for name in SEVERAL]
    + [(name, Ridge(), number) for name in REGRESSION]
)


# Ties and weights at once every day, and each of them alone in CI.
@pytest.mark.parametrize(
    ("rounded", "weighted"),
    [(True, True)]
    + [pytest.param(*case, marks=pytest.mark.slow) for case in ((False, False), (False, True), (True, False))],
)
@pytest.mark.parametrize(("scoring", "model", "y"), CASES, ids=lambda value: str(value)[:40])
def test_without_each_unit(scoring, model, y, rounded, weighted):
    records = np.round(X) if rounded else X
    model.fit(records, y)
    scorer = get_scorer(scoring)
    has_weights = scoring != "neg_max_error" and "ovo" not in str(scoring)
    w = weight if weighted and has_weights else None
    _, value, without = measured(scoring, model, records, y, w)
    expected, rest = by_deletion(scorer, model, records, y, w)
    assert value == pytest.approx(expected, abs=1e-12)
    for ours, theirs in zip(without, rest, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-10)


@pytest.mark.parametrize("scoring", ["roc_auc", make_scorer(cohen_kappa_score)], ids=["closed form", "recomputed"])
def test_pseudo_losses_sum_to_the_metric(scoring):
    model = LogisticRegression().fit(X, two)
    metric, value, without = measured(scoring, model, X, two)
    predictions = shared_predictions([metric], model, X, two)
    assert metric.value(predictions) == -value
    by_units = metric.losses(predictions, None, dict(zip(("clusters", "records"), partitions(), strict=True)))
    for part, rest, losses in zip(partitions(), without, by_units.values(), strict=True):
        assert losses.mean() == pytest.approx(-value, abs=1e-12)
        # S_k of the module's head, from the metric without the unit.
        sizes = part.sizes
        D = (n - sizes) * (-value + rest)
        S = -sizes * value + D - sizes / n * D.sum()
        np.testing.assert_allclose(np.bincount(part.of, losses, part.count), S, atol=1e-9)


def test_a_weighted_mean_with_equal_weights_is_the_mean():
    model = LogisticRegression().fit(X, two)
    [plain] = resolve_scoring("neg_brier_score", model, two)
    weighted = plain.weighted()
    predictions = Predictions(model, X, two)
    t, effects = weighted.score(predictions, np.ones(n), partitions())
    expected, plain_effects = plain.score(predictions, None, partitions())
    assert t == pytest.approx(expected, abs=1e-14)
    for of_weighted, of_plain in zip(effects, plain_effects, strict=True):
        np.testing.assert_allclose(of_weighted, of_plain, atol=1e-13)
    for part in partitions():
        pseudo = weighted.losses(predictions, np.ones(n), {"units": part})["units"]
        sums = [np.bincount(part.of, losses, part.count) for losses in (pseudo, plain.records(predictions))]
        np.testing.assert_allclose(*sums, atol=1e-11)


def test_accuracy_is_one_less_the_error_rate():
    model = LogisticRegression().fit(X, two)
    predictions = Predictions(model, X, two)
    [metric] = resolve_scoring("accuracy", model, two)
    assert metric.facts.shown(metric.value(predictions)) == pytest.approx(model.score(X, two))
    weighted = metric.weighted()
    value, _ = weighted.score(predictions, weight, ())
    assert value == pytest.approx(-model.score(X, two, sample_weight=weight))


def test_sensitivity_and_specificity():
    model = LogisticRegression().fit(X, two)
    called = model.predict(X)
    for name, label in (("sensitivity", "yes"), ("specificity", "no")):
        _, value, without = measured(name, model, X, two)
        own = two == label
        assert value == np.mean(called[own] == label)
        for unit in range(8):
            left = own & (clusters != unit)
            assert without[0][unit] == pytest.approx(np.mean(called[left] == label))
    [swapped] = resolve_scoring("sensitivity", model, two, pos_label="no")
    value = swapped.value(shared_predictions([swapped], model, X, two))
    assert value == -measured("specificity", model, X, two)[1]


def brute_concordance(target, values, w):
    above = below = 0.0
    for i in range(len(target)):
        for j in range(i):
            if target[i] != target[j]:
                below += w[i] * w[j]
                right = (target[i] - target[j]) * (values[i] - values[j])
                above += w[i] * w[j] * (1.0 if right > 0 else 0.5 if right == 0 else 0.0)
    return above / below


@pytest.mark.parametrize("w", [None, weight], ids=["plain", "weighted"])
def test_concordance(w):
    target, records = np.round(number), np.round(X, 1)
    model = Ridge().fit(records, target)
    _, value, without = measured("concordance", model, records, target, w)
    values, weights = model.predict(records), np.ones(n) if w is None else w
    assert value == pytest.approx(brute_concordance(target, values, weights))
    for unit in range(8):
        left = clusters != unit
        assert without[0][unit] == pytest.approx(brute_concordance(target[left], values[left], weights[left]))
    for row in range(0, n, 17):
        left = np.arange(n) != row
        assert without[1][row] == pytest.approx(brute_concordance(target[left], values[left], weights[left]))
    binary = (target > 0).astype(int)
    classifier = LogisticRegression().fit(records, binary)
    expected = roc_auc_score(binary, classifier.decision_function(records))
    assert measured("concordance", classifier, records, binary)[1] == pytest.approx(expected)


def calibrated(odds, y, slope, w=None):
    """Slope by scikit-learn, or absolute intercept by a general optimiser."""
    w = np.ones(len(odds)) if w is None else w
    if slope:
        # The same as penalty=None, which later releases call by this name.
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=10_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(odds[:, None], y, sample_weight=w).coef_[0, 0]

    def objective(intercept):
        eta = intercept + odds
        return np.sum(w * (np.logaddexp(0, eta) - y * eta))

    return abs(minimize_scalar(objective, bounds=(-20, 20), method="bounded", options={"xatol": 1e-9}).x)


CALIBRATED = [LogisticRegression(C=100), KNeighborsClassifier(3), RandomForestClassifier(20, random_state=0)]


@pytest.mark.parametrize("w", [None, weight], ids=["plain", "weighted"])
@pytest.mark.parametrize("slope", [True, False], ids=["slope", "intercept"])
@pytest.mark.parametrize("model", CALIBRATED, ids=lambda model: type(model).__name__)
def test_calibration(model, slope, w):
    half = np.arange(n) % 2 == 0
    model.fit(X[half], two[half])
    odds, y = logit(np.clip(model.predict_proba(X)[:, 1], 1e-6, 1 - 1e-6)), (two == "yes").astype(float)
    _, value, without = measured(f"calibration_{'slope' if slope else 'intercept'}", model, X, two, w)
    assert value == pytest.approx(calibrated(odds, y, slope, w), abs=1e-5)

    def moved_by(left):
        return calibrated(odds[left], y[left], slope, None if w is None else w[left]) - value

    clusters_moved = np.array([moved_by(clusters != unit) for unit in range(8)])
    records_moved = np.array([moved_by(np.arange(n) != row) for row in range(0, n, 9)])
    # Where one Newton step is enough it is wrong by a few percent of what the unit moves.
    assert np.max(np.abs(without[0][:8] - value - clusters_moved)) < 0.03 * np.max(np.abs(clusters_moved))
    assert np.max(np.abs(without[1][::9] - value - records_moved)) < 0.03 * np.max(np.abs(records_moved))
    assert without[0][-1] == value


def test_there_is_no_calibration_slope_of_constant_predictions_and_separated_classes():
    y = np.array([0, 0, 0, 1, 1, 1])
    [slope] = resolve_scoring("calibration_slope", LogisticRegression(), y)
    [intercept] = resolve_scoring("calibration_intercept", LogisticRegression(), y)
    parts = [Partition(np.arange(6), 6)]

    def predicted(*chance):
        chance = np.array(chance)
        return StoredPredictions(y, slope.classes, {"probabilities": np.stack([1 - chance, chance], axis=1)})

    nowhere = (
        predicted(0.4, 0.4, 0.4, 0.4, 0.4, 0.4),
        predicted(0.1, 0.2, 0.3, 0.6, 0.7, 0.8),
        predicted(0.9, 0.8, 0.7, 0.3, 0.2, 0.1),
        predicted(0.1, 0.2, 0.5, 0.5, 0.7, 0.8),
    )
    for predictions in nowhere:
        with pytest.raises(NotDefinedError, match="are all the same or separate the classes"):
            slope.leave_out(predictions, None, parts)
        value, without = intercept.leave_out(predictions, None, parts)
        assert np.isfinite([value, *without[0]]).all()
    # Without the only record on the wrong side there is none either, and that record counts for nothing.
    value, without = slope.leave_out(predicted(0.1, 0.2, 0.65, 0.6, 0.7, 0.8), None, parts)
    assert np.isfinite(value)
    assert without[0][2] == without[0][3] == value
    assert (np.delete(without[0], [2, 3]) != value).all()
    # A record without weight does not count.
    weight = np.array([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    with pytest.raises(NotDefinedError):
        slope.leave_out(predicted(0.1, 0.2, 0.65, 0.6, 0.7, 0.8), weight, parts)


def test_a_unit_that_holds_all_of_a_class_makes_the_interval_wide():
    y, score = np.array([0, 0, 0, 0, 1, 1]), np.array([0.1, 0.2, 0.3, 0.6, 0.5, 0.9])
    of = np.array([0, 0, 1, 1, 2, 2])
    [metric] = resolve_scoring("roc_auc", LogisticRegression(), y)
    stored = StoredPredictions(y, metric.classes, {"scores": score})
    value, without = metric.leave_out(stored, None, [Partition(of, 3)])
    assert value == roc_auc_score(y, score)
    assert without[0][2] == 0.5
    assert metric.undefined(y) == ""
    assert "single class, 1" in metric.undefined(y[4:])


def test_several_classes_of_which_some_are_missing():
    model = LogisticRegression().fit(X, three)
    left = three != 2
    [metric] = resolve_scoring("roc_auc_ovr", model, three)
    value, _ = metric.leave_out(Predictions(model, X[left], three[left], metric.classes), None, [])
    table = model.predict_proba(X[left])
    expected = [roc_auc_score(three[left] == each, table[:, each]) for each in (0, 1)]
    assert value == pytest.approx(np.mean(expected))
    fewer = LogisticRegression().fit(X[left], three[left])
    table = Predictions(fewer, X, three, metric.classes).probabilities
    assert table.shape == (n, 3)
    assert (table[:, 2] == 0).all()


@pytest.mark.slow
def test_many_units_of_an_unknown_metric_are_sampled():
    [metric] = resolve_scoring("neg_max_error", Ridge(), number)
    model = Ridge().fit(X, number)
    part = Partition(np.arange(n), n)
    exact = metric.thorough().leave_out(Predictions(model, X, number), None, [part])
    draws = [metric.leave_out(Predictions(model, X, number, salt=salt), None, [part])[1][0] for salt in range(400)]
    assert ((np.array(draws) != exact[0]).sum(axis=1) <= 40).all()
    np.testing.assert_allclose(np.mean(draws, axis=0), exact[1][0], atol=0.1 * np.ptp(exact[1][0]))


class Counting(LogisticRegression):
    """Counts how often it is asked."""

    asked = 0

    def decision_function(self, X):
        Counting.asked += 1
        return super().decision_function(X)


def test_predictions_are_made_once():
    model = Counting().fit(X, two)
    metrics = resolve_scoring(["roc_auc", "average_precision"], model, two)
    Counting.asked = 0
    predictions = Predictions(model, X, two, metrics[0].classes)
    for metric in metrics:
        metric.score(predictions, None, partitions())
    assert Counting.asked == 1
