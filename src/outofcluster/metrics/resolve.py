"""The metrics that ``loss=`` and ``scoring=`` stand for, checked before anything is fitted.

A metric is given by a name of scikit-learn or of this package, by a scorer, or by a function of (estimator, X, y), and
several of them by a list or a dict. Functions of scikit-learn that are means over records become the losses that
``loss=`` knows (:mod:`outofcluster.metrics.means`); for others there is a closed form without each unit where one is
known (:mod:`outofcluster.metrics.ranking`, :mod:`outofcluster.metrics.sums`), and they are recomputed where none is
(:mod:`outofcluster.metrics.base`).

Decisions. Of two classes the last one in sorted order is the positive one, unless the scorer or the caller has
``pos_label``: "yes" of "no" and "yes". scikit-learn takes the label 1 instead for F1, precision, recall and Jaccard,
which is the same for 0 and 1. *Weights in scoring* turn means over records into weighted means, and are passed to
functions of scikit-learn as ``sample_weight``.

*In an audit that was read from a file* a metric of a set of records is made anew from its name and numbers of classes,
which stand in for the labels. A metric for which this gives another one, such as a function of the user's own, is not
known by its name.
"""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace
from functools import cache, partial
from numbers import Number, Real
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import AnyArray, Array, check_choice, check_numbers, first_missing, short, shown
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import target_array
from outofcluster.metrics.base import Metric, OfModel, OfPredictions
from outofcluster.metrics.facts import FACTS, LOSSES, MetricFacts, known_facts
from outofcluster.metrics.means import LOSS_FUNCTIONS, SKLEARN_MEANS, SKLEARN_RECORDS, Mean, brier, wrong_shape
from outofcluster.metrics.predictions import single_column
from outofcluster.metrics.ranking import AveragePrecision, Concordance, RocAuc, RocAucOfSeveral
from outofcluster.metrics.sums import CONFUSION, MOMENTS, Calibration, Confusion, Moments

# What makes the metric of a scorer, or None where the scorer's options are not known.
ClosedForm = Callable[["_Scorer"], Metric | None]
_OWN = ("sensitivity", "specificity", "concordance", "calibration_slope", "calibration_intercept")


def resolve_metrics(
    estimator: Any, y: Any, *, loss: Any = None, scoring: Any = None, pos_label: Any = None, pool: Any = None
) -> tuple[Metric, ...]:
    """The metrics that an argument ``loss`` or ``scoring`` stands for, pooled over folds as the caller wants."""
    if loss is not None and scoring is not None:
        got = f"loss={short(loss)} and scoring={short(scoring)}"
        raise InputError(f"loss and scoring must not be given together, got {got}.")
    if pool is not None:
        check_choice("pool", pool, ("records", "folds"))
    if scoring is None:
        metrics: tuple[Metric, ...] = (resolve_loss(loss, estimator, y),)
    else:
        metrics = resolve_scoring(scoring, estimator, y, pos_label=pos_label)
    return metrics if pool is None else tuple(metric.pooled(pool) for metric in metrics)


def resolve_loss(loss: Any, estimator: Any, y: Any) -> Metric:
    """The metric that an argument ``loss`` stands for.

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.metrics import get_scorer
    >>> from outofcluster.metrics.resolve import resolve_loss
    >>> y = [0.1, 0.7, 0.4]
    >>> resolve_loss(None, Ridge(), y).name
    'squared_error'
    >>> resolve_loss(get_scorer("neg_median_absolute_error"), Ridge(), y).facts.label
    'median absolute error'
    """
    problem = _problem(estimator, y)
    if not hasattr(estimator, "predict"):
        raise InputError(f"estimator must have a method predict, got {type(estimator).__name__} without.")
    if loss is None:
        defaults = {"classifier": "zero_one", "regressor": "squared_error"}
        loss = next((name for what, name in defaults.items() if is_a(what, estimator)), None)
        if loss is None:
            what = type(estimator).__name__
            raise InputError(f"loss must be given for {what}, which is neither classifier nor regressor, got None.")
    names = ", ".join(map(repr, LOSSES))
    if isinstance(loss, str):
        if loss not in LOSSES:
            hint = f"; for scikit-learn's scorer pass scoring={loss!r}" if loss in _scorers() else ""
            raise InputError(f"loss must be one of {names}, a function or a scorer, got {short(loss)}{hint}.")
        return _named_mean(loss, problem)
    if _is_scorer(loss):
        return _of_scorer(loss, problem, "")
    if not callable(loss) or isinstance(loss, type):
        raise InputError(f"loss must be one of {names}, a function of (y_true, y_pred) or a scorer, got {short(loss)}.")
    return _of_function(loss, problem.target)


