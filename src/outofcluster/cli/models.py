"""Models and metrics by name, the user's own model by its place, and names that were probably meant."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError

MODELS = ("linear-svm", "logistic", "ridge", "forest", "boosting")
# Those of them that take long to fit, and that need no scaling.
SLOW = ("forest", "boosting")
# Those of them that take features with infinite values.
TAKE_INFINITE = ("boosting",)
_FOR_CLASSES = ("linear-svm", "logistic")
_OF_CLASSES = {"zero_one", "log_loss", "brier", "accuracy", "roc_auc", "average_precision", "neg_brier_score"}
_OF_CLASSES |= {"neg_log_loss", "balanced_accuracy", "f1", "precision", "recall", "matthews_corrcoef", "jaccard"}
_OF_CLASSES |= {"sensitivity", "specificity", "calibration_slope", "calibration_intercept"}
_OF_NUMBERS = {"squared_error", "absolute_error", "r2", "neg_mean_squared_error", "neg_mean_absolute_error"}
_OF_NUMBERS |= {"neg_root_mean_squared_error", "neg_median_absolute_error", "explained_variance"}

# What people call models and commands that have another name here.
_OTHER_NAMES = {
    "logistic": ("logreg", "logistic_regression"),
    "forest": ("rf", "random_forest", "randomforest"),
    "boosting": ("gbm", "xgboost", "gradient_boosting"),
    "linear-svm": ("svm", "linear_svm", "linear_svc"),
    "test": ("check",),
    "audit": ("correct", "run"),
    "leakage": ("rate",),
}


def suggest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence about a name that is not known: the one that was probably meant, or a full stop."""
    known, plain = list(names), name.lower().replace(" ", "_")
    near = [other for other in known if plain in _OTHER_NAMES.get(other, ())]
    near = near or difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {near[0]!r}?" if near else "."


@dataclass(frozen=True)
class Wanted:
    """What a target must hold, and the option that says so.

    Attributes
    ----------
    classes : bool or None
        Whether it is taken as classes; None if only the target itself can tell.
    option, value : str
        The option, such as "--scoring", and its value; empty where there is none.
    numbers : bool
        Whether a target of numbers is never taken for classes.
    """

    classes: bool | None = None
    option: str = ""
    value: str = ""
    numbers: bool = False

    def refusal(self, kind: str) -> InputError:
        """The error for a target of another kind."""
        return InputError(f"{self.option} must suit the target, got {self.value!r}, which takes {kind}.")


def wanted_target(model: str | None, estimator: Any, metrics: Sequence[tuple[str, str]], task: str | None) -> Wanted:
    """Whether a task, a model or what is measured takes the target as classes or as numbers.

    ``estimator`` is the user's own model, and ``metrics`` are names with the options that they come from.
    """
    if task is not None:
        return Wanted(task == "classification", "--task", task)
    if estimator is not None:
        from sklearn.base import is_classifier, is_regressor

        if is_classifier(estimator) or is_regressor(estimator):
            return Wanted(bool(is_classifier(estimator)), "--model", str(model))
    if model in _FOR_CLASSES:
        return Wanted(True, "--model", str(model))
    for classes, known in ((True, _OF_CLASSES), (False, _OF_NUMBERS)):
        for option, name in metrics:
            if name in known:
                return Wanted(classes, option, name)
    return Wanted(numbers=model == "ridge")


def make_model(name: str | None, X: Any, *, classes: bool) -> Any:
    """One of the named models, with imputation if the records need it and with scaling if the model needs it."""
    from sklearn import ensemble, impute, linear_model, pipeline, preprocessing, svm

    chosen = name or ("logistic" if classes else "ridge")
    if chosen in _FOR_CLASSES and not classes:
        others = "ridge, forest, boosting or your own"
        raise InputError(f"--model must be {others} for a target of numbers, got {chosen!r}.")
    of_classes, of_numbers = {
        "forest": (ensemble.RandomForestClassifier(), ensemble.RandomForestRegressor()),
        "boosting": (ensemble.HistGradientBoostingClassifier(), ensemble.HistGradientBoostingRegressor()),
        "ridge": (linear_model.RidgeClassifier(), linear_model.Ridge()),
        "logistic": (linear_model.LogisticRegression(max_iter=1000), None),
        "linear-svm": (svm.LinearSVC(), None),
    }[chosen]
    model = of_classes if classes else of_numbers
    if chosen in SLOW:
        return model
    # Without gaps nothing has to be imputed, and then the loop over resamples is compiled.
    gaps = [impute.SimpleImputer(keep_empty_features=True)] if np.isnan(X).any() else []
    return pipeline.make_pipeline(*gaps, preprocessing.StandardScaler(), model)


@contextmanager
def _naming(must: str, place: str) -> Iterator[None]:
    """Refuse what the user's own code fails at, with its reason."""
    try:
        yield
    except Exception as error:
        raise InputError(f"{must}, got {place!r}: {' '.join(str(error).split()) or type(error).__name__}.") from None


def load_model(place: str) -> Any:
    """The estimator at ``module:object``; a class or a function is called without arguments to make it."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        parent, _, last = place.rpartition(".")
        hint = suggest(place, MODELS) if not parent or colon else f"; did you mean '{parent}:{last}'?"
        raise InputError(f"--model must be one of {', '.join(MODELS)}, or module:object, got {place!r}{hint}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    with _naming("--model must name a module that imports", place):
        model: Any = importlib.import_module(module)
    try:
        for part in name.split("."):
            model = getattr(model, part)
    except AttributeError:
        near = difflib.get_close_matches(name, dir(model), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"--model must name something in {module!r}, got {name!r}, which is not there{hint}") from None
    if isinstance(model, type) or not hasattr(model, "fit"):
        with _naming("--model must be an estimator, or make one without arguments", place):
            model = model()
    if not hasattr(model, "fit") or not hasattr(model, "predict"):
        raise InputError(f"--model must be an estimator with fit and predict, got {place!r}, a {type(model).__name__}.")
    return model
