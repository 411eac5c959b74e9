r"""Means of losses of single records, as they are and with weights.

Losses of one record with target y, prediction ŷ and predicted probabilities π:

.. math:: 1[y \ne ŷ], \quad (y-ŷ)^2, \quad |y-ŷ|, \quad -\log π_y, \quad
          (π_1 - 1[y=1])^2 \text{ or } \sum_c (π_c - 1[y=c])^2 .

Decisions. Errors of several outputs are averaged over the outputs; several labels count as one prediction, wrong if
any of them is. A class that the resample did not hold has probability 0, and log_loss takes probabilities below the
machine epsilon as equal to it, so that one record costs at most 36.04. Brier's score has its two-class form, with
values in [0, 1], when all of y holds at most two classes, and its several-class form, in [0, 2], otherwise. A resample
that lacks a class does not change that, since losses would not be comparable.

With weights w the mean of record losses is :math:`\sum wℓ/\sum w`, a metric of two sums, each of which loses its part
of unit k without this unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from outofcluster._base.arguments import LARGEST, AnyArray, Array
from outofcluster._base.exceptions import InputError
from outofcluster.metrics.base import Effects, LeftOut, Metric, Partition, Partitions, SetMetric, quotients
from outofcluster.metrics.predictions import Predictions, check_same_kind, check_table, single_column

_EPSILON = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Mean(Metric):
    """A mean of losses of single records.

    The function is one of (y, predictions) or, where it uses probabilities, of (y, probabilities, classes); a custom
    one is the user's, whose predictions may have any shape. The shift is added to its losses.
    """

    function: Callable[..., Any] = field(repr=False)
    uses: str | None = None
    custom: bool = False

    is_mean: ClassVar[bool] = True

    def score(self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]) -> Effects:
        """The mean, and the share of it that the records of each unit have."""
        records = self._unshifted(predictions)
        mean = float(records.mean())
        effect = (records - mean) / len(records)
        return mean, [part.sums(effect) for part in partitions]

    def losses(self, predictions: Predictions, weight: Array | None, partitions: Partitions) -> dict[str, Array]:
        """The losses of the records, whatever the units."""
        return dict.fromkeys(partitions, self.records(predictions))

    def weighted(self) -> Metric:
        """The weighted mean of the same losses."""
        return WeightedMean(self.name, self.facts, self)

    def records(self, predictions: Predictions) -> Array:
        """One loss per record."""
        losses = self._unshifted(predictions)
        return losses + self.shift if self.shift else losses

    def _unshifted(self, predictions: Predictions) -> Array:
        target, model, n = predictions.target, type(predictions.model).__name__, len(predictions.target)
        if self.needs_probabilities:
            classes = getattr(predictions.model, "classes_", None)
            if classes is None:
                needs = f"classes_ once fitted for loss {self.name!r}"
                raise InputError(f"estimator must have {needs}, got {model} without.")
            probability = np.asarray(predictions.ask("predict_proba"), dtype=float)
            check_table(probability, n, len(classes))
            check_same_kind(target, np.asarray(classes))
            return _check_losses(self.name, self.function(target, probability, np.asarray(classes)), n)
        prediction = single_column(np.asarray(predictions.ask("predict")))
        if not self.custom and target.shape != prediction.shape:
            must = f"estimator must predict values of the shape of y, {target.shape}"
            raise InputError(f"{must}, got {prediction.shape} from {model}.")
        with np.errstate(over="ignore", invalid="ignore"):
            # What overflows is refused in words.
            return _check_losses(self.name, self.function(target, prediction), n)


@dataclass(frozen=True)
class WeightedMean(SetMetric):
    """A mean of record losses in which records count by their weights."""

    mean: Mean

    @property
    def uses(self) -> str:
        """The name under which predictions keep these losses."""
        return f"losses_{self.facts.name}"

    @property
    def needs_probabilities(self) -> bool:
        """Whether the losses take probabilities."""
        return self.mean.needs_probabilities

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """The mean, and the mean without each unit."""
        # A set of stored predictions holds the losses already.
        losses = vars(predictions).get(self.uses)
        if losses is None:
            losses = vars(predictions)[self.uses] = self.facts.shown(self.mean.records(predictions))
        w = np.ones(len(losses)) if weight is None else weight
        above, below = float(w @ losses), float(w.sum())
        value = above / below

        def without(part: Partition) -> Array:
            return quotients(above - part.sums(w * losses), below - part.sums(w), value, 1e-12 * below)

        return value, without


def wrong_shape(name: str, wanted: tuple[int, ...], got: tuple[int, ...]) -> str:
    """What to say of a function that does not give one value per record."""
    hint = "; for a metric of all records at once pass make_scorer of it" if got == () else ""
    return f"loss must give one value per record, an array of shape {wanted}, got shape {got} from {name}{hint}."


def _check_losses(name: str, losses: Any, n: int) -> Array:
    """One finite number per record: the only place through which a loss of a record comes in."""
    try:
        values = np.asarray(losses, dtype=float)
    except Exception:
        raise InputError(f"loss must give numbers, got {type(losses).__name__} from {name}.") from None
    if values.shape != (n,):
        raise InputError(wrong_shape(name, (n,), values.shape))
    if (wrong := ~(np.abs(values) <= LARGEST)).any():
        must = f"loss must give one finite value per record, at most {LARGEST:g}"
        raise InputError(f"{must}, got {values[wrong][0]:g} from {name}.")
    return values


def _zero_one(y: AnyArray, prediction: AnyArray) -> Array:
    check_same_kind(y, prediction)
    if prediction.dtype.kind == "f" and (between := prediction != np.floor(prediction)).any():
        got = f"numbers such as {prediction[between][0]:g}"
        raise InputError(f"estimator must predict class labels for loss 'zero_one', got {got}.")
    return np.asarray(y != prediction).reshape(len(y), -1).any(axis=1).astype(float)


def _error(y: AnyArray, prediction: AnyArray, power: int) -> Array:
    errors = np.abs(y.astype(float) - prediction.astype(float)) ** power
    return errors if errors.ndim == 1 else np.asarray(errors.mean(axis=1))


def _log_loss(y: AnyArray, probability: Array, classes: AnyArray) -> Array:
    of_target = np.where(y[:, None] == classes, probability, 0).sum(axis=1)
    # Adding zero turns -0.0, the loss at probability 1, into 0.0.
    return np.asarray(-np.log(np.clip(of_target, _EPSILON, 1)) + 0.0)


def _brier_of_two(y: AnyArray, probability: Array, classes: AnyArray) -> Array:
    # The last class stands for class 1, also where it is the only one that was seen: π = 1 for it then.
    return np.asarray((probability[:, -1] - (y == classes[-1])) ** 2)


def brier(y: AnyArray, probability: Array, classes: AnyArray) -> Array:
    """Brier's score of several classes."""
    is_target = y[:, None] == classes
    unseen = ~is_target.any(axis=1)
    return np.asarray(((probability - is_target) ** 2).sum(axis=1) + unseen)


def _percentage(y: AnyArray, prediction: AnyArray) -> Array:
    return np.asarray(np.abs(y - prediction) / np.maximum(np.abs(y), _EPSILON))


def _squared_log(y: AnyArray, prediction: AnyArray) -> Array:
    if min(y.min(), prediction.min()) <= -1:
        raise InputError("mean_squared_log_error needs targets and predictions above -1.")
    return np.asarray((np.log1p(y) - np.log1p(prediction)) ** 2)


# Losses of single records by name; Brier's for two classes.
LOSS_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "zero_one": _zero_one,
    "squared_error": partial(_error, power=2),
    "absolute_error": partial(_error, power=1),
    "log_loss": _log_loss,
    "brier": _brier_of_two,
}
# Functions of scikit-learn that are means of the losses of this package.
SKLEARN_MEANS = {
    "accuracy_score": "zero_one",
    "mean_squared_error": "squared_error",
    "mean_absolute_error": "absolute_error",
    "log_loss": "log_loss",
    "brier_score_loss": "brier",
}
# Further functions of scikit-learn that are means over records.
SKLEARN_RECORDS = {"mean_absolute_percentage_error": _percentage, "mean_squared_log_error": _squared_log}
