"""Losses: values against scikit-learn's metrics and by hand, what is refused, and that they can be sent to workers."""

import functools
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.base import BaseEstimator
from sklearn.cluster import KMeans
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from outofcluster._base.exceptions import InputError
from outofcluster.metrics.base import shared_predictions
from outofcluster.metrics.facts import LOSSES
from outofcluster.metrics.predictions import Predictions
from outofcluster.metrics.resolve import resolve_loss

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
number = X @ [1.0, -2.0, 0.5] + rng.standard_normal(80)
two = np.where(number > 0, "yes", "no")
three = np.array(["low", "mid", "top"])[np.digitize(number, [-1, 1])]


class Fixed(BaseEstimator):
    """A fitted classifier with given probabilities."""

    def __init__(self, classes=None, probability=None):
        self.classes, self.probability = classes, probability
        self.classes_ = np.asarray(classes)

    def predict(self, X):
        return self.classes_[np.argmax(self.probability, axis=1)]

    def predict_proba(self, X):
        return np.asarray(self.probability)


def loss_of(metric, model, X, y):
    return metric.value(shared_predictions([metric], model, X, y))


def losses_of(metric, model, X, y):
    return metric.records(Predictions(model, X, y))


def absolute(y_true, y_pred):
    return np.abs(y_true - y_pred)


def three_arguments(estimator, X, y):
    return 0.0


@pytest.mark.parametrize(
    ("estimator", "name"),
    [
        (LogisticRegression(), "zero_one"),
        (Ridge(), "squared_error"),
        (make_pipeline(StandardScaler(), SVC()), "zero_one"),
        (GridSearchCV(Ridge(), {"alpha": [1, 2]}), "squared_error"),
    ],
)
def test_the_default_follows_the_kind_of_estimator(estimator, name):
    assert resolve_loss(None, estimator, [0, 1, 0]).name == name


def test_an_estimator_outside_of_scikit_learn_says_its_kind_itself():
    class Plain:
        _estimator_type = "regressor"

        def predict(self, X):
            return X

    assert resolve_loss(None, Plain(), [0.5, 1.0]).name == "squared_error"


@pytest.mark.parametrize("y", [two, three, np.digitize(number, [-1, 1]), pd.Series(three).astype("category")])
def test_losses_of_classes_have_the_mean_of_scikit_learns_metrics(y):
    model = LogisticRegression().fit(X, y)
    classes = len(np.unique(np.asarray(y)))
    expected = {
        "zero_one": metrics.zero_one_loss(y, model.predict(X)),
        "log_loss": metrics.log_loss(y, model.predict_proba(X)),
    }
    one_hot = np.asarray(y)[:, None] == model.classes_
    square = ((model.predict_proba(X) - one_hot) ** 2).sum(axis=1)
    expected["brier"] = square.mean() / (2 if classes == 2 else 1)
    for name, value in expected.items():
        loss = resolve_loss(name, LogisticRegression(), y)
        records = losses_of(loss, model, X, y)
        assert records.shape == (80,)
        assert records.dtype == float
        assert loss_of(loss, model, X, y) == pytest.approx(value) == records.mean()
        assert loss.is_mean
        assert loss.facts.loss_range[0] <= records.min() <= records.max() <= loss.facts.loss_range[1]
    assert resolve_loss("brier", LogisticRegression(), y).facts.loss_range == (0, 1 if classes == 2 else 2)


def test_the_binary_brier_score_is_that_of_scikit_learn():
    model = LogisticRegression().fit(X, two)
    expected = metrics.brier_score_loss(two == "yes", model.predict_proba(X)[:, 1])
    assert loss_of(resolve_loss("brier", model, two), model, X, two) == pytest.approx(expected)


def test_losses_of_numbers():
    model = Ridge().fit(X, number)
    assert loss_of(resolve_loss("squared_error", Ridge(), number), model, X, number) == pytest.approx(
        metrics.mean_squared_error(number, model.predict(X))
    )
    assert loss_of(resolve_loss("absolute_error", Ridge(), number), model, X, number) == pytest.approx(
        metrics.mean_absolute_error(number, model.predict(X))
    )
    assert resolve_loss(None, Ridge(), number).facts.loss_range == (0, np.inf)
    assert resolve_loss(None, Ridge(), pd.Series(number, dtype=object)).name == "squared_error"


def test_several_outputs_are_averaged_a_record():
    y = np.column_stack([number, 2 * number + 1])
    model = LinearRegression().fit(X, y)
    loss = resolve_loss(None, LinearRegression(), y)
    np.testing.assert_allclose(losses_of(loss, model, X, y), ((y - model.predict(X)) ** 2).mean(axis=1))
    assert loss_of(resolve_loss("absolute_error", model, y), model, X, y) == pytest.approx(
        metrics.mean_absolute_error(y, model.predict(X))
    )


