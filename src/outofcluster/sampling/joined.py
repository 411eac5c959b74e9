"""What two searches for split entities found, together: two audits of the same problem draw different random numbers.

Pairs that either of them found count, each with the mean of its probabilities where it was found. Rates and shares are
averaged. An audit that is itself made of several counts as often as it has seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from outofcluster.evidence.encoding import Floats, Ints
from outofcluster.evidence.likely import LikelyPieces, SeenPieces
from outofcluster.evidence.looked_up import LookUps


def joined_pieces(one: LikelyPieces, other: LikelyPieces, counts: Sequence[int]) -> LikelyPieces:
    """The likely pairs of two searches, and those of both controls."""
    likely = [(each.train_clusters, each.held_out_clusters, each.probability) for each in (one, other)]
    control = [(each.control_clusters, each.control_held_out, each.control_probability) for each in (one, other)]
    if any(len(clusters) != len(held_out) for clusters, held_out, _ in control):
        nothing, clusters = np.zeros(0, dtype=np.int64), np.union1d(one.control_clusters, other.control_clusters)
        return LikelyPieces(*_joined_pairs(likely, counts), clusters, nothing, np.zeros(0))
    return LikelyPieces(*_joined_pairs(likely, counts), *_joined_pairs(control, counts))


def joined_seen(one: SeenPieces, other: SeenPieces, counts: Sequence[int]) -> SeenPieces:
    """What two searches show."""
    left, right, probability = _joined_pairs(
        [(each.left, each.right, each.probability) for each in (one, other)], counts
    )
    averaged: dict[str, Any] = {
        name: float(np.average([getattr(one, name), getattr(other, name)], weights=counts))
        for name in ("auc", "caught", "rate", "upper")
    }
    return replace(one, left=left, right=right, probability=probability, **averaged)


def _joined_pairs(searches: Sequence[tuple[Ints, Ints, Floats]], counts: Sequence[int]) -> tuple[Ints, Ints, Floats]:
    """The pairs of clusters that any of two searches found, each with its mean probability where it was found."""
    left, right, probability = (np.concatenate(column) for column in zip(*searches, strict=True))
    weight = np.repeat(np.asarray(counts, dtype=float), [len(pairs) for pairs, _, _ in searches])
    pairs, number = np.unique(np.column_stack([left, right]), axis=0, return_inverse=True)
    # Some versions of numpy give the numbers as a column.
    number = number.ravel()
    mean = np.bincount(number, weight * probability) / np.bincount(number, weight)
    return pairs[:, 0], pairs[:, 1], np.asarray(mean, dtype=np.float64)


def same_look_ups(one: LookUps | None, other: LookUps | None) -> bool:
    """Whether two audits know the same answers."""
    if one is None or other is None:
        return one is other
    return (
        np.array_equal(one.clusters, other.clusters)
        and np.array_equal(one.probability, other.probability)
        and one.reviewer_error == other.reviewer_error
        and all(map(np.array_equal, one.mates, other.mates))
    )
