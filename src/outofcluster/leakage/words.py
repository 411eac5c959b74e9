"""A leakage rate in words: how much leaks, how certain that is, and how audited entities are cut."""

from __future__ import annotations

from outofcluster.leakage.splits import Side
from outofcluster.split.pieces import PieceLaw

__all__ = ["certainty_in_words", "cut_in_words", "rate_in_words", "side_in_words"]


def side_in_words(of: Side) -> str:
    """What the records of a side are called."""
    return "training" if of == "train" else "validation"


def rate_in_words(rate: float, std: float | None, *, at_least: bool) -> str:
    """A rate with its standard error, such as "at least 8% ± 1%"."""
    least = "at least " if at_least else ""
    spread = "" if std is None else f" ± {100 * std:.3g}%"
    return f"{least}{100 * rate:.3g}%{spread}"


def certainty_in_words(interval: tuple[float, float] | None, bound: float | None, *, at_least: bool) -> str:
    """What is known about the uncertainty of a rate, to stand behind it.

    Parameters
    ----------
    interval : tuple of float or None
        The 95 % interval; None where the standard error is unknown.
    bound : float or None
        A 95 % upper bound that is known by other means.
    at_least : bool
        Whether the rate is a lower bound, so that only the lower end of the interval counts.

    Returns
    -------
    str
    """
    if at_least:
        return "" if interval is None else f" (95% lower bound {100 * interval[0]:.3g}%)"
    if bound is not None:
        return f", at most {100 * bound:.3g}% (95% bound)"
    if interval is None:
        return " (uncertainty unknown)"
    low, high = interval
    return f" (95% interval {100 * low:.3g}% to {100 * high:.3g}%)"


def cut_in_words(pieces: PieceLaw) -> str:
    """How many of the audited entities are cut."""
    cut, audited = f"{pieces.n_split:.3g}", f"{pieces.n_entities:.4g}"
    return f"Audited entities: {audited}. Cut by the linkage: {cut}. These show how large the pieces are."