def test_several_labels_are_one_prediction():
    y = np.column_stack([number > 0, X[:, 0] > 0]).astype(int)
    model = MultiOutputClassifier(DecisionTreeClassifier(max_depth=1)).fit(X, y)
    loss = resolve_loss("zero_one", model, y)
    assert loss_of(loss, model, X, y) == pytest.approx(metrics.zero_one_loss(y, model.predict(X)))


def test_a_single_column_is_a_vector():
    model = LinearRegression().fit(X, number[:, None])
    assert model.predict(X).shape == (80, 1)
    loss = resolve_loss(None, model, number)
    expected = (number - model.predict(X)[:, 0]) ** 2
    for y in (number, number[:, None], pd.DataFrame({"y": number})):
        np.testing.assert_allclose(losses_of(loss, model, X, y), expected)


def test_integers_do_not_overflow():
    y = np.array([0, 200], dtype=np.uint8)
    model = Fixed([0, 200], [[0, 1], [1, 0]])
    assert losses_of(resolve_loss("squared_error", model, y), model, [0, 0], y).tolist() == [40_000, 40_000]


def test_a_class_unseen_in_training_has_probability_zero():
    y = np.array(["a", "b", "c"])
    model = Fixed(["a", "b"], [[0.75, 0.25], [1, 0], [0.5, 0.5]])
    loss = resolve_loss("log_loss", model, y)
    largest = -np.log(np.finfo(float).eps)
    np.testing.assert_allclose(losses_of(loss, model, X[:3], y), [-np.log(0.75), largest, largest])
    loss = resolve_loss("brier", model, y)
    np.testing.assert_allclose(losses_of(loss, model, X[:3], y), [0.125, 2, 1.5])
    # Two classes in all, one of them unseen: the two-class form, in [0, 1], all the same.
    y = np.array(["b", "a"])
    for seen, expected in (("a", [1, 0]), ("b", [0, 1])):
        model = DummyClassifier().fit(X[:2], [seen, seen])
        np.testing.assert_allclose(losses_of(resolve_loss("brier", model, y), model, X[:2], y), expected)
        np.testing.assert_allclose(
            losses_of(resolve_loss("log_loss", model, y), model, X[:2], y), np.array(expected) * largest
        )


@given(st.integers(2, 5), st.integers(1, 30), st.integers(0, 10**6))
def test_probability_losses_by_brute_force(n_classes, n, seed):
    rng = np.random.default_rng(seed)
    classes = [f"class {c}" for c in range(n_classes)]
    y = np.array([*classes, *rng.choice(classes, n)])
    probability = rng.dirichlet(np.ones(n_classes), len(y))
    # The order of the columns is that of classes_, whatever it is.
    order = rng.permutation(n_classes)
    model = Fixed([classes[c] for c in order], probability[:, order])
    log_loss = [-np.log(row[classes.index(label)]) for row, label in zip(probability, y, strict=True)]
    brier = [
        sum((p - (c == label)) ** 2 for p, c in zip(row, classes, strict=True))
        for row, label in zip(probability, y, strict=True)
    ]
    np.testing.assert_allclose(losses_of(resolve_loss("log_loss", model, y), model, y, y), log_loss)
    factor = 0.5 if n_classes == 2 else 1
    np.testing.assert_allclose(losses_of(resolve_loss("brier", model, y), model, y, y), factor * np.array(brier))


def test_a_function_gives_one_loss_a_record():
    model = Ridge().fit(X, number)
    for function in (absolute, functools.partial(absolute), np.vectorize(lambda a, b: abs(a - b))):
        loss = resolve_loss(function, Ridge(), pd.Series(number))
        assert (loss.is_mean, loss.facts.loss_range) == (True, (-np.inf, np.inf))
        np.testing.assert_allclose(losses_of(loss, model, X, pd.Series(number)), np.abs(number - model.predict(X)))
    assert resolve_loss(functools.partial(absolute), Ridge(), number).name == "absolute"


def test_the_loss_of_a_scorer_is_minus_its_score():
    model = LogisticRegression().fit(X, two)
    for name in ("roc_auc", "accuracy", "neg_log_loss"):
        scorer = metrics.get_scorer(name)
        loss = resolve_loss(scorer, LogisticRegression(), two)
        assert loss.is_mean == (name != "roc_auc")
        assert loss.facts.loss_range == ((0, np.inf) if name == "neg_log_loss" else (-1, 0))
        assert loss_of(loss, model, X, two) == pytest.approx(-scorer(model, X, two))
    assert resolve_loss(metrics.get_scorer("roc_auc"), model, two).name == "roc_auc"
    assert resolve_loss(metrics.get_scorer("neg_log_loss"), model, two).name == "log_loss"
    own = metrics.check_scoring(model)
    assert loss_of(resolve_loss(own, model, two), model, X, two) == pytest.approx(-model.score(X, two))


