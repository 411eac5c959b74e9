r"""Metrics that are functions of sums over records: confusion matrices, R² and its like, calibration.

Without unit k every sum loses the unit's own, so all L_{-k} come from one table of sums with one row per unit.

*Of a confusion matrix*, C_ij the weight of records of class i that are called j: balanced accuracy, precision, recall,
F, Jaccard, specificity, Matthews' correlation and Cohen's kappa, averaged over classes as in scikit-learn. A ratio
whose denominator is 0 is 0; an average over classes leaves out those that neither occur nor are predicted.

*Of moments*, with e = y - ŷ and all sums weighted: :math:`R^2 = 1 - \sum e^2 / \sum (y-\bar y)^2`, the explained
variance :math:`1 - \sum (e-\bar e)^2 / \sum (y-\bar y)^2`, and the root of a mean of squares.

*Calibration.* Slope b and intercept a of :math:`\operatorname{logit} P(y=1) = a + b \operatorname{logit} π`, where
π is the predicted probability; for the intercept b is held at 1 (calibration in the large). A slope below 1 shows a
model that is too sure of itself, which leakage hides, so a greater slope counts as better and is shown as it is. The
intercept is shown as its absolute value, an error around 0: over folds its signs would cancel. Probabilities are
clipped at 10⁻⁶. Both are maximum-likelihood estimates, found by Newton steps from b = 0 that are halved until the
likelihood rises, which leads to the maximum of a concave function from everywhere. There is no slope where the
predictions are all the same, or where no record of one class has greater odds than some record of the other: the
likelihood then rises for ever. Such a set of records is treated as one with a single class.

Without unit k a Newton step leads from the estimate θ to that without the unit, :math:`θ_{-k} = θ - (H - H_k)^{-1}
g_k`, with g the gradient and H the information of the log-likelihood. A step that moves all log odds by at most x is
wrong by a share of about x/2, since the information changes by factors between exp(-x) and exp(x). Units whose step
moves some of them by more than 0.05 are fitted until they converge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit, logit

from outofcluster._base.arguments import Array, Bools
from outofcluster.metrics.base import LeftOut, NotDefinedError, Partition, SetMetric, quotients
from outofcluster.metrics.predictions import Predictions

# Smallest probability, and the difference of log odds up to which they are the same but for rounding.
_CLIP, _ROUNDING = 1e-6, 1e-9
# Newton steps, and halvings of each.
_STEPS, _HALVINGS = 100, 40
# What the last step may promise to add to the log-likelihood, for all records and without a unit.
_CONVERGED, _CONVERGED_WITHOUT = 1e-10, 1e-6
# Change of the log odds up to which a single Newton step is enough.
_SMALL_STEP = 0.05
# Cells of a table of records times units, above which units are done a few at a time.
_CELLS = 1_000_000


@dataclass(frozen=True)
class Confusion(SetMetric):
    """A function of confusion matrices of shape (…, classes, classes), true classes first, and of options."""

    function: Callable[..., Array]
    n_classes: int
    options: tuple[tuple[str, Any], ...] = ()

    uses: ClassVar[str] = "classes"

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """The metric, and the metric without each unit."""
        n, function = self.n_classes, partial(self.function, **dict(self.options))
        cell = predictions.codes * n + predictions.classes
        total = np.bincount(cell, weight, n * n).astype(float)
        value = float(function(total.reshape(n, n)))

        def without(part: Partition) -> Array:
            if part.single and weight is None:
                # Only the cell of a record matters.
                rest = np.full(part.count, value)
                rest[part.of] = function(np.maximum(total - np.eye(n * n), 0.0).reshape(-1, n, n))[cell]
                return rest
            of_units = np.bincount(part.of * (n * n) + cell, weight, part.count * n * n).reshape(-1, n * n)
            fewer = np.maximum(total - of_units, 0.0).reshape(-1, n, n)
            return np.where(fewer.any(axis=(1, 2)), function(fewer), value)

        return value, without


def _counts(C: Array) -> tuple[Array, Array, Array]:
    """Records of each class that are rightly called so, that are of it, and that are called so rightly or not."""
    return np.diagonal(C, axis1=-2, axis2=-1), C.sum(axis=-1), C.sum(axis=-2)


def _share(C: Array, parts: tuple[float, float, float], average: str = "binary", positive: int = 1) -> Array:
    """Records rightly called so among parts of those of a class, those called so, and both; averaged over classes.

    The parts (0, 1, 0) give the precision, (1, 0, 0) the recall, (β², 1, 0) F and (1, 1, -1) Jaccard's index.
    """
    right, true, called = _counts(C)
    above, below = sum(parts) * right, parts[0] * true + parts[1] * called + parts[2] * right
    if average == "binary":
        return quotients(above[..., positive], below[..., positive], 0.0)
    if average == "micro":
        return quotients(above.sum(axis=-1), below.sum(axis=-1), 0.0)
    weights = true if average == "weighted" else ((true + called) > 0).astype(float)
    return quotients((quotients(above, below, 0.0) * weights).sum(axis=-1), weights.sum(axis=-1), 0.0)


_precision, _recall, _jaccard = (partial(_share, parts=parts) for parts in ((0, 1, 0), (1, 0, 0), (1, 1, -1)))


def _fbeta(C: Array, beta: float = 1.0, **options: Any) -> Array:
    return _share(C, (beta**2, 1.0, 0.0), **options)


def _specificity(C: Array, positive: int = 1) -> Array:
    return _recall(C, positive=1 - positive)


def _balanced_accuracy(C: Array, adjusted: bool = False) -> Array:
    right, true, _ = _counts(C)
    present = (true > 0).sum(axis=-1)
    score = quotients(quotients(right, true, 0.0).sum(axis=-1), present.astype(float), 0.0)
    if not adjusted:
        return score
    chance = 1 / np.maximum(present, 1)
    return quotients(score - chance, 1 - chance, 0.0)


def _matthews(C: Array) -> Array:
    right, true, called = _counts(C)
    n = C.sum(axis=(-2, -1))
    both = right.sum(axis=-1) * n - (true * called).sum(axis=-1)
    spread = (n**2 - (true**2).sum(axis=-1)) * (n**2 - (called**2).sum(axis=-1))
    return quotients(both, np.sqrt(np.maximum(spread, 0.0)), 0.0)


def _kappa(C: Array) -> Array:
    right, true, called = _counts(C)
    n = C.sum(axis=(-2, -1))
    expected = quotients((true * called).sum(axis=-1), n, 0.0)
    return quotients(right.sum(axis=-1) - expected, n - expected, 0.0)


# Functions of scikit-learn by name, as functions of confusion matrices, and the options that these take.
CONFUSION: dict[str, tuple[Callable[..., Array], tuple[str, ...]]] = {
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


@dataclass(frozen=True)
class Moments(SetMetric):
    """A function of sums of (1, y, y², e, e²) on the last axis, of targets and predictions or of log(1 + x) of them."""

    function: Callable[[Array], Array]
    needs_two: str = "targets"
    logs: bool = False

    uses: ClassVar[str] = "values"

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
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

        def without(part: Partition) -> Array:
            rest = self.function(total - np.stack([part.sums(column) for column in columns], axis=-1))
            return np.where(np.isfinite(rest) & (part.sizes > 0), rest, value)

        return value, without


def _spread(S: Array, first: int) -> Array:
    """Sum of squares about the mean; NaN where there is none."""
    weight = np.where(S[..., 0] > 0, S[..., 0], np.nan)
    return np.asarray(S[..., first + 1] - S[..., first] ** 2 / weight)


def _explained(S: Array, about_mean: bool) -> Array:
    """The share of the targets' spread that the errors leave, about their mean or about 0, taken from 1."""
    spread = _spread(S, 1)
    errors = _spread(S, 3) if about_mean else S[..., 4]
    return 1 - errors / np.where(spread > 1e-14 * S[..., 2] + 1e-300, spread, np.nan)


