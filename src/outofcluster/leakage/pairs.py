r"""The leakage rate that follows from the match probabilities of a linkage tool.

**Pairs of clusters.** Approximate clusters A and B belong to one true cluster with probability :math:`m_{AB}`, the
largest over their pairs of records: if one record of A matches a record of B, all of A leaks to B. With odds
:math:`o = m/(1-m)` and A belonging with at most one of the clusters on the other side, it leaks with probability
:math:`q_A = S/(1+S)`, :math:`S = \sum_B o_{AB}` over the other side. For K folds each B is there with probability s (φ,
the validation share, for p0 and 1-φ for rho0), independently, and :math:`1/(1+S) = \int_0^1 u^S du` gives the average

.. math:: q_A = 1 - \int_0^1 \prod_B (1 - s + s\,u^{o_{AB}})\, du \qquad (= s\,m_{AB}\ \text{for one candidate}) ,

between the averages of max m and of min(1, Σ m). Decision: only candidates on a fold's other side compete, as in a
fixed split. Sharing out one unit of probability over all candidates, :math:`s \sum_B o/(1+\sum_B o)`, contradicts
calibration: two candidates at ½ would leak s·⅔, where calibrated ones leak between s - s²/2 and s. The rate is the
mean of q over records, clusters counting by their records.

**All true pairs.** Where blocking's recall b is known (1 if all pairs were compared) and pairs inside clusters are
listed too, all true pairs across clusters can be counted, and two corrections are made.

- *Below the threshold.* Pairs that match in spite of a small m are often joined by way of other records, so the pairs
  that are left across clusters match less often than m says. Pairs inside clusters match as the best path of links
  does; what this adds to their m, up to a half, is taken off the matches across clusters, by a factor on the odds.
- *Never compared.* Of the true pairs, :math:`Σ m · (1-b)/b` were not compared. This is mostly far more than what lies
  below the threshold: most true pairs are linked, so a recall of 0.9 hides one for every nine of them. Some of them do
  no harm: they lie inside clusters, by way of others (the pairs inside that were not compared, by paths), or between
  clusters A and B of which other pairs were compared (|A||B| less the number compared, times their mean m, and at most
  (1-b)/b times those compared). The rest is not seen.

The pairs that are not seen leak the share of records that
:func:`outofcluster.leakage.precision_recall.leaked_by_missed_pairs` gives, as if single records were lost, and combine
with :math:`q` as 1 - (1-seen)(1-unseen). The same function, for all true pairs across clusters, gives a second
estimate, which does not depend on which candidates compete. The rate is the geometric mean of the two, and half their
distance is part of the standard error.

**A lower bound.** The rate rises as b falls, so that without b the rate at b = 1 is a lower bound. That of the listed
pairs alone was mostly larger in simulations, up to twice as large where entities have several records: it takes pairs
below the threshold for matches as often as m says, though those that match were mostly joined by way of others. Where
entities have one or two records there are no such ways, and it was the smaller one. The smaller of the two counts.

**Recalibration.** Pairs that somebody reviewed count as they were found, and teach an intercept and a slope of the
log-odds of all others, as in :mod:`outofcluster.leakage.review`.

**The standard error** adds the variances of the matches, all records of a pair of clusters matching together or not at
all; of what is not known about several candidates, a quarter of the distance between the two bounds above; of the
number of pairs not compared, true pairs coming in whole clusters; of b; and of the recalibration, by the delta method.
It is for the average over folds; the luck of one assignment to folds is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.sparse.csgraph import shortest_path
from scipy.special import expit, logit

from outofcluster._base.arguments import (
    Array,
    as_array,
    check_number,
    check_share,
    check_vector,
    listed,
    refuse_unhashable,
    short,
)
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import order_of_codes
from outofcluster.leakage.precision_recall import leaked_by_missed_pairs
from outofcluster.leakage.review import check_answer, is_missing, recalibrate
from outofcluster.leakage.splits import Rates, Side, Split, below_one, counted_and_other, read_split, same_index
from outofcluster.problem.folds import Clusters, Rows, check_labels

# Nodes and weights on (0, 1) that stay exact for odds from tiny to huge: u = expit(π sinh s) (double exponential),
# with -log(u) in place of u so that nothing is lost near 1.
_STEP = np.linspace(-3.2, 3.2, 129)
_DECAY = np.logaddexp(0, -np.pi * np.sinh(_STEP))
_WEIGHT = expit(np.pi * np.sinh(_STEP)) * expit(-np.pi * np.sinh(_STEP)) * np.cosh(_STEP)
_WEIGHT /= _WEIGHT.sum()

# Row numbers are doubted if so many pairs are so likely, and more than this share of them lies across clusters.
_LIKELY, _MANY_LIKELY, _MOSTLY = 0.95, 20, 0.9
# Probabilities are kept so far away from 0 and 1 before they become log-odds.
_CERTAIN = 1e-9
# Step of the numerical derivatives with respect to the recalibration.
_STEP_OF_THETA = 1e-4

# Share of the matches across clusters that is left at least: at low thresholds many paths inside them are wrong.
_LEAST_LEFT = 0.5
# Largest change of the log-odds of pairs across clusters.
_LARGEST_SCALE = 12.0
# Least length, -log m, of a link on a path inside a cluster.
_SHORTEST_LINK = 1e-6
# Records of a cluster up to which paths inside it are followed.
_LARGEST_CLUSTER = 400


@dataclass(frozen=True, eq=False)
class Linkage:
    """What a linkage gives: pairs by the names of their records, and the cluster of every record."""

    left: Any
    right: Any
    probability: Any
    groups: Any
    # The name of every record in the order of ``groups``; None where pairs are named by row numbers.
    ids: Any = None
    blocking_recall: Any = None


def rates_of_pairs(linkage: Linkage, cv: Any, sides: tuple[Side, ...], reviewed: Any) -> Rates:
    """Rates and standard errors; see :meth:`outofcluster.Leakage.from_pair_probabilities` for the arguments."""
    recall = _read_recall(linkage.blocking_recall)
    pairs, split = _read_pairs(linkage, cv)
    if reviewed is None:
        return {of: _rate(pairs, split, of, recall) for of in sides}
    answers = _read_review(reviewed, len(linkage.probability))[pairs.position]
    known = ~np.isnan(answers)
    log_odds = logit(np.clip(pairs.m, _CERTAIN, 1 - _CERTAIN))
    theta, spread = recalibrate(log_odds[known], answers[known])

    def rate_at(theta: Array, of: Side) -> tuple[float, float]:
        m = np.where(pairs.m > 0, expit(theta[0] + theta[1] * log_odds), 0.0)
        return _rate(replace(pairs, m=np.where(known, answers, m)), split, of, recall)

    rates: Rates = {}
    for of in sides:
        rate, std = rate_at(theta, of)
        steps = _STEP_OF_THETA * np.eye(2)
        moved = [rate_at(theta + step, of)[0] - rate_at(theta - step, of)[0] for step in steps]
        gradient = np.array(moved) / (2 * _STEP_OF_THETA)
        rates[of] = rate, math.hypot(std, math.sqrt(float(gradient @ spread @ gradient)))
    return rates


@dataclass(frozen=True, eq=False)
class Pairs:
    """Checked pairs of records, each once: rows, probabilities, and the clusters of all records."""

    one: Rows
    two: Rows
    m: Array
    # Position of each pair among those that the user listed.
    position: Rows
    codes: Rows

    @property
    def across(self) -> NDArray[np.bool_]:
        """Which pairs lie between two approximate clusters."""
        apart: NDArray[np.bool_] = self.codes[self.one] != self.codes[self.two]
        return apart

    @property
    def clusters_across(self) -> tuple[Rows, Rows]:
        """The two clusters of each of these pairs."""
        return self.codes[self.one[self.across]], self.codes[self.two[self.across]]


def _unit(one: Rows, two: Rows, n_clusters: int) -> Rows:
    """The number of a pair of clusters, the same both ways."""
    unit: Rows = np.minimum(one, two) * n_clusters + np.maximum(one, two)
    return unit


@dataclass(frozen=True, eq=False)
class Candidates:
    """For the clusters of one side, the clusters that they may belong with: sorted by cluster, each pair once."""

    size: int  # records of the side
    share: float  # probability that a candidate is on the other side; 1 where only those that are there are listed
    cluster: Rows
    records: Array  # records of that cluster on this side
    m: Array
    unit: Rows

    @classmethod
    def of(cls, pairs: Pairs, records: Rows, share: float, there: Rows) -> Candidates:
        """Candidates of the clusters that have ``records`` on this side, among those that are ``there``."""
        one, two = pairs.clusters_across
        cluster, mate, m = np.concatenate([one, two]), np.concatenate([two, one]), np.tile(pairs.m[pairs.across], 2)
        order = np.lexsort((m, mate, cluster))
        order = order[(records[cluster[order]] > 0) & (there[mate[order]] > 0)]
        cluster, mate, m = cluster[order], mate[order], m[order]
        # The last of equal pairs is the most probable one.
        last = np.ones(len(m), dtype=bool)
        last[:-1] = (cluster[1:] != cluster[:-1]) | (mate[1:] != mate[:-1])
        cluster, mate, m = cluster[last], mate[last], m[last]
        weight = records[cluster].astype(float)
        return cls(int(records.sum()), share, cluster, weight, m, _unit(cluster, mate, len(records)))

    @cached_property
    def start(self) -> Rows:
        """Where the candidates of each cluster start."""
        return np.flatnonzero(np.diff(self.cluster, prepend=-1))

    def bounds(self) -> tuple[float, float]:
        """That share if the most probable candidate alone counts, and if candidates exclude each other."""
        records = self.records[self.start] / self.size
        largest, together = np.maximum.reduceat(self.m, self.start), np.add.reduceat(self.m, self.start)
        return float(self.share * largest @ records), float(np.minimum(self.share * together, 1) @ records)

    def leaked(self) -> float:
        """The expected share of the side's records that leak."""
        with np.errstate(divide="ignore"):
            odds = self.m / (1 - self.m)
        if self.share == 1:
            leaks = -np.expm1(-np.log1p(np.add.reduceat(odds, self.start)))
        else:
            leaks = self.share * self.m[self.start]
            count = np.diff(self.start, append=len(self.m))
            several = count > 1
            odds, count = odds[np.repeat(several, count)], count[several]
            first = np.cumsum(count) - count
            safe = np.zeros(len(count))
            for decay, weight in zip(_DECAY, _WEIGHT, strict=True):
                safe += weight * np.multiply.reduceat(1 + self.share * np.expm1(-odds * decay), first)
            leaks[several] = 1 - safe
        return float(leaks @ self.records[self.start]) / self.size


