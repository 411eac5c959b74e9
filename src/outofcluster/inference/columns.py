r"""Losses as columns: what an estimate is a combination of, and how much every unit moves each of them.

A *column* is the loss of one kind of models: those of one level of one size of training sets, say, or the user's own
model. Columns of one role (:mod:`outofcluster.sampling.audit_samples`) and one fold form a *block*. A unit of V̂ moves
a column by being scored: its influence is the mean of E over replicates (:mod:`outofcluster.sampling.samples`).

Replicate r of every column of a block comes from the same draw, so that the Monte-Carlo variance of a combination of
columns is that of the combined replicates,

.. math:: \operatorname{Var} \sum_i w_i \bar t_i = \frac{1}{R} \operatorname{var}_r \sum_i w_i t_{ir}
          \quad\text{or}\quad
          \sum_{ij} w_i w_j \frac{\min(R_i, R_j)}{R_i R_j} \operatorname{cov}_r(t_{ir}, t_{jr}) ,

with R replicates of every column, or R_i of column i. Where replicates take turns in parts of V̂ and so belong together,
the turns stand for them as soon as there are two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from outofcluster._base.arguments import Array, Codes, turns


@dataclass(frozen=True, eq=False)
class Pool:
    """Influences of the units of one pool on the columns of a block.

    Attributes
    ----------
    units : array of int of shape (u,)
        Positions of the units among all units.
    mean : array of shape (u, columns)
        Influence of each unit on each column.
    """

    units: Codes
    mean: Array


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one role in one fold.

    Attributes
    ----------
    means, errors : array of shape (columns,)
        Mean losses, and their Monte-Carlo standard errors.
    held_out : Pool or None
        Influences of the units that are scored; None where there are none.
    replicates : tuple of array
        The losses behind each mean; empty where there are none, and then the errors of columns are independent.
    strata : int
        Number of parts of V̂ that replicates take turns in.
    keys : tuple
        What a column of another model must share for its replicates to be the same resamples.
    """

    means: Array
    errors: Array
    held_out: Pool | None = None
    replicates: tuple[Array, ...] = ()
    strata: int = 1
    keys: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of_records(cls, losses: Array, units: Codes, n_units: int) -> Block:
        """One column, the mean loss of records that were scored once; ``units`` are positions among all units."""
        moved: Array = np.bincount(units, (losses - losses.mean()) / len(losses), n_units).astype(float)
        return cls(np.array([losses.mean()]), np.zeros(1), Pool(np.arange(n_units), moved[:, None]))

    @classmethod
    def empty(cls, n_columns: int) -> Block:
        """Columns of a role that this fold does not have."""
        return cls(np.zeros(n_columns), np.zeros(n_columns))

    @cached_property
    def paired(self) -> Array:
        """The replicates that all columns have, one row per column."""
        count = min((len(losses) for losses in self.replicates), default=0)
        return np.array([losses[:count] for losses in self.replicates]).reshape(len(self.replicates), count)

    @property
    def in_turns(self) -> Array:
        """The same, with whole turns in the place of their replicates where there are two turns."""
        return np.array([turns(losses, self.strata) for losses in self.paired]).reshape(len(self.paired), -1)

    def counted(self, weights: Array) -> list[tuple[float, Array]]:
        """The weights that are not 0, each with its replicates, or with whole turns where there are two turns."""
        pairs = zip(weights.tolist(), self.replicates, strict=True)
        return [(weight, turns(losses, self.strata)) for weight, losses in pairs if weight]

    def monte_carlo(self, weights: Array) -> float:
        """Variance of a combination of the columns from finitely many fits; NaN for a single replicate."""
        if not weights.any():
            return 0.0
        if not self.replicates:
            return float((weights**2 * self.errors**2).sum())
        variance = covariance(self, weights, self, weights)
        return variance if math.isnan(variance) else max(variance, 0.0)


def covariance(one: Block, of_one: Array, other: Block, of_other: Array) -> float:
    """Covariance of combinations of the columns of two blocks whose replicates are the same draws."""
    first, second = one.counted(of_one), other.counted(of_other)
    counts = [len(values) for _, values in (*first, *second)]
    if min(counts) == max(counts):
        combined = [np.sum([weight * values for weight, values in block], axis=0) for block in (first, second)]
        return _covariance_of_means(*combined)
    return sum(w * v * _covariance_of_means(x, y) for w, x in first for v, y in second)


def _covariance_of_means(first: Array, second: Array) -> float:
    """Covariance of two means, of which the replicates that both have move together; NaN for a single one."""
    m = min(len(first), len(second))
    if m < 2:
        return math.nan
    return float(np.cov(first[:m], second[:m])[0, 1]) * m / (len(first) * len(second))


@dataclass(frozen=True, eq=False)
class Columns:
    """All columns of an audit, for one kind of units.

    Attributes
    ----------
    blocks : mapping from str to tuple of Block
        The blocks of every role: one per fold, or a single one where folds are pooled as records.
    n_units : int
        Number of units.
    """

    blocks: Mapping[str, tuple[Block, ...]]
    n_units: int

    def means(self, role: str) -> Array:
        """Mean losses of a role, one row per block."""
        return np.stack([block.means for block in self.blocks[role]])

    def errors(self, role: str) -> Array:
        """Monte-Carlo standard errors of these."""
        return np.stack([block.errors for block in self.blocks[role]])
