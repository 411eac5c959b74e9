r"""The leakage rate that follows from pairs of records: match probabilities, or the precision and recall of links.

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

The pairs that are not seen leak the share of records that `leaked_by_missed_pairs` gives, as if single records were
lost, and combine with :math:`q` as 1 - (1-seen)(1-unseen). The same function, for all true pairs across clusters, gives
a second estimate, which does not depend on which candidates compete. The rate is the geometric mean of the two, and
half their distance is part of the standard error.

**A lower bound.** The rate rises as b falls, so that without b the rate at b = 1 is a lower bound. That of the listed
pairs alone was mostly larger in simulations, up to twice as large where entities have several records: it takes pairs
below the threshold for matches as often as m says, though those that match were mostly joined by way of others. Where
entities have one or two records there are no such ways, and it was the smaller one. The smaller of the two counts.

**A bound from the blocking rules.** They bound b from above (:mod:`outofcluster.leakage.blocking`), so that the rate at
that b is a lower bound as well, and a larger one.

**Recalibration.** Pairs that somebody reviewed count as they were found, and teach an intercept and a slope of the
log-odds of all others, as in :mod:`outofcluster.leakage.review`. What nobody reviewed stays as it is, with the spread
of the prior: tools that are taught without labels give too small probabilities to the matches below their threshold.
On FEBRL 1 to 4 without blocking, splink's odds were too small by a factor of 7 to 50 there.

**Reviewed pairs that were drawn by something else** than the linkage looks at (``blocking_recall="reviewed"``) show
which share R of the matches is linked, whatever the tool thought of the others. With L matches inside clusters,
:math:`L(1-R)/R` are missed, and `leaked_by_missed_pairs` says how many records leak. The standard error has the
binomial variance of R, without the matches that were reviewed, and that of how many records were lost.

**The standard error** adds the variances of the matches, all records of a pair of clusters matching together or not at
all; of what is not known about several candidates, a quarter of the distance between the two bounds above; of b, as
the share of the true pairs of these very records; of how many records the M pairs that were not compared belong to,
:math:`\sqrt{M μ}` pairs, since a lost record misses about as many pairs as it has mates, μ on average over pairs; and
of intercept and slope, reviewed or not, by the delta method. Scores that are no probabilities, and that no reviewed
pairs correct, have none. It is for the average over folds; the luck of one assignment to folds is not in it.

**Precision and recall.** P and R over pairs give :math:`M = L·P(1-R)/R` missed pairs for L links, hence

.. math:: p_0 ≈ \frac{2φM}{μN} ,

with N records, φ the validation share (1 - φ in its place for rho0), and μ the mean number of mates that a leaked
record has on the other side. The standard error follows by the delta method.

**Mates from the clusters.** With μ = 1 every missed pair leaks two records of its own. But an entity of ten that loses
one record misses nine pairs and leaks ten records. Linkage mostly loses single records, so suppose that each record
of an entity of t records is on its own with probability c. A pair is then linked with probability (1-c)², so
:math:`c = 1 - \sqrt{R}`. With s the probability that another piece is on the other side (φ or 1 - φ), a record that
is with the rest leaks with probability :math:`1 - (1-sc)^{t-1}`; one on its own, whose mates are the rest, where there
is one, and others on their own, with

.. math:: 1 - (1-s)\bigl[(1-sc)^{t-1} - ((1-s)c)^{t-1}\bigr] - ((1-s)c)^{t-1} .

Their mean over records is the rate, and μ is what makes the formula above agree with it. The numbers of entities of t
records follow from the sizes of the approximate clusters of two records or more, which are what the losses leave of
them (binomial), from the largest size down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.sparse.csgraph import shortest_path
from scipy.special import expit, logit
from scipy.stats import binom

from outofcluster._base.arguments import Array, check_integer, check_number, check_share, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import order_of_codes
from outofcluster.evidence.likely import WORTH_A_LOOK, NamedPairs
from outofcluster.leakage.blocking import BlockingRecall, LinkageFacts, read_recall, recall_of_reviewed
from outofcluster.leakage.linkage import Linkage, Pairs, read_ids, read_pairs
from outofcluster.leakage.review import PairAnswers, read_pair_answers, recalibrate
from outofcluster.leakage.splits import Rates, Side, Split, counted_and_other, other_share
from outofcluster.problem.folds import Clusters, Rows

# Nodes and weights on (0, 1) that stay exact for odds from tiny to huge: u = expit(π sinh s) (double exponential),
# with -log(u) in place of u so that nothing is lost near 1.
_STEP = np.linspace(-3.2, 3.2, 129)
_DECAY = np.logaddexp(0, -np.pi * np.sinh(_STEP))
_WEIGHT = expit(np.pi * np.sinh(_STEP)) * expit(-np.pi * np.sinh(_STEP)) * np.cosh(_STEP)
_WEIGHT /= _WEIGHT.sum()

# Probabilities are kept so far away from 0 and 1 before they become log-odds.
_CERTAIN = 1e-9
# Step of the numerical derivatives with respect to the recalibration.
_STEP_OF_THETA = 1e-4

# Share of the matches across clusters that is left at least: at low thresholds many paths inside them are wrong.
_LEAST_LEFT = 0.5
# More records than anybody has; the number of their pairs is still a float.
_MOST_RECORDS = 10**15
# Largest change of the log-odds of pairs across clusters.
_LARGEST_SCALE = 12.0
# Least length, -log m, of a link on a path inside a cluster.
_SHORTEST_LINK = 1e-6
# Records of a cluster up to which paths inside it are followed.
_LARGEST_CLUSTER = 400


@dataclass(frozen=True, eq=False)
class PairRates:
    """What pairs say: the rates of both sides, whether they are lower bounds, the likely pairs, and the linkage."""

    rates: Rates
    at_least: bool
    likely: NamedPairs
    facts: LinkageFacts


def rates_of_pairs(
    linkage: Linkage, cv: Any, sides: tuple[Side, ...], reviewed: Any, blocking_recall: Any
) -> PairRates:
    """The rates with their standard errors, and what else is known.

    See :meth:`outofcluster.Leakage.from_pair_probabilities` for the arguments.
    """
    by_review = isinstance(blocking_recall, str)
    if by_review and blocking_recall != "reviewed":
        raise InputError(
            "blocking_recall must be a number, a pair (recall, standard error) or 'reviewed', "
            f"got {short(blocking_recall)}."
        )
    recall = None if by_review else read_recall(blocking_recall)
    recall = linkage.blocking_recall if recall is None else recall
    pairs, split = read_pairs(linkage, cv)
    answers = PairAnswers()
    if reviewed is not None:
        answers = read_pair_answers(reviewed, linkage.left, linkage.right, _rows_by_name(pairs, linkage))
    elif by_review:
        raise InputError("reviewed must be given for blocking_recall='reviewed', got None.")
    if by_review:
        recall = recall_of_reviewed(answers, float(np.sum(linkage.probability)))
    said = np.full(len(linkage.probability), np.nan)
    said[list(answers.listed)] = list(answers.listed.values())
    said = said[pairs.position]
    known = ~np.isnan(said)
    # Pairs that were drawn to see what blocking missed are matches more often than their probabilities say.
    taught = known & (not by_review)
    log_odds = logit(np.clip(pairs.m, _CERTAIN, 1 - _CERTAIN))
    theta, spread = recalibrate(log_odds[taught], said[taught])

    def calibrated(theta: Array) -> Pairs:
        m = np.where(pairs.m > 0, expit(theta[0] + theta[1] * log_odds), 0.0)
        return replace(pairs, m=np.where(taught, said, m))

    best = calibrated(theta) if taught.any() else pairs
    facts = LinkageFacts(
        recall, answers.count, linkage.calibrated or bool(taught.any()), pairs.outside, linkage.by_tool
    )
    rates: Rates = {}
    for of in sides if not by_review else ():
        rate, std = _rate(best, split, of, recall)
        steps = _STEP_OF_THETA * np.eye(2)
        moved = [
            _rate(calibrated(theta + step), split, of, recall)[0]
            - _rate(calibrated(theta - step), split, of, recall)[0]
            for step in steps
        ]
        gradient = np.array(moved) / (2 * _STEP_OF_THETA)
        # Scores that are no probabilities may be wrong by more than any prior allows.
        error = math.hypot(std, math.sqrt(float(gradient @ spread @ gradient)))
        rates[of] = rate, error if facts.calibrated else None
    judged = _with_others(replace(best, m=np.where(known, said, best.m)), linkage, answers.others)
    if by_review:
        drawn = np.concatenate([np.flatnonzero(said == 1), np.arange(len(said), len(judged.m))])
        linked, matches = int((~judged.across[drawn]).sum()), len(drawn)
        rates = {of: _rate_of_links(pairs, other_share(split, of), linked, matches) for of in sides}
    at_least = recall is None or recall.at_most
    return PairRates(rates, at_least, _likely(judged, linkage), facts)


def _rows_by_name(pairs: Pairs, linkage: Linkage) -> dict[Any, int]:
    """The row of every record by its name, or by its number where pairs are named so."""
    n = len(pairs.codes)
    return dict(zip(range(n), range(n), strict=True)) if linkage.ids is None else read_ids(linkage.ids, n)


def _with_others(pairs: Pairs, linkage: Linkage, others: dict[frozenset[Any], bool]) -> Pairs:
    """The pairs and those that somebody found to match though the tool did not compare them."""
    row_of = _rows_by_name(pairs, linkage)
    matching = [pair for pair, matches in others.items() if matches and all(name in row_of for name in pair)]
    rows = np.array([[row_of[name] for name in pair] for pair in matching], dtype=np.int64).reshape(-1, 2)
    one, two = np.concatenate([pairs.one, rows[:, 0]]), np.concatenate([pairs.two, rows[:, 1]])
    return replace(pairs, one=one, two=two, m=np.concatenate([pairs.m, np.ones(len(rows))]))


def _likely(pairs: Pairs, linkage: Linkage) -> NamedPairs:
    """Pairs of clusters that were compared, not linked, and that may be one entity: the largest of their records."""
    names = Clusters.of(linkage.groups, None).names
    low, high, m = pairs.of_clusters
    kept = m >= WORTH_A_LOOK
    left, right = (tuple(str(names[number]) for number in side[kept].tolist()) for side in (low, high))
    return NamedPairs(left, right, tuple(m[kept].tolist()))


def _unit(one: Rows, two: Rows, n_clusters: int) -> Rows:
    """The number of a pair of clusters, the same both ways."""
    return np.asarray(np.minimum(one, two) * n_clusters + np.maximum(one, two))


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
        low, high, m = pairs.of_clusters
        cluster, mate, m = np.concatenate([low, high]), np.concatenate([high, low]), np.tile(m, 2)
        order = np.lexsort((mate, cluster))
        order = order[(records[cluster[order]] > 0) & (there[mate[order]] > 0)]
        cluster, mate, m = cluster[order], mate[order], m[order]
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


def _rate(pairs: Pairs, split: Split, of: Side, recall: BlockingRecall | None) -> tuple[float, float]:
    """The rate of one side and its standard error."""
    if recall is not None:
        return _seen_and_unseen(pairs, split, of, recall.recall, recall.std)
    # Nothing can be said about pairs that were not compared, so that it is at least as if there were none.
    return min(_seen(pairs, split, of)[:2], _seen_and_unseen(pairs, split, of, recall=1.0, recall_std=0.0))


def _seen(pairs: Pairs, split: Split, of: Side) -> tuple[float, float, float]:
    """The rate by the pairs that are listed, its standard error, and the share of the other side."""
    sizes, share = np.bincount(pairs.codes), other_share(split, of)
    if isinstance(split, float):
        parts = [Candidates.of(pairs, sizes, share, sizes)]
    else:
        parts = []
        for fold in split:
            sides = (np.bincount(pairs.codes[rows], minlength=len(sizes)) for rows in counted_and_other(fold, of))
            parts.append(Candidates.of(pairs, next(sides), 1.0, next(sides)))
    rate = sum(part.leaked() for part in parts) / len(parts)
    units = np.concatenate([part.unit for part in parts])
    spread = [part.share * part.records / part.size * np.sqrt(part.m * (1 - part.m)) for part in parts]
    together = np.bincount(np.unique(units, return_inverse=True)[1], np.concatenate(spread)) / len(parts)
    low, high = np.mean([part.bounds() for part in parts], axis=0)
    std = math.hypot(math.sqrt(float(together @ together)), (high - low) / 4)
    return rate, std, share


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

    mates = _mates(sizes)
    expected = matched * missing
    missed_std = math.hypot(math.sqrt(expected * mates), matched / recall**2 * recall_std)
    left_std = math.sqrt(float((pairs.m * (1 - pairs.m)).sum()) * min(mates, 2.0))
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


def _mates(sizes: Array) -> float:
    """The mean number of mates of a record over the pairs inside clusters; at least one."""
    pairs_inside = float((sizes * (sizes - 1) / 2).sum())
    return max(float((sizes * (sizes - 1) ** 2 / 2).sum()) / pairs_inside, 1.0) if pairs_inside else 1.0


def _rate_of_links(pairs: Pairs, share: float, linked: int, matches: int) -> tuple[float, float]:
    """The rate by how many of the matches that somebody drew are linked, with its standard error."""
    sizes = np.bincount(pairs.codes).astype(float)
    inside = float(pairs.m[~pairs.across].sum()) + sum(_joined(pairs))
    if inside <= 0:
        raise InputError("groups must link some listed pairs for blocking_recall='reviewed', got none that are linked.")
    recall = (linked + 0.5) / (matches + 1)

    def leaked(recall: float, more: float = 0.0) -> float:
        missed = inside * (1 - recall) / recall + more
        return leaked_by_missed_pairs(sizes, missed, inside + missed, share)

    others = max(1 - matches * recall / max(inside, 1.0), 0.0)
    lower = recall - math.sqrt(recall * (1 - recall) / (matches + 2) * others)
    lost = math.sqrt(inside * (1 - recall) / recall * _mates(sizes))
    rate = leaked(recall)
    return rate, math.hypot(leaked(max(lower, recall / 2)) - rate, leaked(recall, lost) - rate)


def _with_matches(pairs: Pairs, matches: float) -> Pairs:
    """The same pairs, the odds of those across clusters scaled so that so many of them match."""
    m = pairs.m[pairs.across]
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
    changed[np.flatnonzero(pairs.across)[~certain]] = scale * odds / (1 + scale * odds)
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
    across = pairs.across
    of_pair = _unit(pairs.codes[pairs.one[across]], pairs.codes[pairs.two[across]], len(sizes))
    units, number, compared = np.unique(of_pair, return_inverse=True, return_counts=True)
    together = np.bincount(number, pairs.m[across]) / compared
    low, high = np.divmod(units, len(sizes))
    return float(together @ np.minimum(sizes[low] * sizes[high] - compared, compared * missing))


def rates_of_missed_pairs(
    shares: tuple[Any, Any], stds: tuple[Any, Any], held_out: Any, counts: tuple[Any, ...], sides: tuple[Side, ...]
) -> Rates:
    """Rates and standard errors; see :meth:`outofcluster.Leakage.from_precision_recall` for the arguments.

    Precision comes before recall, among the shares and their standard errors. The counts are groups, links, records and
    mates.
    """
    precision, recall = check_share("precision", shares[0]), check_share("recall", shares[1], "(0, 1]")
    groups, n_links, n_records, mates = counts
    sizes = None if groups is None else np.bincount(Clusters.of(groups, None).codes).astype(float)
    if sizes is not None:
        n_links = float((sizes * (sizes - 1) / 2).sum()) if n_links is None else n_links
        n_records = int(sizes.sum()) if n_records is None else n_records
    for name, count in (("n_links", n_links), ("n_records", n_records)):
        if count is None:
            raise InputError(f"{name} must be a number, or groups given, from which it is counted, got None for both.")
    links = check_number("n_links", n_links, least=0)
    n = check_integer("n_records", n_records, least=1, most=_MOST_RECORDS)
    held_out = check_share("validation_share", held_out, "(0, 1)")
    missing = (1 - recall) / recall
    missed = links * precision * missing
    got = f"got {recall:g}, which with {links:g} links implies {missed:.6g} of them."
    if missed > n * (n - 1) / 2:
        raise InputError(f"recall must leave fewer missed pairs than the {n} records have, {got}")
    rates: Rates = {}
    for of in sides:
        share = other_share(held_out, of)
        mates_there = 1.0 if mates is None else check_number("mates", mates, least=1)
        if mates is None and sizes is not None and missed > 0:
            leaked = leaked_by_missed_pairs(sizes, missed, links * precision + missed, share)
            # So few pairs that they round to none are those of single mates.
            mates_there = 2 * share * missed / (n * leaked) if leaked > 0 else 1.0
        scale = 2 * share / (mates_there * n) * links
        rate = scale * precision * missing
        if rate >= 1:
            raise InputError(f"recall must leave fewer missed pairs than the {n} records can be part of, {got}")
        std = None
        if stds != (None, None):
            by_precision = scale * missing * check_number("precision_std", stds[0] or 0.0, least=0)
            by_recall = scale * precision / recall / recall * check_number("recall_std", stds[1] or 0.0, least=0)
            std = math.hypot(by_precision, by_recall)
            if not math.isfinite(std):
                raise InputError(
                    f"recall must leave a rate whose standard error is finite, got {recall:g} with "
                    f"precision_std={short(stds[0])} and recall_std={short(stds[1])}."
                )
        rates[of] = rate, std
    return rates


def leaked_by_missed_pairs(sizes: Array, missed: float, true_pairs: float, share: float) -> float:
    """The share of the records that leak where so many true pairs of records are missed.

    Examples
    --------
    Pairs of records, a tenth of which are missed: all their records leak if the other piece is on the other side.

    >>> import numpy as np
    >>> from outofcluster.leakage.pairs import leaked_by_missed_pairs
    >>> sizes = np.array([2] * 90 + [1] * 20)
    >>> round(leaked_by_missed_pairs(sizes, 10, 100, 0.8), 3)
    0.08
    """
    alone = 1 - math.sqrt(max(1 - missed / true_pairs, 0.0))
    n = float(sizes.sum())
    # Where all pairs are missed, no cluster has a pair, whatever the clusters say.
    if alone >= 1 - 1e-9 or not (sizes > 1).any():
        return min(2 * share * missed / n, 1 - 1e-9)
    entities, count = _entities(sizes, alone)
    others = entities - 1.0
    safe = (1 - share * alone) ** others
    all_alone = ((1 - share) * alone) ** others
    leaks = (1 - alone) * (1 - safe) + alone * (1 - (1 - share) * (safe - all_alone) - all_alone)
    return min(float(count @ (entities * leaks)) / n, 1 - 1e-9)


def _entities(sizes: Array, alone: float) -> tuple[Array, Array]:
    """Sizes of two or more that entities have, and how many have them, if their records are lost one by one."""
    seen, clusters = np.unique(sizes[sizes > 1], return_counts=True)
    count, pieces = np.zeros((2, len(seen)))
    # From the largest size down: what larger entities leave is taken off.
    for i in range(len(seen) - 1, -1, -1):
        count[i] = max(clusters[i] - pieces[i], 0.0) / max((1 - alone) ** seen[i], 1e-6)
        pieces += count[i] * binom.pmf(seen, seen[i], 1 - alone)
    # Sizes do not fit exactly, so the number follows from all records in clusters of two or more.
    one_or_none = binom.pmf(1, seen, 1 - alone)
    kept = float(count @ ((1 - alone) * seen - one_or_none))
    return seen, count * (float(seen @ clusters) / kept)
