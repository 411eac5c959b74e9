r"""Metrics of an order: the area under the ROC curve, average precision, and concordance, without each unit.

*AUC.* With weights w, and W_1 and W_0 their sums over positive and negative records, a positive record's *placement* is
the weight of negative ones below it, ties counted half; that of a negative one is the weight of positive ones above:

.. math:: p_i = \sum_{j: y_j=0} w_j h(s_i - s_j), \quad q_j = \sum_{i: y_i=1} w_i h(s_i - s_j), \quad
          A = \sum_{i: y_i=1} w_i p_i, \quad \text{AUC} = \frac{A}{W_1 W_0}

with h = 1, 1/2, 0 for positive, zero and negative differences. Without unit k all pairs with one of its records are
gone, and those within it would be subtracted twice:

.. math:: A_{-k} = A - \sum_{i ∈ k, y_i=1} w_i p_i - \sum_{j ∈ k, y_j=0} w_j q_j + A_{kk} .

Of several classes it is a mean of such areas, of each class against the rest or of each pair of classes, as in
scikit-learn; classes that the records do not hold are left out of the mean.

*Average precision* is :math:`\sum_t Δ_t P_t / W_1` over thresholds t from the highest score down, Δ_t the weight of
positive records at t and P_t the precision of all records from t on up. Without unit k both lose the unit's part, found
from cumulative sums for each unit; where each unit is one record of weight 1, from cumulative sums over thresholds.

*Concordance* is the share of pairs with different targets that the predictions order in the same way, ties counted
half. For binary targets it is AUC. All pairs are compared, so it takes time that grows with the square of the records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array
from outofcluster._base.rows import order_of_codes
from outofcluster.metrics.predictions import Partition, Predictions

_GUESSING = 0.5
_CELLS = 2_000_000
"""Cells of a table of records times units, above which units are done a few at a time."""
_LEAST = 1e-9
"""Weight below which nothing is left but rounding."""

Bools = NDArray[np.bool_]


def one_class(target: NDArray[Any]) -> str:
    """Why a metric of two classes is not defined for targets; empty where it is."""
    if len(target) and (target != target[0]).any():
        return ""
    return f"its records hold a single class, {target[0].item() if len(target) else None!r}"


@dataclass(frozen=True)
class RocAuc:
    """The area under the ROC curve of two classes.

    Attributes
    ----------
    positive : {0, 1}
        Number of the positive class.
    """

    positive: int = 1
    uses: str = "scores"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Why there is no AUC of these targets."""
        return one_class(target)

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """AUC, and AUC without each unit."""
        scores, order = _by_score(predictions, self.positive)
        return _auc(predictions.codes == self.positive, scores, weight, partitions, order)


def _by_score(predictions: Predictions, positive: int) -> tuple[Array, NDArray[np.int64]]:
    """Scores of the positive class, and the records by increasing score."""
    if positive:
        return predictions.scores, predictions.order
    return -predictions.scores, predictions.order[::-1]