def test_a_metric_survives_a_pickle():
    y = (number > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    for loss in (*LOSSES, absolute, metrics.get_scorer("accuracy")):
        metric = resolve_loss(loss, LogisticRegression(), y)
        assert loss_of(pickle.loads(pickle.dumps(metric)), model, X, y) == loss_of(metric, model, X, y)


def test_nothing_is_fitted_or_changed():
    estimator = LogisticRegression()
    resolve_loss("log_loss", estimator, two)
    assert not hasattr(estimator, "classes_")


@pytest.mark.parametrize(
    ("loss", "estimator", "y", "message"),
    [
        (None, StandardScaler(), two, "estimator must have a method predict, got StandardScaler without"),
        (None, Ridge, two, r"estimator must be an instance such as Ridge\(\), got the class itself"),
        (None, KMeans(), number, "loss must be given for KMeans, which is neither classifier nor regressor, got None"),
        ("log_loss", SVC(), two, "estimator must have predict_proba for loss 'log_loss', got SVC without"),
        ("brier", Ridge(), [0, 1], "estimator must have predict_proba for loss 'brier', got Ridge without"),
        (
            "brier",
            DecisionTreeClassifier(),
            [[0, 1], [1, 0]],
            r"y must hold one label per record for loss 'brier', got",
        ),
        ("zero_one", Ridge(), number, "y must hold class labels for loss 'zero_one', got numbers such as"),
        (None, Ridge(), two, "y must hold numbers for loss 'squared_error', got y.0. = "),
        ("absolute_error", Ridge(), pd.Series(two), "y must hold numbers for loss 'absolute_error'"),
        ("f1", SVC(), two, r"one of 'zero_one', .* got 'f1'; for scikit-learn's scorer pass scoring='f1'\.$"),
        (
            "nonsense",
            SVC(),
            two,
            "loss must be one of 'zero_one', .*, 'brier', a function or a scorer, got 'nonsense'.$",
        ),
        (3, SVC(), two, r"loss must be one of 'zero_one', .* a function of \(y_true, y_pred\) or a scorer, got 3"),
        (metrics.get_scorer("neg_log_loss"), SVC(), two, "must have predict_proba for neg_log_loss, got SVC"),
        (three_arguments, SVC(), two, r"loss must be a function of \(y_true, y_pred\), got three_arguments"),
        (metrics.mean_squared_error, Ridge(), number, r"shape \(5,\), got shape \(\) from mean_squared_error; for a m"),
        (np.subtract.outer, Ridge(), number, r"loss must give one value per record, .* got shape \(5, 5\)"),
        (None, SVC(), None, "y must hold the targets, got None"),
        (None, SVC(), [], r"y must hold one target per record, .* got shape \(0,\)"),
        (None, SVC(), np.zeros((2, 2, 2)), r"y must hold one target per record, .* got shape \(2, 2, 2\)"),
        (None, Ridge(), [0.5, np.nan], r"y must not have missing values, got y\[1\] = nan"),
        (None, Ridge(), [[0.5, 1], [1, np.nan]], r"y must not have missing values, got y\[1\]"),
        (None, SVC(), ["a", None], r"y must not have missing values, got y\[1\] = None"),
        (None, SVC(), ["a", float("nan")], r"y must not have missing values, got y\[1\] = nan"),
        (None, SVC(), pd.Series(["a", pd.NA, "b"]), r"y must not have missing values, got y\[1\]"),
        (None, SVC(), pd.Series([1, None], dtype="Int64"), r"y must not have missing values, got y\[1\]"),
        (None, Ridge(), [0.5, np.inf], "y must be finite, got inf"),
    ],
)
def test_bad_input(loss, estimator, y, message):
    with pytest.raises(InputError, match=message) as raised:
        resolve_loss(loss, estimator, y)
    assert "\n" not in str(raised.value)


def test_what_only_a_score_can_show():
    model = Ridge().fit(X, number)

    def shorter(y_true, y_pred):
        return np.zeros(5)

    def infinite(y_true, y_pred):
        return np.where(y_true == y_pred, 0, np.inf)

    def words(y_true, y_pred):
        return ["wrong"] * len(y_true)

    def nothing(y_true, y_pred):
        return float("nan")

    for function, message in (
        (shorter, r"array of shape \(80,\), got shape \(5,\) from shorter"),
        (infinite, "loss must give one finite value per record, at most 1e\\+70, got inf from infinite"),
        (words, "loss must give numbers, got list from words"),
    ):
        with pytest.raises(InputError, match=message):
            losses_of(resolve_loss(function, model, number), model, X, number)
    with pytest.raises(InputError, match="scoring must give a finite number, got nan from nothing"):
        loss_of(resolve_loss(metrics.make_scorer(nothing), model, number), model, X, number)
    with pytest.raises(
        InputError, match=r"must predict values of the shape of y, \(80,\), got \(80, 2\) from LinearReg"
    ):
        losses_of(
            resolve_loss(None, model, number), LinearRegression().fit(X, np.column_stack([number, number])), X, number
        )

    class NoClasses(Fixed):
        def __init__(self):
            self.probability = [[1]]

    with pytest.raises(InputError, match="estimator must have classes_ once fitted for loss 'log_loss', got NoClasses"):
        losses_of(resolve_loss("log_loss", NoClasses(), two), NoClasses(), X, two)
