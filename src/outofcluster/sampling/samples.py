r"""LossSamples: what the fits of one split and one size of training sets leave behind.

For every level these are the losses t_b of the replicates, and how much every unit of V̂ (a cluster, or a record) moves
them by being scored,

.. math:: E_{bc} = \sum_{v ∈ c, v ∉ T'_b} (ℓ_{bv} - t_b)/|V'_b| ,

summed over b. Every fit scores all units that it did not draw, so that few fits give these means.

Effects can be kept for two kinds of units at once, clusters and records, so that the same fits give an interval for new
clusters and one for these clusters.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array, Codes, short, turns
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame

_KIND, _FORMAT = "loss samples", 4


@dataclass(frozen=True, eq=False)
class UnitEffects:
    """What one kind of units adds to the losses by being scored.

    Attributes
    ----------
    units : array of int
        Number of every unit of V̂ among all units of the data: of its cluster, or its row.
    sums : array of shape (levels, units)
        Sum of E over the replicates of each level.
    """

    units: Codes
    sums: Array


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
    effects : dict of UnitEffects
        What units add by being scored, by the kind of units: "clusters", "records", both or none.
    effective : array of shape (levels,)
        Effective number of training records to draw from; below their number where a level is drawn by weights.
    kept : array of shape (levels,)
        What the weights of a level leave of a leaked record; 1 for plain levels.
    strata : array of int of shape (levels,)
        Number of parts of the validation records that replicates score in turn; 1 for plain levels.
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
    effects: Mapping[str, UnitEffects]
    effective: Array
    kept: Array
    strata: Codes
    problem: dict[str, Any]
    seeds: tuple[int, ...]
    versions: dict[str, str]

    def __repr__(self) -> str:
        first, last = self.injected[0], self.injected[-1]
        return f"LossSamples({self.n_fits:,} losses at {len(self.losses)} levels, {first:g} to {last:g})"

    @property
    def units(self) -> tuple[str, ...]:
        """The kinds of units whose effects are kept."""
        return tuple(self.effects)

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

        Of a level whose replicates take turns (see ``strata``), turns stand for them where there are two.
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

    def influences(self, units: str | None = None) -> Array:
        """How much every unit of V̂ moves the mean loss of every level by being scored.

        Parameters
        ----------
        units : {"clusters", "records"}, optional
            Kind of units; by default the first kind whose effects were kept.

        Returns
        -------
        array of shape (levels, units)
            Means of E over replicates, for the units of ``effects[units].units``.
        """
        if not self.effects:
            raise InputError("These samples were drawn without the effects of units (units='none').")
        kind = self.units[0] if units is None else units
        if kind not in self.effects:
            raise InputError(
                f"units must be {' or '.join(map(repr, self.effects))} for these samples, got {short(units)}."
            )
        return np.asarray(self.effects[kind].sums / self.counts[:, None])

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
        return replace(self, losses=tuple(level + by for level in self.losses)) if by else self

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

        def added(kind: str) -> Array:
            return np.stack([sum(run.effects[kind].sums[i] for run, i in part) for part in parts])

        return replace(
            self,
            injected=injected,
            losses=tuple(np.concatenate([run.losses[i] for run, i in part]) for part in parts),
            redraws=np.array([sum(int(run.redraws[i]) for run, i in part) for part in parts]),
            # Each run told the sides apart anew, so that its weights are its own.
            effective=averaged("effective"),
            kept=averaged("kept"),
            strata=np.array([_joined_strata(part) for part in parts]),
            effects={kind: replace(each, sums=added(kind)) for kind, each in self.effects.items()},
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
    values = turns(losses, strata)
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.nan


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of the entries in which two descriptions differ, in alphabetical order."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
