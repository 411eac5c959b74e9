"""The public calls that a fuzz makes, with arguments that are right for the most part."""

from __future__ import annotations

import functools
import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.metrics import make_scorer
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, KFold, LeaveOneGroupOut
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import outofcluster as ooc
from _fuzz_values import array_like, odd

__all__ = ["Case", "draw_case"]

RNG = np.random.Generator
N, K = 120, 15


@dataclass
class Case:
    """One call: what it is called, how to make it, and what it must leave alone."""

    name: str
    call: Callable[[], Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    forms: dict[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    """Files that the call may write, in the current folder."""

    @property
    def described(self) -> str:
        """The call with the forms of its arguments."""
        return f"{self.name}({', '.join(f'{name}={form}' for name, form in self.forms.items())})"


# --- models that misbehave -----------------------------------------------------------------------------


class Misbehaving(BaseEstimator):
    """A model that does one thing wrong."""

    def __init__(self, how: str = "nan") -> None:
        self.how = how

    def fit(self, X: Any, y: Any) -> Any:
        """Learn the classes, or fail."""
        if self.how == "fit":
            raise RuntimeError("no\nfit\x1b[31m " + "and so on " * 100)
        if self.how == "odd error":
            raise _OddError("a", "b")
        if self.how == "sometimes" and np.asarray(y).ravel()[0] == np.asarray(y).ravel()[-1]:
            raise ValueError("an unlucky\nsample")
        self.classes_ = np.unique(np.asarray(y))
        if self.how == "changes X" and isinstance(X, np.ndarray):
            X[:] = 0
        return self

    def predict(self, X: Any) -> Any:
        """What is wrong with it."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        own = self.classes_[np.arange(n) % len(self.classes_)]
        answers: dict[str, Callable[[], Any]] = {
            "nan": lambda: np.full(n, np.nan),
            "inf": lambda: np.full(n, np.inf),
            "one nan": lambda: np.where(np.arange(n) == 0, np.nan, 0.5),
            "None": lambda: None,
            "short": lambda: own[:-1],
            "scalar": lambda: own[0],
            "strings": lambda: own.astype(str),
            "half": lambda: np.full(n, 0.5),
            "2-d": lambda: np.c_[own, own],
            "column": lambda: own[:, None],
            "list": own.tolist,
            "objects": lambda: own.astype(object),
            "masked": lambda: np.ma.masked_array(np.zeros(n), np.arange(n) % 2 == 0),
            "complex": lambda: np.zeros(n) + 1j,
            "unknown": lambda: np.full(n, 99),
            "huge": lambda: np.full(n, 1e200),
            "sparse": lambda: sparse.csr_matrix(np.zeros((n, 1))),
        }
        if self.how == "predict":
            raise ZeroDivisionError("in\npredict")
        return answers.get(self.how, lambda: own)()


class _OddError(Exception):
    """An error that cannot be sent to another process."""

    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one}\n{other}")


class BadClassifier(ClassifierMixin, Misbehaving):
    """A classifier of the kind."""

    def predict_proba(self, X: Any) -> Any:
        """Probabilities that are none, for some."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        whole = np.full((n, len(self.classes_)), 1 / len(self.classes_))
        answers: dict[str, Callable[[], Any]] = {
            "nan": lambda: whole * np.nan,
            "inf": lambda: whole * np.inf,
            "huge": lambda: whole * 1e9,
            "short": lambda: whole[:-1],
            "2-d": lambda: whole[:, :1],
            "half": lambda: -whole,
            "None": lambda: None,
            "scalar": lambda: 0.5,
        }
        return answers.get(self.how, lambda: whole)()


class BadRegressor(RegressorMixin, Misbehaving):
    """A regressor of the kind."""


HOW = (
    "nan", "inf", "None", "short", "scalar", "strings", "half", "2-d", "column", "list", "objects", "masked", "complex",
    "unknown", "huge", "sparse", "predict", "fit", "sometimes", "fine", "one nan", "odd error",
)  # fmt: skip


@functools.cache
def world() -> tuple[Any, Any, Any, Any]:
    """Records, labels, numbers and clusters."""
    rng = np.random.default_rng(1)
    groups = np.arange(N) % K
    X = rng.standard_normal((N, 3)) + rng.standard_normal((K, 3))[groups]
    number = X[:, 0] + rng.standard_normal(K)[groups] + 0.3 * rng.standard_normal(N)
    return X, (number > 0).astype(int), number, groups


def estimator(rng: RNG) -> tuple[str, Any]:
    """A model, good for the most part."""
    models = {
        "logistic": LogisticRegression,
        "ridge": Ridge,
        "least squares": LinearRegression,
        "knn": lambda: KNeighborsClassifier(3),
        "knn numbers": lambda: KNeighborsRegressor(2),
        "greedy knn": lambda: KNeighborsClassifier(1000),
        "knn 40": lambda: KNeighborsClassifier(40),
        "tree": lambda: DecisionTreeClassifier(max_depth=2),
        "bayes": GaussianNB,
        "dummy": lambda: DummyClassifier(strategy="stratified"),
        "dummy numbers": DummyRegressor,
        "pipeline": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        "class": lambda: LogisticRegression,
    }
    if rng.random() < 0.25:
        how = HOW[rng.integers(len(HOW))]
        return (f"bad {how}", BadClassifier(how)) if rng.random() < 0.6 else (f"bad numbers {how}", BadRegressor(how))
    if rng.random() < 0.06:
        return odd(rng)
    name = "logistic" if rng.random() < 0.3 else list(models)[rng.integers(len(models))]
    return name, models[name]()


def records(rng: RNG) -> tuple[str, Any]:
    """X in many forms."""
    X, _, number, _ = world()
    if rng.random() < 0.7:
        return "plain", X.copy()
    frame = pd.DataFrame(X, columns=list("abc"))
    forms = {
        "frame": lambda: frame,
        "twin columns": lambda: pd.DataFrame(X, columns=list("aab")),
        "frame, shuffled index": lambda: frame.set_index(np.random.default_rng(0).permutation(N)),
        "frame with text": lambda: frame.assign(c=np.where(X[:, 2] > 0, "a", "b")),
        "frame with dates": lambda: frame.assign(c=pd.Timestamp("2020-01-01")),
        "nullable frame": frame.convert_dtypes,
        "frame of objects": lambda: frame.astype(object),
        "csr": lambda: sparse.csr_matrix(X),
        "csc": lambda: sparse.csc_array(X),
        "coo": lambda: sparse.coo_matrix(X),
        "bsr": lambda: sparse.bsr_matrix(X),
        "dia": lambda: sparse.dia_matrix(X),
        "lil": lambda: sparse.lil_matrix(X),
        "dok": lambda: sparse.dok_matrix(X),
        "constant": lambda: np.zeros((N, 2)),
        "one column": lambda: X[:, :1].copy(),
        "no columns": lambda: X[:, :0],
        "matrix": lambda: np.asmatrix(X),
        "fortran": lambda: np.asfortranarray(X),
        "twins": lambda: np.c_[X, X],
        "dates": lambda: np.full((N, 2), np.datetime64("2020-01-01")),
        "texts": lambda: [f"word{i}" for i in range(N)],
        "dict": lambda: {"a": X[:, 0]},
        "few": lambda: X[:6].copy(),
        "leaky": lambda: np.c_[X, number],
    }
    if rng.random() < 0.6:
        name = list(forms)[rng.integers(len(forms))]
        return name, forms[name]()
    return array_like(rng, X.copy(), 1.0)


def targets(rng: RNG) -> tuple[str, Any]:
    """Targets in many forms."""
    _, label, number, _ = world()
    if rng.random() < 0.75:
        return ("labels", label.copy()) if rng.random() < 0.6 else ("numbers", number.copy())
    forms = {
        "strings": lambda: np.where(label, "yes", "no"),
        "objects": lambda: np.where(label, "yes", "no").astype(object),
        "three": lambda: np.digitize(number, [-0.5, 0.5]),
        "one class": lambda: np.zeros(N, dtype=int),
        "rare": lambda: (np.arange(N) == 3).astype(int),
        "few": lambda: (np.arange(N) % 20 == 3).astype(int),
        "by cluster": lambda: (np.arange(N) % K < 3).astype(int),
        "two outputs": lambda: np.c_[number, -number],
        "two labels": lambda: np.c_[label, 1 - label],
        "column": lambda: label[:, None],
        "bool": lambda: label > 0,
        "list of mixed": lambda: [1, "a"] * (N // 2),
        "sparse": lambda: sparse.csr_matrix(label[:, None]),
        "shuffled series": lambda: pd.Series(label, index=np.random.default_rng(0).permutation(N)),
        "category": lambda: pd.Series(np.where(label, "yes", "no")).astype("category"),
        "nullable": lambda: pd.Series(label).convert_dtypes(),
        "frame": lambda: pd.DataFrame({"y": label}),
        "huge numbers": lambda: number * 1e200,
        "large numbers": lambda: number * 1e60,
        "tiny numbers": lambda: number * 1e-200,
        "constant numbers": lambda: np.full(N, 0.1),
        "one outlier": lambda: np.where(np.arange(N) == 5, 1e30, number),
        "minus and plus": lambda: 2 * label - 1,
        "whole floats": lambda: label.astype(float),
    }
    if rng.random() < 0.7:
        name = list(forms)[rng.integers(len(forms))]
        return name, forms[name]()
    return array_like(rng, label.copy(), 1.0)


def clusters(rng: RNG) -> tuple[str, Any]:
    """Groups in many forms."""
    groups = world()[3]
    if rng.random() < 0.8:
        return "plain", groups.copy()
    forms = {
        "one": lambda: np.zeros(N, dtype=int),
        "two": lambda: np.arange(N) % 2,
        "own": lambda: np.arange(N),
        "pairs": lambda: np.arange(N) // 2,
        "giant": lambda: np.where(np.arange(N) < N - 8, 0, np.arange(N)),
        "strings": lambda: groups.astype(str),
        "mixed": lambda: np.array([1, "a", 2.5] * (N // 3), dtype=object),
        "tuples": lambda: [(int(g), "x") for g in groups],
        "floats": lambda: groups + 0.5,
        "series": lambda: pd.Series(groups, index=np.arange(N)[::-1]),
        "dates": lambda: np.datetime64("2020-01-01") + groups,
    }
    if rng.random() < 0.6:
        name = list(forms)[rng.integers(len(forms))]
        return name, forms[name]()
    return array_like(rng, groups.copy(), 1.0)


def _one_of(*makers: Any) -> Callable[[RNG], tuple[str, Any]]:
    def draw(rng: RNG) -> tuple[str, Any]:
        value = makers[rng.integers(len(makers))]
        value = value() if callable(value) and getattr(value, "__name__", "") == "<lambda>" else value
        shown = " ".join(str(value).split())
        return shown[:40], value

    return draw


def _nan_loss(y: Any, predicted: Any) -> Any:
    return np.full(len(y), np.nan)


def _bool_loss(y: Any, predicted: Any) -> Any:
    return np.asarray(y) != np.asarray(predicted)


def _scalar_loss(y: Any, predicted: Any) -> Any:
    return 1.0


def _failing_loss(y: Any, predicted: Any) -> Any:
    raise KeyError("in\nthe loss")


def _late_loss(y: Any, predicted: Any) -> Any:
    if len(y) > 5:
        raise ValueError("late\nerror")
    return np.zeros(len(y))


def _huge_loss(y: Any, predicted: Any) -> Any:
    return np.full(len(y), 1e100)


def _nan_score(model: Any, X: Any, y: Any) -> float:
    return float("nan")


def _text_score(model: Any, X: Any, y: Any) -> Any:
    return "good"


def _failing_score(model: Any, X: Any, y: Any) -> Any:
    raise RuntimeError("in\nthe score")


def _ratio(y: Any, predicted: Any) -> float:
    return float(np.mean(np.asarray(y) == np.asarray(predicted)))


def _bad_pairs() -> Any:
    yield np.arange(10), np.arange(10, 20)
    raise RuntimeError("in\nthe splitter")


class BadSplitter:
    """A splitter that fails."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:
        """Fail."""
        raise RuntimeError("no\nsplit")


LOSS = _one_of(
    None, "zero_one", "squared_error", "absolute_error", "log_loss", "brier", "nonsense", _nan_loss, _bool_loss,
    _scalar_loss, _failing_loss, _late_loss, _huge_loss, make_scorer(_ratio), "roc_auc",
)  # fmt: skip
SCORING = _one_of(
    "roc_auc", "accuracy", "f1", "r2", "neg_log_loss", "average_precision", "concordance", "sensitivity",
    "calibration_slope", "nonsense", ["roc_auc", "accuracy"], {"a": "accuracy", "b": "neg_brier_score"}, [],
    make_scorer(_ratio), _nan_score, _text_score, _failing_score, "neg_mean_squared_log_error", "max_error",
    "balanced_accuracy", "matthews_corrcoef", "neg_median_absolute_error", "d2_absolute_error_score",
)  # fmt: skip
CV = _one_of(
    None, 5, 2, 3, 1, 0, -3, 1.5, 500, "five", [], GroupKFold(3), KFold(3), GroupShuffleSplit(2, random_state=0),
    LeaveOneGroupOut(), GroupKFold, [([0], [1])], lambda: _bad_pairs(), BadSplitter(),
    lambda: [(np.flatnonzero(np.arange(N) % K < 10), np.flatnonzero(np.arange(N) % K >= 10))],
    lambda: [(np.arange(60), np.arange(60, 120))], lambda: [(np.arange(60),)], lambda: [([0, 1], ["a", "b"])],
    lambda: np.array(5), lambda: [([[0], [1, 2]], [3])],
)  # fmt: skip
LEAKAGE = _one_of(
    None, 0.1, 0.0, 0.3, 0.5, 0.7, 1.0, -0.1, "data", "x", True, [0.1], [0.1, 0.2], [0.05] * 5, ooc.Leakage(0.1),
    ooc.Leakage(0.1, 0.02), ooc.Leakage(0.1, of="validation"), [ooc.Leakage(0.1)] * 5, lambda: np.full(N, 0.1),
)  # fmt: skip
CURVES = _one_of(
    "auto", ooc.PolynomialCurve(1), ooc.PolynomialCurve(2), ooc.PolynomialCurve(7), ooc.PolynomialCurve(),
    ooc.CompletelyMonotoneCurve(), ooc.SketchCurve(), ooc.TrendFilterCurve(), ooc.LeastSquaresCurve(),
    ooc.AutoCurve(), ooc.BasisCurve([np.ones_like, np.square]), ooc.PolynomialCurve, "nonsense",
)  # fmt: skip

OPTIONS: dict[str, Callable[[RNG], tuple[str, Any]]] = {
    "leakage": LEAKAGE,
    "error_model": _one_of("auto", "records", "fragments", "nonsense"),
    "cv": CV,
    "loss": LOSS,
    "scoring": SCORING,
    "pool": _one_of(None, "records", "folds", "nonsense"),
    "pos_label": _one_of(None, 0, 1, "yes", "nonsense"),
    "score_weight": lambda rng: array_like(rng, rng.random(N), 0.3),
    "curve": CURVES,
    "n_fits": _one_of(60, 60, 120, 30, 0, -5, 1.5, 2, "many"),
    "n_train": _one_of(None, 10, 40, 2, 1, 0, -3, 10**4, 20.0, 1.5),
    "units": _one_of("auto", "clusters", "records", "nonsense"),
    "params": lambda rng: [
        ("None", None), ("{}", {}), ("3", 3), ("unknown", {"nonsense": 1}), ("weights", {"sample_weight": np.ones(N)}),
        ("short weights", {"sample_weight": np.ones(7)}), ("number", {1: 2}),
        ("masked", {"sample_weight": np.ma.masked_array(np.ones(N), np.arange(N) % 2)}),
        ("nan weights", {"sample_weight": np.full(N, np.nan)}),
    ][rng.integers(9)],
    "unmix": _one_of("auto", False, True, "nonsense", LogisticRegression(), Ridge(), BadClassifier("nan"),
                     BadClassifier("fit"), BadClassifier("short")),
    "confidence_level": _one_of(0.95, 0.5, 0, 1, 95, 0.999999, 1e-9),
    "mute": _one_of((), "p0-large", ["nonsense"], 3),
    "kernel": _one_of("auto", False, True, "nonsense"),
    "n_jobs": _one_of(None, 1, 0, 1.5, "two"),
    "random_state": _one_of(0, 7, -1, 1.5, "seed", 2**70, None),
}  # fmt: skip
TEST_OPTIONS = {name: OPTIONS[name] for name in ("cv", "loss", "scoring", "pos_label", "params", "n_jobs")} | {
    "method": _one_of("paired", "welch", "nonsense"),
    "alpha": _one_of(0.05, 0, 1, 1e-12, 0.999, 5),
    "random_state": OPTIONS["random_state"],
}
SAMPLE_OPTIONS = {
    name: OPTIONS[name] for name in ("loss", "scoring", "params", "kernel", "n_train", "n_jobs", "random_state")
} | {
    "error_model": _one_of("records", "fragments", "second-fragments", "nonsense"),
    "injected": lambda rng: (
        array_like(rng, np.array([0.0, 0.3, 0.6]), 0.5)
        if rng.random() < 0.7
        else _one_of([-0.05, 0, 0.2], [-9.0, 0.0], [0.0, 0.0], [2.0], [0.5], [-0.2, -0.1])(rng)
    ),
    "discriminator": _one_of("auto", LogisticRegression(), Ridge(), "nonsense"),
    "largest": _one_of(None, 0.5, 1.0, 0.0, 2.0, -1),
    "replace": _one_of(True, False, "yes"),
    "units": _one_of("auto", "clusters", "records", "both", "none", "nonsense"),
    "standard_error": _one_of(None, 0.1, 0.0, -1, 1e9),
    "groups": clusters,
}


def _chosen(rng: RNG, options: dict[str, Any], share: float, odd_share: float = 0.04) -> tuple[dict, dict]:
    """Some of the options, a few of them with odd values."""
    values, forms = dict[str, Any](), dict[str, str]()
    for name, draw in options.items():
        if rng.random() < share:
            forms[name], values[name] = odd(rng) if rng.random() < odd_share else draw(rng)
    return values, forms


def _case(rng: RNG, name: str, function: Callable[..., Any], drawn: dict[str, Any], options: Any, share: float) -> Case:
    """A call with all arguments of ``drawn``, and some of the options."""
    values, forms = _chosen(rng, options, share)
    forms = {key: form for key, (form, _) in drawn.items()} | forms
    arguments = {key: value for key, (_, value) in drawn.items()} | values
    return Case(name, lambda: function(**arguments), arguments, forms)


# --- the calls -----------------------------------------------------------------------------------------


def audit_case(rng: RNG) -> Case:
    """An audit with few fits, and what can be asked of it."""
    drawn = {"estimator": estimator(rng), "X": records(rng), "y": targets(rng), "groups": clusters(rng)}
    options = OPTIONS | {"n_fits": OPTIONS["n_fits"]}
    case = _case(rng, "audit", ooc.audit, drawn, options, 0.08)
    case.arguments.setdefault("n_fits", 60)
    case.arguments.setdefault("random_state", 0)
    if rng.random() < 0.5:
        case.arguments.setdefault("leakage", 0.1)
    if rng.random() < 0.1:
        case.arguments["checkpoint"], case.files = "run", ("run.*",)
    elif rng.random() < 0.03:
        case.forms["checkpoint"], case.arguments["checkpoint"] = odd(rng)
        case.files = ("*",)
    arguments = case.arguments
    case.call = lambda: ooc.audit(**arguments)
    return case


def compare_case(rng: RNG) -> Case:
    """A comparison of two models."""
    case = audit_case(rng)
    name, first = case.forms["estimator"], case.arguments.pop("estimator")
    other, second = estimator(rng)
    case.forms |= {"estimator": f"{name} and {other}"}
    case.name = "compare"
    models: Any = {"a": first, "b\nc" if rng.random() < 0.1 else "b": second}
    if rng.random() < 0.05:
        case.forms["estimators"], models = odd(rng)
    case.arguments["estimators"] = models
    arguments = case.arguments
    case.call = lambda: ooc.compare(**arguments)
    return case


def effect_case(rng: RNG) -> Case:
    """A test for a cluster effect."""
    drawn = {"estimator": estimator(rng), "X": records(rng), "y": targets(rng), "groups": clusters(rng)}
    return _case(rng, "leakage_test", ooc.leakage_test, drawn, TEST_OPTIONS, 0.15)


def samples_case(rng: RNG) -> Case:
    """Samples of losses, few fits."""
    groups = world()[3]
    drawn = {
        "estimator": estimator(rng),
        "X": records(rng),
        "y": targets(rng),
        "train": array_like(rng, np.flatnonzero(groups < 11), 0.1),
        "validation": array_like(rng, np.flatnonzero(groups >= 11), 0.1),
        "n_fits": _one_of(24, 24, 24, 12, 3, 0, 1.5)(rng),
    }
    case = _case(rng, "sample_losses", ooc.sample_losses, drawn, SAMPLE_OPTIONS, 0.15)
    arguments = case.arguments

    def call() -> Any:
        samples = ooc.sample_losses(**arguments)
        path = "samples.ooc"
        samples.save(path)
        return samples, ooc.LossSamples.load(path), samples.to_frame(), samples.merge(samples) if False else None

    case.call, case.files = call, ("samples.ooc",)
    return case


@functools.cache
def finished() -> dict[str, Any]:
    """Audits and samples to ask things of."""
    X, label, number, groups = world()
    quiet: dict[str, Any] = {"groups": groups, "n_fits": 120, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "records": ooc.audit(LogisticRegression(), X, label, leakage=0.1, error_model="records", **quiet),
            "no rate": ooc.audit(Ridge(), X, number, error_model="records", **quiet),
            "fragments": ooc.audit(Ridge(), X, number, leakage=0.2, error_model="fragments", **quiet),
            "auc": ooc.audit(LogisticRegression(), X, label, leakage=0.1, scoring=["roc_auc", "accuracy"], **quiet),
            "comparison": ooc.compare({"a": LogisticRegression(), "b": GaussianNB()}, X, label, leakage=0.1, **quiet),
            "samples": ooc.sample_losses(
                Ridge(), X, number, train=np.flatnonzero(groups < 11), validation=np.flatnonzero(groups >= 11),
                n_fits=60, random_state=0,
            ),
        }  # fmt: skip


def result_case(rng: RNG) -> Case:
    """A method of a result."""
    everything = finished()
    key = ("records", "no rate", "fragments", "auc", "comparison")[rng.integers(5)]
    result = everything[key]
    rate = LEAKAGE if rng.random() < 0.7 else odd
    curve = CURVES if rng.random() < 0.8 else odd
    rates = array_like(rng, np.linspace(0, 0.4, 5), 0.6)
    level = _one_of(0.5, 0.9, 0, 1, -1, 95, float("nan"))(rng) if rng.random() < 0.6 else odd(rng)
    units = _one_of("auto", "records", "clusters", "none")(rng) if rng.random() < 0.7 else odd(rng)
    path: tuple[str, Any] = ("result.ooc", "result.ooc") if rng.random() < 0.6 else odd(rng)
    if key == "comparison":
        pair = [_one_of("a", "b", "c", "", 3)(rng) for _ in range(2)]
        methods: dict[str, tuple[tuple[str, Any], ...]] = {
            "difference": tuple(pair),
            "tipping_point": tuple(pair),
            "to_json": (),
            "to_frame": (),
            "__str__": (),
            "_repr_html_": (),
        }
    else:
        methods = {
            "at_leakage": (rate(rng),),
            "with_curve": (curve(rng),),
            "with_units": (units,),
            "with_confidence": (level,),
            "sensitivity": (rates,),
            "tipping_point": (level,),
            "value_at": (level,),
            "save": (path,),
            "write_html": (path,),
            "merge": (("itself", result) if rng.random() < 0.5 else odd(rng),),
            "to_json": (),
            "to_frame": (),
            "suspects": (),
            "__str__": (),
            "_repr_html_": (),
        }
    method = list(methods)[rng.integers(len(methods))]
    given = methods[method]
    arguments = {f"{i}": value for i, (_, value) in enumerate(given)}
    case = Case(f"{key}.{method}", lambda: getattr(result, method)(*arguments.values()), arguments)
    case.forms = {f"{i}": form for i, (form, _) in enumerate(given)}
    named = arguments.get("0") if method in ("save", "write_html") else None
    case.files = (str(named),) if isinstance(named, str | os.PathLike) else ()
    return case


def load_case(rng: RNG) -> Case:
    """A file that was damaged, or is another one."""
    key = ("records", "fragments", "samples")[rng.integers(3)]
    result = finished()[key]
    readers: tuple[Any, ...] = (ooc.Audit.load, ooc.LossSamples.load)
    reader = readers[int(key == "samples")] if rng.random() < 0.8 else readers[rng.integers(2)]
    kind = ("whole", "cut", "flipped", "empty", "text", "absent", "odd")[rng.integers(7)]
    if kind == "odd":
        form, path = odd(rng)
        return Case("load", lambda: reader(path), {}, {"path": form})
    with tempfile.TemporaryDirectory() as folder:
        result.save(Path(folder) / "file")
        content = bytearray((Path(folder) / "file").read_bytes())
    if kind == "cut":
        content = content[: rng.integers(len(content))]
    elif kind == "flipped":
        content[rng.integers(len(content))] ^= 1 << int(rng.integers(8))
    elif kind == "empty":
        content = bytearray()
    elif kind == "text":
        content = bytearray(b"some\ntext")
    if kind != "absent":
        Path("stored.ooc").write_bytes(content)
    return Case("load", lambda: reader("stored.ooc"), {}, {"file": f"{key}, {kind}"}, ("stored.ooc",))


def _plain_case(rng: RNG) -> Case:
    """Plain data that were altered, read back."""
    result = finished()["records"]
    data = result.to_dict() if rng.random() < 0.7 else result.test.to_dict()
    reader = ooc.Summary.from_dict if rng.random() < 0.7 else ooc.LeakageTest.from_dict
    path = []
    inside: Any = data
    for _ in range(int(rng.integers(1, 4))):
        keys = (
            list(inside) if isinstance(inside, dict) else list(range(len(inside))) if isinstance(inside, list) else []
        )
        if not keys:
            break
        key = keys[rng.integers(len(keys))]
        path.append(str(key))
        if isinstance(inside[key], dict | list) and inside[key] and rng.random() < 0.8:
            inside = inside[key]
            continue
        form, inside[key] = odd(rng)
        path.append(form)
        break
    return Case("from_dict", lambda: reader(data), {}, {"altered": "/".join(path)})


# --- curves --------------------------------------------------------------------------------------------


def _size(rng: RNG) -> tuple[str, Any]:
    if rng.random() < 0.12:
        return odd(rng)
    return _one_of(
        100, 100, 20, 7, 1, 2, 1000, 10**4, 10**5, 10**6, 10**9, 10**12, 10**15, 2**53, 10**18, 2**62, 100.0
    )(rng)


def _points(rng: RNG) -> tuple[Any, Any]:
    m = int(rng.integers(1, 12))
    kind = rng.integers(8)
    if kind == 0:
        p = np.sort(rng.random(m))
    elif kind == 1:
        p = 0.1 + 1e-6 * np.arange(m)
    elif kind == 2:
        p = 0.5 + 1e-13 * np.arange(m)
    elif kind == 3:
        p = np.r_[0.0, np.sort(rng.random(m))]
    elif kind == 4:
        p = 10.0 ** -np.arange(m)
    elif kind == 5:
        p = 1 - 1e-9 * np.arange(m)
    else:
        p = np.linspace(0.1, 1, m)
    forms = (
        0.2 + 0.2 * (1 - p) ** 3, 0.4 + 0 * p, rng.random(len(p)), -0.2 + p, 1e9 * (1 - p), 1e-12 * (2 - p), 0 * p,
        1e65 * (2 - p), 1e200 * (2 - p), 1e-300 * (2 - p), np.where(p > 0.5, 1.0, 0.0),
    )  # fmt: skip
    return p, forms[rng.integers(len(forms))]


def _curve(rng: RNG) -> tuple[str, Any]:
    def share(*values: Any) -> Any:
        if rng.random() < 0.08:
            return odd(rng)[1]
        return values[rng.integers(len(values))]

    kinds: dict[str, Callable[[], Any]] = {
        "AutoCurve": lambda: ooc.AutoCurve() if rng.random() < 0.6 else ooc.AutoCurve(share(1.0, 0.3, 0.0, -1.0, 1e9)),
        "PolynomialCurve": lambda: ooc.PolynomialCurve(share(0, 1, 2, 3, 7, 20, -1, 1.5, 10**6)),
        "CompletelyMonotoneCurve": lambda: ooc.CompletelyMonotoneCurve(share(4.0, 1.0, 1.5, 100.0, 0.5, 1e300)),
        "LeastSquaresCurve": ooc.LeastSquaresCurve,
        "SketchCurve": lambda: ooc.SketchCurve(
            n_groups=share(7, 1, 2, 3, 50, 10**7, 0), penalty=share(0.1, 0.0, 10.0, 1e-9, 1e9, -1.0),
            monotone=share(True, False), first_alone=share(True, False),
        ),
        "TrendFilterCurve": lambda: ooc.TrendFilterCurve(
            order=share(2, 3, 4, 1), penalty=share(None, 0.0, 0.1, 1e-8, 1e8, -1.0), monotone=share(True, False),
            nonnegative=share(True, False), convex=share(True, False), scale=share("p", "index"),
            n_pieces=share(128, 8, 2, 1, 10**6),
        ),
        "BasisCurve": lambda: ooc.BasisCurve(
            share(
                [np.ones_like], [np.ones_like, np.sqrt], [np.ones_like, np.log], [lambda x: x / 0], [], [3],
                [np.ones_like, lambda x: 1.0], [np.ones_like, lambda x: x[:1]], [_raises],
                [np.ones_like, np.square, np.square],
            )
        ),
    }  # fmt: skip
    name = list(kinds)[rng.integers(len(kinds))]
    return name, kinds[name]()


def _raises(x: Any) -> Any:
    raise RuntimeError("in\nthe basis")


def curve_case(rng: RNG) -> Case:
    """A curve fitted to points, and all that can be asked of it."""
    name, curve = _curve(rng)
    p, b = _points(rng)
    arguments: dict[str, Any] = {}
    forms = {"curve": " ".join(repr(curve).split())[:150] if _can_repr(curve) else name}
    forms["p"], arguments["p"] = array_like(rng, p, 0.1)
    forms["b"], arguments["b"] = array_like(rng, b, 0.1)
    forms["n"], arguments["n"] = _size(rng)
    if rng.random() < 0.08:
        sizes = rng.choice([5, 10, 20, 40, 80], size=len(p))
        forms["n"], arguments["n"] = "sizes", sizes if rng.random() < 0.5 else sizes.tolist()
    if rng.random() < 0.08:
        forms["n"], arguments["n"] = "growing sizes", np.arange(1, len(p) + 1) * 10
    if rng.random() < 0.2:
        forms["weights"], arguments["weights"] = array_like(rng, rng.random(len(p)) + 0.1, 0.3)
    if rng.random() < 0.3:
        errors = rng.choice([0.0, 1e-12, 1e-3, 0.1, 1e12]) * np.ones(len(p))
        forms["standard_errors"], arguments["standard_errors"] = array_like(rng, errors, 0.3)
    ask_form, asked = ("0 and n", None) if rng.random() < 0.7 else odd(rng)
    forms["j"] = ask_form

    def call() -> Any:
        curve.fit_points(**arguments)
        numbers = [curve.e0_, curve.optimism_, *np.ravel(curve.residual_), *np.ravel(curve.values([0, curve.n_]))]
        if asked is not None:
            numbers.append(np.ravel(curve.values(asked)))
        if curve.n_ <= 50:
            numbers.append(curve.to_bezier().degree)
        numbers += [curve.influence_, curve.derivative_, curve.optimism_derivative_]
        if rng.random() < 0.3:
            str(ooc.diagnose_curve(curve, arguments.get("standard_errors")))
        return numbers

    return Case("fit_points", call, arguments, forms)


def _can_repr(value: Any) -> bool:
    try:
        repr(value)
    except Exception:
        return False
    return True


def fitted_case(rng: RNG) -> Case:
    """A curve fitted to samples."""
    name, curve = _curve(rng)
    samples = finished()["samples"]
    form, given = ("samples", samples) if rng.random() < 0.7 else ("list", [samples])
    if rng.random() < 0.15:
        form, given = odd(rng)
    rate_form, rate = LEAKAGE(rng) if rng.random() < 0.6 else odd(rng)
    forms = {"curve": name, "samples": form, "leakage": rate_form}

    def call() -> Any:
        fitted = curve.fit(given, rate)
        return fitted.e0_, fitted.values(0), fitted.optimism_

    return Case("fit", call, {}, forms)


def operator_case(rng: RNG) -> Case:
    """The binomial operator."""
    p, _ = _points(rng)
    form_p, p = array_like(rng, p, 0.15)
    form_n, n = _size(rng)
    methods = ("matrix", "sparse_matrix", "columns", "apply", "expect", "range_sums", "geometric", "lattice")
    method = methods[rng.integers(len(methods))]
    form, value = array_like(rng, rng.random(4), 0.5)
    if method in ("columns", "range_sums"):
        form, value = array_like(rng, np.array([0, 1, 3]), 0.5)
    if method == "expect":
        value = (np.square, np.sqrt, lambda x: x / 0, lambda x: "x", _raises, lambda x: x[:1])[rng.integers(6)]
        form = "function"
    if method == "apply" and rng.random() < 0.6 and isinstance(n, int) and 0 < n < 10**6:
        form, value = array_like(rng, rng.random(n + 1), 0.3)
    arguments = {"p": p, "n": n, "value": value}

    def call() -> Any:
        operator = ooc.BinomialOperator(p, n)
        if method == "sparse_matrix":
            return operator.sparse_matrix().data if callable(operator.sparse_matrix) else operator.sparse_matrix.data
        function = getattr(operator, method)
        if method in ("matrix", "lattice"):
            return function() if callable(function) else function
        return function(value)

    return Case(f"BinomialOperator.{method}", call, arguments, {"p": form_p, "n": form_n, "value": form})


def diagnose_case(rng: RNG) -> Case:
    """The shape of points."""
    p, b = _points(rng)
    drawn = {"p": array_like(rng, p, 0.15), "b": array_like(rng, b, 0.15)}
    options = {
        "standard_errors": lambda rng: array_like(rng, np.full(len(p), 0.01), 0.3),
        "alpha": _one_of(0.05, 0, 1, 0.999, -1),
    }
    return _case(rng, "diagnose_points", lambda **arguments: str(ooc.diagnose_points(**arguments)), drawn, options, 0.5)


# --- leakage -------------------------------------------------------------------------------------------

_NUMBER = _one_of(0.1, 0.0, 1.0, 0.5, 0.01, 2.0, -0.1, 1e-300, 0.999999)
_SIDE = _one_of(None, "train", "validation", "both")


def rate_case(rng: RNG) -> Case:
    """A rate, and what can be asked of it."""
    drawn = {"rate": _NUMBER(rng) if rng.random() < 0.7 else odd(rng)}
    options = {
        "std": _one_of(None, 0.01, 0.0, 1.0, 1e9, -1),
        "of": _one_of("train", "validation", "test"),
        "bound": _one_of(None, 0.2, 0.0, 2.0),
        "at_least": _one_of(True, False),
        "other": _one_of(None, ooc.Leakage(0.2, of="validation"), 3),
    }
    level = _one_of(0.95, 0.5, 0, 1, 2, float("nan"))(rng)[1] if rng.random() < 0.7 else odd(rng)[1]

    def call(**arguments: Any) -> Any:
        leakage = ooc.Leakage(**arguments)
        assert _can_repr(leakage)
        return leakage, str(leakage), leakage.interval(level), ooc.Leakage.from_dict(leakage.to_dict())

    return _case(rng, "Leakage", call, drawn, options, 0.3)


def true_groups_case(rng: RNG) -> Case:
    """A rate from audited records."""
    _, _, _, groups = world()
    linked = np.where(rng.random(N) < 0.1, groups + 100, groups)
    drawn = {"true_groups": array_like(rng, groups.copy(), 0.2), "groups": array_like(rng, linked, 0.2)}
    options = {
        "cv": CV,
        "of": _SIDE,
        "drawn": _one_of("entities", "records", "clusters", "all"),
        "sampled": lambda rng: array_like(rng, rng.random(N) < 0.3, 0.3),
    }
    return _case(rng, "from_true_groups", ooc.Leakage.from_true_groups, drawn, options, 0.3)


def pairs_case(rng: RNG) -> Case:
    """A rate from pairs, by any of the tools."""
    _, _, _, groups = world()
    m = 60
    left, right = rng.integers(N, size=m), rng.integers(N, size=m)
    probability = rng.random(m)
    options = {
        "cv": CV,
        "of": _SIDE,
        "blocking_recall": _one_of(None, 1, 0.9, (0.9, 0.05), 0, 2, (0.9,), "x", (0.9, -1), "reviewed"),
        "reviewed": _one_of(
            *(None, {0: True}, {10**6: True}, {0: "yes"}, [True] * m, [None] * m, {}, "x"),
            *({(0, 1): True}, {(0, 0): True}, {(0, "x"): False}, {(0, (1,)): True}, {(0, 1, 2): True}),
            {pair: True for pair in zip(left.tolist(), right.tolist(), strict=True)},
            pd.DataFrame({"left": left, "right": right, "match": True}),
            pd.DataFrame({"left": left, "match": None}),
            pd.Series(True, index=pd.MultiIndex.from_arrays([left, right])),
        ),
    }
    kind = ("pairs", "splink", "recordlinkage", "dedupe")[rng.integers(4)]
    ids = np.arange(N)
    if kind == "pairs":
        drawn = {
            "left": array_like(rng, left, 0.15),
            "right": array_like(rng, right, 0.15),
            "probability": array_like(rng, probability, 0.15),
            "groups": array_like(rng, groups.copy(), 0.15),
        }
        more = options | {"ids": lambda rng: array_like(rng, ids, 0.3)}
        return _case(rng, "from_pair_probabilities", ooc.Leakage.from_pair_probabilities, drawn, more, 0.2)
    if kind == "splink":
        columns = {"unique_id_l": left, "unique_id_r": right, "match_probability": probability}
        found: Any = pd.DataFrame({"unique_id": ids, "cluster_id": groups})
        if rng.random() < 0.3:
            name = list(columns)[rng.integers(3)]
            form, values = array_like(rng, columns[name], 1.0)
            try:
                columns[name] = values
                predictions: Any = pd.DataFrame(columns)
            except Exception:
                form, predictions = "without a column", pd.DataFrame({"unique_id_l": left})
        else:
            form, predictions = "plain", pd.DataFrame(columns)
        form_found = "plain"
        if rng.random() < 0.2:
            choices = {
                "twice": lambda: pd.concat([found, found]),
                "some": lambda: found[:5],
                "missing": lambda: found.assign(cluster_id=np.nan),
                "unnamed": lambda: found.rename(columns={"cluster_id": "x"}),
            }
            form_found = list(choices)[rng.integers(4)]
            found = choices[form_found]()
        drawn = {"predictions": (form, predictions), "clusters": (form_found, found), "ids": array_like(rng, ids, 0.15)}
        more = options | {"blocking_rules": _one_of(None, ["a", "b"], "x", 3, [("a", "b")])}
        return _case(rng, "from_splink", ooc.Leakage.from_splink, drawn, more, 0.2)
    if kind == "recordlinkage":
        index = pd.MultiIndex.from_arrays([left, right])
        scores = pd.Series(probability, index=index if rng.random() < 0.85 else None)
        drawn = {
            "probabilities": ("plain", scores) if rng.random() < 0.85 else odd(rng),
            "ids": array_like(rng, ids, 0.15),
        }
        more = options | {
            "threshold": _one_of(0.9, 0.5, 0, 1, 2, "x"),
            "clusters": lambda rng: array_like(rng, groups.copy(), 0.4),
        }
        return _case(rng, "from_recordlinkage", ooc.Leakage.from_recordlinkage, drawn, more, 0.4)
    scores = np.array(
        [((int(a), int(b)), q) for a, b, q in zip(left, right, probability, strict=True)],
        dtype=[("pairs", "i8", 2), ("score", "f4")],
    )
    found = [(tuple(np.flatnonzero(groups == g).tolist()), (0.9,) * 8) for g in range(K)]
    drawn = {
        "scores": ("plain", scores) if rng.random() < 0.8 else odd(rng),
        "clusters": ("plain", found) if rng.random() < 0.8 else odd(rng),
        "ids": array_like(rng, ids, 0.15),
    }
    return _case(rng, "from_dedupe", ooc.Leakage.from_dedupe, drawn, options, 0.2)


def precision_case(rng: RNG) -> Case:
    """A rate from precision and recall."""
    names = ("precision", "recall", "validation_share")
    drawn = {name: _NUMBER(rng) if rng.random() < 0.85 else odd(rng) for name in names}
    options = {
        "groups": clusters,
        "n_links": _one_of(5000, 0, -1, 1e300, 1.5),
        "n_records": _one_of(4000, 0, 1, 10**18),
        "mates": _one_of(1, 3.5, 0, -1, 1e300),
        "of": _SIDE,
        "precision_std": _one_of(None, 0.1, 0, 10),
        "recall_std": _one_of(None, 0.1, 0, 10),
    }
    return _case(rng, "from_precision_recall", ooc.Leakage.from_precision_recall, drawn, options, 0.5)


def data_case(rng: RNG) -> Case:
    """A rate from the records themselves."""
    drawn = {"X": records(rng), "y": targets(rng), "groups": clusters(rng)}
    options = {
        "cv": CV,
        "error_model": OPTIONS["error_model"],
        "discriminator": OPTIONS["unmix"],
        "random_state": OPTIONS["random_state"],
    }
    return _case(rng, "from_data", ooc.Leakage.from_data, drawn, options, 0.2)


def review_case(rng: RNG) -> Case:
    """A rate from reviewed suspects."""
    suspects: Any = {"record": np.arange(50), "probability": 0.9 * 0.9 ** np.arange(50)}
    if rng.random() < 0.4:
        name = list(suspects)[rng.integers(2)]
        suspects[name] = array_like(rng, suspects[name], 1.0)[1]
    form = "plain"
    if rng.random() < 0.15:
        form, suspects = odd(rng)
    reviews = {
        "some": lambda: {i: i % 3 == 0 for i in range(20)},
        "none": dict,
        "all leaked": lambda: {i: True for i in range(50)},
        "unknown": lambda: {999: True},
        "words": lambda: {0: "yes"},
        "frame": lambda: pd.DataFrame({"record": np.arange(20), "leaked": np.arange(20) % 3 == 0}),
        "gaps": lambda: pd.DataFrame({"record": np.arange(20), "leaked": [None, True] * 10}),
        "empty frame": pd.DataFrame,
    }
    key = list(reviews)[rng.integers(len(reviews))]
    reviewed = (key, reviews[key]()) if rng.random() < 0.85 else odd(rng)
    drawn = {"suspects": (form, suspects), "reviewed": reviewed}
    options = {"n_train": _one_of(None, 100, 10, 0, -1, 1.5), "drawn": _one_of("suspicious", "random", "x")}
    return _case(rng, "from_review", ooc.Leakage.from_review, drawn, options, 0.4)


def recapture_case(rng: RNG) -> Case:
    """The recall of blocking."""
    rules = rng.random((50, 3)) < 0.5
    rules[~rules.any(axis=1), 0] = True
    drawn = {"rules": array_like(rng, rules, 0.4)}
    options = {"probability": lambda rng: array_like(rng, rng.random(50), 0.4)}
    return _case(rng, "capture_recapture", ooc.capture_recapture, drawn, options, 0.5)


# --- simulation ----------------------------------------------------------------------------------------


def simulate_case(rng: RNG) -> Case:
    """Errors of a clustering on purpose."""
    groups = world()[3]
    drawn = {
        "groups": clusters(rng),
        "validation_groups": array_like(rng, np.unique(groups)[:4], 0.2),
        "rate": _NUMBER(rng) if rng.random() < 0.85 else odd(rng),
    }
    options = {
        "of": _one_of("train", "validation", "moved", "x"),
        "direction": _one_of("to_train", "to_validation", "x"),
        "unit": _one_of("records", "fragments", "x"),
        "random_state": OPTIONS["random_state"],
    }
    return _case(rng, "simulate_leakage", ooc.simulate_leakage, drawn, options, 0.4)


def dataset_case(rng: RNG) -> Case:
    """Simulated data."""
    pairs = _one_of((1.0, 2.0), (1.0,), (float("nan"), 1.0), (-1.0, 0.0), "ab", (1e200, 1e200), (0.0, 0.0))
    count = _one_of(15, 3, 1, 0, -1, 1.5, 200)
    if rng.random() < 0.4:
        options = {
            "n_train": count,
            "n_validation": count,
            "slopes": pairs,
            "half_widths": pairs,
            "noise": _NUMBER,
            "random_state": OPTIONS["random_state"],
        }
        return _case(rng, "make_partition", ooc.datasets.make_partition, {}, options, 0.4)
    if rng.random() < 0.4:
        options = {"n": count, "slopes": pairs, "half_widths": pairs, "noise": _NUMBER}
        return _case(rng, "partition_losses", ooc.datasets.partition_losses, {}, options, 0.4)
    options = {
        "n_patients": count,
        "n_records": _one_of(4, 1, 0, (2, 5), (5, 2), (1,), "x", 2.5),
        "n_features": _one_of(6, 1, 0, -1),
        "split_share": _NUMBER,
        "target": _one_of("classification", "regression", "x"),
        "signal": _NUMBER,
        "record_noise": _one_of(0.25, 0, -1, 1e300, float("nan")),
        "random_state": OPTIONS["random_state"],
    }
    return _case(rng, "make_patients", ooc.datasets.make_patients, {}, options, 0.3)


KINDS: dict[Callable[[RNG], Case], float] = {
    audit_case: 12,
    compare_case: 4,
    effect_case: 6,
    samples_case: 8,
    result_case: 8,
    load_case: 2,
    _plain_case: 3,
    curve_case: 25,
    fitted_case: 3,
    operator_case: 8,
    diagnose_case: 3,
    rate_case: 3,
    true_groups_case: 3,
    pairs_case: 6,
    precision_case: 2,
    data_case: 2,
    review_case: 2,
    recapture_case: 1,
    simulate_case: 3,
    dataset_case: 3,
}
"""How often each kind of call is made."""


def draw_case(rng: RNG) -> Case:
    """A call at random."""
    weights = np.array(list(KINDS.values()), dtype=float)
    return list(KINDS)[int(rng.choice(len(weights), p=weights / weights.sum()))](rng)
