r"""LossSamples: what the fits of one split and one size of training sets leave behind.

For every level these are the losses t_b of the replicates, and the sums that the infinitesimal jackknife needs. With
N_bc the number of draws of unit c (a cluster, or a record) in replicate b, M_b all draws from its pool, |c| the number
of records of the unit and n_P that of the pool,

.. math:: S_{bc} = N_{bc} - M_b |c|/n_P, \qquad Z_{bc} = S_{bc}(t_b - \bar t) + E_{bc},

where for validation units :math:`E_{bc} = \sum_{v ∈ c, v ∉ T'_b} (ℓ_{bv} - t_b)/|V'_b|` is the effect of c on
the evaluation, 0 for training units. The jackknife needs mean and variance of Z over b. S is dense in c but N
is sparse, so the sums that are stored are those of N, Nt, N², N²t, N²t², NM, NMt, NMt² and, for validation, E,
E², NE, NEt, ME, MEt; since the units of a pool make up all of it, ΣM, ΣMt, ΣM², … are sums of these over c, and
the moments of Z follow.

Sums can be kept for two kinds of units at once, clusters and records, so that the same fits give an interval for new
clusters and one for these clusters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array, Codes, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame

_KIND, _FORMAT = "loss samples", 3
# Columns of the jackknife's sums, in the order of the module's head.
TRAIN_SUMS, VALIDATION_SUMS = 8, 14


@dataclass(frozen=True, eq=False)
class UnitSums:
    """The jackknife's sums for one kind of units.

    Attributes
    ----------
    train_units, validation_units : array of int
        Number of every unit of T̂ and of V̂ among all units of the data: of its cluster, or its row.
    train_sizes, validation_sizes : array of int
        Records in each of these units.
    train, validation : array of shape (levels, units, columns)
        The sums.
    """

    train_units: Codes
    validation_units: Codes
    train_sizes: Codes
    validation_sizes: Codes
    train: Array
    validation: Array


@dataclass(frozen=True)
class PoolJackknife:
    """Mean and variance over replicates of Z, one row per level and one column per unit, and the units' sizes."""

    sizes: Codes
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


