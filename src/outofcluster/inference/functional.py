r"""Estimates as linear functionals of columns of losses, and what the data and the fits do to them.

An estimate is :math:`\sum_{r,f,i} o_{rfi} b_{rfi}` over roles r, blocks f and columns i, or close to it, and
functionals add and subtract. With :math:`\bar E` the influence of unit c on a column by being scored, all that an
interval needs is one loop over roles:

.. math:: D_c = \sum o\, \bar E_c , \qquad
          \operatorname{Var}_{MC} = \sum_{r,f} \frac1{R_{rf}} \operatorname{var}_b \sum_i o_{rfi} t_{rfib} ,

since the replicates b of one role and one fold are the same draws at all columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.inference.columns import Block, Columns

# For every role one row per block and one weight per column.
Weights = Mapping[str, Array]


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