def is_a(what: str, estimator: Any) -> bool:
    """Whether an estimator is a "classifier" or a "regressor"."""
    from sklearn import base

    if not hasattr(estimator, "__sklearn_tags__"):
        # Older releases of scikit-learn, and estimators that do without its base class.
        return getattr(estimator, "_estimator_type", None) == what
    return bool(getattr(base, f"is_{what}")(estimator))


def _of_function(function: Callable[..., Any], target: AnyArray) -> Mean:
    name = _function_name(function)
    if not _takes(function, 2):
        raise InputError(f"loss must be a function of (y_true, y_pred), got {name} with other arguments.")
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
    name = _function_name(function, "loss")
    return Mean(name, MetricFacts(name, name), function, custom=True)


def _named_mean(name: str, problem: _Problem) -> Mean:
    """The mean loss of one of the names in `LOSSES`, checked against the estimator and the targets."""
    target, of_probabilities = problem.target, name in ("log_loss", "brier")
    if name not in ("squared_error", "absolute_error"):
        problem.check_labels(f"loss {name!r}")
    elif not problem.is_numeric:
        raise InputError(f"y must hold numbers for loss {name!r}, got y[0] = {short(target.ravel()[0])}.")
    if of_probabilities:
        problem.need(("predict_proba",), f"loss {name!r}")
        problem.check_vector(f"loss {name!r}")
    facts = FACTS[name]
    mean = Mean(name, facts, LOSS_FUNCTIONS[name], "probabilities" if of_probabilities else None)
    if name == "brier" and len(set(target.tolist())) > 2:
        return replace(mean, facts=replace(facts, range=(0.0, 2.0)), function=brier)
    return mean


def resolve_scoring(scoring: Any, estimator: Any, y: Any, *, pos_label: Any = None) -> tuple[Metric, ...]:
    """The metrics that an argument ``scoring`` stands for.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from outofcluster.metrics.resolve import resolve_scoring
    >>> metrics = resolve_scoring(["roc_auc", "neg_brier_score"], LogisticRegression(), ["no", "yes", "no"])
    >>> [(metric.facts.name, metric.facts.label) for metric in metrics]
    [('roc_auc', 'AUC'), ('neg_brier_score', 'Brier score')]
    """
    if isinstance(scoring, Mapping):
        wanted = [(str(name), each) for name, each in scoring.items()]
    elif isinstance(scoring, list | tuple | set | frozenset):
        wanted = [("", each) for each in (sorted(scoring, key=short) if isinstance(scoring, Set) else scoring)]
    else:
        wanted = [("", scoring)]
    if not wanted:
        raise InputError("scoring must hold at least one metric, got none.")
    problem = _problem(estimator, y, pos_label)
    resolved = [(name, _resolve(each, problem)) for name, each in wanted]
    metrics = [metric.shown_as(name=name) if name else metric for name, metric in resolved]
    names = [metric.facts.name for metric in metrics]
    if repeated := [short(name) for name in names if names.count(name) > 1]:
        raise InputError(f"scoring must hold each metric once, got {repeated[0]} more than once; name them by a dict.")
    return tuple(metrics)