def _root_mean_square(S: Array) -> Array:
    return np.sqrt(np.maximum(S[..., 4], 0) / np.where(S[..., 0] > 0, S[..., 0], np.nan))


# Functions of scikit-learn by name, as functions of moments, with what their records must hold two of, and logs.
MOMENTS: dict[str, tuple[Callable[[Array], Array], str, bool]] = {
    "r2_score": (partial(_explained, about_mean=False), "targets", False),
    "explained_variance_score": (partial(_explained, about_mean=True), "targets", False),
    "root_mean_squared_error": (_root_mean_square, "", False),
    "root_mean_squared_log_error": (_root_mean_square, "", True),
}


@dataclass(frozen=True)
class Calibration(SetMetric):
    """Slope or absolute intercept of a logistic regression of the outcome on the predicted log odds."""

    slope: bool
    positive: int = 1

    uses: ClassVar[str] = "probabilities"
    needs_two: ClassVar[str] = "classes"

    @property
    def no_value(self) -> str:
        """Why predictions may leave the metric without a value."""
        if self.slope:
            return "the predictions are all the same or separate the classes"
        return "the records that count hold a single class"

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """The metric, and the metric without each unit."""
        is_positive = predictions.codes == self.positive
        odds = logit(np.clip(predictions.probabilities[:, self.positive], _CLIP, 1 - _CLIP))
        w = np.ones(len(odds)) if weight is None else weight
        everything = Partition(np.zeros(len(odds), dtype=np.int64), 2)
        # Without the second unit, which is empty, all records are left.
        if not self._exists(odds, is_positive, w, everything)[1]:
            raise NotDefinedError(self.no_value)
        # The odds are centred and scaled for the fit. Without the slope they are an offset of a single column.
        spread = float(np.sqrt(np.average((odds - np.average(odds, weights=w)) ** 2, weights=w))) if self.slope else 1.0
        centred = (odds - np.average(odds, weights=w)) / spread
        columns = np.stack([np.ones(len(odds)), centred] if self.slope else [np.ones(len(odds))], axis=1)
        fit = _Logistic(columns, np.zeros(len(odds)) if self.slope else odds, is_positive.astype(float))
        theta, converged = fit.solve(w[None], np.zeros((1, columns.shape[1])))
        # A number that is not finite is refused by name.
        value = float(self._of(theta, spread)[0]) if converged[0] else np.nan

        def without(part: Partition) -> Array:
            moved, exists = fit.without_units(w, theta[0], part, self._exists(odds, is_positive, w, part))
            return np.where(exists, self._of(moved, spread), value)

        return value, without

    def _exists(self, odds: Array, is_positive: Bools, weight: Array, part: Partition) -> Bools:
        """Whether the estimate exists without each unit."""
        counted = weight > 0
        (low, high), (low_positive, high_positive) = (
            (-_largest_without(-odds[rows], part.of_rows(rows)), _largest_without(odds[rows], part.of_rows(rows)))
            for rows in (counted & ~is_positive, counted & is_positive)
        )
        if not self.slope:
            return np.isfinite(low) & np.isfinite(low_positive)
        return (high - low_positive > _ROUNDING) & (high_positive - low > _ROUNDING)

    def _of(self, theta: Array, spread: float) -> Array:
        return theta[:, 1] / spread if self.slope else np.abs(theta[:, 0])


