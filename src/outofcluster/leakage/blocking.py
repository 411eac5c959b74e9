r"""How many matches did blocking never compare? Capture and recapture over blocking rules.

Blocking rules catch matches as traps catch animals: a match that one rule misses may be caught by another. From how
often matches are caught by one rule, by two and so on follows how many are caught by none. Let D matches be caught by
at least one rule, :math:`n_r` by rule r, :math:`a_r` by rule r alone, and :math:`f_2` by exactly two rules. There are
two estimates of :math:`f_0`, the matches that no rule catches:

- *Independent rules* (Lincoln and Petersen for two rules, Darroch for more): the number of all matches N solves
  :math:`1 - D/N = \prod_r (1 - n_r/N)`.
- *Matches that differ* (Chao, for rules that differ too): :math:`f_0 \ge \sum_{r<s} a_r a_s / f_2`. Records with many
  mistakes escape all rules, so that independent rules claim too little; this bound allows for it.

The larger of the two counts. The standard error adds the Poisson variance of the counts, by the delta method, and half
the distance of the two estimates. Both claim too little where matches escape for a common reason, such as a missing
value in all the columns, so the recall is rather too high than too low.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array, check_vector, short

__all__ = ["BlockingRecall", "capture_recapture"]


@dataclass(frozen=True)
class BlockingRecall:
    """Share of the matches that blocking compared.

    Attributes
    ----------
    recall, std : float
        The share, and its standard error.
    caught, missed : float
        Matches that at least one rule caught, and the estimate of those that none did.
    """

    recall: float
    std: float
    caught: float
    missed: float

    def __str__(self) -> str:
        return (
            f"blocking compared {100 * self.recall:.3g}% ± {100 * self.std:.2g}% of the matches: "
            f"{self.caught:.4g} caught, about {self.missed:.3g} missed"
        )


def capture_recapture(rules: Any, probability: ArrayLike | None = None) -> BlockingRecall:
    """Estimate the recall of blocking from which of its rules catch which pairs.

    Parameters
    ----------
    rules : array of bool of shape (pairs, rules)
        Whether each rule catches each compared pair. Every pair is caught by at least one of two or more rules. Tools
        often name only the first rule that a pair satisfies (``match_key`` of splink), so work out the others:
        whether the columns of the rule are equal on both sides.
    probability : array of shape (pairs,), optional
        Probability that a pair is a match; by default all are.

    Returns
    -------
    BlockingRecall
        ``recall`` and ``std``, for ``blocking_recall=`` of `Leakage.from_pair_probabilities` and its relatives.

    Examples
    --------
    Of 1000 matches, the first rule catches 700, the second 600, and 420 are caught by both:

    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> rules = np.repeat([[True, True], [True, False], [False, True]], [420, 280, 180], axis=0)
    >>> print(ooc.capture_recapture(rules))
    blocking compared 88% ± 1.1% of the matches: 880 caught, about 120 missed
    """
    try:
        caught = np.asarray(rules)
    except Exception:
        raise InputError(f"rules must be a table with one row per pair, got {short(rules)}.") from None
    if caught.dtype != bool or caught.ndim != 2 or caught.shape[1] < 2 or len(caught) == 0:
        raise InputError(
            f"rules must say True or False for each pair and each of two or more rules, got {caught.dtype} of shape "
            f"{caught.shape}."
        )
    if not caught.any(axis=1).all():
        row = int(np.flatnonzero(~caught.any(axis=1))[0])
        raise InputError(f"rules must catch every pair at least once, got none for pair {row}.")
    weight = np.ones(len(caught)) if probability is None else check_vector("probability", probability)
    if len(weight) != len(caught) or weight.min() < 0 or weight.max() > 1:
        raise InputError(f"probability must hold one number in [0, 1] for each of the {len(caught)} pairs.")
    history, which = np.unique(caught, axis=0, return_inverse=True)
    counts: Array = np.bincount(which.reshape(-1), weight).astype(float)
    if counts[history.sum(axis=1) > 1].sum() < 1:
        raise InputError("rules must catch some matches twice, got none: nothing is known about those that they miss.")
    estimates = _independent(history, counts), _unequal(history, counts)
    missed = max(estimates)
    variance = 0.0
    for place, count in enumerate(counts):
        if count > 0:
            step = np.zeros(len(counts))
            step[place] = 0.01 * count
            moved = _recall(history, counts + step) - _recall(history, counts - step)
            variance += (moved / (0.02 * count)) ** 2 * count
    total = float(counts.sum())
    low, high = sorted(total / (total + none) for none in estimates)
    std = math.hypot(math.sqrt(variance), (high - low) / 2)
    return BlockingRecall(total / (total + missed), std, total, missed)


def _recall(history: Any, counts: Array) -> float:
    missed = max(_independent(history, counts), _unequal(history, counts))
    return float(counts.sum() / (counts.sum() + missed))


def _independent(history: Any, counts: Array) -> float:
    """Matches that no rule catches, if rules are independent."""
    by_rule = history.T.astype(float) @ counts
    caught = float(counts.sum())
    by_rule = by_rule[by_rule > 0]
    if len(by_rule) < 2 or by_rule.max() >= caught * (1 - 1e-12):
        return 0.0  # One rule catches all that the others catch.

    def excess(total: float) -> float:
        return float((1 - caught / total) - np.prod(1 - by_rule / total))

    # Negative at the number caught. Far away it is (Σ n_r - D)/N > 0, since some are caught twice.
    low, high = caught * (1 + 1e-12), 2 * caught
    while excess(high) <= 0 and high < 1e12 * caught:
        high *= 2
    return float(brentq(excess, low, high)) - caught if excess(high) > 0 else math.inf


def _unequal(history: Any, counts: Array) -> float:
    """Chao's bound for matches that no rule catches."""
    times = history.sum(axis=1)
    alone = history[times == 1].T.astype(float) @ counts[times == 1]
    twice = float(counts[times == 2].sum())
    return float(alone.sum() ** 2 - alone @ alone) / 2 / max(twice, 1.0)
