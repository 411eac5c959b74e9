r"""All folds as one problem: pooled losses, influences of clusters over all folds, and what an estimate makes of them.

With ω_f the share of the held-out records that fold f scores, the pooled loss at level i is :math:`b_i = \sum_f
ω_f b_{fi}`, and the curve is fitted to it; i runs over the levels of every size of training sets, where there are
several. What is reported is the user's own cross-validated loss plus the
curve's optimism, its rise from the lowest level to no leakage,

.. math:: \text{corrected} = \text{naive} + (\hat e_0 - \hat b(0)) ,

since a resample is not the user's training set but the *difference* it measures carries over. At p0 = 0 it is 0.

*Fragments.* Let a cluster gain G when a piece of it joins training, and g more when a second one does. With rho'
the share of leaked records among those scored (:mod:`outofcluster.leakage.pieces`), an injection at level a lowers the
loss by :math:`a[(1-ρ')G + ρ'g]`, and the naive loss is too low by :math:`ρ_0 G`. So the curve is fitted to
:math:`b_i + a_i ρ' g` at the levels :math:`ρ' + (1-ρ')a_i`, and its optimism, ρ'G, counts ρ0/ρ' times. g comes
from samples of its own, in which a piece of every cluster trains already.

*Influences* add over folds: cluster c trains in some folds and is scored in one. With :math:`\bar T_{ic}` its
pooled influence on b_i through training, :math:`\bar E_{ic}` that through evaluation, and :math:`v_c` that on the
evaluation of naive (its records' deviations from the mean), the influence on the corrected loss is

.. math:: D_c = \sum_i w_i \bar T_{ic} + v_c + \sum_i o_i \bar E_{ic} ,

o the weights of the optimism, w = o plus those of the fitted loss at the lowest level, since training is taken to
move naive as it moves that. Where clusters are the units, :math:`\bar T` leaves out what a cluster of V̂ does when
its records are injected: were the cluster another one, the records of it that leaked into T̂ would be other ones
too, in the same proportion, so that its pull on b(p) is some τ_c(p) with τ_c(0) = 0, of which the injected records
show the share a/p only. Extrapolated, the whole of it vanishes and the visible part does not. Records leak apart
from each other: where they are the units, their training counts. o and w are the method's weights, or its
derivatives where it is not linear.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.validation import Array
from outofcluster.curves.base import Curve
from outofcluster.inference.fold_run import FoldRun, Moments, sizes_of
from outofcluster.inference.linear import between_units
from outofcluster.leakage.pieces import scored_rate

__all__ = ["Optimism", "Pooled", "Variances"]

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Optimism:
    """How much the naive loss is too low, as a combination of losses.

    Attributes
    ----------
    value : float
        The optimism.
    e0 : float
        The curve's own ê_0, of models fitted to resamples.
    weights : array of shape (folds, columns)
        o: its weights, for every level of the full size, then for those of smaller ones.
    training : array of shape (folds, columns)
        w: weights of the influence through training on the corrected loss.
    second : array of shape (folds,)
        Weight of each fold's g.
    exact : bool
        Whether the weights are exact, those of a linear method or derivatives in closed form.
    choice : float
        Variance over the curves that the method averages.
    """

    value: float
    e0: float
    weights: Array
    training: Array
    second: Array
    exact: bool = True
    choice: float = 0.0

    @property
    def multiplier(self) -> float:
        """By how much the noise of the losses is multiplied: Σ|w|, in the worst fold."""
        return float(np.abs(self.training).sum(axis=1).max())


@dataclass(frozen=True)
class Variances:
    """Of the corrected loss, by source; ``told`` says whether the fits are enough to tell the data's from 0."""

    monte_carlo: float
    data: float
    told: bool


