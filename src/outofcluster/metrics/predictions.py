r"""What a fitted model says about records, asked once and shared by all metrics.

Four kinds of predictions serve all metrics: the *classes*, as numbers among the sorted classes of all targets; the
*scores* of the last of two classes, decision values where the model has them and probabilities otherwise; the
*probabilities*, with one column for each class of all targets (0 for a class that the model did not see); and the
*values* that a regressor predicts.

Decision values and probabilities are asked for apart, since the order of one need not be that of the other. In logistic
regression it is, so where a metric needs probabilities anyway, they are its scores as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from outofcluster._base.arguments import AnyArray, Array, Codes, first_missing, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import n_rows

# By how much a probability may lie outside of 0 and 1: single precision rounds to that.
_ROUNDING = 1e-6


@dataclass(eq=False)
class Predictions:
    """A fitted model that answers for one set of records only, and remembers what it has said.

    ``all_classes`` are the sorted classes of all targets; ``salt`` is another number in every replicate, for metrics
    that draw units at random; and ``probable`` says whether some metric needs probabilities.
    """

    model: Any
    X: Any
    y: Any
    all_classes: AnyArray | None = None
    salt: int = 0
    probable: bool = False
    _answers: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def ask(self, method: str) -> Any:
        """What a method of the model says about the records."""
        if method not in self._answers:
            self._answers[method] = self._checked(method, getattr(self.model, method)(self.X))
        return self._answers[method]

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
        if method == "predict_proba" and array.dtype.kind == "f":
            wrong = [end for end in (array.min(), array.max()) if not -_ROUNDING <= end <= 1 + _ROUNDING]
            if wrong:
                raise InputError(f"estimator must give probabilities between 0 and 1, got {wrong[0]:g}.")
        return answer

    @cached_property
    def target(self) -> AnyArray:
        """The targets as an array."""
        return single_column(np.asarray(self.y))

    @cached_property
    def codes(self) -> Codes:
        """The targets as numbers among all classes."""
        return self._numbers(self.target)

    @cached_property
    def classes(self) -> Codes:
        """The predicted classes as numbers among all classes."""
        return self._numbers(single_column(np.asarray(self.ask("predict"))))

    @cached_property
    def values(self) -> Array:
        """The predicted values."""
        return single_column(np.asarray(self.ask("predict"), dtype=float))

    @cached_property
    def scores(self) -> Array:
        """Decision values or probabilities of the last of two classes."""
        if hasattr(self.model, "decision_function") and not (self.probable and _is_logistic(self.model)):
            raw = single_column(np.asarray(self.ask("decision_function"), dtype=float))
            return raw if raw.ndim == 1 else raw[:, -1] - raw[:, 0]
        return self.probabilities[:, -1] if hasattr(self.model, "predict_proba") else self.values

    @cached_property
    def order(self) -> Codes:
        """The records by increasing score."""
        return np.argsort(self.scores, kind="stable")

    @cached_property
    def probabilities(self) -> Array:
        """One column per class."""
        raw = np.asarray(self.ask("predict_proba"), dtype=float)
        seen = np.asarray(self.model.classes_)
        assert self.all_classes is not None
        check_same_kind(self.all_classes, seen)
        check_table(raw, len(raw), len(seen))
        if len(seen) == len(self.all_classes):
            return raw
        aligned = np.zeros((len(raw), len(self.all_classes)))
        aligned[:, self._numbers(seen)] = raw
        return aligned

    def _numbers(self, labels: AnyArray) -> Codes:
        assert self.all_classes is not None
        check_same_kind(self.all_classes, labels)
        numbers = np.minimum(np.searchsorted(self.all_classes, labels), len(self.all_classes) - 1)
        unknown = np.asarray(self.all_classes[numbers] != labels)
        if unknown.any():
            raise InputError(f"estimator must predict classes that y holds, got {short(labels[unknown][0])}.")
        return numbers.astype(np.int64)

    def stored(self, kinds: Sequence[str]) -> StoredPredictions:
        """The predictions of some kinds without the model and the records."""
        return StoredPredictions(self.target, self.all_classes, {kind: getattr(self, kind) for kind in kinds})


class StoredPredictions(Predictions):
    """Predictions that were made already: arrays by the kind of predictions."""

    def __init__(self, y: AnyArray, classes: AnyArray | None, arrays: dict[str, Array]) -> None:
        super().__init__(None, None, y, classes)
        self._arrays = arrays
        vars(self).update(arrays)

    @classmethod
    def joined(cls, parts: Sequence[StoredPredictions]) -> StoredPredictions:
        """Those of several folds, one after the other."""
        arrays = {kind: np.concatenate([part._arrays[kind] for part in parts]) for kind in parts[0]._arrays}
        return cls(np.concatenate([part.y for part in parts]), parts[0].all_classes, arrays)

    def rows(self, rows: Codes) -> StoredPredictions:
        """Those of some records."""
        arrays = {kind: array[rows] for kind, array in self._arrays.items()}
        return StoredPredictions(self.y[rows], self.all_classes, arrays)


def _is_logistic(model: Any) -> bool:
    """Whether a model, or the last step of a pipeline, is a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline

    return type(model.steps[-1][1] if type(model) is Pipeline else model) is LogisticRegression


def single_column(values: AnyArray) -> AnyArray:
    """A single column as a vector: against a vector it would broadcast to a square."""
    return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


def check_table(probability: Array, n_records: int, n_classes: int) -> None:
    """Refuse probabilities of another shape than records times classes."""
    if probability.shape != (n_records, n_classes):
        raise InputError(f"estimator must give one probability per record and class, got shape {probability.shape}.")


def check_same_kind(y: AnyArray, predicted: AnyArray) -> None:
    """Refuse predicted labels that can equal no target, such as the number 1 for the string "1"."""
    if y.size and predicted.size and _kind(y) != _kind(predicted):
        must = f"estimator must predict labels of the type of y, such as {short(y.flat[0])}"
        raise InputError(f"{must}, got {short(predicted.flat[0])}.")


def _kind(labels: AnyArray) -> str:
    kind = np.asarray(labels.flat[0]).dtype.kind if labels.dtype.kind == "O" else labels.dtype.kind
    return "numbers" if kind in "biuf" else kind
