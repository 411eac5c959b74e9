r"""LossSamples: all that crosses from fitting models to solving for the curve.

Per level: the replicate losses t_b, and the sums that the infinitesimal jackknife needs. With N_bc the number
of draws of unit c (a cluster, or a record) in replicate b, M_b all draws from its pool, |c| the unit's size and
n_P the pool's,

.. math:: S_{bc} = N_{bc} - M_b |c|/n_P, \qquad Z_{bc} = S_{bc}(t_b - \bar t) + E_{bc},

where for validation units :math:`E_{bc} = \sum_{v ∈ c, v ∉ T'_b} (ℓ_{bv} - t_b)/|V'_b|` is the effect of c on
the evaluation, 0 for training units. The jackknife needs mean and variance of Z over b. S is dense in c but N
is sparse, so the sums that are kept are those of N, Nt, N², N²t, N²t², NM, NMt, NMt² and, for validation, E,
E², NE, NEt, ME, MEt; since the units of a pool make up all of it, ΣM, ΣMt, ΣM², … are sums of these over c, and
the moments of Z follow.
"""

from __future__ import annotations

import io
import json
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster._base.validation import Array

__all__ = ["Jackknife", "LossSamples", "PoolJackknife"]

_FORMAT = 1
TRAIN_SUMS, VALIDATION_SUMS = 8, 14
"""Columns of the jackknife's sums, in the order of the module's head."""


@dataclass(frozen=True)
class PoolJackknife:
    """Mean and variance over replicates of Z, one row a level, one column a unit; and the units' sizes."""

    sizes: NDArray[np.int64]
    mean: Array
    variance: Array


@dataclass(frozen=True)
class Jackknife:
    """The infinitesimal jackknife's ingredients for both pools.

    ``evaluation`` is E alone: what a unit of V̂ changes by being scored, without what it changes by training.
    """

    train: PoolJackknife
    validation: PoolJackknife
    evaluation: PoolJackknife


