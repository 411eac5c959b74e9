r"""The leakage rate that follows from the pairwise precision and recall of a clustering.

Precision P and recall R over pairs give :math:`M = L·P(1-R)/R` missed pairs for L links, hence

.. math:: p_0 ≈ \frac{2φM}{μN} ,

with N records, φ the validation share (1 - φ in its place for rho0), and μ the mean number of mates that a leaked
record has on the other side. The standard error follows by the delta method.

**Mates from the clusters.** With μ = 1 every missed pair leaks two records of its own. But an entity of ten that loses
one record misses nine pairs and leaks ten records. Linkage mostly loses single records, so suppose that each record
of an entity of t records is on its own with probability c. A pair is then linked with probability (1-c)², so
:math:`c = 1 - \sqrt{R}`. With s the probability that another piece is on the other side (φ or 1 - φ), a record that
is with the rest leaks with probability :math:`1 - (1-sc)^{t-1}`; one on its own, whose mates are the rest, where there
is one, and others on their own, with

.. math:: 1 - (1-s)\bigl[(1-sc)^{t-1} - ((1-s)c)^{t-1}\bigr] - ((1-s)c)^{t-1} .

Their mean over records is the rate, and μ is what makes the formula above agree with it. The numbers of entities of t
records follow from the sizes of the approximate clusters of two records or more, which are what the losses leave of
them (binomial), from the largest size down.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.stats import binom

from outofcluster._base.arguments import Array, check_integer, check_number, check_share, short
from outofcluster._base.exceptions import InputError
from outofcluster.leakage.splits import Rates, Side
from outofcluster.problem.folds import Clusters

# More records than anybody has; the number of their pairs is still a float.
_MOST_RECORDS = 10**15


def rates_of_missed_pairs(
    precision: float,
    recall: float,
    validation_share: float,
    groups: Any,
    n_links: float | None,
    n_records: int | None,
    mates: float | None,
    stds: tuple[float | None, float | None],
    sides: tuple[Side, ...],
) -> Rates:
    """Rates and standard errors; see :meth:`outofcluster.Leakage.from_precision_recall` for the arguments."""
    precision, recall = check_share("precision", precision), check_share("recall", recall, "(0, 1]")
    sizes = None if groups is None else np.bincount(Clusters.of(groups, None).codes).astype(float)
    if sizes is not None:
        n_links = float((sizes * (sizes - 1) / 2).sum()) if n_links is None else n_links
        n_records = int(sizes.sum()) if n_records is None else n_records
    for name, count in (("n_links", n_links), ("n_records", n_records)):
        if count is None:
            raise InputError(f"{name} must be a number, or groups given, from which it is counted, got None for both.")
    links = check_number("n_links", n_links, least=0)
    n = check_integer("n_records", n_records, least=1, most=_MOST_RECORDS)
    held_out = check_share("validation_share", validation_share, "(0, 1)")
    missing = (1 - recall) / recall
    missed = links * precision * missing
    got = f"got {recall:g}, which with {links:g} links implies {missed:.6g} of them."
    if missed > n * (n - 1) / 2:
        raise InputError(f"recall must leave fewer missed pairs than the {n} records have, {got}")
    rates: Rates = {}
    for of in sides:
        share = held_out if of == "train" else 1 - held_out
        mates_there = 1.0 if mates is None else check_number("mates", mates, least=1)
        if mates is None and sizes is not None and missed > 0:
            leaked = leaked_by_missed_pairs(sizes, missed, links * precision + missed, share)
            # So few pairs that they round to none are those of single mates.
            mates_there = 2 * share * missed / (n * leaked) if leaked > 0 else 1.0
        scale = 2 * share / (mates_there * n) * links
        rate = scale * precision * missing
        if rate >= 1:
            raise InputError(f"recall must leave fewer missed pairs than the {n} records can be part of, {got}")
        std = None
        if stds != (None, None):
            by_precision = scale * missing * check_number("precision_std", stds[0] or 0.0, least=0)
            by_recall = scale * precision / recall / recall * check_number("recall_std", stds[1] or 0.0, least=0)
            std = math.hypot(by_precision, by_recall)
            if not math.isfinite(std):
                raise InputError(
                    f"recall must leave a rate whose standard error is finite, got {recall:g} with "
                    f"precision_std={short(stds[0])} and recall_std={short(stds[1])}."
                )
        rates[of] = rate, std
    return rates


def leaked_by_missed_pairs(sizes: Array, missed: float, true_pairs: float, share: float) -> float:
    """The share of the records that leak where so many true pairs of records are missed.

    Examples
    --------
    Pairs of records, a tenth of which are missed: all their records leak if the other piece is on the other side.

    >>> import numpy as np
    >>> from outofcluster.leakage.precision_recall import leaked_by_missed_pairs
    >>> sizes = np.array([2] * 90 + [1] * 20)
    >>> round(leaked_by_missed_pairs(sizes, 10, 100, 0.8), 3)
    0.08
    """
    alone = 1 - math.sqrt(max(1 - missed / true_pairs, 0.0))
    n = float(sizes.sum())
    # Where all pairs are missed, no cluster has a pair, whatever the clusters say.
    if alone >= 1 - 1e-9 or not (sizes > 1).any():
        return min(2 * share * missed / n, 1 - 1e-9)
    entities, count = _entities(sizes, alone)
    others = entities - 1.0
    safe = (1 - share * alone) ** others
    all_alone = ((1 - share) * alone) ** others
    leaks = (1 - alone) * (1 - safe) + alone * (1 - (1 - share) * (safe - all_alone) - all_alone)
    return min(float(count @ (entities * leaks)) / n, 1 - 1e-9)


def _entities(sizes: Array, alone: float) -> tuple[Array, Array]:
    """Sizes of two or more that entities have, and how many have them, if their records are lost one by one."""
    seen, clusters = np.unique(sizes[sizes > 1], return_counts=True)
    count = np.zeros(len(seen))
    pieces = np.zeros(len(seen))
    # From the largest size down: what larger entities leave is taken off.
    for i in range(len(seen) - 1, -1, -1):
        count[i] = max(clusters[i] - pieces[i], 0.0) / max((1 - alone) ** seen[i], 1e-6)
        pieces += count[i] * binom.pmf(seen, seen[i], 1 - alone)
    # Sizes do not fit exactly, so the number follows from all records in clusters of two or more.
    one_or_none = binom.pmf(1, seen, 1 - alone)
    kept = float(count @ ((1 - alone) * seen - one_or_none))
    return seen, count * (float(seen @ clusters) / kept)
