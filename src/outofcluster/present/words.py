"""What things are called for readers without statistics, in pictures, in the report and on the command line."""

from __future__ import annotations

__all__ = ["added", "loss_name", "share_of"]

_LOSSES = {
    "zero_one": "share of wrong predictions",
    "squared_error": "mean squared error",
    "absolute_error": "mean absolute error",
    "log_loss": "log loss",
    "brier": "Brier score",
}


def loss_name(loss: str) -> str:
    """A loss in words; a loss of the user's own keeps its name."""
    return _LOSSES.get(loss, loss)


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
