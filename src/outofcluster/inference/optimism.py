r"""By how much a cross-validated loss is too low, as a combination of the losses that this follows from.

With :math:`b_i` the pooled losses and o their weights (:mod:`outofcluster.inference.pooled` has the other symbols), the
optimism alone, corrected less naive, is :math:`\sum_i o_i b_i`. So its influences are
:math:`\sum_i o_i (\bar T_{ic} + \bar E_{ic})`: v drops out, and with it what makes a unit hard or easy at every level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster.inference.pieces import TwoReadings


@dataclass(frozen=True)
class Optimism:
    """How much the naive loss is too low, as a combination of losses.

    Attributes
    ----------
    value : float
        The optimism.
    e0 : float
        The curve's own ê_0, of models fitted to resamples.
    weights : array of shape (folds, columns)
        o: its weights, for every level of the full size, then for those of smaller ones.
    training : array of shape (folds, columns)
        w: weights of the influence through training on the corrected loss.
    second : array of shape (folds,)
        Weight of each fold's g.
    exact : bool
        Whether the weights are exact, those of a linear method or derivatives in closed form.
    choice : float
        Variance over the curves that the method averages.
    drops : array of shape (folds,), optional
        Weight of each fold's rise of the loss without the likeliest pieces.
    readings : TwoReadings or None
        The optimism by the curve and by these pieces, where both are known.
    by_cuts : dict of float
        The optimism if entities were cut by each of the assumed laws alone; empty where the law was learned.
    gaps : array of shape (folds,), optional
        Weight of each fold's difference between the own model's losses on held-out and on training records.
    of_train : array of shape (folds, columns), optional
        Weights of the losses on training records.
    """

    value: float
    e0: float
    weights: Array
    training: Array
    second: Array
    exact: bool = True
    choice: float = 0.0
    drops: Array | None = None
    readings: TwoReadings | None = None
    by_cuts: Mapping[str, float] = field(default_factory=dict)
    gaps: Array | None = None
    of_train: Array | None = None

    @property
    def alone(self) -> Optimism:
        """The same without the naive loss: training moves the optimism by its own weights."""
        return replace(self, training=self.weights)

    @property
    def multiplier(self) -> float:
        """By how much the noise of the losses is multiplied: Σ|w|, in the worst fold."""
        return float(np.abs(self.training).sum(axis=1).max())
