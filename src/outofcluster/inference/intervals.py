r"""One path to an interval: linear, resampled and paired.

An estimate is the naive loss plus an optimism, :math:`\sum_f ω_f \sum_i o_{fi} b_{fi}` with t replicates of variance
σ² behind each loss b. Its error has four sources, kept apart:

*The fits.* :math:`\operatorname{Var}_{MC} = \sum_f ω_f^2 \sum_i o_{fi}^2 σ_{fi}^2/t_{fi}`, which more fits make as
small as wanted.

*The data.* With the influence D_c of every unit (:mod:`outofcluster.inference.functional`) and K units,

.. math:: \operatorname{Var}_{data} = \frac{K}{K-1} \sum_c D_c^2 - ν ,

where ν is what the Monte-Carlo noise of the influences adds to the sum. With few fits ν may come close to the sum or
exceed it: a variance that the correction makes vanish is not known to be small. One rule holds for all intervals: with
x the share of the sum that is left, the variance is x times the sum while x > 1/4, and 1 - 3x times the sum below, so
that the correction is taken back gradually (the leakage rate may move x across that point) and the interval is called
unreliable.

Where resamples do not draw the training clusters anew (fragments), this counts 1 + φ times, with φ what training
clusters add (:mod:`outofcluster.sampling.baselines`).

*The choice of a curve*, where a method averages curves: their variance, which belongs in every interval.

*The leakage rate*, where it is uncertain: the square of what one standard error of it moves the estimate.

*Linear.* Student's interval with the number of scored units less one degree of freedom; on the scale of logarithms for
losses that are not negative and have no upper end, since a mean of squares is skewed.

*Resampled.* For a method without derivatives in closed form, a draw moves everything that the estimate is made of at
once. Stored replicates are drawn again, which moves each mean loss by its Monte-Carlo error; and every unit c gets a
multiplier :math:`ξ_c` of mean 0 and variance 1, which moves the losses by its influences as another sample of units
would:

.. math:: b_i^* = b_i + \sqrt{\tfrac K{K-1}} \sum_c ξ_c (\bar T_{ic} + \bar E_{ic}), \qquad
          \text{naive}^* = \text{naive} + \sqrt{\tfrac K{K-1}} \sum_c ξ_c (v_c + \bar T_{0c}) ,

with 0 the lowest level, since training is taken to move naive as it moves that. The rate is drawn from its own
distribution where it has one. Then the curve is fitted anew. ξ is scaled so that its
variance is what the rule above leaves. The ends are quantiles of the draws, widened as Student's distribution is wider
than the normal one.

*The optimism.* Corrected less naive is :math:`O = \sum_f ω_f \sum_i o_{fi} b_{fi}`, a difference of losses of the
same records after training on the same clusters. Its influences are those of corrected less those of naive,
:math:`D_c = \sum_i o_i (\bar T_{ic} + \bar E_{ic})`, in which the loss that a unit has at every level cancels, since
the weights o sum to 0. The naive loss comes from no resample, so that the Monte-Carlo variance, the choice of a curve
and the leakage rate are the same as those of corrected. ν is that of these influences, from weights o in the place of
w. A curve that averages shapes shrinks the optimism towards none where the losses hardly fall, and o shrinks along
with it, though other units might have shown a fall. So the variance of the data is at least that of the optimism of a
straight line through the levels of the full size, which shrinks nothing. The interval is cut so that naive plus
optimism stays within the range of the loss. A resampled interval takes :math:`O^*` of the moved losses, with ξ scaled
by what the rule above leaves of the optimism's own variance.

*Paired.* Models that were audited with the same random numbers share replicates: replicate r at level i trains every
model on the same records. The difference of two estimates has the influences :math:`D_c^A - D_c^B`, in which what
makes a cluster hard for both cancels, and the Monte-Carlo variance

.. math:: \sum_f ω_f^2 \sum_i \Bigl( \frac{o_A^2 σ_A^2}{t_A} + \frac{o_B^2 σ_B^2}{t_B}
          - \frac{2 m\, o_A o_B σ_{AB}}{t_A t_B} \Bigr)

with m = min(t_A, t_B) shared replicates of covariance σ_AB (fold and level left out of the notation). The Monte-Carlo
noise of the influences is shared as the losses are: of ν_A and ν_B at a level, whose replicates have the correlation
r, :math:`ν_A + ν_B - 2 r \sqrt{ν_A ν_B}` is in the difference. The choices of two curves, with variances κ_A and κ_B,
add :math:`κ_A + κ_B - 2 r \sqrt{κ_A κ_B}` to it, with r the mean correlation over the levels (at least 0): models
whose losses move together over resamples react to leaked records in the same way, and the curve that is right for one
is right for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtri, stdtrit

from outofcluster._base.arguments import Array
from outofcluster._base.threads import one_thread
from outofcluster.inference.columns import Block, Columns
from outofcluster.inference.estimates import Estimate
from outofcluster.inference.functional import Functional, Influences, Weights

# Share of the variance between units that must be left once Monte-Carlo noise is taken out.
_RELIABLE = 0.25
# No leakage rate that is drawn goes beyond this.
_LARGEST_RATE = 0.95


@dataclass(frozen=True)
class Uncertainty:
    """The sources of the error of an estimate.

    Attributes
    ----------
    influence : array
        D: the influence of every unit.
    influence_noise : float
        ν: what Monte-Carlo noise adds to the sum of their squares.
    monte_carlo : float
        Variance from finitely many fits.
    choice : float
        Variance over the curves that the method averages.
    rate_effect : float
        How far the estimate moves when the leakage rate moves by one standard error.
    training : float
        What training clusters add to the variance between units, as a share of it.
    least : float
        The least that the variance between units can be once the noise is taken out.
    """

    influence: Array
    influence_noise: float
    monte_carlo: float
    choice: float = 0.0
    rate_effect: float = 0.0
    training: float = 0.0
    least: float = 0.0

    @cached_property
    def between_units(self) -> float:
        """Variance between units with the Monte-Carlo noise in it; NaN for a single unit."""
        count = len(self.influence)
        return count / (count - 1) * float((self.influence**2).sum()) if count > 1 else math.nan

    @property
    def _left(self) -> float:
        """Share of that variance that is left once the noise is taken out."""
        return max(1 - self.influence_noise / self.between_units, 0.0) if self.between_units > 0 else 1.0

    @property
    def reliable(self) -> bool:
        """Whether the fits are enough to tell the variance between units from 0."""
        return not self._left <= _RELIABLE

    @property
    def remaining(self) -> float:
        """Share of the variance between units that counts, by the rule of the module's head."""
        return self._left if self.reliable else 1 - 3 * self._left

    @property
    def of_units(self) -> float:
        """Variance from having these units, those that train included."""
        return self.between_units * self.remaining * (1 + self.training)

    @property
    def data(self) -> float:
        """Variance from everything but the fits: the data, the choice of a curve, the leakage rate."""
        # In this order, NaN stays what it is.
        return max(self.of_units, self.least) + self.choice + self.rate_effect**2


