"""Results of an audit: numbers with their uncertainty, and answers to "what if" without another fit."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri, stdtrit

from outofcluster._validation import Array, check_number, check_vector
from outofcluster.curves.base import Curve
from outofcluster.errors import InputError, MissingExtraError
from outofcluster.findings import Finding, kept
from outofcluster.leakage import Leakage
from outofcluster.pooling import Optimism, Pooled
from outofcluster.resampling import resampled
from outofcluster.sampling.samples import LossSamples

__all__ = ["Audit", "Estimate", "Sensitivity", "read_leakage"]

_SCHEMA = 1
_LEVEL = 0.95
_NORMAL = float(ndtri(0.5 + _LEVEL / 2))
_LARGEST_RATE = 0.5
_FAR = 3.0
"""Weight of the loss at the lowest level beyond which an extrapolation counts as far."""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, and the standard errors it comes from.

    Attributes
    ----------
    value : float
        The estimate.
    interval : tuple of float
        95 % interval, within what the loss can be.
    se_monte_carlo : float
        Standard error from finitely many fits.
    se_data : float
        Standard error from having these records and clusters, and from the leakage rate where that is uncertain.
    """

    value: float
    interval: tuple[float, float]
    se_monte_carlo: float
    se_data: float

    def __str__(self) -> str:
        return f"{self.value:.4f} ({self.interval[0]:.4f} to {self.interval[1]:.4f})"


