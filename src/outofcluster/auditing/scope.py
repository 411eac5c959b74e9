"""What the intervals cover, in two sentences that text, report, command line and documentation share."""

from __future__ import annotations

from outofcluster.inference.estimates import percent

__all__ = ["scope"]

_ABOUT = {
    "clusters": (
        "new clusters of the population",
        "another sample of clusters in training and in validation",
    ),
    "records": ("these held-out clusters", "other records of these clusters only"),
}


def scope(units: str, confidence_level: float = 0.95) -> str:
    """What the intervals of an audit cover.

    Parameters
    ----------
    units : {"clusters", "records"}
        What counts as one independent unit.
    confidence_level : float, default=0.95
        Confidence level of the intervals.

    Returns
    -------
    str
        Two sentences.

    Examples
    --------
    >>> from outofcluster.auditing.scope import scope
    >>> scope("records", 0.9)[:67]
    'Intervals are 90 %, for these held-out clusters. They allow for oth'
    """
    estimand, allowed = _ABOUT[units]
    return (
        f"Intervals are {percent(confidence_level)}, for {estimand}. They allow for {allowed}, the noise of the fits, "
        "the choice of the curve, and the leakage rate where its standard error is given."
    )