def uncertainty(
    columns: Columns, estimate: Functional, *, rate_effect: float = 0.0, training: float = 0.0, least: float = 0.0
) -> Uncertainty:
    """The uncertainty of an estimate."""
    influences = Influences(columns)
    influence, monte_carlo = influences.of_units(estimate), influences.monte_carlo(estimate)
    noise = sum(float(of_role.sum()) for of_role in influences.noise(estimate).values())
    return Uncertainty(influence, noise, monte_carlo, estimate.choice, rate_effect, training, least)


def paired_uncertainty(
    first: tuple[Columns, Functional], second: tuple[Columns, Functional], *, rate_effect: float, training: float
) -> Uncertainty:
    """The uncertainty of the difference of two estimates from the same resamples."""
    (columns_a, a), (columns_b, b) = first, second
    of_a, of_b = Influences(columns_a), Influences(columns_b)
    noise_a, noise_b = of_a.noise(a), of_b.noise(b)
    noise, monte_carlo, correlations = 0.0, of_a.monte_carlo(a) + of_b.monte_carlo(b), list[float]()
    for (role, fold, i, losses_a), (other, _, j, losses_b) in _shared_columns(columns_a, columns_b):
        if role in a.weights and other in b.weights:
            covariance = _covariance_of_means(losses_a, losses_b)
            monte_carlo -= 2 * a.weights[role][fold, i] * b.weights[other][fold, j] * covariance
        correlations.append(_correlation(losses_a, losses_b))
        if role in noise_a and other in noise_b:
            sign = np.sign(_weight(a.training, role, fold, i) * _weight(b.training, other, fold, j))
            both = sign * correlations[-1] * math.sqrt(noise_a[role][fold, i] * noise_b[other][fold, j])
            noise += noise_a[role][fold, i] + noise_b[other][fold, j] - 2 * both
            noise_a[role][fold, i] = noise_b[other][fold, j] = 0.0
    noise += sum(float(rest.sum()) for named in (noise_a, noise_b) for rest in named.values())
    alike = max(float(np.mean(correlations or [0.0])), 0.0)
    choice = a.choice + b.choice - 2 * alike * math.sqrt(a.choice * b.choice)
    influence = of_a.of_units(a) - of_b.of_units(b)
    return Uncertainty(influence, noise, max(monte_carlo, 0.0), max(choice, 0.0), rate_effect, training)


