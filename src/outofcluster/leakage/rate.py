r"""Leakage: how much leaks, with its uncertainty, and the sources that it can come from.

p0 is the share of T̂ whose true cluster also has records in V̂, rho0 the share of V̂ whose true cluster also has
records in T̂. Each source has a file of its own, which holds its mathematics.

**The interval** follows from the rate and its standard error alone. With the rate p, its standard error s and the
normal quantile z, it is normal on the scale of the log-odds (delta method), so that it stays inside [0, 1]:

.. math:: \text{logit}\,p \pm z \frac{s}{p(1-p)} .

Near 0 that scale runs away. So with the confidence level c the upper end is at most :math:`p - s \log((1-c)/2)`. This
is the exact Poisson bound when nothing was seen and s is what one event would have contributed, and close to it for
few events.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, Self

from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, ndtri

from outofcluster._base.arguments import check_flag, check_number, check_share, short
from outofcluster._base.exceptions import InputError, one_line
from outofcluster._base.files import check_path, shown_path, write_whole
from outofcluster._base.plain import PlainData, data_frame
from outofcluster._base.seeds import RandomState
from outofcluster._base.text import element, fragment, percentage, table
from outofcluster._base.version import __version__
from outofcluster.evidence.laws import PieceLaw
from outofcluster.evidence.likely import ENOUGH_CAUGHT, NamedPairs, SeenPieces
from outofcluster.evidence.looked_up import AuditedClusters
from outofcluster.leakage.audited import LinkageErrors, rates_of_audited_records
from outofcluster.leakage.blocking import LinkageFacts
from outofcluster.leakage.data import pieces_in_data, rate_of_records_data, read_data
from outofcluster.leakage.linkage import Linkage, read_dedupe, read_recordlinkage, read_splink
from outofcluster.leakage.pairs import rates_of_missed_pairs, rates_of_pairs
from outofcluster.leakage.review import rate_of_review
from outofcluster.leakage.splits import Rates, Side, check_side, read_sides
from outofcluster.problem.problem import identity_columns

# What a file of a rate says of itself, and the number of its format.
_FILE, _FORMAT = "leakage rate", 1
# The largest rate that can be seen; beyond it there are hardly any records that do not leak.
_LARGEST_SEEN = 0.9


@dataclass(frozen=True, repr=False)
class Leakage(PlainData, what="a Leakage"):
    """A leakage rate and what is known about its uncertainty.

    Two rates describe the same errors from two sides: p0, a share of the training records, and rho0, a share of the
    validation records. A `Leakage` that was computed from a linkage holds both, as ``train`` and ``validation``. Its
    own ``rate``, ``std`` and ``of`` are then those of the validation records, since entities leak as pieces.

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
    at_least : bool, default=False
        Whether the rate is a lower bound, because part of the leakage could not be seen.
    other : Leakage, optional
        The rate of the other side, where it is known.
    pieces : PieceLaw, optional
        How entities are cut, learned from audited ones.
    linkage_errors : LinkageErrors, optional
        Splits, merges and misplaced records, counted on audited records.
    looked_up : AuditedClusters, optional
        The observed clusters of audited records, and which of them belong to one entity.
    likely_pairs : NamedPairs, optional
        Pairs of clusters that a linkage tool compared and did not link, with its probabilities.
    facts : LinkageFacts, optional
        What is known about the linkage that the rate comes from: the recall of its blocking, how many pairs were
        reviewed, and whether its scores are probabilities.

    Examples
    --------
    >>> import outofcluster as ooc
    >>> print(ooc.Leakage(0.08, std=0.01))
    8.0 % ± 1.0 % of the training records leak (95 % interval 6.2 % to 10.2 %)

    Where both sides are known, each has a line of its own:

    >>> print(ooc.Leakage(0.3, std=0.04, of="validation", other=ooc.Leakage(0.08, std=0.01)))
    30.0 % ± 4.0 % of the validation records leak (95 % interval 22.8 % to 38.4 %)
    8.0 % ± 1.0 % of the training records leak (95 % interval 6.2 % to 10.2 %)
    """

    rate: float
    std: float | None = None
    of: Side = "train"
    bound: float | None = None
    at_least: bool = False
    other: Leakage | None = None
    pieces: PieceLaw | None = field(default=None, compare=False)
    linkage_errors: LinkageErrors | None = field(default=None, compare=False)
    looked_up: AuditedClusters | None = field(default=None, compare=False, repr=False)
    likely_pairs: NamedPairs | None = field(default=None, compare=False, repr=False)
    facts: LinkageFacts | None = field(default=None, compare=False, repr=False)

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
        object.__setattr__(self, "at_least", check_flag("at_least", self.at_least))
        kinds: dict[str, type] = {
            "other": Leakage,
            "pieces": PieceLaw,
            "linkage_errors": LinkageErrors,
            "looked_up": AuditedClusters,
            "likely_pairs": NamedPairs,
            "facts": LinkageFacts,
        }
        for name, kind in kinds.items():
            if not isinstance(getattr(self, name), kind | None):
                raise InputError(f"{name} must be of type {kind.__name__}, got {short(getattr(self, name))}.")
        if self.other is not None and (self.other.of == self.of or self.other.other is not None):
            raise InputError(f"other must be the rate of the other side alone, got {short(self.other)}.")

    @property
    def groups(self) -> NDArray[Any] | None:
        """The linked cluster of every record in the order of ``ids``, where the rate comes from a linkage tool."""
        return self.__dict__.get("_groups")

    @property
    def train(self) -> Leakage | None:
        """The rate as a share of the training records (p0), alone; None where only that of the other side is known."""
        return self._side("train")

    @property
    def validation(self) -> Leakage | None:
        """The rate as a share of the validation records (rho0), alone; None where only the other side's is known."""
        return self._side("validation")

    def _side(self, of: Side) -> Leakage | None:
        alone = self if of == self.of else self.other
        if alone is None:
            return None
        # What was counted on audited records belongs to both sides; the clusters themselves are kept once.
        counted = self.linkage_errors
        return replace(alone, other=None, pieces=None, linkage_errors=counted, looked_up=None, likely_pairs=None)

    @classmethod
    def _of_sides(cls, rates: Rates, argument: str, of_both: Mapping[str, Any] | None = None, **more: Any) -> Leakage:
        """One side or both, the primary one first; ``argument`` is what says so where every record leaks.

        ``of_both`` is what is known of either side, and ``more`` what is kept once.
        """
        worst = max(rate for rate, _ in rates.values())
        if worst > 1 - 1e-12:
            raise InputError(f"{argument} must leave records that do not leak, got a leakage of {worst:g}.")
        primary, *rest = [cls(*rate, side, **(of_both or {})) for side, rate in rates.items()]
        return replace(primary, other=rest[0] if rest else None, **more)

    @classmethod
    def _of_linkage(cls, linkage: Linkage, blocking_recall: Any, cv: Any, of: Side | None, reviewed: Any) -> Leakage:
        """What a linkage says, with a recall of blocking that replaces the linkage's if there is one."""
        pairs = rates_of_pairs(linkage, cv, read_sides(of), reviewed, blocking_recall)
        known = {"at_least": pairs.at_least, "facts": pairs.facts}
        leakage = cls._of_sides(pairs.rates, "probability", known, likely_pairs=pairs.likely)
        object.__setattr__(leakage, "_groups", linkage.groups if linkage.by_tool else None)
        return leakage

    def __plain__(self) -> dict[str, Any]:
        """The fields that are not at their defaults, and the first four always, for files."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        always = ("rate", "std", "of", "bound")
        return {name: value for name, value in values.items() if name in always or value not in (None, False)}

    def __repr__(self) -> str:
        counted = ("pieces", "linkage_errors", "looked_up", "likely_pairs", "facts")
        shown = [f"{name}={value!r}" for name, value in self.__plain__().items() if name not in counted]
        return f"Leakage({', '.join(shown)})"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the rate with all that is known about it to a JSON file, for `load` and for ``audit --leakage``.

        The linked clusters of a linkage tool (``groups``) are not in the file, since they are a column of the data.

        Parameters
        ----------
        path : path
            The file, such as "rate.json".

        Examples
        --------
        >>> import outofcluster as ooc
        >>> leakage = ooc.Leakage.from_true_groups([1, 1, 2, 2, 3], ["a", "b", "c", "c", "d"])
        >>> leakage.save("rate.json")
        >>> ooc.Leakage.load("rate.json") == leakage
        True
        """
        about = {"kind": _FILE, "format": _FORMAT, "version": __version__, "leakage": self.to_dict()}
        write_whole("path", path, json.dumps(about, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The rate that `save` wrote.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Leakage
            With everything but ``groups``.
        """
        file, must = check_path("path", path), f"path must be the file of a leakage rate, got {shown_path(path)}, which"
        try:
            about = json.loads(file.read_bytes())
        except FileNotFoundError:
            raise InputError(f"{must} does not exist.") from None
        except (OSError, ValueError, RecursionError):
            raise InputError(f"{must} cannot be read or was cut short.") from None
        if not isinstance(about, dict) or about.get("kind") != _FILE or "leakage" not in about:
            raise InputError(f"{must} is not one.")
        if about.get("format") != _FORMAT:
            number, version = short(about.get("format")), one_line(about.get("version", "unknown"), 60)
            raise InputError(
                f"{must} has format {number}, written by outofcluster {version}; outofcluster {__version__} reads "
                f"format {_FORMAT}."
            )
        try:
            return cls.from_dict(about["leakage"])
        except InputError as error:
            raise InputError(f"{must} was altered: {error}") from None

    @property
    def upper(self) -> float | None:
        """95 % upper bound: the bound, else the upper end of the 90 % interval, else None."""
        if self.bound is not None:
            return self.bound
        return None if self.std is None or self.at_least else self.interval(0.9)[1]

    def interval(self, confidence_level: float = 0.95) -> tuple[float, float]:
        """Interval that holds the true rate with the given confidence.

        It is normal on the scale of the log-odds (delta method), so it stays inside [0, 1]. Near 0 that scale runs
        away, so the upper end is at most ``rate - log((1-confidence_level)/2) * std``: the exact Poisson bound when
        nothing was seen and ``std`` is what one event would have contributed, and close to it for few events. A rate
        that is a lower bound (``at_least``) has a one-sided interval, up to 1.

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
        if self.at_least:
            # All that may err is on the lower side.
            return _interval(self.rate, self.std, 2 * confidence - 1)[0] if confidence > 0.5 else self.rate, 1.0
        return _interval(self.rate, self.std, confidence)

    def to_frame(self, confidence_level: float = 0.95) -> Any:
        """The rate as a table, with one row per side that is known.

        Parameters
        ----------
        confidence_level : float, default=0.95
            Confidence of the interval from ``low`` to ``high``.

        Returns
        -------
        pandas.DataFrame
            Columns ``rate``, ``std``, ``of``, ``low``, ``high`` and ``bound``; what is not known is NaN.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> ooc.Leakage(0.08, std=0.01).to_frame().round(3)
           rate   std     of    low   high  bound
        0  0.08  0.01  train  0.062  0.102    NaN
        """
        rows = []
        for side in self._known_sides:
            low, high = (math.nan, math.nan) if side.std is None else side.interval(confidence_level)
            rate = {"rate": side.rate, "std": side.std, "of": side.of}
            rows.append({**rate, "low": low, "high": high, "bound": side.bound})
        return data_frame(rows).astype({"std": float, "bound": float})

    def __str__(self) -> str:
        sides = [side._in_words for side in self._known_sides]
        about = str(self.facts or "")
        return "\n".join(
            [f"{rate} {records} leak{certainty}" for records, rate, certainty in sides] + [about] * bool(about)
        )

    def _repr_html_(self) -> str:
        if self.other is None:
            return fragment(element("p", str(self)))
        rows = [tuple(words.strip(" ,()") for words in side._in_words) for side in self._known_sides]
        shown = [table(("what leaks", "rate", "how certain"), rows)]
        if self.pieces is not None:
            cut, audited = f"{self.pieces.n_split:.3g}", f"{self.pieces.n_entities:.4g}"
            text = f"Audited entities: {audited}. Cut by the linkage: {cut}. These show how large the pieces are."
            shown.append(element("p", text))
        if about := str(self.facts or ""):
            shown.append(element("p", about))
        return fragment(*shown)

    @property
    def _known_sides(self) -> tuple[Leakage, ...]:
        return (self,) if self.other is None else (self, self.other)

    @property
    def _in_words(self) -> tuple[str, str, str]:
        """Which records leak, the rate with its standard error, and what else is known about its uncertainty."""
        # Two digits of the standard error are known, and the rate and its interval have as many decimals.
        written = partial(percentage, error=self.std)
        uncalibrated = self.facts is not None and not self.facts.calibrated
        at_least = self.at_least and not uncalibrated
        unknown = "scores, no probabilities" if uncalibrated else "uncertainty unknown"
        spread, certainty = "", "" if at_least else f" ({unknown})"
        if self.std is not None:
            low, high = map(written, self.interval())
            least = percentage(self.interval()[0], 2)
            spread = f" ± {written(self.std)}"
            certainty = f" (95 % lower bound {least})" if self.at_least else f" (95 % interval {low} to {high})"
        if self.bound is not None and not self.at_least:
            certainty = f", at most {percentage(self.bound)} (95 % bound)"
        records = f"of the {'training' if self.of == 'train' else 'validation'} records"
        return records, f"{'at least ' if at_least else ''}{written(self.rate)}{spread}", certainty

    @classmethod
    def from_true_groups(
        cls,
        true_groups: Any,
        groups: Any,
        *,
        cv: Any = None,
        of: Side | None = None,
        drawn: str = "entities",
        sampled: Any = None,
    ) -> Leakage:
        """Leakage of audited records, whose true clusters are known.

        Give all records of every true cluster that the sample touches: a record whose mates are not looked up seems not
        to leak, and the rate comes out too low.

        Parameters
        ----------
        true_groups : array of shape (n,)
            True cluster of every audited record.
        groups : array of shape (n,)
            Approximate cluster of the same records.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter (its validation share counts, since the audited records are a
            sample of those it will split), or pairs (train, test) of audited rows: then these very splits count.
        of : {"train", "validation"}, optional
            One side alone: the share of the training records (p0) or of the validation records (rho0). By default
            both are computed, and ``rate`` is that of the validation records.
        drawn : {"entities", "records", "clusters"}, default="entities"
            What was drawn at random.

            "entities": true clusters, such as patients from a register that has no errors. The share over their records
            estimates the rate, with true clusters as units. True clusters can rarely be drawn, since they are not
            known; the whole true clusters of sampled records are *not* such a sample, as large ones are hit more often.

            "records": records, whose mates were then looked up. This can always be done. The share among the drawn
            records is unbiased.

            "clusters": approximate clusters, whose records were then looked up. With their mates in other clusters
            and ``sampled`` it estimates the same rate, with approximate clusters as units. Without them a split is
            seen only where both pieces were drawn, and the rate is a lower bound; merges are counted right.
        sampled : array of bool of shape (n,), optional
            Which of the audited records were drawn, the others being mates that were looked up. Without it, for
            "records", every true cluster counts as drawn once, which is right while hardly any was drawn twice.

        Returns
        -------
        Leakage
            The standard error takes the units as independent (ratio estimator); it is None for a single one. When
            nothing leaks it is what one cluster cut in two would have contributed. ``pieces`` holds the law of the
            pieces, ``linkage_errors`` splits and merges, and ``looked_up`` the audited clusters with the entity of
            each, except where clusters were drawn and their mates not looked up. Where single records of large
            clusters are misplaced, ``linkage_errors.misplaced`` is the rate for ``error_model="records"``: ``train``
            counts every record whose true cluster is also held out, which may be nearly all.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> patient, linked = [1, 1, 1, 2, 2, 3, 3], ["a", "a", "b", "c", "c", "d", "d"]
        >>> leakage = ooc.Leakage.from_true_groups(patient, linked, cv=5)
        >>> print(leakage.train)
        8.6 % ± 7.3 % of the training records leak (95 % interval 1.5 % to 35.7 %)
        >>> print(leakage.validation)
        34 % ± 29 % of the validation records leak (95 % interval 4 % to 87 %)
        >>> leakage.pieces.n_split, leakage.linkage_errors.n_merged
        (1.0, 0)

        Three records were drawn, and their mates looked up:

        >>> drawn = [True, False, False, False, True, True, False]
        >>> print(ooc.Leakage.from_true_groups(patient, linked, of="train", drawn="records", sampled=drawn))
        6.7 % ± 6.7 % of the training records leak (95 % interval 0.9 % to 31.3 %)
        """
        rates, more = rates_of_audited_records(true_groups, groups, cv, drawn, sampled, read_sides(of))
        return cls._of_sides(rates, "true_groups", {"at_least": more.pop("at_least")}, **more)

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
        identity: Any = None,
        random_state: RandomState = None,
    ) -> Leakage:
        """Leakage from the records alone: an estimate and a 95 % upper bound, with no ground truth.

        *Single records.* Records that leaked look like the rest of their clusters, which is held out. A classifier
        learns to tell held-out records from training records, and a training record that looks held out is a suspect.
        The bound supposes only that leaked records are like the rest of their clusters; training records that merely
        look like held-out ones make it larger. Where nothing tells the two sides apart it says "up to 100 %", and then
        the estimate means nothing.

        *Pieces of entities.* A classifier learns from the observed clusters which records belong to one entity, and
        finds the training clusters that are probably pieces of held-out ones. The rate is the share of the held-out
        records that have such a piece; it is a lower bound where imitated pieces would mostly be missed. The upper
        bound supposes that pieces are like the rest of their entities.

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
            Whether single records leak or pieces of entities. "auto" stands for "fragments" where the held-out
            clusters are many and small.
        discriminator : classifier, optional
            A classifier with ``predict_proba`` that tells the sides apart, by default an ensemble of three; for
            ``error_model="records"``.
        identity : array, data frame, or names of columns, optional
            What tells who is who and is no feature, as `audit` takes it; for ``error_model="fragments"``.
        random_state : int, RandomState, Generator or None
            Seed of the cross-fit.

        Returns
        -------
        Leakage
            For "records" a share of the training records, with ``bound``, and ``std`` that fits the distance of the
            rate to it. For "fragments" a share of the validation records, with ``bound``.

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
        X, identity = identity_columns(X, identity)
        X, folds, clusters, kind = read_data(X, y, groups, cv, error_model)
        if kind == "fragments":
            if discriminator is not None:
                raise InputError(
                    f"discriminator must be left out for error_model='fragments', got {short(discriminator)}."
                )
            return cls.of_seen(pieces_in_data(X, y, folds, clusters, identity, random_state))
        if identity is not None:
            raise InputError("identity must be left out for error_model='records', got values for it.")
        rate = rate_of_records_data(X, y, folds, clusters, discriminator, random_state)
        return cls(rate.rate, rate.std, bound=rate.upper)

    @classmethod
    def of_seen(cls, seen: SeenPieces) -> Leakage:
        """The share of the held-out records that are seen to have a piece in training, with its upper bound.

        Parameters
        ----------
        seen : SeenPieces
            What the records show about split entities.

        Returns
        -------
        Leakage
        """
        rate = min(seen.rate, _LARGEST_SEEN)
        bound = min(max(seen.upper, rate), 1.0)
        return cls(rate, of="validation", bound=bound, at_least=seen.caught < ENOUGH_CAUGHT)

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
        4.08 % ± 0.42 % of the training records leak (95 % interval 3.34 % to 4.99 %)
        """
        return cls(*rate_of_review(suspects, reviewed, n_train, drawn))

    @classmethod
    def from_pair_probabilities(
        cls,
        left: Any,
        right: Any,
        probability: ArrayLike,
        *,
        groups: Any,
        ids: Any = None,
        cv: Any = None,
        of: Side | None = None,
        blocking_recall: Any = None,
        reviewed: Any = None,
    ) -> Leakage:
        """Leakage from the match probabilities of a linkage tool.

        The pairs that matter are those *below* the link threshold, so ask the tool for them, down to small
        probabilities. Pairs that blocking never compared are not seen. Say with ``blocking_recall`` how many there are;
        otherwise the rate is a lower bound.

        Parameters
        ----------
        left, right : array of shape (pairs,)
            The two records of each pair, in any order: names in ``ids``, or row numbers. Pairs inside one approximate
            cluster do not leak.
        probability : array of shape (pairs,)
            Calibrated probability that the two belong to one true cluster. Pairs that are not listed have probability
            0. The largest one between two approximate clusters is the probability that these belong together.
        groups : array of shape (n,)
            Approximate cluster of every record.
        ids : array of shape (n,), optional
            The tool's name of every record, in the order of ``groups``; by default its row number. Pairs may name
            other records, which were linked and are not in the data.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter (its validation share counts), or pairs (train, test) of rows.
        of : {"train", "validation"}, optional
            One side alone: the share of the training records (p0) or of the validation records (rho0). By default
            both are computed, and ``rate`` is that of the validation records.
        blocking_recall : float, pair, result of `capture_recapture` or "reviewed", optional
            Share of the true pairs of these records that were compared, alone where it was counted, or with its
            standard error; 1 where all pairs were. Below 1, the pairs inside clusters must be listed as well. That of
            `capture_recapture` is an upper bound, so that the rate is a lower bound. "reviewed" goes by which of the
            reviewed matches were compared and linked, where pairs were drawn by something that the linkage does not
            look at.
        reviewed : mapping, frame, Series or array, optional
            Answers of somebody who looked at pairs, True for a match: by the two records, as a mapping from pairs, a
            frame with the columns ``left``, ``right`` and ``match`` or a Series with an index of two levels; or by the
            place of the pair in the list, or one value per pair. They count as they are, and recalibrate the others.
            With ``blocking_recall="reviewed"`` they show what blocking missed in the place of recalibrating.

        Returns
        -------
        Leakage
            The standard error is that of independent matches between pairs of approximate clusters, all records of
            such a pair matching together or not at all (conservative). It covers that probabilities are miscalibrated,
            less so the more pairs were reviewed. Without ``blocking_recall`` the rate is a lower bound, at most that of
            ``blocking_recall=1``, and its interval is one-sided. ``facts`` says what is known of blocking and of
            reviewed pairs.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> pairs = ["r1", "r2"], ["r3", "r4"], [0.5, 0.2]
        >>> linked = {"groups": ["a", "a", "b", "c"], "ids": ["r1", "r2", "r3", "r4"], "cv": 2}
        >>> print(ooc.Leakage.from_pair_probabilities(*pairs, **linked, of="train", blocking_recall=1))
        24 % ± 31 % of the training records leak (95 % interval 1 % to 90 %)
        >>> print(ooc.Leakage.from_pair_probabilities(*pairs, **linked, of="train"))
        at least 24 % ± 31 % of the training records leak (95 % lower bound 1.9 %)
        """
        linkage = Linkage(left, right, probability, groups, ids, by_tool=False)
        return cls._of_linkage(linkage, blocking_recall, cv, of, reviewed)

    @classmethod
    def from_splink(
        cls,
        predictions: Any,
        clusters: Any,
        *,
        ids: Any,
        cv: Any = None,
        of: Side | None = None,
        blocking_recall: Any = None,
        blocking_rules: Any = None,
        reviewed: Any = None,
    ) -> Leakage:
        """Leakage, and the groups, from a linkage by splink.

        Parameters
        ----------
        predictions : SplinkDataFrame or frame
            What ``linker.inference.predict`` gives, down to small probabilities, not cut at the link threshold.
        clusters : SplinkDataFrame or frame
            What ``linker.clustering.cluster_pairwise_predictions_at_threshold`` gives; its rows may be in any order.
        ids : array of shape (n,)
            The unique id of every record, in the order of the data that will be audited; these may be a part of the
            linked records. Where splink linked several tables, pairs (source_dataset, unique_id).
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter, or pairs (train, test) of rows.
        of : {"train", "validation"}, optional
            One side alone; by default both.
        blocking_recall : float, pair or "reviewed", optional
            Share of the true pairs that blocking compared; without it the rate is a lower bound.
        blocking_rules : sequence of str or tuples of str, optional
            The columns of each rule, as ``block_on`` got them. Which pairs satisfy which rules is then read from
            the columns that splink keeps, and `capture_recapture` bounds the recall, which makes the bound larger.
        reviewed : mapping, frame or array, optional
            Answers to some pairs, by their ids; see `from_pair_probabilities`.

        Returns
        -------
        Leakage
            ``groups`` holds the cluster of every record, in the order of ``ids``.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> import pandas as pd
        >>> predictions = pd.DataFrame(
        ...     {"unique_id_l": [7, 7], "unique_id_r": [5, 6], "match_probability": [0.99, 0.3]}
        ... )
        >>> clusters = pd.DataFrame({"cluster_id": [5, 6, 5], "unique_id": [5, 6, 7]})
        >>> leakage = ooc.Leakage.from_splink(predictions, clusters, ids=[7, 6, 5], blocking_recall=1)
        >>> leakage.groups
        array([5, 6, 5])
        >>> round(leakage.validation.rate, 2)
        0.2
        """
        linkage = read_splink(predictions, clusters, ids, blocking_rules)
        return cls._of_linkage(linkage, blocking_recall, cv, of, reviewed)

    @classmethod
    def from_recordlinkage(
        cls,
        probabilities: Any,
        clusters: Any = None,
        *,
        ids: Any,
        threshold: float | None = None,
        cv: Any = None,
        of: Side | None = None,
        blocking_recall: Any = None,
        blocking_rules: Any = None,
        records: Any = None,
        reviewed: Any = None,
    ) -> Leakage:
        """Leakage, and the groups, from a linkage by recordlinkage.

        Parameters
        ----------
        probabilities : Series
            What ``prob`` of a classifier gives: one probability per compared pair, with an index of two levels that
            name its records.
        clusters : Series, mapping, array or list of indexes, optional
            The cluster of every record: a Series or a mapping by the record's name, an array in the order of ``ids``,
            or what ``ConnectedComponents().compute`` gives, in which records that are not named are clusters of their
            own. By default records are joined along pairs from ``threshold`` on.
        ids : array of shape (n,)
            The name of every record (the index of its frame), in the order of the data that will be audited, which may
            be a part of the linked records.
        threshold : float, optional
            The probability from which pairs are links, where ``clusters`` is not given.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter, or pairs (train, test) of rows.
        of : {"train", "validation"}, optional
            One side alone; by default both.
        blocking_recall : float, pair or "reviewed", optional
            Share of the true pairs that were compared; without it the rate is a lower bound.
        blocking_rules : sequence of str or tuples of str, optional
            The columns on which the index blocked, rule by rule, which make the bound larger; see `from_splink`.
        records : DataFrame, optional
            The records that were linked, with these columns and their names as its index.
        reviewed : mapping, frame or array, optional
            Answers to some pairs, by the names of their records; see `from_pair_probabilities`.

        Returns
        -------
        Leakage
            ``groups`` holds the cluster of every record, in the order of ``ids``.

        Examples
        --------
        >>> import outofcluster as ooc
        >>> import pandas as pd
        >>> compared = pd.MultiIndex.from_tuples([("x", "y"), ("y", "z")])
        >>> probabilities = pd.Series([0.99, 0.3], index=compared)
        >>> leakage = ooc.Leakage.from_recordlinkage(probabilities, ids=["z", "x", "y"], threshold=0.5)
        >>> leakage.groups
        array([0, 1, 1])
        """
        linkage = read_recordlinkage(probabilities, clusters, ids, threshold, blocking_rules, records)
        return cls._of_linkage(linkage, blocking_recall, cv, of, reviewed)

    @classmethod
    def from_dedupe(
        cls,
        scores: Any,
        clusters: Any,
        *,
        ids: Any,
        cv: Any = None,
        of: Side | None = None,
        blocking_recall: Any = None,
        reviewed: Any = None,
    ) -> Leakage:
        """Leakage, and the groups, from a linkage by dedupe.

        Parameters
        ----------
        scores : structured array
            What ``deduper.score(deduper.pairs(data))`` gives: the fields ``pairs`` and ``score``.
        clusters : iterable of pairs
            What ``deduper.cluster(scores, threshold)`` or ``deduper.partition`` gives: the names of a cluster's records
            and their confidences. Records that are not named are clusters of their own.
        ids : array of shape (n,)
            The name of every record (its key in ``data``), in the order of the data that will be audited, which may be
            a part of the linked records.
        cv : int, splitter or iterable, optional
            Number of folds (5 by default), a splitter, or pairs (train, test) of rows.
        of : {"train", "validation"}, optional
            One side alone; by default both.
        blocking_recall : float, pair or "reviewed", optional
            Share of the true pairs that were compared; without it the rate is a lower bound.
        reviewed : mapping, frame or array, optional
            Answers to some pairs, by the names of their records; see `from_pair_probabilities`.

        Returns
        -------
        Leakage
            ``groups`` holds the cluster of every record, in the order of ``ids``. Scores of dedupe are not calibrated:
            without reviewed pairs the rate has no standard error, and ``facts`` says so.

        Examples
        --------
        >>> import numpy as np
        >>> import outofcluster as ooc
        >>> scores = np.array([((1, 2), 0.99), ((2, 3), 0.3)], dtype=[("pairs", "i8", 2), ("score", "f4")])
        >>> leakage = ooc.Leakage.from_dedupe(scores, [((1, 2), (0.99, 0.99))], ids=[3, 2, 1])
        >>> leakage.groups
        array([0, 1, 1])
        """
        return cls._of_linkage(read_dedupe(scores, clusters, ids), blocking_recall, cv, of, reviewed)

    @classmethod
    def from_precision_recall(
        cls,
        precision: float,
        recall: float,
        *,
        validation_share: float,
        groups: Any = None,
        n_links: float | None = None,
        n_records: int | None = None,
        mates: float | None = None,
        of: Side | None = None,
        precision_std: float | None = None,
        recall_std: float | None = None,
    ) -> Leakage:
        """Leakage from the pairwise precision and recall of a clustering.

        Parameters
        ----------
        precision, recall : float
            Share of the linked pairs that are true, and share, above 0, of the true pairs that are linked.
        validation_share : float
            Share of the records that are held out: 1/K for K folds.
        groups : array of shape (n,), optional
            Approximate cluster of every record, from which all that is not given is worked out.
        n_links, n_records : int, optional
            Number of linked pairs (all pairs inside approximate clusters), and of records. Needed without ``groups``.
        mates : float, optional
            Mean number of mates that a leaking record has on the other side. By default it follows from the sizes of
            the ``groups``, as if single records were lost; without groups it is 1, and the rate is an upper bound.
        of : {"train", "validation"}, optional
            One side alone: the share of the training records (p0) or of the validation records (rho0). By default
            both are computed, and ``rate`` is that of the validation records.
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
        >>> print(ooc.Leakage.from_precision_recall(0.95, 0.9, **shares, of="train"))
        5.3 % ± 1.2 % of the training records leak (95 % interval 3.4 % to 8.1 %)

        Clusters of five records: a lost record misses up to four pairs.

        >>> linked = np.repeat(np.arange(800), 5)
        >>> print(ooc.Leakage.from_precision_recall(0.95, 0.9, groups=linked, validation_share=0.2, of="train"))
        5.3 % of the training records leak (uncertainty unknown)
        """
        shares, stds = (precision, recall), (precision_std, recall_std)
        counts = (groups, n_links, n_records, mates)
        return cls._of_sides(rates_of_missed_pairs(shares, stds, validation_share, counts, read_sides(of)), "recall")


def _interval(rate: float, std: float, confidence_level: float) -> tuple[float, float]:
    """Lower and upper end of the interval that holds the true rate with the given confidence."""
    most = min(1.0, rate - math.log((1 - confidence_level) / 2) * std)
    if rate == 0:
        return 0.0, most
    width = float(ndtri((1 + confidence_level) / 2)) * std / (rate * (1 - rate))
    centre = float(logit(rate))
    # The way to log-odds and back must not move the ends past the rate.
    low, high = min(float(expit(centre - width)), rate), max(float(expit(centre + width)), rate)
    return low, min(high, most)
