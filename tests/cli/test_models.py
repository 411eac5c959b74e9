"""Models by name, the user's own model, and which target they want."""

import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from outofcluster._base.exceptions import InputError
from outofcluster.cli.models import Wanted, load_model, make_model, wanted_target

MODULE = """
from sklearn.linear_model import LogisticRegression

def make():
    return LogisticRegression(C=2)

made = make()
number = 3
"""


@pytest.mark.parametrize(
    ("name", "classes", "last", "steps"),
    [
        (None, True, "LogisticRegression", 2),
        (None, False, "Ridge", 2),
        ("logistic", True, "LogisticRegression", 2),
        ("linear-svm", True, "LinearSVC", 2),
        ("ridge", True, "RidgeClassifier", 2),
        ("ridge", False, "Ridge", 2),
        ("forest", True, "RandomForestClassifier", 0),
        ("forest", False, "RandomForestRegressor", 0),
        ("boosting", True, "HistGradientBoostingClassifier", 0),
        ("boosting", False, "HistGradientBoostingRegressor", 0),
    ],
)
def test_models_by_name(name, classes, last, steps):
    X = np.random.default_rng(0).standard_normal((40, 2))
    y = X[:, 0] > 0 if classes else X[:, 0]
    for gaps in (0, 1):
        X[3, 1] = np.nan if gaps else 0.0
        model = make_model(name, X, classes=classes)
        assert type(model[-1] if steps else model).__name__ == last
        if steps:
            assert len(model) == steps + gaps
            assert len(model.fit(X, y).predict(X)) == 40


def test_the_users_own_model_may_be_made_or_a_maker(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    assert load_model("mine:made").C == load_model("mine:make").C == 2
    assert load_model("sklearn.linear_model:LogisticRegression").C == 1
    with pytest.raises(InputError, match="or make one without arguments, got 'mine:number': 'int' object is not"):
        load_model("mine:number")
    monkeypatch.delitem(sys.modules, "mine")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("nomodule:thing", "got 'nomodule:thing': No module named 'nomodule'."),
        ("sklearn.svm:LinearSVCs", "which is not there; did you mean 'LinearSVC'?"),
        (
            "collections:Counter",
            "--model must be an estimator with fit and predict, got 'collections:Counter', a Counter.",
        ),
        ("forrest", "or module:object, got 'forrest'; did you mean 'forest'?"),
        ("svm", "did you mean 'linear-svm'?"),
        ("sklearn.svm.LinearSVC", "did you mean 'sklearn.svm:LinearSVC'?"),
    ],
)
def test_models_that_are_none(place, message):
    with pytest.raises(InputError) as raised:
        load_model(place)
    assert message in str(raised.value)


def test_the_option_that_decides_what_the_target_is():
    r2, auc = ("--scoring", "r2"), ("--loss", "brier")
    for arguments, wanted in {
        (None, None, (), None): Wanted(),
        ("ridge", None, (), None): Wanted(numbers=True),
        ("logistic", None, (r2,), None): Wanted(True, "--model", "logistic"),
        (None, None, (r2,), None): Wanted(False, "--scoring", "r2"),
        (None, None, (auc,), None): Wanted(True, "--loss", "brier"),
        ("a:b", LogisticRegression(), (r2,), None): Wanted(True, "--model", "a:b"),
        ("logistic", None, (auc,), "regression"): Wanted(False, "--task", "regression"),
    }.items():
        assert wanted_target(*arguments) == wanted
    with pytest.raises(InputError, match="--model must be ridge, forest, boosting or your own for a target of numbers"):
        make_model("logistic", np.zeros((3, 1)), classes=False)
