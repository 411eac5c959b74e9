r"""All folds as one problem: pooled losses, influences of clusters over all folds, and what an estimate makes of them.

With ω_f the share of the held-out records that fold f scores, the pooled loss at level i is :math:`b_i = \sum_f
ω_f b_{fi}`, and ê_0 is solved from it. What is reported is the user's own cross-validated loss plus the
estimated optimism,

.. math:: \text{corrected} = \text{naive} + (\hat e_0 - b_0) ,

since a resample is not the user's training set but the *difference* it measures carries over.

Influences add over folds: cluster c trains in some folds and is scored in one. With :math:`\bar Z_{ic}` its
pooled influence on b_i, :math:`v_c` that on the evaluation of naive (its records' deviations from the mean),
and :math:`\bar Z^V_{0c}` that on the evaluation of b_0, the influence on the corrected loss is

.. math:: D_c = \sum_i w_i \bar Z_{ic} + v_c - \bar Z^V_{0c} ,

where training's influence on naive is taken to be that on b_0. w are the method's weights, or its derivatives
where it is not linear.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._validation import Array
from outofcluster.curves.base import precision_weights
from outofcluster.inference import between_units
from outofcluster.sampling.samples import LossSamples
from outofcluster.split import Fold

__all__ = ["FoldRun", "Pooled", "Variances", "weights_of"]

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class FoldRun:
    """One audited fold: its rows, the user's own losses on them, and the samples."""

    fold: Fold
    records: Array
    samples: LossSamples


@dataclass(frozen=True)
class Pooled:
    """The folds' samples pooled; ``unit_of`` gives the unit (cluster or record) of every row."""

    runs: tuple[FoldRun, ...]
    unit_of: Codes

    @cached_property
    def shares(self) -> Array:
        """ω: each fold's share of the scored records."""
        counts = np.array([len(run.fold.validation) for run in self.runs], dtype=float)
        shares: Array = counts / counts.sum()
        return shares

    @property
    def injected(self) -> Array:
        """The levels, the same in every fold."""
        return self.runs[0].samples.injected

    @property
    def size(self) -> int:
        """Size n of the binomial operator, averaged over folds where they differ."""
        return round(float(np.average([run.samples.size for run in self.runs], weights=self.shares)))

    @cached_property
    def losses(self) -> Array:
        """Mean losses, a row a fold, a column a level."""
        return np.stack([run.samples.means for run in self.runs])

    @cached_property
    def means(self) -> Array:
        """Pooled losses b."""
        pooled: Array = self.shares @ self.losses
        return pooled

    @cached_property
    def monte_carlo(self) -> Array:
        """Monte-Carlo variance of each pooled loss."""
        errors = np.stack([run.samples.standard_errors for run in self.runs])
        variance: Array = self.shares**2 @ errors**2
        return variance

    @cached_property
    def naive(self) -> float:
        """Mean of the user's own losses over all held-out records."""
        return float(np.concatenate([run.records for run in self.runs]).mean())

    @cached_property
    def units(self) -> Codes:
        """The units that occur."""
        rows = [rows for run in self.runs for rows in (run.fold.train, run.fold.validation)]
        return np.unique(self.unit_of[np.concatenate(rows)])

    @cached_property
    def naive_influence(self) -> Array:
        """v: what each unit's records add to the evaluation of naive."""
        rows = np.concatenate([run.fold.validation for run in self.runs])
        deviations = np.concatenate([run.records for run in self.runs]) - self.naive
        return self._by_unit(self.unit_of[rows], deviations / len(rows))

    @cached_property
    def parts(self) -> list[tuple[Codes, Array, Codes, Array, Array]]:
        """For each fold: units of T̂ and their influence, those of V̂ and theirs, and the noise of both at each level."""
        parts = []
        for run in self.runs:
            moments = run.samples.jackknife()
            counts = np.array([len(level) for level in run.samples.losses])
            train, validation = (
                np.searchsorted(self.units, np.unique(self.unit_of[rows]))
                for rows in (run.fold.train, run.fold.validation)
            )
            noise = (moments.train.variance.sum(axis=1) + moments.validation.variance.sum(axis=1)) / counts
            parts.append((train, moments.train.mean.T, validation, moments.validation.mean.T, noise))
        return parts

    def solve(self, curve: Any, rates: Array) -> tuple[float, Array]:
        """ê_0 and the weights of every fold's losses, a row a fold, for one leakage rate a fold.

        A common rate is solved from the pooled losses, which are less noisy; different ones fold by fold.
        """
        precision = precision_weights(np.sqrt(self.monte_carlo))
        if (rates == rates[0]).all():
            e0, w = weights_of(curve, rates[0] + (1 - rates[0]) * self.injected, self.means, self.size, precision)
            return e0, np.tile(w, (len(self.runs), 1))
        solved = [
            weights_of(curve, rate + (1 - rate) * self.injected, b, run.samples.size, precision)
            for rate, b, run in zip(rates, self.losses, self.runs, strict=True)
        ]
        return float(self.shares @ [e0 for e0, _ in solved]), np.stack([w for _, w in solved])

    def variances(self, weights: Array) -> Variances:
        """Monte-Carlo and data variance of the corrected loss, for the weights of every fold's losses."""
        optimism = weights.copy()
        optimism[:, 0] -= 1
        errors = np.stack([run.samples.standard_errors for run in self.runs])
        monte_carlo = float((self.shares**2) @ (optimism**2 * errors**2).sum(axis=1))
        influence, noise = self.naive_influence.copy(), 0.0
        for share, w, (train, of_train, validation, of_validation, spread) in zip(
            self.shares, weights, self.parts, strict=True
        ):
            influence[train] += share * (of_train @ w)
            influence[validation] += share * (of_validation @ w - of_validation[:, 0])
            noise += share**2 * float(w**2 @ spread)
        raw = between_units(influence)
        # A variance that the correction for Monte-Carlo noise makes vanish is not known to be small.
        told = raw - noise > 0.25 * raw
        return Variances(monte_carlo, raw - noise if told else raw, told)

    def _by_unit(self, codes: Codes, values: Array) -> Array:
        return np.asarray(np.bincount(np.searchsorted(self.units, codes), values, len(self.units)), dtype=float)


@dataclass(frozen=True)
class Variances:
    """Of the corrected loss, by source; ``told`` says whether the fits are enough to tell the data's from 0."""

    monte_carlo: float
    data: float
    told: bool


def weights_of(curve: Any, p: Array, b: Array, n: int, precision: Array | None) -> tuple[float, Array]:
    """e_0 of a curve, and its weights: exact where it is linear, else its derivatives by central differences."""
    fitted = curve.fit_points(p, b, n, precision)
    e0 = float(fitted.e0_)
    if fitted.influence_ is not None:
        return e0, fitted.influence_
    step = 1e-3 * max(float(np.ptp(b)), 1e-6)
    derivatives = np.empty(len(b))
    for i in range(len(b)):
        shifted = []
        for sign in (1, -1):
            moved = b.copy()
            moved[i] = max(moved[i] + sign * step, 0.0)
            shifted.append(curve.fit_points(p, moved, n, precision).e0_)
        derivatives[i] = (shifted[0] - shifted[1]) / (2 * step)
    return e0, derivatives