def _rate(pairs: Pairs, split: Split, of: Side, recall: tuple[float, float] | None) -> tuple[float, float]:
    """The rate of one side and its standard error."""
    if recall is None:
        # Nothing can be said about pairs that were not compared, so that it is at least as if there were none.
        rate, std = min(_seen(pairs, split, of)[:2], _seen_and_unseen(pairs, split, of, recall=1.0, recall_std=0.0))
    else:
        rate, std = _seen_and_unseen(pairs, split, of, *recall)
    return below_one(rate, "probability"), std


def _seen(pairs: Pairs, split: Split, of: Side) -> tuple[float, float, float]:
    """The rate by the pairs that are listed, its standard error, and the share of the other side."""
    sizes = np.bincount(pairs.codes)
    if isinstance(split, float):
        shares = [split if of == "train" else 1 - split]
        parts = [Candidates.of(pairs, sizes, shares[0], sizes)]
    else:
        parts, shares = [], []
        for sides in (counted_and_other(fold, of) for fold in split):
            records, there = (np.bincount(pairs.codes[rows], minlength=len(sizes)) for rows in sides)
            parts.append(Candidates.of(pairs, records, 1.0, there))
            shares.append(len(sides[1]) / (len(sides[0]) + len(sides[1])))
    rate = sum(part.leaked() for part in parts) / len(parts)
    units = np.concatenate([part.unit for part in parts])
    spread = [part.share * part.records / part.size * np.sqrt(part.m * (1 - part.m)) for part in parts]
    together = np.bincount(np.unique(units, return_inverse=True)[1], np.concatenate(spread)) / len(parts)
    low, high = np.mean([part.bounds() for part in parts], axis=0)
    std = math.hypot(math.sqrt(float(together @ together)), (high - low) / 4)
    return rate, std, float(np.mean(shares))


