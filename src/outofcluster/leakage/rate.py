r"""How much leaks: p0 (and rho0) with its uncertainty, and the three places where they can come from.

p0 is the share of T̂ whose true cluster also has records in V̂, rho0 the share of V̂ whose true cluster also has
records in T̂. Both are averages over the folds. With φ the validation share (1/K for K folds), and clusters put into
folds at random, another approximate cluster is on the validation side with probability φ whatever the side of one's
own. So for a record j whose true cluster is spread over :math:`h_j` *other* approximate clusters

.. math:: p_0 = \operatorname{mean}_j [1-(1-φ)^{h_j}] , \qquad ρ_0 = \operatorname{mean}_j [1-φ^{h_j}] :

a training record is safe when all the other pieces train too, a validation record when all are held out with it.

Pair probabilities give :math:`m_{jk}`, that record j belongs with approximate cluster k: the largest over k's records.
With odds :math:`o = m/(1-m)` and j belonging to at most one of the clusters on the other side, it leaks with
probability :math:`q_j = S/(1+S)`, :math:`S = \sum_k o_{jk}` over the other side. For K folds each k is there with
probability s (φ for p0, 1-φ for rho0), independently, and :math:`1/(1+S) = \int_0^1 u^S du` gives the average

.. math:: q_j = 1 - \int_0^1 \prod_k (1 - s + s\,u^{o_{jk}})\, du \qquad (= s\,m_{jk}\ \text{for one candidate}) ,

between the averages of max m and of min(1, Σ m). Decision: only candidates on a fold's other side compete, as in a
fixed split. Sharing out one unit of probability over all candidates, :math:`s \sum_k o/(1+\sum_k o)`, contradicts
calibration: two candidates at ½ would leak s·⅔, where calibrated ones leak between s - s²/2 and s.

Precision P and recall R over pairs give :math:`M = L·P(1-R)/R` missed pairs for L links, hence
:math:`p_0 ≈ 2φM/(μN)`, with N records and μ the mean number of mates on the other side of a leaked record.

Standard errors are for the average over folds; the luck of one assignment to folds is not in them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from outofcluster._base.exceptions import InputError
from outofcluster._base.markup import element, fragment
from outofcluster._base.validation import Array, check_choice, check_integer, check_number, check_vector, first_missing
from outofcluster.leakage.candidates import Candidates
from outofcluster.split.folds import Clusters, Fold, Rows, check_fold, label_array, read_pairs

__all__ = ["Leakage"]

Side = Literal["train", "validation"]

_DEFAULT_FOLDS = 5

_SPLITS_SEEN = 100
"""Splits of a splitter that is not a K-fold from which its validation share is read."""


@dataclass(frozen=True)
class Leakage:
    """A leakage rate and what is known about its uncertainty.

    Parameters
    ----------
    rate : float
        Share in [0, 1): see ``of``.
    std : float, optional
        Its standard error; None when unknown.
    of : {"train", "validation"}, default="train"
        "train": share of T̂'s records that truly belong to validation clusters (p0). "validation": share of V̂'s records
        whose true cluster also has records in T̂ (rho0).

    Examples
    --------
    >>> from outofcluster.leakage.rate import Leakage
    >>> print(Leakage(0.08, std=0.01))
    8% ± 1% of the training records leak (95% interval 6.25% to 10.2%)
    >>> patient, linked = [1, 1, 1, 2, 2, 3, 3], ["a", "a", "b", "c", "c", "d", "d"]
    >>> print(Leakage.from_audit(patient, linked, cv=5))
    8.57% ± 7.35% of the training records leak (95% interval 1.47% to 35.7%)
    """

    rate: float
    std: float | None = None
    of: Side = "train"

    def __post_init__(self) -> None:
        # A rate is data rather than a setting, so it is refused where it is written down.
        object.__setattr__(self, "rate", _share("rate", self.rate, "[0, 1)"))
        if self.std is not None:
            object.__setattr__(self, "std", check_number("std", self.std, least=0))
        check_choice("of", self.of, ("train", "validation"))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Interval that holds the true rate with the given confidence.

        Normal on the scale of the log-odds (delta method), so it stays inside [0, 1]. Near 0 that scale runs away, so
        the upper end is at most ``rate - log((1-level)/2) * std``: the exact Poisson bound when nothing was seen and
        ``std`` is what one event would have contributed, and close to it for few events.
        """
        confidence = check_number("level", level, least=0, strict=True)
        if confidence >= 1:
            raise InputError(f"level must lie between 0 and 1, got {confidence:g}.")
        if self.std is None:
            raise InputError("std must be known for an interval, got None.")
        most = min(1.0, self.rate - math.log((1 - confidence) / 2) * self.std)
        if self.rate == 0:
            return 0.0, most
        width = float(ndtri((1 + confidence) / 2)) * self.std / (self.rate * (1 - self.rate))
        centre = float(logit(self.rate))
        # The way to log-odds and back must not move the ends past the rate.
        low, high = min(float(expit(centre - width)), self.rate), max(float(expit(centre + width)), self.rate)
        return low, min(high, most)

    def __str__(self) -> str:
        side = "training" if self.of == "train" else "validation"
        if self.std is None:
            return f"{100 * self.rate:.3g}% of the {side} records leak (uncertainty unknown)"
        low, high = self.interval()
        interval = f"(95% interval {100 * low:.3g}% to {100 * high:.3g}%)"
        return f"{100 * self.rate:.3g}% ± {100 * self.std:.3g}% of the {side} records leak {interval}"

    def _repr_html_(self) -> str:
        return fragment(element("p", str(self)))

    @classmethod
    def from_audit(cls, true_groups: Any, groups: Any, *, cv: Any = None, of: Side = "train") -> Leakage:
        """Leakage from audited records, whose true clusters are known.

        Audit whole true clusters, drawn at random: a sample of records misses mates, and the rate comes out too low;
        the whole clusters of sampled records are too often large ones.

        Parameters
        ----------
        true_groups : array of shape (n,)
            True cluster of every audited record.
        groups : array of shape (n,)
            Approximate cluster of the same records.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter (its validation share counts, since the audited records are a
            sample of those it will split), or pairs (train, test) of audited rows: then these very splits count.
        of : {"train", "validation"}, default="train"
            p0 or rho0.

        Returns
        -------
        Leakage
            The standard error takes true clusters as independent units (ratio estimator); it is None for a single one.
            When nothing leaks it is what one cluster cut in two would have contributed.
        """
        check_choice("of", of, ("train", "validation"))
        clusters = Clusters.of(groups, None)
        true = _true_codes(true_groups, len(clusters.codes))
        split = _read_cv(cv, clusters)
        pools: list[tuple[Any, Array]]
        if isinstance(split, float):
            # The chance that another piece lies on the same side, and so does no harm.
            harmless = 1 - split if of == "train" else split
            pieces = np.unique(np.stack([true, clusters.codes], axis=1), axis=0)[:, 0]
            pools, one = [(slice(None), 1 - harmless ** (np.bincount(pieces)[true] - 1.0))], 1 - harmless
        else:
            sides = [_sides(fold, of) for fold in split]
            pools, one = [(own, np.isin(true[own], true[other]).astype(float)) for own, other in sides], 1.0
        rate, influence = 0.0, np.zeros(true.max() + 1)
        for rows, leaks in pools:
            rate += float(leaks.mean()) / len(pools)
            influence += np.bincount(true[rows], leaks - leaks.mean(), len(influence)) / (len(leaks) * len(pools))
        count = len(np.unique(np.concatenate([true[rows] for rows, _ in pools])))
        std = None if count < 2 else math.sqrt(count / (count - 1) * float(influence @ influence))
        return cls(_below_one(rate, "true_groups"), one / count if rate == 0 else std, of)

    @classmethod
    def from_pair_probabilities(
        cls, left: Any, right: Any, probability: ArrayLike, *, groups: Any, cv: Any = None, of: Side = "train"
    ) -> Leakage:
        """Leakage from the match probabilities of a linkage tool.

        The pairs that matter are those *below* the link threshold, so ask the tool for them, down to small
        probabilities. Pairs that blocking never compared are not seen: what they hide adds to the rate.

        Parameters
        ----------
        left, right : array of int of shape (pairs,)
            Rows of the two records of each pair, in any order. Pairs inside one approximate cluster are ignored, and
            for fixed splits pairs on one side; of a pair given twice the larger probability counts.
        probability : array of shape (pairs,)
            Calibrated probability that the two belong to one true cluster. Pairs not given have probability 0.
        groups : array of shape (n,)
            Approximate cluster of every record.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter (its validation share counts), or pairs (train, test) of rows.
        of : {"train", "validation"}, default="train"
            p0 or rho0.

        Returns
        -------
        Leakage
            The standard error is that of independent matches between pairs of approximate clusters, all records of
            such a pair matching together or not at all (conservative). It has nothing for miscalibration.

        Examples
        --------
        >>> from outofcluster.leakage.rate import Leakage
        >>> print(Leakage.from_pair_probabilities([0, 1], [2, 3], [0.5, 0.2], groups=["a", "a", "b", "c"], cv=2))
        17.5% ± 16% of the training records leak (95% interval 2.36% to 65.1%)
        """
        parts = _read_pairs(left, right, probability, groups, cv, of)
        rate = sum(float(part.leaks().sum()) / part.size for part in parts) / len(parts)
        units = np.concatenate([part.unit for part in parts])
        spread = [part.share / part.size * np.sqrt(part.m * (1 - part.m)) for part in parts]
        together = np.bincount(np.unique(units, return_inverse=True)[1], np.concatenate(spread)) / len(parts)
        return cls(_below_one(rate, "probability"), math.sqrt(float(together @ together)), of)

    @classmethod
    def from_precision_recall(
        cls,
        precision: float,
        recall: float,
        *,
        n_links: float,
        n_records: int,
        validation_share: float,
        mates: float = 1.0,
        of: Side = "train",
        precision_std: float | None = None,
        recall_std: float | None = None,
    ) -> Leakage:
        """Leakage from the pairwise precision and recall of a clustering.

        Parameters
        ----------
        precision, recall : float
            Share of the linked pairs that are true, and share, above 0, of the true pairs that are linked.
        n_links, n_records : int
            Number of linked pairs (all pairs inside approximate clusters), and of records.
        validation_share : float
            Share of the records that are held out: 1/K for K folds.
        mates : float, default=1
            Mean number of mates that a leaking record has on the other side; with 1 the rate is an upper bound.
        of : {"train", "validation"}, default="train"
            p0 or rho0.
        precision_std, recall_std : float, optional
            Their standard errors. One that is left out counts as 0; without both the rate's is unknown.

        Returns
        -------
        Leakage

        Examples
        --------
        >>> from outofcluster.leakage.rate import Leakage
        >>> shares = {"n_links": 5000, "n_records": 4000, "validation_share": 0.2, "recall_std": 0.02}
        >>> print(Leakage.from_precision_recall(0.95, 0.9, **shares))
        5.28% ± 1.17% of the training records leak (95% interval 3.4% to 8.11%)
        """
        check_choice("of", of, ("train", "validation"))
        true_links, found = _share("precision", precision), _share("recall", recall, "(0, 1]")
        links, n = check_number("n_links", n_links, least=0), check_integer("n_records", n_records, least=1)
        held_out = _share("validation_share", validation_share, "(0, 1)")
        scale = 2 * (held_out if of == "train" else 1 - held_out) / (check_number("mates", mates, least=1) * n) * links
        missed = (1 - found) / found
        rate = scale * true_links * missed
        if rate >= 1:
            raise InputError(
                f"recall must leave fewer missed pairs than the {n} records can be part of, got {found:g}, "
                f"which with {links:g} links implies {links * true_links * missed:.6g} of them."
            )
        if precision_std is None and recall_std is None:
            return cls(rate, None, of)
        by_precision = scale * missed * check_number("precision_std", precision_std or 0.0, least=0)
        by_recall = scale * true_links / found**2 * check_number("recall_std", recall_std or 0.0, least=0)
        return cls(rate, math.hypot(by_precision, by_recall), of)


