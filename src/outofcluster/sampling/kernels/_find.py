"""Which scikit-learn estimators have a kernel: by exact type, and only with parameters that leave the objective as is.

Parameters of the solver (``tol``, ``max_iter``, ``dual``) do not matter, since the kernels go to the optimum.
"""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from outofcluster.sampling.kernels._kernel import Kernel

_REGRESSION = ("squared_error", "absolute_error")


def find_kernel(estimator: Any, loss: str, *, classifier: bool) -> Kernel | None:
    """The compiled loop of an estimator and a loss, or None if there is none.

    Examples
    --------
    >>> from sklearn.svm import LinearSVC
    >>> find_kernel(LinearSVC(C=0.5), "zero_one", classifier=True).strength
    0.5
    >>> find_kernel(LinearSVC(class_weight="balanced"), "zero_one", classifier=True)
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    with_mean = with_std = False
    if type(estimator) is Pipeline:
        steps = [step for _, step in estimator.steps]
        if estimator.memory is not None or getattr(estimator, "transform_input", None) is not None:
            return None
        if len(steps) == 2 and type(steps[0]) is StandardScaler:
            with_mean, with_std = bool(steps[0].with_mean), bool(steps[0].with_std)
        elif len(steps) != 1:
            return None
        estimator = steps[-1]
    found = _parameters(estimator)
    if found is None:
        return None
    parameters, losses = found
    if loss not in losses or classifier == (losses == _REGRESSION):
        return None
    return Kernel(loss=loss, classifier=classifier, with_mean=with_mean, with_std=with_std, **parameters)


def _parameters(model: Any) -> tuple[dict[str, Any], tuple[str, ...]] | None:
    """The objective of a model and the losses it can have, or None."""
    from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge, RidgeClassifier
    from sklearn.svm import LinearSVC

    if type(model) is LinearSVC:
        if not (
            model.penalty == "l2"
            and model.loss == "squared_hinge"
            and model.multi_class == "ovr"
            and model.class_weight is None
            and _number(model.C, positive=True)
            and (not model.fit_intercept or _number(model.intercept_scaling, positive=True))
        ):
            return None
        return {
            "model": "squared_hinge",
            "strength": float(model.C),
            "intercept": bool(model.fit_intercept),
            "intercept_scaling": float(model.intercept_scaling) if model.fit_intercept else 1.0,
        }, ("zero_one",)
    if type(model) is LogisticRegression:
        # Before 1.8 "l2" is the default penalty and l1_ratio is None, since then they are "deprecated" and 0.
        if not (
            model.penalty in ("l2", "deprecated")
            and model.l1_ratio in (None, 0)
            and model.solver in ("lbfgs", "newton-cg", "newton-cholesky", "sag", "saga")
            and not model.dual
            and getattr(model, "multi_class", "auto") in ("auto", "deprecated", "ovr")
            and model.class_weight is None
            and _number(model.C, positive=True)
        ):
            return None
        return {"model": "logistic", "strength": float(model.C), "intercept": bool(model.fit_intercept)}, (
            "zero_one",
            "log_loss",
            "brier",
        )
    if type(model) is LinearRegression:
        if model.positive or getattr(model, "tol", 0.0) > 1e-6:
            return None
        return {
            "model": "least_squares",
            "strength": 0.0,
            "intercept": bool(model.fit_intercept),
            "exact": True,
        }, _REGRESSION
    if type(model) is Ridge or type(model) is RidgeClassifier:
        if model.positive or model.solver == "lbfgs" or not _number(model.alpha, positive=False):
            return None
        if type(model) is RidgeClassifier and model.class_weight is not None:
            return None
        return {"model": "least_squares", "strength": float(model.alpha), "intercept": bool(model.fit_intercept)}, (
            _REGRESSION if type(model) is Ridge else ("zero_one",)
        )
    return None


def _number(value: Any, *, positive: bool) -> bool:
    """Whether a parameter is a finite number: arrays of penalties and infinities have other objectives."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    number = float(value)
    return math.isfinite(number) and (number > 0 if positive else number >= 0)