@dataclass(frozen=True)
class Pooled:
    """The folds' samples pooled.

    Attributes
    ----------
    runs : tuple of FoldRun
        The folds.
    unit_of : array of int
        The unit (cluster or record) of every row.
    clusters : bool
        Whether units are clusters.
    cut_sizes : array of int, optional
        For fragments, the sizes of the validation clusters.
    """

    runs: tuple[FoldRun, ...]
    unit_of: Codes
    clusters: bool = True
    cut_sizes: Codes | None = None

    @cached_property
    def shares(self) -> Array:
        """ω: each fold's share of the scored records."""
        counts = np.array([len(run.fold.validation) for run in self.runs], dtype=float)
        shares: Array = counts / counts.sum()
        return shares

    @property
    def injected(self) -> Array:
        """The levels of the full size, the same in every fold."""
        return self.runs[0].samples.injected

    @cached_property
    def all_injected(self) -> Array:
        """The level of every column."""
        return np.concatenate([samples.injected for samples in self.runs[0].by_size])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the training sets, the full one first."""
        return sizes_of(self.runs, self.shares)

    def _by_column(self, sizes: tuple[int, ...]) -> Any:
        """One size as it is, several as one for each column."""
        if len(sizes) == 1:
            return sizes[0]
        return np.repeat(sizes, [len(samples.injected) for samples in self.runs[0].by_size])

    @cached_property
    def losses(self) -> Array:
        """Mean losses, a row a fold, a column a level: those of the full size, then those of smaller ones."""
        return np.stack([np.concatenate([samples.means for samples in run.by_size]) for run in self.runs])

    @cached_property
    def errors(self) -> Array:
        """Monte-Carlo standard errors of these."""
        return np.stack([np.concatenate([samples.standard_errors for samples in run.by_size]) for run in self.runs])

    @cached_property
    def means(self) -> Array:
        """Pooled losses b of the full size."""
        pooled: Array = (self.shares @ self.losses)[: len(self.injected)]
        return pooled

    @cached_property
    def monte_carlo(self) -> Array:
        """Monte-Carlo variance of each pooled loss of the full size."""
        return self._pooled_variance[: len(self.injected)]

    @cached_property
    def _pooled_variance(self) -> Array:
        variance: Array = self.shares**2 @ self.errors**2
        return variance

    @cached_property
    def second_gains(self) -> Array:
        """The second piece's gain g in each fold, 0 where it was not sampled."""
        means = [run.second.means if run.second is not None else np.zeros(2) for run in self.runs]
        return np.array([mean[0] - mean[1] for mean in means])

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
    def n_scored(self) -> int:
        """Number of units with scored records."""
        return len(np.unique(self.unit_of[np.concatenate([run.fold.validation for run in self.runs])]))

    @cached_property
    def naive_influence(self) -> Array:
        """v: what each unit's records add to the evaluation of naive."""
        rows = np.concatenate([run.fold.validation for run in self.runs])
        deviations = np.concatenate([run.records for run in self.runs]) - self.naive
        codes = np.searchsorted(self.units, self.unit_of[rows])
        return np.asarray(np.bincount(codes, deviations / len(rows), len(self.units)), dtype=float)

    def levels(self, rate: float) -> tuple[float, Array]:
        """The share of leaked records among those scored without injection, and in every column."""
        inner = rate if self.cut_sizes is None else max(scored_rate(self.cut_sizes, rate), 1e-3 * rate)
        return inner, inner + (1 - inner) * self.all_injected

    def fit(self, curve: Curve, rate: float) -> Curve:
        """A curve of the same parameters, fitted to the pooled losses."""
        inner, p = self.levels(rate)
        b = self.shares @ self.losses + self.all_injected * inner * float(self.shares @ self.second_gains)
        return _fresh(curve).fit_points(
            p, b, self._by_column(self.sizes), standard_errors=np.sqrt(self._pooled_variance)
        )

    def solve(self, curve: Curve, rates: Array, *, losses: Array | None = None, derive: bool = True) -> Optimism:
        """The optimism for one leakage rate a fold, by default of the losses as they are.

        A common rate is solved from the pooled losses, which are less noisy; different ones fold by fold. Without
        ``derive`` the weights of a method that is not linear are left at 0.
        """
        b = self.losses if losses is None else losses
        if (rates == rates[0]).all():
            gain = float(self.shares @ self.second_gains)
            n, errors = self._by_column(self.sizes), np.sqrt(self._pooled_variance)
            one = self._solve(curve, rates[0], self.shares @ b, gain, n, errors=errors, derive=derive)
            solved = [one] * len(self.runs)
        else:
            sizes = [self._by_column(sizes_of((run,), np.ones(1))) for run in self.runs]
            folds = zip(rates, b, self.second_gains, sizes, self.errors, strict=True)
            solved = [
                self._solve(curve, rate, own, gain, n, errors=errors, derive=derive)
                for rate, own, gain, n, errors in folds
            ]
        return Optimism(
            float(self.shares @ [part.value for part in solved]),
            float(self.shares @ [part.e0 for part in solved]),
            np.concatenate([part.weights for part in solved]),
            np.concatenate([part.training for part in solved]),
            np.concatenate([part.second for part in solved]),
            all(part.exact for part in solved),
            float(self.shares @ [math.sqrt(part.choice) for part in solved]) ** 2,
        )

    def _solve(self, curve: Curve, rate: float, b: Array, gain: float, n: Any, **options: Any) -> Optimism:
        """The optimism of one set of losses, with weights for one fold."""
        inner, p = self.levels(rate)
        scale = rate / inner if inner > 0 else 1.0
        fall = _fall(curve, p, b + self.all_injected * inner * gain, n, **options)
        o = fall.weights
        second = np.array([scale * inner * float(o @ self.all_injected)])
        training = (fall.of_e0 + (scale - 1) * o)[None]
        choice = scale**2 * fall.choice
        return Optimism(scale * fall.value, fall.e0, scale * o[None], training, second, fall.exact, choice)

    def rate_effect(self, curve: Curve, rates: Array, stds: Array) -> float:
        """How far the optimism moves when the folds' rates, together, move by one standard error."""
        if not stds.any():
            return 0.0
        step = 1e-4 / float(stds.max())
        down = 0.0 if (rates < step * stds).any() else step
        up, low = (self.solve(curve, rates + by * stds, derive=False).value for by in (step, -down))
        return (up - low) / (step + down)

    def naive_only(self) -> Optimism:
        """No correction: for the variance of the naive loss, which training moves as it moves the lowest level."""
        training = np.zeros_like(self.losses)
        training[:, 0] = 1
        return Optimism(0.0, self.naive, np.zeros_like(self.losses), training, np.zeros(len(self.runs)))

    def variances(self, optimism: Optimism) -> Variances:
        """Monte-Carlo and data variance of the naive loss plus an optimism."""
        raw, noise = self.spread(optimism)
        # A variance that the correction for Monte-Carlo noise makes vanish is not known to be small: from where a
        # quarter is left the correction is taken back, gradually, since the rate may move across that point.
        left = max(1 - noise / raw, 0.0) if raw > 0 else 1.0
        told = not left <= 0.25
        return Variances(self.monte_carlo_of(optimism), raw * (left if told else 1 - 3 * left), told)

    def spread(self, optimism: Optimism) -> tuple[float, float]:
        """Variance between units of the naive loss plus an optimism, and how much of it is Monte-Carlo noise."""
        return between_units(self.influence(optimism)), float(self.influence_noise(optimism).sum())

    def loss_influences(self) -> Array:
        """T̄ + Ē: the influence of every unit (first axis) on every fold's losses at every level."""
        moved = np.zeros((len(self.units), *self.losses.shape))
        for fold, (train, of_train, validation, of_validation, _) in enumerate(self._moments):
            moved[train, fold] += of_train.mean
            moved[validation, fold] += of_validation.mean
        return moved

    def monte_carlo_of(self, optimism: Optimism) -> float:
        """Variance of the optimism from finitely many fits."""
        variance = (optimism.weights**2 * self.errors**2).sum(axis=1)
        seconds = [0.0 if run.second is None else float((run.second.standard_errors**2).sum()) for run in self.runs]
        return float(self.shares**2 @ (variance + optimism.second**2 * np.array(seconds)))

    def influence(self, optimism: Optimism) -> Array:
        """D: the influence of every unit on the naive loss plus an optimism."""
        influence = self.naive_influence.copy()
        for share, o, w, second, (train, of_train, validation, of_validation, of_second) in zip(
            self.shares, optimism.weights, optimism.training, optimism.second, self._moments, strict=True
        ):
            influence[train] += share * (of_train.mean @ w)
            influence[validation] += share * (of_validation.mean @ o)
            if of_second is not None:
                influence[validation] += share * second * (of_second.mean @ np.array([1.0, -1.0]))
        return influence

    def influence_noise(self, optimism: Optimism) -> Array:
        """What Monte-Carlo noise adds to the sum of D's squares: a row a fold, a column a level, then the second's."""
        noise = np.zeros((len(self.runs), len(self.all_injected) + 1))
        for fold, (_, of_train, _, of_validation, of_second) in enumerate(self._moments):
            noise[fold, :-1] = (
                of_train.noise * optimism.training[fold] ** 2 + of_validation.noise * optimism.weights[fold] ** 2
            )
            if of_second is not None:
                noise[fold, -1] = optimism.second[fold] ** 2 * of_second.noise.sum()
        scaled: Array = self.shares[:, None] ** 2 * noise
        return scaled

    @cached_property
    def _moments(self) -> list[tuple[Codes, Moments, Codes, Moments, Moments | None]]:
        """For each fold: units of T̂ and their influence through training, those of V̂ and theirs."""
        found = []
        for run in self.runs:
            train, validation = (
                np.searchsorted(self.units, np.unique(self.unit_of[rows]))
                for rows in (run.fold.train, run.fold.validation)
            )
            of_train, of_validation, second = run.moments(clusters=self.clusters)
            found.append((train, of_train, validation, of_validation, second))
        return found