def _read_pairs(left: Any, right: Any, probability: Any, groups: Any, cv: Any, of: Side) -> list[Candidates]:
    """Checked pairs as candidates, one set for random folds or one for each fixed split."""
    check_choice("of", of, ("train", "validation"))
    clusters = Clusters.of(groups, None)
    codes, n = clusters.codes, len(clusters.codes)
    m = check_vector("probability", probability)
    if m.min() < 0 or m.max() > 1:
        i = int(np.flatnonzero((m < 0) | (m > 1))[0])
        raise InputError(f"probability must lie in [0, 1], got probability[{i}] = {m[i]:g}.")
    one, two = _check_records("left", left, len(m), n), _check_records("right", right, len(m), n)
    record, other, m = np.concatenate([one, two]), np.concatenate([two, one]), np.concatenate([m, m])
    apart = codes[record] != codes[other]
    record, other, m = record[apart], other[apart], m[apart]
    split = _read_cv(cv, clusters)
    if isinstance(split, float):
        return [Candidates.of(record, other, m, codes, n, split if of == "train" else 1 - split)]
    parts = []
    for own, across in (_sides(fold, of) for fold in split):
        kept = np.isin(record, own) & np.isin(other, across)
        parts.append(Candidates.of(record[kept], other[kept], m[kept], codes, len(own), 1.0))
    return parts


