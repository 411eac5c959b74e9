"""AuditSamples: everything that the solving half of an audit needs from its fits, for all folds, in one object.

It holds what was sampled in every fold, the losses over random folds, the losses behind the test for a cluster effect,
and what identifies the run (digests of the data, seeds, versions). It knows no records, no models and no leakage rate.
Of records it has losses or, where a metric such as AUC has none for them, targets and predictions. It can be saved,
read again, and merged with a run of other seeds.

What the fits of a fold leave behind has a *role* (`FoldSamples.runs`):

"main"
    resamples of the full size of training sets;
"size 40"
    smaller training sets, of 40 records, at the same levels;
"unmixed"
    the user's own training records without those that look leaked (negative injected fractions), and draws in which
    these count more;
"uncaught"
    of imitated pieces, those alone that would not be caught;
"exchanged", "exchanged, size 40"
    resamples that are scored on the records of T̂ that were not drawn, with the sides exchanged: the injected fraction
    is that of records drawn from T̂.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

import numpy as np

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array, Codes, short
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame
from outofcluster.evidence.entities import EntitySuspects
from outofcluster.evidence.likely import LikelyPieces, SeenPieces, joined_pieces, joined_seen
from outofcluster.evidence.looked_up import LookUps, same_look_ups
from outofcluster.evidence.sides import RateCheck
from outofcluster.metrics.facts import MetricFacts
from outofcluster.metrics.resolve import NamedMetric
from outofcluster.problem.folds import ClusterSizes
from outofcluster.sampling.samples import LossSamples, differing

_KIND, _FORMAT = "audit samples", 6


MAIN, UNMIXED, UNCAUGHT = "main", "unmixed", "uncaught"
_PIECES = "fragments"
_SMALLER, _EXCHANGED = "size ", "exchanged"


def has_pieces(error_model: str) -> bool:
    """Whether pieces of entities leak by the error model of this name, and not single records."""
    return error_model == _PIECES


def smaller(size: int) -> str:
    """The role of smaller training sets of a size."""
    return f"{_SMALLER}{size}"


def exchanged(role: str) -> str:
    """The role of the same size with the sides exchanged."""
    return _EXCHANGED if role == MAIN else f"{_EXCHANGED}, {role}"


def is_exchanged(role: str) -> bool:
    """Whether models of this role are scored on training records."""
    return role.startswith(_EXCHANGED)


def base_role(role: str) -> str:
    """The same role with the sides as they are."""
    return (role.removeprefix(_EXCHANGED).removeprefix(", ") or MAIN) if is_exchanged(role) else role


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
class TrainLosses:
    """Losses of training records, by models that were fitted to the other nine tenths of T̂.

    Attributes
    ----------
    rows, clusters : array of int
        Row and observed cluster of every training record.
    losses : array
        Loss of each.
    """

    rows: Codes
    clusters: Codes
    losses: Array

    def units(self, kind: str) -> Codes:
        """The unit of every training record: its cluster, or its row."""
        return self.clusters if kind == "clusters" else self.rows


@dataclass(frozen=True, eq=False)
class FoldSamples:
    """One audited fold.

    Attributes
    ----------
    index : int
        Number of the fold in the cross-validation.
    n_train, n_train_clusters : int
        Records of T̂, and observed clusters that they belong to.
    rows, clusters : array of int
        Row and observed cluster of every held-out record.
    own_losses : array
        Loss of the user's own model, fitted to all of T̂, on each of these records. Their mean is the loss of the fold.
        Of a metric that is no mean over records these are pseudo losses with clusters as units.
    runs : dict of LossSamples
        What was sampled, by its role.
    pseudo : dict of array
        Further pseudo losses: with "records" as units; "parts_clusters" and "parts_records", in which each part of V̂
        that is scored apart below the leakage rate has a metric of its own; "pooled_clusters" and "pooled_records",
        whose mean over the records of all folds is one metric of all of them. Empty for means over records.
    train_losses : TrainLosses or None
        Losses on training records, where leakage the other way was asked for (records).
    sides : SideFacts or None
        How far T̂ and V̂ can be told apart by their records.
    entities : EntitySuspects or None
        Training clusters that may be pieces of held-out entities (fragments).
    likely : LikelyPieces or None
        Those that are likelier than not (fragments).
    measured : dict of dict of array
        Losses of the held-out records by models without some training clusters (fragments), each in the form of
        ``own_losses`` ("own") and ``pseudo``: "seen" without the likely pieces, "control" without as many others,
        "looked up" without the pieces that somebody looked up.
    predicted : dict of array
        Of a metric of a set of records that is known by its name, what it needs to be computed of some records: the
        predictions of the user's own model ("own") and of the models that are measured, the "target" and the "weight"
        (:mod:`outofcluster.sampling.predicted`). Empty for other metrics.
    """

    index: int
    n_train: int
    n_train_clusters: int
    rows: Codes
    clusters: Codes
    own_losses: Array
    runs: dict[str, LossSamples]
    pseudo: dict[str, Array] = field(default_factory=dict)
    train_losses: TrainLosses | None = None
    sides: SideFacts | None = None
    entities: EntitySuspects | None = None
    likely: LikelyPieces | None = None
    measured: dict[str, dict[str, Array]] = field(default_factory=dict)
    predicted: dict[str, Array] = field(default_factory=dict)

    @property
    def n_validation(self) -> int:
        """Held-out records."""
        return len(self.rows)

    @property
    def main(self) -> LossSamples:
        """Resamples of the full size of training sets."""
        return self.runs[MAIN]

    @property
    def size_roles(self) -> tuple[str, ...]:
        """The roles of all sizes, the full one first."""
        return (MAIN, *(role for role in self.runs if role.startswith(_SMALLER)))

    @property
    def n_fits(self) -> int:
        """Models fitted to resamples."""
        # The pieces that would not be caught are scored by the models of the main run.
        return sum(run.n_fits for role, run in self.runs.items() if role != UNCAUGHT)

    def scored_units(self, units: str) -> Codes:
        """The unit of every held-out record: its cluster, or its row."""
        return self.clusters if units == "clusters" else self.rows

    def losses_by(self, units: str, of: Literal["fold", "parts", "pooled"] = "fold") -> Array:
        """Losses of the held-out records of the user's own model, or pseudo losses for a kind of units."""
        return _by_units(self.own_losses, self.pseudo, units, of)

    def measured_by(self, name: str, units: str, of: Literal["fold", "pooled"] = "fold") -> Array:
        """The same for a model without some training clusters; those of the user's own model where there is none."""
        losses = self.measured.get(name, {})
        if not len(losses.get("own", ())):
            return self.losses_by(units, of)
        return _by_units(losses["own"], losses, units, of)

    def without_sizes(self, roles: Sequence[str]) -> Self:
        """The same fold without some sizes of training sets."""
        return replace(self, runs={role: run for role, run in self.runs.items() if role not in roles})

    def merge(self, other: Self, counts: Sequence[int] = (1, 1)) -> Self:
        """One fold with the replicates of two audits of other seeds; losses of models of all of T̂ are averaged.

        So are those of models without some training clusters. Another seed may leave out others, and then the losses
        are those of both ways to leave some out, and all likely pairs count. An audit that is itself made of several
        counts as often, by ``counts``. Predictions are kept where both have the same ones.
        """
        names = differing(self.main.problem, other.main.problem)
        if names:
            raise InputError(
                f"Audits of different problems cannot be merged: fold {self.index} differs in {', '.join(names)}."
            )

        def averaged(first: Array, second: Array) -> Array:
            return np.asarray(np.average([first, second], axis=0, weights=counts))

        pseudo = {name: averaged(self.pseudo[name], other.pseudo[name]) for name in self.pseudo if name in other.pseudo}
        mine, theirs = self.train_losses, other.train_losses
        same = self.predicted.keys() == other.predicted.keys() and all(
            np.array_equal(each, other.predicted[name]) for name, each in self.predicted.items()
        )
        return replace(
            self,
            own_losses=averaged(self.own_losses, other.own_losses),
            pseudo=pseudo,
            runs={role: run.merge(other.runs[role]) for role, run in self.runs.items() if role in other.runs},
            train_losses=mine and theirs and replace(mine, losses=averaged(mine.losses, theirs.losses)),
            likely=self.likely and other.likely and joined_pieces(self.likely, other.likely, counts),
            measured={
                name: {key: averaged(self._measured(name, key), other._measured(name, key)) for key in ("own", *pseudo)}
                for name in other.measured | self.measured
            },
            predicted=self.predicted if same else {},
        )

    def _measured(self, name: str, key: str) -> Array:
        """Losses of a model without some training clusters; those of the user's own model where there is none."""
        losses = self.measured.get(name, {})
        if not len(losses.get("own", ())):
            losses = {"own": self.own_losses, **self.pseudo}
        return losses[key]


