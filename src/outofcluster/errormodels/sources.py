r"""The optimism of this cross-validation where pieces of entities leak, by up to three sources.

The optimism is the loss on the same folds without the training records of held-out entities, less the loss as it is.
With :math:`w_i` the weight of held-out record i in the naive loss (the weights sum to 1), and :math:`L_i` its loss by
the user's own model:

**What can be seen.** One more model per fold trains without the likely pieces D of held-out entities
(:mod:`outofcluster.evidence.likely`), and gives losses :math:`S_i`. With :math:`q_i` the probability of the likeliest
pair of i's cluster, 0 without one,

.. math:: O_S = \sum_{q_i > 0} w_i \bigl[(S_i - L_i) - (1-q_i)\,c\bigr] + κ \sum_{q_i = 0} w_i (S_i - L_i)
          + ρ_m\, g_u .

Here c is what a record loses with a near cluster that is nobody's mate. A control trains without such clusters of other
held-out clusters, and gives :math:`C_i`. With M the mean change of the records with a likely pair and q their mean
probability, M' and q' the same of the records of the control, and g the gain from a true piece,

.. math:: M = q g + (1-q)\,c , \qquad M' = q' g + (1-q')\,c , \qquad c = \frac{q M' - q' M}{q - q'} ,

which counts as 0 where it is negative.

The second sum is what fewer training records do to all others. Of the records that are left out the share κ, the mean
probability of the pairs, is rightly left out, so that this share of the change belongs to the optimism. The third
term is what is missed: :math:`ρ_m` is the share of the held-out records that have a piece in training which is not
seen, and :math:`g_u` the gain from imitated pieces that would not be caught. Where nothing else is known, :math:`ρ_m`
is the rate that is seen over the share of imitated pieces that would be, less the rate that is seen.

*Where few pieces would be caught*, the likely pairs are those that happen to resemble each other most, also in their
targets, and leaving them out raises the loss by more than a piece does. So the first two sums count τ times, and
:math:`(1-τ) \sum_i w_i q_i\, g_s` takes the place of the rest, with :math:`g_s` the gain from an imitated piece that
would be caught. τ is the share γ of imitated pieces that would be caught, and (3γ + k)/(3 + k) where k of the likely
pairs were looked up (see below).

Probabilities of pairs may all be wrong in the same way. Of looked-up clusters, see below, let f be the likely pairs
that were confirmed over those that were to be expected, both weighted by 1/π and with ten pairs more that are as
expected. Then q counts f times, and so do the first two sums, the first of them at most once.

The variance has these parts:

- every pair that may be none, :math:`\sum_h (1-q_h) D_h^2`, with :math:`D_h` the first sum over cluster h, and the
  error of c, by the clusters of the control;
- the error that all probabilities have in common, :math:`(\sum_h D_h)^2/(1+n/3+k)` for n pairs, k of them looked up;
- the error of :math:`ρ_m`, and that of :math:`g_u`, which has a relative error of 0.4 besides its own. Where nobody
  looked anything up, the former is half of :math:`ρ_m` itself, to which comes the error of a known rate; without one
  it is at least a third of the distance between the supposed rate and its upper bound;
- *who is missed is chance*: :math:`ρ_m \sum_c w_c^2\, \overline{g^2}`, with the mean square of the gain of a cluster;
  the same with :math:`(1-τ)^2 \sum_i w_i q_i` in the place of :math:`ρ_m` for likely pieces whose gain is imitated;
- *refitting*: a model without m records that are nobody's mates changes the loss by chance. Records without a likely
  piece show the variance per record that is left out, a; it counts for the missed records, and κ(1-κ) times for those
  that are left out as likely ones;
- *learners that never fit the same twice*, such as forests, whose losses change everywhere as soon as any record is
  left out: then S and C have noise of their own, and both differ from L by the noise of L. So the noise shows in what
  the two changes have in common. Over the clusters k without a pair of either kind

  .. math:: v = \frac{\sum_k A_k B_k}{\sum_k w_k^2} , \qquad A_k = \sum_{i \in k} w_i (S_i - L_i - \bar A) ,
            \quad B_k = \sum_{i \in k} w_i (C_i - L_i - \bar B) ,

  with :math:`\bar A, \bar B` the mean changes, and 0 where that is negative. Where a record changes the losses of few
  others, as with neighbours, the two changes have nothing in common. The noise of L and S adds
  :math:`2 v (τ^2 \sum_{q_k > 0} w_k^2 + κ^2 \sum_{q_k = 0} w_k^2)` to :math:`O_S`, and :math:`2 v \sum_k w_k^2` to
  :math:`O_L` below. It includes the chance of refitting, so that the larger of the two counts.

**What somebody looked up.** For clusters c drawn with inclusion probabilities :math:`π_c` somebody says which other
clusters are the same entity. A model per fold without D *as corrected by these answers* gives :math:`G_i`. The answers
are used twice. First, in :math:`O_S`: looked-up clusters count by :math:`G_i - L_i` alone, and of the others
:math:`ρ_m` is the weighted share of looked-up records that have a piece in training which is not in D (Hájek's ratio
estimate; its variance is that of a draw in which half a cluster more was found). It is averaged with what was supposed
before, by their variances, of which the latter counts 1/γ² times. Second, by themselves:

.. math:: O_L = \sum_i w_i (S_i - L_i) + \sum_{c} \frac{Δ_c}{π_c}, \qquad Δ_c = \sum_{i \in c} w_i (G_i - S_i) ,

the difference estimator of survey sampling, is unbiased whatever the pair classifier and the imitated gains are
worth. Its variance is :math:`\sum_c (1-π_c) Δ_c^2/π_c^2`, in which clusters of one entity count together, since audited
entities are drawn as such. Few of the Δ are not 0, so that this is averaged with what was to be expected,
:math:`\sum_c (1-π_c) e_c/π_c^2`: :math:`e_c` is the expected square of :math:`Δ_c`, by the probabilities of pairs,
likely or not, and by the rate that may be missed. The expectation counts as much as four clusters with Δ ≠ 0. The same
:math:`e_c` say which clusters are worth looking up.

**Imitation**, where a rate ρ is known: every held-out cluster is cut and is its own control
(:mod:`outofcluster.sampling.halves`). With b(0) and b(1) the losses without and with a piece, and a second piece taken
to gain half as much as a first one does, :math:`O_I = ρ\,(b(0)-b(1))/(1-ρ'/2)`, ρ' the part of ρ that is not seen.
Which entities leaked is chance: with s² the variance between clusters that this estimate has at ρ = 1, the variance is
ρ s² instead of ρ² s². To it come refitting, as above, and the relative error of 0.4 that imitated cuts have.

**Together.** Sources share records, look-ups and gains, so that their errors are taken to have the correlation ⅔. The
weights are those with the least variance of the weighted mean, none of them below 0: with the covariance matrix Σ they
are proportional to :math:`Σ^{-1} 1`. A source that is more than 1½ times as uncertain as another one does not count.

**At least.** Where less than half of the imitated pieces would be caught, and nobody looked anything up, the answer is
a lower bound, and its interval goes up to what imitation allows: the upper bound of the gain from a piece times twice
that of the rate (1 at most). That bound holds for pieces that are like the rest of their entities; twice allows for
others.

The constants were chosen with 3 neighbours and the error rate, on simulated worlds and on linked people of FEBRL, with
the seeds A of ``benchmarks/people.py``. They are judged with its seeds B, which are other draws of the same worlds and
people. The correlation of the sources was raised from ½ after intervals with the seeds B had been too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes
from outofcluster.curves.base import Curve
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.evidence.likely import ENOUGH_CAUGHT, NOTHING_LIKELY, Z95, LikelyPieces, SeenPieces
from outofcluster.evidence.looked_up import LookUps, draw_clusters, inclusion_probabilities
from outofcluster.inference.functional import Block, Functional, Influences, Pool, Weights
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT

# The roles of the estimates that are measured.
_MEASURED = "measured"
# Correlation of the errors of two sources.
_CORRELATION = 2 / 3
# Relative error of imitated cuts.
_OF_IMITATION = 0.4
# Pairs as many as which the common error of their probabilities counts.
_PAIRS_FOR_ERROR = 3.0
# Pairs that are as expected, which are added to looked-up ones. Over 29 linkages and worlds the confirmed pairs were
# 0.67 to 1.16 times those to be expected, with a standard deviation of 0.12; ten looked-up pairs tell that to 0.2.
_PAIRS_AS_EXPECTED = 10.0
# Clusters whose answers changed something as many as which the expectation counts.
_EXPECTED = 4.0
# The least share of imitated pieces that counts as caught where the rate is estimated from what is seen.
_LEAST_CAUGHT = 0.2
# How many times the bound of the rate may be exceeded where real pieces are unlike imitated ones.
_UNLIKE_THE_REST = 2.0
# Limits of the share of records that may have a piece in training unseen, where nothing else is known.
_LEAST_UNSEEN, _MOST_UNSEEN = 0.02, 0.5


# What training clusters add to the variance between clusters, as a share of that of the evaluation: the mean over
# six metrics of 3 and 9 neighbours and data sets of 150 entities drawn anew, which needed 0.0 to 1.2.
_TRAINING_SHARE = 0.7


@dataclass(frozen=True)
class Source:
    """One of the sources that an optimism rests on.

    Attributes
    ----------
    name : {"seen", "looked up", "imitated"}
        What it is.
    value : float
        The optimism by this source alone.
    variance : float
        Its variance.
    lasting : float
        The part of the variance that more clusters would leave as it is.
    weight : float
        How much it counts.
    """

    name: str
    value: float
    variance: float
    lasting: float = 0.0
    weight: float = 0.0


def combined(sources: Sequence[Source]) -> tuple[tuple[Source, ...], float]:
    """The same sources with the weights of the module's head, and the variance of their weighted mean."""
    counted = list(range(len(sources)))
    errors = np.sqrt([max(source.variance, 1e-18) for source in sources])
    covariance = np.outer(errors, errors) * np.where(np.eye(len(sources)) > 0, 1.0, _CORRELATION)
    weights = np.zeros(len(sources))
    while True:
        part = np.linalg.solve(covariance[np.ix_(counted, counted)], np.ones(len(counted)))
        part /= part.sum()
        if part.min() >= 0:
            break
        counted.pop(int(np.argmin(part)))
    weights[counted] = part
    weighted = tuple(replace(each, weight=float(weight)) for each, weight in zip(sources, weights, strict=True))
    return weighted, float(weights @ covariance @ weights)


