r"""The leakage rate that follows from the pairwise precision and recall of a clustering.

Precision P and recall R over pairs give :math:`M = L·P(1-R)/R` missed pairs for L links, hence

.. math:: p_0 ≈ \frac{2φM}{μN} ,

with N records, φ the validation share (1 - φ in its place for rho0), and μ the mean number of mates that a leaked
record has on the other side. The standard error follows by the delta method.
"""

from __future__ import annotations

import math

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import check_integer, check_number, check_share
from outofcluster.leakage.splits import Side, check_side

__all__ = ["rate_of_missed_pairs"]


def rate_of_missed_pairs(
    precision: float,
    recall: float,
    n_links: float,
    n_records: int,
    validation_share: float,
    mates: float,
    of: Side,
    precision_std: float | None,
    recall_std: float | None,
) -> tuple[float, float | None]:
    """The rate and its standard error; see :meth:`outofcluster.Leakage.from_precision_recall` for the arguments."""
    check_side(of)
    precision, recall = check_share("precision", precision), check_share("recall", recall, "(0, 1]")
    links, n = check_number("n_links", n_links, least=0), check_integer("n_records", n_records, least=1)
    held_out = check_share("validation_share", validation_share, "(0, 1)")
    scale = 2 * (held_out if of == "train" else 1 - held_out) / (check_number("mates", mates, least=1) * n) * links
    missed = (1 - recall) / recall
    rate = scale * precision * missed
    if rate >= 1:
        raise InputError(
            f"recall must leave fewer missed pairs than the {n} records can be part of, got {recall:g}, "
            f"which with {links:g} links implies {links * precision * missed:.6g} of them."
        )
    if precision_std is None and recall_std is None:
        return rate, None
    by_precision = scale * missed * check_number("precision_std", precision_std or 0.0, least=0)
    by_recall = scale * precision / recall**2 * check_number("recall_std", recall_std or 0.0, least=0)
    return rate, math.hypot(by_precision, by_recall)