@dataclass(frozen=True)
class LossSamples:
    """Losses of models fitted to resamples, at injected fractions a of validation records.

    Attributes
    ----------
    injected : array of shape (levels,)
        Injected fractions, increasing.
    losses : tuple of arrays
        Replicate losses, one array a level.
    redraws : array of int
        Resamples that were drawn again because they held a single class or left nothing to score, one count a level.
    size : int
        n of the binomial operator: training records, or clusters that can be cut.
    units : {"clusters", "records", "none"}
        What the jackknife's sums are kept for.
    train_sizes, validation_sizes : array
        Records in each unit.
    train_sums, validation_sums : array of shape (levels, units, columns)
        The jackknife's sums.
    problem : dict
        What was sampled (data digests, rows, estimator, loss, error model): runs merge only if it agrees.
    seeds : tuple of int
        Entropy of the run, or runs.
    versions : dict
        Packages it was made with.
    """

    injected: Array
    losses: tuple[Array, ...]
    redraws: Array
    size: int
    units: str
    train_sizes: NDArray[np.int64]
    validation_sizes: NDArray[np.int64]
    train_sums: Array
    validation_sums: Array
    problem: dict[str, Any]
    seeds: tuple[int, ...]
    versions: dict[str, str]

    @property
    def n_fits(self) -> int:
        """Number of replicates in all."""
        return sum(len(level) for level in self.losses)

    @property
    def means(self) -> Array:
        """Mean loss at each level, b."""
        return np.array([level.mean() for level in self.losses])

    @property
    def standard_errors(self) -> Array:
        """Monte-Carlo standard error of each mean; NaN for a single replicate."""
        return np.array(
            [level.std(ddof=1) / np.sqrt(len(level)) if len(level) > 1 else np.nan for level in self.losses]
        )

    def levels(self, leakage: float) -> Array:
        """The true shares p = p0 + (1 - p0) a for a leakage rate p0."""
        return leakage + (1 - leakage) * self.injected

    def frame(self) -> Any:
        """A pandas DataFrame with columns injected, replicate, loss."""
        counts = [len(level) for level in self.losses]
        return data_frame(
            {
                "injected": np.repeat(self.injected, counts),
                "replicate": np.concatenate([np.arange(count) for count in counts]),
                "loss": np.concatenate(self.losses),
            },
            asked="frame()",
        )

    def jackknife(self) -> Jackknife:
        """Mean and variance of the jackknife's Z for every unit; InputError when no sums were kept."""
        if self.units == "none":
            raise InputError("These samples were drawn without the jackknife's sums (units='none').")
        count = np.array([len(level) for level in self.losses])[:, None]
        E, EE = np.moveaxis(self.validation_sums[:, :, TRAIN_SUMS : TRAIN_SUMS + 2], 2, 0)
        return Jackknife(
            self._pool(self.train_sizes, self.train_sums),
            self._pool(self.validation_sizes, self.validation_sums),
            _moments(self.validation_sizes, E, EE, count),
        )

    def _pool(self, sizes: NDArray[np.int64], sums: Array) -> PoolJackknife:
        count = np.array([len(level) for level in self.losses])[:, None]
        t = self.means[:, None]
        share = sizes / max(int(sizes.sum()), 1)
        N, Nt, NN, NNt, NNtt, NM, NMt, NMtt = np.moveaxis(sums[:, :, :TRAIN_SUMS], 2, 0)

        def total(column: Array) -> Array:
            return np.asarray(column.sum(axis=1, keepdims=True))

        S, St = N - share * total(N), Nt - share * total(Nt)
        squares = [
            own - 2 * share * both + share**2 * total(both) for own, both in ((NN, NM), (NNt, NMt), (NNtt, NMtt))
        ]
        first = St - t * S
        second = squares[2] - 2 * t * squares[1] + t**2 * squares[0]
        if sums.shape[2] == VALIDATION_SUMS:
            E, EE, NE, NEt, ME, MEt = np.moveaxis(sums[:, :, TRAIN_SUMS:], 2, 0)
            SE, SEt = NE - share * ME, NEt - share * MEt
            first = first + E
            second = second + EE + 2 * (SEt - t * SE)
        return _moments(sizes, first, second, count)

    def merge(self, other: Self) -> Self:
        """One larger run out of two of the same problem with different seeds.

        Levels that both have are joined, others are kept as they are.
        """
        differing = sorted(
            key for key in self.problem.keys() | other.problem.keys() if self.problem.get(key) != other.problem.get(key)
        )
        if differing or self.size != other.size or self.units != other.units:
            raise InputError(
                f"Samples of different problems cannot be merged: they differ in {', '.join(differing) or 'units'}."
            )
        if set(self.seeds) & set(other.seeds):
            raise InputError("Samples with the same seed cannot be merged: they are the same replicates.")
        injected = np.unique(np.concatenate([self.injected, other.injected]))
        parts = [
            [(run, int(np.flatnonzero(run.injected == a)[0])) for run in (self, other) if a in run.injected]
            for a in injected
        ]
        return replace(
            self,
            injected=injected,
            losses=tuple(np.concatenate([run.losses[i] for run, i in part]) for part in parts),
            redraws=np.array([sum(int(run.redraws[i]) for run, i in part) for part in parts]),
            train_sums=np.stack([sum(run.train_sums[i] for run, i in part) for part in parts]),
            validation_sums=np.stack([sum(run.validation_sums[i] for run, i in part) for part in parts]),
            seeds=self.seeds + other.seeds,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, in numpy's npz format without pickles; it is complete or not there at all."""
        target = Path(path)
        about = {
            "format": _FORMAT,
            "size": self.size,
            "units": self.units,
            "problem": self.problem,
            "seeds": [str(seed) for seed in self.seeds],
            "versions": self.versions,
        }
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            about=np.array(json.dumps(about)),
            injected=self.injected,
            counts=np.array([len(level) for level in self.losses]),
            losses=np.concatenate(self.losses),
            redraws=self.redraws,
            train_sizes=self.train_sizes,
            validation_sizes=self.validation_sizes,
            train_sums=self.train_sums,
            validation_sums=self.validation_sums,
        )
        half = target.with_name(target.name + ".part")
        half.write_bytes(buffer.getvalue())
        half.replace(target)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file written by :meth:`save`; nothing in it is ever unpickled."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                arrays = {name: file[name] for name in file.files if name != "about"}
        except FileNotFoundError:
            raise InputError(f"path must be a file of loss samples, got {str(path)!r}, which does not exist.") from None
        except Exception:
            raise InputError(f"path must be a file of loss samples, got {str(path)!r}, which is not one.") from None
        if about.get("format") != _FORMAT:
            raise InputError(f"path must hold samples of format {_FORMAT}, got format {about.get('format')!r}.")
        ends = np.cumsum(arrays.pop("counts"))[:-1]
        return cls(
            losses=tuple(np.split(arrays.pop("losses"), ends)),
            size=about["size"],
            units=about["units"],
            problem=about["problem"],
            seeds=tuple(int(seed) for seed in about["seeds"]),
            versions=about["versions"],
            **arrays,
        )


def _moments(sizes: NDArray[np.int64], first: Array, second: Array, count: NDArray[np.int64]) -> PoolJackknife:
    """Mean and variance out of the sums of a quantity and of its square."""
    mean = first / count
    variance = np.maximum(second / count - mean**2, 0) * count / np.maximum(count - 1, 1)
    return PoolJackknife(sizes, mean, variance)
