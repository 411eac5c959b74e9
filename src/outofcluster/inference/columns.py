r"""Losses as columns: what an estimate is a combination of, and how much every unit moves each of them.

A *column* is the loss of one kind of models: those of one level of one size of training sets, say, or the user's own
model. Columns of one role (:mod:`outofcluster.sampling.audit_samples`) and one fold form a *block*. A unit of T̂ moves
a column through training, a unit of V̂ through evaluation; both are means of the infinitesimal jackknife's Z over
replicates (:mod:`outofcluster.sampling.samples`), and the Monte-Carlo variance of these means, summed over the units of
a pool, is kept beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from outofcluster._base.arguments import Array, Codes


@dataclass(frozen=True, eq=False)
class Pool:
    """Influences of the units of one pool on the columns of a block.

    Attributes
    ----------
    units : array of int of shape (u,)
        Positions of the units among all units.
    mean : array of shape (u, columns)
        Influence of each unit on each column.
    noise : array of shape (columns,)
        Monte-Carlo variance of each column's influences, summed over the units.
    """

    units: Codes
    mean: Array
    noise: Array


@dataclass(frozen=True, eq=False)
class Block:
    """The columns of one role in one fold.

    Attributes
    ----------
    means, errors : array of shape (columns,)
        Mean losses, and their Monte-Carlo standard errors.
    train, held_out : Pool or None
        Influences through training and through evaluation; None where there are none.
    replicates : tuple of array
        The losses behind each mean; empty where they are not drawn again.
    keys : tuple
        What a column of another model must share for its replicates to be the same resamples.
    """

    means: Array
    errors: Array
    train: Pool | None = None
    held_out: Pool | None = None
    replicates: tuple[Array, ...] = ()
    keys: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of_records(cls, losses: Array, units: Codes, n_units: int) -> Block:
        """One column, the mean loss of records that were scored once; ``units`` are positions among all units."""
        moved: Array = np.bincount(units, (losses - losses.mean()) / len(losses), n_units).astype(float)
        pool = Pool(np.arange(n_units), moved[:, None], np.zeros(1))
        return cls(np.array([losses.mean()]), np.zeros(1), held_out=pool)

    @classmethod
    def empty(cls, n_columns: int) -> Block:
        """Columns of a role that this fold does not have."""
        return cls(np.zeros(n_columns), np.zeros(n_columns))


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