def _seen_and_unseen(pairs: Pairs, split: Split, of: Side, recall: float, recall_std: float) -> tuple[float, float]:
    """The rate by all true pairs across clusters, listed or not, and its standard error."""
    across = pairs.across
    sizes = np.bincount(pairs.codes).astype(float)
    pairs_inside = float((sizes * (sizes - 1) / 2).sum())
    if not (~across).any():
        if recall < 1 and pairs_inside > 0:
            raise InputError(
                "probability must list the pairs inside clusters too where blocking_recall is below 1, got none of "
                "them: all matches that blocking compared are needed to know how many it missed."
            )
        return _seen(pairs, split, of)[:2]
    matched, matched_across = float(pairs.m.sum()), float(pairs.m[across].sum())
    joined, joined_unlisted = _joined(pairs)
    left = max(matched_across - joined, _LEAST_LEFT * matched_across)
    rate, std, share = _seen(_with_matches(pairs, left), split, of)
    missing = (1 - recall) / recall
    between = _between(pairs, sizes, missing)
    elsewhere = joined_unlisted + between

    def unseen(missed: float) -> float:
        return max(missed - elsewhere, 0.0) if missing > 0 else 0.0

    # Pairs come in whole entities, which are compared or not, and match or not, together to some extent.
    in_one_entity = max(float(((sizes * (sizes - 1) / 2) ** 2).sum()) / pairs_inside if pairs_inside else 1.0, 1.0)
    missed_std = math.hypot(math.sqrt(matched / recall * missing * in_one_entity), matched / recall**2 * recall_std)
    left_std = math.sqrt(float((pairs.m * (1 - pairs.m)).sum()) * min(in_one_entity, 2.0))
    expected = matched * missing
    true_pairs = matched + elsewhere + unseen(expected)

    def leaked(missed: float) -> float:
        return leaked_by_missed_pairs(sizes, min(missed, true_pairs), true_pairs, share) if missed > 0 else 0.0

    hidden, hidden_std = leaked(unseen(expected)), leaked(unseen(expected + missed_std)) - leaked(unseen(expected))
    by_cluster = 1 - (1 - rate) * (1 - hidden)
    by_cluster_std = math.hypot((1 - hidden) * std, (1 - rate) * hidden_std)
    total = left + between + unseen(expected)
    total_std = math.hypot(left_std, unseen(expected + missed_std) - unseen(expected))
    by_count, by_count_std = leaked(total), leaked(total + total_std) - leaked(total)
    # The two ways from pairs to records err in different directions: their mean is nearer, and their distance counts.
    middle = math.sqrt(by_cluster * by_count)
    return middle, math.hypot((by_cluster_std + by_count_std) / 2, (by_cluster - by_count) / 2)


