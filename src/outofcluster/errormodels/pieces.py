r"""Pieces of entities leak: what record linkage does when it splits an entity.

*The curve.* Let a cluster gain G when a piece of it joins training, and g more when a second one does. With rho'
the share of leaked records among those scored (:mod:`outofcluster.evidence.laws`), an injection at level a lowers the
loss by :math:`a[(1-ρ')G + ρ'g]`, and the naive loss is too low by :math:`ρ_0 G`. So the curve is fitted to
:math:`b_i + a_i ρ' g` at the levels :math:`ρ' + (1-ρ')a_i`, and its optimism, ρ'G, counts ρ0/ρ' times. g comes
from samples of its own, in which a piece of every cluster trains already. Where the likeliest pieces of held-out
entities can be told, models without them give a second estimate. Where no
audited entities show how linkage cuts, half of the replicates chip single records off and half cut at random. Solved
apart, they give the optimisms :math:`O_1` and :math:`O_2`. A linkage may cut in one of the two ways only, and with even
odds the variance of the choice is :math:`(O_1 - O_2)^2/4`, from which the noise of the fits, that of their mean, is
taken away. And no imitated cut is quite like a real one, even if its law is known: the optimism O has a relative error
of standard deviation ε = 0.15, so that :math:`(εO)^2` is added as well.

*By the curve.* Cuts are imitated, and the gain from a piece that trains is extrapolated to ρ0
(see above). This is precise, but it supposes that linkage cuts entities as the imitation
does. Where it chips single records off large entities, an imitated piece teaches more than a real one, and the optimism
comes out too large.

*By pieces.* Models are trained without the likeliest pieces of held-out entities, and without as many other clusters
(:mod:`outofcluster.sampling.resamplers`). With Δ the mean difference of the two losses over the held-out records that
lose a piece, a record of an entity that also trains gains Δ, and a share ρ0 of all records is of this kind:

.. math:: O_B = ρ_0 Δ .

These are real pieces, so that no law of cuts is supposed. Nor does it matter how many of the pieces are found: Δ is a
mean over those that are. What is supposed is that the others matter as much. Some of the clusters that are left out are
no pieces, but look like some. If they teach a model less than pieces do, Δ is too small, and if those that are hard to
find teach less, it is too large.

*Together.* The cuts may be wrong by a relative error with standard deviation α = 1/2, and the choice of pieces by one
of β = 1/5. With :math:`s_A^2` the Monte-Carlo variance of the curve's optimism and :math:`s_B^2` the variance of O_B,
by the influences of the held-out clusters and by the fits, but at least :math:`γ^2 O_A^2/m`,

.. math:: O = (1-w) O_A + w O_B, \qquad
          w = \frac{s_A^2 + α^2 O_A^2}{s_A^2 + α^2 O_A^2 + s_B^2 + β^2 O_B^2} .

m is the number of clusters that lose a piece. Most of them gain little and a few gain much, so that a sample of few
clusters in which no large gain occurs has a small mean *and* a small spread. The gains of clusters vary by about
γ = 1.4 times their mean, and the least variance is what such gains with the mean of the curve's would have.

The interval has :math:`w(1-w)(O_A - O_B)^2 + w^2 β^2 O_B^2` in it for the choice between the two, and what the least
variance adds. Both estimates vanish at ρ0 = 0. Where no piece is found w is 0, and the curve stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster._base.seeds import Seeds
from outofcluster._base.threads import one_thread
from outofcluster.curves.base import Curve
from outofcluster.curves.paper.basis import PolynomialCurve
from outofcluster.errormodels.base import Choices, ErrorModel, Evidence, Rates, names_of_clusters, suspects_table
from outofcluster.errormodels.pooled import Optimism, Pooled
from outofcluster.errormodels.records import is_per_record, not_compared, read_probabilities
from outofcluster.evidence.entities import EntitySuspects, LikelyPieces, entity_suspects, likely_pieces, match_clusters
from outofcluster.evidence.laws import KINDS, AssumedCuts, Law, read_law, scored_rate
from outofcluster.inference.columns import Block
from outofcluster.inference.functional import Functional, Influences, Weights
from outofcluster.leakage.rate import Leakage
from outofcluster.problem.folds import Fold
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import MAIN, SECOND_PIECE, WITHOUT_PIECES, AuditSamples, FoldSamples
from outofcluster.sampling.resamplers import CutPieces, WithoutClusters
from outofcluster.sampling.run import Run, check_split
from outofcluster.sampling.samples import LossSamples

# ε: relative error of an optimism by imitated cuts.
_OF_IMITATION = 0.15
# A gain is the loss without a piece less that with it.
_GAIN = np.array([1.0, -1.0])
# α, β and γ: relative errors of the imitated cuts and of the choice of pieces, and the relative spread of gains.
_OF_CUTS, _OF_PIECES, _OF_GAINS = 0.5, 0.2, 1.4


@dataclass(frozen=True)
class TwoReadings:
    """The optimism by the curve and by pieces that were left out.

    Attributes
    ----------
    by_curve, by_pieces : float
        The two estimates.
    curve_variance, pieces_variance : float
        Variance of each from noise.
    n_clusters : int
        Held-out clusters that lose a piece.
    """

    by_curve: float
    by_pieces: float
    curve_variance: float
    pieces_variance: float
    n_clusters: int

    @property
    def weight(self) -> float:
        """w: how much the estimate by pieces counts."""
        of_curve = self.curve_variance + (_OF_CUTS * self.by_curve) ** 2
        of_pieces = self.pieces_variance + self._unseen + (_OF_PIECES * self.by_pieces) ** 2
        return of_curve / (of_curve + of_pieces) if of_curve > 0 else 0.0

    @property
    def _unseen(self) -> float:
        """What is missing to the least variance of the estimate by pieces."""
        return max((_OF_GAINS * self.by_curve) ** 2 / max(self.n_clusters, 1) - self.pieces_variance, 0.0)

    @property
    def value(self) -> float:
        """The weighted mean of both."""
        return (1 - self.weight) * self.by_curve + self.weight * self.by_pieces

    @property
    def choice(self) -> float:
        """Variance of the choice between the two."""
        apart, of_pieces = self.by_curve - self.by_pieces, self._unseen + (_OF_PIECES * self.by_pieces) ** 2
        return self.weight * (1 - self.weight) * apart**2 + self.weight**2 * of_pieces


@dataclass(frozen=True, eq=False)
class PiecesPooled(Pooled):
    """Pieces leak: a line through imitated cuts, and the loss without likely pieces where there are some."""

    def _blocks(self) -> dict[str, tuple[Block, ...]]:
        further = {role: self.evaluated(role) for role in (SECOND_PIECE, WITHOUT_PIECES)}
        return super()._blocks() | further

    @cached_property
    def law(self) -> Law | None:
        """The law of the pieces that clusters were cut by."""
        return read_law(self.folds[0].main.problem.get("law"))

    def scored_rate(self, rate: float) -> float:
        """ρ': the share of leaked records among those of clusters that can be cut."""
        return max(scored_rate(self.samples.cluster_sizes, rate, self.law), 1e-3 * rate)

    def adjusted(self, b: Array, errors: Array, rate: float, folds: slice, weights: Array) -> tuple[Array, Array]:
        """The losses with what a second piece would have gained."""
        second = float(weights @ (self.columns.means(SECOND_PIECE) @ _GAIN)[folds])
        return b + self.all_injected * self.scored_rate(rate) * second, errors

    def by_curve(self, curve: Curve, rates: Array, *, losses: Weights | None = None, derive: bool = True) -> Optimism:
        """The optimism by the line through imitated cuts."""
        solved = super().solve(curve, rates, losses=losses, derive=derive)
        weights = solved.by_curve.weights
        leaked = np.array([self.scored_rate(rate) for rate in rates])
        second = leaked * sum(weights[role] @ self.folds[0].runs[role].injected for role in self.roles)
        both = {**weights, SECOND_PIECE: second[:, None] * _GAIN}
        return replace(solved, by_curve=replace(solved.by_curve, weights=both))

    def solve(self, curve: Curve, rates: Array, *, losses: Weights | None = None, derive: bool = True) -> Optimism:
        """The optimism by the line and by models without likely pieces; ``facts`` has both, and those by law."""
        solved = self.by_curve(curve, rates, losses=losses, derive=derive)
        rate, choice, by_cuts = float(self.shares @ rates), solved.by_curve.choice, dict[str, float]()
        if losses is None and derive and self._by_cuts:
            apart = {kind: own.by_curve(curve, rates, derive=False) for kind, own in self._by_cuts.items()}
            first, second = (one.by_curve.value for one in apart.values())
            spread = (first - second) ** 2 - 4 * self.monte_carlo_of(solved.by_curve)
            choice += max(spread, 0.0) / 4 if math.isfinite(spread) else 0.0
            by_cuts = {kind: self._with_pieces(one, rate).value for kind, one in apart.items()}
        choice += (_OF_IMITATION * solved.by_curve.value) ** 2
        solved = replace(solved, by_curve=replace(solved.by_curve, choice=choice), facts={"by_cuts": by_cuts})
        return self._with_pieces(solved, rate)

    # --- how entities are cut -------------------------------------------------------------------------

    @cached_property
    def _by_cuts(self) -> dict[str, PiecesPooled]:
        """The same with the replicates of each assumed law alone; empty where the law was learned."""
        if not isinstance(self.law, AssumedCuts) or self.law.kind != "both":
            return {}
        roles = (MAIN, SECOND_PIECE)
        runs = [fold.runs[role] for fold in self.folds for role in roles if role in fold.runs]
        if any(min(run.counts) < len(KINDS) or min(run.strata) < len(KINDS) for run in runs):
            return {}
        return {kind: PiecesPooled(_cut_by(self.samples, kind), self.unit_kind) for kind in KINDS}

    # --- models without likely pieces -----------------------------------------------------------------

    @cached_property
    def _piece_shares(self) -> Array:
        """The share of each fold in the records that lose a likely piece; zeros where there are none."""
        runs = [fold.runs.get(WITHOUT_PIECES) for fold in self.folds]
        counts = np.array([0 if run is None else run.size for run in runs], dtype=float)
        return np.asarray(counts / max(counts.sum(), 1.0))

    @cached_property
    def _drop(self) -> Functional:
        """Δ over all folds: how much the loss rises without the likeliest pieces."""
        weights = self._piece_shares[:, None] * _GAIN
        value = float((weights * self.columns.means(WITHOUT_PIECES)).sum())
        return Functional(value, {WITHOUT_PIECES: weights})

    @cached_property
    def _losing(self) -> tuple[int, float]:
        """Number of units with records that lose a likely piece, and the variance of Δ between them and by fits."""
        influence = Influences(self.columns).of_units(self._drop)
        units = int(np.count_nonzero(influence))
        between = units / max(units - 1, 1) * float((influence**2).sum())
        return units, between + self.monte_carlo_of(self._drop)

    def _with_pieces(self, solved: Optimism, rate: float) -> Optimism:
        """The optimism of a curve, and what the losses without the likeliest pieces say about it."""
        if not self._piece_shares.any():
            return solved
        drop = self._drop.scaled(rate)
        units, variance = self._losing
        by_curve = solved.by_curve
        readings = TwoReadings(by_curve.value, drop.value, self.monte_carlo_of(by_curve), rate**2 * variance, units)
        return replace(
            solved,
            by_curve=by_curve.scaled(1 - readings.weight),
            aside=replace(drop.scaled(readings.weight), choice=readings.choice),
            facts={**solved.facts, "readings": readings},
        )


