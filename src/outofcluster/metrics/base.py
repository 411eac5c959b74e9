r"""What a metric is to the rest of the package: the loss of a set of records, and what each unit adds to it.

Nothing outside this room asks what kind of metric it has. Everything is a *loss*, minus the metric where a greater
metric is better. There are two families behind `Metric`: means of losses of single records
(:mod:`outofcluster.metrics.means`), and metrics of a set of records, which are no mean: of sums over records
(:mod:`outofcluster.metrics.sums`), of an order (:mod:`outofcluster.metrics.ranking`), and functions of which nothing
is known, computed anew without each unit.

*From a metric without each unit to what each unit adds to it.* Let L be the loss of N scored records, of which unit
k, a cluster or a record, has N_k; and L_{-k} the loss without this unit. With

.. math:: D_k = (N - N_k)(L - L_{-k}), \qquad S_k = N_k L + D_k - \frac{N_k}{N} \sum_j D_j ,

S_k stands for the sum of the losses of the unit's records: :math:`\sum_k S_k = N L` exactly, and for a mean of record
losses S_k is the sum of these. Everything else in the package works on S_k as on sums of losses. The *effect* of unit k
on the metric, which intervals need, is :math:`E_k = (S_k - N_k L)/N`; every record of the unit has
the *pseudo loss* :math:`S_k/N_k`. Records as units and clusters as units have pseudo losses of their own.

Decisions. A unit without which the metric is not defined, such as the only cluster with positive records under AUC, is
counted as if the metric without it were that of guessing (0.5 for AUC), so that the interval is wide, as it must be.
Metrics without a value for guessing take L_{-k} = L there. The metric itself is not defined for a set of a single
class under AUC, average precision, calibration and concordance; a resample whose scored records are such a set is drawn
again, as one whose training records have a single class is. Some metrics, such as the calibration slope, are not
defined for some predictions either; that is known only after a fit, is raised as a `NotDefinedError`, and is treated in
the same way.

*Functions of which nothing is known* take one call per unit, so only one replicate of every block is done, and stands
for the others; and of more than 40 units a random 40 are left out in turn, each counted for as many as there are. Both
are unbiased for the influences, which are means over replicates, and add to their Monte-Carlo noise. The metric of the
user's own models, which is computed once, leaves out up to 2000 units.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from outofcluster._base.arguments import LARGEST, AnyArray, Array, Codes, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import take_rows
from outofcluster.metrics.facts import MetricFacts
from outofcluster.metrics.predictions import Predictions, single_column


class NotDefinedError(InputError):
    """A metric has no value for what a model predicts; the message is the reason, in words that go on after "since"."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Scored records in units: the number of the unit of every record, and the count of units, some of them empty."""

    of: Codes
    count: int

    @cached_property
    def sizes(self) -> Codes:
        """Scored records of each unit."""
        return np.bincount(self.of, minlength=self.count)

    @cached_property
    def single(self) -> bool:
        """Whether no unit has more than one scored record."""
        return bool(self.sizes.max() <= 1)

    def of_rows(self, rows: AnyArray) -> Partition:
        """The units of some of the records."""
        return Partition(self.of[rows], self.count)

    def sums(self, values: Array) -> Array:
        """The sum over the records of each unit."""
        return np.asarray(np.bincount(self.of, values, self.count), dtype=float)


# A loss of all records, and the effects of the units on it, one array per partition.
Effects = tuple[float, list[Array]]
# A metric of all records in its own sign, and what gives the metric without each unit of a partition.
LeftOut = tuple[float, Callable[[Partition], Array]]
# Units of several kinds, by the name of the kind.
Partitions = Mapping[str, Partition]