@dataclass(frozen=True, eq=False)
class LossSamples:
    """Losses of models fitted to resamples, at injected fractions a of validation records.

    Attributes
    ----------
    injected : array of shape (levels,)
        Injected fractions, increasing.
    losses : tuple of arrays
        Replicate losses, one array per level.
    redraws : array of int
        How many resamples of each level were drawn again since they held a single class, left nothing to score, or
        left the metric without a value.
    size : int
        n of the binomial operator: training records, or clusters that can be cut.
    sums : dict of UnitSums
        The jackknife's sums, by the kind of units that they are kept for: "clusters", "records", both or none.
    effective : array of shape (levels,)
        Effective number of training records to draw from; below their number where a level is drawn by weights.
    kept : array of shape (levels,)
        What the weights of a level leave of a leaked record; 1 for plain levels.
    strata : array of int of shape (levels,)
        Number of parts of the validation records that replicates score in turn, or of laws by which they cut clusters
        in turn; 1 for plain levels.
    problem : dict
        What was sampled: digests of data and rows, estimator, loss, error model. Runs merge only if these are the same.
    seeds : tuple of int
        Entropy of the run, or of all runs that were merged.
    versions : dict
        Versions of the packages that it was made with.
    """

    injected: Array
    losses: tuple[Array, ...]
    redraws: Array
    size: int
    sums: Mapping[str, UnitSums]
    effective: Array
    kept: Array
    strata: Codes
    problem: dict[str, Any]
    seeds: tuple[int, ...]
    versions: dict[str, str]

    @property
    def units(self) -> tuple[str, ...]:
        """The kinds of units that the jackknife's sums are kept for."""
        return tuple(self.sums)

    @property
    def n_fits(self) -> int:
        """Number of replicates over all levels."""
        return sum(len(level) for level in self.losses)

    @property
    def counts(self) -> Codes:
        """Number of replicates at each level."""
        return np.array([len(level) for level in self.losses])

    @property
    def means(self) -> Array:
        """Mean loss at each level, b."""
        return np.array([level.mean() for level in self.losses])

    @property
    def standard_errors(self) -> Array:
        """Monte-Carlo standard error of each mean; NaN for a single replicate.

        Of a level whose replicates take turns (see ``strata``), only the spread within each turn counts.
        """
        return np.array(
            [_standard_error(level, int(strata)) for level, strata in zip(self.losses, self.strata, strict=True)]
        )

    def levels(self, leakage: float) -> Array:
        """The true shares p = p0 + (1 - p0) a for a leakage rate.

        Parameters
        ----------
        leakage : float
            The rate p0.

        Returns
        -------
        array
            One share per level.
        """
        return leakage + (1 - leakage) * self.injected

    def to_frame(self) -> Any:
        """All losses as a table.

        Returns
        -------
        pandas.DataFrame
            One row per replicate, with the columns injected, replicate and loss.
        """
        return data_frame(
            {
                "injected": np.repeat(self.injected, self.counts),
                "replicate": np.concatenate([np.arange(count) for count in self.counts]),
                "loss": np.concatenate(self.losses),
            }
        )

    def plot(self, ax: Any = None) -> Any:
        """Draw the losses by level; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        LossSamplesDisplay
        """
        from outofcluster.present.display import LossSamplesDisplay

        return LossSamplesDisplay.from_samples(self).plot(ax)

    def jackknife(self, units: str | None = None) -> Jackknife:
        """Mean and variance of the jackknife's Z for every unit.

        Parameters
        ----------
        units : {"clusters", "records"}, optional
            Kind of units; by default the first kind that sums were kept for.

        Returns
        -------
        Jackknife
            For the units of T̂ and of V̂.
        """
        if not self.sums:
            raise InputError("These samples were drawn without the jackknife's sums (units='none').")
        kind = self.units[0] if units is None else units
        if kind not in self.sums:
            raise InputError(
                f"units must be {' or '.join(map(repr, self.sums))} for these samples, got {short(units)}."
            )
        sums = self.sums[kind]
        E, EE = np.moveaxis(sums.validation[:, :, TRAIN_SUMS : TRAIN_SUMS + 2], 2, 0)
        return Jackknife(
            self._pool(sums.train_sizes, sums.train),
            self._pool(sums.validation_sizes, sums.validation),
            _moments(sums.validation_sizes, E, EE, self.counts[:, None]),
        )

    def _pool(self, sizes: Codes, sums: Array) -> PoolJackknife:
        count, t = self.counts[:, None], self.means[:, None]
        share = sizes / max(int(sizes.sum()), 1)
        N, Nt, NN, NNt, NNtt, NM, NMt, NMtt = np.moveaxis(sums[:, :, :TRAIN_SUMS], 2, 0)

        def total(column: Array) -> Array:
            return np.asarray(column.sum(axis=1, keepdims=True))

        S, St = N - share * total(N), Nt - share * total(Nt)
        SS, SSt, SStt = (
            square - 2 * share * both + share**2 * total(both) for square, both in ((NN, NM), (NNt, NMt), (NNtt, NMtt))
        )
        first = St - t * S
        second = SStt - 2 * t * SSt + t**2 * SS
        if sums.shape[2] == VALIDATION_SUMS:
            E, EE, NE, NEt, ME, MEt = np.moveaxis(sums[:, :, TRAIN_SUMS:], 2, 0)
            SE, SEt = NE - share * ME, NEt - share * MEt
            first = first + E
            second = second + EE + 2 * (SEt - t * SE)
        return _moments(sizes, first, second, count)

    def shifted(self, by: float) -> Self:
        """The same samples of losses that are all larger by a number.

        Parameters
        ----------
        by : float
            The number.

        Returns
        -------
        LossSamples
        """
        if not by or not self.losses:  # The first fit may fail, and then no level has been sampled.
            return self

        def moved(sums: Array) -> Array:
            N, Nt, NN, NNt, NNtt, NM, NMt, NMtt = np.moveaxis(sums[:, :, :TRAIN_SUMS], 2, 0)
            columns = [N, Nt + by * N, NN, NNt + by * NN, NNtt + 2 * by * NNt + by**2 * NN]
            columns += [NM, NMt + by * NM, NMtt + 2 * by * NMt + by**2 * NM]
            if sums.shape[2] == VALIDATION_SUMS:
                E, EE, NE, NEt, ME, MEt = np.moveaxis(sums[:, :, TRAIN_SUMS:], 2, 0)
                columns += [E, EE, NE, NEt + by * NE, ME, MEt + by * ME]
            return np.stack(columns, axis=2)

        sums = {
            kind: replace(unit_sums, train=moved(unit_sums.train), validation=moved(unit_sums.validation))
            for kind, unit_sums in self.sums.items()
        }
        return replace(self, losses=tuple(level + by for level in self.losses), sums=sums)

    def merge(self, other: Self) -> Self:
        """One larger run from two runs of the same problem with different seeds.

        Levels that both runs have are joined; others stay as they are.

        Parameters
        ----------
        other : LossSamples
            The other run.

        Returns
        -------
        LossSamples
            The replicates of both runs.
        """
        if not isinstance(other, LossSamples):
            raise InputError(f"other must be LossSamples, got {short(other)}.")
        names = differing(self.problem, other.problem) or (["units"] if self.units != other.units else [])
        if names:
            raise InputError(f"Samples of different problems cannot be merged: they differ in {', '.join(names)}.")
        if set(self.seeds) & set(other.seeds):
            raise InputError("Samples with the same seed cannot be merged: they are the same replicates.")
        injected = np.unique(np.concatenate([self.injected, other.injected]))
        parts = [
            [(run, int(np.flatnonzero(run.injected == a)[0])) for run in (self, other) if a in run.injected]
            for a in injected
        ]

        def averaged(name: str) -> Array:
            counts = [[len(run.losses[i]) for run, i in part] for part in parts]
            values = [[getattr(run, name)[i] for run, i in part] for part in parts]
            return np.array([np.average(of, weights=by) for of, by in zip(values, counts, strict=True)])

        def added(kind: str, side: str) -> Array:
            return np.stack([sum(getattr(run.sums[kind], side)[i] for run, i in part) for part in parts])

        return replace(
            self,
            injected=injected,
            losses=tuple(np.concatenate([run.losses[i] for run, i in part]) for part in parts),
            redraws=np.array([sum(int(run.redraws[i]) for run, i in part) for part in parts]),
            # Each run told the sides apart anew, so that its weights are its own.
            effective=averaged("effective"),
            kept=averaged("kept"),
            strata=np.array([_joined_strata(part) for part in parts]),
            sums={
                kind: replace(sums, train=added(kind, "train"), validation=added(kind, "validation"))
                for kind, sums in self.sums.items()
            },
            seeds=self.seeds + other.seeds,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, a zip of arrays and JSON without pickles, which is complete or not there at all.

        Parameters
        ----------
        path : path
            The file.
        """
        write_archive(path, _KIND, _FORMAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote; nothing in it is unpickled.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        LossSamples
        """
        return read_archive(path, _KIND, _FORMAT, cls)


def _joined_strata(runs: Sequence[tuple[LossSamples, int]]) -> int:
    """Turns of a level of joined runs, given its index in each; 1 where a run ends within a round of turns."""
    run, level = runs[0]
    strata = int(run.strata[level])
    return strata if len(runs) == 1 or len(run.losses[level]) % strata == 0 else 1


def _standard_error(losses: Array, strata: int) -> float:
    if len(losses) < 2:
        return np.nan
    if strata == 1 or len(losses) < 2 * strata:
        return float(losses.std(ddof=1) / np.sqrt(len(losses)))
    within = np.mean([losses[part::strata].var(ddof=1) for part in range(strata)])
    return float(np.sqrt(within / len(losses)))


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the entries in which two descriptions differ, in alphabetical order."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def _moments(sizes: Codes, first: Array, second: Array, count: Codes) -> PoolJackknife:
    """Mean and variance from the sums of a quantity and of its square."""
    mean = first / count
    variance = np.maximum(second / count - mean**2, 0) * count / np.maximum(count - 1, 1)
    return PoolJackknife(sizes, mean, variance)
