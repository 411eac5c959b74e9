r"""Where to spend the fits: levels of the injected fraction a, how many fits each of them gets, and when to stop.

Sampling does not know the leakage rate :math:`p_0`, and to draw a resample one need not know it: p = p_0 + (1-p_0)a is
affine in a. So no level depends on the rate. Where a rate stands below, it is a planning value: a wrong one makes the
estimate noisier or an interpolation coarser than it could be, never wrong.

*For polynomials.* A curve fitted to the mean losses at levels :math:`a_i` is extrapolated to p = 0, that is to
:math:`a_0 = -p_0/(1-p_0) < 0`. A linear method with weights :math:`w_i` has the variance :math:`\sum_i w_i^2 σ_i^2/t_i`
with :math:`t_i` fits at level i. For a polynomial of degree s the best design (Hoel and Levine 1964) has the s+1
Chebyshev extrema of the interval as levels and fits in proportion to :math:`σ_k |L_k|`:

.. math:: a_k = \frac{a_{max}}2 \Bigl(1 - \cos\frac{kπ}s\Bigr), \qquad
          L_k = \prod_{j \ne k} \frac{a_0 - a_j}{a_k - a_j}, \qquad \operatorname{Var} = \frac{(\sum_k σ_k|L_k|)^2}N .

With equal σ this is :math:`T_s((p_{max}+p_{min})/(p_{max}-p_{min}))^2 σ^2/N`. Check levels lie at the midpoints of the
widest gaps between the angles. At first all gaps are equal, and the one nearest the middle comes first, where a term of
degree s+1 shows most. Each check level gets 5 % of the fits. Every level gets at least two fits, so that its noise can
be estimated.

*For the automatic curve* all levels have the same draws, so that their common noise cancels, and as many fits. How fast
the loss falls just above the lowest level shows the shape of a learning curve, and a level at which most of the fall is
over shows its floor. At still higher levels nearly all training records come from V̂, and the losses say more about
V̂'s own learning curve. The same levels are sampled once more with smaller training sets, many of which are free of
leaked records (:mod:`outofcluster.curves.auto`): with the smallest size that still teaches something. Where the records
of the two sides of a split can be told apart, levels below the leakage rate say more, and take their place.

*Below the leakage rate* mass is removed (:mod:`outofcluster.curves.unmixing`). A ladder of masses serves every rate,
and losses between two of them are interpolated. Where the two sides of a split can be told apart, the loss rises up to
the mass of the leaked records and then hardly any more, so that a ladder would cut that corner: the records themselves
show where it is (:mod:`outofcluster.leakage.data`), and two masses lie just above it in the place of a ladder. One
level adds mass instead of removing it (remixing), to tell whether removing it works. Where the probability of every
record is known, so is what each mass leaves of the leaked records. Then a few masses do, up to the one that leaves next
to nothing, and the level that adds mass is replaced by a control, in which the largest mass is removed from all records
alike.

*The plan of a run.* Levels that the caller sets have their shares of the budget. Otherwise the levels are those of the
optimal design for a cubic, with check levels; a pilot of a tenth of the budget measures the noise at each, and the rest
is allocated in proportion to the noise times the extrapolation weight. With a wanted standard error of e_0 the budget
is the most that is spent: after the pilot, and after each further round, the fits that are still missing are worked out
from the noise seen so far. The plan is made for a leakage rate of 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, takewhile

import numpy as np
from numpy.typing import ArrayLike

from outofcluster._base.arguments import Array, Codes, check_flag, check_integer, check_share, check_vector, short
from outofcluster._base.exceptions import InputError

# Share of the fits that each check level gets.
_CHECK_SHARE = 0.05

# With more check levels than this, less than half of the fits would serve the estimate.
_MOST_CHECKS = 10

# A level with one fit says nothing about its noise.
_LEAST_FITS = 2

# Records of V̂ that must be expected to stay unused, so that there are some to score on.
_LEAST_SCORED = 5


@dataclass(frozen=True, eq=False)
class Design:
    """Levels a of the injected fraction in [0, 1], increasing, and the number of fits at each."""

    injected: Array
    n_fits: Codes


def largest_level(n_train: int, n_validation: int, replace: bool = True, keep: float = 0.2) -> float:
    r"""The largest injected fraction that leaves enough of V̂ unused to score on.

    When records are drawn with replacement at level a, a record of V̂ stays unused with probability
    :math:`(1-a/n_V)^n`. When they are drawn without replacement, :math:`n_V - an` records are expected to stay unused.
    The answer is the largest a ≤ 1 at which the expected unused share is at least ``keep`` and the expected unused
    number is at least 5 (at least 1 where V̂ has no more than 5 records).

    Examples
    --------
    >>> from outofcluster.sampling.levels import largest_level
    >>> largest_level(1000, 5000)
    1.0
    >>> round(largest_level(1000, 100), 4)
    0.1608
    >>> largest_level(1000, 100, replace=False)
    0.08
    """
    n = check_integer("n_train", n_train, least=1)
    size = check_integer("n_validation", n_validation, least=2)
    share = max(check_share("keep", keep, "[0, 1)"), (_LEAST_SCORED if size > _LEAST_SCORED else 1) / size)
    if check_flag("replace", replace):
        return min(1.0, -size * math.expm1(math.log(share) / n))
    return min(1.0, size * (1 - share) / n)


def allocate(weights: ArrayLike, budget: int, least: int = _LEAST_FITS) -> Codes:
    """Whole numbers in proportion to weights that sum exactly to a budget.

    Shares are rounded down, and what is left goes to the parts with the largest remainders. A part whose share is
    below ``least`` gets ``least``, and the others share the rest.

    Examples
    --------
    >>> from outofcluster.sampling.levels import allocate
    >>> allocate([5, 3, 0.1], 20)
    array([11,  7,  2])
    """
    w = check_vector("weights", weights)
    if w.min() < 0 or w.max() == 0:
        raise InputError(f"weights must be non-negative and not all zero, got {short(w.tolist())}.")
    floor = check_integer("least", least, least=0)
    total = check_integer("budget", budget, least=1)
    if total < floor * len(w):
        raise InputError(f"budget must be at least {floor * len(w)}, {floor} for each of {len(w)} parts, got {total}.")
    w = w / w.max()
    parts = np.full(len(w), floor, dtype=np.int64)
    free = np.ones(len(w), dtype=bool)
    # Raising a part to the least lowers what the others share, so that more of them may fall below it.
    while True:
        rest = total - floor * int((~free).sum())
        quota = w[free] / w[free].sum() * rest
        low = quota < floor - 1e-9
        if not low.any():
            break
        free[np.flatnonzero(free)[low]] = False
    # A quota that is whole but for rounding counts as whole.
    parts[free] = np.floor(quota + 1e-9).astype(np.int64)
    left = total - int(parts.sum())
    first = np.argsort(-(quota - parts[free]), kind="stable")[:left]
    parts[np.flatnonzero(free)[first]] += 1
    return parts


def extrapolation_design(
    degree: int,
    n_fits: int,
    largest: float = 1.0,
    *,
    rate: float = 0.1,
    n_checks: int = 2,
    noise: ArrayLike | None = None,
) -> Design:
    """The design with the least variance of e_0 for a polynomial curve, and a few levels that check its degree.

    Examples
    --------
    Without check levels, two thirds of the fits go to the naive level a = 0:

    >>> from outofcluster.sampling.levels import extrapolation_design
    >>> design = extrapolation_design(2, 1000, n_checks=0)
    >>> design.injected
    array([0. , 0.5, 1. ])
    >>> design.n_fits
    array([683, 249,  68])
    """
    s = check_integer("degree", degree, least=1)
    checks = check_integer("n_checks", n_checks, least=0, most=_MOST_CHECKS)
    top, planned = check_share("largest", largest, "(0, 1]"), check_share("rate", rate, "[0, 1)")
    budget, least = check_integer("n_fits", n_fits, least=1), _LEAST_FITS * (s + 1 + checks)
    if budget < least:
        raise InputError(
            f"n_fits must be at least {least}, {_LEAST_FITS} for each of {s + 1 + checks} levels, got {budget}."
        )

    extrema = np.arange(s + 1) * np.pi / s
    angles = np.sort(np.concatenate([extrema, _gap_midpoints(extrema, checks)]))
    levels = top * (1 - np.cos(angles)) / 2
    is_check = ~np.isin(angles, extrema)
    sigma = np.ones(len(levels)) if noise is None else np.asarray(noise, dtype=float)

    nodes = levels[~is_check]
    share = np.full(len(levels), _CHECK_SHARE)
    pull = sigma[~is_check] * np.abs(_lagrange(nodes, -planned / (1 - planned)))
    share[~is_check] = (1 - _CHECK_SHARE * checks) * pull / pull.sum()
    return Design(levels, allocate(share, budget))


def predicted_variance(design: Design, degree: int, rate: float = 0.1, noise: ArrayLike | None = None) -> float:
    r"""Monte-Carlo variance of e_0 by a polynomial curve: :math:`\sum_i w_i^2 σ_i^2/t_i`.

    The curve is the least-squares polynomial with weights :math:`t_i/σ_i^2`, extrapolated to p = 0.

    Examples
    --------
    The best design needs a quarter of the fits of the equidistant one for the same error:

    >>> from outofcluster.sampling.levels import Design, extrapolation_design, predicted_variance
    >>> round(1000 * predicted_variance(Design(np.linspace(0, 1, 20), np.full(20, 50)), degree=2), 1)
    16.8
    >>> round(1000 * predicted_variance(extrapolation_design(2, 1000, n_checks=0), degree=2), 1)
    4.0
    """
    s = check_integer("degree", degree, least=0)
    m = len(design.injected)
    if s >= m:
        raise InputError(f"degree must be below the number of levels, {m}, got {s}.")
    planned = check_share("rate", rate, "[0, 1)")
    sigma = np.ones(m) if noise is None else np.asarray(noise, dtype=float)
    low, high = float(design.injected[0]), float(design.injected[-1])
    middle, half = (low + high) / 2, (high - low) / 2 or 1.0
    points = np.append(design.injected, -planned / (1 - planned))
    basis = np.polynomial.chebyshev.chebvander((points - middle) / half, s)
    # Var = xᵀ(XᵀWX)⁻¹x = |R⁻ᵀx|² with √W X = QR: the normal equations are never formed.
    _, triangle = np.linalg.qr((np.sqrt(design.n_fits) / sigma)[:, None] * basis[:-1])
    root = np.linalg.solve(triangle.T, basis[-1])
    return float(root @ root)


def fits_for_standard_error(design: Design, variance_now: float, target: float) -> int:
    """How many fits bring the Monte-Carlo standard error of e_0 down to a target.

    The variance falls as one over the budget when the fits keep their proportions.

    Examples
    --------
    Half the error takes four times the fits:

    >>> from outofcluster.sampling.levels import Design, fits_for_standard_error
    >>> fits_for_standard_error(Design(np.array([0.0, 1.0]), np.array([60, 40])), variance_now=0.0004, target=0.01)
    400
    """
    budget, ratio = int(design.n_fits.sum()), math.sqrt(variance_now) / target
    if ratio > 1e100:
        raise InputError(
            f"target must be in reach of the standard error now, {math.sqrt(variance_now):g}, got {target:g}."
        )
    # The factor keeps rounding from asking for one fit more.
    return max(budget, math.ceil(budget * ratio**2 * (1 - 1e-12)))


def _gap_midpoints(angles: Array, count: int) -> Array:
    """Midpoints of the widest gaps; of equal gaps the one nearest the middle, then the one nearest the low end."""
    taken, chosen = list(angles), []
    for _ in range(count):
        # Rounded, so that gaps that are equal but for rounding tie; the first of the smallest is the choice.
        gaps = [(round(a - b, 9), round(abs(a + b - np.pi), 9), (a + b) / 2) for a, b in pairwise(taken)]
        chosen.append(min(gaps)[2])
        taken = sorted([*taken, chosen[-1]])
    return np.array(chosen)


def _lagrange(nodes: Array, x: float) -> Array:
    """Coefficients with which the values of a polynomial at the nodes give its value at x."""
    factors = (x - nodes[None, :]) / (nodes[:, None] - nodes[None, :] + np.eye(len(nodes)))
    np.fill_diagonal(factors, 1)
    return np.asarray(factors.prod(axis=1))


_LEVELS = np.array([0.0, 0.05, 0.2, 0.6])
_LEAST_SIZE = 8
_LEAST_OF_A_CLASS = 2
_SIZE_SHARES = np.array([0.6, 0.4])


def placed_levels(largest: float) -> Array:
    """Injected fractions up to a largest one, for the automatic curve.

    Examples
    --------
    >>> from outofcluster.sampling.levels import placed_levels
    >>> placed_levels(1.0).tolist()
    [0.0, 0.05, 0.2, 0.6]
    >>> placed_levels(0.3).round(3).tolist()
    [0.0, 0.025, 0.1, 0.3]
    """
    return np.asarray(_LEVELS * min(1.0, largest / _LEVELS[-1]))


def placed_sizes(n: int, least: int = _LEAST_SIZE) -> tuple[tuple[int, ...], Array]:
    """Sizes of training sets, the largest first, and the share of the fits that each of them gets.

    Examples
    --------
    >>> from outofcluster.sampling.levels import placed_sizes
    >>> placed_sizes(800)[0], placed_sizes(20)[0]
    ((800, 8), (20,))
    """
    if n < 4 * least:
        return (n,), np.ones(1)
    return (n, least), _SIZE_SHARES.copy()


def least_size(y: ArrayLike | None = None) -> int:
    """The size of the smallest training sets worth fitting.

    That is 8 records, or as many as it takes to hold two records of the rarest class on average.

    Examples
    --------
    >>> from outofcluster.sampling.levels import least_size
    >>> least_size(), least_size([0, 1] * 10), least_size([0] * 18 + [1, 1])
    (8, 8, 20)
    """
    if y is None:
        return _LEAST_SIZE
    _, counts = np.unique(np.asarray(y), return_counts=True)
    return max(_LEAST_SIZE, math.ceil(_LEAST_OF_A_CLASS * float(counts.sum() / counts.min())))


_LADDER = np.array([0.03, 0.1, 0.25])
# Multiples of the planned rate: just above it, where all leaked records are gone, and where it is underestimated.
_AROUND = np.array([1.1, 1.8])
_ADDED = 0.15
_PLANNED_FROM, _PLANNED_TO = 0.01, 0.4
# Masses by multiples of the mean probability that a record leaked.
_OF_THE_RATE = np.array([0.5, 1.0, 1.5, 2.0, 3.0])
# Share of the leaked records that need not be removed.
_NEXT_TO_NOTHING = 0.02


def unmixed_fractions(allowed: Callable[[float], bool], planned: float | None = None) -> Array:
    """Injected fractions, increasing: those that are allowed, and the one that adds mass.

    Examples
    --------
    >>> from outofcluster.sampling.levels import unmixed_fractions
    >>> unmixed_fractions(lambda fraction: fraction > -0.12).round(3).tolist()
    [-0.111, -0.031, 0.13]
    >>> unmixed_fractions(lambda fraction: True, planned=0.1).round(3).tolist()
    [-0.22, -0.124, 0.13]
    """
    masses = _LADDER
    if planned is not None and planned <= _PLANNED_TO:
        # Where hardly anything seems to have leaked, two steps of the ladder serve the rates that are possible.
        masses = planned * _AROUND if planned >= _PLANNED_FROM else _LADDER[:2]
    possible = list(takewhile(allowed, (-masses / (1 - masses)).tolist()))
    return np.array([*reversed(possible), _ADDED / (1 + _ADDED)]) if possible else np.zeros(0)


def rated_fractions(rate: float, allowed: Callable[[float], bool], kept: Callable[[float], float]) -> Array:
    """Injected fractions for known probabilities of the records, increasing, with that of the control at the end.

    Examples
    --------
    >>> from outofcluster.sampling.levels import rated_fractions
    >>> rated_fractions(0.1, lambda fraction: True, lambda fraction: 1 + 9 * fraction).round(3).tolist()
    [-0.111, -0.053, 0.091]
    """
    possible = list[float]()
    for mass in rate * _OF_THE_RATE:
        fraction = float(-mass / (1 - mass)) if mass < 1 else -math.inf
        if fraction >= 0 or not allowed(fraction):
            break
        possible.append(fraction)
        if kept(fraction) < _NEXT_TO_NOTHING:
            break
    if not possible:
        return np.zeros(0)
    largest = -possible[-1] / (1 - possible[-1])
    return np.array([*reversed(possible), largest / (1 + largest)])


_DEGREE = 3
_PLANNED_RATE = 0.1
_PILOT_SHARE = 0.1
_PILOT_LEAST, _PILOT_TO_STOP = 4, 20
_PRIOR_REPLICATES = 10


@dataclass(frozen=True)
class Plan:
    """Levels, budget, and the rule by which rounds follow each other.

    Attributes
    ----------
    injected : array
        Levels, increasing.
    budget : int
        The largest number of fits over all levels.
    fixed : array of int or None
        Fits of each level where they are settled beforehand.
    standard_error : float or None
        Stop as soon as the Monte-Carlo standard error of e_0 is below this.
    """

    injected: Array
    budget: int
    fixed: Codes | None = None
    standard_error: float | None = None

    def following(self, target: Codes, losses: list[Array]) -> Codes | None:
        """The next round's target, given the last one and the losses up to it; None when nothing is left to do."""
        if target.sum() >= self.budget:
            return None
        if self.fixed is not None:
            return self.fixed
        if target.sum() == 0:
            pilot = max(_PILOT_LEAST, int(_PILOT_SHARE * self.budget) // len(self.injected))
            if self.standard_error is not None:
                pilot = min(pilot, _PILOT_TO_STOP)
            if pilot * len(self.injected) >= self.budget:
                return allocate(np.ones(len(self.injected)), self.budget)
            return np.full(len(self.injected), pilot)
        noise = _noise(losses)
        spend = self.budget
        if self.standard_error is not None:
            now = Design(self.injected, target)
            variance = predicted_variance(now, _DEGREE, _PLANNED_RATE, noise)
            if variance <= self.standard_error**2:
                return None
            required = fits_for_standard_error(now, variance, self.standard_error)
            # They are not spent all at once, since the noise is itself an estimate.
            spend = min(self.budget, required, 4 * int(target.sum()))
        spend = min(max(spend, int(target.sum()) + len(self.injected)), self.budget)
        # Fits are in proportion to noise times weight, and never fewer than there are already.
        # The shares of the optimal design at its own levels are right when the noise is the same everywhere.
        planned = extrapolation_design(_DEGREE, 10_000, float(self.injected[-1]), rate=_PLANNED_RATE)
        wanted = allocate(planned.n_fits * noise, spend)
        # Levels that already have more than their share leave less for the others.
        extra = np.maximum(wanted - target, 0)
        if extra.sum() == 0:
            extra = np.ones_like(target)
        return target + allocate(extra, spend - int(target.sum()), least=0)


def _noise(losses: list[Array]) -> Array:
    """Standard deviations of the losses, each moved towards the common one as if by ten further replicates.

    A pilot has few replicates per level, and an allocation by their raw deviations would chase their noise.
    """
    freedom = np.array([len(level) - 1 for level in losses])
    variances = np.array([level.var(ddof=1) for level in losses])
    common = float((freedom * variances).sum() / freedom.sum())
    noise: Array = np.sqrt((freedom * variances + _PRIOR_REPLICATES * common) / (freedom + _PRIOR_REPLICATES))
    return noise if common > 0 else np.ones(len(losses))