def _cut_by(samples: AuditSamples, kind: str) -> AuditSamples:
    """The samples of those replicates alone that cut clusters by one of the assumed laws."""

    def alone(run: LossSamples) -> LossSamples:
        losses = tuple(level[KINDS.index(kind) :: len(KINDS)] for level in run.losses)
        problem = run.problem | {"law": plain(AssumedCuts(kind))}
        return replace(run, losses=losses, strata=np.ones_like(run.strata), problem=problem)

    def cut(fold: FoldSamples) -> FoldSamples:
        runs = {role: alone(fold.runs[role]) for role in (MAIN, SECOND_PIECE) if role in fold.runs}
        return replace(fold, runs=fold.runs | runs)

    return replace(samples, folds=tuple(map(cut, samples.folds)))


# --- what is fitted ---------------------------------------------------------------------------------------

# Fits of a fold from which a fifth is worth spending on models without likely pieces.
FITS_FOR_PIECES = 60
# Fits of all folds that the default adds for them.
_FITS_OF_PIECES = 100
# Share of imitated pieces that must be found, clusters that must be left out over all folds, and the share of a fold's
# training records that may be left out, for models without likely pieces to tell something.
_LEAST_CAUGHT, _LEAST_PIECES, _MOST_LEFT_OUT = 0.5, 20, 0.4