def _read_cv(cv: Any, clusters: Clusters) -> float | tuple[Fold, ...]:
    """The validation share of random folds, or the fixed splits."""
    if cv is None or isinstance(cv, int | float | np.number | np.bool_):
        return 1 / (_DEFAULT_FOLDS if cv is None else check_integer("cv", cv, least=2))
    if not hasattr(cv, "split") or isinstance(cv, str | type):
        folds = tuple(check_fold(i, pair, clusters) for i, pair in enumerate(read_pairs(None, None, clusters, cv)))
        if not folds:
            raise InputError("cv must give at least one pair of train and test rows, got none.")
        return folds
    # One row a cluster is enough to see which share of the clusters is held out.
    rows = np.arange(len(clusters.names))
    try:
        number = getattr(cv, "n_splits", None)
        if number is not None and not hasattr(cv, "test_size") and cv.get_n_splits(rows, rows, rows) == number:
            return 1 / check_integer("cv", number, least=2)
        # Shuffled, repeated and leave-some-out splitters make more splits than 1/share; a copy keeps their state.
        splits: Iterator[Any] = copy.deepcopy(cv).split(rows, np.zeros(len(rows), dtype=int), rows)
        return float(np.mean([len(test) / (len(train) + len(test)) for train, test in islice(splits, _SPLITS_SEEN)]))
    except (ValueError, TypeError) as error:
        raise InputError(f"cv must be able to split these clusters, but {cv!r} says: {error}") from error


