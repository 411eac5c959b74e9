"""What an optimism of pieces rests on, as plain data and in words: what is seen, what was looked up, and its sources.

``of`` makes a part of the samples. The words are about an audit without a leakage rate, and about the share of each
source where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from outofcluster._base.text import percentage
from outofcluster.auditing.summary_parts import counted
from outofcluster.inference.estimates import fixed
from outofcluster.sampling.audit_samples import AuditSamples

# Names of the columns of `SourceSummary.words`.
SOURCES_HEADER = ("the optimism by", "value", "standard error", "weight")
# The sources in words.
_SOURCES = {
    "seen": "what can be seen",
    "looked up": "what somebody looked up",
    "imitated": "imitated pieces at this leakage rate",
    "curve": "resamples with and without leaked records",
}
# Share of imitated pieces below which none can be said to be seen.
_HARDLY_ANY = 0.005


@dataclass(frozen=True)
class SourceSummary:
    """One of the sources that an optimism rests on.

    Attributes
    ----------
    source : str
        "seen", "looked up" or "imitated" for pieces, and "curve" for single records.
    value, standard_error : float
        The optimism by this source alone, and its standard error.
    weight : float
        How much it counts; the weights sum to 1.
    """

    source: str
    value: float
    standard_error: float
    weight: float

    @property
    def in_words(self) -> str:
        """What the source is."""
        return _SOURCES.get(self.source, self.source)

    def words(self, digits: int) -> tuple[str, str, str, str]:
        """The source, its optimism, the standard error of that, and its weight, as a row of a table."""
        error = fixed(self.standard_error, digits) if math.isfinite(self.standard_error) else "not known"
        return self.in_words, fixed(self.value, digits), error, percentage(self.weight, 2)


@dataclass(frozen=True)
class SeenSummary:
    """What the records show about pieces of held-out clusters in training.

    Attributes
    ----------
    rate, upper : float
        The share of the held-out records whose cluster is seen to have a piece in training, and a 95 % upper bound of
        the share that has one, which holds where pieces are like the rest of their clusters.
    caught : float
        The share of imitated pieces that would be seen.
    pairs : int
        Pairs of a training and a held-out cluster that are likelier than not one entity.
    told_apart : bool
        Whether the features tell entities apart.
    """

    rate: float
    upper: float
    caught: float
    pairs: int
    told_apart: bool

    @classmethod
    def of(cls, samples: AuditSamples) -> Self | None:
        """That of an audit; None where clusters were not compared."""
        seen = samples.seen
        if seen is None:
            return None
        entities = [fold.entities for fold in samples.folds if fold.entities is not None]
        # A pair may be likely in two folds, once for each of its clusters.
        pairs = {
            frozenset(pair)
            for fold in samples.folds
            if fold.likely is not None
            for pair in zip(fold.likely.train_clusters.tolist(), fold.likely.held_out_clusters.tolist(), strict=True)
        }
        told_apart = any(each.identified for each in entities)
        return cls(float(seen.rate), float(seen.upper), float(seen.caught), len(pairs), told_apart)

    @property
    def is_blind(self) -> bool:
        """Whether nothing can be seen: features hardly tell entities apart, and no linkage tool compared them."""
        return not self.pairs and (not self.told_apart or self.caught < _HARDLY_ANY)

    @property
    def in_words(self) -> str:
        """The share of the held-out records that leak by what is seen, and how much would be seen."""
        if self.is_blind:
            return (
                "The records themselves do not show which clusters are pieces of one entity, since their features "
                "hardly tell entities apart."
            )
        rate, upper, caught = (percentage(share, 2) for share in (self.rate, self.upper, self.caught))
        shown = f"By what the records show, {rate} of the held-out records have a piece of their cluster in training"
        if not self.told_apart:
            return f"{shown}. Only pairs of the linkage tool show it; the features do not tell entities apart."
        return (
            f"{shown} (at most {upper}, if pieces are like the rest of their clusters). Of such pieces {caught} would "
            "be seen."
        )

    @property
    def left_out_in_words(self) -> str:
        """What models were fitted without."""
        if not self.pairs:
            return "No training cluster is likelier than not a piece of a held-out one, so that none was left out."
        pairs = counted(self.pairs, "likely pair")
        left_out = "the training clusters that are probably pieces of held-out ones"
        return f"Models were fitted again without {left_out} ({pairs})."


@dataclass(frozen=True)
class LookedUpSummary:
    """What somebody looked up.

    Attributes
    ----------
    clusters : int
        Clusters that were looked up.
    with_mates : int
        Those among them that share their entity with other clusters.
    changed : int
        Those whose answer changed what is left out of training.
    even : bool
        Whether all of them were equally likely to be drawn.
    reviewer_error : float
        Share of the answers that are taken to be wrong.
    """

    clusters: int
    with_mates: int
    changed: int
    even: bool
    reviewer_error: float

    @classmethod
    def of(cls, samples: AuditSamples) -> Self | None:
        """That of an audit; None where nothing was looked up."""
        look_ups = samples.look_ups
        if look_ups is None:
            return None
        changed = set[int]()
        for fold in samples.folds:
            held_out = np.unique(fold.clusters)
            for cluster, mates in zip(look_ups.clusters.tolist(), look_ups.mates, strict=True):
                if cluster in held_out:
                    likely = set[int]()
                    if fold.likely is not None:
                        likely = set(fold.likely.train_clusters[fold.likely.held_out_clusters == cluster].tolist())
                    if likely != set(np.setdiff1d(mates, held_out).tolist()):
                        changed.add(cluster)
        return cls(
            len(look_ups.clusters),
            sum(len(mates) > 0 for mates in look_ups.mates),
            len(changed),
            bool(np.ptp(look_ups.probability) < 1e-9),
            float(look_ups.reviewer_error),
        )

    @property
    def in_words(self) -> str:
        """How many clusters were looked up, and what came out."""
        looked_up = f"{counted(self.clusters, 'cluster')} {'was' if self.clusters == 1 else 'were'} looked up"
        if not self.with_mates:
            return f"{looked_up}, and no other cluster of the same entity was found."
        shares = "shares its" if self.with_mates == 1 else "share their"
        return f"{looked_up}; {self.with_mates} of them {shares} entity with other clusters."


def rests_on(sources: Sequence[SourceSummary]) -> str:
    """The sources and how much each of them counts; empty where there is nothing to choose from."""
    if not sources or sources[0].source == "curve":
        return ""
    if len(sources) == 1:
        return f"The answer rests on {sources[0].in_words} alone."
    named = [f"on {each.in_words} ({percentage(each.weight, 2)})" for each in sources]
    return f"The answer rests {', '.join(named[:-1])} and {named[-1]}."