def _with_matches(pairs: Pairs, matches: float) -> Pairs:
    """The same pairs, the odds of those across clusters scaled so that so many of them match."""
    across = pairs.across
    m = pairs.m[across]
    if matches >= m.sum() * (1 - 1e-9):
        return pairs
    certain = m == 1
    odds = m[~certain] / (1 - m[~certain])

    def excess(log_scale: float) -> float:
        scaled = math.exp(log_scale) * odds
        return float((scaled / (1 + scaled)).sum() + certain.sum() - matches)

    if excess(-_LARGEST_SCALE) > 0:
        return pairs
    scale = math.exp(brentq(excess, -_LARGEST_SCALE, 0))
    changed = pairs.m.copy()
    changed[np.flatnonzero(across)[~certain]] = scale * odds / (1 + scale * odds)
    return replace(pairs, m=changed)


def _joined(pairs: Pairs) -> tuple[float, float]:
    """Matches inside clusters beyond the probabilities: among listed pairs, and among those that are not listed.

    Two records that are joined by way of others match as probably as all links of the best path do.
    """
    inside = np.flatnonzero(~pairs.across)
    cluster = pairs.codes[pairs.one[inside]]
    order = order_of_codes(cluster)
    inside, cluster = inside[order], cluster[order]
    listed = unlisted = 0.0
    for links in np.split(inside, np.flatnonzero(np.diff(cluster)) + 1):
        if len(links) < 2:
            continue
        members, member = np.unique(np.concatenate([pairs.one[links], pairs.two[links]]), return_inverse=True)
        one, two = np.split(member, 2)
        size, m = len(members), pairs.m[links]
        if size > _LARGEST_CLUSTER:
            unlisted += (size * (size - 1) / 2 - len(links)) * float(m.mean())
            continue
        # 0 stands for no link, and so does what scipy takes for 0, which is anything below 1e-8.
        weights = np.zeros((size, size))
        weights[one, two] = np.maximum(-np.log(np.maximum(m, 1e-12)), _SHORTEST_LINK)
        by_path = np.exp(-shortest_path(weights, directed=False))
        listed += float(np.maximum(by_path[one, two] - m, 0).sum())
        unlisted += float((by_path.sum() - size) / 2 - np.maximum(by_path[one, two], m).sum())
    return listed, max(unlisted, 0.0)


