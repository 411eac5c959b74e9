"""Leakage: how much leaks, with its uncertainty, and the sources that it can come from.

p0 is the share of T̂ whose true cluster also has records in V̂, rho0 the share of V̂ whose true cluster also has
records in T̂. Each source has a file of its own, which holds its mathematics.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtri

from outofcluster._base.deprecation import old_names, warn_renamed
from outofcluster._base.exceptions import InputError
from outofcluster._base.markup import element, fragment
from outofcluster._base.plain import data_frame
from outofcluster._base.randomness import RandomState
from outofcluster._base.validation import check_number, check_share
from outofcluster.leakage.audited import rate_of_audited_records
from outofcluster.leakage.data import rate_of_data
from outofcluster.leakage.pairs import rate_of_pairs
from outofcluster.leakage.precision_recall import rate_of_missed_pairs
from outofcluster.leakage.review import rate_of_review
from outofcluster.leakage.splits import Side, check_side

__all__ = ["Leakage"]


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
    bound : float, optional
        A 95 % upper bound, at least the rate, where one is known by other means than the standard error.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> print(ooc.Leakage(0.08, std=0.01))
    8% ± 1% of the training records leak (95% interval 6.25% to 10.2%)
    """

    rate: float
    std: float | None = None
    of: Side = "train"
    bound: float | None = None

    def __post_init__(self) -> None:
        # A rate is data rather than a setting, so it is refused where it is written down.
        object.__setattr__(self, "rate", check_share("rate", self.rate, "[0, 1)"))
        if self.std is not None:
            object.__setattr__(self, "std", check_number("std", self.std, least=0))
        check_side(self.of)
        if self.bound is not None:
            object.__setattr__(self, "bound", check_share("bound", self.bound))
            if self.bound < self.rate:
                raise InputError(f"bound must be at least the rate, {self.rate:g}, got {self.bound:g}.")

    @property
    def upper(self) -> float | None:
        """95 % upper bound: the bound, else the upper end of the 90 % interval, else None."""
        if self.bound is not None:
            return self.bound
        return None if self.std is None else self.interval(0.9)[1]

    @old_names(level="confidence_level")
    def interval(self, confidence_level: float = 0.95) -> tuple[float, float]:
        """Interval that holds the true rate with the given confidence.

        It is normal on the scale of the log-odds (delta method), so it stays inside [0, 1]. Near 0 that scale runs
        away, so the upper end is at most ``rate - log((1-confidence_level)/2) * std``: the exact Poisson bound when
        nothing was seen and ``std`` is what one event would have contributed, and close to it for few events.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Probability, between 0 and 1, with which such intervals hold the true rate.

        Returns
        -------
        tuple of two floats
            Lower and upper end.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> low, high = ooc.Leakage(0.08, std=0.01).interval(confidence_level=0.9)
        >>> round(low, 3), round(high, 3)
        (0.065, 0.098)
        """
        confidence = check_share("confidence_level", confidence_level, "(0, 1)")
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

    def to_frame(self, confidence_level: float = 0.95) -> Any:
        """The rate as a table with one row.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence of the interval from ``low`` to ``high``.

        Returns
        -------
        pandas.DataFrame
            Columns ``rate``, ``std``, ``of``, ``low`` and ``high``; what is not known is NaN.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> ooc.Leakage(0.08, std=0.01).to_frame().round(3)
           rate   std     of    low   high
        0  0.08  0.01  train  0.062  0.102
        """
        std, (low, high) = math.nan, (math.nan, math.nan)
        if self.std is not None:
            std, (low, high) = self.std, self.interval(confidence_level)
        return data_frame({"rate": [self.rate], "std": [std], "of": [self.of], "low": [low], "high": [high]})

    def __str__(self) -> str:
        side = "training" if self.of == "train" else "validation"
        if self.bound is not None:
            spread = "" if self.std is None else f" ± {100 * self.std:.3g}%"
            most = f"at most {100 * self.bound:.3g}% (95% bound)"
            return f"{100 * self.rate:.3g}%{spread} of the {side} records leak, {most}"
        if self.std is None:
            return f"{100 * self.rate:.3g}% of the {side} records leak (uncertainty unknown)"
        low, high = self.interval()
        interval = f"(95% interval {100 * low:.3g}% to {100 * high:.3g}%)"
        return f"{100 * self.rate:.3g}% ± {100 * self.std:.3g}% of the {side} records leak {interval}"

    def _repr_html_(self) -> str:
        return fragment(element("p", str(self)))

    @classmethod
    def from_true_groups(cls, true_groups: Any, groups: Any, *, cv: Any = None, of: Side = "train") -> Leakage:
        """Leakage of audited records, whose true clusters are known.

        Audit whole true clusters, drawn at random. A sample of records misses mates, so the rate comes out too low;
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
            The share of the training records (p0) or of the validation records (rho0).

        Returns
        -------
        Leakage
            The standard error takes true clusters as independent units (ratio estimator); it is None for a single one.
            When nothing leaks it is what one cluster cut in two would have contributed.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> patient, linked = [1, 1, 1, 2, 2, 3, 3], ["a", "a", "b", "c", "c", "d", "d"]
        >>> print(ooc.Leakage.from_true_groups(patient, linked, cv=5))
        8.57% ± 7.35% of the training records leak (95% interval 1.47% to 35.7%)
        """
        return cls(*rate_of_audited_records(true_groups, groups, cv, of), of)

    @classmethod
    def from_audit(cls, true_groups: Any, groups: Any, *, cv: Any = None, of: Side = "train") -> Leakage:
        """Old name of :meth:`from_true_groups`.

        Parameters
        ----------
        true_groups, groups : array of shape (n,)
            True and approximate cluster of every audited record.
        cv : int, splitter or iterable, optional
            Number of folds, a splitter, or pairs (train, test) of audited rows.
        of : {"train", "validation"}, default="train"
            The share of the training records (p0) or of the validation records (rho0).

        Returns
        -------
        Leakage
        """
        warn_renamed("Leakage.from_audit", "Leakage.from_true_groups")
        return cls.from_true_groups(true_groups, groups, cv=cv, of=of)

    @classmethod
    def from_data(
        cls,
        X: Any,
        y: Any,
        *,
        groups: Any,
        cv: Any = None,
        error_model: str = "auto",
        discriminator: Any = None,
        random_state: RandomState = None,
    ) -> Leakage:
        """Leakage from the records alone: an estimate and a 95 % upper bound, with no ground truth.

        Records that leaked look like the rest of their clusters, which is held out. A classifier learns to tell
        held-out records from training records, and a training record that looks held out is a suspect. The bound
        supposes only that leaked records are like the rest of their clusters; training records that merely look like
        held-out ones make it larger. Where nothing tells the two sides apart it says "up to 100 %", and then the
        estimate means nothing.

        Parameters
        ----------
        X : array, sparse matrix or frame of n records
            Features: numbers or categories, with missing values or without.
        y : array of shape (n,) or (n, outputs)
            Target.
        groups : array of shape (n,)
            Approximate cluster of every record.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter, or pairs (train, test) of rows. Rate and bound are means over
            the folds.
        error_model : {"auto", "records", "fragments"}, default="auto"
            How the clustering errs. Such a rate is available for single records that leaked; it is refused for
            fragments, for which "auto" stands where the held-out clusters are many and small.
        discriminator : classifier, optional
            A classifier with ``predict_proba`` that tells the sides apart, by default an ensemble of three.
        random_state : int, RandomState, Generator or None
            Seed of the cross-fit.

        Returns
        -------
        Leakage
            A share of the training records, with ``bound``, and ``std`` that fits the distance of the rate to it.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> rng = np.random.default_rng(0)
        >>> hospital = np.repeat(np.arange(6), 100)
        >>> X = rng.standard_normal((6, 3))[hospital] + 0.2 * rng.standard_normal((600, 3))
        >>> split = ooc.simulate_leakage(hospital, [4, 5], 0.1, unit="records", of="train", random_state=0)
        >>> leakage = ooc.Leakage.from_data(
        ...     X, X[:, 0], groups=split.groups, cv=[(split.train, split.validation)], random_state=0
        ... )
        >>> abs(leakage.rate - split.rate) < 0.02, split.rate <= leakage.upper < 0.15
        (True, True)
        """
        rate = rate_of_data(X, y, groups, cv, error_model, discriminator, random_state)
        return cls(rate.rate, rate.std, "train", rate.upper)

    @classmethod
    def from_review(
        cls, suspects: Any, reviewed: Any, *, n_train: int | None = None, drawn: str = "suspicious"
    ) -> Leakage:
        """Leakage from a clerical review of suspects.

        Somebody looked at some of the suspects and found out whether they leaked. These answers count as they are, and
        they correct the probabilities of the suspects that nobody looked at. Review more than the certain ones: the
        rate is uncertain by what lies just below the last suspect that was reviewed.

        Parameters
        ----------
        suspects : frame
            Suspects as ``Audit.suspects()`` gives them: the columns ``record`` or ``cluster``, ``probability``, and
            ``fold`` and ``records`` where there are any.
        reviewed : mapping or frame
            True for each reviewed suspect that leaked, False for each that did not: a mapping from its name, or from
            the pair (fold, name), or a frame with the columns ``record`` or ``cluster``, ``leaked``, and ``fold`` where
            a suspect occurs in several folds. Suspects with a missing value in ``leaked`` count as not reviewed.
        n_train : int, optional
            Number of training records, summed over the folds, where ``suspects`` lists only some of them; those that
            are not listed count as not leaked. By default all are listed.
        drawn : {"suspicious", "random"}, default="suspicious"
            How the reviewed suspects were chosen. "suspicious": by their probabilities, such as the largest ones.
            "random": at random among all; then their share is the rate, and the probabilities are not used.

        Returns
        -------
        Leakage
            A share of the training records. The standard error is None for a random sample of one.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> suspects = {"record": np.arange(200), "probability": 0.9 * 0.96 ** np.arange(200)}
        >>> reviewed = {record: record in (0, 1, 2, 4, 7, 11, 16, 22) for record in range(60)}
        >>> print(ooc.Leakage.from_review(suspects, reviewed))
        4.08% ± 0.418% of the training records leak (95% interval 3.34% to 4.99%)
        """
        return cls(*rate_of_review(suspects, reviewed, n_train, drawn))

    @classmethod
    def from_pair_probabilities(
        cls, left: Any, right: Any, probability: ArrayLike, *, groups: Any, cv: Any = None, of: Side = "train"
    ) -> Leakage:
        """Leakage from the match probabilities of a linkage tool.

        The pairs that matter are those *below* the link threshold, so ask the tool for them, down to small
        probabilities. Pairs that blocking never compared are not seen: the leakage that they hide adds to the rate.

        Parameters
        ----------
        left, right : array of int of shape (pairs,)
            Rows of the two records of each pair, in any order. Pairs inside one approximate cluster are ignored, and
            for fixed splits pairs on one side; of a pair that occurs twice the larger probability counts.
        probability : array of shape (pairs,)
            Calibrated probability that the two belong to one true cluster. Pairs that are not listed have probability
            0.
        groups : array of shape (n,)
            Approximate cluster of every record.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter (its validation share counts), or pairs (train, test) of rows.
        of : {"train", "validation"}, default="train"
            The share of the training records (p0) or of the validation records (rho0).

        Returns
        -------
        Leakage
            The standard error is that of independent matches between pairs of approximate clusters, all records of
            such a pair matching together or not at all (conservative). It does not cover miscalibration.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> print(ooc.Leakage.from_pair_probabilities([0, 1], [2, 3], [0.5, 0.2], groups=["a", "a", "b", "c"], cv=2))
        17.5% ± 16% of the training records leak (95% interval 2.36% to 65.1%)
        """
        return cls(*rate_of_pairs(left, right, probability, groups, cv, of), of)

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
            The share of the training records (p0) or of the validation records (rho0).
        precision_std, recall_std : float, optional
            Their standard errors. If only one is given, the other counts as 0; without both, that of the rate is
            unknown.

        Returns
        -------
        Leakage

        Examples
        --------
        >>> import outofcluster as ooc
        >>> shares = {"n_links": 5000, "n_records": 4000, "validation_share": 0.2, "recall_std": 0.02}
        >>> print(ooc.Leakage.from_precision_recall(0.95, 0.9, **shares))
        5.28% ± 1.17% of the training records leak (95% interval 3.4% to 8.11%)
        """
        counts = (n_links, n_records, validation_share, mates)
        return cls(*rate_of_missed_pairs(precision, recall, *counts, of, precision_std, recall_std), of)