def _by_units(losses: Array, pseudo: Mapping[str, Array], units: str, of: str) -> Array:
    fold = losses if units == "clusters" else pseudo.get(units, losses)
    return fold if of == "fold" else pseudo.get(f"{of}_{units}", fold)


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
        Why a fold could not be audited, by its number.
    error_model : {"records", "fragments"}
        How clustering errors were injected.
    metric : MetricFacts
        What the losses are losses of. A metric of which a greater value is better is stored as minus its value.
    observed : ClusterSizes
        How large the observed clusters of all records are.
    fold_sizes : tuple of int
        Held-out records of every fold, also of those that could not be audited.
    cluster_names : tuple of str
        Names of the observed clusters, by their numbers.
    seen : SeenPieces or None
        Pairs of clusters that may be one entity, and what they say about the leakage rate (fragments).
    look_ups : LookUps or None
        What somebody looked up (fragments).
    n_baselines : int
        Models that were fitted once, beside those that were fitted to resamples.
    ended : {"", "time", "interrupt", "rounds"}
        Why no further round of fits followed although the precision that was asked for had not been reached.
    n_merged : int
        Audits that these samples are merged of.
    named : NamedMetric or None
        What the metric is made anew from, where it is one of a set of records and is known by its name.
    """

    folds: tuple[FoldSamples, ...]
    random_folds: RandomFolds
    effect: EffectLosses | None
    effect_problem: str
    left_out: dict[int, str]
    error_model: str
    metric: MetricFacts
    observed: ClusterSizes
    fold_sizes: tuple[int, ...]
    cluster_names: tuple[str, ...] = ()
    seen: SeenPieces | None = None
    look_ups: LookUps | None = None
    n_baselines: int = 0
    ended: str = ""
    n_merged: int = 1
    named: NamedMetric | None = None

    def __repr__(self) -> str:
        return f"AuditSamples({self.n_fits:,} fits over {len(self.folds)} folds, {self.loss})"

    @property
    def n_fits(self) -> int:
        """Models fitted in all."""
        return self.n_baselines + sum(fold.n_fits for fold in self.folds)

    @property
    def loss(self) -> str:
        """Name of the metric."""
        return self.metric.name

    @property
    def loss_range(self) -> tuple[float, float]:
        """Smallest and largest possible loss."""
        return self.metric.loss_range

    @property
    def units(self) -> tuple[str, ...]:
        """The kinds of units for which there can be intervals."""
        return self.folds[0].main.units

    @property
    def estimator(self) -> str:
        """The model, as it prints itself."""
        return str(self.folds[0].main.problem.get("estimator", ""))

    @property
    def versions(self) -> dict[str, str]:
        """Version of each package, several where runs of different dates were merged."""
        versions: dict[str, dict[str, None]] = {}
        for fold in self.folds:
            for name, version in fold.main.versions.items():
                versions.setdefault(name, {})[version] = None
        return {name: ", ".join(several) for name, several in versions.items()}

    def to_frame(self) -> Any:
        """All losses of resamples as a table: fold, role, size, injected fraction, replicate and loss."""
        rows = [
            (fold.index, role, run.size, float(level), replicate, float(loss))
            for fold in self.folds
            for role, run in fold.runs.items()
            for level, losses in zip(run.injected, run.losses, strict=True)
            for replicate, loss in enumerate(losses)
        ]
        names = ("fold", "role", "size", "injected", "replicate", "loss")
        return data_frame(dict(zip(names, zip(*rows, strict=True), strict=True)))

    def merge(self, other: Self) -> Self:
        """One larger run from two runs of the same problem with different seeds."""
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
        if (self.seen is None) != (other.seen is None):
            raise InputError("Audits can be merged only if both compared their clusters, or neither of them (unmix).")
        if not same_look_ups(self.look_ups, other.look_ups):
            raise InputError("Audits can be merged only if the same clusters were looked up, with the same answers.")
        weights = [self.n_merged, other.n_merged]
        folds = tuple(mine.merge(theirs, weights) for mine, theirs in zip(self.folds, other.folds, strict=True))
        random = [run.random_folds.losses[np.argsort(run.random_folds.rows)] for run in (self, other)]
        joined = RandomFolds(np.sort(self.random_folds.rows), np.average(random, axis=0, weights=weights))
        seen = self.seen and other.seen and joined_seen(self.seen, other.seen, weights)
        return replace(
            self,
            folds=folds,
            random_folds=joined,
            seen=seen,
            ended=self.ended or other.ended,
            n_baselines=self.n_baselines + other.n_baselines,
            n_merged=sum(weights),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, a zip of arrays and JSON without pickles, which is complete or not there at all."""
        write_archive(path, _KIND, _FORMAT, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote; nothing in it is unpickled."""
        return read_archive(path, _KIND, _FORMAT, cls)


def joined_rounds(one: AuditSamples, other: AuditSamples) -> AuditSamples:
    """The samples of several rounds of the same audit; what is known of the first round only stays as it is."""
    further = {fold.index: fold for fold in other.folds}
    folds = tuple(
        replace(fold, runs=fold.runs | {role: run.merge(runs[role]) for role, run in fold.runs.items() if role in runs})
        for fold in one.folds
        if (runs := further[fold.index].runs if fold.index in further else None) is not None
    )
    return replace(one, folds=folds, left_out=one.left_out | other.left_out)
