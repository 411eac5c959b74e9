"""The parts of a summary: one metric of several, one fold, the fitted curve, and the losses below the leakage rate.

Like the summary itself they are plain data in the metric's own sign. ``of`` makes a part of what was solved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.curves.base import Curve
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.unmixing import injected_of_mass
from outofcluster.errormodels.pooled import Pooled
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import UNCAUGHT, UNMIXED, FoldSamples

# Names of the columns of `MetricSummary.words`.
METRICS_HEADER = ("", "cross-validated as it is", "corrected", "optimism")
# Points of a curve that is drawn.
_DRAWN = 61


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
    def words(self) -> tuple[str, ...]:
        """The metric and its three estimates as a row of a table."""
        digits = decimals(*(estimate for estimate in (self.naive, self.corrected) if estimate is not None))
        return self.metric.label, *in_digits(digits, self.naive, self.corrected, self.optimism)


@dataclass(frozen=True)
class FoldSummary:
    """One fold: its number, its cross-validated value, records on both sides, fitted models, and their seeds.

    The corrected value is what the fold's own fits say; it is None without a correction, and in short summaries.
    ``fits_without`` are models without the training clusters that are pieces of held-out ones, and their controls.
    """

    fold: int
    naive: float
    n_train: int
    n_validation: int
    fits: int
    seeds: tuple[int, ...]
    corrected: float | None = None
    fits_without: int = 0

    @classmethod
    def of(cls, fold: FoldSamples, metric: MetricFacts) -> Self:
        """That of an audited fold, without a corrected value."""
        return cls(
            fold=int(fold.index),
            naive=metric.shown(float(fold.own_losses.mean())),
            n_train=fold.n_train,
            n_validation=fold.n_validation,
            fits=fold.n_fits,
            seeds=tuple(int(seed) for role, run in fold.runs.items() if role != UNCAUGHT for seed in run.seeds),
            fits_without=len(fold.measured),
        )


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
        at = pooled.levels(rate)[: len(pooled.injected)]
        p = np.linspace(0, float(at.max()), _DRAWN)

        def implied(levels: Array, values: Callable[[Any], Array] = curve.values) -> Array:
            return BinomialOperator(levels, curve.n_).expect(lambda share: values(np.rint(share * curve.n_)))

        loss, observed = metric.shown(implied(p)), metric.shown(implied(at) + curve.residual_[: len(at)])
        solution = getattr(curve, "unmixing_", None)
        extrapolated = () if solution is None else tuple(metric.shown(implied(p, solution.values_above)).tolist())
        return cls(tuple(p.tolist()), tuple(loss.tolist()), tuple(at.tolist()), tuple(observed.tolist()), extrapolated)


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
        if UNMIXED not in pooled.roles:
            return None
        shown, run = pooled.samples.metric.shown, pooled.folds[0].runs[UNMIXED]
        # Columns are in the order of increasing mass.
        losses = (pooled.shares @ pooled.columns.means(UNMIXED))[::-1]
        variances = (pooled.shares**2 @ pooled.columns.errors(UNMIXED) ** 2)[::-1]
        solution = getattr(curve, "unmixing_", None)
        return cls(
            tuple(np.sort(np.append(run.injected, 0.0)).tolist()),
            tuple(shown(losses).tolist()),
            tuple(np.sqrt(variances).tolist()),
            None if solution is None else float(injected_of_mass(solution.clean_masses[1])),
            None if solution is None else float(solution.mass_probability),
        )


def counted(number: int, what: str) -> str:
    """A number of things, of which there may be one."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def in_digits(digits: int, *estimates: Estimate | None) -> list[str]:
    """Estimates and their intervals with so many decimals; empty where there is none."""
    return ["" if each is None else f"{fixed(each.value, digits)} ({between(each, digits)})" for each in estimates]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines of text, with columns that begin below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def value_and_ends(estimate: Estimate | None) -> tuple[float, float, float]:
    """The value of an estimate and the ends of its interval; NaN where there is none."""
    return (math.nan,) * 3 if estimate is None else (estimate.value, *estimate.interval)


def mean_rate(leakage: Sequence[Leakage] | None, folds: Sequence[FoldSamples | FoldSummary]) -> float:
    """The leakage rate, averaged over the records that the folds score; NaN without one."""
    if not leakage:
        return math.nan
    return float(np.average([leak.rate for leak in leakage], weights=[fold.n_validation for fold in folds]))