@dataclass(frozen=True)
class Metric(ABC):
    """How fitted models are scored.

    Attributes
    ----------
    name : str
        Name of the loss, of the function, or of the metric.
    facts : MetricFacts
        How it is shown.
    classes : array or None
        The sorted classes of all targets, where the metric needs them.
    shift : float
        What is added to sampled losses: -1 makes minus the accuracy of the zero-one loss.
    is_mean : bool
        Whether every record has a loss, and the metric is their mean.
    costly : bool
        Whether leaving out units takes so long that one replicate stands for all of a block.
    recomputed : bool
        Whether the metric is called anew for every unit that is left out.
    """

    name: str
    facts: MetricFacts
    classes: AnyArray | None = field(default=None, repr=False, compare=False, kw_only=True)
    shift: float = field(default=0.0, repr=False, kw_only=True)

    is_mean: ClassVar[bool] = False
    costly: ClassVar[bool] = False
    recomputed: ClassVar[bool] = False

    @property
    def no_value(self) -> str:
        """Why what a model predicts may leave the records without a loss; empty where that cannot be."""
        return ""

    @property
    @abstractmethod
    def uses(self) -> str | None:
        """The predictions that it needs: "classes", "scores", "probabilities", "values", or None for the model."""

    @property
    def joins_folds(self) -> bool:
        """Whether it is one metric of the records of all folds together, which is no mean over them."""
        return not self.is_mean and self.facts.pool == "records"

    @property
    def needs_probabilities(self) -> bool:
        """Whether a model is asked for probabilities anyway."""
        return self.uses == "probabilities"

    def undefined(self, target: Any) -> str:
        """Why there is no loss of records with these targets; empty where there is one."""
        return ""

    @abstractmethod
    def score(self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]) -> Effects:
        """The loss of all records together, without the shift, and every unit's effect on it for each partition."""

    @abstractmethod
    def losses(self, predictions: Predictions, weight: Array | None, partitions: Partitions) -> dict[str, Array]:
        """One loss per record for each partition: its own, or the pseudo loss of its unit."""

    def value(self, predictions: Predictions) -> float:
        """The loss of all records together."""
        try:
            return self.score(predictions, None, ())[0] + self.shift
        except NotDefinedError as error:
            raise InputError(f"{self.facts.name} is not defined for some records, since {error}.") from None

    def weighted(self) -> Metric:
        """The same metric where records have weights in scoring."""
        return self

    def pooled(self, pool: str) -> Self:
        """The same metric, as the mean over all records or as the mean of the metrics of the folds."""
        return self.shown_as(pool=pool)

    def shown_as(self, **changes: Any) -> Self:
        """The same metric with another name or pooling in its facts."""
        return replace(self, facts=replace(self.facts, **changes))


class SetMetric(Metric):
    """A metric of a set of records that is no mean over records."""

    @property
    def needs_two(self) -> str:
        """What its records must hold two of: "classes", "targets", or nothing."""
        return ""

    def undefined(self, target: Any) -> str:
        """Why there is no loss of records with these targets: none at all, or a single class or target."""
        values = single_column(np.asarray(target))
        if len(values) and (not self.needs_two or (values != values[0]).any()):
            return ""
        if self.needs_two == "classes":
            return f"its records hold a single class, {values[0].item() if len(values) else None!r}"
        return "its records all have the same target" if self.needs_two else "it has no records"

    @abstractmethod
    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """The metric in its own sign, and what gives the metric without each unit of a partition.

        Predictions for which the metric has no value raise a `NotDefinedError`.
        """

    def leave_out(self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]) -> Effects:
        """The metric in its own sign, and for every partition the metric without each unit."""
        value, without = self.evaluate(predictions, weight)
        return value, [without(part) for part in partitions]

    def thorough(self) -> SetMetric:
        """The metric as it is computed once, for all records, rather than in every resample."""
        return self

    def score(self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]) -> Effects:
        """The metric as a loss, and E for every unit of each partition."""
        value, without = self.leave_out(predictions, weight, partitions)
        if not abs(value) <= LARGEST or not all(np.isfinite(rest).all() for rest in without):
            raise InputError(f"scoring must give a finite number, got {value} from {self.facts.name}.")
        if self.facts.greater_is_better:
            value, without = -value, [-rest for rest in without]
        return value, [_unit_effects(value, rest, part) for rest, part in zip(without, partitions, strict=True)]

    def losses(self, predictions: Predictions, weight: Array | None, partitions: Partitions) -> dict[str, Array]:
        """The pseudo loss of every record, whose mean is the loss."""
        value, effects = self.thorough().score(predictions, weight, list(partitions.values()))
        return {
            kind: value + (of_units * (len(part.of) / np.maximum(part.sizes, 1)))[part.of]
            for (kind, part), of_units in zip(partitions.items(), effects, strict=True)
        }


