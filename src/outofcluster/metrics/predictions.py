r"""What a fitted model says about records, asked once and shared by all metrics.

Four kinds of predictions serve all metrics: the *classes*, as numbers among the sorted classes of all targets; the
*scores* of the last of two classes, decision values where the model has them and probabilities otherwise; the
*probabilities*, with one column for each class of all targets (0 for a class that the model did not see); and the
*values* that a regressor predicts.

Decision values and probabilities are asked for apart, since the order of one need not be that of the other. In logistic
regression it is, so where a metric needs probabilities anyway, they are its scores as well.

From a metric without each unit to what each unit adds to it.

A metric M of a set of records need not be a mean. Let L be the metric as a loss (minus M where a greater M is better)
of N scored records, of which unit k, a cluster or a record, has N_k; and L_{-k} the loss without this unit. With

.. math:: D_k = (N - N_k)(L - L_{-k}), \qquad S_k = N_k L + D_k - \frac{N_k}{N} \sum_j D_j ,

S_k stands for the sum of the losses of the unit's records: :math:`\sum_k S_k = N L` exactly, and for a mean of record
losses S_k is the sum of these. Everything else in the package works on S_k as on sums of losses. The *effect* of unit k
on the metric, which the infinitesimal jackknife needs, is :math:`E_k = (S_k - N_k L)/N`; every record of the unit has
the *pseudo loss* :math:`S_k/N_k`. Records as units and clusters as units have pseudo losses of their own.

Decisions. A unit without which the metric is not defined, such as the only cluster with positive records under AUC, is
counted as if the metric without it were that of guessing (0.5 for AUC), so that the interval is wide, as it must be.
Metrics without a value for guessing take L_{-k} = L there. The metric itself is not defined for a set of a single
class under AUC, average precision, calibration and concordance; a resample whose scored records are such a set is drawn
again, as one whose training records have a single class is. Some metrics, such as the calibration slope, are not
defined for some predictions either; that is known only after a fit, is raised as a `NotDefinedError`, and is treated in
the same way.
"
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from outofcluster._base.arguments import Array, first_missing, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import n_rows

_ROUNDING = 1e-6
"""By how much a probability may lie outside of 0 and 1: single precision rounds to that."""


class Predictions:
    """A fitted model that answers for one set of records only, and remembers what it has said.

    Parameters
    ----------
    model : estimator
        A fitted model.
    X : array, sparse matrix or data frame
        The records.
    y : array
        Their targets.
    classes : array, optional
        The sorted classes of all targets.
    salt : int
        A number of its own for every replicate, for metrics that draw units at random.
    probable : bool
        Whether some metric needs probabilities.
    """

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any,
        classes: NDArray[Any] | None = None,
        *,
        salt: int = 0,
        probable: bool = False,
    ) -> None:
        self.model, self.X, self.y, self.salt = model, X, y, salt
        self.all_classes = classes
        self._probable = probable
        self._asked: dict[str, Any] = {}

    @property
    def classes_(self) -> Any:
        """The classes that the model saw."""
        return self.model.classes_

    def predict(self, _: Any = None) -> Any:
        """What the model predicts."""
        return self._ask("predict")

    def predict_proba(self, _: Any = None) -> Any:
        """The model's probabilities."""
        return self._ask("predict_proba")

    def _ask(self, method: str) -> Any:
        if method not in self._asked:
            self._asked[method] = self._checked(method, getattr(self.model, method)(self.X))
        return self._asked[method]

    def _checked(self, method: str, answer: Any) -> Any:
        """An answer with one entry per record, none of them missing: nothing else may become a loss."""
        must = f"estimator must give one finite value per record by {method}"
        answer = answer.toarray() if sparse.issparse(answer) else answer
        array = np.asarray(answer)
        if array.ndim == 0 or len(array) != n_rows("X", self.X):
            raise InputError(f"{must}, got shape {array.shape} for {n_rows('X', self.X)} records.")
        # A decision value may be infinite, since only the order counts.
        row = first_missing(array, infinite=method != "decision_function")
        if row is not None or np.ma.is_masked(answer):
            raise InputError(f"{must}, got {'masked values' if row is None else short(array[row])}.")
        if (
            method == "predict_proba"
            and array.dtype.kind == "f"
            and not -_ROUNDING <= array.min() <= array.max() <= (1 + _ROUNDING)
        ):
            wrong = array.min() if array.min() < -_ROUNDING else array.max()
            raise InputError(f"estimator must give probabilities between 0 and 1, got {wrong:g}.")
        return answer

    @cached_property
    def target(self) -> NDArray[Any]:
        """The targets as an array."""
        return single_column(np.asarray(self.y))

    @cached_property
    def codes(self) -> NDArray[np.int64]:
        """The targets as numbers among all classes."""
        return self._numbers(self.target)

    @cached_property
    def classes(self) -> NDArray[np.int64]:
        """The predicted classes as numbers among all classes."""
        return self._numbers(single_column(np.asarray(self.predict())))

    @cached_property
    def values(self) -> Array:
        """The predicted values."""
        return single_column(np.asarray(self.predict(), dtype=float))

    @cached_property
    def scores(self) -> Array:
        """Decision values or probabilities of the last of two classes."""
        if self._probable and _is_logistic(self.model):
            return self.probabilities[:, -1]
        if hasattr(self.model, "decision_function"):
            raw = single_column(np.asarray(self._ask("decision_function"), dtype=float))
            return raw if raw.ndim == 1 else raw[:, -1] - raw[:, 0]
        if hasattr(self.model, "predict_proba"):
            return self.probabilities[:, -1]
        return self.values

    @cached_property
    def order(self) -> NDArray[np.int64]:
        """The records by increasing score."""
        return np.argsort(self.scores, kind="stable")

    @cached_property
    def probabilities(self) -> Array:
        """One column per class."""
        raw = np.asarray(self.predict_proba(), dtype=float)
        seen = np.asarray(self.classes_)
        assert self.all_classes is not None
        check_same_kind(self.all_classes, seen)
        if raw.ndim != 2 or raw.shape[1] != len(seen):
            raise InputError(f"estimator must give one probability per record and class, got shape {raw.shape}.")
        if len(seen) == len(self.all_classes):
            return raw
        aligned = np.zeros((len(raw), len(self.all_classes)))
        aligned[:, self._numbers(seen)] = raw
        return aligned

    def _numbers(self, labels: NDArray[Any]) -> NDArray[np.int64]:
        assert self.all_classes is not None
        check_same_kind(self.all_classes, labels)
        places = np.minimum(np.searchsorted(self.all_classes, labels), len(self.all_classes) - 1)
        unknown = np.asarray(self.all_classes[places] != labels)
        if unknown.any():
            raise InputError(f"estimator must predict classes that y holds, got {short(labels[unknown][0])}.")
        return places.astype(np.int64)

    def stored(self, kinds: Sequence[str]) -> StoredPredictions:
        """The predictions of some kinds without the model and the records."""
        arrays = {kind: getattr(self, kind) for kind in kinds}
        return StoredPredictions(self.target, self.all_classes, arrays)


