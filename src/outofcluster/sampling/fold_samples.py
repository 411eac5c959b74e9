"""FoldSamples: what the fits of one audited fold leave behind.

These are the losses of the user's own model on the held-out records, the samples of every size of training sets, those
of second pieces and of models without likely leaks where there are any, and what tells the two sides of the split
apart. A fold can be merged with the same fold of a run of other seeds, and it becomes arrays for a file and is read
from these again, with its runs in the order of `FoldSamples.all_samples`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import starting_with
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.validation import Array
from outofcluster.sampling.samples import LossSamples, differing
from outofcluster.split.rate_check import RateCheck
from outofcluster.split.suspects import EntitySuspects

__all__ = ["FoldSamples", "SideFacts", "TrainScores"]

_OF_SCORED = ("rows", "clusters", "own_losses")
_OF_ENTITIES = ("train_clusters", "held_out_clusters", "probability", "n_records")
_OF_SIDES = ("rows", "ratio", "resembles")
_OF_TRAINED = ("rows", "clusters", "losses")
_OPTIONAL = ("second", "unmixed", "without_pieces")
_COUNTS = ("index", "n_train", "n_train_clusters")

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SideFacts:
    """How far the two sides of a split can be told apart by their records.

    Attributes
    ----------
    rows : array of int
        Rows of T̂.
    ratio : array
        Density ratio of V̂ to T̂ at each of them, by models that did not see it.
    resembles : array of int
        Number of the held-out cluster that each resembles, -1 where that is not known.
    auc : float
        Area under the ROC curve of the cross-fitted scores.
    log_loss : float
        Their log loss over that of knowing the sizes of the sides only: below 1 the records tell something.
    of_rates : RateCheck or None
        What the scores say about probabilities of single records, where such were given.
    """

    rows: Codes
    ratio: Array
    resembles: Codes
    auc: float
    log_loss: float
    of_rates: RateCheck | None = None


@dataclass(frozen=True, eq=False)
class TrainScores:
    """Losses on training records that a model was not fitted to, for leakage both ways.

    Attributes
    ----------
    rows, clusters : array of int
        Row and observed cluster of every training record.
    losses : array
        Loss of each, by models that were fitted to the other nine tenths of T̂.
    runs : tuple of LossSamples
        Losses of resamples on the records of T̂ that were not drawn, one run per size and the full one first. The sides
        are exchanged: the injected fraction is that of records drawn from T̂.
    """

    rows: Codes
    clusters: Codes
    losses: Array
    runs: tuple[LossSamples, ...]

    def units(self, kind: str) -> Codes:
        """The unit of every training record: its cluster, or its row.

        Parameters
        ----------
        kind : {"clusters", "records"}
            Kind of units.

        Returns
        -------
        array of int
        """
        return self.clusters if kind == "clusters" else self.rows


@dataclass(frozen=True, eq=False)
class FoldSamples:
    """One audited fold.

    Attributes
    ----------
    index : int
        Place among the folds of the cross-validation.
    n_train, n_train_clusters : int
        Records of T̂, and observed clusters that they belong to.
    rows, clusters : array of int
        Row and observed cluster of every held-out record.
    own_losses : array
        Loss of the user's own model, fitted to all of T̂, on each of these records. Their mean is the loss of the fold.
        Of a metric that is no mean over records these are pseudo losses with clusters as units.
    samples : LossSamples
        Losses of resamples at the full size of training sets.
    smaller : tuple of LossSamples
        Losses of smaller training sets, at the same levels.
    second : LossSamples or None
        Losses with and without a second piece of clusters of which one trains already (fragments).
    unmixed : LossSamples or None
        Losses at negative injected fractions, of the user's own training records without those that look leaked, and
        of draws in which they count more (records).
    without_pieces : LossSamples or None
        Losses of models without the likeliest pieces of held-out entities, and without as many other clusters; its size
        is the number of scored records (fragments).
    sides : SideFacts or None
        How far T̂ and V̂ can be told apart by their records.
    entities : EntitySuspects or None
        Training clusters that may be pieces of held-out entities (fragments).
    pseudo : dict of array
        Further pseudo losses: with "records" as units; "parts_clusters" and "parts_records", in which each part of V̂
        that is scored apart below the leakage rate has a metric of its own; "pooled_clusters" and "pooled_records",
        whose mean over the records of all folds is one metric of all of them. Empty for means over records.
    train_scores : TrainScores or None
        Losses on training records, where leakage the other way was asked for (records).
    """

    index: int
    n_train: int
    n_train_clusters: int
    rows: Codes
    clusters: Codes
    own_losses: Array
    samples: LossSamples
    smaller: tuple[LossSamples, ...] = ()
    second: LossSamples | None = None
    unmixed: LossSamples | None = None
    without_pieces: LossSamples | None = None
    sides: SideFacts | None = None
    entities: EntitySuspects | None = None
    pseudo: Mapping[str, Array] = field(default_factory=dict)
    train_scores: TrainScores | None = None

    @property
    def n_validation(self) -> int:
        """Held-out records."""
        return len(self.rows)

    @property
    def by_size(self) -> tuple[LossSamples, ...]:
        """The samples of every size, the full one first."""
        return (self.samples, *self.smaller)

    @property
    def all_samples(self) -> tuple[LossSamples, ...]:
        """Everything that was sampled in this fold."""
        others = (getattr(self, name) for name in _OPTIONAL)
        exchanged = () if self.train_scores is None else self.train_scores.runs
        return (*self.by_size, *(samples for samples in others if samples is not None), *exchanged)

    @property
    def of_cuts(self) -> tuple[LossSamples, ...]:
        """The samples for which clusters were cut (fragments)."""
        return (self.samples,) if self.second is None else (self.samples, self.second)

    @property
    def n_fits(self) -> int:
        """Models fitted to resamples."""
        return sum(samples.n_fits for samples in self.all_samples)

    def scored_units(self, units: str) -> Codes:
        """The unit of every held-out record: its cluster, or its row.

        Parameters
        ----------
        units : {"clusters", "records"}
            Kind of units.

        Returns
        -------
        array of int
        """
        return self.clusters if units == "clusters" else self.rows

    def losses_by(self, units: str, of: Literal["fold", "parts", "pooled"] = "fold") -> Array:
        """Losses of the held-out records of the user's own model, or pseudo losses for a kind of units.

        Parameters
        ----------
        units : {"clusters", "records"}
            Kind of units.
        of : {"fold", "parts", "pooled"}
            Whether their mean is the metric of the fold, the mean of those of the parts of V̂, or, over all folds, one
            metric of all held-out records.

        Returns
        -------
        array
        """
        fold = self.pseudo.get("records", self.own_losses) if units == "records" else self.own_losses
        return fold if of == "fold" else self.pseudo.get(f"{of}_{units}", fold)

    def merge(self, other: Self) -> Self:
        """One fold with the replicates of two runs of other seeds; losses of the user's own models are averaged.

        Parameters
        ----------
        other : FoldSamples
            The same fold of the other run.

        Returns
        -------
        FoldSamples
        """
        names = differing(self.samples.problem, other.samples.problem)
        if names:
            raise InputError(
                f"Audits of different problems cannot be merged: fold {self.index} differs in {', '.join(names)}."
            )
        sizes = {samples.size: samples for samples in other.smaller}
        counts = [len(fold.samples.seeds) for fold in (self, other)]
        return replace(
            self,
            own_losses=np.average([self.own_losses, other.own_losses], axis=0, weights=counts),
            pseudo={
                name: np.average([losses, other.pseudo[name]], axis=0, weights=counts)
                for name, losses in self.pseudo.items()
                if name in other.pseudo
            },
            samples=self.samples.merge(other.samples),
            smaller=tuple(samples.merge(sizes[samples.size]) for samples in self.smaller if samples.size in sizes),
            second=_merge_optional(self.second, other.second),
            unmixed=_merge_optional(self.unmixed, other.unmixed),
            without_pieces=_merge_optional(self.without_pieces, other.without_pieces),
            train_scores=_merge_train_scores(self.train_scores, other.train_scores, counts),
        )

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays that hold everything; `from_arrays` reads them.

        Returns
        -------
        about : dict
            What JSON can hold.
        arrays : dict of array
            The numbers, by name.
        """
        runs, arrays = list[dict[str, Any]](), dict[str, NDArray[Any]]()
        for run, samples in enumerate(self.all_samples):
            of_run, own = samples.to_arrays()
            runs.append(of_run)
            arrays |= {f"run{run}_{name}": array for name, array in own.items()}
        arrays |= {name: getattr(self, name) for name in _OF_SCORED}
        arrays |= {f"pseudo_{name}": losses for name, losses in self.pseudo.items()}
        about: dict[str, Any] = {name: int(getattr(self, name)) for name in _COUNTS}
        if self.train_scores is not None:
            arrays |= {f"trained_{name}": getattr(self.train_scores, name) for name in _OF_TRAINED}
            about["train_scores"] = len(self.train_scores.runs)
        if self.sides is not None:
            arrays |= {f"sides_{name}": getattr(self.sides, name) for name in _OF_SIDES}
        about["entities"] = None
        if self.entities is not None:
            arrays |= {f"entities_{name}": getattr(self.entities, name) for name in _OF_ENTITIES}
            about["entities"] = {"auc": float(self.entities.auc), "identified": bool(self.entities.identified)}
        about["sides"] = None
        if self.sides is not None:
            about["sides"] = {"auc": self.sides.auc, "log_loss": self.sides.log_loss}
            about["sides"] |= {} if self.sides.of_rates is None else {"of_rates": plain(self.sides.of_rates)}
        return about | {"runs": runs, **{name: getattr(self, name) is not None for name in _OPTIONAL}}, arrays

    @classmethod
    def from_arrays(cls, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The fold that `to_arrays` was called on.

        Parameters
        ----------
        about : dict
            The plain data.
        arrays : dict of array
            The numbers.

        Returns
        -------
        FoldSamples
        """
        runs = [
            LossSamples.from_arrays(of_run, starting_with(arrays, f"run{run}_"))
            for run, of_run in enumerate(about["runs"])
        ]
        n_exchanged = about.get("train_scores", 0)
        exchanged = tuple(runs[len(runs) - n_exchanged :])
        runs = runs[: len(runs) - n_exchanged]
        optional: dict[str, Any] = {name: runs.pop() for name in reversed(_OPTIONAL) if about[name]}
        own: dict[str, Any] = {name: arrays[name] for name in _OF_SCORED}
        counts = {name: about[name] for name in _COUNTS}
        sides = None
        if about["sides"] is not None:
            facts = {name: arrays[f"sides_{name}"] for name in _OF_SIDES}
            of_sides = dict(about["sides"])
            if "of_rates" in of_sides:
                of_sides["of_rates"] = RateCheck(**of_sides["of_rates"])
            sides = SideFacts(facts["rows"], facts["ratio"], facts["resembles"], **of_sides)
        entities = None
        if about["entities"] is not None:
            of_pairs: dict[str, Any] = {name: arrays[f"entities_{name}"] for name in _OF_ENTITIES}
            entities = EntitySuspects(**of_pairs, **about["entities"])
        optional |= {"sides": sides, "entities": entities}
        optional["pseudo"] = starting_with(arrays, "pseudo_")
        if n_exchanged:
            trained = (arrays[f"trained_{name}"] for name in _OF_TRAINED)
            optional["train_scores"] = TrainScores(*trained, exchanged)  # type: ignore[call-arg, arg-type]
        return cls(**counts, **own, samples=runs[0], smaller=tuple(runs[1:]), **optional)


def _merge_train_scores(one: TrainScores | None, other: TrainScores | None, counts: list[int]) -> TrainScores | None:
    if one is None or other is None:
        return None
    sizes = {run.size: run for run in other.runs}
    runs = tuple(run.merge(sizes[run.size]) for run in one.runs if run.size in sizes)
    return replace(one, losses=np.average([one.losses, other.losses], axis=0, weights=counts), runs=runs)


def _merge_optional(one: LossSamples | None, other: LossSamples | None) -> LossSamples | None:
    return None if one is None or other is None else one.merge(other)
