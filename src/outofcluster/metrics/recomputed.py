"""Metrics of which nothing is known: computed anew without each unit.

That takes one call of the metric per unit, so only one replicate of every block is done, and stands for the others; and
of more than 40 units a random 40 are left out in turn, each counted for as many as there are. Both are unbiased for the
influences, which are means over replicates, and add to their Monte-Carlo noise. The metric of the user's own models,
which is computed once, leaves out up to 2000 units.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.base import LeftOut, Metric, Partition, SetMetric
from outofcluster.metrics.predictions import Predictions

# Units that are left out in turn where the metric is computed once.
_MOST_UNITS = 2000


@dataclass(frozen=True)
class Recomputed(SetMetric):
    """A function that gives one number for all records, with at most so many units left out in turn."""

    function: Callable[..., Any]
    most_units: int = field(default=40, kw_only=True)

    costly: ClassVar[bool] = True
    recomputed: ClassVar[bool] = True

    def thorough(self) -> SetMetric:
        """The same function, with many units left out."""
        return replace(self, most_units=_MOST_UNITS)

    @abstractmethod
    def number_of(self, predictions: Predictions, weight: Array | None) -> Callable[[Any], Any]:
        """What the function says of some rows: an array of them, or a slice for all."""

    def leave_out(self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]) -> LeftOut:
        """The metric, and the metric without each unit."""
        number_of = self.number_of(predictions, weight)
        value = self._number(number_of(slice(None)))
        without = []
        for part in partitions if np.isfinite(value) else ():
            units = np.flatnonzero(part.sizes)
            scale = 1.0
            if len(units) > self.most_units:
                scale = len(units) / self.most_units
                units = np.sort(np.random.default_rng(predictions.salt).choice(units, self.most_units, replace=False))
            rest = np.full(part.count, value)
            for unit in units if len(units) > 1 else ():
                try:
                    moved = self._number(number_of(np.flatnonzero(part.of != unit)))
                except (ValueError, ZeroDivisionError):
                    continue
                if np.isfinite(moved):
                    rest[unit] = value + scale * (moved - value)
            without.append(rest)
        return value, without

    def _number(self, value: Any) -> float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise InputError(f"scoring must give one number for all records, got {short(value)} from {self.name}.")
        return float(value)


@dataclass(frozen=True)
class OfPredictions(Recomputed):
    """A function of (y_true, y_pred) and options, as scikit-learn's metrics are.

    It takes the probabilities or scores of the positive class or, where that is None, the predictions as they are.
    """

    uses: str = "values"
    positive: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def number_of(self, predictions: Predictions, weight: Array | None) -> Callable[[Any], Any]:
        """The function of some rows of the predictions."""
        target, predicted = predictions.target, self._predicted(predictions)

        def number(rows: Any) -> Any:
            weights = {} if weight is None else {"sample_weight": weight[rows]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return self.function(target[rows], predicted[rows], **dict(self.options), **weights)

        return number

    def _predicted(self, predictions: Predictions) -> NDArray[Any]:
        if self.uses == "scores":
            return predictions.scores if self.positive in (None, 1) else -predictions.scores
        if self.uses == "probabilities":
            table = predictions.probabilities
            return table if self.positive is None else table[:, self.positive]
        if self.uses == "classes":
            assert predictions.all_classes is not None
            return np.asarray(predictions.all_classes[predictions.classes])
        return predictions.values


@dataclass(frozen=True)
class OfModel(Recomputed):
    """A function of (estimator, X, y)."""

    uses: ClassVar[None] = None

    def weighted(self) -> Metric:
        """Refused, since the function takes no weights."""
        raise InputError(f"score_weight needs a metric that takes weights, got {self.facts.name}.")

    def pooled(self, pool: str) -> Self:
        """By folds only, since the records of all folds have several models."""
        if pool == "records":
            raise InputError(
                f"pool must be 'folds' for {self.facts.name}, a function of the model, got 'records'; "
                "pass make_scorer of a function of predictions."
            )
        return super().pooled(pool)

    def number_of(self, predictions: Predictions, weight: Array | None) -> Callable[[Any], Any]:
        """The function of the model and some of its records."""

        def number(rows: Any) -> Any:
            if isinstance(rows, slice):
                return self.function(predictions.model, predictions.X, predictions.y)
            return self.function(predictions.model, take_rows(predictions.X, rows), take_rows(predictions.y, rows))

        return number
