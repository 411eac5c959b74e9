"""Metrics of which nothing is known: computed anew without each unit.

That takes one call of the metric per unit, so only one replicate of every block is done, and stands for the others; and
of more than 40 units a random 40 are left out in turn, each counted for as many as there are. Both are unbiased for the
influences, which are means over replicates, and add to their Monte-Carlo noise.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.predictions import Partition, Predictions


@dataclass(frozen=True)
class OfPredictions:
    """A function of (y_true, y_pred) that gives one number for all records, as scikit-learn's metrics are.

    Attributes
    ----------
    function : callable
        The function.
    name : str
        Its name.
    uses : str
        The predictions that it needs.
    positive : {0, 1} or None
        The positive class, whose probabilities or scores it takes; None: the predictions as they are.
    options : tuple of (str, value)
        Further arguments of the function.
    most_units : int
        The largest number of units that are left out in turn.
    """

    function: Callable[..., Any]
    name: str
    uses: str = "values"
    positive: int | None = None
    options: tuple[tuple[str, Any], ...] = ()
    most_units: int = 40
    costly: bool = True

    def undefined(self, target: NDArray[Any]) -> str:
        """Not known before it is computed."""
        return "" if len(target) else "it has no records"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric, and the metric without each unit."""
        target, predicted = predictions.target, self._predicted(predictions)

        def of(rows: Any) -> float:
            weights = {} if weight is None else {"sample_weight": weight[rows]}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return _number(self.function(target[rows], predicted[rows], **dict(self.options), **weights), self.name)

        return _recompute(of, partitions, most=self.most_units, salt=predictions.salt)

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
class OfModel:
    """A function of (estimator, X, y) that gives one number for all records.

    Attributes
    ----------
    function : callable
        The function.
    name : str
        Its name.
    most_units : int
        The largest number of units that are left out in turn.
    """

    function: Callable[..., Any]
    name: str
    most_units: int = 40
    uses: str | None = None
    costly: bool = True

    def undefined(self, target: NDArray[Any]) -> str:
        """Not known before it is computed."""
        return "" if len(target) else "it has no records"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric, and the metric without each unit."""

        def of(rows: Any) -> float:
            if isinstance(rows, slice):
                return _number(self.function(predictions.model, predictions.X, predictions.y), self.name)
            own = take_rows(predictions.X, rows), take_rows(predictions.y, rows)
            return _number(self.function(predictions.model, *own), self.name)

        return _recompute(of, partitions, most=self.most_units, salt=predictions.salt)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise InputError(f"scoring must give one number for all records, got {short(value)} from {name}.")
    return float(value)


def _recompute(
    of: Callable[[Any], float], partitions: Sequence[Partition], *, most: int, salt: int
) -> tuple[float, list[Array]]:
    value = of(slice(None))
    without = []
    for part in partitions if np.isfinite(value) else ():
        units = np.flatnonzero(part.sizes)
        scale = 1.0
        if len(units) > most:
            scale = len(units) / most
            units = np.sort(np.random.default_rng(salt).choice(units, most, replace=False))
        rest = np.full(part.count, value)
        for unit in units if len(units) > 1 else ():
            try:
                own = of(np.flatnonzero(part.of != unit))
            except (ValueError, ZeroDivisionError):
                continue
            if np.isfinite(own):
                rest[unit] = value + scale * (own - value)
        without.append(rest)
    return value, without