class StoredPredictions(Predictions):
    """Predictions that were made already.

    Parameters
    ----------
    y : array
        Targets.
    classes : array or None
        The sorted classes of all targets.
    arrays : dict of array
        Predictions by kind.
    """

    def __init__(self, y: NDArray[Any], classes: NDArray[Any] | None, arrays: dict[str, Array]) -> None:
        super().__init__(None, None, y, classes)
        self._arrays = arrays
        vars(self).update(arrays)

    @classmethod
    def joined(cls, parts: Sequence[StoredPredictions]) -> StoredPredictions:
        """Those of several folds, one after the other."""
        arrays = {kind: np.concatenate([part._arrays[kind] for part in parts]) for kind in parts[0]._arrays}
        return cls(np.concatenate([part.y for part in parts]), parts[0].all_classes, arrays)

    def rows(self, rows: NDArray[np.int64]) -> StoredPredictions:
        """Those of some records."""
        arrays = {kind: array[rows] for kind, array in self._arrays.items()}
        return StoredPredictions(self.y[rows], self.all_classes, arrays)


def _is_logistic(model: Any) -> bool:
    """Whether a model, or the last step of a pipeline, is a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    return type(model.steps[-1][1] if type(model) is Pipeline else model) is LogisticRegression


def single_column(values: NDArray[Any]) -> NDArray[Any]:
    """A single column as a vector: against a vector it would broadcast to a square."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def check_same_kind(y: NDArray[Any], predicted: NDArray[Any]) -> None:
    """Refuse predicted labels that can equal no target, such as the number 1 for the string "1"."""
    if y.size and predicted.size and _kind(y) != _kind(predicted):
        raise InputError(
            f"estimator must predict labels of the type of y, such as {short(y.flat[0])}, "
            f"got {short(predicted.flat[0])}."
        )


def _kind(labels: NDArray[Any]) -> str:
    kind = np.asarray(labels.flat[0]).dtype.kind if labels.dtype.kind == "O" else labels.dtype.kind
    return "numbers" if kind in "biuf" else kind


if TYPE_CHECKING:
    from outofcluster.metrics.predictions import Predictions

Codes = NDArray[np.int64]


class NotDefinedError(InputError):
    """A metric has no value for what a model predicts; the message is the reason, in words that go on after "since"."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Scored records in units.

    Attributes
    ----------
    of : array of int
        Number of the unit of every scored record.
    count : int
        Number of units; some of them may have no scored record.
    """

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

    def sums(self, values: Array) -> Array:
        """The sum over the records of each unit."""
        return np.asarray(np.bincount(self.of, values, self.count), dtype=float)


class Measure(Protocol):
    """A metric of a set of records, and of the set without each unit."""

    @property
    def uses(self) -> str | None:
        """The predictions that it needs: "classes", "scores", "probabilities", "values", or None for the model."""

    @property
    def costly(self) -> bool:
        """Whether leaving out units takes so long that one replicate stands for all of a block."""

    def undefined(self, target: NDArray[Any]) -> str:
        """Why the metric is not defined for these targets; empty where it is."""

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric in its own sign, and for every partition the metric without each unit.

        Predictions for which the metric has no value raise a `NotDefinedError`.
        """


def unit_effects(loss: float, without: Array, partition: Partition) -> Array:
    """E: what each unit adds to the loss."""
    sizes = partition.sizes
    n = len(partition.of)
    moved = (n - sizes) * (loss - without)
    effects: Array = (moved - sizes * (moved.sum() / n)) / n
    return effects


def pseudo_losses(loss: float, effects: Array, partition: Partition) -> Array:
    """The pseudo loss of every record, whose mean is the loss."""
    per_record = effects * (len(partition.of) / np.maximum(partition.sizes, 1))
    return np.asarray(loss + per_record[partition.of])
