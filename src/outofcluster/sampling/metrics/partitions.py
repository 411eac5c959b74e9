r"""From a metric without each unit to what each unit adds to it.

A metric M of a set of records need not be a mean. Let L be the metric as a loss (minus M where a greater M is better)
of N scored records, of which unit k, a cluster or a record, has N_k; and L_{-k} the loss without this unit. With

.. math:: D_k = (N - N_k)(L - L_{-k}), \qquad S_k = N_k L + D_k - \frac{N_k}{N} \sum_j D_j ,

S_k stands for the sum of the losses of the unit's records: :math:`\sum_k S_k = N L` exactly, and for a mean of record
losses S_k is the sum of these. Everything else in the package works on S_k as on sums of losses. The *effect* of unit k
on the metric, which the infinitesimal jackknife needs, is :math:`E_k = (S_k - N_k L)/N`; every record of the unit has
the *pseudo loss* :math:`S_k/N_k`. Records as units and clusters as units have pseudo losses of their own.

Decisions. A unit without which the metric is not defined, such as the only cluster with positive records under AUC, is
counted as if the metric without it were that of guessing (0.5 for AUC), so that the interval is wide, as it must be.
Metrics without a value for guessing take L_{-k} = L there. The metric itself is not defined for a set of a single
class under AUC, average precision, calibration and concordance; a resample whose scored records are such a set is drawn
again, as one whose training records have a single class is. Some metrics, such as the calibration slope, are not
defined for some predictions either; that is known only after a fit, is raised as a `NotDefinedError`, and is treated in
the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array

if TYPE_CHECKING:
    from outofcluster.sampling.metrics.predictions import Predictions

__all__ = ["Measure", "NotDefinedError", "Partition", "pseudo_losses", "unit_effects"]

Codes = NDArray[np.int64]


class NotDefinedError(InputError):
    """A metric has no value for what a model predicts; the message is the reason, in words that go on after "since"."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Scored records in units.

    Attributes
    ----------
    of : array of int
        Number of the unit of every scored record.
    count : int
        Number of units; some of them may have no scored record.
    """

    of: Codes
    count: int

    @cached_property
    def sizes(self) -> Codes:
        """Scored records of each unit."""
        return np.bincount(self.of, minlength=self.count)

    @cached_property
    def single(self) -> bool:
        """Whether no unit has more than one scored record."""
        return bool(self.sizes.max() <= 1)

    def sums(self, values: Array) -> Array:
        """The sum over the records of each unit."""
        return np.asarray(np.bincount(self.of, values, self.count), dtype=float)


class Measure(Protocol):
    """A metric of a set of records, and of the set without each unit."""

    @property
    def uses(self) -> str | None:
        """The predictions that it needs: "classes", "scores", "probabilities", "values", or None for the model."""

    @property
    def costly(self) -> bool:
        """Whether leaving out units takes so long that one replicate stands for all of a block."""

    def undefined(self, target: NDArray[Any]) -> str:
        """Why the metric is not defined for these targets; empty where it is."""

    def __call__(
        self, predictions: Predictions, weight: Array | None, partitions: Sequence[Partition]
    ) -> tuple[float, list[Array]]:
        """The metric in its own sign, and for every partition the metric without each unit.

        Predictions for which the metric has no value raise a `NotDefinedError`.
        """


def unit_effects(loss: float, without: Array, partition: Partition) -> Array:
    """E: what each unit adds to the loss.

    Parameters
    ----------
    loss : float
        The loss of all scored records.
    without : array of shape (units,)
        The loss without each unit.
    partition : Partition
        The units.

    Returns
    -------
    array of shape (units,)
        They sum to 0.
    """
    sizes = partition.sizes
    n = len(partition.of)
    moved = (n - sizes) * (loss - without)
    effects: Array = (moved - sizes * (moved.sum() / n)) / n
    return effects


def pseudo_losses(loss: float, effects: Array, partition: Partition) -> Array:
    """The pseudo loss of every record, whose mean is the loss.

    Parameters
    ----------
    loss : float
        The loss of all scored records.
    effects : array of shape (units,)
        E, from `unit_effects`.
    partition : Partition
        The units.

    Returns
    -------
    array of shape (scored records,)
    """
    per_record = effects * (len(partition.of) / np.maximum(partition.sizes, 1))
    return np.asarray(loss + per_record[partition.of])