def _between(pairs: Pairs, sizes: Array, missing: float) -> float:
    """True pairs that were not compared, between clusters of which other pairs were; at most as many as expected."""
    of_pair = _unit(*pairs.clusters_across, len(sizes))
    units, number, compared = np.unique(of_pair, return_inverse=True, return_counts=True)
    together = np.bincount(number, pairs.m[pairs.across]) / compared
    low, high = np.divmod(units, len(sizes))
    return float(together @ np.minimum(sizes[low] * sizes[high] - compared, compared * missing))


def _read_recall(blocking_recall: Any) -> tuple[float, float] | None:
    """The recall and its standard error, from a number, a pair, or the result of `capture_recapture`."""
    if blocking_recall is None:
        return None
    value, std = blocking_recall, 0.0
    if hasattr(blocking_recall, "recall"):
        value, std = blocking_recall.recall, blocking_recall.std
    elif isinstance(blocking_recall, tuple | list):
        if len(blocking_recall) != 2:
            raise InputError(
                f"blocking_recall must be a number or a pair (recall, standard error), got {short(blocking_recall)}."
            )
        value, std = blocking_recall
    return check_share("blocking_recall", value, "(0, 1]"), check_number("blocking_recall's std", std, least=0)


def _read_pairs(linkage: Linkage, cv: Any) -> tuple[Pairs, Split]:
    """Checked pairs, each once, and the validation share or the splits."""
    clusters = Clusters.of(linkage.groups, None)
    n, left, right = len(clusters.codes), linkage.left, linkage.right
    same_index(("left", left), ("right", right), ("probability", linkage.probability))
    m = check_vector("probability", linkage.probability)
    if m.min() < 0 or m.max() > 1:
        i = int(np.flatnonzero((m < 0) | (m > 1))[0])
        raise InputError(f"probability must lie in [0, 1], got probability[{i}] = {m[i]:g}.")
    if linkage.ids is None:
        _doubt_names(left, right)
        one, two = _check_records("left", left, len(m), n), _check_records("right", right, len(m), n)
    else:
        row_of = read_ids(linkage.ids, n)
        one, two = _find("left", left, len(m), row_of), _find("right", right, len(m), row_of)
    pairs = _each_once(one, two, m, clusters.codes)
    split = read_split(cv, clusters)
    across = pairs.across
    if not across.any():
        raise InputError(
            f"probability must list pairs across clusters, got {len(m)} pairs that are all inside one: they are links, "
            "and what leaks are the pairs below the threshold; ask the tool for pairs down to small probabilities."
        )
    likely = pairs.m >= _LIKELY
    if linkage.ids is None and likely.sum() >= _MANY_LIKELY and across[likely].mean() > _MOSTLY:
        raise InputError(
            f"left and right must hold row numbers where ids is None, but {int((likely & across).sum())} of the "
            f"{int(likely.sum())} pairs with probability {_LIKELY:g} or more lie across clusters; "
            "give ids=, if need be the row numbers."
        )
    return pairs, split


