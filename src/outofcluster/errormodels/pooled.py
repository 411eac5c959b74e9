r"""All folds as one problem: pooled losses, and the correction that a curve derives from them.

With ω_f the share of the held-out records that fold f scores (or 1/K of K folds, for metrics that are means over folds,
such as AUC), the pooled loss at level i is :math:`b_i = \sum_f ω_f b_{fi}`, and the curve is fitted to it; i runs over
the levels of every size of training sets, where there are several and the curve learns from them. What is reported is
the user's own cross-validated loss plus the curve's optimism, its rise from the lowest level to no leakage,

.. math:: \text{corrected} = \text{naive} + (\hat e_0 - \hat b(0)) ,

since a resample is not the user's training set, but the *difference* that it measures holds for that as well. At p0 = 0
it is 0.

*Which clusters are scored.* With :math:`v_c` the influence of cluster c on the evaluation of naive (its records'
deviations from the mean), and :math:`\bar E_{ic}` that on b_i, pooled over folds, the influence on the corrected loss
is

.. math:: D_c = v_c + \sum_i o_i \bar E_{ic} ,

o the weights of the optimism: those of the curve method, or its derivatives where it is not linear.

*The optimism is that of this cross-validation*, so that scored clusters are no source of its error. What is, besides
the curve, the rate and the fits: **which records leaked**. The optimism at a rate p0 is that of some records that
happened to leak, and others would have raised the loss by more or by less. Replicates show by how much: replicate b
puts other records of V̂ in the place of other records of T̂, and with :math:`d_b = t_b(a) - t_b(0)`, from the same
draws,

.. math:: \operatorname{Var}_{leaked} = \sum_f ω_f^2\; \frac{p_0}{1-p_0}\;
          \operatorname{mean}_{i,f} \frac{\operatorname{var}_b d_{bfi}}{a_i} ,

since independent replacements add up, and a stands for p0 where a = p0/(1-p0). The mean is over the levels up to twice
that one, or the lowest one above 0. It has in it what a model changes when some records are exchanged (*refitting*).

*Noise of the losses.* A replicate has its own T̂ at all levels, which moves all of its losses together and cancels in a
curve's fall. What is left decides how much a curve believes each loss: with m levels, the variance of
:math:`t_{bi} - \bar t_b` times m/(m-1), averaged over folds and drawn towards the mean over levels as if by ten further
replicates, since each fold has few.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster.curves.base import Curve
from outofcluster.curves.unmixing import Unmixed
from outofcluster.inference.functional import Block, Columns, Functional, Influences, Pool, Weights
from outofcluster.inference.intervals import Uncertainty
from outofcluster.sampling.audit_samples import MAIN, AuditSamples, FoldSamples
from outofcluster.sampling.samples import LossSamples

# The role of the user's own model, over all held-out records.
OWN = "own"
# What training clusters add to the variance between clusters, as a share of that of the evaluation. Data sets drawn
# anew with linear models and 20 to 60 clusters of records on each side needed 0.0 to 0.5.
_TRAINING_SHARE = 0.2
# Share of the Monte-Carlo variance below which a role, and of the largest weight below which a level needs no further
# fits.
_LITTLE_NOISE = 0.1
# Replicates as many as which the mean noise over levels counts.
_PRIOR_REPLICATES = 10


@dataclass(frozen=True)
class Fall:
    """How far a fitted curve falls from no leakage to the lowest level.

    Attributes
    ----------
    value : float
        The fall.
    e0 : float
        The curve's ê_0.
    weights : array of shape (columns,)
        Weights of the losses in the fall.
    exact : bool
        Whether the weights are exact, those of a linear method or derivatives in closed form.
    choice : float
        Variance over the curves that the method averages.
    """

    value: float
    e0: float
    weights: Array
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
        value, e0, weights = float(fitted.optimism_), float(fitted.e0_), fitted.optimism_derivative_
        if weights is not None:
            return Fall(value, e0, weights, True, fitted.choice_variance_)
        derivatives = np.zeros(len(b))
        step = 1e-3 * max(float(np.ptp(b)), 1e-6)
        for i in range(len(b) if derive else 0):
            ends = []
            for sign in (1, -1):
                moved = b.copy()
                moved[i] = max(moved[i] + sign * step, lowest)
                ends.append(self.fit(curve, moved).optimism_)
            derivatives[i] = (ends[0] - ends[1]) / (2 * step)
        return Fall(value, e0, derivatives, False, fitted.choice_variance_)


@dataclass(frozen=True, eq=False)
class Optimism:
    """How much the naive loss is too low, as a combination of losses.

    Attributes
    ----------
    by_curve : Functional
        The part that a curve gives.
    e0 : float
        The curve's own ê_0, of models fitted to resamples.
    shares : array of shape (folds,)
        ω: the share of each fold.
    aside : Functional
        What does not come from the curve: losses without likely pieces, or held-out records of the other side.
    facts : mapping
        What else there is to tell about the estimate, by name; the error model says what.
    """

    by_curve: Functional
    e0: float
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
        """By how much the noise of the losses is multiplied: that of the naive one, and Σ|o|, in the worst fold."""
        by_fold = sum(np.abs(weights).sum(axis=1) for weights in self.by_curve.weights.values()) / self.shares
        return 1 + float(np.max(by_fold))

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
        """The units that are scored."""
        return np.unique(np.concatenate([fold.main.effects[self.unit_kind].units for fold in self.folds]))

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
        blocks = {role: self.evaluated(role) for role in self.size_roles}
        own = Pool(np.arange(len(self.units)), self._naive_influence[:, None])
        return blocks | {OWN: (Block(np.array([self.naive]), np.zeros(1), own),)}

    def evaluated(self, role: str) -> tuple[Block, ...]:
        """The columns of a role; empty ones in folds without it."""
        noise = contrast_noise([fold.runs[role].losses for fold in self.folds if role in fold.runs])

        def block(fold: FoldSamples) -> Block:
            run = fold.runs.get(role)
            if run is None:
                return Block.empty(len(noise))
            keys = tuple((run.size, float(level)) for level in run.injected)
            return Block(run.means, noise / np.sqrt(run.counts), self.pool(fold, run), run.losses, keys=keys)

        return tuple(map(block, self.folds))

    def pool(self, fold: FoldSamples, run: LossSamples) -> Pool:
        """Influences of the units that a fold scores."""
        units = np.searchsorted(self.units, fold.main.effects[self.unit_kind].units)
        return Pool(units, run.influences(self.unit_kind).T)

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

    def naive_functional(self) -> Functional:
        """The naive loss."""
        return Functional(self.naive, {OWN: np.ones((1, 1))})

    def corrected(self, optimism: Optimism) -> Functional:
        """The naive loss plus its optimism."""
        return self.naive_functional() + optimism.estimate

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

    @property
    def measured(self) -> Optimism | None:
        """The optimism that needs no rate; None where there is none."""
        return None

    def solve(
        self,
        curve: Curve,
        rates: Array,
        *,
        stds: Array | None = None,
        losses: Weights | None = None,
        derive: bool = True,
    ) -> Optimism:
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
        of_curve = float(self.shares @ (scale * np.sqrt([fall.choice for fall in falls]))) ** 2
        by_curve = Functional(
            float(self.shares @ (scale * [fall.value for fall in falls])),
            self.split(self.shares[:, None] * (scale[:, None] * o)),
            of_curve + self.chance(rates),
            all(fall.exact for fall in falls),
        )
        return Optimism(by_curve, float(self.shares @ [fall.e0 for fall in falls]), self.shares)

    def chance(self, rates: Array) -> float:
        """The variance of the optimism over which records leaked."""
        injected = self.injected
        above = np.flatnonzero(injected > 0)
        if not rates.any() or injected[0] != 0 or not len(above):
            return 0.0
        odds = float(self.shares @ (rates / (1 - rates)))
        near = above[injected[above] <= max(2 * odds, float(injected[above[0]]))]
        per_share = [
            np.mean([np.var(paired[i] - paired[0], ddof=1) / injected[i] for i in near])
            for paired in (block.paired for block in self.columns.blocks[MAIN])
            if paired.shape[1] > 1
        ]
        return float((self.shares**2).sum() * odds * np.mean(per_share)) if per_share else 0.0

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

    def noisy_levels(self, estimate: Functional) -> dict[str, Array]:
        """The injected fractions of the columns whose fits make up most of that variance, by role.

        More fits of the others would not help.
        """
        by_role = Influences(self.columns).monte_carlo_of_roles(estimate)
        total, noisy = sum(by_role.values()), dict[str, Array]()
        for role, part in by_role.items():
            injected, counts = self.injected_of(role), np.abs(estimate.weights[role]).max(axis=0)
            if len(injected) == len(counts) and counts.any() and not part < _LITTLE_NOISE * total:
                noisy[role] = injected[counts > _LITTLE_NOISE * counts.max()]
        return noisy

    def injected_of(self, role: str) -> Array:
        """The injected fraction of every column of a role; none where its columns are no runs."""
        run = self.folds[0].runs.get(role)
        return np.zeros(0) if run is None else run.injected

    def bounds(self, rate: float, naive_error: float) -> tuple[float, float] | None:
        """A range for the corrected loss that needs no curve; None where nothing can be said."""
        return None

    def lasting(self, solved: Optimism, rates: Array) -> float:
        """The variance of an optimism that more clusters would leave as it is: of the choice of a curve."""
        return max(solved.estimate.choice - self.chance(rates), 0.0)

    @property
    def sides_alike(self) -> bool:
        """Whether held-out and training records look alike, so that they do not show how much leaks."""
        return False

    def optimism_uncertainty(self, solved: Optimism, rate_effect: float) -> Uncertainty:
        """The error of the optimism of this cross-validation: no other clusters could have been drawn."""
        nothing = np.zeros(0)
        return Uncertainty(nothing, self.monte_carlo_of(solved.estimate), solved.estimate.choice, rate_effect)

    @property
    def training_share(self) -> float:
        """φ: what training clusters add to the variance between clusters."""
        return _TRAINING_SHARE if self.unit_kind == "clusters" else 0.0


def contrast_noise(losses: Sequence[tuple[Array, ...]]) -> Array:
    """Standard deviation of a replicate at every level, without what moves all levels together, from several folds."""
    squares, freedom = np.zeros(len(losses[0])), 0
    for levels in losses:
        count = min(map(len, levels))
        paired = np.array([level[:count] for level in levels])
        m = len(paired)
        apart = paired - paired.mean(axis=0) if m > 1 else paired
        moved = apart - apart.mean(axis=1, keepdims=True)
        squares, freedom = squares + (moved**2).sum(axis=1) * (m / max(m - 1, 1)), freedom + count - 1
    if freedom == 0:
        return np.full(len(squares), np.nan)
    # A level whose noise was seen few times is drawn towards the mean over levels.
    common = squares.mean() / freedom
    return np.asarray(np.sqrt((squares + _PRIOR_REPLICATES * common) / (freedom + _PRIOR_REPLICATES)))