def _sides(fold: Fold, of: Side) -> tuple[Rows, Rows]:
    """The rows that are counted, and those on the other side."""
    return (fold.train, fold.validation) if of == "train" else (fold.validation, fold.train)


def _true_codes(true_groups: Any, n: int) -> Rows:
    labels = np.asarray(None) if true_groups is None else label_array(true_groups)
    if labels.ndim != 1 or len(labels) != n:
        raise InputError(f"true_groups must hold a label for each of groups' {n} records, got shape {labels.shape}.")
    row = first_missing(labels)
    if row is not None:
        raise InputError(f"true_groups must not have missing labels, got true_groups[{row}] = {labels[row]}.")
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels.tolist()], dtype=np.int64)


def _check_records(name: str, rows: Any, count: int, n: int) -> Rows:
    given = np.asarray(rows)
    if given.dtype.kind not in "iu" or given.shape != (count,):
        raise InputError(f"{name} must hold one row number for each of {count} pairs, got {given.dtype} {given.shape}.")
    if given.min() < 0 or given.max() >= n:
        raise InputError(f"{name} must hold rows between 0 and {n - 1}, got {given[(given < 0) | (given >= n)][0]}.")
    return given.astype(np.int64)


def _share(name: str, value: Any, within: str = "[0, 1]") -> float:
    number = check_number(name, value, least=0)
    if number > 1 or (number == 1 and within[-1] == ")") or (number == 0 and within[0] == "("):
        raise InputError(f"{name} must lie in {within}, got {number:g}.")
    return number


def _below_one(rate: float, name: str) -> float:
    if rate > 1 - 1e-12:
        raise InputError(f"{name} must leave records that do not leak, got a leakage of {rate:g}.")
    return rate
