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

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import ClassVar

import numpy as np

from outofcluster._base.arguments import AnyArray, Array, Bools, Codes
from outofcluster._base.rows import order_of_codes
from outofcluster.metrics.base import LeftOut, Partition, SetMetric, quotients
from outofcluster.metrics.predictions import Predictions

_GUESSING = 0.5
# Cells of a table of records times units, above which units are done a few at a time.
_CELLS = 2_000_000
# Weight below which nothing is left but rounding.
_LEAST = 1e-9


@dataclass(frozen=True)
class _OfTwoClasses(SetMetric):
    """A metric of the order of positive and negative records; the positive class is number 0 or 1."""

    positive: int = 1

    uses: ClassVar[str] = "scores"
    needs_two: ClassVar[str] = "classes"

    def by_score(self, predictions: Predictions) -> tuple[Bools, Array, Codes]:
        """Which records are positive, their scores, and the records by increasing score."""
        is_positive = predictions.codes == self.positive
        if self.positive:
            return is_positive, predictions.scores, predictions.order
        return is_positive, -predictions.scores, predictions.order[::-1]


@dataclass(frozen=True)
class RocAuc(_OfTwoClasses):
    """The area under the ROC curve of two classes."""

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """AUC, and AUC without each unit."""
        return _auc(*self.by_score(predictions), weight)


@dataclass(frozen=True)
class RocAucOfSeveral(SetMetric):
    """The mean of the areas of pairs of classes, or of each class against the rest; equally or by share of records."""

    pairs: bool = False
    by_share: bool = False

    uses: ClassVar[str] = "probabilities"
    needs_two: ClassVar[str] = "classes"

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """AUC, and AUC without each unit."""
        codes, table = predictions.codes, predictions.probabilities
        w = np.ones(len(codes)) if weight is None else weight
        present = np.unique(codes)
        # For each area its records, the records by whose weight it counts, its value, and that without units.
        areas: list[tuple[Codes, Array, float, Callable[[Partition], Array]]] = []
        for classes in combinations(present, 2) if self.pairs else ((one,) for one in present):
            of_classes = np.isin(codes, classes)
            rows = np.flatnonzero(of_classes) if self.pairs else np.arange(len(codes))
            for one in classes:
                scores = table[rows, one]
                area = _auc(codes[rows] == one, scores, np.argsort(scores, kind="stable"), w[rows])
                areas.append((rows, np.where(of_classes, w, 0.0), *area))
        totals = [counted.sum() if self.by_share else 1.0 for _, counted, _, _ in areas]
        value = float(np.average([each for _, _, each, _ in areas], weights=totals))

        def without(part: Partition) -> Array:
            lost = [part.sums(counted) if self.by_share else np.zeros(part.count) for _, counted, _, _ in areas]
            left = np.array(totals)[:, None] - lost
            each = left * [of_units(part.of_rows(rows)) for rows, _, _, of_units in areas]
            return quotients(each.sum(axis=0), left.sum(axis=0), value)

        return value, without


def _starts(*columns: AnyArray) -> Bools:
    """Which entries of sorted columns differ from those before them."""
    first = np.zeros(len(columns[0]), dtype=bool)
    first[0] = True
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def _auc(positive: Bools, scores: Array, order: Codes, weight: Array | None) -> LeftOut:
    """The area of positive against negative records, and that without each unit."""
    rank = np.cumsum(_starts(scores[order])) - 1
    w1 = positive.astype(float) if weight is None else np.where(positive, weight, 0.0)
    w0 = 1.0 - w1 if weight is None else weight - w1
    up, down = w1[order], w0[order]
    pos_at, neg_at = np.bincount(rank, up), np.bincount(rank, down)
    # Weight of negative records below, and of positive ones above, each threshold; ties count half.
    neg_below = np.cumsum(neg_at) - 0.5 * neg_at
    total1, total0 = float(pos_at.sum()), float(neg_at.sum())
    area = float(pos_at @ neg_below)
    value = area / (total1 * total0)

    def without(part: Partition) -> Array:
        pos_above = total1 - np.cumsum(pos_at) + 0.5 * pos_at
        placed = np.empty(len(order))
        placed[order] = (up * neg_below[rank]) + (down * pos_above[rank])
        lost = part.sums(placed)
        if not part.single:
            lost -= _within(part, order, rank, up, down)
        left = (total1 - part.sums(w1)) * (total0 - part.sums(w0))
        return np.where(part.sizes > 0, quotients(area - lost, left, _GUESSING, 1e-12 * total1 * total0), value)

    return value, without


def _within(part: Partition, order: Codes, rank: Codes, up: Array, down: Array) -> Array:
    """A_kk: the weight of ordered pairs within each unit."""
    by_unit = order_of_codes(part.of[order])
    unit, at = part.of[order][by_unit], rank[by_unit]
    first = _starts(unit, at)
    group = np.cumsum(first) - 1
    neg_at, pos_at = np.bincount(group, down[by_unit]), np.bincount(group, up[by_unit])
    of_group = unit[first]
    neg_below = np.cumsum(neg_at) - neg_at
    starts = _starts(of_group)
    neg_below -= neg_below[starts][np.cumsum(starts) - 1]
    return np.asarray(np.bincount(of_group, pos_at * (neg_below + 0.5 * neg_at), part.count), dtype=float)


