r"""A part of the held-out records as a problem of its own: its losses, and what it takes over from all of them.

Nothing is fitted again. Let g be some held-out records, W their share of what a level scores, and :math:`φ_c` the share
of unit c that lies in g (1 or 0 where the units are records, or where g is made of whole clusters).

*The user's own losses*, and those of models without some training clusters, are kept for every record, so that those
of g are taken as they are. A metric of a set of records, such as AUC, is computed anew from the predictions for g
(:mod:`outofcluster.sampling.predicted`), in every fold or of all folds together as it is on the whole. Folds in which
it is not defined for g are left out. What imitated pieces gain is then taken from all records, since no predictions are
kept for these.

*Losses of resamples* are kept as means t over all scored records, and as the sums :math:`E_c` that every unit adds to
them (:mod:`outofcluster.sampling.samples`). With :math:`s_c` the share of unit c in what is scored,

.. math:: b_g = b + δ, \qquad δ = \frac1W \sum_c φ_c \bar E_c, \qquad
          \bar E_{gc} = \frac{φ_c}{W} (\bar E_c - s_c δ) , \qquad W = \sum_c φ_c s_c ,

which is exact where every :math:`φ_c` is 1 or 0. Else the records of a cluster are taken to differ alike. Of imitated
pieces a unit's share follows from its records and from what it counts; single clusters do not count there.

*Noise of the fits.* A replicate of :math:`b_g` is not kept. It is taken to move as that of b does, :math:`1/\sqrt{W}`
times as far: so it is where the noise of parts of equal variance is independent, and less where it is shared.

**Single records.** The curve is fitted to :math:`b_g`. The leakage rate of g is :math:`m\,p_0`, where m is what the
user says, or else the share of g among those whom leaked records resemble, over its share of the held-out records,
where the sides can be told apart. Elsewhere m is 1, with a standard error of :math:`\tfrac12\sqrt{(1-W)/W}`: for one
half of the records the rate then lies between 0 and twice the mean, which is all that is possible.

**Pieces.** Every sum over held-out records (:mod:`outofcluster.errormodels.sources`) runs over g. What says something
about the classifier of pairs, about imitation, or about a record with a near cluster that is nobody's mate, comes from
all records: γ, τ, f, κ, c, v. What is about those who leak is g's own:

- *The probabilities of pairs.* They rest on how many pairs there are to be found among all clusters, and g may have
  more of them or fewer. With :math:`q_c` the probability of the likeliest pair of cluster c and K clusters, the odds
  are multiplied by the r with

  .. math:: r = \frac{3 + \sum_c φ_c\, q_c(r)}{3 + \sum_c φ_c\, \frac1K \sum_j q_j} , \qquad
            q_c(r) = \frac{r q_c}{r q_c + 1 - q_c} ,

  the maximum-likelihood estimate of a mixture's weight, drawn towards 1 as if by three pairs.
- *The rate that is seen* in g, and its upper bound, which lies above it by what it does in all, or in proportion to the
  rate where that is more.
- *The share that is missed*, by looked-up clusters of g. With :math:`\hat ρ` and v that of all and its variance, and
  :math:`\hat ρ_g, v_g` that of g, it is the mean of both by the weights :math:`1/(v + \hat ρ^2)` and :math:`1/v_g`:
  a subgroup may well be missed twice as often as all, or not at all.
- *A known rate* ρ becomes :math:`m ρ`, m the rate that is seen in g over that in all, both with 0.02 added; its
  relative standard error is :math:`\tfrac12 (1-γ) \sqrt{(1-W)/W}` on top of what was given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from outofcluster._base.arguments import Array, Bools, Codes
from outofcluster.errormodels.pooled import Pooled
from outofcluster.errormodels.records import TOLD_APART
from outofcluster.errormodels.sources import Gain, PiecesPooled
from outofcluster.evidence.likely import SeenPieces
from outofcluster.sampling.audit_samples import FoldSamples, is_exchanged
from outofcluster.sampling.predicted import with_losses_anew
from outofcluster.sampling.samples import LossSamples, UnitEffects

# Pairs as many as which the odds of all clusters count for those of a subgroup.
_BORROWED_PAIRS = 3.0
# Steps towards the odds of a subgroup; each comes nearer by the share of pairs that are uncertain.
_STEPS = 50
# Relative standard error of a rate that is not known for one half of the records.
_UNKNOWN_SPLIT = 0.5
# What is added to rates that are compared.
_LEAST_SEEN = 0.02
# Relative standard error of a subgroup's rate where leaked records are told apart from others.
_TOLD_ERROR = 0.3


@dataclass(frozen=True)
class SubgroupRate:
    """The leakage rate of a subgroup over that of all records, and the standard error of this ratio."""

    ratio: float
    error: float


def subgroup_of(whole: Pooled, kept: Sequence[Bools]) -> Pooled:
    """The problem of some held-out records, of which there is one mark per record and fold.

    Folds in which a metric is not defined for them are left out; a `NotDefinedError` says where none remains.
    """
    weights = _scored_weights(whole)
    folds = [
        _part_of_fold(fold, some, weight, means=not fold.pseudo)
        for fold, some, weight in zip(whole.folds, kept, weights, strict=True)
        if some.any()
    ]
    if (named := whole.samples.named) is not None:
        folds = list(with_losses_anew(named, whole.samples.metric, folds))
    samples = replace(whole.samples, folds=tuple(folds))
    if isinstance(whole, PiecesPooled):
        return PiecesOfSubgroup(samples, whole.unit_kind, whole=whole)
    return type(whole)(samples, whole.unit_kind, whole.reverse)


def split_rate(whole: Pooled, kept: Sequence[Bools], rates: Array) -> SubgroupRate:
    """What is known of the rate of some held-out records, where that of all is known."""
    total = sum(len(some) for some in kept)
    share = sum(int(some.sum()) for some in kept) / total
    unknown = _UNKNOWN_SPLIT * math.sqrt((1 - share) / share)
    if isinstance(whole, PiecesPooled):
        seen = whole.samples.seen
        if seen is None:
            return SubgroupRate(1.0, unknown)
        part = subgroup_of(whole, kept)
        assert isinstance(part, PiecesOfSubgroup)
        ratio = (part.seen_rate + _LEAST_SEEN) / (seen.rate + _LEAST_SEEN)
        return SubgroupRate(ratio, unknown * (1 - seen.caught))
    resembling, suspected = 0.0, 0.0
    for fold, some, rate in zip(whole.folds, kept, rates, strict=True):
        sides = fold.sides
        if sides is None or sides.auc < TOLD_APART or (sides.resembles < 0).any():
            return SubgroupRate(1.0, unknown)
        of_cluster = _kept_share(fold.clusters, some, np.ones(len(some)))
        chance = np.minimum(rate * sides.ratio, 1.0)
        resembling, suspected = resembling + float(chance @ of_cluster[sides.resembles]), suspected + chance.sum()
    ratio = resembling / max(suspected, 1e-12) / share
    return SubgroupRate(ratio, min(_TOLD_ERROR * max(ratio, 1.0), unknown))


# --- the samples ------------------------------------------------------------------------------------------


def _scored_weights(whole: Pooled) -> list[Array]:
    """How much every held-out record counts in what resamples score, fold by fold."""
    if not isinstance(whole, PiecesPooled):
        return [np.ones(fold.n_validation) for fold in whole.folds]
    weights, ends = 1 - whole._pair_probability, np.cumsum([fold.n_validation for fold in whole.folds])[:-1]
    return [
        weight * (np.bincount(fold.clusters)[fold.clusters] > 1)
        for fold, weight in zip(whole.folds, np.split(weights, ends), strict=True)
    ]


def _part_of_fold(fold: FoldSamples, kept: Bools, weight: Array, *, means: bool) -> FoldSamples:
    def some(losses: dict[str, Array]) -> dict[str, Array]:
        return {name: values[kept] if len(values) else values for name, values in losses.items()}

    runs = {role: run for role, run in fold.runs.items() if not is_exchanged(role)}
    return replace(
        fold,
        rows=fold.rows[kept],
        clusters=fold.clusters[kept],
        own_losses=fold.own_losses[kept],
        pseudo=some(fold.pseudo),
        measured={name: some(losses) for name, losses in fold.measured.items()},
        predicted=some(fold.predicted),
        train_losses=None,
        # A metric that is no mean has resamples for all records only.
        runs={role: _part_of_run(run, fold, kept, weight) for role, run in runs.items()} if means else runs,
    )


def _kept_share(units: Codes, kept: Bools, weight: Array) -> Array:
    """φ: the share of every unit that is kept, by its number."""
    total = np.bincount(units, weight)
    return np.asarray(np.bincount(units, weight * kept, len(total)) / np.where(total > 0, total, 1.0))


def _part_of_run(run: LossSamples, fold: FoldSamples, kept: Bools, weight: Array) -> LossSamples:
    """The losses of the formulas in the module's head."""
    share = float(weight[kept].sum() / weight.sum())
    if share <= 0:
        return run
    parts = {}
    for kind in run.effects:
        units = run.effects[kind].units
        position = np.argsort(units)[np.searchsorted(np.sort(units), fold.scored_units(kind))]
        scored = np.bincount(position, weight * kept, len(units)) / weight.sum()
        there = np.bincount(position, kept, len(units)) > 0
        # A single cluster is not scored, and adds nothing.
        kept_share = _kept_share(position, kept, np.where(weight > 0, weight, 1e-12))
        parts[kind] = (kept_share * run.influences(kind), scored, there, units)
    finest = "records" if "records" in parts else next(iter(parts))
    moved = parts[finest][0].sum(axis=1) / share
    effects = {}
    for kind, (added, scored, there, units) in parts.items():
        # The sums of a coarser kind differ from the finest one's where clusters are cut by the subgroup.
        of_kind = added.sum(axis=1) / share
        influence = (added - scored * of_kind[:, None]) / share
        effects[kind] = UnitEffects(units[there], influence[:, there] * run.counts[:, None])
    noise = 1 / math.sqrt(share)
    losses = tuple(
        level.mean() + by + noise * (level - level.mean()) for level, by in zip(run.losses, moved, strict=True)
    )
    return replace(run, losses=losses, effects=effects)


