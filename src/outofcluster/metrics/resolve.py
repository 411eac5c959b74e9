"""The losses that ``loss=`` and ``scoring=`` stand for, checked before anything is fitted.

A metric is given by a name of scikit-learn or of this package, by a scorer, or by a function of (estimator, X, y), and
several of them by a list or a dict. Metrics that are means over records become the losses that ``loss=`` knows; for
the others there is a closed form without each unit where one is known
(:mod:`outofcluster.metrics.ranking`, :mod:`outofcluster.metrics.sums`), and they are recomputed where
none is (:mod:`outofcluster.metrics.recomputed`).

Decisions. Of two classes the last one in sorted order is the positive one, unless the scorer or the caller has
``pos_label``: "yes" of "no" and "yes". scikit-learn takes the label 1 instead for F1, precision, recall and Jaccard,
which is the same for 0 and 1. *Weights in scoring* turn means over records into weighted means, and are passed to
functions of scikit-learn as ``sample_weight``.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, check_choice, check_numbers, short, shown
from outofcluster._base.exceptions import InputError
from outofcluster.metrics.base import (
    LOSSES,
    UNBOUNDED,
    Loss,
    check_targets,
    function_name,
    is_a,
    is_numeric,
    is_scorer,
    listed_losses,
    named_loss,
    shown_name,
    wrong_shape,
)
from outofcluster.metrics.facts import MetricFacts, known_facts
from outofcluster.metrics.predictions import Measure, Predictions
from outofcluster.metrics.ranking import AveragePrecision, Concordance, RocAuc, RocAucOfSeveral
from outofcluster.metrics.recomputed import OfModel, OfPredictions
from outofcluster.metrics.sums import CONFUSION, MOMENTS, Calibration, Confusion, WeightedMean

_OWN = ("sensitivity", "specificity", "concordance", "calibration_slope", "calibration_intercept")
_MEANS = {
    "accuracy_score": "zero_one",
    "mean_squared_error": "squared_error",
    "mean_absolute_error": "absolute_error",
    "log_loss": "log_loss",
    "brier_score_loss": "brier",
}
"""Functions of scikit-learn that are means of the losses of this package."""
_SMALLEST = float(np.finfo(float).eps)


def resolve_loss(loss: Any, estimator: Any, y: Any) -> Loss:
    """The loss that an argument stands for, checked against the estimator and the targets before anything is fitted.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.metrics import get_scorer
    >>> from outofcluster.metrics.resolve import resolve_loss
    >>> y = [0.1, 0.7, 0.4]
    >>> resolve_loss(None, Ridge(), y)
    Loss(name='squared_error', kind='per_record', method='predict', range=(0.0, inf))
    >>> resolve_loss(get_scorer("neg_median_absolute_error"), Ridge(), y).facts.label
    'median absolute error'
    """
    if isinstance(estimator, type):
        raise InputError(f"estimator must be an instance such as {estimator.__name__}(), got the class itself.")
    if not hasattr(estimator, "predict"):
        raise InputError(f"estimator must have a method predict, got {type(estimator).__name__} without.")
    target = check_targets(y)
    if loss is None:
        loss = _default(estimator)
    if isinstance(loss, str):
        return named_loss(loss, estimator, target)
    if is_scorer(loss):
        return resolve_scorer(loss, estimator, y)
    if not callable(loss) or isinstance(loss, type):
        raise InputError(
            f"loss must be one of {listed_losses()}, a function of (y_true, y_pred) or a scorer, got {short(loss)}."
        )
    return _function(loss, target)


def _default(estimator: Any) -> str:
    if is_a("classifier", estimator):
        return "zero_one"
    if is_a("regressor", estimator):
        return "squared_error"
    name = type(estimator).__name__
    raise InputError(f"loss must be given for {name}, which is neither classifier nor regressor, got None.")


def _function(function: Callable[..., Any], target: NDArray[Any]) -> Loss:
    name = function_name(function)
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        raise InputError(f"loss must be a function of (y_true, y_pred), got {name} with other arguments.") from None
    except ValueError:
        pass  # Compiled functions need not tell their arguments.
    some = target[:5]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            shape = np.shape(function(some, some))
        except Exception:
            # Perfect predictions may be what it cannot take; if something else is wrong, the first score shows it.
            shape = (len(some),)
    if shape != (len(some),):
        raise InputError(wrong_shape(name, (len(some),), shape))
    return Loss(shown_name(function, "loss"), "per_record", "predict", UNBOUNDED, function, custom=True)


def resolve_scoring(
    scoring: Any,
    estimator: Any,
    y: Any,
    *,
    pos_label: Any = None,
    pool: Literal["records", "folds"] | None = None,
    has_weight: bool = False,
) -> tuple[Loss, ...]:
    """The losses that an argument ``scoring`` stands for.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from outofcluster.metrics.resolve import resolve_scoring
    >>> losses = resolve_scoring(["roc_auc", "neg_brier_score"], LogisticRegression(), ["no", "yes", "no"])
    >>> [(loss.facts.name, loss.facts.label) for loss in losses]
    [('roc_auc', 'AUC'), ('neg_brier_score', 'Brier score')]
    """
    if isinstance(scoring, Mapping):
        asked = [(str(name), metric) for name, metric in scoring.items()]
    elif isinstance(scoring, list | tuple | set | frozenset):
        asked = [("", metric) for metric in (sorted(scoring, key=short) if isinstance(scoring, Set) else scoring)]
    else:
        asked = [("", scoring)]
    if not asked:
        raise InputError("scoring must hold at least one metric, got none.")
    problem = _Problem.of(estimator, y, pos_label)
    losses = []
    for name, metric in asked:
        loss = _resolve(metric, problem)
        if name:
            loss = replace(loss, about=replace(loss.facts, name=name))
        losses.append(loss)
    losses = list(chosen_losses(losses, pool=pool, has_weight=has_weight))
    names = [loss.facts.name for loss in losses]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise InputError(
            f"scoring must hold each metric once, got {short(repeated[0])} more than once; name them by a dict."
        )
    return tuple(losses)


def chosen_losses(losses: Sequence[Loss], *, pool: Any, has_weight: bool) -> tuple[Loss, ...]:
    """The same losses with weights in scoring, and pooled over folds as the caller wants."""
    if pool is not None:
        check_choice("pool", pool, ("records", "folds"))
    if has_weight:
        losses = [weighted(loss) for loss in losses]
    if pool is None:
        return tuple(losses)
    of_model = [loss.facts.name for loss in losses if isinstance(loss.measure, OfModel)]
    if pool == "records" and of_model:
        raise InputError(
            f"pool must be 'folds' for {of_model[0]}, a function of the model, got 'records'; "
            "pass make_scorer of a function of predictions."
        )
    return tuple(replace(loss, about=replace(loss.facts, pool=pool)) for loss in losses)


def resolve_scorer(scorer: Any, estimator: Any, y: Any) -> Loss:
    """The loss of a scorer of scikit-learn."""
    return _of_scorer(scorer, _Problem.of(estimator, y, None), "")


def check_weight(weight: Any, n_records: int) -> Array | None:
    """Weights in scoring: one number per record that is not negative, and not all of them 0."""
    if weight is None:
        return None
    values = check_numbers("score_weight", weight)
    if values.shape != (n_records,):
        raise InputError(
            f"score_weight must have one weight for each of the {n_records} records, got shape {values.shape}."
        )
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InputError("score_weight must hold finite weights of at least 0, some of them above 0.")
    return values


def weighted(loss: Loss) -> Loss:
    """The same loss where records have weights in scoring: a mean becomes a weighted mean."""
    if loss.measure is not None:
        if isinstance(loss.measure, OfModel):
            raise InputError(f"score_weight needs a metric that takes weights, got {loss.facts.name}.")
        return loss
    measure = WeightedMean(partial(_shown_losses, loss), uses=f"losses_{loss.facts.name}")
    return replace(loss, kind="per_resample", measure=measure, about=loss.facts, shift=0.0)


def _shown_losses(loss: Loss, predictions: Predictions) -> Array:
    """Record losses in the sign of the metric."""
    return loss.facts.shown(loss.records(predictions, predictions.X, predictions.y))


@dataclass(frozen=True, eq=False)
class _Problem:
    """What metrics are checked against."""

    estimator: Any
    target: NDArray[Any]
    pos_label: Any

    @classmethod
    def of(cls, estimator: Any, y: Any, pos_label: Any) -> _Problem:
        if isinstance(estimator, type):
            raise InputError(f"estimator must be an instance such as {estimator.__name__}(), got the class itself.")
        return cls(estimator, check_targets(y), pos_label)

    def classes(self, name: str) -> NDArray[Any]:
        """The sorted classes of the targets, which must be labels."""
        if self.target.ndim > 1:
            raise InputError(f"y must hold one label per record for {name}, got shape {self.target.shape}.")
        if self.target.dtype.kind == "f" and (self.target != np.floor(self.target)).any():
            value = self.target[self.target != np.floor(self.target)][0]
            raise InputError(f"y must hold class labels for {name}, got numbers such as {value:g}.")
        try:
            return np.unique(self.target)
        except TypeError:
            raise InputError(f"y must hold labels of one type for {name}, got several.") from None

    def two_classes(self, name: str, otherwise: str = "") -> NDArray[Any]:
        """Two sorted classes."""
        classes = self.classes(name)
        if len(classes) != 2:
            raise InputError(f"y must hold two classes for {name}, got {len(classes)}{otherwise}.")
        return classes

    def positive(self, classes: NDArray[Any], pos_label: Any) -> int:
        """Number of the positive one of two classes."""
        label = self.pos_label if pos_label is None else pos_label
        if label is None:
            return 1
        places = np.flatnonzero([each == label for each in classes.tolist()])
        if len(places) == 0:
            raise InputError(f"pos_label must be one of the classes [{shown(classes.tolist())}], got {short(label)}.")
        return int(places[0])

    def need(self, methods: tuple[str, ...], name: str) -> None:
        """Refuse an estimator that has none of some methods."""
        if any(hasattr(self.estimator, method) for method in methods):
            return
        if "decision_function" in methods and is_a("regressor", self.estimator):
            return
        raise InputError(
            f"estimator must have {' or '.join(methods)} for {name}, got {type(self.estimator).__name__} without."
        )


def _resolve(metric: Any, problem: _Problem) -> Loss:
    if isinstance(metric, str):
        return _of_name(metric, problem)
    if is_scorer(metric):
        return _of_scorer(metric, problem, "")
    if not callable(metric) or isinstance(metric, type):
        raise InputError(f"scoring must be the name of a metric, a scorer or a function, got {short(metric)}.")
    known = _names_of_functions().get(metric) if getattr(metric, "__hash__", None) else None
    name = function_name(metric)
    if known is not None:
        raise InputError(
            f"scoring must be a name, a scorer or a function of (estimator, X, y), got {name}; use {known!r}."
        )
    try:
        inspect.signature(metric).bind(None, None, None)
    except TypeError:
        raise InputError(
            f"scoring must be a function of (estimator, X, y), got {name} with other arguments; "
            "for a function of (y_true, y_pred) pass make_scorer of it."
        ) from None
    except ValueError:
        pass  # Compiled functions need not tell their arguments.
    name = shown_name(metric, "score")
    about = MetricFacts(name, name.replace("_", " "), greater_is_better=True, pool="folds")
    return _loss(name, OfModel(metric, name), about, None)


def _of_name(name: str, problem: _Problem) -> Loss:
    from sklearn.metrics import get_scorer, get_scorer_names

    if name in LOSSES:
        return named_loss(name, problem.estimator, problem.target)
    about = known_facts(name)
    if name in _OWN:
        assert about is not None
        return _own(name, about, problem)
    names = get_scorer_names()
    if name not in names:
        lowered = name.lower().replace("-", "_").replace(" ", "_")
        # Users may leave out what scikit-learn puts around a name.
        full = {each.removeprefix("neg_").removesuffix("_score"): each for each in names} | {
            each: each for each in (*names, *_OWN)
        }
        near = list(dict.fromkeys(full[each] for each in difflib.get_close_matches(lowered, full, n=3)))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ", which is not the name of a metric."
        raise InputError(f"scoring must be the name of a metric, got {short(name)}{hint}")
    return _of_scorer(get_scorer(name), problem, name)


def _own(name: str, about: MetricFacts, problem: _Problem) -> Loss:
    """A metric that scikit-learn does not have."""
    if name == "concordance":
        if problem.target.dtype.kind not in "biuf" or problem.target.ndim > 1:
            raise InputError(f"y must hold one number per record for {name}, got dtype {problem.target.dtype}.")
        values = np.unique(problem.target)
        if len(values) == 2 and is_a("classifier", problem.estimator):
            problem.need(("decision_function", "predict_proba"), name)
            return _loss(name, RocAuc(problem.positive(values, None)), about, values)
        problem.need(("predict",), name)
        return _loss(name, Concordance(), about, None)
    classes = problem.two_classes(name)
    positive = problem.positive(classes, None)
    if name.startswith("calibration"):
        problem.need(("predict_proba",), name)
        return _loss(name, Calibration(name == "calibration_slope", positive), about, classes)
    problem.need(("predict",), name)
    return _loss(name, Confusion(CONFUSION[name][0], 2, (("positive", positive),)), about, classes)


def _of_scorer(scorer: Any, problem: _Problem, name: str) -> Loss:
    function = getattr(scorer, "_score_func", None)
    if function is None:
        about = MetricFacts("score", "score", greater_is_better=True, pool="folds")
        return _loss("score", OfModel(scorer, "score"), about, None)
    options = dict(getattr(scorer, "_kwargs", {}))
    sign = getattr(scorer, "_sign", 1)
    name = name or _name_of(scorer)
    about = _facts_of(scorer, name)
    methods = _methods(scorer)
    problem.need(methods, name)
    module = getattr(function, "__module__", "") or ""
    own = function_name(function) if module.startswith("sklearn.") else ""
    if module == "sklearn.metrics._regression":
        _check_numbers(name, problem)
    options = {key: value for key, value in options.items() if not (key == "pos_label" and value is None)}
    if own in _MEANS and not (set(options) - {"pos_label"}):
        loss = named_loss(_MEANS[own], problem.estimator, problem.target)
        if own == "brier_score_loss":
            about = replace(about, range=loss.range)
        # The accuracy is 1 less the error rate; as a loss it is the error rate less 1.
        shift = -1.0 if own == "accuracy_score" else 0.0
        return replace(loss, about=about, shift=shift, range=about.loss_range if shift else loss.range)
    if own in _RECORD_LOSSES and not options and problem.target.ndim == 1:
        return Loss(own, "per_record", "predict", (0.0, np.inf), _RECORD_LOSSES[own], about=about)
    measure, classes = _measure(own, options, methods, problem, name)
    if measure is None:
        measure, classes = _recomputed(scorer, function, options, methods, problem, name)
    if own in CONFUSION and about.range == (-np.inf, np.inf):
        about = replace(about, range=(-1.0, 1.0) if own == "cohen_kappa_score" else (0.0, 1.0))
    return _loss(name, measure, replace(about, greater_is_better=sign > 0), classes)


def _measure(
    own: str, options: dict[str, Any], methods: tuple[str, ...], problem: _Problem, name: str
) -> tuple[Measure | None, NDArray[Any] | None]:
    """A closed form, where there is one."""
    pos_label = options.get("pos_label")
    if own == "roc_auc_score" and not (set(options) - {"multi_class", "average", "labels"}):
        average = options.get("average", "macro")
        classes = problem.classes(name)
        if len(classes) == 2:
            return RocAuc(problem.positive(classes, pos_label)), classes
        if options.get("multi_class", "raise") not in ("ovr", "ovo"):
            problem.two_classes(name, "; use 'roc_auc_ovr' or 'roc_auc_ovo'")
        if average in ("macro", "weighted") and "labels" not in options:
            several = RocAucOfSeveral(len(classes), options["multi_class"] == "ovo", average == "weighted")
            return several, classes
    if own == "average_precision_score" and not (set(options) - {"pos_label"}):
        classes = problem.two_classes(name)
        return AveragePrecision(problem.positive(classes, pos_label)), classes
    if own in CONFUSION and methods == ("predict",) and problem.target.ndim == 1:
        function, taken = CONFUSION[own]
        given = {key: value for key, value in options.items() if key != "zero_division" or value not in ("warn", 0)}
        average = given.get("average", "binary")
        if set(given) - set(taken) or average not in ("binary", "micro", "macro", "weighted"):
            return None, None
        classes = problem.classes(name)
        chosen = {key: value for key, value in given.items() if key != "pos_label"}
        if "pos_label" in taken and average == "binary":
            hint = f"; use '{name}_macro' or '{name}_weighted'" if known_facts(f"{name}_macro") else ""
            classes = problem.two_classes(name, hint)
            chosen["positive"] = problem.positive(classes, pos_label)
        return Confusion(function, len(classes), tuple(chosen.items())), classes
    if own in MOMENTS and not options and problem.target.ndim == 1:
        return MOMENTS[own], None
    return None, None


def _recomputed(
    scorer: Any, function: Any, options: dict[str, Any], methods: tuple[str, ...], problem: _Problem, name: str
) -> tuple[Measure, NDArray[Any] | None]:
    """A metric of which only the function is known."""
    of_classes = is_a("classifier", problem.estimator) and problem.target.ndim == 1
    classes = problem.classes(name) if of_classes else None
    if methods == ("predict",):
        if problem.target.ndim > 1:
            return OfModel(scorer, name), None
        uses, positive = ("classes" if of_classes else "values"), None
    elif classes is not None and len(classes) == 2:
        positive = problem.positive(classes, options.get("pos_label"))
        uses = "probabilities" if methods == ("predict_proba",) else "scores"
    elif classes is not None and methods == ("predict_proba",):
        uses, positive = "probabilities", None
    else:
        return OfModel(scorer, name), None
    return OfPredictions(function, name, uses, positive, tuple(options.items())), classes


def _loss(name: str, measure: Measure, about: MetricFacts, classes: NDArray[Any] | None) -> Loss:
    method: Literal["predict", "predict_proba"]
    method = "predict_proba" if measure.uses in ("scores", "probabilities") else "predict"
    return Loss(
        name, "per_resample", method, about.loss_range, _no_function, about=about, measure=measure, classes=classes
    )


def _no_function(*_: Any) -> Any:
    raise AssertionError("a metric of a set of records has no losses of single records")


def _methods(scorer: Any) -> tuple[str, ...]:
    response = getattr(scorer, "_response_method", "predict")
    methods = (response,) if isinstance(response, str) else tuple(response)
    return ("predict",) if "default" in methods else methods


def _facts_of(scorer: Any, name: str) -> MetricFacts:
    """How a scorer is shown: by the label of its name where it has one."""
    known = known_facts(name)
    if known is not None:
        return known
    label = name.removeprefix("neg_").replace("_", " ")
    return MetricFacts(name, label, greater_is_better=getattr(scorer, "_sign", 1) > 0, pool="folds")


def _name_of(scorer: Any) -> str:
    """The name of a scorer of scikit-learn, or that of its function."""
    from sklearn.metrics import get_scorer, get_scorer_names

    def key(each: Any) -> Any:
        options = {name: value for name, value in getattr(each, "_kwargs", {}).items()}
        return getattr(each, "_score_func", None), getattr(each, "_sign", 1), options, _methods(each)

    own = key(scorer)
    for name in get_scorer_names():
        if key(get_scorer(name)) == own:
            return str(name)
    return shown_name(own[0], "score")


@cache
def _names_of_functions() -> dict[Any, str]:
    """The shortest scorer name of every function of scikit-learn."""
    from sklearn.metrics import get_scorer, get_scorer_names

    names: dict[Any, str] = {}
    for name in sorted(get_scorer_names(), key=len):
        names.setdefault(getattr(get_scorer(name), "_score_func", None), name)
    return names


def _check_numbers(name: str, problem: _Problem) -> None:
    if not is_numeric(problem.target):
        label = problem.target.ravel()[:1].tolist()[0]
        raise InputError(
            f"scoring must be a metric of classes for labels such as {short(label)}, got {name!r}, which takes numbers."
        )


def _percentage(y: NDArray[Any], prediction: NDArray[Any]) -> Array:
    return np.asarray(np.abs(y - prediction) / np.maximum(np.abs(y), _SMALLEST))


def _squared_log(y: NDArray[Any], prediction: NDArray[Any]) -> Array:
    if min(y.min(), prediction.min()) <= -1:
        raise InputError("mean_squared_log_error needs targets and predictions above -1.")
    return np.asarray((np.log1p(y) - np.log1p(prediction)) ** 2)


_RECORD_LOSSES = {"mean_absolute_percentage_error": _percentage, "mean_squared_log_error": _squared_log}
"""Further functions of scikit-learn that are means over records."""