def _each_once(one: Rows, two: Rows, m: Array, codes: Rows) -> Pairs:
    """Each pair once, without records paired with themselves; other probabilities for the same pair are refused."""
    position = np.flatnonzero(one != two)
    low, high = np.minimum(one, two)[position], np.maximum(one, two)[position]
    order = np.lexsort((high, low))
    low, high, position = low[order], high[order], position[order]
    again = np.zeros(len(low), dtype=bool)
    again[1:] = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    other = np.flatnonzero(again & (m[position] != np.roll(m[position], 1)))
    if len(other):
        first, second = sorted(position[other[0] - 1 : other[0] + 1])
        raise InputError(
            f"probability must be the same wherever a pair is listed, got {m[first]:g} in row {first} and "
            f"{m[second]:g} in row {second} for the same two records."
        )
    kept = np.sort(position[~again])
    return Pairs(one[kept], two[kept], m[kept], kept, codes)


def _read_review(reviewed: Any, count: int) -> Array:
    """For every pair that was listed whether it matches, 1 or 0; NaN where nobody looked."""
    if isinstance(reviewed, Mapping):
        answers = dict(reviewed)
    else:
        values = listed("reviewed", reviewed)
        if len(values) != count:
            raise InputError(
                f"reviewed must map pairs to answers, or have one value for each of the {count} pairs, "
                f"got {len(values)}."
            )
        answers = {i: answer for i, answer in enumerate(values) if not is_missing(answer)}
    if not answers:
        raise InputError("reviewed must hold an answer for at least one pair, got none.")
    matches = np.full(count, np.nan)
    for i, answer in answers.items():
        if isinstance(i, bool) or not isinstance(i, int | np.integer) or not 0 <= i < count:
            raise InputError(f"reviewed must name pairs by their place, 0 to {count - 1}, got {short(i)}.")
        matches[i] = check_answer(answer, "pair", f"pair {i}")
    return matches


def _doubt_names(*columns: Any) -> None:
    for values in columns:
        name = str(getattr(values, "name", "") or "")
        if "id" in name.lower().split("_"):
            raise InputError(
                f"ids must be given, the name of every record in the data's order, since the pairs are named by "
                f"the column {short(name)}, and not by row numbers."
            )


def _check_records(name: str, rows: Any, count: int, n: int) -> Rows:
    must = f"{name} must hold one row number for each of {count} pairs"
    array = as_array(must, rows)
    if array.dtype.kind not in "iu" or array.shape != (count,):
        raise InputError(f"{must}, got {array.dtype} {array.shape}; for other names of records give ids=.")
    if array.min() < 0 or array.max() >= n:
        raise InputError(
            f"{name} must hold rows between 0 and {n - 1}, got {array[(array < 0) | (array >= n)][0]}; "
            "for other names of records give ids=."
        )
    return array.astype(np.int64)


def read_ids(ids: Any, n: int | None) -> dict[Any, int]:
    """The row of every record by its name; names that are missing or occur twice are refused."""
    names = _names("ids", ids, n)
    if not names:
        raise InputError("ids must name at least one record, got none.")
    row_of = {name: row for row, name in enumerate(names)}
    if len(row_of) < len(names):
        twice = next(name for row, name in enumerate(names) if row_of[name] != row)
        raise InputError(f"ids must name every record once, got {short(twice)} several times.")
    return row_of


def _names(name: str, values: Any, n: int | None) -> list[Any]:
    """Names of records as Python values; tuples stay tuples."""
    names = listed(name, values)
    if any(isinstance(value, tuple | list) for value in names):
        if n is not None and len(names) != n:
            raise InputError(f"{name} must hold one label for each of the {n} records, got {len(names)}.")
        return refuse_unhashable(name, [tuple(value) if isinstance(value, list) else value for value in names])
    checked: list[Any] = check_labels(name, values, n).tolist()
    return checked


def _find(name: str, values: Any, count: int, row_of: dict[Any, int]) -> Rows:
    """Rows of the records that are named."""
    names = _names(name, values, None)
    if len(names) != count:
        raise InputError(f"{name} must name one record for each of {count} pairs, got {len(names)}.")
    try:
        return np.fromiter(map(row_of.__getitem__, names), dtype=np.int64, count=count)
    except KeyError as error:
        raise InputError(f"{name} must name records of ids, got {short(error.args[0])}, which is not one.") from None
