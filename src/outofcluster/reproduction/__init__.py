"""The paper, reproduced: its four data sets, its synthetic study and its timings, in one call.

Two protocols are kept apart throughout. *paper* draws replicates from the oracle pools, as the published experiments
did, and shows Monte-Carlo noise only. *field* is what a user lives through: records leak once, and all that is seen is
the leaky split.

It is a guest: it fits models, solves curves and tests through the public names of the package, and nothing else.

The order of things: :mod:`.studies` (the tables of parameters), :mod:`.parts` (finished work that is stored),
:mod:`.sources` (what is drawn and fitted), :mod:`.protocols` (what is run), :mod:`.results` and :mod:`.timing` (what
follows from it), :mod:`.claims` (what it says about the paper), :mod:`.figures` and :mod:`.outputs` (what is written).
:mod:`.run` goes through it all.
"""

from outofcluster.reproduction.run import Reproduction, reproduce

__all__ = ["Reproduction", "reproduce"]