@dataclass(frozen=True)
class _Fall:
    """A curve's fall from no leakage to the lowest level, e_0, the weights of both, and whether they are exact."""

    value: float
    e0: float
    weights: Array
    of_e0: Array
    exact: bool
    choice: float


def _fall(curve: Curve, p: Array, b: Array, n: Any, *, errors: Array, derive: bool) -> _Fall:
    """Fit the curve; weights are exact where there is a closed form, else central differences."""
    fitted = _fresh(curve).fit_points(p, b, n, standard_errors=errors)
    value, e0 = float(fitted.optimism_), float(fitted.e0_)
    weights, of_e0 = fitted.optimism_derivative_, fitted.derivative_
    if weights is not None and of_e0 is not None:
        return _Fall(value, e0, weights, of_e0, True, fitted.choice_variance_)
    derivatives = np.zeros((2, len(b)))
    step = 1e-3 * max(float(np.ptp(b)), 1e-6)
    for i in range(len(b) if derive else 0):
        shifted = []
        for sign in (1, -1):
            moved = b.copy()
            moved[i] = max(moved[i] + sign * step, 0.0)
            again = _fresh(curve).fit_points(p, moved, n, standard_errors=errors)
            shifted.append((again.optimism_, again.e0_))
        derivatives[:, i] = (np.array(shifted[0]) - shifted[1]) / (2 * step)
    return _Fall(value, e0, derivatives[0], derivatives[1], False, fitted.choice_variance_)


def _fresh(curve: Curve) -> Curve:
    """An unfitted curve of the same parameters."""
    unfitted: Curve = replace(curve)  # type: ignore[type-var]
    return unfitted
