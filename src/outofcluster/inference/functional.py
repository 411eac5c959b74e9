r"""Losses as columns, estimates as linear functionals of them, and what the data and the fits do to these.

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

An *estimate* is :math:`\sum_{r,f,i} o_{rfi} b_{rfi}` over roles r, blocks f and columns i, or close to it, and
functionals add and subtract. With :math:`\bar E` the influence of unit c on a column by being scored, all that an
interval needs is one loop over roles:

.. math:: D_c = \sum o\, \bar E_c , \qquad
          \operatorname{Var}_{MC} = \sum_{r,f} \frac1{R_{rf}} \operatorname{var}_b \sum_i o_{rfi} t_{rfib} ,

since the replicates b of one role and one fold are the same draws at all columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from outofcluster._base.arguments import Array, Codes, turns

# For every role one row per block and one weight per column.
Weights = Mapping[str, Array]


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


@dataclass(frozen=True, eq=False)
class Functional:
    """An estimate as a combination of columns.

    Attributes
    ----------
    value : float
        The estimate.
    weights : mapping from str to array of shape (blocks, columns)
        o: how the losses of held-out records count, by role.
    choice : float
        Variance that neither units nor fits show: of the choice between curves, and of which records leaked.
    exact : bool
        Whether the weights are derivatives in closed form, so that an interval needs no resampling.
    """

    value: float
    weights: Weights = field(default_factory=dict)
    choice: float = 0.0
    exact: bool = True

    def __add__(self, other: Functional) -> Functional:
        value, choice = self.value + other.value, self.choice + other.choice
        return Functional(value, added(self.weights, other.weights), choice, self.exact and other.exact)

    def __sub__(self, other: Functional) -> Functional:
        return self + other.scaled(-1.0)

    def scaled(self, factor: float) -> Functional:
        """The estimate times a number."""
        weights = {role: factor * array for role, array in self.weights.items()}
        return Functional(factor * self.value, weights, factor**2 * self.choice, self.exact)


def added(first: Weights, second: Weights) -> Weights:
    """Weights of two functionals together, role by role."""
    both = {role: first[role] + second[role] for role in first if role in second}
    return {**first, **second, **both}


@dataclass(frozen=True, eq=False)
class Influences:
    """What units and fits do to functionals of some columns."""

    columns: Columns

    def of_units(self, functional: Functional) -> Array:
        """D: the influence of every unit."""
        influence = np.zeros(self.columns.n_units)
        for block, weights in self._blocks(functional):
            if block.held_out is not None:
                # A unit stands in a pool once.
                influence[block.held_out.units] += block.held_out.mean @ weights
        return influence

    def monte_carlo(self, functional: Functional) -> float:
        """Variance from finitely many fits."""
        return sum(self.monte_carlo_of_roles(functional).values())

    def monte_carlo_of_roles(self, functional: Functional) -> dict[str, float]:
        """What the fits of every role add to that variance."""
        blocks = self.columns.blocks
        return {
            role: sum(block.monte_carlo(of_block) for block, of_block in zip(blocks[role], weights, strict=True))
            for role, weights in functional.weights.items()
            if role in blocks
        }

    def _blocks(self, functional: Functional) -> Iterator[tuple[Block, Array]]:
        """Every block that counts, and the weights of its columns."""
        for role, blocks in self.columns.blocks.items():
            if role in functional.weights:
                yield from zip(blocks, functional.weights[role], strict=True)
