"""Mean losses at levels: what a part keeps of a sampling run, and what a curve is fitted to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outofcluster._base.validation import Array
from outofcluster.sampling import LossSamples

__all__ = ["Means", "binned", "pooled"]


@dataclass(frozen=True, eq=False)
class Means:
    """Mean loss at each injected fraction, of so many fits.

    Attributes
    ----------
    injected, means, standard_errors : array
        Injected fractions, mean losses, and their Monte-Carlo standard errors.
    n_fits : array of int
        Fits at each level.
    size : int
        Training records of a replicate.

    Examples
    --------
    >>> means = Means(np.array([0.1, 1.0]), np.array([0.3, 0.2]), np.array([0.01, 0.01]), np.array([50, 50]), 100)
    >>> means.seen_by_user(0.1).injected
    array([0., 1.])
    >>> means.seen_by_user(0.1).levels(0.1)
    array([0.1, 1. ])
    """

    injected: Array
    means: Array
    standard_errors: Array
    n_fits: Any
    size: int

    @classmethod
    def of(cls, samples: LossSamples) -> Self:
        """Of loss samples."""
        counts = np.array([len(level) for level in samples.losses])
        return cls(samples.injected, samples.means, samples.standard_errors, counts, samples.size)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Self:
        """From the plain form of a stored part."""
        arrays = {name: np.array(stored[name], dtype=float) for name in ("injected", "means", "standard_errors")}
        return cls(**arrays, n_fits=np.array(stored["n_fits"]), size=int(stored["size"]))

    def levels(self, leakage: float) -> Array:
        """The true shares p = p0 + (1 - p0) a."""
        return leakage + (1 - leakage) * self.injected

    def seen_by_user(self, leakage: float) -> Means:
        """The same losses for one whose training pool holds a share of leaked records already.

        Injecting p into clean pools gives what injecting (p - p0) / (1 - p0) gives on top of p0.
        """
        injected = np.clip((self.injected - leakage) / (1 - leakage), 0, 1)
        return Means(injected, self.means, self.standard_errors, self.n_fits, self.size)


def pooled(runs: list[Means]) -> Means:
    """Several runs of the same levels as one."""
    counts = np.array([run.n_fits for run in runs])
    total = counts.sum(axis=0)
    mean = (counts * np.array([run.means for run in runs])).sum(axis=0) / total
    error = np.sqrt(((counts * np.array([run.standard_errors for run in runs])) ** 2).sum(axis=0)) / total
    return Means(runs[0].injected, mean, error, total, runs[0].size)


def binned(run: Means, most: int) -> Means:
    """Neighbouring levels averaged, in equal numbers, until there are at most so many.

    Averages of equally spaced levels over equally many neighbours keep a decreasing or convex shape.
    """
    width = -(-len(run.means) // most)
    keep = len(run.means) // width * width

    def average(values: Array) -> Array:
        averages: Array = np.asarray(values[:keep], dtype=float).reshape(-1, width).mean(axis=1)
        return averages

    error = np.sqrt(average(run.standard_errors**2) / width)
    counts = np.asarray(run.n_fits)[:keep].reshape(-1, width).sum(axis=1)
    return Means(average(run.injected), average(run.means), error, counts, run.size)