@dataclass(frozen=True)
class AveragePrecision(_OfTwoClasses):
    """Average precision of two classes."""

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """Average precision, and that without each unit."""
        is_positive, scores, rising = self.by_score(predictions)
        order = rising[::-1]
        last = np.roll(_starts(scores[order]), -1)
        w = np.ones(len(order)) if weight is None else weight[order]
        up = is_positive[order] * w
        true, every = np.cumsum(up)[last], np.cumsum(w)[last]
        falling = _Falling(order, np.cumsum(last) - last, up, w, np.diff(true, prepend=0.0), true, every)
        value = float(falling.precise.sum() / true[-1])

        def without(part: Partition) -> Array:
            one_by_one = part.single and weight is None
            return falling.each_record(part, value) if one_by_one else falling.each_unit(part, value)

        return value, without


@dataclass(frozen=True, eq=False)
class _Falling:
    """Records by falling score, and sums over thresholds from the highest score down.

    In this order the records have the numbers ``group`` of their thresholds, weights ``w``, and weights ``up`` that are
    0 for negative records. Each threshold has ``fresh``, the weight of positive records at it, and ``true`` and
    ``every``, the weights of positive and of all records from it on up.
    """

    order: Codes
    group: Codes
    up: Array
    w: Array
    fresh: Array
    true: Array
    every: Array

    @property
    def precise(self) -> Array:
        """What each threshold adds to average precision, times the weight of positive records."""
        return self.fresh * self.true / self.every

    def each_record(self, part: Partition, value: float) -> Array:
        """Average precision without each single record."""
        true, precise = self.true, self.precise
        fewer = np.maximum(self.every - 1, 1)
        share = self.fresh / fewer
        moved = share * true
        # Thresholds above a record stay as they are; from its own on down, there is a record less.
        negative = np.cumsum(precise) - precise + np.cumsum(moved[::-1])[::-1]
        positive = negative - np.cumsum(share[::-1])[::-1] - (true - 1) / fewer
        hits, total = self.up > 0, float(true[-1])
        of_positive = positive / (total - 1) if total > 1 else np.full(len(true), value)
        rest = np.full(part.count, value)
        rest[part.of[self.order]] = np.where(hits, of_positive[self.group], negative[self.group] / total)
        return rest

    def each_unit(self, part: Partition, value: float) -> Array:
        """Average precision without each unit, from tables of thresholds with positive records times units."""
        rest = np.full(part.count, value)
        # Records between two thresholds with positive ones count from the later of them on; those after the last never.
        with_positive = self.fresh > 0
        group: Codes = (np.cumsum(with_positive) - with_positive)[self.group]
        true, every, fresh = (sums[with_positive] for sums in (self.true, self.every, self.fresh))
        n = len(fresh)
        # The records are in order, so those after the last threshold are the last ones.
        end = int(np.searchsorted(group, n))
        unit, group, up, w = part.of[self.order][:end], group[:end], self.up[:end], self.w[:end]
        step = max(1, _CELLS // n)
        for start in range(0, part.count, step):
            width = min(step, part.count - start)
            chosen = slice(None) if width == part.count else (unit >= start) & (unit < start + width)
            of, hit_weight = unit[chosen] - start, up[chosen]
            cell = group[chosen] * width + of
            left = every[:, None] - np.bincount(cell, w[chosen], n * width).reshape(n, width).cumsum(axis=0)
            hits = true[:, None] - np.bincount(cell, hit_weight, n * width).reshape(n, width).cumsum(axis=0)
            # Where nothing is left there are no hits either.
            hits /= np.maximum(left, _LEAST)
            lost = np.bincount(of, hit_weight * hits.ravel()[cell], width)
            positives = true[-1] - np.bincount(of, hit_weight, width)
            rest[start : start + width] = quotients(fresh @ hits - lost, positives, value, _LEAST)
        # A unit without scored records takes nothing away, up to rounding.
        rest[part.sizes == 0] = value
        return rest


@dataclass(frozen=True)
class Concordance(SetMetric):
    """The share of pairs that the predictions order as the targets do."""

    uses: ClassVar[str] = "values"
    needs_two: ClassVar[str] = "targets"
    costly: ClassVar[bool] = True

    def evaluate(self, predictions: Predictions, weight: Array | None) -> LeftOut:
        """Concordance, and that without each unit."""
        target, values = predictions.target.astype(float), predictions.values
        w = np.ones(len(target)) if weight is None else weight
        pairs = _pairs(target, values, w)
        agreed, compared = totals = pairs.sum(axis=1)
        value = float(agreed / compared)

        def without(part: Partition) -> Array:
            # Both orders of a pair are counted, so that a unit takes its pairs away twice, and those within it once.
            left = totals[:, None] - 2 * np.stack([part.sums(sums) for sums in pairs])
            for unit in np.flatnonzero(part.sizes > 1):
                rows = np.flatnonzero(part.of == unit)
                left[:, unit] += _pairs(target[rows], values[rows], w[rows]).sum(axis=1)
            return np.where(part.sizes > 0, quotients(left[0], left[1], _GUESSING, _LEAST), value)

        return value, without


def _pairs(target: Array, values: Array, w: Array) -> Array:
    """The weight of the pairs of every record that are ordered alike, ties counted half, and of those compared."""
    sums, step = np.zeros((2, len(target))), max(1, _CELLS // len(target))
    for start in range(0, len(target), step):
        rows = slice(start, start + step)
        signs = np.sign(target[rows, None] - target) * w
        both = signs * np.sign(values[rows, None] - values)
        different = np.abs(signs).sum(axis=1)
        sums[:, rows] = w[rows] * np.stack([0.5 * (different + both.sum(axis=1)), different])
    return sums
