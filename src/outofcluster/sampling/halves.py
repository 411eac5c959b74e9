r"""Imitated pieces: every held-out cluster is its own control.

Each cluster of V̂ with two or more records is cut in two (:class:`outofcluster.evidence.laws.Cuts`). One piece may
train, the other is scored. The clusters are dealt into two halves: one model is fitted to T̂ with the pieces of the
first half, one to T̂ with those of the second. Every scored record is then scored twice, by models of about as many
training records: once with its piece and once without. With w the weight of a record, which says how often a cluster
like its own stands for an entity that is cut,

.. math:: \bar g = \frac{\sum_i w_i (ℓ_i^{\text{without}} - ℓ_i^{\text{with}})}{\sum_i w_i}

is the gain from a piece, and two fits give it for all scored records. No cluster is left out of a cut, and a law
of pieces enters by the cuts and the weights.

The losses without a piece are those of the injected fraction 0, those with one of the fraction 1, so that the result is
an ordinary `LossSamples` with these two levels. A metric that is no mean over records is computed once over the scored
records of all cuts together, and the pseudo losses of the records of each cut stand for its replicates.

Two sets of samples come out of the same fits: of all pieces, and of those alone that would not be caught
(:mod:`outofcluster.evidence.likely`), which say what a piece that nobody sees is worth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import FitError, InputError
from outofcluster._base.rows import take_rows
from outofcluster.evidence.laws import Cuts
from outofcluster.metrics.base import Metric, NotDefinedError, Partition
from outofcluster.metrics.predictions import Predictions, StoredPredictions
from outofcluster.problem.folds import Fold, renumbered
from outofcluster.problem.problem import Task, digest
from outofcluster.sampling.audit_samples import MAIN, UNCAUGHT
from outofcluster.sampling.engine import package_versions
from outofcluster.sampling.fitting import fit_clone, predict, run_calls
from outofcluster.sampling.progress import Part
from outofcluster.sampling.samples import LossSamples, UnitEffects

# The injected fraction of records without a piece in training, and of those with one.
_LEVELS = np.array([0.0, 1.0])


@dataclass(frozen=True, eq=False)
class HalvesRun:
    """The imitated cuts of one split, checked and ready to be fitted.

    Attributes
    ----------
    task, fold : Task, Fold
        The problem and the split.
    cuts : Cuts
        How all clusters are cut.
    weight : array of shape (clusters,) or (cuts, clusters)
        How much the records of each cluster count, in all cuts or in each of them.
    caught : array of bool of shape (cuts, clusters), or None
        Which pieces would be caught; None where that is not known. There may be fewer rows than cuts.
    seed : int
        Seed of the models' own random numbers.
    units : tuple of str
        The kinds of units that sums are kept for.
    """

    task: Task
    fold: Fold
    cuts: Cuts
    weight: Array
    caught: NDArray[np.bool_] | None
    seed: int
    units: tuple[str, ...]

    role: ClassVar[str] = MAIN
    required: ClassVar[bool] = True
    compiled_fits: ClassVar[int] = 0
    relative_time: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        cuttable = np.count_nonzero(np.bincount(self._clusters[self._scorable]))
        if cuttable < 2:
            raise InputError(
                "error_model='fragments' needs at least 2 validation clusters with 2 or more records, "
                f"got {cuttable}; use error_model='records'."
            )

    @property
    def identity(self) -> str:
        """What it is known by in a checkpoint."""
        about = [self.cuts.leaks, self.cuts.half, self.weight, self.caught, self.units]
        return f"imitated pieces of fold {self.fold.index}, {digest(about)}"

    @property
    def budget(self) -> int:
        """Number of fits."""
        return 2 * len(self.cuts.leaks)

    @property
    def _clusters(self) -> Codes:
        assert self.task.clusters is not None
        return self.task.clusters

    @property
    def _scorable(self) -> Codes:
        """Rows of V̂ whose cluster can be cut and counts."""
        rows = self.fold.validation
        counts = self._weights.max(axis=0) > 0
        return np.asarray(rows[self.cuts.cuttable[rows] & counts[self._clusters[rows]]])

    @property
    def _weights(self) -> Array:
        """How much the records of each cluster count in each cut."""
        return np.broadcast_to(self.weight, (len(self.cuts.leaks), len(self.cuts.chance)))

    def start(self, progress: Part, *, n_jobs: int | None) -> dict[str, tuple[LossSamples, ...]]:
        """Fit the models, and give the samples of every metric by their role."""
        rows, clusters = self._scorable, self._clusters
        fits, calls = list[_Fit](), list[tuple[Any, ...]]()
        for cut, (leaks, half) in enumerate(zip(self.cuts.leaks, self.cuts.half, strict=True)):
            scored, pieces = rows[~leaks[rows]], rows[leaks[rows]]
            for side in (0, 1):
                joined = pieces[half[clusters[pieces]] == side]
                fits.append(_Fit(cut, scored, half[clusters[scored]] == side))
                calls.append((np.concatenate([self.fold.train, joined]), fits[-1], (self.seed, cut)))
        names = [f"cut {fit.cut} of fold {self.fold.index}" for fit in fits]
        doing = "models were fitted with imitated pieces"
        answers = run_calls(
            _fit_half,
            self.task,
            calls,
            names,
            seed=np.random.SeedSequence(self.seed),
            doing=doing,
            n_jobs=n_jobs,
            progress=progress,
        )
        by_role = {MAIN: self._samples(fits, answers, None)}
        if self.caught is not None and not self.caught.all():
            # Too few pieces may be missed for a loss of their own.
            with suppress(FitError):
                by_role[UNCAUGHT] = self._samples(fits, answers, self.caught)
        return by_role

    def _samples(
        self, fits: Sequence[_Fit], answers: Sequence[Any], left_out: NDArray[np.bool_] | None
    ) -> tuple[LossSamples, ...]:
        return tuple(
            self._of_metric(metric, [(fit, answer[m]) for fit, answer in zip(fits, answers, strict=True)], left_out)
            for m, metric in enumerate(self.task.metrics)
        )

    def _of_metric(
        self, metric: Metric, answers: Sequence[tuple[_Fit, Any]], left_out: NDArray[np.bool_] | None
    ) -> LossSamples:
        """The samples of one metric, of all pieces or without those that would be caught."""
        columns = [self._column(metric, answers, level == 1, left_out) for level in _LEVELS]
        train, held_out = self.fold.train, self.fold.validation
        effects = {kind: self._effects(kind, columns) for kind in self.units}
        digests = self.fold.shared("digests", lambda: {"train": digest(train), "validation": digest(held_out)})
        return LossSamples(
            injected=_LEVELS,
            losses=tuple(column.replicates for column in columns),
            redraws=np.zeros(len(_LEVELS), dtype=np.int64),
            size=int(np.count_nonzero(np.bincount(self._clusters[self._scorable]))),
            effects=effects,
            effective=np.full(len(_LEVELS), float(len(train))),
            kept=np.ones(len(_LEVELS)),
            strata=np.ones(len(_LEVELS), dtype=np.int64),
            problem=self.task.description | digests | {"error_model": "fragments", "loss": metric.name},
            seeds=(self.seed,),
            versions=package_versions(),
        )

    def _effects(self, kind: str, columns: Sequence[_Column]) -> UnitEffects:
        """What every unit of one kind adds to the losses without and with a piece."""
        units, _ = self._units(kind, self.fold.validation)
        return UnitEffects(units, np.array([column.effects(kind, len(units)) for column in columns]))

    def _units(self, kind: str, rows: Codes) -> tuple[Codes, Codes]:
        """The numbers of the units of some rows, and the position of the unit of each row among them."""
        if kind == "clusters":
            return renumbered(self._clusters[rows])
        return rows, np.arange(len(rows))

    def _column(
        self, metric: Metric, answers: Sequence[tuple[_Fit, Any]], with_piece: bool, left_out: NDArray[np.bool_] | None
    ) -> _Column:
        """The losses of all scored records with, or without, a piece in training."""
        parts, rows, cuts = list[Any](), list[Codes](), list[Codes]()
        for fit, answer in answers:
            kept = fit.has_piece == with_piece
            if left_out is not None:
                if fit.cut >= len(left_out):
                    continue
                kept = kept & ~left_out[fit.cut, self._clusters[fit.scored]]
            if kept.any() and (part := _some(answer, kept, with_piece)) is not None:
                parts.append(part)
                rows.append(fit.scored[kept])
                cuts.append(np.full(int(kept.sum()), fit.cut))
        if not parts:
            raise FitError(f"no record was scored {'with' if with_piece else 'without'} an imitated piece.")
        scored, cut = np.concatenate(rows), np.concatenate(cuts)
        weight = self._weights[cut, self._clusters[scored]]
        if self.task.score_weight is not None:
            weight = weight * self.task.score_weight[scored]
        partitions = {}
        for kind in self.units:
            numbers, _ = self._units(kind, self.fold.validation)
            order = np.argsort(numbers)
            wanted = self._clusters[scored] if kind == "clusters" else scored
            codes = order[np.searchsorted(numbers, wanted, sorter=order)]
            partitions[kind] = Partition(codes, len(numbers))
        # Functions of which nothing is known take weights only where the user gave some.
        takes_weights = self.task.score_weight is not None or not metric.recomputed
        losses = _losses(metric, parts, weight, partitions, takes_weights)
        return _Column(cut, len(self.cuts.leaks), losses, {kind: part.of for kind, part in partitions.items()})


@dataclass(frozen=True, eq=False)
class _Fit:
    """One model: its cut, the rows that it scores, and for each of them whether a piece of its cluster trains."""

    cut: int
    scored: Codes
    has_piece: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Column:
    """Losses of scored records, their cut, and their units by kind."""

    cut: Codes
    n_cuts: int
    losses: Mapping[str, Array]
    units: Mapping[str, Codes]

    @property
    def _first(self) -> Array:
        return next(iter(self.losses.values()))

    @property
    def replicates(self) -> Array:
        """One value per cut, whose mean is that of all records."""
        moved = np.bincount(self.cut, self._first - self._first.mean(), self.n_cuts)
        return np.asarray(self._first.mean() + moved * (self.n_cuts / len(self._first)))

    def effects(self, kind: str, n_units: int) -> Array:
        """What each unit adds, summed over cuts."""
        losses = self.losses[kind]
        moved = np.bincount(self.units[kind], losses - losses.mean(), n_units)
        return np.asarray(moved * (self.n_cuts / len(losses)))


def _fit_half(task: Task, train: Codes, fit: _Fit, stream: tuple[int, int], seed: np.random.SeedSequence) -> list[Any]:
    """For every metric what a model says about the scored records: losses, predictions, or pseudo losses by side."""
    # Both fits of a cut have the same random numbers, so that these cancel in the gains.
    rng = np.random.default_rng(stream)
    predictions = predict(task, fit_clone(task, train, rng), fit.scored)
    return [_answer(task, metric, predictions, fit) for metric in task.metrics]


def _answer(task: Task, metric: Metric, predictions: Predictions, fit: _Fit) -> Any:
    if metric.is_mean:
        return metric.losses(predictions, None, {"records": _each(len(fit.scored))})["records"]
    if metric.uses is not None:
        if isinstance(metric.uses, str) and metric.uses.startswith("losses_"):
            # Weighted means keep the losses of the records under this name once they were asked for.
            metric.losses(predictions, None, {"records": _each(len(fit.scored))})
        return predictions.stored([metric.uses])
    return {side: _of_model(task, metric, predictions, np.flatnonzero(fit.has_piece == side)) for side in (True, False)}


def _of_model(task: Task, metric: Metric, predictions: Predictions, positions: Codes) -> Array | None:
    """The pseudo losses of some records by a function of the model; None where there is no value."""
    X, y = take_rows(predictions.X, positions), take_rows(predictions.y, positions)
    if not len(positions) or metric.undefined(y):
        return None
    try:
        some = Predictions(predictions.model, X, y, predictions.all_classes)
        return metric.losses(some, None, {"records": _each(len(positions))})["records"]
    except NotDefinedError:
        return None


def _each(n: int) -> Partition:
    return Partition(np.arange(n), n)


def _some(answer: Any, kept: NDArray[np.bool_], with_piece: bool) -> Any:
    """What a model says about some of its scored records; None where there is nothing."""
    if isinstance(answer, StoredPredictions):
        return answer.rows(np.flatnonzero(kept))
    if isinstance(answer, dict):
        losses = answer[with_piece]
        return None if losses is None or len(losses) != int(kept.sum()) else losses
    return answer[kept]


def _losses(
    metric: Metric, parts: Sequence[Any], weight: Array, partitions: Mapping[str, Partition], takes_weights: bool
) -> dict[str, Array]:
    """One loss per scored record for every kind of units, whose plain mean is the weighted metric."""
    if isinstance(parts[0], StoredPredictions):
        joined = StoredPredictions.joined(parts)
        if why := metric.undefined(joined.target):
            raise FitError(f"{metric.facts.name} is not defined for imitated pieces, since {why}.")
        even = not takes_weights or bool((weight == weight[0]).all())
        try:
            return metric.losses(joined, None if even else weight, partitions)
        except NotDefinedError as error:
            raise FitError(f"{metric.facts.name} is not defined for imitated pieces, since {error}.") from error
    losses = np.concatenate(parts)
    share = weight / weight.mean()
    centre = float((share * losses).mean())
    return dict.fromkeys(partitions, centre + share * (losses - centre))