# The role and the fold of a column, its position in the block, and its replicates.
Column = tuple[str, int, int, Array]


def _shared_columns(a: Columns, b: Columns) -> Iterator[tuple[Column, Column]]:
    """The columns of both that come from the same resamples, fold by fold."""

    def keyed(columns: Columns) -> dict[tuple[int, tuple[int, float]], Column]:
        return {
            (fold, key): (role, fold, position, losses)
            for role, blocks in columns.blocks.items()
            for fold, block in enumerate(blocks)
            for position, (key, losses) in enumerate(zip(block.keys, block.replicates, strict=True))
        }

    others = keyed(b)
    for key, column in sorted(keyed(a).items(), key=lambda item: item[0][0]):
        if key in others:
            yield column, others[key]


def _weight(weights: Weights, role: str, fold: int, position: int) -> float:
    return float(weights[role][fold, position]) if role in weights else 0.0


def _covariance_of_means(first: Array, second: Array) -> float:
    """Covariance of two means whose first replicates are the same resamples."""
    m = min(len(first), len(second))
    if m < 2:
        return 0.0
    return m * float(np.cov(first[:m], second[:m])[0, 1]) / (len(first) * len(second))


def _correlation(first: Array, second: Array) -> float:
    m = min(len(first), len(second))
    if m < 3 or first[:m].std() == 0 or second[:m].std() == 0:
        return 1.0
    return float(np.corrcoef(first[:m], second[:m])[0, 1])


