r"""All folds as one problem: pooled losses, and the correction that a curve derives from them.

With ω_f the share of the held-out records that fold f scores (or 1/K of K folds, for metrics that are means over folds,
such as AUC), the pooled loss at level i is :math:`b_i = \sum_f ω_f b_{fi}`, and the curve is fitted to it; i runs over
the levels of every size of training sets, where there are several and the curve learns from them. What is reported is
the user's own cross-validated loss plus the curve's optimism, its rise from the lowest level to no leakage,

.. math:: \text{corrected} = \text{naive} + (\hat e_0 - \hat b(0)) ,

since a resample is not the user's training set, but the *difference* that it measures holds for that as well. At p0 = 0
it is 0.

*Influences* add over folds: cluster c trains in some folds and is scored in one. With :math:`\bar T_{ic}` its
pooled influence on b_i through training, :math:`\bar E_{ic}` that through evaluation, and :math:`v_c` that on the
evaluation of naive (its records' deviations from the mean), the influence on the corrected loss is

.. math:: D_c = \sum_i w_i \bar T_{ic} + v_c + \sum_i o_i \bar E_{ic} ,

o the weights of the optimism, w = o plus those of the fitted loss at the lowest level, since training is taken to
move naive as it moves that. Where clusters are the units, :math:`\bar T` leaves out what a cluster of V̂ does when
its records are injected: were the cluster another one, the records of it that leaked into T̂ would be other ones
too, in the same proportion. So its influence on b(p) is some τ_c(p) with τ_c(0) = 0, of which the injected records
show only the share a/p. Extrapolated to p = 0 all of it vanishes, while the visible part would not. Records leak
independently of each other: where they are the units, their training counts. o and w are the weights of the curve
method, or its derivatives where it is not linear.

*Means over folds.* There v_c sums :math:`(ℓ - \text{naive})/(K n_f)` over the unit's records of fold f. Deviations from
the fold's own loss would sum to 0 in each of K folds, which costs K degrees of freedom; those from naive cost one.

*Leakage both ways*: :mod:`outofcluster.errormodels.two_way` has the formulas. The losses that a curve is fitted to
are then made of those of both sides, and what records that are held out by mistake do to the naive loss is part of the
optimism.

*The curve.* Its fall from no leakage to the lowest level is the optimism. The weights are derivatives with respect to
every loss, those of the method itself where it has them in closed form. Else they are central differences
:math:`(f(b_i + h) - f(b_i - h))/2h`, with a thousandth of the range of the losses for h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed
from outofcluster.inference.columns import Block, Columns, Pool
from outofcluster.inference.functional import Functional, Influences, Weights, added
from outofcluster.sampling.audit_samples import MAIN, AuditSamples, FoldSamples
from outofcluster.sampling.samples import LossSamples, PoolJackknife

# The role of the user's own model, over all held-out records.
OWN = "own"


@dataclass(frozen=True)
class Fall:
    """How far a fitted curve falls from no leakage to the lowest level.

    Attributes
    ----------
    value : float
        The fall.
    e0 : float
        The curve's ê_0.
    weights, of_e0 : array of shape (columns,)
        Weights of the losses in the fall, and in ê_0.
    exact : bool
        Whether the weights are exact, those of a linear method or derivatives in closed form.
    choice : float
        Variance over the curves that the method averages.
    """

    value: float
    e0: float
    weights: Array
    of_e0: Array
    exact: bool
    choice: float


@dataclass(frozen=True)
class CurvePoints:
    """What a curve is fitted to.

    Attributes
    ----------
    p, b : array of shape (columns,)
        Levels, and the losses there.
    n : int or array of int
        One size of training sets, or that of every column.
    errors : array of shape (columns,)
        Monte-Carlo standard errors of the losses.
    unmixed : Unmixed or None
        Losses below the leakage rate, for a curve that uses them.
    """

    p: Array
    b: Array
    n: Any
    errors: Array
    unmixed: Unmixed | None

    def fit(self, curve: Curve, b: Array | None = None) -> Curve:
        """A curve of the same parameters, fitted to the losses as they are, or to others at the same levels."""
        below: dict[str, Any] = {} if self.unmixed is None else {"unmixed": self.unmixed}
        losses = self.b if b is None else b
        return curve.unfitted().fit_points(self.p, losses, self.n, standard_errors=self.errors, **below)

    def fall(self, curve: Curve, *, lowest: float, derive: bool) -> Fall:
        """The fall of the fitted curve; weights are exact where there is a closed form, else central differences."""
        fitted, b = self.fit(curve), self.b
        value, e0 = float(fitted.optimism_), float(fitted.e0_)
        weights, of_e0 = fitted.optimism_derivative_, fitted.derivative_
        if weights is not None and of_e0 is not None:
            return Fall(value, e0, weights, of_e0, True, fitted.choice_variance_)
        derivatives = np.zeros((2, len(b)))
        step = 1e-3 * max(float(np.ptp(b)), 1e-6)
        for i in range(len(b) if derive else 0):
            shifted = []
            for sign in (1, -1):
                moved = b.copy()
                moved[i] = max(moved[i] + sign * step, lowest)
                again = self.fit(curve, moved)
                shifted.append((again.optimism_, again.e0_))
            derivatives[:, i] = (np.array(shifted[0]) - shifted[1]) / (2 * step)
        return Fall(value, e0, derivatives[0], derivatives[1], False, fitted.choice_variance_)


@dataclass(frozen=True, eq=False)
class Optimism:
    """How much the naive loss is too low, as a combination of losses.

    Attributes
    ----------
    by_curve : Functional
        The part that a curve gives.
    e0 : float
        The curve's own ê_0, of models fitted to resamples.
    lowest : mapping from str to array of shape (folds, columns)
        How what trains moves the fitted loss at the lowest level: training is taken to move the naive loss like that.
    shares : array of shape (folds,)
        ω: the share of each fold.
    aside : Functional
        What does not come from the curve: losses without likely pieces, or held-out records of the other side.
    facts : mapping
        What else there is to tell about the estimate, by name; the error model says what.
    """

    by_curve: Functional
    e0: float
    lowest: Weights
    shares: Array
    aside: Functional = field(default_factory=lambda: Functional(0.0))
    facts: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def estimate(self) -> Functional:
        """The optimism itself."""
        return self.by_curve + self.aside

    @property
    def value(self) -> float:
        """The optimism."""
        return self.estimate.value

    @property
    def multiplier(self) -> float:
        """By how much the noise of the losses is multiplied: Σ|w|, in the worst fold."""
        training = added(self.lowest, self.by_curve.training)
        by_fold = sum(np.abs(weights).sum(axis=1) for weights in training.values()) / self.shares
        return float(np.max(by_fold))

    @property
    def exact(self) -> bool:
        """Whether intervals need no resampling."""
        return self.by_curve.exact


@dataclass(frozen=True, eq=False)
class Pooled:
    """The samples of all folds, pooled, for one kind of units.

    Attributes
    ----------
    samples : AuditSamples
        The losses.
    unit_kind : {"clusters", "records"}
        What counts as one independent unit.
    reverse : float
        r0: the share of the held-out records that truly belong to training clusters.
    """

    samples: AuditSamples
    unit_kind: str
    reverse: float = 0.0

    @property
    def folds(self) -> tuple[FoldSamples, ...]:
        """The folds."""
        return self.samples.folds

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    @cached_property
    def shares(self) -> Array:
        """ω: the share of the scored records that each fold has, or the same for all where folds are pooled as such."""
        if self.samples.metric.pool == "folds":
            return np.full(self.n_folds, 1 / self.n_folds)
        counts = np.array([fold.n_validation for fold in self.folds], dtype=float)
        return np.asarray(counts / counts.sum())

    # --- units ----------------------------------------------------------------------------------------

    @cached_property
    def units(self) -> Codes:
        """The units that occur."""
        sums = [fold.main.sums[self.unit_kind] for fold in self.folds]
        return np.unique(np.concatenate([units for own in sums for units in (own.train_units, own.validation_units)]))

    @cached_property
    def scored_units(self) -> list[Codes]:
        """The position of the unit of every held-out record, fold by fold."""
        return [np.searchsorted(self.units, fold.scored_units(self.unit_kind)) for fold in self.folds]

    @cached_property
    def n_scored(self) -> int:
        """Number of units with scored records."""
        return len(np.unique(np.concatenate(self.scored_units)))

    # --- columns --------------------------------------------------------------------------------------

    @cached_property
    def size_roles(self) -> tuple[str, ...]:
        """The roles of all sizes of training sets, the full one first."""
        return self.folds[0].size_roles

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that a curve may be fitted to."""
        return self.size_roles

    @property
    def injected(self) -> Array:
        """The levels of the full size, the same in every fold."""
        return self.folds[0].main.injected

    @cached_property
    def all_injected(self) -> Array:
        """The level of every column of all sizes."""
        return np.concatenate([self.folds[0].runs[role].injected for role in self.size_roles])

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the training sets, the full one first, averaged over folds where they differ."""
        return self._sizes(slice(None), self.shares)

    @cached_property
    def columns(self) -> Columns:
        """All columns with the influences of the units."""
        return Columns(self._blocks(), len(self.units))

    def _blocks(self) -> dict[str, tuple[Block, ...]]:
        blocks = {role: tuple(self._of_size(fold, role) for fold in self.folds) for role in self.size_roles}
        own = Pool(np.arange(len(self.units)), self._naive_influence[:, None], np.zeros(1))
        return blocks | {OWN: (Block(np.array([self.naive]), np.zeros(1), held_out=own),)}

    def _of_size(self, fold: FoldSamples, role: str) -> Block:
        """The columns of one size: a cluster of V̂ counts by evaluation only, a record by all that it does."""
        run = fold.runs[role]
        jackknife = run.jackknife(self.unit_kind)
        scored = jackknife.evaluation if self.unit_kind == "clusters" else jackknife.validation
        return Block(
            run.means,
            run.standard_errors,
            self.pool(fold.main, "train", run, jackknife.train),
            self.pool(fold.main, "validation", run, scored),
            run.losses,
            tuple((run.size, float(level)) for level in run.injected),
        )

    def pool(self, main: LossSamples, side: str, run: LossSamples, jackknife: PoolJackknife) -> Pool:
        """Influences of the units of one side of a fold."""
        units = getattr(main.sums[self.unit_kind], f"{side}_units")
        positions = np.searchsorted(self.units, units)
        return Pool(positions, jackknife.mean.T, jackknife.variance.sum(axis=1) / run.counts)

    def evaluated(self, role: str) -> tuple[Block, ...]:
        """The columns of a role through evaluation alone; empty ones in folds without it."""

        def block(fold: FoldSamples) -> Block:
            run = fold.runs.get(role)
            if run is None:
                return Block.empty(2)
            pool = self.pool(fold.main, "validation", run, run.jackknife(self.unit_kind).evaluation)
            return Block(run.means, run.standard_errors, held_out=pool)

        return tuple(map(block, self.folds))

    @cached_property
    def losses(self) -> Array:
        """Mean losses, one row per fold and one column per level, those of the full size first."""
        return self._joined(self.columns.means)

    @cached_property
    def errors(self) -> Array:
        """Monte-Carlo standard errors of these."""
        return self._joined(self.columns.errors)

    def _joined(self, of_role: Callable[[str], Array]) -> Array:
        return np.concatenate([of_role(role) for role in self.roles], axis=1)

    @cached_property
    def means(self) -> Array:
        """Pooled losses b of the full size."""
        return np.asarray(self.shares @ self.columns.means(MAIN))

    @cached_property
    def monte_carlo(self) -> Array:
        """Monte-Carlo variance of each pooled loss of the full size."""
        return np.asarray(self.shares**2 @ self.columns.errors(MAIN) ** 2)

    # --- the naive loss -------------------------------------------------------------------------------

    @cached_property
    def naive(self) -> float:
        """Mean of the user's own losses over all held-out records, or over folds."""
        if self.samples.metric.pool == "folds":
            return float(np.mean([fold.own_losses.mean() for fold in self.folds]))
        return float(np.concatenate([fold.losses_by("clusters", "pooled") for fold in self.folds]).mean())

    @cached_property
    def _naive_influence(self) -> Array:
        """v: what the records of each unit add to the evaluation of naive."""
        if self.samples.metric.pool == "folds":
            losses = [fold.losses_by(self.unit_kind) for fold in self.folds]
            moved = np.concatenate([(own - self.naive) / (self.n_folds * len(own)) for own in losses])
        else:
            pooled = np.concatenate([fold.losses_by(self.unit_kind, "pooled") for fold in self.folds])
            moved = (pooled - self.naive) / len(pooled)
        return np.asarray(np.bincount(np.concatenate(self.scored_units), moved, len(self.units)), dtype=float)

    def naive_functional(self, training: Weights | None = None) -> Functional:
        """The naive loss, which training moves as it moves the lowest level, or as these weights say."""
        if training is None:
            lowest = np.zeros_like(self.columns.means(MAIN))
            lowest[:, 0] = self.shares
            training = {MAIN: lowest}
        return Functional(self.naive, {OWN: np.ones((1, 1))}, training)

    def corrected(self, optimism: Optimism) -> Functional:
        """The naive loss plus its optimism."""
        return self.naive_functional(optimism.lowest) + optimism.estimate

    # --- the curve ------------------------------------------------------------------------------------

    def scored_rate(self, rate: float) -> float:
        """The share of leaked records among those that are scored without injection."""
        return rate

    def levels(self, rate: float) -> Array:
        """The share of leaked records in every column of all sizes."""
        leaked = self.scored_rate(rate)
        return np.asarray(leaked + (1 - leaked - self.reverse) * self.all_injected)

    def fit(self, curve: Curve, rate: float) -> Curve:
        """A curve of the same parameters, fitted to the pooled losses."""
        return self._points(curve, rate, self.losses, slice(None), self.shares).fit(curve)

    def solve(self, curve: Curve, rates: Array, *, losses: Weights | None = None, derive: bool = True) -> Optimism:
        """The optimism for the leakage rate of each fold, by default of the losses as they are.

        There is one curve where all folds have the same rate, else one per fold.
        """
        b = self.losses if losses is None else self._joined(losses.__getitem__)
        lowest = 0.0 if curve.needs.nonnegative else self.samples.loss_range[0]
        if (rates == rates[0]).all():
            together = self._points(curve, rates[0], b, slice(None), self.shares)
            falls = [together.fall(curve, lowest=lowest, derive=derive)] * self.n_folds
        else:
            points = [self._points(curve, rate, b, slice(i, i + 1), np.ones(1)) for i, rate in enumerate(rates)]
            falls = [each.fall(curve, lowest=lowest, derive=derive) for each in points]
        leaked = np.array([self.scored_rate(rate) for rate in rates])
        scale = np.divide(rates, leaked, out=np.ones(len(rates)), where=leaked > 0)
        # Columns that the curve is not fitted to have no weight.
        unused = (0, 0), (0, self.losses.shape[1] - len(falls[0].weights))
        o = np.pad([fall.weights for fall in falls], unused)
        of_e0 = np.pad([fall.of_e0 for fall in falls], unused)
        weights = self.split(self.shares[:, None] * (scale[:, None] * o))
        by_curve = Functional(
            float(self.shares @ (scale * [fall.value for fall in falls])),
            weights,
            weights,
            float(self.shares @ (scale * np.sqrt([fall.choice for fall in falls]))) ** 2,
            all(fall.exact for fall in falls),
        )
        e0 = float(self.shares @ [fall.e0 for fall in falls])
        return Optimism(by_curve, e0, self.split(self.shares[:, None] * (of_e0 - o)), self.shares)

    def _points(self, curve: Curve, rate: float, b: Array, folds: slice, weights: Array) -> CurvePoints:
        """What the curve is fitted to: the losses of some folds, averaged by weights that sum to 1."""
        columns = len(self.all_injected) if curve.needs.sizes else len(self.injected)
        sizes: Any = self._sizes(folds, weights)
        if len(sizes) == 1 or not curve.needs.sizes:
            sizes = sizes[0]
        else:
            sizes = np.repeat(sizes, [len(self.folds[0].runs[role].injected) for role in self.size_roles])
        noise = np.sqrt(weights**2 @ self.errors[folds] ** 2)
        mean, errors = self.adjusted(weights @ b[folds], noise, rate, folds, weights)
        below = self.below(mean, errors, rate, folds, weights) if curve.needs.unmixed else None
        return CurvePoints(self.levels(rate)[:columns], mean[:columns], sizes, errors[:columns], below)

    def _sizes(self, folds: slice, weights: Array) -> tuple[int, ...]:
        by_fold = np.array([[fold.runs[role].size for role in self.size_roles] for fold in self.folds[folds]])
        return tuple(round(float(np.average(sizes, weights=weights))) for sizes in by_fold.T)

    def adjusted(self, b: Array, errors: Array, rate: float, folds: slice, weights: Array) -> tuple[Array, Array]:
        """The losses that a curve is fitted to, and their errors, out of those that were sampled."""
        return b, errors

    def below(self, b: Array, errors: Array, rate: float, folds: slice, weights: Array) -> Unmixed | None:
        """Losses below the leakage rate, where there are any."""
        return None

    def split(self, weights: Array) -> dict[str, Array]:
        """Weights for all columns of a curve, one row per fold, by role."""
        ends = np.cumsum([self.columns.means(role).shape[1] for role in self.roles])[:-1]
        return dict(zip(self.roles, np.split(weights, ends, axis=1), strict=True))

    def rate_effect(self, curve: Curve, rates: Array, stds: Array) -> float:
        """How far the optimism moves when the rates of all folds, together, move by one standard error."""
        if not stds.any():
            return 0.0
        step = 1e-4 / float(stds.max())
        down = 0.0 if (rates < step * stds).any() else step
        up, low = (self.solve(curve, rates + by * stds, derive=False).value for by in (step, -down))
        return (up - low) / (step + down)

    def monte_carlo_of(self, estimate: Functional) -> float:
        """Variance of an estimate from finitely many fits."""
        return Influences(self.columns).monte_carlo(estimate)

    def bounds(self, rate: float, naive_error: float) -> tuple[float, float] | None:
        """A range for the corrected loss that needs no curve; None where nothing can be said."""
        return None

    @property
    def training_share(self) -> float:
        """What training clusters add to the variance between clusters; nothing where records are the units."""
        return self.samples.training_share if self.unit_kind == "clusters" else 0.0