@dataclass(frozen=True)
class Sensitivity:
    """The corrected loss over a range of leakage rates."""

    rates: Array
    values: Array
    low: Array
    high: Array

    def frame(self) -> Any:
        """A pandas DataFrame with columns rate, value, low, high."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("frame() needs pandas: pip install 'outofcluster[pandas]'.") from None
        return pd.DataFrame({"rate": self.rates, "value": self.values, "low": self.low, "high": self.high})


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Attributes
    ----------
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
    """

    pooled: Pooled
    leakage: tuple[Leakage, ...] | None
    errors: str
    units: str
    method: Curve
    iid: Estimate
    test: Any
    loss: str
    loss_range: tuple[float, float]
    noted: tuple[Finding, ...]
    mute: tuple[str, ...]

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
        return None if self.leakage is None else self._corrected(self.leakage)

    @property
    def bias(self) -> float | None:
        """How much the naive loss is too low: corrected less naive."""
        return None if self.corrected is None else self.corrected.value - self.naive.value

    @cached_property
    def curve(self) -> Curve | None:
        """The pooled losses' curve at the mean leakage rate; None without a rate."""
        if self.leakage is None:
            return None
        return self.pooled.fit(self.method, float(self.pooled.shares @ [leak.rate for leak in self.leakage]))

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """What to know before trusting the numbers, the most severe first."""
        return kept([*self.noted, *self._solved_findings()], self.mute)

    def at_leakage(self, leakage: Any) -> Audit:
        """The same audit for another leakage rate: solved anew, with no further fit."""
        return replace(self, leakage=read_leakage(leakage, self.errors, len(self.pooled.runs)))

    def sensitivity(self, rates: Sequence[float] | Array | None = None) -> Sensitivity:
        """The corrected loss and its interval over leakage rates, by default 0 to 0.3."""
        given = np.linspace(0, 0.3, 31) if rates is None else check_vector("rates", rates)
        estimates = [self.at_leakage(float(rate)).corrected for rate in given]
        assert all(estimate is not None for estimate in estimates)
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

    def to_dict(self) -> dict[str, Any]:
        """The numbers as plain data."""
        return {
            "schema": _SCHEMA,
            "loss": self.loss,
            "errors": self.errors,
            "units": self.units,
            "estimand": self.estimand,
            "method": repr(self.method),
            "leakage": None if self.leakage is None else [asdict(leak) for leak in self.leakage],
            "naive": asdict(self.naive),
            "iid": asdict(self.iid),
            "corrected": None if self.corrected is None else asdict(self.corrected),
            "bias": self.bias,
            "test": None if self.test is None else self.test.to_dict(),
            "levels": self.pooled.injected.tolist(),
            "losses": self.pooled.means.tolist(),
            "standard_errors": np.sqrt(self.pooled.monte_carlo).tolist(),
            "folds": len(self.pooled.runs),
            "fits": sum(samples.n_fits for samples in self.samples),
            "findings": [asdict(finding) for finding in self.findings],
        }

    def to_json(self) -> str:
        """The numbers as JSON."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        lines = [
            f"Loss ({self.loss}) over {len(self.pooled.runs)} folds; intervals are 95 %, for {self.estimand}.",
            f"  cross-validated as it is     {self.naive}",
            f"  random folds, no clusters    {self.iid}",
        ]
        if self.corrected is not None and self.leakage is not None:
            rate = float(self.pooled.shares @ [leak.rate for leak in self.leakage])
            lines.append(f"  corrected for {rate:5.1%} leakage  {self.corrected}")
        if self.test is not None:
            lines.append(f"  test for a cluster effect    p = {self.test.pvalue:.3g}")
        lines += [f"  {finding}" for finding in self.findings]
        return "\n".join(lines)

    # --- how the numbers come about ---------------------------------------------------------------

    def _solve(self, rates: Array) -> Optimism:
        return self.pooled.solve(self.method, rates)

    def _value(self, rate: float) -> float:
        return self.pooled.naive + self._solve(np.full(len(self.pooled.runs), rate)).value

    def _corrected(self, leakage: tuple[Leakage, ...]) -> Estimate:
        rates = np.array([leak.rate for leak in leakage])
        optimism = self._solve(rates)
        variances = self.pooled.variances(optimism)
        value = self.pooled.naive + optimism.value
        if optimism.linear:
            data = variances.data + self._rate_variance(leakage, rates)
            return self._estimate(value, variances.monte_carlo, data)
        stds = np.array([leak.std or 0.0 for leak in leakage])
        draws = resampled(self.pooled, self.method, rates, stds, optimism) - value
        widen = self._quantile() / _NORMAL
        low, high = (float(value + widen * q) for q in np.quantile(draws, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2]))
        data = max(float(draws.var(ddof=1)) - variances.monte_carlo, 0.0)
        return self._bounded(value, min(low, value), max(high, value), variances.monte_carlo, data)

    def _rate_variance(self, leakage: tuple[Leakage, ...], rates: Array) -> float:
        """(de_0/dp0)² Var(p0), the folds' rates moving together since they come from one source."""
        errors = np.array([0.0 if leak.std is None else leak.std for leak in leakage])
        if not errors.any():
            return 0.0
        step = 1e-4
        up, down = (
            self._solve(np.clip(rates + sign * step * errors / errors.max(), 0, 0.999)).value for sign in (1, -1)
        )
        return ((up - down) / (2 * step) * float(errors.max())) ** 2

    def _quantile(self) -> float:
        """Student's quantile for the number of units that are scored."""
        return float(stdtrit(max(self.pooled.n_scored - 1, 1), 0.5 + _LEVEL / 2))

    def _estimate(self, value: float, monte_carlo: float, data: float) -> Estimate:
        reach = self._quantile() * math.sqrt(monte_carlo + data)
        return self._bounded(value, value - reach, value + reach, monte_carlo, data)

    def _bounded(self, value: float, low: float, high: float, monte_carlo: float, data: float) -> Estimate:
        """The interval cut to what the loss can be."""
        least, most = self.loss_range
        interval = (min(max(low, least), most), max(min(high, most), least))
        return Estimate(value, interval, math.sqrt(monte_carlo), math.sqrt(data))

    def _solved_findings(self) -> list[Finding]:
        if self.leakage is None or self.corrected is None:
            return []
        found = []
        optimism = self._solve(np.array([leak.rate for leak in self.leakage]))
        if (largest := optimism.multiplier) > _FAR:
            found.append(
                Finding(
                    "far-extrapolation",
                    "warning",
                    f"The extrapolation to no leakage multiplies the noise of the losses by up to {largest:.1f}.",
                    "Lower the leakage by better linkage, or read the interval before the value.",
                )
            )
        low, high = self.loss_range
        if not low <= self.corrected.value <= high:
            found.append(
                Finding(
                    "out-of-range",
                    "severe",
                    f"The corrected loss {self.corrected.value:.4g} lies outside [{low:g}, {high:g}].",
                    "The leakage rate or the method does not fit these losses.",
                )
            )
        if not self.pooled.variances(optimism).told:
            found.append(
                Finding(
                    "data-variance",
                    "warning",
                    "The fits are too few to tell the data's variance from 0; the interval is wider than need be.",
                    "Raise n_fits.",
                )
            )
        return found


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
