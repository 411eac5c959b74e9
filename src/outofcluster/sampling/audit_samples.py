"""AuditSamples: everything that the solving half of an audit needs from its fits, for all folds, in one object.

It holds what was sampled in every fold (:mod:`outofcluster.sampling.audit_samples`), the losses over random folds, the
losses behind the test for a cluster effect, and what identifies the run (digests of the data, seeds, versions). It
knows no records, no models and no leakage rate. It can be saved, read again, and merged with a run of other seeds.

FoldSamples: what the fits of one audited fold leave behind.

These are the losses of the user's own model on the held-out records, the samples of every size of training sets, those
of second pieces and of models without likely leaks where there are any, and what tells the two sides of the split
apart. A fold can be merged with the same fold of a run of other seeds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame, plain
from outofcluster.evidence.laws import KINDS, AssumedCuts, Law, read_law
from outofcluster.evidence.suspects import EntitySuspects, RateCheck
from outofcluster.metrics.facts import MetricFacts
from outofcluster.problem.folds import ClusterSizes
from outofcluster.sampling.samples import LossSamples, differing

_KIND, _FORMAT = "audit samples", 3

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RandomFolds:
    """Losses over folds that ignore clusters: the row of each scored record, and its loss."""

    rows: Codes
    losses: Array


@dataclass(frozen=True)
class FoldSizes:
    """How many folds each split has, and how large they are.

    Attributes
    ----------
    n_train_folds, n_validation_folds : int
        Training folds from T̂ and from V̂ (n_T and n'_T in the paper).
    n_train, n_scored : int
        Records of a training fold and of a validation fold (n' and n_V).
    """

    n_train_folds: int
    n_validation_folds: int
    n_train: int
    n_scored: int

    @property
    def from_train(self) -> int:
        """Records that a split takes from T̂."""
        return self.n_train_folds * self.n_train

    @property
    def from_validation(self) -> int:
        """Records that a split takes from V̂."""
        return self.n_validation_folds * self.n_train + (self.n_train_folds + self.n_validation_folds) * self.n_scored


@dataclass(frozen=True, eq=False)
class EffectLosses:
    """Losses of models on held-out records whose clusters did not train them, and on those whose clusters did.

    Attributes
    ----------
    train, validation : array
        Mean losses of models trained on other clusters, and on the clusters themselves: one row per drawing of the
        models (a split of the paper's test), one column per model.
    sizes : FoldSizes
        Models of each kind, and their records.
    numbers : array of shape (4,) or (0,)
        By how much clusters that train lower their own loss, the standard error of that, its degrees of freedom, and
        the number of independent units; empty for the paper's test, which needs the losses only.
    units : {"clusters", "records"}
        The independent units.
    """

    train: Array
    validation: Array
    sizes: FoldSizes
    numbers: Array = field(default_factory=lambda: np.zeros(0))
    units: str = "records"


@dataclass(frozen=True, eq=False)
class AuditSamples:
    """The losses of an audit, from which every answer is solved without another fit.

    Attributes
    ----------
    folds : tuple of FoldSamples
        The folds that could be audited.
    random_folds : RandomFolds
        Losses over folds that ignore clusters.
    effect : EffectLosses or None
        Losses behind the test for a cluster effect, None where there are too few records for it.
    effect_problem : str
        Why there are none.
    left_out : dict
        Why a fold could not be audited, by its place among the folds.
    error_model : {"records", "fragments"}
        How clustering errors were injected.
    metric : MetricFacts
        What the losses are losses of. A metric of which a greater value is better is stored as minus its value.
    cluster_names : tuple of str
        Names of the observed clusters, by their numbers.
    training_share : float
        What training clusters add to the variance between clusters, as a share of that of the evaluation, where the
        resamples do not show it (fragments).
    observed : ClusterSizes or None
        How large the observed clusters of all records are; None in files of earlier versions.
    fold_sizes : tuple of int
        Held-out records of every fold, also of those that could not be audited; empty in files of earlier versions.
    """

    folds: tuple[FoldSamples, ...]
    random_folds: RandomFolds
    effect: EffectLosses | None
    effect_problem: str
    left_out: dict[int, str]
    error_model: str
    metric: MetricFacts
    cluster_names: tuple[str, ...] = ()
    training_share: float = 0.0
    observed: ClusterSizes | None = None
    fold_sizes: tuple[int, ...] = ()

    @property
    def loss(self) -> str:
        """Name of the metric."""
        return self.metric.name

    @property
    def loss_range(self) -> tuple[float, float]:
        """Smallest and largest possible loss."""
        return self.metric.loss_range

    @cached_property
    def pieces(self) -> Law | None:
        """The law of the pieces that clusters were cut by; None where all sizes were as likely, in earlier versions."""
        return read_law(self.folds[0].samples.problem.get("law"))

    def by_cuts(self, kind: str) -> Self:
        """The samples of those replicates alone that cut clusters by one of the assumed laws."""

        def alone(samples: LossSamples | None) -> Any:
            if samples is None:
                return None
            losses = tuple(level[KINDS.index(kind) :: len(KINDS)] for level in samples.losses)
            problem = samples.problem | {"law": plain(AssumedCuts(kind))}
            return replace(samples, losses=losses, strata=np.ones_like(samples.strata), problem=problem)

        folds = tuple(replace(fold, samples=alone(fold.samples), second=alone(fold.second)) for fold in self.folds)
        return replace(self, folds=folds)

    @cached_property
    def rate_check(self) -> RateCheck | None:
        """What the records of all folds say about probabilities of single records; None where none were given."""
        checks = [None if fold.sides is None else fold.sides.of_rates for fold in self.folds]
        return RateCheck.pooled([check for check in checks if check is not None])

    @property
    def units(self) -> tuple[str, ...]:
        """The kinds of units for which there can be intervals."""
        return self.folds[0].samples.units

    @property
    def estimator(self) -> str:
        """The model, as it prints itself."""
        return str(self.folds[0].samples.problem.get("estimator", ""))

    @property
    def versions(self) -> dict[str, str]:
        """Version of each package, several where runs of different dates were merged."""
        versions: dict[str, list[str]] = {}
        for fold in self.folds:
            for name, version in fold.samples.versions.items():
                if version not in versions.setdefault(name, []):
                    versions[name].append(version)
        return {name: ", ".join(several) for name, several in versions.items()}

    @cached_property
    def cluster_sizes(self) -> Codes:
        """Records in each observed cluster of every fold's V̂."""
        counts = [np.bincount(fold.clusters) for fold in self.folds]
        return np.concatenate([of_fold[of_fold > 0] for of_fold in counts])

    def to_frame(self) -> Any:
        """All losses of resamples as a table."""
        rows: dict[str, list[Any]] = {
            name: [] for name in ("fold", "size", "second_piece", "injected", "replicate", "loss")
        }
        for fold in self.folds:
            for samples in fold.all_samples:
                for level, losses in zip(samples.injected, samples.losses, strict=True):
                    rows["fold"] += [fold.index] * len(losses)
                    rows["size"] += [samples.size] * len(losses)
                    rows["second_piece"] += [samples is fold.second] * len(losses)
                    rows["injected"] += [float(level)] * len(losses)
                    rows["replicate"] += range(len(losses))
                    rows["loss"] += losses.tolist()
        return data_frame(rows)

    def merge(self, other: Self) -> Self:
        """One larger run from two runs of the same problem with different seeds.

        The losses of the user's own models and of the random folds are averaged over both runs; the test for a cluster
        effect stays that of the first.
        """
        for name in ("loss", "error_model", "units"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"Audits can be merged only if their {name} is the same, got {short(mine)} and {short(theirs)}."
                )
        indices = [tuple(fold.index for fold in run.folds) for run in (self, other)]
        if indices[0] != indices[1]:
            raise InputError(
                f"Audits can be merged only if they have the same folds, got {indices[0]} and {indices[1]}."
            )
        folds = tuple(mine.merge(theirs) for mine, theirs in zip(self.folds, other.folds, strict=True))
        weights = [len(run.folds[0].samples.seeds) for run in (self, other)]
        order = [np.argsort(run.random_folds.rows) for run in (self, other)]
        random = [run.random_folds.losses[places] for run, places in zip((self, other), order, strict=True)]
        rows = self.random_folds.rows[order[0]]
        return replace(self, folds=folds, random_folds=RandomFolds(rows, np.average(random, axis=0, weights=weights)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, a zip of arrays and JSON without pickles, which is complete or not there at all."""
        write_archive(path, _KIND, _FORMAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote; nothing in it is unpickled."""
        return read_archive(path, _KIND, _FORMAT, cls)


_OPTIONAL = ("second", "unmixed", "without_pieces")


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
        """The unit of every training record: its cluster, or its row."""
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
        """The unit of every held-out record: its cluster, or its row."""
        return self.clusters if units == "clusters" else self.rows

    def losses_by(self, units: str, of: Literal["fold", "parts", "pooled"] = "fold") -> Array:
        """Losses of the held-out records of the user's own model, or pseudo losses for a kind of units."""
        fold = self.pseudo.get("records", self.own_losses) if units == "records" else self.own_losses
        return fold if of == "fold" else self.pseudo.get(f"{of}_{units}", fold)

    def merge(self, other: Self) -> Self:
        """One fold with the replicates of two runs of other seeds; losses of the user's own models are averaged."""
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


def _merge_train_scores(one: TrainScores | None, other: TrainScores | None, counts: list[int]) -> TrainScores | None:
    if one is None or other is None:
        return None
    sizes = {run.size: run for run in other.runs}
    runs = tuple(run.merge(sizes[run.size]) for run in one.runs if run.size in sizes)
    return replace(one, losses=np.average([one.losses, other.losses], axis=0, weights=counts), runs=runs)


def _merge_optional(one: LossSamples | None, other: LossSamples | None) -> LossSamples | None:
    return None if one is None or other is None else one.merge(other)
