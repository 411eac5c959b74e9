"""The paper, reproduced: its four data sets, its synthetic study and its timings, in one call.

Two protocols are kept apart throughout. *paper* draws replicates from the oracle pools, as the published experiments
did, and shows Monte-Carlo noise only. *field* is what a user lives through: records leak once, and all that is seen is
the leaky split. See :mod:`.paper` and :mod:`.field`.

The order of things: :mod:`.parameters` (the table), :mod:`.records` and :mod:`.partition` (what is drawn and fitted),
:mod:`.paper`, :mod:`.field`, :mod:`.checks` and :mod:`.timing` (what is run), :mod:`.estimators` and :mod:`.results`
(what follows from it), :mod:`.claims` (what it says about the paper), :mod:`.tables`, :mod:`.figures` and
:mod:`.outputs` (what is written). :mod:`.store` finds finished parts again, and :mod:`.run` goes through it all.
"""

from outofcluster.reproduction.run import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
