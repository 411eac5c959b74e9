"""What ``scoring=`` stands for, and what is refused, each in one sentence and before any fit."""

import pickle
from functools import partial

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import f1_score, get_scorer, get_scorer_names, make_scorer, roc_auc_score
from sklearn.svm import SVC, LinearSVC

from outofcluster._base.exceptions import InputError
from outofcluster.metrics.base import shared_predictions
from outofcluster.metrics.resolve import check_weight, resolve_loss, resolve_scoring
from outofcluster.problem.problem import Task

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
number = X[:, 0] + rng.standard_normal(60)
two = np.where(number > 0, "yes", "no")
three = np.digitize(number, [-0.5, 0.5])


def loss_of(metric, model, X, y):
    return metric.value(shared_predictions([metric], model, X, y))


def own_score(estimator, X, y):
    return float(np.mean(estimator.predict(X) == y))


def test_scorers_and_names_are_the_same():
    for name in get_scorer_names():
        if "samples" in name or name in ("top_k_accuracy",):
            continue
        regression = "error" in name or "deviance" in name or name in ("r2", "explained_variance")
        estimator, y = (Ridge(), np.abs(number)) if regression else (LogisticRegression(), two)
        [by_name] = resolve_scoring(name, estimator, y)
        [by_scorer] = resolve_scoring(get_scorer(name), estimator, y)
        assert by_name.facts == by_scorer.facts
        assert by_name.facts.name == name
        assert by_name == by_scorer


def test_means_over_records_are_the_losses_of_the_same_quantity():
    for name, loss in (
        ("neg_brier_score", "brier"),
        ("neg_log_loss", "log_loss"),
        ("accuracy", "zero_one"),
        ("neg_mean_squared_error", "squared_error"),
        ("neg_mean_absolute_error", "absolute_error"),
    ):
        estimator, y = (Ridge(), number) if loss.endswith("error") else (LogisticRegression(), two)
        [resolved] = resolve_scoring(name, estimator, y)
        assert (resolved.name, resolved.is_mean, resolved.facts.pool) == (loss, True, "records")


@pytest.mark.slow
def test_every_scorer_gives_its_score():
    labels = (two == "yes").astype(int)
    positive = np.abs(number) + 0.1
    for name in get_scorer_names():
        if "samples" in name or name == "top_k_accuracy":
            continue
        regression = "error" in name or "deviance" in name or name in ("r2", "explained_variance")
        estimator, y = (LinearRegression(), positive) if regression else (LogisticRegression(), labels)
        X_own = np.abs(X) if regression else X
        model = estimator.fit(X_own, y)
        if regression and (model.predict(X_own) <= 0).any():
            continue
        scorer = get_scorer(name)
        [loss] = resolve_scoring(name, model, y)
        shown = loss.facts.shown(loss_of(loss, model, X_own, y))
        assert shown == pytest.approx(scorer._sign * scorer(model, X_own, y), abs=1e-10), name


def test_labels_of_any_kind_and_the_positive_one():
    model = LogisticRegression().fit(X, two)
    for name, function in (("f1", f1_score), ("roc_auc", None)):
        [last] = resolve_scoring(name, model, two)
        [first] = resolve_scoring(name, model, two, pos_label="no")
        if function is not None:
            assert loss_of(last, model, X, two) == -f1_score(two, model.predict(X), pos_label="yes")
            assert loss_of(first, model, X, two) == -f1_score(two, model.predict(X), pos_label="no")
        else:
            assert loss_of(first, model, X, two) == pytest.approx(loss_of(last, model, X, two))
    [carried] = resolve_scoring(make_scorer(f1_score, pos_label="no"), model, two)
    assert loss_of(carried, model, X, two) == -f1_score(two, model.predict(X), pos_label="no")
    boolean = two == "yes"
    fitted = LogisticRegression().fit(X, boolean)
    [loss] = resolve_scoring("average_precision", fitted, boolean)
    assert loss_of(loss, fitted, X, boolean) == pytest.approx(-get_scorer("average_precision")(fitted, X, boolean))


def test_lists_dicts_and_functions():
    losses = resolve_scoring({"area": "roc_auc", "mine": own_score}, LogisticRegression(), two)
    assert [loss.facts.name for loss in losses] == ["area", "mine"]
    assert losses[0].facts.label == "AUC"
    assert losses[1].facts.greater_is_better
    model = LogisticRegression().fit(X, two)
    assert loss_of(losses[1], model, X, two) == -own_score(model, X, two)
    [loss] = resolve_scoring(own_score, model, two)
    assert loss.facts.label == "own score"
    [svm] = resolve_scoring("roc_auc", LinearSVC(), two)
    fitted = LinearSVC().fit(X, two)
    assert loss_of(svm, fitted, X, two) == pytest.approx(-roc_auc_score(two, fitted.decision_function(X)))


def test_what_needs_the_model_is_pooled_by_folds():
    [metric] = resolve_scoring("top_k_accuracy", LogisticRegression(), three)
    assert not metric.joins_folds
    assert metric.facts.pool == "folds"
    several = np.column_stack([number, number**2])
    model = Ridge().fit(X, several)
    [metric] = resolve_scoring("neg_median_absolute_error", model, several)
    score = get_scorer("neg_median_absolute_error")(model, X, several)
    assert metric.facts.shown(loss_of(metric, model, X, several)) == -score > 0