@dataclass(frozen=True)
class Confidence:
    """From an uncertainty to an interval.

    Attributes
    ----------
    level : float
        Confidence level, such as 0.95.
    n_scored : int
        Number of units with scored records; one less are the degrees of freedom.
    loss_range : tuple of float
        Smallest and largest possible value of the estimate; the interval is cut to it.
    """

    level: float
    n_scored: int
    loss_range: tuple[float, float] = (-math.inf, math.inf)

    @property
    def quantile(self) -> float:
        """Student's quantile for this level."""
        return float(stdtrit(max(self.n_scored - 1, 1), 0.5 + self.level / 2))

    def linear(self, value: float, source: Uncertainty) -> Estimate:
        """The estimate with Student's interval."""
        reach = self.quantile * math.sqrt(source.monte_carlo + source.data)
        low, high = value - reach, value + reach
        if self.loss_range == (0.0, math.inf) and 0 < value < math.inf and reach < 3 * value:
            # A mean of squares is skewed: its logarithm is nearer to normal, and cannot leave the range.
            factor = math.exp(reach / value)
            low, high = value / factor, value * factor
        return self._estimate(value, low, high, source.monte_carlo, source.data)

    def from_draws(self, value: float, draws: Array, monte_carlo: float) -> Estimate:
        """The estimate with an interval between quantiles of draws."""
        moved = draws - value
        widen = self.quantile / float(ndtri(0.5 + self.level / 2))
        low, high = (float(value + widen * q) for q in np.quantile(moved, [(1 - self.level) / 2, (1 + self.level) / 2]))
        data = max(float(moved.var(ddof=1)) - monte_carlo, 0.0)
        return self._estimate(value, min(low, value), max(high, value), monte_carlo, data)

    def from_few_draws(self, value: float, draws: Array) -> Estimate:
        """The same from few draws: from their spread on either side, since quantiles need many draws."""
        moved = draws - value
        below, above = (
            self.quantile * math.sqrt(2 * float((side**2).mean()))
            for side in (np.minimum(moved, 0), np.maximum(moved, 0))
        )
        return self._estimate(value, value - below, value + above, 0.0, 0.0)

    def _estimate(self, value: float, low: float, high: float, monte_carlo: float, data: float) -> Estimate:
        """The estimate with its interval cut to the range of the loss."""
        least, most = self.loss_range
        interval = (min(max(low, least), most), max(min(high, most), least))
        return Estimate(value, interval, math.sqrt(monte_carlo), math.sqrt(data), self.level)


@one_thread()
def draw_again(
    columns: Columns,
    roles: Sequence[str],
    source: Uncertainty,
    solve: Callable[[Array, Weights], float],
    *,
    linear: Functional,
    rates: Array,
    stds: Array,
    lowest: float,
    choice: float,
    seeds: Sequence[int],
    n_draws: int = 300,
) -> Array:
    """Estimates of ``n_draws`` draws from what is stored, with no further fit.

    ``solve`` gives the optimism for rates and for losses of the ``roles`` that a curve is fitted to; ``linear`` is the
    rest of the estimate, whose value is added. The same samples give the same draws: their seed is made from the seeds
    of the samples. Rates that are uncertain move together over folds, since they come from one source.
    """
    rng = np.random.default_rng(np.random.SeedSequence([seed % 2**64 for seed in seeds]))
    units = columns.n_units
    scale = math.sqrt(source.remaining * (1 + source.training)) * math.sqrt(units / max(units - 1, 1))
    influences = Influences(columns)
    moved, error = influences.of_units(linear), math.sqrt(influences.monte_carlo(linear))
    blocks = [[columns.blocks[role][fold] for role in roles] for fold in range(len(columns.blocks[roles[0]]))]
    values = np.empty(n_draws)
    for draw in range(n_draws):
        multipliers = scale * rng.standard_normal(units)
        drawn = [[_drawn(block, multipliers, lowest, rng) for block in fold] for fold in blocks]
        losses = {role: np.stack(folds) for role, folds in zip(roles, zip(*drawn, strict=True), strict=True)}
        drawn_rates = np.clip(rates + rng.standard_normal() * stds, 0, _LARGEST_RATE)
        rest = linear.value + float(multipliers @ moved) + error * float(rng.standard_normal())
        values[draw] = rest + solve(drawn_rates, losses)
    # Where the method averages curves, it is not known which of them is right: that adds to the spread of the draws.
    return values + math.sqrt(choice) * rng.standard_normal(n_draws)


def _drawn(block: Block, multipliers: Array, lowest: float, rng: np.random.Generator) -> Array:
    """Mean losses of replicates drawn with replacement, where a block has them, moved by other units."""
    losses = block.means
    if block.replicates:
        losses = np.array([rng.choice(level, len(level)).mean() for level in block.replicates])
    for pool in (block.train, block.held_out):
        if pool is not None:
            losses = losses + multipliers[pool.units] @ pool.mean
    return np.maximum(losses, lowest)
