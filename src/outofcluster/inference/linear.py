r"""How sure an estimate is: Monte-Carlo error and data error, kept apart.

For a method that is linear in the losses, :math:`\hat e_0 = \sum_i w_i b_i` with t_i replicates at level i of
variance σ_i²:

.. math:: \operatorname{Var}_{MC} = \sum_i w_i^2 σ_i^2 / t_i ,

which more fits make as small as one likes. The error of having these records and these clusters remains. The
infinitesimal jackknife takes it from the same fits: the influence of unit c is :math:`D_c = \sum_i w_i \bar
Z_{ic}`, with Z as in :mod:`outofcluster.sampling.samples`, and for each pool of K units

.. math:: \operatorname{Var}_{pool} = \frac{K}{K-1} \sum_c D_c^2
          - \sum_c \sum_i w_i^2 \operatorname{var}_b(Z_{ibc}) / t_i .

The second term removes what the Monte-Carlo noise of the :math:`\bar Z` adds to the first. With few fits it may
exceed it: the variance is then not told from 0 by these samples. A pool of one unit has no between-unit
variance that could be estimated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array, check_vector

__all__ = ["LinearVariance", "between_units", "linear_variance"]


class PoolMoments(Protocol):
    """Moments of the jackknife's Z over replicates: a row a level, a column a unit."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Records in each unit."""

    @property
    def mean(self) -> Array:
        """Means."""

    @property
    def variance(self) -> Array:
        """Variances."""


class Moments(Protocol):
    """Both pools."""

    @property
    def train(self) -> PoolMoments:
        """Of T̂."""

    @property
    def validation(self) -> PoolMoments:
        """Of V̂."""


class Replicates(Protocol):
    """What is needed of loss samples."""

    @property
    def losses(self) -> tuple[Array, ...]:
        """Replicate losses, an array a level."""

    def jackknife(self) -> Moments:
        """Moments of Z."""


@dataclass(frozen=True)
class LinearVariance:
    """Variance of an estimate that is linear in the mean losses, by its sources.

    Attributes
    ----------
    monte_carlo : float
        From finitely many fits.
    train, validation : float
        From these units of T̂ and of V̂; NaN where a pool has a single unit. Negative where the fits are too
        few to tell it from 0.
    train_influence, validation_influence : array
        The influence D of each unit; influences of estimates from the same units add.
    """

    monte_carlo: float
    train: float
    validation: float
    train_influence: Array
    validation_influence: Array

    @property
    def data(self) -> float:
        """Variance from the data: both pools, each at least 0."""
        return (
            max(self.train, 0.0) + max(self.validation, 0.0)
            if not math.isnan(self.train + self.validation)
            else math.nan
        )


def linear_variance(samples: Replicates, weights: ArrayLike) -> LinearVariance:
    """Variance of Σ weights · means, from samples that kept the jackknife's sums.

    Parameters
    ----------
    samples : LossSamples
        Losses at several levels.
    weights : array of shape (levels,)
        Weights of the levels' means, such as a curve's ``influence_``.

    Returns
    -------
    LinearVariance

    Examples
    --------
    >>> import numpy as np
    >>> import outofcluster as ooc
    >>> from outofcluster.inference.linear import linear_variance
    >>> from sklearn.linear_model import Ridge
    >>> X = np.random.default_rng(0).standard_normal((300, 3))
    >>> split = {"train": range(200), "validation": range(200, 300)}
    >>> samples = ooc.sample_losses(Ridge(), X, X[:, 0], **split, n_fits=60, random_state=0)
    >>> curve = ooc.PolynomialCurve(1).fit(samples, leakage=0.1)
    >>> variance = linear_variance(samples, curve.influence_)
    >>> variance.monte_carlo < variance.data
    True
    """
    w = check_vector("weights", weights)
    if len(w) != len(samples.losses):
        raise InputError(f"weights must have one value for each of the {len(samples.losses)} levels, got {len(w)}.")
    counts = np.array([len(level) for level in samples.losses])
    if counts.min() < 2:
        raise InputError(f"samples must hold at least 2 replicates at every level, got {counts.min()} at one.")
    spread = np.array([level.var(ddof=1) for level in samples.losses])
    moments = samples.jackknife()
    train, train_influence = _pool(moments.train, w, counts)
    validation, validation_influence = _pool(moments.validation, w, counts)
    return LinearVariance(
        float((w**2 * spread / counts).sum()), train, validation, train_influence, validation_influence
    )


def _pool(pool: PoolMoments, w: Array, counts: NDArray[np.int64]) -> tuple[float, Array]:
    influence: Array = w @ pool.mean
    return between_units(influence, float(((w**2 / counts) @ pool.variance).sum())), influence


def between_units(influence: Array, noise: float = 0.0) -> float:
    """Variance between units out of their influences, less what Monte-Carlo noise adds; NaN for a single unit."""
    units = len(influence)
    return units / (units - 1) * float((influence**2).sum()) - noise if units > 1 else math.nan
