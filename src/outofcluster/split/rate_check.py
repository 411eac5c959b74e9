"""Whether records agree with the probabilities of having leaked that were given for them, as plain numbers.

:mod:`outofcluster.leakage.records` says how they come about.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["RateCheck"]

_LARGEST_STEP = 3.0
"""The largest logarithm of a factor that is believed."""


@dataclass(frozen=True)
class RateCheck:
    """What features and target of records say about their probabilities.

    Attributes
    ----------
    score : float
        U: by how many records the probabilities rise in all when features and target are taken into account.
    information : float
        I: the variance of that if the probabilities are right.
    known : float
        d: how much the probabilities know of features and target, from 0 to 1.
    """

    score: float
    information: float
    known: float

    @classmethod
    def pooled(cls, checks: Sequence[RateCheck]) -> RateCheck | None:
        """Those of all folds together, whose held-out clusters are different ones; None without any.

        Parameters
        ----------
        checks : sequence of RateCheck
            Those of the folds.

        Returns
        -------
        RateCheck or None
        """
        if not checks:
            return None
        known = sum(check.known for check in checks) / len(checks)
        return cls(sum(check.score for check in checks), sum(check.information for check in checks), known)

    @property
    def factor(self) -> float:
        """By what the odds of all records would have to be multiplied."""
        if self.information <= 0:
            return 1.0
        return math.exp(min(max(self.score / self.information, -_LARGEST_STEP), _LARGEST_STEP))

    @property
    def z(self) -> float:
        """The score in standard errors; negative where the probabilities are too high."""
        return self.score / math.sqrt(self.information) if self.information > 0 else 0.0
