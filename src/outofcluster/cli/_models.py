"""Models by name or by the place of the user's own model, and losses and metrics by name."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster.cli._suggest import nearest
from outofcluster.metrics.facts import LOSSES, known_facts, known_names

MODELS = ("linear-svm", "logistic", "ridge", "forest", "boosting")
TAKE_INFINITE = ("boosting",)
"""Those of them that take features with infinite values."""
_FOR_CLASSES = ("linear-svm", "logistic")
_OF_CLASSES = {"zero_one", "log_loss", "brier", "accuracy", "roc_auc", "average_precision", "neg_brier_score"}
_OF_CLASSES |= {"neg_log_loss", "balanced_accuracy", "f1", "precision", "recall", "matthews_corrcoef", "jaccard"}
_OF_CLASSES |= {"sensitivity", "specificity", "calibration_slope", "calibration_intercept"}
_OF_NUMBERS = {"squared_error", "absolute_error", "r2", "neg_mean_squared_error", "neg_mean_absolute_error"}
_OF_NUMBERS |= {"neg_root_mean_squared_error", "neg_median_absolute_error", "explained_variance"}


@dataclass(frozen=True)
class Wanted:
    """What a target must hold, and the option that says so.

    Attributes
    ----------
    classes : bool or None
        Whether it is taken as classes; None if only the target itself can tell.
    option, value : str
        The option, such as "--scoring", and its value; empty where there is none.
    """

    classes: bool | None = None
    option: str = ""
    value: str = ""


def wanted_target(model: str | None, own: Any, scored: dict[str, Any], task: str | None) -> Wanted:
    """Whether a task, a model or what is measured takes the target as classes or as numbers."""
    if task is not None:
        return Wanted(task == "classification", "--task", task)
    if own is not None:
        from sklearn.base import is_classifier, is_regressor

        if is_classifier(own) or is_regressor(own):
            return Wanted(bool(is_classifier(own)), "--model", str(model))
    [(argument, named)] = scored.items()
    names = [named] if isinstance(named, str) else list(named or ())
    if model in _FOR_CLASSES:
        return Wanted(True, "--model", str(model))
    for classes, known in ((True, _OF_CLASSES), (False, _OF_NUMBERS)):
        for name in names:
            if name in known:
                return Wanted(classes, f"--{argument}", name)
    return Wanted()


def make_model(name: str | None, X: Any, *, classes: bool) -> Any:
    """One of the named models, with imputation if the records need it and with scaling if the model needs it."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
        RandomForestClassifier,
        RandomForestRegressor,
    )
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    chosen = name or ("logistic" if classes else "ridge")
    if chosen in _FOR_CLASSES and not classes:
        raise InputError(
            f"--model must be ridge, forest, boosting or your own for a target of numbers, got {chosen!r}."
        )
    if chosen == "forest":
        return RandomForestClassifier() if classes else RandomForestRegressor()
    if chosen == "boosting":
        return HistGradientBoostingClassifier() if classes else HistGradientBoostingRegressor()
    linear = {"logistic": LogisticRegression(max_iter=1000), "linear-svm": LinearSVC()}.get(chosen)
    if linear is None:
        linear = RidgeClassifier() if classes else Ridge()
    # Without gaps nothing has to be imputed, and then the loop over resamples is compiled.
    gaps = [SimpleImputer(keep_empty_features=True)] if np.isnan(X).any() else []
    return make_pipeline(*gaps, StandardScaler(), linear)


def own_model(place: str) -> Any:
    """The estimator at ``module:object``; a class or a function is called without arguments to make it."""
    module, colon, name = place.partition(":")
    if not colon or not module or not name:
        parent, _, last = place.rpartition(".")
        hint = nearest(place, MODELS) if not parent or colon else f"; did you mean '{parent}:{last}'?"
        raise InputError(f"--model must be one of {', '.join(MODELS)}, or module:object, got {place!r}{hint}")
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        model: Any = importlib.import_module(module)
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"--model must name a module that imports, got {place!r}: {reason}.") from None
    try:
        for part in name.split("."):
            model = getattr(model, part)
    except AttributeError:
        near = difflib.get_close_matches(name, dir(model), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise InputError(f"--model must name something in {module!r}, got {name!r}, which is not there{hint}") from None
    if isinstance(model, type) or not hasattr(model, "fit"):
        try:
            model = model()
        except Exception as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise InputError(
                f"--model must be an estimator, or make one without arguments, got {place!r}: {reason}."
            ) from None
    if not hasattr(model, "fit") or not hasattr(model, "predict"):
        raise InputError(f"--model must be an estimator with fit and predict, got {place!r}, a {type(model).__name__}.")
    return model


def make_scored(loss: str | None, scoring: Sequence[str]) -> dict[str, Any]:
    """What is measured, as arguments of `audit`: a loss, or metrics by options that may each name several."""
    if loss is not None and scoring:
        raise InputError("--loss must be left out where --scoring is given, since either says what is measured.")
    if loss is None and not scoring:
        return {"loss": None}
    if loss in LOSSES:
        return {"loss": loss}
    if loss is not None and known_facts(loss) is None:
        raise InputError(
            f"--loss must be one of {', '.join(LOSSES)}, or a metric, got {loss!r}{nearest(loss, known_names())}"
        )
    # A metric is taken as a loss as well, since commands of old releases name it so.
    names = [name.strip() for several in scoring or [loss or ""] for name in several.split(",")]
    for name in names:
        if known_facts(name) is None:
            raise InputError(f"--scoring must be a metric, such as roc_auc, got {name!r}{nearest(name, known_names())}")
    return {"scoring": names[0] if len(names) == 1 else names}
