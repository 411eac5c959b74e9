"""AuditSamples: everything that the solving half of an audit needs from its fits, for all folds, in one object.

It holds what was sampled in every fold (:mod:`outofcluster.sampling.fold_samples`), the losses over random folds, the
losses behind the test for a cluster effect, and what identifies the run (digests of the data, seeds, versions). It
knows no records, no models and no leakage rate. It can be saved, read again, and merged with a run of other seeds.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import read_archive, starting_with, write_archive
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import data_frame, plain
from outofcluster._base.validation import Array, short
from outofcluster.sampling.fold_samples import FoldSamples
from outofcluster.sampling.metrics.facts import MetricFacts
from outofcluster.sampling.samples import LossSamples
from outofcluster.split.pieces import KINDS, AssumedCuts, Law, read_law
from outofcluster.split.rate_check import RateCheck
from outofcluster.split.sizes import ClusterSizes

__all__ = ["AuditSamples", "EffectLosses", "FoldSizes", "RandomFolds"]

_KIND, _FORMAT = "audit samples", 2
_OF_EFFECT = ("train", "validation", "numbers")

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
        """The samples of those replicates alone that cut clusters by one of the assumed laws.

        Parameters
        ----------
        kind : {"single", "uniform"}
            Which of the two.

        Returns
        -------
        AuditSamples
            Only the losses are those of that law; the sums are not.
        """

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
        """All losses of resamples as a table.

        Returns
        -------
        pandas.DataFrame
            One row per fit, with the columns fold, size, second_piece, injected, replicate and loss.
        """
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

        Parameters
        ----------
        other : AuditSamples
            The other run: the same data, folds, estimator, loss and error model.

        Returns
        -------
        AuditSamples
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
        """Write a file, a zip of arrays and JSON without pickles, which is complete or not there at all.

        Parameters
        ----------
        path : path
            The file.
        """
        write_archive(path, _KIND, _FORMAT, *self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a file that `save` wrote; nothing in it is unpickled.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        AuditSamples
        """
        return cls.from_arrays(*read_archive(path, _KIND, _FORMAT))

    def to_arrays(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Plain data and arrays that hold everything; `from_arrays` reads them.

        Returns
        -------
        about : dict
            What JSON can hold.
        arrays : dict of array
            The numbers, by name.
        """
        arrays: dict[str, NDArray[Any]] = {
            "random_rows": self.random_folds.rows,
            "random_losses": self.random_folds.losses,
        }
        if self.effect is not None:
            arrays |= {f"effect_{name}": getattr(self.effect, name) for name in _OF_EFFECT}
        folds = []
        for place, fold in enumerate(self.folds):
            of_fold, own = fold.to_arrays()
            folds.append(of_fold)
            arrays |= {f"fold{place}_{name}": array for name, array in own.items()}
        about = {
            "folds": folds,
            "effect": None if self.effect is None else plain(self.effect.sizes),
            "effect_units": None if self.effect is None else self.effect.units,
            "effect_problem": self.effect_problem,
            "left_out": {str(index): reason for index, reason in self.left_out.items()},
            "error_model": self.error_model,
            "metric": self.metric.to_dict(),
            "cluster_names": list(self.cluster_names),
            "training_share": float(self.training_share),
            "observed": plain(self.observed),
            "fold_sizes": list(self.fold_sizes),
        }
        return about, arrays

    @classmethod
    def from_arrays(cls, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The samples that `to_arrays` was called on.

        Parameters
        ----------
        about : dict
            The plain data.
        arrays : dict of array
            The numbers.

        Returns
        -------
        AuditSamples
        """
        folds = tuple(
            FoldSamples.from_arrays(of_fold, starting_with(arrays, f"fold{place}_"))
            for place, of_fold in enumerate(about["folds"])
        )
        effect = None
        if about["effect"] is not None:
            train, validation, numbers = (arrays[f"effect_{name}"] for name in _OF_EFFECT)
            effect = EffectLosses(train, validation, FoldSizes(**about["effect"]), numbers, about["effect_units"])
        return cls(
            folds=folds,
            random_folds=RandomFolds(arrays["random_rows"], arrays["random_losses"]),
            effect=effect,
            effect_problem=about["effect_problem"],
            left_out={int(index): reason for index, reason in about["left_out"].items()},
            error_model=about["error_model"],
            metric=MetricFacts.from_dict(about["metric"]),
            cluster_names=tuple(about["cluster_names"]),
            training_share=about["training_share"],
            observed=None if about.get("observed") is None else ClusterSizes(**about["observed"]),
            fold_sizes=tuple(about.get("fold_sizes", ())),
        )