# --- pieces -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PiecesOfSubgroup(PiecesPooled):
    """Pieces leak, and some of the held-out records are asked about.

    Attributes
    ----------
    whole : PiecesPooled
        The same for all held-out records.
    """

    whole: PiecesPooled = field(kw_only=True)

    @cached_property
    def _part_of_clusters(self) -> Array:
        """φ: the share of the held-out records of every cluster that belong to the subgroup."""
        size = int(self.whole._clusters.max()) + 1
        total = np.bincount(self.whole._clusters, minlength=size)
        return np.asarray(np.bincount(self._clusters, minlength=size) / np.maximum(total, 1))

    @cached_property
    def _times_odds(self) -> float:
        """r: how many times as high the odds of the subgroup's pairs are as they are on the whole."""
        part, every = self._part_of_clusters, self.whole._candidate_probability[: len(self._part_of_clusters)]
        exist = np.bincount(self.whole._clusters, minlength=len(part)) > 0
        expected = _BORROWED_PAIRS + float(part.sum()) * float(every[exist].mean())
        times = 1.0
        for _ in range(_STEPS):
            times = (_BORROWED_PAIRS + float(part @ _of_odds(every, times))) / expected
        return times

    @cached_property
    def _pair_probability(self) -> Array:
        """q: for every held-out record the probability of the likeliest pair of its cluster; 0 without one."""
        return _of_odds(super()._pair_probability, self._times_odds)

    @cached_property
    def seen_rate(self) -> float:
        """The share of the subgroup's records whose entity is seen to train."""
        return float(self._record_weights @ self._pair_probability)

    @cached_property
    def _subgroup_seen(self) -> SeenPieces | None:
        every = self.samples.seen
        if every is None:
            return None
        above = (every.upper - every.rate) * max(1.0, self.seen_rate / max(every.rate, 1e-12))
        return replace(every, rate=self.seen_rate, upper=min(self.seen_rate + above, 1.0))

    @property
    def _seen(self) -> SeenPieces | None:
        return self._subgroup_seen

    @property
    def _confirmed(self) -> float:
        return self.whole._confirmed

    @property
    def _nobodys_mate(self) -> tuple[float, float]:
        return self.whole._nobodys_mate

    @property
    def _noise(self) -> float:
        return self.whole._noise

    def _removed(self, kind: str) -> float:
        return self.whole._removed(kind)

    def _gain_of(self, role: str) -> Gain:
        return super()._gain_of(role) if self.samples.named is None else self.whole._gain_of(role)

    @property
    def _times_chance(self) -> float:
        if self.samples.named is None:
            return 1.0
        return self._squares(self._record_weights) / self.whole._squares(self.whole._record_weights)

    @cached_property
    def _missed_rate(self) -> tuple[float, float, float] | None:
        """The share that is missed, by the look-ups of the subgroup and by those of all."""
        every, look_ups = self.whole._missed_rate, self.samples.look_ups
        if every is None or look_ups is None:
            return None
        borrowed = every[1] + every[0] ** 2
        if not self._part_of_clusters[look_ups.clusters[look_ups.clusters < len(self._part_of_clusters)]].any():
            return every[0], borrowed, every[2]
        own = super()._missed_rate
        assert own is not None
        weight = borrowed / (own[1] + borrowed) if own[1] + borrowed > 0 else 0.0
        share = weight * own[0] + (1 - weight) * every[0]
        return share, weight * own[1], weight**2 * own[2] + (1 - weight) ** 2 * every[2]


def _of_odds(probability: Array, times: float) -> Array:
    """Probabilities whose odds are multiplied."""
    return np.asarray(times * probability / (times * probability + 1 - probability))
