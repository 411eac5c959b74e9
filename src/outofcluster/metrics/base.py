r"""The loss that a model is scored with, from the ``loss`` argument of the public functions.

Losses of one record with target y, prediction ŷ and predicted probabilities π:

.. math:: 1[y \ne ŷ], \quad (y-ŷ)^2, \quad |y-ŷ|, \quad -\log π_y, \quad
          (π_1 - 1[y=1])^2 \text{ or } \sum_c (π_c - 1[y=c])^2 .

Decisions. Errors of several outputs are averaged over the outputs; several labels count as one prediction, wrong if
any of them is. A class that the resample did not hold has probability 0, and log_loss takes probabilities below the
machine epsilon as equal to it, so that one record costs at most 36.04. Brier's score has its two-class form, with
values in [0, 1], when all of y holds at most two classes, and its several-class form, in [0, 2], otherwise. A resample
that lacks a class does not change that, since losses would not be comparable.

A metric that is no mean over records has a *measure* (:mod:`outofcluster.metrics.predictions`): it gives the
metric of all records at once and without each unit, and the loss is minus the metric where a greater one is better.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Number, Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import LARGEST, Array, first_missing, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import target_array
from outofcluster.metrics.facts import MetricFacts, known_facts
from outofcluster.metrics.predictions import (
    Measure,
    NotDefinedError,
    Partition,
    Predictions,
    check_same_kind,
    unit_effects,
)
from outofcluster.metrics.predictions import single_column as _single_column

LOSSES = ("zero_one", "squared_error", "absolute_error", "log_loss", "brier")
"""The losses that have a name."""

_EPSILON = float(np.finfo(float).eps)
UNBOUNDED = (-np.inf, np.inf)


@dataclass(frozen=True)
class Loss:
    """How fitted models are scored.

    Attributes
    ----------
    name : str
        Name of the loss, of the function, or of the metric.
    kind : {"per_record", "per_resample"}
        Whether every record has a loss, or only a set of records.
    method : {"predict", "predict_proba"}
        What it asks of the model; a scorer that takes decision values counts as "predict_proba".
    range : tuple of float
        Smallest and largest possible value.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> from outofcluster.metrics.resolve import resolve_loss
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "yes", "no", "yes"]
    >>> loss = resolve_loss(None, LogisticRegression(), y)
    >>> loss.name
    'zero_one'
    >>> model = LogisticRegression().fit(X, y)
    >>> loss.records(model, X, y)
    array([0., 1., 1., 0.])
    >>> loss.resample(model, X, y)
    0.5
    """

    name: str
    kind: Literal["per_record", "per_resample"]
    method: Literal["predict", "predict_proba"]
    range: tuple[float, float]
    function: Callable[..., Any] = field(repr=False)
    """Of (y, predictions) or of (y, probabilities, classes)."""
    custom: bool = field(default=False, repr=False)
    """Whether the function is the user's, so that what it gives must be checked."""
    about: MetricFacts | None = field(default=None, repr=False)
    """How it is shown, where that does not follow from the name."""
    measure: Measure | None = field(default=None, repr=False)
    """The metric of a set of records, where it is no mean over records."""
    classes: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    """The sorted classes of all targets, where the measure needs them."""
    shift: float = field(default=0.0, repr=False)
    """What is added to the losses of the function: -1 makes minus the accuracy of the zero-one loss."""

    @property
    def facts(self) -> MetricFacts:
        """How it is shown: by its own name where there is one."""
        if self.about is not None:
            return self.about
        known = known_facts(self.name)
        if known is None:
            return MetricFacts(self.name, self.name, range=self.range)
        return replace(known, range=known.shown_interval(*self.range))

    def records(self, fitted_estimator: Any, X: Any, y: Any) -> Array:
        """One loss per record."""
        losses = self._unshifted(fitted_estimator, X, y)
        return losses + self.shift if self.shift else losses

    def _unshifted(self, fitted_estimator: Any, X: Any, y: Any) -> Array:
        if self.kind == "per_resample":
            raise InputError(
                f"loss must give one loss per record here, got the metric {self.name}, which gives one for all of them."
            )
        predictions = asked(fitted_estimator, X, y)
        target = predictions.target
        if self.method == "predict_proba":
            classes = getattr(predictions, "classes_", None)
            if classes is None:
                raise InputError(
                    f"estimator must have classes_ once fitted for loss {self.name!r}, "
                    f"got {type(predictions.model).__name__} without."
                )
            probability = np.asarray(predictions.predict_proba(), dtype=float)
            if probability.shape != (len(target), len(classes)):
                raise InputError(
                    f"estimator must give one probability per record and class, got shape {probability.shape}."
                )
            check_same_kind(target, np.asarray(classes))
            return check_losses(self.name, self.function(target, probability, np.asarray(classes)), len(target))
        prediction = _single_column(np.asarray(predictions.predict()))
        if not self.custom and target.shape != prediction.shape:
            raise InputError(
                f"estimator must predict values of the shape of y, {target.shape}, got {prediction.shape} "
                f"from {type(predictions.model).__name__}."
            )
        with np.errstate(over="ignore", invalid="ignore"):
            # What overflows is refused in words.
            return check_losses(self.name, self.function(target, prediction), len(target))

    def resample(self, fitted_estimator: Any, X: Any, y: Any, weight: Array | None = None) -> float:
        """The loss of all records together: the mean of theirs, or the metric as a loss."""
        if self.measure is None:
            return float(self.records(fitted_estimator, X, y).mean())
        try:
            return self.score(asked(fitted_estimator, X, y, self.classes), weight, ())[0]
        except NotDefinedError as error:
            raise InputError(f"{self.facts.name} is not defined for some records, since {error}.") from None

    def score(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The loss of all records together, without the shift, and every unit's effect on it for each partition."""
        if self.measure is None:
            records = self._unshifted(predictions, predictions.X, predictions.y)
            t = float(records.mean())
            effect = (records - t) / len(records)
            return t, [part.sums(effect) for part in partitions]
        value, without = self.measure(predictions, weight, partitions)
        if not abs(value) <= LARGEST or not all(np.isfinite(rest).all() for rest in without):
            raise InputError(f"scoring must give a finite number, got {value} from {self.facts.name}.")
        if self.facts.greater_is_better:
            value, without = -value, [-rest for rest in without]
        return value, [unit_effects(value, rest, part) for rest, part in zip(without, partitions, strict=True)]

    def undefined(self, target: Any) -> str:
        """Why there is no loss of records with these targets; empty where there is one."""
        return "" if self.measure is None else self.measure.undefined(_single_column(np.asarray(target)))

    @property
    def no_value(self) -> str:
        """Why what a model predicts may leave the records without a loss; empty where that cannot be."""
        return str(getattr(self.measure, "no_value", ""))


def shared_predictions(losses: Sequence[Loss], model: Any, X: Any, y: Any, *, salt: int = 0) -> Predictions:
    """What a fitted model says about records, for several losses."""
    classes = next((loss.classes for loss in losses if loss.classes is not None), None)
    probable = any(
        loss.method == "predict_proba" and (loss.measure is None or loss.measure.uses != "scores") for loss in losses
    )
    return Predictions(model, X, y, classes, salt=salt, probable=probable)


def is_a(what: str, estimator: Any) -> bool:
    """Whether an estimator is a "classifier" or a "regressor"."""
    from sklearn import base

    if not hasattr(estimator, "__sklearn_tags__"):
        # Older releases of scikit-learn, and estimators that do without its base class.
        return getattr(estimator, "_estimator_type", None) == what
    return bool(getattr(base, f"is_{what}")(estimator))


def named_loss(name: str, estimator: Any, target: NDArray[Any]) -> Loss:
    """The loss of a name, checked against the estimator and the targets."""
    if name not in LOSSES:
        from sklearn.metrics import get_scorer_names

        hint = f"; for scikit-learn's scorer pass scoring={name!r}" if name in get_scorer_names() else ""
        raise InputError(f"loss must be one of {listed_losses()}, a function or a scorer, got {short(name)}{hint}.")
    if name in ("squared_error", "absolute_error"):
        if not is_numeric(target):
            raise InputError(f"y must hold numbers for loss {name!r}, got y[0] = {short(target.ravel()[0])}.")
        function = _squared_error if name == "squared_error" else _absolute_error
        return Loss(name, "per_record", "predict", (0.0, np.inf), function)
    if target.dtype.kind == "f" and (target != np.floor(target)).any():
        value = target[target != np.floor(target)][0]
        raise InputError(f"y must hold class labels for loss {name!r}, got numbers such as {value:g}.")
    if name == "zero_one":
        return Loss(name, "per_record", "predict", (0.0, 1.0), _zero_one)
    if not hasattr(estimator, "predict_proba"):
        raise InputError(
            f"estimator must have predict_proba for loss {name!r}, got {type(estimator).__name__} without."
        )
    if target.ndim > 1:
        raise InputError(f"y must hold one label per record for loss {name!r}, got shape {target.shape}.")
    if name == "log_loss":
        return Loss(name, "per_record", "predict_proba", (0.0, np.inf), _log_loss)
    if len(set(target.tolist())) <= 2:
        return Loss(name, "per_record", "predict_proba", (0.0, 1.0), _brier_of_two)
    return Loss(name, "per_record", "predict_proba", (0.0, 2.0), _brier)


def is_scorer(loss: Any) -> bool:
    """Whether something is a scorer of scikit-learn."""
    # Scorers have no public class to test for.
    from sklearn.metrics._scorer import _BaseScorer, _PassthroughScorer

    return isinstance(loss, _BaseScorer | _PassthroughScorer)


def function_name(function: Any) -> str:
    """The name of a function, or of what a partial function calls."""
    inner = getattr(function, "func", function)
    return str(getattr(inner, "__name__", type(inner).__name__))


def shown_name(function: Any, otherwise: str) -> str:
    """The name by which a function is shown: a plain word where it has none, as a lambda."""
    name = function_name(function)
    return otherwise if name == "<lambda>" else name


def asked(model: Any, X: Any, y: Any, classes: NDArray[Any] | None = None) -> Predictions:
    """A fitted model whose answers are checked; the same where they are already."""
    return model if isinstance(model, Predictions) else Predictions(model, X, y, classes)


def check_losses(name: str, losses: Any, n: int) -> Array:
    """One finite number per record: the only place through which a loss of a record comes in."""
    try:
        values = np.asarray(losses, dtype=float)
    except Exception:
        raise InputError(f"loss must give numbers, got {type(losses).__name__} from {name}.") from None
    if values.shape != (n,):
        raise InputError(wrong_shape(name, (n,), values.shape))
    wrong = ~(np.abs(values) <= LARGEST)
    if wrong.any():
        raise InputError(
            f"loss must give one finite value per record, at most {LARGEST:g}, got {values[wrong][0]:g} from {name}."
        )
    return values


def wrong_shape(name: str, wanted: tuple[int, ...], got: tuple[int, ...]) -> str:
    """What to say of a function that does not give one value per record."""
    hint = "; for a metric of all records at once pass make_scorer of it" if got == () else ""
    return f"loss must give one value per record, an array of shape {wanted}, got shape {got} from {name}{hint}."


def _zero_one(y: NDArray[Any], prediction: NDArray[Any]) -> Array:
    check_same_kind(y, prediction)
    if prediction.dtype.kind == "f" and (between := prediction != np.floor(prediction)).any():
        raise InputError(
            f"estimator must predict class labels for loss 'zero_one', got numbers such as {prediction[between][0]:g}."
        )
    wrong = np.asarray(y != prediction).reshape(len(y), -1).any(axis=1)
    return np.asarray(wrong, dtype=float)


def _squared_error(y: NDArray[Any], prediction: NDArray[Any]) -> Array:
    return _outputs_mean((y.astype(float) - prediction.astype(float)) ** 2)


def _absolute_error(y: NDArray[Any], prediction: NDArray[Any]) -> Array:
    return _outputs_mean(np.abs(y.astype(float) - prediction.astype(float)))


def _outputs_mean(errors: Array) -> Array:
    return errors if errors.ndim == 1 else np.asarray(errors.mean(axis=1))


def _log_loss(y: NDArray[Any], probability: Array, classes: NDArray[Any]) -> Array:
    own = np.where(y[:, None] == classes, probability, 0).sum(axis=1)
    # Adding zero turns -0.0, the loss at probability 1, into 0.0.
    return np.asarray(-np.log(np.clip(own, _EPSILON, 1)) + 0.0)


def _brier_of_two(y: NDArray[Any], probability: Array, classes: NDArray[Any]) -> Array:
    # The last class stands for class 1, also where it is the only one that was seen: π = 1 for it then.
    return np.asarray((probability[:, -1] - (y == classes[-1])) ** 2)


def _brier(y: NDArray[Any], probability: Array, classes: NDArray[Any]) -> Array:
    own = y[:, None] == classes
    unseen = ~own.any(axis=1)
    return np.asarray(((probability - own) ** 2).sum(axis=1) + unseen)


def check_targets(y: Any) -> NDArray[Any]:
    """Targets as an array of one type, without missing or infinite values."""
    if y is None:
        raise InputError("y must hold the targets, got None.")
    target = target_array(y)
    row = first_missing(y)
    # In a list, a number next to a string would become a string.
    if not hasattr(y, "dtype") and target.dtype.kind in "US":
        target = np.asarray(y, dtype=object)
    if row is not None:
        raise InputError(f"y must not have missing values, got y[{row}] = {target[row]}.")
    if target.dtype.kind == "f" and np.isinf(target).any():
        raise InputError(f"y must be finite, got {target[np.isinf(target)][0]}.")
    if target.dtype.kind == "O":
        kinds = sorted({"number" if isinstance(each, Number) else type(each).__name__ for each in target.flat})
        if len(kinds) > 1:
            raise InputError(f"y must hold values of one type, got {' and '.join(kinds)}.")
    return _single_column(target)


def is_numeric(target: NDArray[Any]) -> bool:
    """Whether targets are numbers."""
    if target.dtype.kind == "O":
        return all(isinstance(value, Real | np.bool_) for value in target.ravel())
    return target.dtype.kind in "biuf"


def listed_losses() -> str:
    """The names of all losses, for messages."""
    return ", ".join(repr(name) for name in LOSSES)
