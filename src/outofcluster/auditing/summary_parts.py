"""The parts of a summary: one metric of several, one fold, the fitted curve, and the losses below the leakage rate.

Like the summary itself they are plain data in the metric's own sign. ``of`` makes a part of what was solved, and
``from_dict`` reads back what was written of it. What does not fit raises an error of its own, and the summary that is
read turns it into a sentence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.plain import number, numbers, whole
from outofcluster.curves.base import Curve
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.unmixing import injected_of_mass
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.inference.pooled import Pooled
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import FoldSamples

METRICS_HEADER = ("", "cross-validated as it is", "corrected", "optimism")
"""Names of the columns of `MetricSummary.words`."""
_DRAWN = 61
"""Points of a curve that is drawn."""


@dataclass(frozen=True)
class MetricSummary:
    """One of several metrics of the same fits.

    Attributes
    ----------
    metric : MetricFacts
        What is measured.
    naive, corrected, optimism : Estimate
        Cross-validated, on new clusters, and by how much cross-validation is too optimistic; the last two are None
        without a leakage rate.
    """

    metric: MetricFacts
    naive: Estimate
    corrected: Estimate | None
    optimism: Estimate | None

    @property
    def words(self) -> tuple[str, str, str, str]:
        """The metric and its three estimates as a row of a table."""
        known = [estimate for estimate in (self.naive, self.corrected) if estimate is not None]
        digits = decimals(*known)
        cells = [f"{fixed(estimate.value, digits)} ({between(estimate, digits)})" for estimate in known]
        if self.optimism is not None:
            cells.append(f"{fixed(self.optimism.value, digits)} ({between(self.optimism, digits)})")
        naive, corrected, optimism, *_ = (*cells, "", "")
        return self.metric.label, naive, corrected, optimism

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The same from plain data."""
        estimates = [read_estimate(data[name]) for name in ("corrected", "optimism")]
        return cls(MetricFacts.from_dict(data["metric"]), Estimate.from_dict(data["naive"]), *estimates)


@dataclass(frozen=True)
class FoldSummary:
    """One fold: its number, its cross-validated value, records on both sides, fitted models, and their seeds.

    The corrected value is what the fold's own fits say; it is None without a leakage rate, and in short summaries.
    """

    fold: int
    naive: float
    n_train: int
    n_validation: int
    fits: int
    seeds: tuple[int, ...]
    corrected: float | None = None

    @classmethod
    def of(cls, fold: FoldSamples, metric: MetricFacts) -> Self:
        """That of an audited fold, without a corrected value."""
        return cls(
            fold=int(fold.index),
            naive=metric.shown(float(fold.own_losses.mean())),
            n_train=fold.n_train,
            n_validation=fold.n_validation,
            fits=fold.n_fits,
            seeds=tuple(int(seed) for samples in fold.all_samples for seed in samples.seeds),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The same from plain data."""
        counts = {name: whole(data[name]) for name in ("fold", "n_train", "n_validation", "fits")}
        seeds = tuple(whole(seed) for seed in data["seeds"])
        return cls(naive=number(data["naive"]), seeds=seeds, corrected=read_known(data.get("corrected")), **counts)


@dataclass(frozen=True)
class FittedCurve:
    """A fitted curve, for drawing.

    Attributes
    ----------
    p, loss : tuple of float
        The curve on a grid of levels, from no leakage on.
    at, observed : tuple of float
        The levels of the samples, and the pooled losses that were fitted.
    extrapolated : tuple of float
        The curve on the same grid if only the losses above the leakage rate count; empty where none were measured
        below it.
    """

    p: tuple[float, ...]
    loss: tuple[float, ...]
    at: tuple[float, ...]
    observed: tuple[float, ...]
    extrapolated: tuple[float, ...] = ()

    @classmethod
    def of(cls, pooled: Pooled, curve: Curve, rate: float) -> Self:
        """The losses A e that a curve implies, from no leakage to the highest level, in the metric's own sign."""
        metric = pooled.samples.metric
        at = pooled.levels(rate)[1][: len(pooled.injected)]
        p = np.linspace(0, float(at.max()), _DRAWN)

        def implied(levels: Array, values: Callable[[Any], Array] = curve.values) -> Array:
            return BinomialOperator(levels, curve.n_).expect(lambda share: values(np.rint(share * curve.n_)))

        loss, observed = metric.shown(implied(p)), metric.shown(implied(at) + curve.residual_[: len(at)])
        solution = getattr(curve, "unmixing_", None)
        extrapolated = () if solution is None else tuple(metric.shown(implied(p, solution.above.values)).tolist())
        return cls(tuple(p.tolist()), tuple(loss.tolist()), tuple(at.tolist()), tuple(observed.tolist()), extrapolated)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The same from plain data."""
        return cls(*(numbers(data[field.name]) for field in fields(cls)))


@dataclass(frozen=True)
class UnmixedLosses:
    """Losses of models that were fitted without the training records that look leaked, pooled over the folds.

    Attributes
    ----------
    fractions : tuple of float
        Injected fractions, increasing: those below 0 stand for records that were left out, 0 for the user's own model,
        and those above 0 for records that look leaked and were made to count more.
    losses, standard_errors : tuple of float
        Losses there, and their Monte-Carlo standard errors.
    clean : float or None
        The fraction at which no leakage is left; None without a leakage rate, and for curves that do not use these
        losses.
    works : float or None
        The probability that these losses can be trusted rather than the curve above the leakage rate.
    """

    fractions: tuple[float, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...]
    clean: float | None = None
    works: float | None = None

    @classmethod
    def of(cls, pooled: Pooled, curve: Curve | None) -> Self | None:
        """Those of an audit and its fitted curve; None where no fold has any."""
        run = pooled.samples.folds[0].unmixed
        if run is None or not pooled.has_unmixed:
            return None
        below = slice(None, len(pooled.all_injected) - 1, -1)  # The last columns, by increasing mass.
        shown = pooled.samples.metric.shown
        losses, variances = pooled.shares @ pooled.losses, pooled.shares**2 @ pooled.errors**2
        solution = getattr(curve, "unmixing_", None)
        return cls(
            tuple(np.sort(np.append(run.injected, 0.0)).tolist()),
            tuple(shown(losses[below]).tolist()),
            tuple(np.sqrt(variances[below]).tolist()),
            None if solution is None else float(injected_of_mass(solution.clean_masses[1])),
            None if solution is None else float(solution.mass_probability),
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The same from plain data."""
        measured = {name: numbers(data[name]) for name in ("fractions", "losses", "standard_errors")}
        return cls(**measured, clean=read_known(data["clean"]), works=read_known(data["works"]))


def read_estimate(data: dict[str, Any] | None) -> Estimate | None:
    """An estimate from plain data; None where there is none."""
    return None if data is None else Estimate.from_dict(data)


def read_known(value: Any) -> float | None:
    """A number that may be unknown, which is None."""
    return None if value is None else number(value)