@dataclass(frozen=True)
class RocAucOfSeveral:
    """The mean of the areas of several classes.

    Attributes
    ----------
    n_classes : int
        Number of classes.
    pairs : bool
        Whether the areas are those of pairs of classes, or those of each class against the rest.
    weighted : bool
        Whether areas count by the share of their records, or equally.
    """

    n_classes: int
    pairs: bool = False
    weighted: bool = False
    uses: str = "probabilities"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Why there is no AUC of these targets."""
        return one_class(target)

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """AUC, and AUC without each unit."""
        codes, table = predictions.codes, predictions.probabilities
        w = np.ones(len(codes)) if weight is None else weight
        present = np.flatnonzero(np.bincount(codes, minlength=self.n_classes))
        areas: list[tuple[float, list[Array]]] = []
        shares: list[Array] = []
        if self.pairs:
            for one, two in combinations(present, 2):
                rows = np.flatnonzero((codes == one) | (codes == two))
                own = [Partition(part.of[rows], part.count) for part in partitions]
                first = _auc(codes[rows] == one, table[rows, one], w[rows], own)
                second = _auc(codes[rows] == two, table[rows, two], w[rows], own)
                both: list[Array] = [(left + right) / 2 for left, right in zip(first[1], second[1], strict=True)]
                areas.append(((first[0] + second[0]) / 2, both))
                shares.append(np.where((codes == one) | (codes == two), w, 0.0))
        else:
            for one in present:
                areas.append(_auc(codes == one, table[:, one], w, partitions))
                shares.append(np.where(codes == one, w, 0.0))
        if not self.weighted:
            return _mean([value for value, _ in areas]), [
                np.mean([without[k] for _, without in areas], axis=0) for k in range(len(partitions))
            ]
        totals = np.array([own.sum() for own in shares])
        value = float(np.average([value for value, _ in areas], weights=totals))
        without: list[Array] = []
        for k, part in enumerate(partitions):
            left = totals[:, None] - np.stack([part.sums(own) for own in shares])
            of_units = np.stack([own[k] for _, own in areas])
            total = left.sum(axis=0)
            without.append(np.where(total > 0, (left * of_units).sum(axis=0) / np.where(total > 0, total, 1), value))
        return value, without


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def _auc(
    positive: Bools,
    scores: Array,
    weight: Array | None,
    partitions: Sequence[Partition],
    order: NDArray[np.int64] | None = None,
) -> tuple[float, list[Array]]:
    """The area of positive against negative records, and that without each unit."""
    if order is None:
        order = np.argsort(scores, kind="stable")
    ordered = scores[order]
    first = np.empty(len(order), dtype=bool)
    first[0] = True
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    rank = np.cumsum(first) - 1
    w1 = positive.astype(float) if weight is None else np.where(positive, weight, 0.0)
    w0 = 1.0 - w1 if weight is None else weight - w1
    up, down = w1[order], w0[order]
    pos_at, neg_at = np.bincount(rank, up), np.bincount(rank, down)
    # Weight of negative records below, and of positive ones above, each threshold; ties count half.
    neg_below = np.cumsum(neg_at) - 0.5 * neg_at
    total1, total0 = float(pos_at.sum()), float(neg_at.sum())
    area = float(pos_at @ neg_below)
    value = area / (total1 * total0)
    if not partitions:
        return value, []
    pos_above = total1 - np.cumsum(pos_at) + 0.5 * pos_at
    placed = np.empty(len(order))
    placed[order] = (up * neg_below[rank]) + (down * pos_above[rank])
    without = []
    for part in partitions:
        lost = part.sums(placed)
        if not part.single:
            lost -= _within(part, order, rank, up, down)
        left = (total1 - part.sums(w1)) * (total0 - part.sums(w0))
        defined = left > 1e-12 * total1 * total0
        rest = np.where(defined, (area - lost) / np.where(defined, left, 1.0), _GUESSING)
        without.append(np.where(part.sizes > 0, rest, value))
    return value, without


def _within(part: Partition, order: NDArray[np.int64], rank: NDArray[np.int64], up: Array, down: Array) -> Array:
    """A_kk: the weight of ordered pairs within each unit."""
    by_unit = order_of_codes(part.of[order])
    unit, at = part.of[order][by_unit], rank[by_unit]
    first = np.empty(len(at), dtype=bool)
    first[0] = True
    first[1:] = (unit[1:] != unit[:-1]) | (at[1:] != at[:-1])
    group = np.cumsum(first) - 1
    neg_at, pos_at = np.bincount(group, down[by_unit]), np.bincount(group, up[by_unit])
    of_group = unit[first]
    neg_below = np.cumsum(neg_at) - neg_at
    starts = np.empty(len(of_group), dtype=bool)
    starts[0] = True
    starts[1:] = of_group[1:] != of_group[:-1]
    neg_below -= neg_below[starts][np.cumsum(starts) - 1]
    return np.asarray(np.bincount(of_group, pos_at * (neg_below + 0.5 * neg_at), part.count), dtype=float)


@dataclass(frozen=True)
class AveragePrecision:
    """Average precision of two classes.

    Attributes
    ----------
    positive : {0, 1}
        Number of the positive class.
    """

    positive: int = 1
    uses: str = "scores"
    costly: bool = False

    def undefined(self, target: NDArray[Any]) -> str:
        """Why there is no average precision of these targets."""
        return one_class(target)

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """Average precision, and that without each unit."""
        scores, rising = _by_score(predictions, self.positive)
        order = rising[::-1]
        ordered = scores[order]
        last = np.empty(len(order), dtype=bool)
        last[-1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
        up = (predictions.codes == self.positive)[order].astype(float)
        w = np.ones(len(order)) if weight is None else weight[order]
        if weight is not None:
            up *= w
        true = np.cumsum(up)[last]
        every = np.cumsum(w)[last] if weight is not None else np.flatnonzero(last) + 1.0
        fresh = np.diff(true, prepend=0.0)
        precise = fresh * true / every
        value = float(precise.sum() / true[-1])
        without = []
        group: NDArray[np.int64] = np.cumsum(last) - last
        for part in partitions:
            if part.single and weight is None:
                rest = _each_record(order, group, up, fresh, true, every, precise, part, value)
            else:
                rest = _each_unit(part.of[order], group, up, w, fresh, true, every, part, value)
            without.append(rest)
        return value, without


def _each_record(
    order: NDArray[np.int64],
    group: NDArray[np.int64],
    up: Array,
    fresh: Array,
    true: Array,
    every: Array,
    precise: Array,
    part: Partition,
    value: float,
) -> Array:
    """Average precision without each single record."""
    fewer = np.maximum(every - 1, 1)
    share = fresh / fewer
    moved = share * true
    # Thresholds above a record stay as they are; from its own on down, there is a record less.
    negative = np.cumsum(precise) - precise + np.cumsum(moved[::-1])[::-1]
    positive = negative - np.cumsum(share[::-1])[::-1] - (true - 1) / fewer
    hits, total = up > 0, float(true[-1])
    of_positive = positive / (total - 1) if total > 1 else np.full(len(true), value)
    rest = np.full(part.count, value)
    rest[part.of[order]] = np.where(hits, of_positive[group], negative[group] / total)
    return rest


def _each_unit(
    unit: NDArray[np.int64],
    group: NDArray[np.int64],
    up: Array,
    w: Array,
    fresh: Array,
    true: Array,
    every: Array,
    part: Partition,
    value: float,
) -> Array:
    """Average precision without each unit, from tables of thresholds with positive records times units."""
    rest = np.full(part.count, value)
    # Records between two thresholds with positive ones count from the later of them on; those after the last never.
    with_positive = fresh > 0
    group = (np.cumsum(with_positive) - with_positive)[group]
    true, every, fresh = true[with_positive], every[with_positive], fresh[with_positive]
    n = len(fresh)
    # The records are in order, so those after the last threshold are the last ones.
    end = int(np.searchsorted(group, n))
    unit, group, up, w = unit[:end], group[:end], up[:end], w[:end]
    step = max(1, _CELLS // n)
    for start in range(0, part.count, step):
        width = min(step, part.count - start)
        mine = slice(None) if width == part.count else (unit >= start) & (unit < start + width)
        of, own = unit[mine] - start, up[mine]
        place = group[mine] * width + of
        left = every[:, None] - np.bincount(place, w[mine], n * width).reshape(n, width).cumsum(axis=0)
        hits = true[:, None] - np.bincount(place, own, n * width).reshape(n, width).cumsum(axis=0)
        # Where nothing is left there are no hits either.
        hits /= np.maximum(left, _LEAST)
        lost = np.bincount(of, own * hits.ravel()[place], width)
        positives = true[-1] - np.bincount(of, own, width)
        defined = positives > _LEAST
        rest[start : start + width] = np.where(
            defined, (fresh @ hits - lost) / np.where(defined, positives, 1.0), value
        )
    # A unit without scored records takes nothing away, up to rounding.
    rest[part.sizes == 0] = value
    return rest


@dataclass(frozen=True)
class Concordance:
    """The share of pairs that the predictions order as the targets do."""

    uses: str = "values"
    costly: bool = True

    def undefined(self, target: NDArray[Any]) -> str:
        """Why there is no concordance of these targets."""
        return "" if len(target) and (target != target[0]).any() else "its records all have the same target"

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """Concordance, and that without each unit."""
        target, values = predictions.target.astype(float), predictions.values
        w = np.ones(len(target)) if weight is None else weight
        agreed, compared = np.zeros(len(target)), np.zeros(len(target))
        within = [np.zeros((2, part.count)) for part in partitions]
        step = max(1, _CELLS // len(target))
        for start in range(0, len(target), step):
            rows = slice(start, start + step)
            signs = np.sign(target[rows, None] - target) * w
            both = signs * np.sign(values[rows, None] - values)
            different = np.abs(signs)
            right = 0.5 * (different + both)
            agreed[rows], compared[rows] = w[rows] * right.sum(axis=1), w[rows] * different.sum(axis=1)
            for part, own in zip(partitions, within, strict=True):
                if not part.single:
                    same = part.of[rows, None] == part.of
                    own[0] += np.bincount(part.of[rows], w[rows] * (right * same).sum(axis=1), part.count)
                    own[1] += np.bincount(part.of[rows], w[rows] * (different * same).sum(axis=1), part.count)
        value = float(agreed.sum() / compared.sum())
        without = []
        for part, own in zip(partitions, within, strict=True):
            # Both orders of a pair are counted, so that a unit takes its pairs away twice.
            left = compared.sum() - 2 * part.sums(compared) + own[1]
            defined = left > 1e-9
            rest = (agreed.sum() - 2 * part.sums(agreed) + own[0]) / np.where(defined, left, 1.0)
            without.append(np.where(part.sizes > 0, np.where(defined, rest, _GUESSING), value))
        return value, without
