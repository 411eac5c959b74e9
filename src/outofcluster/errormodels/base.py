"""ErrorModel: everything that depends on how clustering errors happen, behind one interface.

An error model reads rates, looks at the records for evidence, plans what is fitted to every fold, and says how losses
become an optimism. Single records that leak are :mod:`outofcluster.errormodels.records`, pieces of entities
:mod:`outofcluster.errormodels.pieces`, and records that leak both ways :mod:`outofcluster.errormodels.two_way`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes, check_integer, check_number
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster._base.seeds import RandomState, Seeds
from outofcluster.curves.base import Curve
from outofcluster.errormodels.pooled import Pooled
from outofcluster.evidence.laws import PieceLaw
from outofcluster.evidence.likely import NamedPairs
from outofcluster.evidence.looked_up import AuditedClusters, LookUps
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import AuditSamples
from outofcluster.sampling.run import Run, Runnable, UnitKind

# Two fits per level and fold, which noise needs to be known: four levels for records.
LEAST_FITS = 8


@dataclass(frozen=True)
class Rates:
    """How much leaks, as far as that is known before the fits.

    Attributes
    ----------
    by_fold : tuple of Leakage or None
        The rate of every fold.
    by_record : mapping from int to array
        For every fold the probability of each training record that it leaked, where such were given.
    from_data : bool
        Whether the rate is to be estimated from the records themselves.
    law : PieceLaw or None
        How large the pieces of cut entities are, where the rate comes from a linkage in which they were counted.
    compared : NamedPairs or None
        Pairs of clusters that a linkage tool compared and did not link.
    audited : AuditedClusters or None
        Clusters whose entities were looked up for the rate.
    """

    by_fold: tuple[Leakage, ...] | None = None
    by_record: Mapping[int, Array] = field(default_factory=dict)
    from_data: bool = False
    law: PieceLaw | None = None
    compared: NamedPairs | None = None
    audited: AuditedClusters | None = None


@dataclass(frozen=True)
class Choices:
    """What an audit was asked for, checked, and what it chose itself.

    Attributes
    ----------
    model : ErrorModel
        How clustering errors happen.
    reason : str
        Why this model was chosen; empty where the user chose it.
    rates : Rates
        How much leaks.
    reverse : float
        r0: the share of the held-out records that truly belong to training clusters.
    curves : tuple of Curve
        The curve of every metric.
    units, units_asked : str
        What the intervals are about, and what was asked for.
    confidence_level : float
        Level of the intervals.
    mute : tuple of str
        Codes of findings to leave out.
    n_fits, n_train : int or None
        Models to fit over all folds where their number is fixed, and the size of a resample.
    precision : float
        The Monte-Carlo standard error of the optimism, as a share of its standard error, at which rounds of fits end.
    time_limit : float or None
        Seconds after which no further round begins.
    times : int
        How many times as many fits as usual a round has.
    unmix : bool
        Whether some models are fitted without what looks leaked.
    classifier : classifier or None
        What tells the sides of a split apart, None for the package's own.
    kernel : bool or "auto"
        Whether a compiled kernel is used.
    look_ups : LookUps or None
        What somebody looked up.
    identity : table or None
        Columns that tell who is who and that no model sees.
    stored_units : tuple of str
        The kinds of units that sums are kept for.
    """

    model: ErrorModel
    reason: str
    rates: Rates
    reverse: float
    curves: tuple[Curve, ...]
    units: UnitKind
    units_asked: str
    confidence_level: float
    mute: tuple[str, ...]
    n_fits: int | None = None
    precision: float = 0.25
    time_limit: float | None = None
    times: int = 1
    n_train: int | None = None
    unmix: bool = True
    classifier: Any = None
    kernel: bool | Literal["auto"] = "auto"
    look_ups: LookUps | None = None
    identity: Any = None
    stored_units: tuple[UnitKind, ...] = ("clusters",)

    @property
    def corrects(self) -> bool:
        """Whether a correction is asked for."""
        return self.rates.by_fold is not None or self.rates.from_data

    @property
    def fixed(self) -> bool:
        """Whether the number of fits is fixed, so that there is a single round."""
        return self.n_fits is not None or not self.corrects

    def fits_per_fold(self, n_folds: int) -> int | None:
        """Models of every fold; None where rounds decide."""
        if self.n_fits is None:
            return None
        return check_integer("n_fits", self.n_fits, least=self.model.least_fits * n_folds) // n_folds


class Evidence:
    """What the records themselves show; by default nothing."""

    @property
    def parts(self) -> Mapping[int, Codes]:
        """For every fold the part of each held-out record, where parts are scored apart."""
        return {}

    def rate(self, folds: Sequence[int]) -> Leakage | None:
        """What the records of some folds say about the leakage rate; None where they were not asked."""
        return None

    def facts(self, task: Task, fold: Fold, rates: Rates) -> dict[str, Any]:
        """What is kept with the samples of a fold."""
        return {}

    def of_samples(self, choices: Choices) -> dict[str, Any]:
        """What is kept with the samples of all folds."""
        return {}


class ErrorModel(ABC):
    """How clustering errors happen."""

    # What ``error_model=`` calls it.
    name: ClassVar[Literal["records", "fragments"]]
    # What its leakage rate is a share of.
    side: ClassVar[Literal["train", "validation"]]
    # The rate beyond which nothing can be told.
    largest_rate: ClassVar[float]
    # The least number of fits to resamples for each fold.
    least_fits: ClassVar[int] = LEAST_FITS
    # Whether the size of a run is the number of records that train.
    has_sizes: ClassVar[bool]

    @abstractmethod
    def default_curve(self) -> Curve:
        """The curve that is fitted where none was chosen."""

    def read_rates(self, leakage: Any, folds: Sequence[Fold], n_records: int) -> Rates:
        """The checked rates."""
        if leakage is None:
            return Rates()
        return Rates(self.read_leakage(leakage, len(folds)))

    def read_leakage(self, leakage: Any, n_folds: int) -> tuple[Leakage, ...]:
        """One checked `Leakage` per fold, from a number, a `Leakage`, or one of these for each fold."""
        several = isinstance(leakage, Sequence) and not isinstance(leakage, str | bytes)
        # An array of no dimension is a number.
        several |= isinstance(leakage, np.ndarray) and leakage.ndim > 0
        values = list(leakage) if several else [leakage]
        if len(values) not in (1, n_folds):
            raise InputError(f"leakage must be one rate, or one for each of the {n_folds} folds, got {len(values)}.")
        rates = tuple(self._read_rate(value) for value in values)
        return rates * n_folds if len(rates) == 1 else rates

    def _read_rate(self, value: Any) -> Leakage:
        rate = value if isinstance(value, Leakage) else Leakage(check_number("leakage", value, least=0), of=self.side)
        rate = getattr(rate, self.side) or rate  # The side that the error model asks for, where it is known.
        if rate.rate > self.largest_rate:
            raise InputError(
                f"leakage must be at most {self.largest_rate}, beyond which nothing can be told, "
                f"got {rate.rate:g}{self._instead(rate)}."
            )
        if rate.of != self.side:
            raise InputError(
                f"leakage must be a share of the {self.side} records for error_model={self.name!r}, "
                f"got one of {rate.of} records."
            )
        return rate

    def _instead(self, rate: Leakage) -> str:
        """What to give in the place of a rate that is too large."""
        return ""

    @abstractmethod
    def look(self, task: Task, folds: Sequence[Fold], choices: Choices, seeds: Seeds) -> Evidence:
        """What the records show about who leaked."""

    @abstractmethod
    def runs(
        self, task: Task, fold: Fold, folds: Sequence[Fold], choices: Choices, evidence: Any, seeds: Seeds
    ) -> Sequence[Run | Runnable]:
        """What is fitted to one fold, the main run first; refuses a fold that cannot be audited."""

    def for_round(self, task: Task, evidence: Any, choices: Choices, seeds: Seeds) -> Any:
        """The evidence with what another round of fits draws anew; by default nothing."""
        return evidence

    def look_ups(self, task: Task, rates: Rates) -> LookUps | None:
        """What the audited entities behind a rate say, as look-ups; None where there are none."""
        return None

    def measured(
        self, task: Task, folds: Sequence[Fold], choices: Choices, evidence: Any
    ) -> Mapping[str, Sequence[Fold]]:
        """Training sets in the place of the user's own, for every fold, by the name of what they measure."""
        return {}

    @abstractmethod
    def n_levels(self, folds: Sequence[Fold], choices: Choices, task: Task) -> int:
        """Number of levels over all sizes, or close to it."""

    def baselines(self, choices: Choices) -> tuple[str, ...]:
        """The names of what is fitted once per audit beside the models that every audit needs."""
        return ()

    @abstractmethod
    def pooled(self, samples: AuditSamples, unit_kind: str, reverse: float = 0.0) -> Pooled:
        """How the losses of all folds become an optimism."""

    @abstractmethod
    def suspects(self, samples: AuditSamples, rates: Array) -> Any:
        """What looks as if it had leaked, the most suspicious first, as a table."""

    def review_list(self, pooled: Pooled, n: Any, columns: Mapping[str, Any], random_state: RandomState) -> Any:
        """Clusters for somebody to look up, as a table."""
        raise InputError(
            f"review_list() is for error_model='fragments', where clusters are pieces of entities; this audit has "
            f"error_model={self.name!r}, and suspects() lists the records that look leaked."
        )

    def imagined(
        self, pooled: Pooled, counts: Sequence[int], rng: np.random.Generator, **known: Any
    ) -> Iterator[Pooled]:
        """The losses with answers that a reviewer could give, for each of these numbers of look-ups."""
        raise InputError(
            f"plan_review() is for error_model='fragments', where people look clusters up; this audit has "
            f"error_model={self.name!r}."
        )


def suspects_table(folds: Mapping[int, Mapping[str, NDArray[Any]]]) -> Any:
    """The columns of the suspects of every fold as one table, the most suspicious first."""
    parts = [{"fold": np.full(len(each["probability"]), index), **each} for index, each in folds.items()]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    order = np.argsort(-columns["probability"], kind="stable")
    return data_frame({name: values[order].tolist() for name, values in columns.items()})


def names_of_clusters(samples: AuditSamples) -> NDArray[Any]:
    """The names of the clusters by their codes, and at -1 an empty one."""
    return np.array([*samples.cluster_names, ""], dtype=object)
