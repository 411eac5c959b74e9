"""Results of an audit: numbers with their uncertainty, and answers to "what if" without another fit.

An `Audit` holds the samples and solves when asked. What it says (text, notebook, JSON, frame) is said by its
`Summary`, which is plain data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from outofcluster._base.exceptions import InputError, SolverError
from outofcluster._base.validation import Array, check_number, check_vector
from outofcluster.auditing.checks import look_at_estimate
from outofcluster.auditing.findings import Finding, kept
from outofcluster.auditing.summary import FittedCurve, FoldSummary, Summary
from outofcluster.curves.base import Curve
from outofcluster.curves.operator import BinomialOperator
from outofcluster.inference.estimates import Estimate, Sensitivity
from outofcluster.inference.fold_run import FoldRun
from outofcluster.inference.pooling import Optimism, Pooled
from outofcluster.inference.resampling import resampled
from outofcluster.leakage.rate import Leakage
from outofcluster.sampling.samples import LossSamples

__all__ = ["Audit", "Estimate", "Sensitivity", "Summary", "read_leakage"]

_LEVEL = 0.95
_NORMAL = float(ndtri(0.5 + _LEVEL / 2))
_LARGEST_RATE = 0.5
_FINE = np.arange(101) / 200
_COARSE, _FEW_DRAWS = (0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5), 50
"""Rates of a summary's sensitivity; above 0 and with so many draws each where every rate needs a resampling."""
_DRAWN = 61
"""Points of a curve that is drawn."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found; ``print`` it, or show it in a notebook.

    Attributes
    ----------
    pooled : Pooled
        The samples of all folds as one problem.
    leakage : tuple of Leakage or None
        The rate assumed in each fold.
    errors : {"records", "fragments"}
        The error model.
    units : {"clusters", "records"}
        What counts as one independent unit in the intervals.
    method : Curve
        The curve method.
    iid : Estimate
        The loss over random folds, which ignore clusters.
    test : LeakageTest or None
        Whether there is a cluster effect for leakage to act on.
    loss, loss_range : str, tuple of float
        Name of the loss, and what it can be.
    noted : tuple of Finding
        Findings that need no solution; ``findings`` has them all.
    mute : tuple of str
        Codes of findings that are left out.
    """

    pooled: Pooled = field(repr=False)
    leakage: tuple[Leakage, ...] | None
    errors: str
    units: str
    method: Curve
    iid: Estimate
    test: Any = field(repr=False)
    loss: str
    loss_range: tuple[float, float]
    noted: tuple[Finding, ...] = field(repr=False)
    mute: tuple[str, ...] = field(repr=False)

    @property
    def samples(self) -> tuple[LossSamples, ...]:
        """The loss samples of each fold."""
        return tuple(run.samples for run in self.pooled.runs)

    @property
    def estimand(self) -> str:
        """What the intervals are about, in words."""
        return "new clusters of the population" if self.units == "clusters" else "these held-out clusters"

    @cached_property
    def naive(self) -> Estimate:
        """The cross-validated loss as it is."""
        variances = self.pooled.variances(self.pooled.naive_only())
        return self._estimate(self.pooled.naive, 0.0, variances.data)

    @cached_property
    def corrected(self) -> Estimate | None:
        """The loss on new clusters; None without a leakage rate."""
        if self.leakage is None:
            return None
        rates, stds = self._rates, np.array([leak.std or 0.0 for leak in self.leakage])
        optimism = self._optimism
        value, variances = self.pooled.naive + optimism.value, self.pooled.variances(optimism)
        if optimism.exact:
            data = variances.data + optimism.choice + self.pooled.rate_effect(self.method, rates, stds) ** 2
            return self._estimate(value, variances.monte_carlo, data)
        draws = resampled(self.pooled, self.method, rates, stds, optimism) - value
        widen = self._quantile() / _NORMAL
        low, high = (float(value + widen * q) for q in np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
        data = max(float(draws.var(ddof=1)) - variances.monte_carlo, 0.0)
        return self._bounded(value, min(low, value), max(high, value), variances.monte_carlo, data)

    @property
    def bias(self) -> float | None:
        """How much the naive loss is too low: corrected less naive."""
        return None if self.corrected is None else self.corrected.value - self.naive.value

    @cached_property
    def curve(self) -> Curve | None:
        """The pooled losses' curve at the mean leakage rate; None without a rate."""
        if self.leakage is None:
            return None
        return self.pooled.fit(self.method, float(self.pooled.shares @ self._rates))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before trusting the numbers, the most severe first."""
        found = list(self.noted)
        if self.leakage is not None and self.corrected is not None and self.curve is not None:
            found += look_at_estimate(
                self.pooled,
                self._optimism,
                self.curve,
                value=self.corrected.value,
                se_data=self.corrected.se_data,
                loss_range=self.loss_range,
                leakage=self.leakage,
            )
        return kept(found, self.mute)

    def at_leakage(self, leakage: Any) -> Audit:
        """The same audit for another leakage rate: solved anew, with no further fit."""
        return replace(self, leakage=read_leakage(leakage, self.errors, len(self.pooled.runs)))

    def sensitivity(self, rates: Sequence[float] | Array | None = None) -> Sensitivity:
        """The corrected loss and its interval over leakage rates, by default 0 to 0.3; each rate is taken as known."""
        given = np.linspace(0, 0.3, 31) if rates is None else check_vector("rates", rates)
        if given.min() < 0 or given.max() > _LARGEST_RATE:
            wrong = given[(given < 0) | (given > _LARGEST_RATE)][0]
            raise InputError(f"rates must lie between 0 and {_LARGEST_RATE}, got {wrong:g}.")
        estimates = [self.at_leakage(float(rate)).corrected for rate in given]
        values = np.array([(e.value, *e.interval) for e in estimates if e is not None])
        return Sensitivity(given, values[:, 0], values[:, 1], values[:, 2])

    def tipping_point(self, threshold: float) -> float | None:
        """The smallest leakage rate up to 0.5 at which the corrected loss reaches a threshold, such as a rival's."""
        level = check_number("threshold", threshold, least=-math.inf)
        rates = np.linspace(0, _LARGEST_RATE, 101)
        reached = np.array([self._value(float(rate)) for rate in rates]) >= level
        if not reached.any():
            return None
        first = int(reached.argmax())
        if first == 0:
            return 0.0
        low, high = float(rates[first - 1]), float(rates[first])
        for _ in range(30):
            middle = (low + high) / 2
            low, high = (low, middle) if self._value(middle) >= level else (middle, high)
        return high

    @cached_property
    def summary(self) -> Summary:
        """All numbers as plain data, with the corrected loss over rates from 0 to 0.5.

        For a method with closed derivatives those rates are 101, in steps of 0.005. For one that is not, every
        interval needs a resampling of its own, so there are eight of them and the assumed rate, with intervals
        that are rougher than those of `sensitivity`: they come from 50 draws instead of 300.
        """
        curve = self.curve
        return replace(
            self._brief,
            curve=None if curve is None else _drawn(self.pooled, curve, float(self.pooled.shares @ self._rates)),
            sensitivity=self._overview(),
        )

    def to_dict(self) -> dict[str, Any]:
        """The summary as plain data."""
        return self.summary.to_dict()

    def to_json(self) -> str:
        """The summary as JSON, which ``Summary.from_json`` reads."""
        return self.summary.to_json()

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row an estimate: naive, iid and, with a leakage rate, corrected."""
        return self._brief.to_frame()

    def __str__(self) -> str:
        return str(self._brief)

    def _repr_html_(self) -> str:
        return self._brief._repr_html_()

    def plot(self, ax: Any = None) -> Any:
        """Draw the loss curve; needs matplotlib. Other pictures are in :mod:`outofcluster.present.display`."""
        from outofcluster.present.display import LossCurveDisplay

        return LossCurveDisplay.from_audit(self).plot(ax)

    def write_html(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write a report, one self-contained HTML file; needs jinja2. Options are those of the report's writer."""
        from outofcluster.present.report import write_html

        write_html(self, path, **options)

    # --- how the numbers come about ---------------------------------------------------------------

    @property
    def _rates(self) -> Array:
        return np.array([leak.rate for leak in self.leakage or ()])

    @cached_property
    def _optimism(self) -> Optimism:
        return self.pooled.solve(self.method, self._rates)

    def _value(self, rate: float) -> float:
        rates = np.full(len(self.pooled.runs), rate)
        return self.pooled.naive + self.pooled.solve(self.method, rates, derive=False).value

    @cached_property
    def _brief(self) -> Summary:
        """The summary without what printing does not need."""
        from outofcluster._base.version import __version__

        return Summary(
            version=__version__,
            estimator=str(self.samples[0].problem.get("estimator", "")),
            loss=self.loss,
            loss_range=self.loss_range,
            errors=self.errors,
            units=self.units,
            estimand=self.estimand,
            method=repr(self.method),
            leakage=self.leakage,
            naive=self.naive,
            iid=self.iid,
            corrected=self.corrected,
            bias=self.bias,
            test=None if self.test is None else {**self.test.to_dict(), "sentence": self.test.sentence},
            levels=tuple(self.pooled.injected.tolist()),
            losses=tuple(self.pooled.means.tolist()),
            standard_errors=tuple(np.sqrt(self.pooled.monte_carlo).tolist()),
            sizes=self.pooled.sizes if self.errors == "records" else (),
            by_fold=tuple(_fold_summary(run) for run in self.pooled.runs),
            findings=self.findings,
            versions=_versions(self.samples),
        )

    def _overview(self) -> Sensitivity | None:
        """The summary's sensitivity; None where the method cannot be solved for these losses."""
        folds = len(self.pooled.runs)
        rows = {0.0: (self.naive.value, *self.naive.interval)}
        known = {(leak.rate, leak.std or 0.0) for leak in self.leakage or ()}
        try:
            if self.pooled.solve(self.method, np.full(folds, 0.1), derive=False).exact:
                return self.sensitivity(_FINE)
            if self.corrected is not None and len(known) == 1 and (single := known.pop())[1] == 0:
                rows[single[0]] = (self.corrected.value, *self.corrected.interval)
            rows |= {rate: self._roughly(np.full(folds, rate)) for rate in _COARSE if rate not in rows}
        except (InputError, SolverError):
            return None
        rates = sorted(rows)
        return Sensitivity(np.array(rates), *np.array([rows[rate] for rate in rates]).T)

    def _roughly(self, rates: Array) -> tuple[float, float, float]:
        """Corrected loss and interval from few draws: by their spread on either side, since quantiles need many."""
        optimism = self.pooled.solve(self.method, rates)
        value = self.pooled.naive + optimism.value
        draws = resampled(self.pooled, self.method, rates, np.zeros_like(rates), optimism, n_draws=_FEW_DRAWS) - value
        below, above = (
            self._quantile() * math.sqrt(2 * float((side**2).mean()))
            for side in (np.minimum(draws, 0), np.maximum(draws, 0))
        )
        return value, *self._bounded(value, value - below, value + above, 0.0, 0.0).interval

    def _quantile(self) -> float:
        """Student's quantile for the number of units that are scored."""
        return float(stdtrit(max(self.pooled.n_scored - 1, 1), 0.5 + _LEVEL / 2))

    def _estimate(self, value: float, monte_carlo: float, data: float) -> Estimate:
        reach = self._quantile() * math.sqrt(monte_carlo + data)
        if self.loss_range == (0.0, math.inf) and 0 < value < math.inf and reach < 3 * value:
            # A mean of squares is skewed: its logarithm is nearer to normal, and cannot leave the range.
            factor = math.exp(reach / value)
            return self._bounded(value, value / factor, value * factor, monte_carlo, data)
        return self._bounded(value, value - reach, value + reach, monte_carlo, data)

    def _bounded(self, value: float, low: float, high: float, monte_carlo: float, data: float) -> Estimate:
        """The interval cut to what the loss can be."""
        least, most = self.loss_range
        interval = (min(max(low, least), most), max(min(high, most), least))
        return Estimate(value, interval, math.sqrt(monte_carlo), math.sqrt(data))


def _fold_summary(run: FoldRun) -> FoldSummary:
    sampled = run.by_size if run.second is None else (*run.by_size, run.second)
    return FoldSummary(
        fold=int(run.fold.index),
        naive=float(run.records.mean()),
        n_train=len(run.fold.train),
        n_validation=len(run.fold.validation),
        fits=sum(samples.n_fits for samples in sampled),
        seeds=tuple(int(seed) for samples in sampled for seed in samples.seeds),
    )


def _versions(samples: Sequence[LossSamples]) -> dict[str, str]:
    """Versions of each package, several where runs of different dates were put together."""
    found: dict[str, list[str]] = {}
    for run in samples:
        for name, version in run.versions.items():
            found.setdefault(name, [])
            if version not in found[name]:
                found[name].append(version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _drawn(pooled: Pooled, curve: Curve, rate: float) -> FittedCurve:
    """The losses A e that a fitted curve implies, from no leakage to the highest level."""
    at = pooled.levels(rate)[1][: len(pooled.injected)]
    p = np.linspace(0, float(at.max()), _DRAWN)

    def implied(levels: Array) -> Array:
        return BinomialOperator(levels, curve.n_).expect(lambda share: curve.values(np.rint(share * curve.n_)))

    loss, observed = implied(p), implied(at) + curve.residual_[: len(at)]
    return FittedCurve(tuple(p.tolist()), tuple(loss.tolist()), tuple(at.tolist()), tuple(observed.tolist()))


def read_leakage(leakage: Any, errors: str, n_folds: int) -> tuple[Leakage, ...]:
    """One checked Leakage a fold, out of a number, one a fold, a Leakage, or several."""
    given = list(leakage) if isinstance(leakage, Sequence | np.ndarray) and not isinstance(leakage, str) else [leakage]
    if len(given) not in (1, n_folds):
        raise InputError(f"leakage must be one rate, or one for each of the {n_folds} folds, got {len(given)}.")
    side = "train" if errors == "records" else "validation"
    read = []
    for value in given:
        leak = value if isinstance(value, Leakage) else Leakage(check_number("leakage", value, least=0), of=side)  # type: ignore[arg-type]
        if leak.rate > _LARGEST_RATE:
            raise InputError(
                f"leakage must be at most {_LARGEST_RATE}, beyond which nothing can be told, got {leak.rate:g}."
            )
        if leak.of != side:
            raise InputError(
                f"leakage must be a share of the {side} records for errors={errors!r}, got one of {leak.of} records."
            )
        read.append(leak)
    return tuple(read * n_folds) if len(read) == 1 else tuple(read)