def check_weight(weight: Any, n_records: int) -> Array | None:
    """Weights in scoring: one number per record that is not negative, and not all of them 0."""
    if weight is None:
        return None
    values = check_numbers("score_weight", weight)
    if values.shape != (n_records,):
        must = f"score_weight must have one weight for each of the {n_records} records"
        raise InputError(f"{must}, got shape {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any() or not values.any():
        raise InputError("score_weight must hold finite weights of at least 0, some of them above 0.")
    return values


@dataclass(frozen=True, eq=False)
class _Problem:
    """What metrics are checked against."""

    estimator: Any
    target: AnyArray
    pos_label: Any

    @property
    def is_vector(self) -> bool:
        """Whether there is one target per record."""
        return self.target.ndim == 1

    @property
    def is_numeric(self) -> bool:
        """Whether targets are numbers."""
        if self.target.dtype.kind == "O":
            return all(isinstance(value, Real | np.bool_) for value in self.target.ravel())
        return self.target.dtype.kind in "biuf"

    def check_vector(self, name: str) -> None:
        """Refuse several targets per record."""
        if not self.is_vector:
            raise InputError(f"y must hold one label per record for {name}, got shape {self.target.shape}.")

    def check_labels(self, name: str) -> None:
        """Refuse targets with fractions, which are no class labels."""
        if self.target.dtype.kind == "f" and (between := self.target != np.floor(self.target)).any():
            raise InputError(f"y must hold class labels for {name}, got numbers such as {self.target[between][0]:g}.")

    def classes(self, name: str) -> AnyArray:
        """The sorted classes of the targets, which must be labels."""
        self.check_vector(name)
        self.check_labels(name)
        try:
            return np.unique(self.target)
        except TypeError:
            raise InputError(f"y must hold labels of one type for {name}, got several.") from None

    def two_classes(self, name: str, hint: str = "") -> AnyArray:
        """Two sorted classes."""
        classes = self.classes(name)
        if len(classes) != 2:
            raise InputError(f"y must hold two classes for {name}, got {len(classes)}{hint}.")
        return classes

    def positive(self, classes: AnyArray, pos_label: Any = None) -> int:
        """Number of the positive one of two classes."""
        label, labels = self.pos_label if pos_label is None else pos_label, classes.tolist()
        if label is None:
            return 1
        if label not in labels:
            raise InputError(f"pos_label must be one of the classes [{shown(labels)}], got {short(label)}.")
        return int(labels.index(label))

    def need(self, methods: tuple[str, ...], name: str) -> None:
        """Refuse an estimator that has none of some methods."""
        has_scores = "decision_function" in methods and is_a("regressor", self.estimator)
        if not has_scores and not any(hasattr(self.estimator, method) for method in methods):
            model = type(self.estimator).__name__
            raise InputError(f"estimator must have {' or '.join(methods)} for {name}, got {model} without.")


def _problem(estimator: Any, y: Any, pos_label: Any = None) -> _Problem:
    """An estimator and its targets, an array of one type without missing or infinite values."""
    if isinstance(estimator, type):
        raise InputError(f"estimator must be an instance such as {estimator.__name__}(), got the class itself.")
    if y is None:
        raise InputError("y must hold the targets, got None.")
    target = target_array(y)
    # In a list, a number next to a string would become a string.
    if not hasattr(y, "dtype") and target.dtype.kind in "US":
        target = np.asarray(y, dtype=object)
    if (row := first_missing(y)) is not None:
        raise InputError(f"y must not have missing values, got y[{row}] = {target[row]}.")
    if target.dtype.kind == "f" and np.isinf(target).any():
        raise InputError(f"y must be finite, got {target[np.isinf(target)][0]}.")
    if target.dtype.kind == "O":
        kinds = sorted({"number" if isinstance(each, Number) else type(each).__name__ for each in target.flat})
        if len(kinds) > 1:
            raise InputError(f"y must hold values of one type, got {' and '.join(kinds)}.")
    return _Problem(estimator, single_column(target), pos_label)


def _resolve(metric: Any, problem: _Problem) -> Metric:
    if isinstance(metric, str):
        return _of_name(metric, problem)
    if _is_scorer(metric):
        return _of_scorer(metric, problem, "")
    if not callable(metric) or isinstance(metric, type):
        raise InputError(f"scoring must be the name of a metric, a scorer or a function, got {short(metric)}.")
    name = _function_name(metric)
    for known in sorted(_scorers(), key=len):
        if getattr(_scorers()[known], "_score_func", None) is metric:
            must = "scoring must be a name, a scorer or a function of (estimator, X, y)"
            raise InputError(f"{must}, got {name}; use {known!r}.")
    if not _takes(metric, 3):
        hint = "for a function of (y_true, y_pred) pass make_scorer of it"
        raise InputError(f"scoring must be a function of (estimator, X, y), got {name} with other arguments; {hint}.")
    return _of_model(_function_name(metric, "score"), metric)


def _of_name(name: str, problem: _Problem) -> Metric:
    if name in LOSSES:
        return _named_mean(name, problem)
    if name in _OWN:
        return _own(name, problem)
    if name not in _scorers():
        lowered = name.lower().replace("-", "_").replace(" ", "_")
        # Users may leave out what scikit-learn puts around a name.
        full = {each.removeprefix("neg_").removesuffix("_score"): each for each in _scorers()}
        full |= {each: each for each in (*_scorers(), *_OWN)}
        near = list(dict.fromkeys(full[each] for each in difflib.get_close_matches(lowered, full, n=3)))
        hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else ", which is not the name of a metric."
        raise InputError(f"scoring must be the name of a metric, got {short(name)}{hint}")
    return _of_scorer(_scorers()[name], problem, name)


def _own(name: str, problem: _Problem) -> Metric:
    """A metric that scikit-learn does not have."""
    facts = FACTS[name]
    if name == "concordance":
        if problem.target.dtype.kind not in "biuf" or not problem.is_vector:
            raise InputError(f"y must hold one number per record for {name}, got dtype {problem.target.dtype}.")
        values = np.unique(problem.target)
        if len(values) == 2 and is_a("classifier", problem.estimator):
            problem.need(("decision_function", "predict_proba"), name)
            return RocAuc(name, facts, problem.positive(values), classes=values)
        problem.need(("predict",), name)
        return Concordance(name, facts)
    classes = problem.two_classes(name)
    positive = problem.positive(classes)
    if name in CONFUSION:
        problem.need(("predict",), name)
        return Confusion(name, facts, CONFUSION[name][0], 2, (("positive", positive),), classes=classes)
    problem.need(("predict_proba",), name)
    return Calibration(name, facts, name == "calibration_slope", positive, classes=classes)


@dataclass(frozen=True, eq=False)
class _Scorer:
    """A scorer of scikit-learn, taken apart: its name and facts, its function, and that function's name if known."""

    problem: _Problem
    whole: Any
    name: str
    facts: MetricFacts
    known: str
    methods: tuple[str, ...]
    options: dict[str, Any]


def _of_model(name: str, function: Callable[..., Any]) -> Metric:
    """A function of (estimator, X, y), of which a greater value is better."""
    return OfModel(name, MetricFacts(name, name.replace("_", " "), greater_is_better=True, pool="folds"), function)


def _of_scorer(whole: Any, problem: _Problem, name: str) -> Metric:
    function = getattr(whole, "_score_func", None)
    if function is None:
        return _of_model("score", whole)
    name = name or _name_of(whole)
    module = getattr(function, "__module__", "") or ""
    known = _function_name(function) if module.startswith("sklearn.") else ""
    options = {key: each for key, each in whole._kwargs.items() if key != "pos_label" or each is not None}
    scorer = _Scorer(problem, whole, name, _facts_of(whole, name, known), known, _methods(whole), options)
    problem.need(scorer.methods, name)
    if module == "sklearn.metrics._regression" and not problem.is_numeric:
        got = f"labels such as {short(problem.target.ravel()[:1].tolist()[0])}, got {name!r}, which takes numbers"
        raise InputError(f"scoring must be a metric of classes for {got}.")
    closed_form, known_options = _CLOSED_FORMS.get(known, (None, ()))
    metric = None if closed_form is None or set(options) - set(known_options) else closed_form(scorer)
    return _recomputed(scorer) if metric is None else metric


def _mean(scorer: _Scorer) -> Metric:
    mean = _named_mean(SKLEARN_MEANS[scorer.known], scorer.problem)
    # The accuracy is 1 less the error rate; as a loss it is the error rate less 1.
    shift = -1.0 if mean.name == "zero_one" else 0.0
    bounds = (end + shift for end in mean.facts.loss_range)
    return replace(mean, facts=_within(scorer.facts, *bounds), shift=shift)


def _of_numbers(scorer: _Scorer) -> Metric | None:
    if not scorer.problem.is_vector:
        return None
    if scorer.known in MOMENTS:
        return Moments(scorer.name, scorer.facts, *MOMENTS[scorer.known])
    return Mean(scorer.known, _within(scorer.facts, 0.0, np.inf), SKLEARN_RECORDS[scorer.known])


def _within(facts: MetricFacts, low: float, high: float) -> MetricFacts:
    """The facts of a mean of losses in a range."""
    return replace(facts, range=facts.shown_interval(low, high))


def _roc_auc(scorer: _Scorer) -> Metric | None:
    problem, options = scorer.problem, scorer.options
    classes = problem.classes(scorer.name)
    if len(classes) == 2:
        return RocAuc(scorer.name, scorer.facts, problem.positive(classes), classes=classes)
    average, several = options.get("average", "macro"), options.get("multi_class", "raise")
    if several not in ("ovr", "ovo"):
        problem.two_classes(scorer.name, "; use 'roc_auc_ovr' or 'roc_auc_ovo'")
    if average not in ("macro", "weighted") or "labels" in options:
        return None
    pairs, by_share = several == "ovo", average == "weighted"
    return RocAucOfSeveral(scorer.name, scorer.facts, pairs, by_share, classes=classes)


def _average_precision(scorer: _Scorer) -> Metric:
    classes = scorer.problem.two_classes(scorer.name)
    positive = scorer.problem.positive(classes, scorer.options.get("pos_label"))
    return AveragePrecision(scorer.name, scorer.facts, positive, classes=classes)


def _confusion(scorer: _Scorer) -> Metric | None:
    problem, name = scorer.problem, scorer.name
    function, known_options = CONFUSION[scorer.known]
    options = {key: each for key, each in scorer.options.items() if key not in ("pos_label", "zero_division")}
    average, if_zero = options.get("average", "binary"), scorer.options.get("zero_division", 0)
    has_matrix = scorer.methods == ("predict",) and problem.is_vector and if_zero in ("warn", 0)
    if not has_matrix or average not in ("binary", "micro", "macro", "weighted"):
        return None
    classes = problem.classes(name)
    if "pos_label" in known_options and average == "binary":
        hint = f"; use '{name}_macro' or '{name}_weighted'" if known_facts(f"{name}_macro") else ""
        options["positive"] = problem.positive(problem.two_classes(name, hint), scorer.options.get("pos_label"))
    return Confusion(name, scorer.facts, function, len(classes), tuple(options.items()), classes=classes)


# The closed forms of functions of scikit-learn, and the options with which they have one.
_CLOSED_FORMS: dict[str, tuple[ClosedForm, tuple[str, ...]]] = {
    **dict.fromkeys(SKLEARN_MEANS, (_mean, ("pos_label",))),
    **dict.fromkeys((*SKLEARN_RECORDS, *MOMENTS), (_of_numbers, ())),
    "roc_auc_score": (_roc_auc, ("multi_class", "average", "labels")),
    "average_precision_score": (_average_precision, ("pos_label",)),
    **{known: (_confusion, ("zero_division", *options)) for known, (_, options) in CONFUSION.items()},
}


def _recomputed(scorer: _Scorer) -> Metric:
    """A metric of which only the function is known."""
    problem, methods = scorer.problem, scorer.methods
    of_classes = is_a("classifier", problem.estimator) and problem.is_vector
    classes = problem.classes(scorer.name) if of_classes else None
    kinds = {"predict": "classes" if of_classes else "values", "predict_proba": "probabilities"}
    uses = kinds.get(" ".join(methods), "scores")
    positive = None
    if classes is not None and len(classes) == 2 and methods != ("predict",):
        positive = problem.positive(classes, scorer.options.get("pos_label"))
    elif not problem.is_vector or uses == "scores" or (uses == "probabilities" and classes is None):
        # The records of all folds together have no single model.
        return OfModel(scorer.name, replace(scorer.facts, pool="folds"), partial(_unsigned, scorer.whole))
    options = tuple(scorer.options.items())
    return OfPredictions(scorer.name, scorer.facts, scorer.whole._score_func, uses, positive, options, classes=classes)


def _unsigned(whole: Any, estimator: Any, X: Any, y: Any) -> Any:
    """The metric of a scorer in its own sign, which scorers of errors turn around."""
    return whole._sign * whole(estimator, X, y)


def _facts_of(whole: Any, name: str, known: str) -> MetricFacts:
    """How a scorer is shown: by the label of its name where it has one."""
    label, bounds = name.removeprefix("neg_").replace("_", " "), (-np.inf, np.inf)
    if known in CONFUSION:
        bounds = (-1.0, 1.0) if known == "cohen_kappa_score" else (0.0, 1.0)
    return known_facts(name) or MetricFacts(name, label, whole._sign > 0, bounds, "folds")


def _name_of(whole: Any) -> str:
    """The name of a scorer of scikit-learn, or that of its function."""

    def key(each: Any) -> Any:
        return getattr(each, "_score_func", None), each._sign, each._kwargs, _methods(each)

    names = (name for name, scorer in _scorers().items() if key(scorer) == key(whole))
    return next(names, None) or _function_name(whole._score_func, "score")


def _methods(scorer: Any) -> tuple[str, ...]:
    response = getattr(scorer, "_response_method", "predict")
    methods = (response,) if isinstance(response, str) else tuple(response)
    return ("predict",) if "default" in methods else methods


@cache
def _scorers() -> dict[str, Any]:
    """The scorers of scikit-learn by name."""
    from sklearn.metrics import get_scorer, get_scorer_names

    return {name: get_scorer(name) for name in get_scorer_names()}


def _is_scorer(metric: Any) -> bool:
    """Whether something is a scorer of scikit-learn."""
    # Scorers have no public class to test for.
    from sklearn.metrics._scorer import _BaseScorer, _PassthroughScorer

    return isinstance(metric, _BaseScorer | _PassthroughScorer)


def _takes(function: Any, count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*[None] * count)
    except TypeError:
        return False
    except ValueError:
        pass  # Compiled functions need not tell their arguments.
    return True


def _function_name(function: Any, of_lambda: str = "<lambda>") -> str:
    """The name of a function, or of what a partial function calls; another word may stand for a lambda."""
    inner = getattr(function, "func", function)
    name = str(getattr(inner, "__name__", type(inner).__name__))
    return of_lambda if name == "<lambda>" else name


# --- metrics that are made anew by their names -----------------------------------------------------------------


class _StandIn:
    """An estimator that can do everything: its predictions are there already."""

    predict = predict_proba = decision_function = None

    def __init__(self, kind: str) -> None:
        self._estimator_type = kind


@dataclass(frozen=True)
class NamedMetric:
    """A metric of a set of records.

    Attributes
    ----------
    name : str
        The name by which it is known.
    uses : str
        The predictions that it needs.
    n_classes : int
        How many classes there are; 0 where targets are numbers.
    positive : int
        Number of the positive one of two classes.
    """

    name: str
    uses: str
    n_classes: int = 0
    positive: int = 1

    @classmethod
    def of(cls, metric: Metric) -> Self | None:
        """What a metric is made from; None for one that has losses of records, needs the model, or has no known name.

        Examples
        --------
        >>> from sklearn.linear_model import LogisticRegression
        >>> from outofcluster.metrics.resolve import NamedMetric, resolve_scoring
        >>> auc, accuracy = resolve_scoring(["roc_auc", "accuracy"], LogisticRegression(), ["no", "yes"])
        >>> NamedMetric.of(auc), NamedMetric.of(accuracy)
        (NamedMetric(name='roc_auc', uses='scores', n_classes=2, positive=1), None)
        """
        if metric.is_mean or metric.uses is None:
            return None
        positive = getattr(metric, "positive", dict(getattr(metric, "options", ())).get("positive"))
        n_classes = 0 if metric.classes is None else len(metric.classes)
        named = cls(metric.name, metric.uses, n_classes, 1 if positive is None else int(positive))
        try:
            return named if named.made(metric.facts) == metric else None
        except InputError:
            return None

    def made(self, facts: MetricFacts) -> Metric:
        """The metric, for targets that are numbers of classes."""
        estimator: Any = _StandIn("regressor" if self.uses == "values" else "classifier")
        targets = np.arange(self.n_classes) if self.n_classes else np.array([0.0, 0.5, 1.0])
        positive = self.positive if self.n_classes == 2 else None
        (metric,) = resolve_scoring(self.name, estimator, targets, pos_label=positive)
        return replace(metric, facts=facts)