@dataclass(frozen=True)
class Gain:
    """What a piece in training gains: mean over held-out records, its variance, and mean square over clusters."""

    value: float
    variance: float
    square: float


@dataclass(frozen=True, eq=False)
class PiecesPooled(Pooled):
    """Pieces leak: they are left out where they are seen or looked up, and imitated where a rate is known."""

    def _blocks(self) -> dict[str, tuple[Block, ...]]:
        blocks = super()._blocks()
        if self._missed_role == UNCAUGHT:
            blocks[UNCAUGHT] = self.evaluated(UNCAUGHT)
        influence = np.column_stack([self._by_unit(self._seen_parts), self._by_unit(self._looked_up_parts)])
        pool = Pool(np.arange(len(self.units)), influence)
        return blocks | {_MEASURED: (Block(np.zeros(2), np.zeros(2), pool),)}

    def _by_unit(self, parts: Array) -> Array:
        """What each unit adds to a sum over held-out records, beyond its share."""
        moved = parts - self._record_weights * parts.sum()
        return np.asarray(np.bincount(np.concatenate(self.scored_units), moved, len(self.units)), dtype=float)

    # --- held-out records -----------------------------------------------------------------------------

    @property
    def _by_folds(self) -> bool:
        return self.samples.metric.pool == "folds"

    @cached_property
    def _record_weights(self) -> Array:
        """w: the weight of every held-out record in the naive loss."""
        counts = [fold.n_validation for fold in self.folds]
        each = [1 / (self.n_folds * count) if self._by_folds else 1 / sum(counts) for count in counts]
        return np.repeat(each, counts)

    def _losses_without(self, name: str) -> Array:
        """How much the loss of every held-out record changes in a model without some training clusters."""
        of: Any = "fold" if self._by_folds else "pooled"
        kind = "clusters"
        return np.concatenate([fold.measured_by(name, kind, of) - fold.losses_by(kind, of) for fold in self.folds])

    @cached_property
    def _clusters(self) -> Codes:
        return np.concatenate([fold.clusters for fold in self.folds])

    @cached_property
    def _pair_probability(self) -> Array:
        """q: for every held-out record the probability of the likeliest pair of its cluster; 0 without one."""
        return self._by_cluster(lambda likely: (likely.held_out_clusters, likely.probability), "seen")

    def _by_cluster(self, pairs: Callable[[LikelyPieces], tuple[Codes, Array]], kind: str) -> Array:
        """For every held-out record the largest probability of some pairs of its cluster; 0 without a model for it."""
        parts = []
        for fold in self.folds:
            probability = np.zeros(int(self._clusters.max()) + 1)
            if fold.likely is not None and kind in fold.measured:
                held_out, chance = pairs(fold.likely)
                kept = held_out < len(probability)
                np.maximum.at(probability, held_out[kept], chance[kept])
            parts.append(probability[fold.clusters])
        return np.concatenate(parts)

    def _squares(self, parts: Array, weight: Array | None = None) -> float:
        """The sum over clusters of the squares of what their records add."""
        sums = np.bincount(self._clusters, parts)
        squares: Array = np.asarray(sums**2, dtype=float)
        if weight is not None:
            squares = squares * np.bincount(self._clusters, weight) / np.maximum(np.bincount(self._clusters), 1)
        return float(squares.sum())

    # --- what can be seen -----------------------------------------------------------------------------

    @property
    def _seen(self) -> SeenPieces | None:
        return self.samples.seen

    @cached_property
    def _seen_parts(self) -> Array:
        """What every held-out record adds to the optimism that is seen, without what is missed."""
        w, f, trust = self._record_weights, self._confirmed, self._trust
        q = np.minimum(f * self._pair_probability, 1.0)
        without = self._losses_without("seen")
        lost = (1 - q) * self._nobodys_mate[0]
        measured = np.where(q > 0, min(f, 1.0) * w * (without - lost), f * self._precision * w * without)
        parts = trust * measured + (1 - trust) * w * q * self._caught_gain
        return np.where(self._asked, w * self._losses_without("looked up"), parts)

    @property
    def _caught(self) -> float:
        """γ: the share of imitated pieces that would be caught.

        It is 1 where none would be, since likely pairs then come from a linkage tool.
        """
        return 1.0 if self._seen is None else self._seen.caught or 1.0

    @property
    def _trust(self) -> float:
        """τ: how much the change that leaving out likely pieces makes counts."""
        checked = len(self._checked_pairs[0])
        return (_PAIRS_FOR_ERROR * self._caught + checked) / (_PAIRS_FOR_ERROR + checked)

    @cached_property
    def _caught_gain(self) -> float:
        """g_s: the gain from an imitated piece that would be caught."""
        every, missed, c = self._mean_gain(MAIN), self._mean_gain(self._missed_role), self._caught
        return min(max((every - (1 - c) * missed) / max(c, _LEAST_CAUGHT), 0.0), 2 * max(every, 0.0))

    @cached_property
    def _control_probability(self) -> Array:
        """q': for every held-out record of the control the probability of its pair; 0 for the others."""
        return self._by_cluster(lambda likely: (likely.control_held_out, likely.control_probability), "control")

    @cached_property
    def _nobodys_mate(self) -> tuple[float, float]:
        """c: what a record loses with a near cluster that is nobody's mate, and its variance."""
        w, q, p = self._record_weights, self._pair_probability, self._control_probability
        if not (q > 0).any() or not (p > 0).any():
            return 0.0, 0.0
        w_likely, w_control = np.where(q > 0, w, 0.0), np.where(p > 0, w, 0.0)
        of_likely, of_control = float(w_likely.sum()), float(w_control.sum())
        mean_q, mean_p = float(w_likely @ q) / of_likely, float(w_control @ p) / of_control
        change = self._losses_without("control")
        lost, gained = (
            float(w_control @ change) / of_control,
            float(w_likely @ self._losses_without("seen")) / of_likely,
        )
        apart = max(mean_q - mean_p, 0.1)
        variance = self._squares(w_control * (change - lost)) * (mean_q / apart / of_control) ** 2
        return max((mean_q * lost - mean_p * gained) / apart, 0.0), variance

    @cached_property
    def _checked_pairs(self) -> tuple[Array, Array, Array]:
        """Of every likely pair of a looked-up cluster: its probability, whether it was confirmed, and 1/π."""
        look_ups, rows = self.samples.look_ups, list[tuple[float, bool, float]]()
        if look_ups is not None and self._answers is not None:
            position = {cluster: number for number, cluster in enumerate(look_ups.clusters.tolist())}
            for likely in (fold.likely for fold in self.folds if fold.likely is not None):
                pairs = zip(likely.held_out_clusters.tolist(), likely.train_clusters, likely.probability, strict=True)
                for held_out, train, probability in pairs:
                    if (at := position.get(held_out)) is not None:
                        right = bool(np.isin(train, look_ups.mates[at]))
                        rows.append((float(probability), right, 1 / float(look_ups.probability[at])))
        expected, confirmed, weight = np.array(rows, dtype=float).reshape(-1, 3).T
        return expected, confirmed, weight

    @cached_property
    def _confirmed(self) -> float:
        """f: likely pairs that look-ups confirmed over those that were to be expected, shrunk towards 1."""
        expected, confirmed, weight = self._checked_pairs
        share = weight / weight.mean() if len(weight) else weight
        return (float(share @ confirmed) + _PAIRS_AS_EXPECTED) / (float(share @ expected) + _PAIRS_AS_EXPECTED)

    @cached_property
    def _asked(self) -> NDArray[np.bool_]:
        """Whether the cluster of a held-out record was looked up, so that its mates are known."""
        look_ups = self.samples.look_ups
        if look_ups is None or self._answers is None:
            return np.zeros(len(self._clusters), dtype=bool)
        return np.isin(self._clusters, look_ups.clusters)

    # --- what fewer training records do to all others -------------------------------------------------

    @cached_property
    def _precision(self) -> float:
        """κ: the expected share of true pieces among the training records that are left out as likely ones."""
        true, total = 0.0, 0.0
        for fold in self.folds:
            if fold.likely is not None and self._seen is not None:
                records = self._seen.sizes[fold.likely.train_clusters]
                true, total = true + float(records @ fold.likely.probability), total + float(records.sum())
        return true / total if total else 0.0

    def _removed(self, kind: str) -> float:
        """How many training records models leave out, over all folds, as a share of the held-out records."""
        total = 0
        for fold in self.folds:
            if fold.likely is not None and self._seen is not None and kind in fold.measured:
                left_out = fold.likely.train_clusters if kind == "seen" else fold.likely.control_clusters
                total += int(self._seen.sizes[np.unique(left_out)].sum())
        return total / len(self._clusters)

    @cached_property
    def _refit_variance(self) -> float:
        """a: how much the loss of all records varies for every training record that is left out and nobody's mate."""
        squares, removed = 0.0, 0.0
        for kind in ("seen", "control"):
            loses = self._pair_probability if kind == "seen" else self._control_probability
            parts = np.where(loses > 0, 0.0, self._record_weights * self._losses_without(kind))
            squares, removed = squares + self._squares(parts), removed + self._removed(kind)
        return squares / removed if removed else 0.0

    def _refitted(self, missed: float) -> float:
        """Variance of the change of all records' loss by pieces that are missed, and by others left out instead."""
        kept = self._precision
        return self._refit_variance * (missed + kept * (1 - kept) * self._removed("seen"))

    @cached_property
    def _noise(self) -> float:
        """v: the variance of a fit's loss of one cluster that any other training set would give another value."""
        likely, control = self._pair_probability > 0, self._control_probability > 0
        weight = np.where(likely | control | self._asked, 0.0, self._record_weights)
        squares = self._squares(weight)
        if not (likely.any() and control.any() and squares > 0):
            return 0.0
        changes = []
        for kind in ("seen", "control"):
            change = self._losses_without(kind)
            changes.append(np.bincount(self._clusters, weight * (change - np.average(change, weights=weight))))
        return max(float(changes[0] @ changes[1]) / squares, 0.0)

    def _noise_of_seen(self) -> float:
        """Variance of the optimism that is seen by fits that are never the same twice."""
        of_likely = np.where(self._pair_probability > 0, self._trust, self._precision)
        return 2 * self._noise * self._squares(of_likely * self._record_weights)

    @cached_property
    def _seen_variance(self) -> float:
        """Variance of the optimism that is seen, without what is missed."""
        q = np.minimum(self._confirmed * self._pair_probability, 1.0)
        loses = (q > 0) & ~self._asked
        parts = np.where(loses, self._seen_parts, 0.0)
        n_pairs = sum(0 if fold.likely is None else len(fold.likely.probability) for fold in self.folds)
        doubt = float(parts.sum()) ** 2 / (1 + n_pairs / _PAIRS_FOR_ERROR + len(self._checked_pairs[0]))
        lost = float(np.where(loses, self._record_weights * (1 - q), 0.0).sum())
        imitated = (1 - self._trust) ** 2 * self._chance(float(self._record_weights @ np.where(loses, q, 0.0)))
        return self._squares(parts, 1 - q) + doubt + (self._trust * lost) ** 2 * self._nobodys_mate[1] + imitated

    # --- what a piece gains ---------------------------------------------------------------------------

    def _gain_of(self, role: str) -> Gain:
        """The gain from imitated pieces of a role, with its variance and the mean square over clusters."""
        gain = Functional(0.0, {role: self.shares[:, None] * np.array([1.0, -1.0])})
        value = self._mean_gain(role)
        influence = Influences(self.columns).of_units(gain)
        count = len(influence)
        between = count / max(count - 1, 1) * float((influence**2).sum())
        fits = self.monte_carlo_of(gain)
        # Clusters that are scored as often as they have records; a mean over n cuts varies less than a single cut.
        weight = self._squares(self._record_weights)
        cuts = len(self.folds[0].main.losses[0])
        square = value**2 + between * 2 / (1 + 1 / cuts) / max(weight, 1e-18)
        return Gain(value, between + (fits if math.isfinite(fits) else 0.0), square)

    def _mean_gain(self, role: str) -> float:
        """The loss without a piece of a role in training less that with it."""
        means = self.shares @ np.stack([fold.runs[role].means for fold in self.folds])
        return float(means[0] - means[1])

    @property
    def _missed_role(self) -> str:
        """The role of imitated pieces that would not be caught; that of all pieces where none is known."""
        return UNCAUGHT if all(UNCAUGHT in fold.runs for fold in self.folds) else MAIN

    @cached_property
    def _gain(self) -> Gain:
        """The gain from an imitated piece."""
        return self._gain_of(MAIN)

    @cached_property
    def _missed_gain(self) -> Gain:
        """g_u: the gain from an imitated piece that would not be caught."""
        return self._gain_of(self._missed_role)

    def _missed(self, rate: float, variance: float) -> tuple[float, float]:
        """What pieces that are not seen make of the optimism at the rate of their records, and its variance."""
        gain = self._missed_gain
        mean = max(gain.value, 0.0)
        error = (_OF_IMITATION * mean) ** 2 + gain.variance
        return rate * mean, rate**2 * error + variance * (mean**2 + error) + self._chance(rate)

    def _chance(self, rate: float) -> float:
        """The variance of what pieces gain at a rate of records: which entities leak is chance, and gains differ."""
        return rate * self._squares(self._record_weights) * self._missed_gain.square

    def _by_sight(self, rate: float | None, std: float) -> Source | None:
        """The optimism by what is seen, for a rate that is known or for none; None where nothing was compared."""
        seen = self._seen
        if seen is None:
            return None
        missed, error = self._unseen_rate(seen, rate, std)
        value, variance = self._missed(missed, error)
        variance += self._seen_variance + max(self._refitted(missed), self._noise_of_seen())
        gain = max(self._missed_gain.value, 0.0)
        lasting = (missed**2 * _OF_IMITATION**2 + error * (1 + _OF_IMITATION**2)) * gain**2
        return Source("seen", float(self._seen_parts.sum()) + value, variance, lasting)

    def _unseen_rate(self, seen: SeenPieces, rate: float | None, std: float) -> tuple[float, float]:
        """ρ_m and its variance, for a rate that is known or for none."""
        if rate is None:
            apart = max(self._supposed_rate - seen.rate, 0.0)
            variance = max((seen.upper - self._supposed_rate) / 3, apart / 2) ** 2
        else:
            apart = max(rate - seen.rate, 0.0)
            variance = std**2 + (apart / 2) ** 2
        if self._missed_rate is None:
            return apart, variance
        # What is supposed counts less where fewer pieces would be caught: real ones may be unlike imitated ones.
        variance /= self._caught**2
        looked_up, error, by_wrong_answers = self._missed_rate
        weight = error / (error + variance) if error else 0.0
        left = float(self._record_weights[~self._asked].sum())
        variance = weight * variance + (1 - weight) ** 2 * by_wrong_answers
        return left * (weight * apart + (1 - weight) * looked_up), left**2 * variance

    # --- what somebody looked up ----------------------------------------------------------------------

    @cached_property
    def _missed_rate(self) -> tuple[float, float, float] | None:
        """The share of the held-out records that have a piece in training unseen, by look-ups.

        Its variance over draws of clusters and that by wrong answers stand beside it.
        """
        look_ups = self.samples.look_ups
        if look_ups is None or self._answers is None:
            return None
        weights = self._cluster_weights(look_ups.clusters) / look_ups.probability
        missed = np.zeros(len(weights))
        position = np.repeat(np.arange(len(missed)), [len(mates) for mates in look_ups.mates])
        mates = np.concatenate([*look_ups.mates, np.zeros(0, dtype=np.int64)])
        for fold in self.folds:
            known = fold.clusters if fold.likely is None else np.union1d(fold.clusters, fold.likely.train_clusters)
            here = np.isin(look_ups.clusters, fold.clusters)[position]
            missed[position[here & ~np.isin(mates, known)]] = 1.0
        total = max(float(weights.sum()), 1e-12)
        share = float(weights @ missed) / total
        scale = np.sqrt(1 - look_ups.probability) * weights
        variance = float((np.bincount(look_ups.entities, scale * (missed - share)) ** 2).sum())
        # As if half a cluster more had been found, so that nothing found does not mean that there is nothing.
        variance += 0.5 * float((scale**2).mean())
        wrong = look_ups.reviewer_error * float((weights**2).sum())
        return share, variance / total**2, wrong / total**2

    @cached_property
    def _answers(self) -> tuple[Codes, Array, Array] | None:
        """The looked-up clusters, their inclusion probabilities, and Δ of each; None where nothing was looked up."""
        look_ups = self.samples.look_ups
        if look_ups is None or not any("looked up" in fold.measured for fold in self.folds):
            return None
        changed = self._record_weights * (self._losses_without("looked up") - self._losses_without("seen"))
        by_cluster = np.bincount(self._clusters, changed, minlength=int(look_ups.clusters.max()) + 1)
        return look_ups.clusters, look_ups.probability, np.asarray(by_cluster[look_ups.clusters], dtype=float)

    @cached_property
    def _looked_up_parts(self) -> Array:
        """What every held-out record adds to the optimism by look-ups."""
        parts = self._record_weights * self._losses_without("seen")
        if self._answers is None:
            return parts
        clusters, probability, _ = self._answers
        scale = np.zeros(max(int(self._clusters.max()), int(clusters.max())) + 1)
        scale[clusters] = 1 / probability
        changed = self._losses_without("looked up") - self._losses_without("seen")
        return np.asarray(parts + self._record_weights * changed * scale[self._clusters])

    def _by_look_ups(self) -> Source | None:
        """The difference estimate; None where nothing was looked up."""
        if self._answers is None:
            return None
        clusters, probability, changes = self._answers
        look_ups = self.samples.look_ups
        assert look_ups is not None
        # Clusters of one entity that were both looked up may have been drawn together, so their changes are one.
        scale = np.sqrt(1 - probability) / probability
        seen_squares = float((np.bincount(look_ups.entities, scale * changes) ** 2).sum())
        expected = np.bincount(look_ups.entities, scale * np.sqrt(self._expected_squares(clusters))) ** 2
        counted = float(np.count_nonzero(changes))
        variance = (counted * seen_squares + _EXPECTED * float(expected.sum())) / (counted + _EXPECTED)
        wrong = look_ups.reviewer_error
        variance += wrong * float((self._typical_squares(clusters) / probability**2).sum())
        missed = (self._missed_rate or (0.0,))[0]
        # Among more clusters as many look-ups are a smaller share of them.
        refitted = max(self._refitted(missed), 2 * self._noise * self._squares(self._record_weights))
        return Source("looked up", float(self._looked_up_parts.sum()), variance + refitted, variance)

    def _cluster_weights(self, clusters: Codes) -> Array:
        """Σ w over the held-out records of each of these clusters."""
        weights = np.bincount(self._clusters, self._record_weights, minlength=int(clusters.max()) + 1)
        return np.asarray(weights[clusters])

    def _typical_squares(self, clusters: Codes) -> Array:
        """The square of what a piece changes of a cluster's loss, by what likely pieces change."""
        loses = self._pair_probability > 0
        parts = np.where(loses, self._record_weights * self._losses_without("seen"), 0.0)
        weight = self._squares(np.where(loses, self._record_weights, 0.0))
        each = self._squares(parts) / weight if weight > 0 else 0.0
        return np.asarray(max(each, self._gain.square) * self._cluster_weights(clusters) ** 2)

    @property
    def _may_be_missed(self) -> float:
        """u: the share of the held-out records that may have a piece in training which is not seen."""
        seen = self._seen
        if seen is None:
            return _LEAST_UNSEEN
        return min(max(self._supposed_rate - seen.rate, (seen.upper - seen.rate) / 4, _LEAST_UNSEEN), _MOST_UNSEEN)

    @property
    def _supposed_rate(self) -> float:
        """The leakage rate where none is known: what is seen over the share of imitated pieces that would be."""
        seen = self._seen
        return 0.0 if seen is None else min(seen.rate / max(seen.caught, _LEAST_CAUGHT), seen.upper)

    def _expected_squares(self, clusters: Codes) -> Array:
        """e: the expected square of what an answer about each cluster changes in the optimism."""
        size = max(int(self._clusters.max()), int(clusters.max())) + 1
        q = np.zeros(size)
        q[self._clusters] = self._pair_probability
        parts = np.bincount(self._clusters, np.where(self._pair_probability > 0, self._seen_parts, 0.0), size)
        typical = self._typical_squares(clusters)
        of_likely = (1 - q[clusters]) * np.maximum(parts[clusters] ** 2, 0.25 * typical)
        # Pairs that are less than likely name some of the clusters with a missed piece; others have no such pair.
        candidate = np.where(q > 0, 0.0, self._candidate_probability[:size])
        named = float(self._cluster_weights(np.arange(size)) @ candidate)
        missed = candidate[clusters] + max(self._may_be_missed - named, _LEAST_UNSEEN)
        return np.asarray(np.where(q[clusters] > 0, of_likely, missed * typical))

    @cached_property
    def _candidate_probability(self) -> Array:
        """For every cluster the probability of its likeliest pair across folds, likely or not."""
        seen = self._seen
        size = int(self._clusters.max()) + 1
        if seen is None:
            return np.zeros(size)
        probability = np.zeros(max(size, len(seen.sizes)))
        fold_of = np.full(len(probability), -1)
        for fold in self.folds:
            fold_of[fold.clusters] = fold.index
        # Two clusters of one fold never train on each other.
        across = fold_of[seen.left] != fold_of[seen.right]
        for side in (seen.left, seen.right):
            np.maximum.at(probability, side[across], seen.probability[across])
        return probability

    def worth_of_answers(self, clusters: Codes) -> Array:
        """How far an answer about each of these clusters is expected to move the optimism."""
        return np.sqrt(self._expected_squares(clusters))

    # --- what answers could be ------------------------------------------------------------------------

    def imagined(
        self,
        counts: Sequence[int],
        rng: np.random.Generator,
        *,
        rate: float | None = None,
        std: float = 0.0,
        reviewer_error: float = 0.0,
    ) -> Iterator[PiecesPooled]:
        """The same losses with answers that a reviewer could give, for each of these numbers of look-ups."""
        mates, gain = self._imagined_mates(rate, std, rng), max(self._missed_gain.value, 0.0)
        spread = math.sqrt(max(self._missed_gain.square - gain**2, 0.0))
        gains = gain + spread * rng.standard_normal(int(mates.max(initial=int(self._clusters.max()))) + 1)
        exists, known = np.unique(self._clusters), self.samples.look_ups
        before = np.zeros(0, dtype=np.int64) if known is None else np.intersect1d(known.clusters, exists)
        worth = self.worth_of_answers(exists)
        for count in counts:
            probability = inclusion_probabilities(worth, count)
            drawn = exists[draw_clusters(probability, rng)]
            drawn = np.concatenate([before, drawn[~np.isin(drawn, before)]])[:count]
            yield self._answered(drawn, probability[np.searchsorted(exists, drawn)], mates, gains, reviewer_error)

    def _imagined_mates(self, rate: float | None, std: float, rng: np.random.Generator) -> Codes:
        """Pairs of clusters that could be one entity, each in both directions, in the order of the first of them."""
        seen, left = self._seen, max(float(self._record_weights[~self._asked].sum()), 1e-12)
        assert seen is not None
        exists, true = np.unique(self._clusters), rng.random(len(seen.left)) < self._confirmed * seen.probability
        parts = [np.stack([seen.left, seen.right])[:, true]]
        # Missed pieces that no pair names: as many as are supposed, less those that pairs name.
        missed = self._may_be_missed
        if rate is not None or self._missed_rate is not None:
            missed = self._unseen_rate(seen, rate, std)[0] / left
        unlikely = np.where(self._pair_probability > 0, 0.0, self._candidate_probability[self._clusters])
        missed -= float(self._record_weights @ unlikely)
        for fold in self.folds:
            some = exists[np.isin(exists, fold.clusters)]
            some = some[rng.random(len(some)) < missed / 2]
            parts.append(np.stack([some, rng.choice(np.setdiff1d(exists, fold.clusters), len(some))]))
        pairs = np.concatenate(parts, axis=1)
        if (known := self.samples.look_ups) is not None:
            sizes = [len(mates) for mates in known.mates]
            looked_up = np.stack([np.repeat(known.clusters, sizes), np.concatenate([*known.mates, exists[:0]])])
            pairs = np.concatenate([pairs[:, ~np.isin(pairs, known.clusters).any(axis=0)], looked_up], axis=1)
        return np.unique(np.concatenate([pairs, pairs[::-1]], axis=1), axis=1)

    def _answered(
        self, clusters: Codes, probability: Array, mates: Codes, gains: Array, reviewer_error: float
    ) -> PiecesPooled:
        """The same losses with answers about these clusters, by the pairs that are mates and the gains of missed ones.

        Without its likely pieces a cluster loses as it did; likely ones that are none come back, and a missed piece
        that is found gains what imitated pieces do.
        """
        folds, names = [], len(gains)
        one, other = mates
        for fold in self.folds:
            likely, held_out = fold.likely or NOTHING_LIKELY, np.intersect1d(fold.clusters, clusters)
            trains = np.isin(one, held_out) & ~np.isin(other, fold.clusters)
            missed = np.isin(fold.clusters, one[trains & ~np.isin(other, likely.train_clusters)])
            pairs = likely.held_out_clusters * names + likely.train_clusters
            right = likely.held_out_clusters[np.isin(pairs, one * names + other)]
            wrong = np.setdiff1d(np.intersect1d(likely.held_out_clusters, held_out), right)
            back, gain = np.isin(fold.clusters, wrong), np.where(missed, gains[fold.clusters], 0.0)
            losses = dict[str, Array]()
            for name, own in {"own": fold.own_losses, **fold.pseudo}.items():
                losses[name] = np.where(back, own, fold.measured.get("seen", {}).get(name, own)) + gain
                if self._answers is not None:
                    answered = fold.measured.get("looked up", {}).get(name, own)
                    losses[name] = np.where(np.isin(fold.clusters, self._answers[0]), answered, losses[name])
            folds.append(replace(fold, measured={**fold.measured, "looked up": losses}))
        starts, ends = (np.searchsorted(one, clusters, side=side) for side in ("left", "right"))
        named = tuple(other[start:end] for start, end in zip(starts, ends, strict=True))
        look_ups = LookUps(clusters, named, probability, reviewer_error)
        return replace(self, samples=replace(self.samples, folds=tuple(folds), look_ups=look_ups))

    # --- imitation ------------------------------------------------------------------------------------

    def scored_rate(self, rate: float) -> float:
        """ρ'/2: what the clusters that are cut have gained already, as a share of what a piece gains."""
        seen = 0.0 if self._seen is None else self._seen.rate
        return max((rate - seen) / 2, 1e-3 * rate)

    @property
    def _times_chance(self) -> float:
        """How much more chance decides who leaks than it does in the records that imitation was scored on."""
        return 1.0

    def _by_imitation(self, imitated: Functional, rate: float, std: float) -> Source:
        """The optimism by imitated cuts at a rate."""
        influence = Influences(self.columns).of_units(imitated)
        count = len(influence)
        between = count / max(count - 1, 1) * float((influence**2).sum())
        chance = self._times_chance * between / rate if rate > 0 else 0.0
        fits = self.monte_carlo_of(imitated)
        lasting = (_OF_IMITATION * imitated.value) ** 2 + (std * imitated.value / rate if rate > 0 else 0.0) ** 2
        error = lasting + (fits if math.isfinite(fits) else 0.0)
        return Source("imitated", imitated.value, chance + self._refit_variance * rate + error, lasting)

    # --- together -------------------------------------------------------------------------------------

    @cached_property
    def measured(self) -> Optimism | None:
        """The optimism by what is seen and looked up, without a rate."""
        sight = self._by_sight(None, 0.0)
        if sight is None:
            return None
        base = Optimism(Functional(0.0), self.naive, self.shares)
        return self._together(base, [sight, self._by_look_ups()], None)

    def solve(
        self,
        curve: Curve,
        rates: Array,
        *,
        stds: Array | None = None,
        losses: Weights | None = None,
        derive: bool = True,
    ) -> Optimism:
        """The optimism of all sources, for the leakage rate of each fold."""
        solved = super().solve(curve, rates, losses=losses, derive=derive)
        rate = float(self.shares @ rates)
        std = 0.0 if stds is None else float(self.shares @ stds)
        if rate == 0 and std == 0:
            return replace(solved, facts={"variance": 0.0})
        sources = [self._by_sight(rate, std), self._by_look_ups(), self._by_imitation(solved.by_curve, rate, std)]
        return self._together(solved, sources, solved.by_curve)

    def _together(self, solved: Optimism, sources: Sequence[Source | None], imitated: Functional | None) -> Optimism:
        parts, variance = combined([source for source in sources if source is not None])
        weight = {part.name: part.weight for part in parts}
        value = sum(part.weight * part.value for part in parts if part.name != "imitated")
        columns = np.array([[weight.get("seen", 0.0), weight.get("looked up", 0.0)]])
        aside = Functional(value, {_MEASURED: columns}, choice=variance)
        by_curve = Functional(0.0) if imitated is None else replace(imitated.scaled(weight["imitated"]), choice=0.0)
        lasting = np.array([part.weight * math.sqrt(part.lasting) for part in parts])
        kept = (1 - _CORRELATION) * float(lasting @ lasting) + _CORRELATION * float(lasting.sum()) ** 2
        facts = {"parts": parts, "variance": variance, "lasting": kept, "upper": self._upper(imitated)}
        return replace(solved, by_curve=by_curve, aside=aside, facts=facts)

    def _upper(self, imitated: Functional | None) -> float | None:
        """What imitation allows at the upper bound of the rate, where little would be seen and no rate is known."""
        seen = self._seen
        little = seen is not None and seen.caught < ENOUGH_CAUGHT and self._answers is None
        if not little or imitated is not None or seen is None:
            return None
        largest = max(self._gain.value, 0.0) + Z95 * math.sqrt(self._gain.variance)
        return min(_UNLIKE_THE_REST * seen.upper, 1.0) * largest

    def chance(self, rates: Array) -> float:
        """Nothing: the variances of the sources have the chance of who leaked in them."""
        return 0.0

    def lasting(self, solved: Optimism, rates: Array) -> float:
        """What is missed, what look-ups leave open, and how far imitated pieces differ from real ones."""
        return float(solved.facts.get("lasting", 0.0))

    def rate_effect(self, curve: Curve, rates: Array, stds: Array) -> float:
        """Nothing: the variances of the sources have the error of the rate in them."""
        return 0.0

    @property
    def training_share(self) -> float:
        """φ: what training clusters add to the variance between clusters."""
        return _TRAINING_SHARE if self.unit_kind == "clusters" else 0.0