@dataclass(frozen=True)
class PiecesEvidence(Evidence):
    """For every fold, the training clusters that may be pieces of held-out entities, and those to be left out."""

    entities: Mapping[int, EntitySuspects] = field(default_factory=dict)
    pieces: Mapping[int, LikelyPieces] = field(default_factory=dict)

    def facts(self, task: Task, fold: Fold, rates: Rates) -> dict[str, Any]:
        """The suspects of a fold."""
        return {"entities": self.entities.get(fold.index)}


class Pieces(ErrorModel):
    """Whole pieces of entities leak."""

    name = "fragments"
    side = "validation"
    largest_rate = 0.9
    n_fits = 400
    has_sizes = False

    def default_curve(self) -> Curve:
        """A line."""
        return PolynomialCurve(1)

    def read_rates(self, leakage: Any, folds: Sequence[Fold], n_records: int) -> Rates:
        """Rates of the folds, and how a linkage cuts where that was counted."""
        if isinstance(leakage, str):
            raise InputError(
                "leakage must be a rate for error_model='fragments', got 'data', which works for records only."
            )
        if is_per_record(leakage, n_records, len(folds)):
            read_probabilities(leakage, folds, n_records)
            raise InputError(
                "leakage must be a rate for error_model='fragments', got probabilities of single records, which are "
                "for error_model='records'."
            )
        first = leakage[0] if isinstance(leakage, Sequence) and len(leakage) else leakage
        law = first.pieces if isinstance(first, Leakage) else None
        return replace(super().read_rates(leakage, folds, n_records), law=law)

    def _read_rate(self, value: Any) -> Leakage:
        # What audited records say of misplaced ones is about single records.
        return replace(super()._read_rate(value), linkage_errors=None)

    def n_levels(self, folds: Sequence[Fold], choices: Choices, task: Task) -> int:
        """Four levels of first pieces, and two of second ones."""
        return 6

    def look(self, task: Task, folds: Sequence[Fold], choices: Choices, seeds: Seeds) -> PiecesEvidence:
        """Which training clusters are probably pieces of held-out entities, by a classifier of pairs."""
        if not choices.unmix:
            return PiecesEvidence()
        assert task.clusters is not None
        clusters, seed = task.clusters, seeds.stream("entities")
        with one_thread():
            try:
                pairs = match_clusters(task.X, task.y, clusters, seed=seed, discrete=task.classifier)
            except InputError:
                # Too few clusters to learn from: the audit goes on without suspects.
                return PiecesEvidence()
            suspects = {fold.index: entity_suspects(pairs, fold, clusters) for fold in folds}
        pieces = dict[int, LikelyPieces]()
        for fold in folds:
            likely = likely_pieces(pairs, fold, clusters)
            trained = np.bincount(clusters[fold.train], minlength=len(pairs.sizes))
            left_out = int(trained[likely.train_clusters].sum()) / fold.n_train
            if likely.caught >= _LEAST_CAUGHT and 0 < left_out <= _MOST_LEFT_OUT:
                pieces[fold.index] = likely
        enough = sum(len(likely.train_clusters) for likely in pieces.values()) >= _LEAST_PIECES
        # The records that lose a piece say nothing about a metric that is no mean over records.
        means = all(metric.is_mean for metric in task.metrics)
        return PiecesEvidence(suspects, pieces if enough and means else {})

    def runs(
        self, task: Task, fold: Fold, folds: Sequence[Fold], choices: Choices, evidence: PiecesEvidence, seeds: Seeds
    ) -> list[Run]:
        """Imitated cuts, cuts of second pieces, and models without likely pieces."""
        check_split(task, fold)
        clusters, n_train, law = task.clusters, choices.n_train, choices.rates.law
        assert clusters is not None
        main, of_pieces = self._budget(folds, choices, evidence)
        first = CutPieces.of(fold, clusters, n_train, law)
        runs = list[Run]()
        if int((np.bincount(clusters[fold.validation]) >= 3).sum()) >= 2:
            # A second piece's gain counts rho0 times as much as that of the first one: it gets a quarter of the fits.
            fits = max(main // 8, 2) * 2
            main -= fits
            second = CutPieces.of(fold, clusters, n_train, law, second=True)
            seed = seeds.number("fold", fold.index, SECOND_PIECE)
            runs.append(Run(SECOND_PIECE, fold, second, fits, seed, injected=[0.0, 1.0]))
        runs.insert(0, Run(MAIN, fold, first, main, seeds.number("fold", fold.index, MAIN)))
        if of_pieces and fold.index in evidence.pieces:
            resampler = WithoutClusters.of(evidence.pieces[fold.index], clusters, fold)
            seed = seeds.number("fold", fold.index, WITHOUT_PIECES)
            runs.append(Run(WITHOUT_PIECES, fold, resampler, of_pieces, seed, required=False))
        return runs

    def _budget(self, folds: Sequence[Fold], choices: Choices, evidence: PiecesEvidence) -> tuple[int, int]:
        """Fits of a fold with cuts, and without likely pieces; these are part of the budget where there is one."""
        fits = choices.fits_per_fold(len(folds))
        if not evidence.pieces or (choices.n_fits is not None and fits < FITS_FOR_PIECES):
            return fits, 0
        if choices.n_fits is None:
            return fits, max(_FITS_OF_PIECES // len(evidence.pieces), 4)
        return fits - fits // 5, fits // 5

    def baselines(self, choices: Choices) -> tuple[str, ...]:
        """With T̂ as it is in every resample, other fits must show what other training clusters would do."""
        return ("training",) if choices.n_train is None else ()

    def pooled(self, samples: AuditSamples, unit_kind: str, reverse: float = 0.0) -> Pooled:
        """A line through imitated cuts, and the loss without likely pieces."""
        return PiecesPooled(samples, unit_kind)

    def suspects(self, samples: AuditSamples, rates: Array) -> Any:
        """Training clusters by the probability that they are pieces of held-out entities."""
        suspects = {fold.index: fold.entities for fold in samples.folds if fold.entities is not None}
        if not suspects:
            raise not_compared()
        if not any(fold.identified for fold in suspects.values()):
            raise InputError("suspects() needs features that tell entities apart, which these records do not have.")
        names = names_of_clusters(samples)
        columns = {
            index: {
                "cluster": names[fold.train_clusters],
                "probability": fold.probability,
                "resembles": names[fold.held_out_clusters],
                "records": fold.n_records,
            }
            for index, fold in suspects.items()
        }
        return suspects_table(columns)
