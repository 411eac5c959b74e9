"""Checks of what is seen, looked up and imitated where pieces of entities leak."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.text import percentage
from outofcluster.auditing.findings import Context, Remark, check, info, warning
from outofcluster.auditing.summary_parts import LookedUpSummary, SeenSummary, mean_rate
from outofcluster.evidence.likely import ENOUGH_CAUGHT, NOTHING_LIKELY
from outofcluster.inference.functional import Functional, Influences
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT, FoldSamples

# Look-ups from which a list says something by itself.
_ENOUGH_LOOK_UPS = 20
# Clusters with a piece from which their mean gain says something.
_ENOUGH_CLUSTERS = 8
# Standard errors, and the factor, by which real pieces may differ from imitated ones.
_UNLIKELY, _OTHER_BY = 3.0, 1.5
# Standard errors by which the rate that is seen is clearly above a given one.
_CLEARLY = 2.0


@check("little-would-be-seen", only="fragments", needs_rate=True)
def little_would_be_seen(context: Context) -> Iterator[Remark]:
    """Most pieces of held-out entities would not be seen, and nobody looked any up."""
    seen = SeenSummary.of(context.samples)
    if seen is None or seen.caught >= ENOUGH_CAUGHT or context.samples.look_ups is not None:
        return
    caught = "No imitated piece"
    if seen.caught > 0:
        caught = f"Only {percentage(seen.caught, 2)} of imitated pieces"
    yield Remark(
        "warning" if context.from_data else "info",
        f"{caught} would be seen in these records, so that most of the leakage may be missed"
        + (": the optimism is at least what is seen." if context.from_data else "."),
        "Look up some clusters: review_list() draws them. Or give identity=, what tells who is who and no model sees.",
    )


@check("rate-below-seen", only="fragments", needs_rate=True)
def rate_below_seen(context: Context) -> Iterator[Remark]:
    """The leakage rate that was given is below what the likely pieces alone show."""
    seen = context.samples.seen
    if seen is None or context.from_data:
        return
    assumed = mean_rate(context.leakage, context.samples.folds)
    spread = max(leak.std or 0.0 for leak in context.leakage)
    error = math.hypot(_error_of_seen(context.samples.folds), spread)
    if seen.rate - _CLEARLY * error > assumed:
        yield warning(
            f"The likely pieces alone are {percentage(seen.rate, 2)} of the held-out records (standard error "
            f"{percentage(error, 2)}), and a leakage rate of {percentage(assumed, 2)} was given.",
            "Check where the rate comes from and what it is a share of. leakage='data' goes by what is seen, and "
            "review_list() draws clusters to look up.",
        )


def _error_of_seen(folds: tuple[FoldSamples, ...]) -> float:
    """The standard error of the rate that is seen, by the probabilities of likely pairs.

    A pair that is one entity with probability q puts w records on the wrong side: those of both of its clusters where
    each is held out once. As a rare event it has the variance w² q, which includes q (1 - q). And all probabilities
    may be off together, by as many records as belong to pairs that are not one entity, Σ w (1 - q).
    """
    moved, chance = Counter[tuple[int, int]](), dict[tuple[int, int], float]()
    for fold in folds:
        pieces, records = fold.likely or NOTHING_LIKELY, Counter(fold.clusters.tolist())
        likely = zip(pieces.probability, pieces.held_out_clusters.tolist(), pieces.train_clusters.tolist(), strict=True)
        # The likeliest pair of every held-out cluster comes last, and is kept.
        for one, (other, q) in {one: (other, float(q)) for q, one, other in sorted(likely)}.items():
            pair = min(one, other), max(one, other)
            moved[pair], chance[pair] = moved[pair] + records[one], q
    rare = sum(chance[pair] * count**2 for pair, count in moved.items())
    wrong = sum((1 - chance[pair]) * count for pair, count in moved.items())
    return math.hypot(math.sqrt(rare), wrong) / sum(fold.n_validation for fold in folds)


@check("reviewed-few", only="fragments", needs_rate=True)
def reviewed_few(context: Context) -> Iterator[Remark]:
    """Few clusters were looked up, or none of the answers changed anything."""
    looked_up = LookedUpSummary.of(context.samples)
    if looked_up is None:
        return
    number = looked_up.clusters
    if number < _ENOUGH_LOOK_UPS:
        yield info(
            f"Only {number} clusters were looked up, which say little about all the others."
            if number > 1
            else "Only one cluster was looked up, which says little about all the others.",
            f"Look up {_ENOUGH_LOOK_UPS} or more: review_list() draws them.",
        )
    elif not looked_up.changed:
        yield info(
            f"None of the answers about {number} clusters changed what is left out of training: people saw what the "
            "records show.",
            "More look-ups would add little, as long as they find nothing new.",
        )


@check("pieces-unlike-the-rest", only="fragments", needs_rate=True)
def pieces_unlike_the_rest(context: Context) -> Iterator[Remark]:
    """Real pieces of held-out entities look otherwise than imitated ones, or help a model more or less."""
    differs = _seen_otherwise(context) or _gains_otherwise(context)
    if differs:
        parts = context.solution.correction.facts.get("parts", ())
        imitated = sum(part.weight for part in parts if part.name == "imitated") > 0.5
        yield Remark(
            "warning" if imitated or context.solution.at_least else "info",
            differs,
            "Let leakage='data' go by real pieces, and look some up: review_list()."
            if imitated
            else "Look up more clusters: answers about them do not rest on imitated pieces.",
        )


def _seen_otherwise(context: Context) -> str:
    """Whether people found pieces that are seen more or less often than imitated ones; empty where they did not."""
    look_ups, seen = context.samples.look_ups, context.samples.seen
    if look_ups is None or seen is None:
        return ""
    weights, caught = list[float](), list[bool]()
    for fold in context.samples.folds:
        held_out = np.unique(fold.clusters)
        for cluster, mates, chance in zip(look_ups.clusters, look_ups.mates, look_ups.probability, strict=True):
            trained = np.setdiff1d(mates, held_out)
            if cluster in held_out and len(trained):
                likely = np.zeros(0, dtype=np.int64)
                if fold.likely is not None:
                    likely = fold.likely.train_clusters[fold.likely.held_out_clusters == cluster]
                weights.append(1 / float(chance))
                caught.append(bool(np.isin(trained, likely).any()))
    if len(weights) < _ENOUGH_CLUSTERS:
        return ""
    share = float(np.average(caught, weights=weights))
    # As many clusters as these would be if all counted the same.
    number = sum(weights) ** 2 / float(np.sum(np.square(weights)))
    spread = max(seen.caught * (1 - seen.caught), 0.01)
    if abs(share - seen.caught) <= _UNLIKELY * math.sqrt(spread / number):
        return ""
    less = "less" if share < seen.caught else "more"
    return (
        f"Looked-up pieces are unlike the rest of their clusters: {percentage(share, 2)} of them are seen, and "
        f"{percentage(seen.caught, 2)} of imitated ones would be. Real pieces look {less} like their clusters."
    )


def _gains_otherwise(context: Context) -> str:
    """Whether real pieces help the model more or less than imitated ones; empty where they do not."""
    for real, imitated, which in _gains(context):
        apart, error = real.value - imitated.value, math.sqrt(real.variance + imitated.variance)
        larger, smaller = max(real.value, imitated.value), max(min(real.value, imitated.value), 0.0)
        clearly = abs(apart) > _UNLIKELY * error and larger > _OTHER_BY * smaller
        if clearly and real.clusters >= _ENOUGH_CLUSTERS:
            return (
                f"{which} are unlike the rest of their clusters: a record gains {real.value:.2g} from one of them, and "
                f"{imitated.value:.2g} from an imitated piece. Real pieces help the model "
                f"{'less' if apart < 0 else 'more'}."
            )
    return ""


@dataclass(frozen=True)
class _Gain:
    """What a held-out record gains from a piece in training, with its variance, over so many clusters."""

    value: float
    variance: float
    clusters: int = 0


def _gains(context: Context) -> Iterator[tuple[_Gain, _Gain, str]]:
    """The gain from real pieces, that from imitated ones like them, and what the real ones are."""
    folds = context.samples.folds
    all_pieces = _imitated(context, MAIN)
    if all("looked up" in fold.measured for fold in folds) and context.samples.look_ups is not None:
        yield _ratio([_of_looked_up(context, fold) for fold in folds]), all_pieces, "Looked-up pieces"
    seen = context.samples.seen
    if seen is None or not all("seen" in fold.measured for fold in folds) or not 0 < seen.caught <= 1:
        return
    caught = all_pieces
    if all(UNCAUGHT in fold.runs for fold in folds):
        # Likely pieces are those that would be caught, which gain more or less than the others.
        missed, share = _imitated(context, UNCAUGHT), seen.caught
        caught = _Gain(
            (all_pieces.value - (1 - share) * missed.value) / share,
            (all_pieces.variance + (1 - share) ** 2 * missed.variance) / share**2,
        )
    yield _ratio([_of_likely(context, fold) for fold in folds]), caught, "Likely pieces"


def _imitated(context: Context, role: str) -> _Gain:
    """The gain from imitated pieces of a role."""
    pooled = context.solution.pooled
    gain = Functional(0.0, {role: pooled.shares[:, None] * np.array([1.0, -1.0])})
    means = pooled.shares @ pooled.columns.means(role)
    influence = Influences(pooled.columns).of_units(gain)
    fits = pooled.monte_carlo_of(gain)
    return _Gain(float(means[0] - means[1]), float((influence**2).sum()) + (fits if math.isfinite(fits) else 0.0))


# For the records of one fold: their clusters, what they gain, and how much that counts.
_OfRecords = tuple[Codes, Array, Array]


def _of_likely(context: Context, fold: FoldSamples) -> _OfRecords:
    """What records of clusters with a likely piece gain from it; a pair that is none gains what the control does."""
    own = _losses(context, fold)
    chance = np.zeros(int(fold.clusters.max()) + 1)
    if fold.likely is not None:
        here = fold.likely.held_out_clusters < len(chance)
        np.maximum.at(chance, fold.likely.held_out_clusters[here], fold.likely.probability[here])
    q = chance[fold.clusters]
    gain = _losses(context, fold, "seen") - own
    control = _losses(context, fold, "control") - own
    return fold.clusters, np.where(q > 0, gain - (1 - q) * control, 0.0), q


def _of_looked_up(context: Context, fold: FoldSamples) -> _OfRecords:
    """What records of looked-up clusters gain from the pieces that were found in training."""
    look_ups = context.samples.look_ups
    assert look_ups is not None
    count = np.zeros(max(int(fold.clusters.max()), int(look_ups.clusters.max())) + 1)
    for cluster, mates, chance in zip(look_ups.clusters, look_ups.mates, look_ups.probability, strict=True):
        count[cluster] = float(len(np.setdiff1d(mates, fold.clusters)) > 0) / chance
    weight = count[fold.clusters]
    return fold.clusters, weight * (_losses(context, fold, "looked up") - _losses(context, fold)), weight


def _losses(context: Context, fold: FoldSamples, name: str = "") -> Array:
    of_folds = context.metric.pool == "folds"
    if not name:
        return fold.losses_by("clusters", "fold" if of_folds else "pooled")
    return fold.measured_by(name, "clusters", "fold" if of_folds else "pooled")


def _ratio(parts: list[_OfRecords]) -> _Gain:
    """The weighted mean gain of records, and its variance over clusters."""
    clusters, gain, weight = (np.concatenate(each) for each in zip(*parts, strict=True))
    total = float(weight.sum())
    if total == 0:
        return _Gain(math.nan, math.nan)
    value = float(gain.sum()) / total
    moved = np.bincount(clusters, gain - value * weight)
    count = len(np.unique(clusters[weight > 0]))
    return _Gain(value, count / max(count - 1, 1) * float((moved**2).sum()) / total**2, count)
