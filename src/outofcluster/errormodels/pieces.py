"""Pieces of entities leak: what record linkage does when it splits an entity.

What is fitted, and what the records show before that: which training clusters are probably pieces of held-out entities
(:mod:`outofcluster.evidence.likely`), imitated cuts of every held-out cluster (:mod:`outofcluster.sampling.halves`),
and models without likely or looked-up pieces. How their losses become an optimism is the subject of
:mod:`outofcluster.errormodels.sources`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes, check_integer, is_missing
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster._base.rows import take_rows
from outofcluster._base.seeds import RandomState, Seeds, seed_of
from outofcluster.curves.base import Curve
from outofcluster.curves.paper.basis import PolynomialCurve
from outofcluster.errormodels.base import Choices, ErrorModel, Evidence, Rates, names_of_clusters, suspects_table
from outofcluster.errormodels.pooled import Pooled
from outofcluster.errormodels.records import is_per_record, not_compared, read_probabilities
from outofcluster.errormodels.sources import PiecesPooled
from outofcluster.evidence.entities import EntitySuspects, entity_suspects
from outofcluster.evidence.laws import AssumedCuts, Cuts
from outofcluster.evidence.likely import (
    NOTHING_LIKELY,
    LikelyPieces,
    PairList,
    SeenPieces,
    look_for_pieces,
    tilt,
)
from outofcluster.evidence.looked_up import LookUps, draw_clusters, inclusion_probabilities, read_audited
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, AuditSamples
from outofcluster.sampling.halves import HalvesRun
from outofcluster.sampling.run import Runnable, check_split

# Likely mates that a review list shows.
_SHOWN_MATES = 5
# Imitated cuts in a round, with two fits per fold each.
_CUTS_OF_A_ROUND = 2


@dataclass(frozen=True)
class PiecesEvidence(Evidence):
    """What the records show about split entities, and how clusters are cut.

    Attributes
    ----------
    cuts : Cuts
        The imitated cuts of all clusters.
    entities, likely : mapping from int
        For every fold the training clusters that may be pieces of held-out entities, and those that are likely.
    seen : SeenPieces or None
        What all folds show; None where nothing was compared.
    caught : array of bool of shape (cuts, clusters), or None
        Which imitated pieces would be caught.
    tilt : array of shape (cuts, clusters), or None
        How much imitated pieces count, as unlike the rest as looked-up pieces are.
    """

    cuts: Cuts
    entities: Mapping[int, EntitySuspects] = field(default_factory=dict)
    likely: Mapping[int, LikelyPieces] = field(default_factory=dict)
    seen: SeenPieces | None = None
    caught: NDArray[np.bool_] | None = None
    tilt: Array | None = None

    def rate(self, folds: Sequence[int]) -> Leakage | None:
        """The rate that is seen, with an upper bound."""
        return None if self.seen is None else Leakage.of_seen(self.seen)

    def facts(self, task: Task, fold: Fold, rates: Rates) -> dict[str, Any]:
        """The suspects and likely pieces of a fold."""
        return {"entities": self.entities.get(fold.index), "likely": self.likely.get(fold.index)}

    def of_samples(self, choices: Choices) -> dict[str, Any]:
        """What is kept with the samples of all folds."""
        return {"seen": self.seen, "look_ups": choices.look_ups}


class Pieces(ErrorModel):
    """Whole pieces of entities leak."""

    name = "fragments"
    side = "validation"
    largest_rate = 0.9
    least_fits = 4
    has_sizes = False

    def default_curve(self) -> Curve:
        """A line."""
        return PolynomialCurve(1)

    def read_rates(self, leakage: Any, folds: Sequence[Fold], n_records: int) -> Rates:
        """Rates of the folds, how a linkage cuts where that was counted, and the pairs that it compared."""
        if isinstance(leakage, str):
            return Rates(from_data=True)
        if is_per_record(leakage, n_records, len(folds)):
            read_probabilities(leakage, folds, n_records)
            raise InputError(
                "leakage must be a rate for error_model='fragments', got probabilities of single records, which are "
                "for error_model='records'."
            )
        first = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
        law = first.pieces if isinstance(first, Leakage) else None
        compared = first.likely_pairs if isinstance(first, Leakage) else None
        audited = first.looked_up if isinstance(first, Leakage) else None
        read = super().read_rates(leakage, folds, n_records)
        # Pairs of a linkage tool that give no more than a lower bound are left out, which shows more than their rate.
        seen = compared is not None and all(rate.at_least for rate in read.by_fold or ())
        return replace(read, from_data=seen, law=law, compared=compared, audited=audited)

    def _read_rate(self, value: Any) -> Leakage:
        # What audited records say of misplaced ones is about single records.
        return replace(super()._read_rate(value), linkage_errors=None)

    def n_levels(self, folds: Sequence[Fold], choices: Choices, task: Task) -> int:
        """With a piece in training, and without."""
        return 2

    def look_ups(self, task: Task, rates: Rates) -> LookUps | None:
        """What the audited entities behind a rate say, as look-ups."""
        if rates.audited is None:
            return None
        assert task.clusters is not None
        return read_audited(rates.audited, task.cluster_names, np.bincount(task.clusters))

    def look(self, task: Task, folds: Sequence[Fold], choices: Choices, seeds: Seeds) -> PiecesEvidence:
        """Which training clusters are probably pieces of held-out entities, by a classifier of pairs."""
        assert task.clusters is not None
        if choices.n_train is not None:
            raise InputError(
                f"n_train must be left out for error_model='fragments', where all of them train, got {choices.n_train}."
            )
        clusters, law = task.clusters, choices.rates.law or AssumedCuts()
        fits = choices.fits_per_fold(len(folds))
        cuts = _draw_cuts(task, law, _CUTS_OF_A_ROUND if fits is None else fits // 2, seeds)
        if not choices.unmix:
            return PiecesEvidence(cuts)
        search = look_for_pieces(
            task.X,
            task.y,
            clusters,
            folds,
            cuts=cuts,
            seed=seeds.stream("entities"),
            discrete=task.classifier,
            identity=choices.identity,
            compared=_compared(choices.rates, task),
        )
        pairs = search.pairs
        return PiecesEvidence(
            cuts,
            entities={fold.index: entity_suspects(pairs, fold, clusters) for fold in folds},
            likely=search.likely,
            seen=search.seen,
            caught=pairs.is_caught if pairs.identified else None,
            tilt=tilt(pairs, choices.look_ups),
        )

    def for_round(self, task: Task, evidence: PiecesEvidence, choices: Choices, seeds: Seeds) -> PiecesEvidence:
        """Other cuts; which of them would be caught is known of the first ones only."""
        cuts = _draw_cuts(task, choices.rates.law or AssumedCuts(), choices.times * _CUTS_OF_A_ROUND, seeds)
        return replace(evidence, cuts=cuts, caught=None, tilt=None)

    def runs(
        self, task: Task, fold: Fold, folds: Sequence[Fold], choices: Choices, evidence: PiecesEvidence, seeds: Seeds
    ) -> list[Runnable]:
        """Imitated cuts of every held-out cluster."""
        check_split(task, fold)
        weight = evidence.cuts.chance.copy()
        if (likely := evidence.likely.get(fold.index)) is not None:
            # What a cluster gains that has leaked already is not what a piece gains.
            leaked = np.zeros(len(weight))
            np.maximum.at(leaked, likely.held_out_clusters, likely.probability)
            weight *= 1 - leaked
        if evidence.tilt is not None:
            tilted = np.ones((len(evidence.cuts.leaks), len(weight)))
            tilted[: len(evidence.tilt)] = evidence.tilt
            weight = tilted * weight
        seed = seeds.number("fold", fold.index, MAIN)
        return [HalvesRun(task, fold, evidence.cuts, weight, evidence.caught, seed, choices.stored_units)]

    def measured(
        self, task: Task, folds: Sequence[Fold], choices: Choices, evidence: PiecesEvidence
    ) -> dict[str, list[Fold]]:
        """The folds without likely pieces, without as many others, and without the pieces that were looked up."""
        assert task.clusters is not None
        clusters, n_clusters = task.clusters, int(task.clusters.max()) + 1

        def without(left_out: Sequence[Codes]) -> list[Fold]:
            marked = [np.isin(np.arange(n_clusters), numbers) for numbers in left_out]
            return [fold.without(mark[clusters]) for fold, mark in zip(folds, marked, strict=True)]

        likely = [evidence.likely.get(fold.index, NOTHING_LIKELY) for fold in folds]
        models = {}
        if any(len(each.train_clusters) for each in likely):
            models["seen"] = without([each.train_clusters for each in likely])
        if any(len(each.control_clusters) for each in likely):
            models["control"] = without([each.control_clusters for each in likely])
        if choices.look_ups is not None:
            held_out = [np.unique(clusters[fold.validation]) for fold in folds]
            models["looked up"] = without(
                [as_looked_up(each, choices.look_ups, out) for each, out in zip(likely, held_out, strict=True)]
            )
            models.setdefault("seen", without([each.train_clusters for each in likely]))
        return models

    def pooled(self, samples: AuditSamples, unit_kind: str, reverse: float = 0.0) -> Pooled:
        """What is seen, looked up and imitated."""
        return PiecesPooled(samples, unit_kind)

    def suspects(self, samples: AuditSamples, rates: Array) -> Any:
        """Training clusters by the probability that they are pieces of held-out entities."""
        suspects = {fold.index: fold.entities for fold in samples.folds if fold.entities is not None}
        if not suspects:
            raise not_compared()
        if not any(fold.identified for fold in suspects.values()):
            raise InputError("suspects() needs features that tell entities apart, which these records do not have.")
        names = names_of_clusters(samples)
        columns = {
            index: {
                "cluster": names[fold.train_clusters],
                "probability": fold.probability,
                "resembles": names[fold.held_out_clusters],
                "records": fold.n_records,
            }
            for index, fold in suspects.items()
        }
        return suspects_table(columns)

    def review_list(self, pooled: Pooled, n: Any, columns: Mapping[str, Any], random_state: RandomState) -> Any:
        """Clusters to look up: their likely mates, and what a reader needs to see of them."""
        assert isinstance(pooled, PiecesPooled)
        samples, seen = pooled.samples, pooled.samples.seen
        if seen is None:
            raise InputError("review_list() needs an audit with unmix='auto'; this one did not compare its clusters.")
        exists = np.unique(np.concatenate([fold.clusters for fold in samples.folds]))
        count = check_integer("n", n, least=1)
        if count > len(exists):
            raise InputError(f"n must be at most the number of clusters, {len(exists)}, got {count}.")
        probability = inclusion_probabilities(pooled.worth_of_answers(exists), count)
        position = draw_clusters(probability, np.random.default_rng(seed_of(random_state)))
        drawn = exists[position]
        names = names_of_clusters(samples)
        table = {"cluster": names[drawn].tolist(), "records": seen.sizes[drawn].tolist()}
        table |= {name: _values(codes, drawn) for name, codes in columns.items()}
        table["likely_mates"] = _likely_mates(seen, drawn, names)
        table |= {"same_as": [None] * len(drawn), "inclusion_probability": probability[position].tolist()}
        return data_frame(table)

    def imagined(
        self, pooled: Pooled, counts: Sequence[int], rng: np.random.Generator, **known: Any
    ) -> Iterator[Pooled]:
        """Answers that are as likely as the pairs say."""
        assert isinstance(pooled, PiecesPooled)
        if pooled.samples.seen is None:
            raise InputError("plan_review() needs an audit with unmix='auto'; this one did not compare its clusters.")
        return pooled.imagined(counts, rng, **known)


def _draw_cuts(task: Task, law: Any, count: int, seeds: Seeds) -> Cuts:
    """Cuts of all clusters."""
    assert task.clusters is not None
    return Cuts.draw(task.clusters, count, law, np.random.default_rng(seeds.stream("cuts")))


def _likely_mates(seen: SeenPieces, drawn: Codes, names: NDArray[Any]) -> list[str]:
    """The likeliest mates of every cluster with their probabilities, as a reader sees them."""
    one, other = np.concatenate([seen.left, seen.right]), np.concatenate([seen.right, seen.left])
    probability = np.tile(seen.probability, 2)
    order = np.lexsort((-probability, one))
    one, other, probability = one[order], other[order], probability[order]
    starts, ends = (np.searchsorted(one, drawn, side=side) for side in ("left", "right"))
    return [
        "; ".join(f"{names[other[i]]} ({probability[i]:.2f})" for i in range(start, min(end, start + _SHOWN_MATES)))
        for start, end in zip(starts, ends, strict=True)
    ]


def _values(values: tuple[Codes, Any], drawn: Codes) -> list[str]:
    """The different values of the records of every drawn cluster, in the order in which they occur."""
    clusters, of_records = values
    listed = dict.fromkeys(drawn.tolist(), None)
    found: dict[int, dict[str, None]] = {cluster: {} for cluster in listed}
    rows = np.flatnonzero(np.isin(clusters, drawn))
    for cluster, value in zip(clusters[rows].tolist(), take_rows(of_records, rows), strict=True):
        if not is_missing(value):
            found[cluster].setdefault(str(value))
    return ["; ".join(found[cluster]) for cluster in drawn.tolist()]


def as_looked_up(likely: LikelyPieces, look_ups: LookUps, held_out: Codes) -> Codes:
    """The training clusters to leave out of a fold once answers are known.

    True mates of looked-up clusters go out. A likely piece comes back where it was likely only because of looked-up
    clusters, none of which it belongs with.
    """
    asked = np.isin(look_ups.clusters, held_out)
    answered = look_ups.clusters[asked]
    kept = ~np.isin(likely.held_out_clusters, answered)
    mates = [mates for mates, here in zip(look_ups.mates, asked, strict=True) if here]
    return np.unique(np.concatenate([likely.train_clusters[kept], *mates]))


def _compared(rates: Rates, task: Task) -> PairList | None:
    """The pairs that a linkage tool compared, by the numbers of their clusters."""
    if rates.compared is None:
        return None
    numbers = {name: number for number, name in enumerate(task.cluster_names)}
    left, right = ([numbers.get(name, -1) for name in side] for side in (rates.compared.left, rates.compared.right))
    one, two, probability = np.array(left), np.array(right), np.array(rates.compared.probability)
    known = (one >= 0) & (two >= 0) & (one != two) if len(one) else np.zeros(0, dtype=bool)
    return PairList.of_probabilities(one[known], two[known], probability[known]) if known.any() else None
