r"""Metrics that are functions of sums over records: confusion matrices, R² and its like, weighted means, calibration.

Without unit k every sum loses the unit's own, so all L_{-k} come from one table of sums with one row per unit.

*Of a confusion matrix*, C_ij the weight of records of class i that are called j: balanced accuracy, precision, recall,
F, Jaccard, specificity, Matthews' correlation and Cohen's kappa, averaged over classes as in scikit-learn. A ratio
whose denominator is 0 is 0; an average over classes leaves out those that neither occur nor are predicted.

*Of moments*, with e = y - ŷ and all sums weighted: :math:`R^2 = 1 - \sum e^2 / \sum (y-\bar y)^2`, the explained
variance :math:`1 - \sum (e-\bar e)^2 / \sum (y-\bar y)^2`, the root of a mean of squares, and weighted means of record
losses, :math:`\sum wℓ/\sum w`.

*Calibration.* Slope b and intercept a of :math:`\operatorname{logit} P(y=1) = a + b \operatorname{logit} π`, where
π is the predicted probability; for the intercept b is held at 1 (calibration in the large). A slope below 1 shows a
model that is too sure of itself, which leakage hides, so a greater slope counts as better and is shown as it is. The
intercept is shown as its absolute value, an error around 0: over folds its signs would cancel. A normal prior of
standard deviation 10 around b = 1 and a = 0 keeps both finite where the classes are separated; probabilities are
clipped at 10⁻⁶. Without unit k a Newton step leads from the estimate θ to that without the unit,
:math:`θ_{-k} = θ - (H - H_k)^{-1} g_k`, with g the gradient and H the information of the log-likelihood. Where units
have several records, a second step follows, with the gradient at that point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from outofcluster._base.validation import Array
from outofcluster.sampling.metrics.partitions import Partition
from outofcluster.sampling.metrics.predictions import Predictions
from outofcluster.sampling.metrics.ranking import one_class

__all__ = ["CONFUSION", "MOMENTS", "Calibration", "Confusion", "Moments", "WeightedMean"]

_PRIOR = np.array([0.01, 0.01])
_CLIP, _STEPS = 1e-6, 50


@dataclass(frozen=True)
class Confusion:
    """A metric of the confusion matrix.

    Attributes
    ----------
    function : callable
        Of matrices of shape (…, classes, classes), true classes first, and the options.
    n_classes : int
        Number of classes.
    options : tuple of (str, value)
        Options of the function.
    """

    function: Callable[..., Array]
    n_classes: int
    options: tuple[tuple[str, Any], ...] = ()
    uses: str = "classes"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Always defined."""
        return "" if len(target) else "it has no records"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric, and the metric without each unit."""
        n, options = self.n_classes, dict(self.options)
        cell = predictions.codes * n + predictions.classes
        total = np.bincount(cell, weight, n * n).astype(float)
        value = float(self.function(total.reshape(n, n), **options))
        without = []
        for part in partitions:
            if part.single and weight is None:
                # Only the cell of a record matters.
                fewer = np.maximum(total - np.eye(n * n), 0.0).reshape(-1, n, n)
                rest = np.full(part.count, value)
                rest[part.of] = self.function(fewer, **options)[cell]
            else:
                own = np.bincount(part.of * (n * n) + cell, weight, part.count * n * n).reshape(part.count, n * n)
                fewer = np.maximum(total - own, 0.0).reshape(-1, n, n)
                rest = np.where(fewer.any(axis=(1, 2)), self.function(fewer, **options), value)
            without.append(rest)
        return value, without


def _ratio(above: Array, below: Array) -> Array:
    """Above / below, and 0 where that is not defined."""
    positive = below > 0
    return np.asarray(np.where(positive, above / np.where(positive, below, 1.0), 0.0))


def _counts(C: Array) -> tuple[Array, Array, Array]:
    """Records of each class that are called so, that are of it, and that are called so rightly or not."""
    return np.diagonal(C, axis1=-2, axis2=-1), C.sum(axis=-1), C.sum(axis=-2)


def _over_classes(above: Array, below: Array, C: Array, average: str, positive: int | None) -> Array:
    """Ratios of classes, averaged as scikit-learn does."""
    _, true, called = _counts(C)
    if average == "binary":
        return _ratio(above[..., positive], below[..., positive])
    if average == "micro":
        return _ratio(above.sum(axis=-1), below.sum(axis=-1))
    weights = true if average == "weighted" else ((true + called) > 0).astype(float)
    return _ratio((_ratio(above, below) * weights).sum(axis=-1), weights.sum(axis=-1))


def _precision(C: Array, average: str = "binary", positive: int | None = 1) -> Array:
    right, _, called = _counts(C)
    return _over_classes(right, called, C, average, positive)


def _recall(C: Array, average: str = "binary", positive: int | None = 1) -> Array:
    right, true, _ = _counts(C)
    return _over_classes(right, true, C, average, positive)


def _fbeta(C: Array, average: str = "binary", positive: int | None = 1, beta: float = 1.0) -> Array:
    right, true, called = _counts(C)
    return _over_classes((1 + beta**2) * right, beta**2 * true + called, C, average, positive)


def _jaccard(C: Array, average: str = "binary", positive: int | None = 1) -> Array:
    right, true, called = _counts(C)
    return _over_classes(right, true + called - right, C, average, positive)


def _specificity(C: Array, positive: int = 1) -> Array:
    right, true, _ = _counts(C)
    return _ratio(right[..., 1 - positive], true[..., 1 - positive])


def _balanced_accuracy(C: Array, adjusted: bool = False) -> Array:
    right, true, _ = _counts(C)
    present = (true > 0).sum(axis=-1)
    score = _ratio(_ratio(right, true).sum(axis=-1), present.astype(float))
    if not adjusted:
        return score
    chance = 1 / np.maximum(present, 1)
    return _ratio(score - chance, 1 - chance)


def _accuracy(C: Array) -> Array:
    right, true, _ = _counts(C)
    return _ratio(right.sum(axis=-1), true.sum(axis=-1))


def _matthews(C: Array) -> Array:
    right, true, called = _counts(C)
    n = C.sum(axis=(-2, -1))
    both = right.sum(axis=-1) * n - (true * called).sum(axis=-1)
    spread = (n**2 - (true**2).sum(axis=-1)) * (n**2 - (called**2).sum(axis=-1))
    return _ratio(both, np.sqrt(np.maximum(spread, 0.0)))


def _kappa(C: Array) -> Array:
    right, true, called = _counts(C)
    n = C.sum(axis=(-2, -1))
    expected = _ratio((true * called).sum(axis=-1), n)
    return _ratio(right.sum(axis=-1) - expected, n - expected)


CONFUSION: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
    "accuracy_score": (_accuracy, ()),
    "balanced_accuracy_score": (_balanced_accuracy, ("adjusted",)),
    "precision_score": (_precision, ("average", "pos_label")),
    "recall_score": (_recall, ("average", "pos_label")),
    "f1_score": (_fbeta, ("average", "pos_label")),
    "fbeta_score": (_fbeta, ("average", "pos_label", "beta")),
    "jaccard_score": (_jaccard, ("average", "pos_label")),
    "matthews_corrcoef": (_matthews, ()),
    "cohen_kappa_score": (_kappa, ()),
    "sensitivity": (_recall, ("pos_label",)),
    "specificity": (_specificity, ("pos_label",)),
}
"""Functions of scikit-learn by name, as functions of confusion matrices, and the options that these take."""


@dataclass(frozen=True)
class Moments:
    """A metric of the moments of targets and errors.

    Attributes
    ----------
    function : callable
        Of sums of (1, y, y², e, e²), on the last axis.
    logs : bool
        Whether targets and predictions are taken as log(1 + x).
    needs_spread : bool
        Whether it is defined only where targets differ.
    """

    function: Callable[[Array], Array]
    logs: bool = False
    needs_spread: bool = True
    uses: str = "values"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Why the metric is not defined for these targets."""
        if not self.needs_spread or (len(target) and (target != target[0]).any()):
            return ""
        return "its records all have the same target"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric, and the metric without each unit."""
        y, values = predictions.target.astype(float), predictions.values
        if self.logs:
            y, values = np.log1p(y), np.log1p(values)
        e = y - values
        # Moments about the mean, which the metrics do not depend on, lose fewer digits.
        y = y - y.mean()
        columns = [np.ones(len(y)), y, y**2, e, e**2]
        if weight is not None:
            columns = [weight * column for column in columns]
        total = np.array([column.sum() for column in columns])
        value = float(self.function(total))
        without = []
        for part in partitions:
            rest = self.function(total - np.stack([part.sums(column) for column in columns], axis=-1))
            without.append(np.where(np.isfinite(rest) & (part.sizes > 0), rest, value))
        return value, without


def _spread(S: Array, first: int) -> Array:
    """Sum of squares about the mean; NaN where there is none."""
    weight = np.where(S[..., 0] > 0, S[..., 0], np.nan)
    return np.asarray(S[..., first + 1] - S[..., first] ** 2 / weight)


def _r2(S: Array) -> Array:
    spread = _spread(S, 1)
    return 1 - S[..., 4] / np.where(spread > 1e-14 * S[..., 2] + 1e-300, spread, np.nan)


def _explained_variance(S: Array) -> Array:
    spread = _spread(S, 1)
    return 1 - _spread(S, 3) / np.where(spread > 1e-14 * S[..., 2] + 1e-300, spread, np.nan)


def _root_mean_square(S: Array) -> Array:
    return np.sqrt(np.maximum(S[..., 4], 0) / np.where(S[..., 0] > 0, S[..., 0], np.nan))


MOMENTS: dict[str, Moments] = {
    "r2_score": Moments(_r2),
    "explained_variance_score": Moments(_explained_variance),
    "root_mean_squared_error": Moments(_root_mean_square, needs_spread=False),
    "root_mean_squared_log_error": Moments(_root_mean_square, logs=True, needs_spread=False),
}
"""Functions of scikit-learn by name."""


@dataclass(frozen=True)
class WeightedMean:
    """A mean of record losses in which records count by their weights.

    Attributes
    ----------
    losses : callable
        Of predictions: one loss per record.
    uses : str
        The name under which predictions keep these losses.
    """

    losses: Callable[[Predictions], Array]
    uses: str
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Always defined."""
        return "" if len(target) else "it has no records"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The mean, and the mean without each unit."""
        # A set of stored predictions holds the losses already.
        losses = vars(predictions).get(self.uses)
        if losses is None:
            losses = vars(predictions)[self.uses] = self.losses(predictions)
        w = np.ones(len(losses)) if weight is None else weight
        above, below = float(w @ losses), float(w.sum())
        value = above / below
        without = []
        for part in partitions:
            left = below - part.sums(w)
            defined = left > 1e-12 * below
            rest = (above - part.sums(w * losses)) / np.where(defined, left, 1.0)
            without.append(np.where(defined, rest, value))
        return value, without


@dataclass(frozen=True)
class Calibration:
    """Slope or intercept of a logistic regression of the outcome on the predicted log odds.

    Attributes
    ----------
    slope : bool
        The slope, or the absolute intercept.
    positive : {0, 1}
        Number of the positive class.
    """

    slope: bool
    positive: int = 1
    uses: str = "probabilities"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Why the metric is not defined for these targets."""
        return one_class(target)

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric, and the metric without each unit."""
        y = (predictions.codes == self.positive).astype(float)
        odds = logit(np.clip(predictions.probabilities[:, self.positive], _CLIP, 1 - _CLIP))
        w = np.ones(len(y)) if weight is None else weight
        # Without the slope there is a single column, and the odds are an offset.
        columns = np.stack([np.ones(len(y)), odds] if self.slope else [np.ones(len(y))], axis=1)
        centre = np.array([0.0, 1.0])[: columns.shape[1]]
        theta, prior = centre.copy(), np.diag(_PRIOR[: columns.shape[1]])
        offset = np.zeros(len(y)) if self.slope else odds
        for _ in range(_STEPS):
            chance = expit(columns @ theta + offset)
            gradient = columns.T @ (w * (y - chance)) - prior @ (theta - centre)
            information = (columns * (w * chance * (1 - chance))[:, None]).T @ columns + prior
            step = np.linalg.solve(information, gradient)
            theta = theta + step * min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-12))
            if float(np.abs(step).max()) < 1e-10:
                break
        chance = expit(columns @ theta + offset)
        scores = columns * (w * (y - chance))[:, None]
        curvature = w * chance * (1 - chance)
        information = (columns * curvature[:, None]).T @ columns + prior
        without = []
        width = columns.shape[1]
        for part in partitions:
            own = np.stack([part.sums(scores[:, i]) for i in range(width)], axis=1)
            less = np.empty((part.count, width, width))
            for i in range(width):
                for j in range(width):
                    less[:, i, j] = part.sums(curvature * columns[:, i] * columns[:, j])
            moved = theta - np.linalg.solve(information - less, own[:, :, None])[:, :, 0]
            if not part.single:
                there = expit(columns @ moved.T + offset[:, None])
                residual = np.where(part.of[:, None] == np.arange(part.count), 0.0, w[:, None] * (y[:, None] - there))
                slopes = residual.T @ columns - (moved - centre) @ prior
                moved = moved + np.linalg.solve(information - less, slopes[:, :, None])[:, :, 0]
            without.append(np.where(part.sizes > 0, self._of(moved.T), self._of(theta)))
        return float(self._of(theta)), without

    def _of(self, theta: Array) -> Any:
        return theta[1] if self.slope else np.abs(theta[0])
