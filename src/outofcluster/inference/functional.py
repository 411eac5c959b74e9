r"""Estimates as linear functionals of columns of losses, and what the data and the fits do to them.

An estimate is :math:`\sum_{r,f,i} o_{rfi} b_{rfi}` over roles r, blocks f and columns i, or close to it. Its weights o
say how the losses of held-out records count. What trains may move it by other weights w: the naive loss comes from no
resample, and training is taken to move it as it moves the lowest level. So a functional has both, and functionals add
and subtract. With :math:`\bar T` and :math:`\bar E` the influences of unit c through training and through evaluation,
all that an interval needs is one loop over roles:

.. math:: D_c = \sum w\, \bar T_c + \sum o\, \bar E_c , \qquad
          ν = \sum w^2 ν_T + \sum o^2 ν_E , \qquad
          \operatorname{Var}_{MC} = \sum o^2 \frac{σ^2}{t} ,

where ν is what the Monte-Carlo noise of the influences adds to the sum of their squares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.inference.columns import Columns, Pool

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
    training : mapping from str to array of shape (blocks, columns)
        w: how what trains counts, by role.
    choice : float
        Variance of the choice between curves, where several were possible.
    exact : bool
        Whether the weights are derivatives in closed form, so that an interval needs no resampling.
    """

    value: float
    weights: Weights = field(default_factory=dict)
    training: Weights = field(default_factory=dict)
    choice: float = 0.0
    exact: bool = True

    def __add__(self, other: Functional) -> Functional:
        value, choice = self.value + other.value, self.choice + other.choice
        weights, training = added(self.weights, other.weights), added(self.training, other.training)
        return Functional(value, weights, training, choice, self.exact and other.exact)

    def __sub__(self, other: Functional) -> Functional:
        return self + other.scaled(-1.0)

    def scaled(self, factor: float) -> Functional:
        """The estimate times a number."""
        weights, training = (
            {role: factor * array for role, array in named.items()} for named in (self.weights, self.training)
        )
        return Functional(factor * self.value, weights, training, factor**2 * self.choice, self.exact)


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
        for _, _, pool, weights in self._pools(functional):
            # A unit stands in a pool once.
            influence[pool.units] += pool.mean @ weights
        return influence

    def noise(self, functional: Functional) -> Weights:
        """What the noise of each column adds to the sum of D's squares."""
        roles = [role for role in self.columns.blocks if role in functional.weights or role in functional.training]
        noise = {role: np.zeros(self.columns.means(role).shape) for role in roles}
        for role, position, pool, weights in self._pools(functional):
            noise[role][position] += pool.noise * weights**2
        return noise

    def monte_carlo(self, functional: Functional) -> float:
        """Variance from finitely many fits."""
        return sum(
            float((weights**2 * block.errors**2).sum())
            for role, blocks in self.columns.blocks.items()
            if role in functional.weights
            for block, weights in zip(blocks, functional.weights[role], strict=True)
        )

    def _pools(self, functional: Functional) -> Iterator[tuple[str, int, Pool, Array]]:
        """The role, the position of the block, the influences of units and the weights of all that counts."""
        for role, blocks in self.columns.blocks.items():
            for position, block in enumerate(blocks):
                for pool, weights in ((block.train, functional.training), (block.held_out, functional.weights)):
                    if pool is not None and role in weights:
                        yield role, position, pool, weights[role][position]
