r"""How many matches did blocking never compare? A bound by its rules, or an estimate by pairs that were reviewed.

**By the rules.** Blocking rules catch matches as traps catch animals: a match that one rule misses may be caught by
another. Let match i be caught by rule r with the odds :math:`o_{ir}`, and by none with
the probability :math:`w_i`. Of the :math:`f_0 = \sum_i w_i` matches that no rule catches, nobody sees any. But
:math:`a_r = \sum_i w_i o_{ir}` are caught by rule r alone, and :math:`f_{rs} = \sum_i w_i o_{ir} o_{is}` by r and s and
no other. Rules that *err together* catch the same matches: under the weights w the odds of any two of them do not fall
with each other, so that :math:`a_r a_s \le f_0 f_{rs}`, and with :math:`f_2 = \sum_{r<s} f_{rs}`

.. math:: f_0 \ge \frac{\sum_{r<s} a_r a_s}{f_2} .

This is the bound of Chao for rules that differ; for two rules it is the estimate of Lincoln and Petersen, and it is
exact where rules are independent. It is a bound and nothing else: matches with a mistake in every field escape all
rules, and no count of what was caught says how many there are. For given name and surname on FEBRL 1 to 4 the
truth was 1.8 to 2.1 times the bound. The division is by :math:`f_2 + 1`, which is defined for none as well.

The standard error, by the delta method, adds on the scale of the logarithm the Poisson variance of the counts, that of
what was missed, and 0.4² for rules of which one tends to catch what the other misses: where records have one mistake
at most, as in FEBRL 1, the truth was down to 0.6 times the bound. So a recall from rules is an *upper* bound, and the
rate that follows is a lower bound with a one-sided interval.

**By reviewed pairs.** Draw pairs by something that the linkage does not look at, such as the same date of a visit,
whether the tool compared them or not, and find out which of them match. Of k matches let c have been compared. Then the
recall is :math:`b = (c + 1/2)/(k + 1)`, with the variance :math:`b(1-b)/(k+2)` times the share of the true pairs that
were not reviewed, since b is about these very records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.arguments import as_array, check_number, check_share, check_vector, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.text import Printed, percentage
from outofcluster.leakage.review import PairAnswers

# Standard error of the logarithm of missed matches where one rule tends to catch what another one misses; see above.
_INSTEAD = 0.4
# Reviewed matches from which the recall of blocking is read.
_LEAST_MATCHES = 10


@dataclass(frozen=True)
class BlockingRecall(Printed):
    """Share of the matches that blocking compared.

    Attributes
    ----------
    recall, std : float
        The share, and its standard error.
    caught, missed : float
        Matches that were compared, and those that were not: among the reviewed ones for ``source="reviewed"``.
    source : {"rules", "reviewed", "given"}
        "rules": the blocking rules, of which the recall is an upper bound. "reviewed": pairs that somebody reviewed,
        whether they had been compared or not. "given": the user.
    """

    recall: float
    std: float
    caught: float
    missed: float
    source: Literal["rules", "reviewed", "given"] = "rules"

    @property
    def at_most(self) -> bool:
        """Whether the recall is an upper bound."""
        return self.source == "rules"

    def __str__(self) -> str:
        most, least = ("at most ", "at least ") if self.at_most else ("", "")
        recall, std = (percentage(share, error=self.std or None) for share in (self.recall, self.std))
        words = f"blocking compared {most}{recall}{f' ± {std}' if self.std else ''} of the matches"
        if self.source == "given":
            return words
        if self.source == "reviewed":
            return f"{words}: {self.caught:.4g} of {self.caught + self.missed:.4g} that were reviewed"
        return f"{words}: {self.caught:.4g} caught, {least}about {self.missed:.3g} missed"


@dataclass(frozen=True)
class LinkageFacts(Printed):
    """What is known about a linkage beside the rate that follows from it.

    Attributes
    ----------
    blocking : BlockingRecall or None
        Share of the matches that blocking compared, and where that is known from.
    reviewed : int
        Pairs that somebody looked at.
    calibrated : bool
        Whether the tool's scores are probabilities, or reviewed pairs corrected them.
    outside : int
        Pairs that name linked records which are not in the data, and do not count for the rate.
    by_tool : bool
        Whether the probabilities are those of a tool as it gave them.

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> scores = np.array([((1, 2), 0.99), ((2, 3), 0.3)], dtype=[("pairs", "i8", 2), ("score", "f4")])
    >>> leakage = ooc.Leakage.from_dedupe(scores, [((1, 2), (0.99, 0.99))], ids=[3, 2, 1])
    >>> leakage.facts.calibrated, leakage.facts.blocking
    (False, None)
    """

    blocking: BlockingRecall | None = None
    reviewed: int = 0
    calibrated: bool = True
    outside: int = 0
    by_tool: bool = False

    def __str__(self) -> str:
        sentences = []
        # What the user gave is known already.
        if self.blocking is not None and self.blocking.source != "given":
            words = f"{self.blocking}."
            sentences.append(words[0].upper() + words[1:])
        if not self.calibrated:
            sentences.append(
                "The tool's scores are not calibrated and no reviewed pairs correct them, so that the rate may be far "
                "too high or too low."
            )
        elif self.by_tool and not self.reviewed and self.blocking is not None and not self.blocking.at_most:
            sentences.append(
                "No pair was reviewed, so that the interval rests on the tool's probabilities, which are often too low "
                "below its threshold."
            )
        if self.outside:
            sentences.append(f"Pairs with records that are not in the data, which are left out: {self.outside}.")
        return " ".join(sentences)


def capture_recapture(rules: Any, probability: ArrayLike | None = None) -> BlockingRecall:
    """An upper bound of the recall of blocking, from which of its rules catch which pairs.

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
        For ``blocking_recall=`` of `Leakage.from_pair_probabilities` and its relatives, which then give a lower bound
        of the rate.

    Examples
    --------
    Of 880 matches that were compared, the first rule catches 700, the second 600, and 420 are caught by both:

    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> rules = np.repeat([[True, True], [True, False], [False, True]], [420, 280, 180], axis=0)
    >>> print(ooc.capture_recapture(rules))
    blocking compared at most 88.0 % ± 4.5 % of the matches: 880 caught, at least about 120 missed
    """
    caught = as_array("rules must be a table with one row per pair", rules)
    if caught.dtype != bool or caught.ndim != 2 or caught.shape[1] < 2 or len(caught) == 0:
        raise InputError(
            f"rules must say True or False for each pair and each of two or more rules, got {caught.dtype} of shape "
            f"{caught.shape}."
        )
    times = caught.sum(axis=1)
    if not times.all():
        raise InputError(f"rules must catch every pair at least once, got none for pair {int(np.argmin(times))}.")
    weight = np.ones(len(caught)) if probability is None else check_vector("probability", probability)
    if len(weight) != len(caught) or weight.min() < 0 or weight.max() > 1:
        raise InputError(f"probability must hold one number in [0, 1] for each of the {len(caught)} pairs.")
    if weight[times > 1].sum() < 1:
        raise InputError("rules must catch some matches twice, got none: nothing is known about those that they miss.")
    alone = caught[times == 1].T.astype(float) @ weight[times == 1]
    twice, total = float(weight[times == 2].sum()), float(weight.sum())
    others = alone.sum() - alone
    in_pairs = float(alone @ others) / 2
    missed = in_pairs / (twice + 1)
    recall = total / (total + missed)
    if missed == 0:  # One rule catches all that the others catch.
        return BlockingRecall(recall, 0.0, total, missed)
    variance = float(alone @ others**2) / in_pairs**2 + 1 / (twice + 1) + 1 / missed + _INSTEAD**2
    return BlockingRecall(recall, recall * (1 - recall) * math.sqrt(variance), total, missed)


def recall_of_reviewed(answers: PairAnswers, matches_compared: float) -> BlockingRecall:
    """The recall by which of the reviewed matches had been compared, and how many matches were compared in all."""
    if not answers.by_name:
        raise InputError(
            "reviewed must name pairs by their two records for blocking_recall='reviewed', since pairs that were not "
            "compared have no place in the list."
        )
    caught, missed = sum(answers.listed.values()), sum(answers.others.values())
    matches = caught + missed
    if matches < _LEAST_MATCHES:
        raise InputError(
            f"reviewed must hold {_LEAST_MATCHES} or more pairs that match for blocking_recall='reviewed', "
            f"got {matches}."
        )
    recall = (caught + 0.5) / (matches + 1)
    not_reviewed = max(1 - matches * recall / max(matches_compared, 1.0), 0.0)
    std = math.sqrt(recall * (1 - recall) / (matches + 2) * not_reviewed)
    return BlockingRecall(recall, std, float(caught), float(missed), "reviewed")


def read_recall(blocking_recall: Any) -> BlockingRecall | None:
    """The recall from a number, a pair of it and its standard error, or what this module gives."""
    if blocking_recall is None or isinstance(blocking_recall, BlockingRecall):
        return blocking_recall
    known = blocking_recall if isinstance(blocking_recall, tuple | list) else (blocking_recall, 0.0)
    if len(known) != 2:
        raise InputError(f"blocking_recall must be a number or a pair (recall, standard error), got {short(known)}.")
    recall = check_share("blocking_recall", known[0], "(0, 1]")
    return BlockingRecall(recall, check_number("blocking_recall's std", known[1], least=0), 0.0, 0.0, "given")