def quotients(above: Array, below: Array, otherwise: float, least: float = 0.0) -> Array:
    """Above / below, and another value where what is below is not greater than the least that counts."""
    defined = below > least
    return np.asarray(np.where(defined, above / np.where(defined, below, 1.0), otherwise))


def _unit_effects(loss: float, without: Array, partition: Partition) -> Array:
    """E: what each unit adds to the loss."""
    sizes, n = partition.sizes, len(partition.of)
    moved = (n - sizes) * (loss - without)
    return np.asarray((moved - sizes * (moved.sum() / n)) / n)


def shared_predictions(metrics: Sequence[Metric], model: Any, X: Any, y: Any, *, salt: int = 0) -> Predictions:
    """What a fitted model says about records, for several metrics."""
    classes = next((metric.classes for metric in metrics if metric.classes is not None), None)
    probable = any(metric.needs_probabilities for metric in metrics)
    return Predictions(model, X, y, classes, salt=salt, probable=probable)


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
    def number(self, predictions: Predictions, weight: Array | None, rows: Any) -> Any:
        """What the function says of some rows: an array of them, or a slice for all."""

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """The metric, and the metric without each unit."""
        value = self._checked_number(predictions, weight, slice(None))

        def without(part: Partition) -> Array:
            units, scale = np.flatnonzero(part.sizes), 1.0
            if len(units) > self.most_units:
                scale = len(units) / self.most_units
                units = np.sort(np.random.default_rng(predictions.salt).choice(units, self.most_units, replace=False))
            rest = np.full(part.count, value)
            for unit in units if len(units) > 1 and np.isfinite(value) else ():
                # A unit without which there is no number leaves the metric as it is.
                with suppress(ValueError, ZeroDivisionError):
                    moved = self._checked_number(predictions, weight, np.flatnonzero(part.of != unit))
                    rest[unit] = value + scale * (moved - value) if np.isfinite(moved) else value
            return rest

        return value, without

    def _checked_number(self, predictions: Predictions, weight: Array | None, rows: Any) -> float:
        value = self.number(predictions, weight, rows)
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

    def number(self, predictions: Predictions, weight: Array | None, rows: Any) -> Any:
        """The function of some rows of the predictions."""
        weights = {} if weight is None else {"sample_weight": weight[rows]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            predicted = self._predicted(predictions)[rows]
            return self.function(predictions.target[rows], predicted, **dict(self.options), **weights)

    def _predicted(self, predictions: Predictions) -> AnyArray:
        if self.uses == "classes":
            assert predictions.all_classes is not None
            return np.asarray(predictions.all_classes[predictions.classes])
        if self.uses == "probabilities" and self.positive is not None:
            return predictions.probabilities[:, self.positive]
        predicted: AnyArray = getattr(predictions, self.uses)
        return -predicted if self.uses == "scores" and self.positive == 0 else predicted


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
            must = f"pool must be 'folds' for {self.facts.name}, a function of the model"
            raise InputError(f"{must}, got 'records'; pass make_scorer of a function of predictions.")
        return super().pooled(pool)

    def number(self, predictions: Predictions, weight: Array | None, rows: Any) -> Any:
        """The function of the model and some of its records."""
        X, y = predictions.X, predictions.y
        if not isinstance(rows, slice):
            X, y = take_rows(X, rows), take_rows(y, rows)
        return self.function(predictions.model, X, y)
