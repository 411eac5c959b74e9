r"""One path to an interval: linear, resampled and paired.

An estimate is the naive loss plus an optimism, :math:`\sum_f ω_f \sum_i o_{fi} b_{fi}`. Its error has these sources,
kept apart:

*The fits.* Their Monte-Carlo variance (:mod:`outofcluster.inference.functional`), which more fits make as small as
wanted.

*The clusters that are scored.* With the influence D_c of every unit and K units the variance is

.. math:: \operatorname{Var}_{units} = (1+φ) \frac{K}{K-1} \sum_c D_c^2 .

Every fit scores the units, so that few fits give D. What training adds is the factor 1 + φ, a constant, since the
influences of single training units are mostly noise unless there are thousands of fits. The naive loss and the
corrected one have such a variance. The optimism is that of this cross-validation: the folds and the records that they
score are what they are, and no other clusters could have been drawn, so that it has none.

*Which records leaked* is chance, and *which curve is right* is not known: where a method averages curves, their
variance belongs in every interval. Error models give both as one number, the ``choice`` of a functional.

*The leakage rate*, where it is uncertain: the square of what one standard error of it moves the estimate.

*Linear.* Student's interval with the number of scored units less one degree of freedom; on the scale of logarithms for
losses that are not negative and have no upper end, since a mean of squares is skewed.

*Resampled.* For a method without derivatives in closed form, a draw moves everything that the estimate is made of at
once. Stored replicates are drawn again, the same ones at every level, which moves each mean loss by its Monte-Carlo
error; and every unit c gets a multiplier :math:`ξ_c` of mean 0 and variance 1, which moves the losses by its influences
as another sample of units would:

.. math:: b_i^* = b_i + \sqrt{(1+φ) \tfrac K{K-1}} \sum_c ξ_c \bar E_{ic}, \qquad
          \text{naive}^* = \text{naive} + \sqrt{(1+φ) \tfrac K{K-1}} \sum_c ξ_c v_c .

The rate is drawn from its own distribution where it has one. Then the curve is fitted anew. The ends are quantiles of
the draws, widened as Student's distribution is wider than the normal one. For the optimism alone there are no
multipliers. Its interval is cut so that naive plus optimism stays within the range of the loss.

*Paired.* Models that were audited with the same random numbers share replicates: replicate r trains every model on the
same records. The difference of two estimates has the influences :math:`D_c^A - D_c^B`, in which what makes a cluster
hard for both cancels, and the Monte-Carlo variance of the differences of their combined replicates. The choices of two
curves, with variances κ_A and κ_B, add :math:`κ_A + κ_B - 2 r \sqrt{κ_A κ_B}` to it, with r the mean correlation of
the combined replicates (at least 0): models whose losses move together over resamples react to leaked records in the
same way, and the curve that is right for one is right for both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from outofcluster._base.arguments import Array
from outofcluster._base.threads import one_thread
from outofcluster.inference.estimates import Estimate
from outofcluster.inference.functional import Block, Columns, Functional, Influences, Weights, covariance

# No leakage rate that is drawn goes beyond this.
_LARGEST_RATE = 0.95


@dataclass(frozen=True)
class Uncertainty:
    """The sources of the error of an estimate.

    Attributes
    ----------
    influence : array
        D: the influence of every unit; empty where units are no source of error.
    monte_carlo : float
        Variance from finitely many fits.
    choice : float
        Variance that neither units nor fits show: of the choice between curves, and of which records leaked.
    rate_effect : float
        How far the estimate moves when the leakage rate moves by one standard error.
    training : float
        φ: what training clusters add to the variance between units, as a share of it.
    """

    influence: Array
    monte_carlo: float
    choice: float = 0.0
    rate_effect: float = 0.0
    training: float = 0.0

    @property
    def of_units(self) -> float:
        """Variance from having these units, those that train included; NaN for a single unit."""
        count = len(self.influence)
        if count == 0:
            return 0.0
        between = count / (count - 1) * float((self.influence**2).sum()) if count > 1 else math.nan
        return between * (1 + self.training)

    @property
    def data(self) -> float:
        """Variance from everything but the fits: the data, the choice of a curve, the leakage rate."""
        return self.of_units + self.choice + self.rate_effect**2


def uncertainty(
    columns: Columns, estimate: Functional, *, rate_effect: float = 0.0, training: float = 0.0
) -> Uncertainty:
    """The uncertainty of an estimate."""
    influences = Influences(columns)
    influence, monte_carlo = influences.of_units(estimate), influences.monte_carlo(estimate)
    return Uncertainty(influence, monte_carlo, estimate.choice, rate_effect, training)


def paired_uncertainty(
    first: tuple[Columns, Functional], second: tuple[Columns, Functional], *, rate_effect: float, training: float
) -> Uncertainty:
    """The uncertainty of the difference of two estimates from the same resamples."""
    (columns_a, a), (columns_b, b) = first, second
    of_a, of_b = Influences(columns_a), Influences(columns_b)
    monte_carlo, correlations = of_a.monte_carlo(a) + of_b.monte_carlo(b), list[float]()
    for one, of_one, other, of_other in _shared_blocks(first, second):
        monte_carlo -= 2 * covariance(one, of_one, other, of_other)
        correlations.append(_correlation(of_one @ one.paired, of_other @ other.paired))
    alike = max(float(np.mean(correlations or [0.0])), 0.0)
    choice = a.choice + b.choice - 2 * alike * math.sqrt(a.choice * b.choice)
    influence = of_a.of_units(a) - of_b.of_units(b)
    return Uncertainty(influence, max(monte_carlo, 0.0), max(choice, 0.0), rate_effect, training)


def _shared_blocks(
    first: tuple[Columns, Functional], second: tuple[Columns, Functional]
) -> Iterator[tuple[Block, Array, Block, Array]]:
    """The blocks, with their weights, in which both estimates come from the same resamples."""
    (columns_a, a), (columns_b, b) = first, second
    for role in columns_a.blocks:
        if role not in a.weights or role not in b.weights or role not in columns_b.blocks:
            continue
        blocks = zip(columns_a.blocks[role], a.weights[role], columns_b.blocks[role], b.weights[role], strict=False)
        for one, of_one, other, of_other in blocks:
            # The same draws leave as many replicates, of the same sizes and levels.
            same = one.keys and one.keys == other.keys and one.paired.shape == other.paired.shape
            if same and of_one.any() and of_other.any():
                yield one, of_one, other, of_other


def _correlation(first: Array, second: Array) -> float:
    if len(first) < 3 or first.std() == 0 or second.std() == 0:
        return 1.0
    return float(np.corrcoef(first, second)[0, 1])


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
    # An optimism has no units.
    scale = math.sqrt((1 + source.training) * units / max(units - 1, 1)) if len(source.influence) else 0.0
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
        # The same replicates, or whole turns, at every level: their common noise cancels in differences.
        paired = block.in_turns
        drawn = rng.integers(paired.shape[1], size=paired.shape[1])
        losses = losses + paired[:, drawn].mean(axis=1) - paired.mean(axis=1)
    if block.held_out is not None:
        losses = losses + multipliers[block.held_out.units] @ block.held_out.mean
    return np.maximum(losses, lowest)
