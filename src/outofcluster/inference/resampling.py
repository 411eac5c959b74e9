r"""The spread of an estimate that is not linear in the losses, from what is stored, with no further fit.

A draw moves everything at once that the estimate is made of. Stored replicates are drawn again, which moves each
mean loss by its Monte-Carlo error; and every unit c gets a multiplier :math:`ξ_c` of mean 0 and variance 1, which
moves the losses by its influences as another sample of units would:

.. math:: b_i^* = b_i + \sqrt{\tfrac K{K-1}} \sum_c ξ_c (\bar T_{ic} + \bar E_{ic}), \qquad
          \text{naive}^* = \text{naive} + \sqrt{\tfrac K{K-1}} \sum_c ξ_c v_c ,

with T̄, Ē and v as in :mod:`outofcluster.inference.pooling`. The leakage rate is drawn from its own
distribution where it has one. Then the curve is fitted anew. ξ is shrunk by the share of the influences' spread that is Monte-Carlo noise, as
the linear formula subtracts it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.curves.base import Curve
from outofcluster.inference.pooling import Optimism, Pooled

__all__ = ["resampled"]

_LARGEST_RATE = 0.95


def resampled(
    pooled: Pooled, curve: Curve, rates: Array, stds: Array, optimism: Optimism, *, n_draws: int = 300
) -> Array:
    """Corrected losses of so many draws.

    The draws are the same for the same samples: their seed is made of the seeds of the samples. Rates that are
    uncertain move together over folds, since they come from one source.
    """
    entropy = [seed % 2**64 for run in pooled.runs for seed in run.samples.seeds]
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    raw, noise = pooled.spread(optimism)
    units = len(pooled.units)
    shrink = np.sqrt(max(1 - noise / raw, 0.25)) if raw > 0 else 1.0
    moved = pooled.loss_influences()
    values = np.empty(n_draws)
    for draw in range(n_draws):
        multipliers = shrink * np.sqrt(units / max(units - 1, 1)) * rng.standard_normal(units)
        losses = np.stack([_drawn_again(run.replicates.values(), rng) for run in pooled.runs])
        losses = np.maximum(losses + np.tensordot(multipliers, moved, 1), 0.0)
        drawn = np.clip(rates + rng.standard_normal() * stds, 0, _LARGEST_RATE)
        naive = pooled.naive + float(multipliers @ pooled.naive_influence)
        values[draw] = naive + pooled.solve(curve, drawn, losses=losses, derive=False).value
    return values


def _drawn_again(levels: Iterable[Array], rng: np.random.Generator) -> Array:
    return np.array([rng.choice(level, len(level)).mean() for level in levels])