def _largest_without(values: Array, part: Partition) -> Array:
    """The largest value of all units but one, for each of them; minus infinity where there is none."""
    largest = np.full(part.count + 1, -np.inf)
    np.maximum.at(largest, part.of, values)
    # The largest of the other units is the second largest for one unit, and the largest for all others.
    second, first = np.argsort(largest, kind="stable")[-2:]
    rest = np.full(part.count, largest[first])
    if first < part.count:
        rest[first] = largest[second]
    return rest


@dataclass(frozen=True, eq=False)
class _Logistic:
    """A logistic regression of few columns, fitted to several sets of weights at once.

    The log odds are the offset plus a combination of the columns; y is 1 for positive records and 0 for the others.
    """

    columns: Array
    offset: Array
    y: Array

    def solve(self, weight: Array, start: Array, enough: float = _CONVERGED) -> tuple[Array, Bools]:
        """The estimates for each row of weights, and whether they converged."""
        theta, converged = start.copy(), np.zeros(len(start), dtype=bool)
        odds, loss = self._losses(theta, weight)
        for _ in range(_STEPS):
            left = np.flatnonzero(~converged)
            if len(left) == 0:
                break
            own, chance = weight[left], expit(odds[left])
            gradient = (own * (self.y - chance)) @ self.columns
            step = _solved((own * chance * (1 - chance)) @ self._squares, gradient)
            promised = (gradient * step).sum(axis=1)
            share = np.ones(len(left))
            for _ in range(_HALVINGS):
                moved = theta[left] + share[:, None] * step
                moved_odds, moved_loss = self._losses(moved, own)
                # Close to the maximum only rounding is left of the difference.
                too_far = ~(moved_loss <= loss[left] - 1e-4 * share * promised + 1e-12 * (1 + np.abs(loss[left])))
                if not too_far.any():
                    break
                share[too_far] /= 2
            usable = ~too_far & np.isfinite(moved).all(axis=1)
            for state, moved_state in ((theta, moved), (odds, moved_odds), (loss, moved_loss)):
                state[left[usable]] = moved_state[usable]
            converged[left] = usable & (np.abs(promised) <= enough)
            if not usable.any():
                break
        return theta, converged

    def without_units(self, weight: Array, theta: Array, part: Partition, exists: Bools) -> tuple[Array, Bools]:
        """The estimates without each unit that has records, and whether there are such."""
        width, squares = self.columns.shape[1], self._squares
        chance = expit(self.columns @ theta + self.offset)
        curvature = weight * chance * (1 - chance)
        scores = (weight * (self.y - chance))[:, None] * self.columns
        own = np.stack([part.sums(scores[:, i]) for i in range(width)], axis=1)
        less = np.stack([part.sums(curvature * squares[:, i]) for i in range(width**2)], axis=1)
        step = np.zeros((part.count, width))
        found = exists & (part.sizes > 0)
        step[found] = _solved(curvature @ squares - less[found], -own[found])
        # Log odds are linear, so that the extremes of the column move the most.
        ends = self.columns[[self.columns[:, -1].argmin(), self.columns[:, -1].argmax()]]
        large = np.flatnonzero(found & ~(np.abs(step @ ends.T).max(axis=1) <= _SMALL_STEP))
        moved = theta + step
        at_once = max(_CELLS // len(self.y), 1)
        for first in range(0, len(large), at_once):
            units = large[first : first + at_once]
            left = np.where(part.of == units[:, None], 0.0, weight)
            moved[units], found[units] = self.solve(left, np.tile(theta, (len(units), 1)), _CONVERGED_WITHOUT)
        return moved, found

    @cached_property
    def _squares(self) -> Array:
        """The products of all pairs of columns, flat."""
        return np.asarray((self.columns[:, :, None] * self.columns[:, None, :]).reshape(len(self.columns), -1))

    def _losses(self, theta: Array, weight: Array) -> tuple[Array, Array]:
        """Log odds for each row of estimates, and minus the log-likelihood."""
        odds = theta @ self.columns.T + self.offset
        return odds, np.asarray((weight * (np.logaddexp(0.0, odds) - self.y * odds)).sum(axis=1))


def _solved(information: Array, gradient: Array) -> Array:
    """Newton steps, one per row, also where hardly any information is left."""
    width = gradient.shape[1]
    matrices = information.reshape(-1, width, width)
    least = 1e-12 * np.trace(matrices, axis1=1, axis2=2) + 1e-300
    steps = np.linalg.solve(matrices + least[:, None, None] * np.eye(width), gradient[:, :, None])
    return np.asarray(steps[:, :, 0])
