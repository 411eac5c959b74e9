"""What things are called for readers without statistics, in pictures, in the report and on the command line."""

from __future__ import annotations

from outofcluster.metrics.facts import known_facts


def loss_name(loss: str) -> str:
    """A loss or metric in words; one of the user's own keeps its name."""
    known = known_facts(loss)
    return loss if known is None else known.label


def capitalized(words: str) -> str:
    """The same words with a capital letter at the beginning, and no other change."""
    return words[:1].upper() + words[1:]


def share_of(error_model: str) -> str:
    """What a leakage rate is a share of."""
    if error_model == "records":
        return "training records that belong to held-out clusters"
    return "held-out records whose cluster also trains"


def added(error_model: str) -> str:
    """What the injected fraction is a share of."""
    if error_model == "records":
        return "training records drawn from held-out clusters"
    return "held-out clusters of which a piece is put into training"