def test_functions_without_a_name_are_shown_by_a_plain_word():
    def measure(estimator, X, y):
        return 0.5

    nameless = (
        lambda estimator, X, y: 0.5,
        partial(lambda estimator, X, y, z: 0.5, z=1),
        make_scorer(lambda y_true, y_pred: 0.5),
    )
    for scoring in nameless:
        [loss] = resolve_scoring(scoring, LogisticRegression(), two)
        assert (loss.name, loss.facts.name, loss.facts.label) == ("score", "score", "score")
    assert resolve_scoring(measure, LogisticRegression(), two)[0].facts.label == "measure"
    loss = resolve_loss(lambda y_true, y_pred: np.abs(y_true - y_pred), Ridge(), number)
    assert (loss.name, loss.facts.label) == ("loss", "loss")


def test_losses_survive_a_pickle():
    model = LogisticRegression().fit(X, two)
    for scoring in ("roc_auc", "f1", "average_precision", "calibration_slope", own_score):
        [loss] = resolve_scoring(scoring, model, two)
        assert loss_of(pickle.loads(pickle.dumps(loss)), model, X, two) == loss_of(loss, model, X, two)


@pytest.mark.parametrize(
    ("scoring", "estimator", "y", "message"),
    [
        ("roc_acu", LogisticRegression(), two, r"got 'roc_acu'; did you mean 'roc_auc'"),
        ("Brier", LogisticRegression(), two, r"did you mean 'neg_brier_score'"),
        ("qqqqqqq", LogisticRegression(), two, r"got 'qqqqqqq', which is not the name of a metric\.$"),
        ("roc_auc", LogisticRegression(), three, r"two classes for roc_auc, got 3; use 'roc_auc_ovr' or 'roc_auc_ovo'"),
        ("f1", LogisticRegression(), three, r"two classes for f1, got 3; use 'f1_macro' or 'f1_weighted'"),
        ("average_precision", LogisticRegression(), three, "two classes for average_precision, got 3"),
        ("neg_brier_score", LinearSVC(), two, "must have predict_proba for neg_brier_score, got LinearSVC"),
        ("calibration_slope", SVC(), two, "must have predict_proba for calibration_slope, got SVC"),
        ("roc_auc", Ridge(), number, "class labels for roc_auc, got numbers such as"),
        (
            "r2",
            Ridge(),
            two,
            "scoring must be a metric of classes for labels such as '(no|yes)', got 'r2', which takes num",
        ),
        ("r2", LogisticRegression(), two, "^scoring must .* got 'r2', which takes numbers"),
        ("neg_mean_squared_error", LogisticRegression(), two, "^scoring must .* got 'neg_mean_squared_error'"),
        ("neg_max_error", LogisticRegression(), two, "^scoring must .* got 'neg_max_error'"),
        ("concordance", Ridge(), two, "one number per record for concordance"),
        (["roc_auc", "roc_auc"], LogisticRegression(), two, "each metric once, got 'roc_auc' more than once"),
        ([], LogisticRegression(), two, "at least one metric"),
        (3, LogisticRegression(), two, "the name of a metric, a scorer or a function, got 3"),
        (roc_auc_score, LogisticRegression(), two, r"got roc_auc_score; use 'roc_auc'"),
        (lambda y_true, y_pred: 0.0, LogisticRegression(), two, r"\(estimator, X, y\), got <lambda> with other arg"),
        (make_scorer(f1_score, pos_label="maybe"), LogisticRegression(), two, r"one of the classes \['no', 'yes'\]"),
    ],
)
def test_refused(scoring, estimator, y, message):
    with pytest.raises(InputError, match=message) as refusal:
        resolve_scoring(scoring, estimator, y)
    assert "\n" not in str(refusal.value)


class Unreadable:
    """An object that cannot be shown."""

    def __repr__(self):
        raise RuntimeError("no\nname")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": Unreadable()}, "or a scorer, got a Unreadable"),
        ({"scoring": Unreadable()}, "a scorer or a function, got a Unreadable"),
        ({"scoring": {Unreadable()}}, "a scorer or a function, got a Unreadable"),
        ({"scoring": "x" * 5000}, "got 'xxx"),
        ({"loss": "x" * 5000}, "got 'xxx"),
        ({"scoring": "roc_auc", "pos_label": Unreadable()}, "pos_label must be one of the classes .*, got a Unread"),
    ],
)
def test_values_are_shown_in_short_or_by_their_type(options, message):
    with pytest.raises(InputError, match=message) as refusal:
        Task.check(LogisticRegression(), X, two, **options)
    assert len(str(refusal.value)) < 500


def test_more_refusals():
    with pytest.raises(InputError, match="loss and scoring must not be given together, got loss='brier' and scoring"):
        Task.check(LogisticRegression(), X, two, loss="brier", scoring="roc_auc")
    with pytest.raises(InputError, match="pool must be"):
        Task.check(LogisticRegression(), X, two, scoring="roc_auc", pool="clusters")
    with pytest.raises(InputError, match="pool must be 'folds' for own_score, a function of the model"):
        Task.check(LogisticRegression(), X, two, scoring=own_score, pool="records")
    with pytest.raises(InputError, match="score_weight needs a metric that takes weights, got own_score"):
        Task.check(LogisticRegression(), X, two, scoring=own_score, score_weight=np.ones(60))
    for weight, message in (
        (np.ones(3), r"one weight for each of the 60 records, got shape \(3,\)"),
        (["heavy"] * 60, "must be an array of numbers"),
        (-np.ones(60), "finite weights of at least 0"),
        (np.zeros(60), "some of them above 0"),
    ):
        with pytest.raises(InputError, match=message):
            check_weight(weight, 60)
    assert check_weight(None, 60) is None
