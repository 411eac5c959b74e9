"""The parts of a summary: one of several metrics, one fold, the curve, the losses below the leakage rate, and sources.

Like the summary itself they are plain data in the metric's own sign. ``of`` makes a part of what was solved, or of the
samples. What an optimism of pieces rests on is what is seen, what was looked up, and imitated pieces. Its words are
about an audit without a leakage rate, and about the share of each source where there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.text import percentage
from outofcluster.curves.base import Curve
from outofcluster.curves.operator import BinomialOperator
from outofcluster.curves.unmixing import injected_of_mass
from outofcluster.errormodels.pooled import Pooled
from outofcluster.inference.estimates import Estimate, between, decimals, fixed
from outofcluster.leakage.rate import Leakage
from outofcluster.metrics.facts import MetricFacts
from outofcluster.sampling.audit_samples import UNCAUGHT, UNMIXED, AuditSamples, FoldSamples

# Names of the columns of `MetricSummary.words`.
METRICS_HEADER = ("", "cross-validated as it is", "corrected", "optimism")
# Points of a curve that is drawn.
_DRAWN = 61
# Names of the columns of `SourceSummary.words`.
SOURCES_HEADER = ("the optimism by", "value", "standard error", "weight")
# The sources in words.
_SOURCES = {
    "seen": "what can be seen",
    "looked up": "what somebody looked up",
    "imitated": "imitated pieces at this leakage rate",
    "curve": "resamples with and without leaked records",
}
# Share of imitated pieces below which none can be said to be seen.
_HARDLY_ANY = 0.005


@dataclass(frozen=True)
class MetricSummary:
    """One of several metrics of the same fits.

    Attributes
    ----------
    metric : MetricFacts
        What is measured.
    naive, corrected, optimism : Estimate
        Cross-validated, on new clusters, and by how much cross-validation is too optimistic; the last two are None
        without a leakage rate.
    """

    metric: MetricFacts
    naive: Estimate
    corrected: Estimate | None
    optimism: Estimate | None

    @property
    def words(self) -> tuple[str, ...]:
        """The metric and its three estimates as a row of a table."""
        digits = decimals(*(estimate for estimate in (self.naive, self.corrected) if estimate is not None))
        return self.metric.label, *in_digits(digits, self.naive, self.corrected, self.optimism)


@dataclass(frozen=True)
class FoldSummary:
    """One fold: its number, its cross-validated value, records on both sides, fitted models, and their seeds.

    The corrected value is what the fold's own fits say; it is None without a correction, and in short summaries.
    ``fits_without`` are models without the training clusters that are pieces of held-out ones, and their controls.
    """

    fold: int
    naive: float
    n_train: int
    n_validation: int
    fits: int
    seeds: tuple[int, ...]
    corrected: float | None = None
    fits_without: int = 0

    @classmethod
    def of(cls, fold: FoldSamples, metric: MetricFacts) -> Self:
        """That of an audited fold, without a corrected value."""
        return cls(
            fold=int(fold.index),
            naive=metric.shown(float(fold.own_losses.mean())),
            n_train=fold.n_train,
            n_validation=fold.n_validation,
            fits=fold.n_fits,
            seeds=tuple(int(seed) for role, run in fold.runs.items() if role != UNCAUGHT for seed in run.seeds),
            fits_without=len(fold.measured),
        )


@dataclass(frozen=True)
class FittedCurve:
    """A fitted curve, for drawing.

    Attributes
    ----------
    p, loss : tuple of float
        The curve on a grid of levels, from no leakage on.
    at, observed : tuple of float
        The levels of the samples, and the pooled losses that were fitted.
    extrapolated : tuple of float
        The curve on the same grid if only the losses above the leakage rate count; empty where none were measured
        below it.
    """

    p: tuple[float, ...]
    loss: tuple[float, ...]
    at: tuple[float, ...]
    observed: tuple[float, ...]
    extrapolated: tuple[float, ...] = ()

    @classmethod
    def of(cls, pooled: Pooled, curve: Curve, rate: float) -> Self:
        """The losses A e that a curve implies, from no leakage to the highest level, in the metric's own sign."""
        metric = pooled.samples.metric
        at = pooled.levels(rate)[: len(pooled.injected)]
        p = np.linspace(0, float(at.max()), _DRAWN)

        def implied(levels: Array, values: Callable[[Any], Array] = curve.values) -> Array:
            return BinomialOperator(levels, curve.n_).expect(lambda share: values(np.rint(share * curve.n_)))

        loss, observed = metric.shown(implied(p)), metric.shown(implied(at) + curve.residual_[: len(at)])
        solution = getattr(curve, "unmixing_", None)
        extrapolated = () if solution is None else tuple(metric.shown(implied(p, solution.values_above)).tolist())
        return cls(tuple(p.tolist()), tuple(loss.tolist()), tuple(at.tolist()), tuple(observed.tolist()), extrapolated)


@dataclass(frozen=True)
class UnmixedLosses:
    """Losses of models that were fitted without the training records that look leaked, pooled over the folds.

    Attributes
    ----------
    fractions : tuple of float
        Injected fractions, increasing: those below 0 stand for records that were left out, 0 for the user's own model,
        and those above 0 for records that look leaked and were made to count more.
    losses, standard_errors : tuple of float
        Losses there, and their Monte-Carlo standard errors.
    clean : float or None
        The fraction at which no leakage is left; None without a leakage rate, and for curves that do not use these
        losses.
    works : float or None
        The probability that these losses can be trusted rather than the curve above the leakage rate.
    """

    fractions: tuple[float, ...]
    losses: tuple[float, ...]
    standard_errors: tuple[float, ...]
    clean: float | None = None
    works: float | None = None

    @classmethod
    def of(cls, pooled: Pooled, curve: Curve | None) -> Self | None:
        """Those of an audit and its fitted curve; None where no fold has any."""
        if UNMIXED not in pooled.roles:
            return None
        shown, run = pooled.samples.metric.shown, pooled.folds[0].runs[UNMIXED]
        # Columns are in the order of increasing mass.
        losses = (pooled.shares @ pooled.columns.means(UNMIXED))[::-1]
        variances = (pooled.shares**2 @ pooled.columns.errors(UNMIXED) ** 2)[::-1]
        solution = getattr(curve, "unmixing_", None)
        return cls(
            tuple(np.sort(np.append(run.injected, 0.0)).tolist()),
            tuple(shown(losses).tolist()),
            tuple(np.sqrt(variances).tolist()),
            None if solution is None else float(injected_of_mass(solution.clean_masses[1])),
            None if solution is None else float(solution.mass_probability),
        )


@dataclass(frozen=True)
class SourceSummary:
    """One of the sources that an optimism rests on.

    Attributes
    ----------
    source : str
        "seen", "looked up" or "imitated" for pieces, and "curve" for single records.
    value, standard_error : float
        The optimism by this source alone, and its standard error.
    weight : float
        How much it counts; the weights sum to 1.
    """

    source: str
    value: float
    standard_error: float
    weight: float

    @property
    def in_words(self) -> str:
        """What the source is."""
        return _SOURCES.get(self.source, self.source)

    def words(self, digits: int) -> tuple[str, str, str, str]:
        """The source, its optimism, the standard error of that, and its weight, as a row of a table."""
        error = fixed(self.standard_error, digits) if math.isfinite(self.standard_error) else "not known"
        return self.in_words, fixed(self.value, digits), error, percentage(self.weight, 2)


@dataclass(frozen=True)
class SeenSummary:
    """What the records show about pieces of held-out clusters in training.

    Attributes
    ----------
    rate, upper : float
        The share of the held-out records whose cluster is seen to have a piece in training, and a 95 % upper bound of
        the share that has one, which holds where pieces are like the rest of their clusters.
    caught : float
        The share of imitated pieces that would be seen.
    pairs : int
        Pairs of a training and a held-out cluster that are likelier than not one entity.
    told_apart : bool
        Whether the features tell entities apart.
    """

    rate: float
    upper: float
    caught: float
    pairs: int
    told_apart: bool

    @classmethod
    def of(cls, samples: AuditSamples) -> Self | None:
        """That of an audit; None where clusters were not compared."""
        seen = samples.seen
        if seen is None:
            return None
        entities = [fold.entities for fold in samples.folds if fold.entities is not None]
        # A pair may be likely in two folds, once for each of its clusters.
        pairs = {
            frozenset(pair)
            for fold in samples.folds
            if fold.likely is not None
            for pair in zip(fold.likely.train_clusters.tolist(), fold.likely.held_out_clusters.tolist(), strict=True)
        }
        told_apart = any(each.identified for each in entities)
        return cls(float(seen.rate), float(seen.upper), float(seen.caught), len(pairs), told_apart)

    @property
    def is_blind(self) -> bool:
        """Whether nothing can be seen: features hardly tell entities apart, and no linkage tool compared them."""
        return not self.pairs and (not self.told_apart or self.caught < _HARDLY_ANY)

    @property
    def in_words(self) -> str:
        """The share of the held-out records that leak by what is seen, and how much would be seen."""
        if self.is_blind:
            return (
                "The records themselves do not show which clusters are pieces of one entity, since their features "
                "hardly tell entities apart."
            )
        rate, upper, caught = (percentage(share, 2) for share in (self.rate, self.upper, self.caught))
        shown = f"By what the records show, {rate} of the held-out records have a piece of their cluster in training"
        if not self.told_apart:
            return f"{shown}. Only pairs of the linkage tool show it; the features do not tell entities apart."
        return (
            f"{shown} (at most {upper}, if pieces are like the rest of their clusters). Of such pieces {caught} would "
            "be seen."
        )

    @property
    def left_out_in_words(self) -> str:
        """What models were fitted without."""
        if not self.pairs:
            return "No training cluster is likelier than not a piece of a held-out one, so that none was left out."
        pairs = counted(self.pairs, "likely pair")
        left_out = "the training clusters that are probably pieces of held-out ones"
        return f"Models were fitted again without {left_out} ({pairs})."


@dataclass(frozen=True)
class LookedUpSummary:
    """What somebody looked up.

    Attributes
    ----------
    clusters : int
        Clusters that were looked up.
    with_mates : int
        Those among them that share their entity with other clusters.
    changed : int
        Those whose answer changed what is left out of training.
    even : bool
        Whether all of them were equally likely to be drawn.
    reviewer_error : float
        Share of the answers that are taken to be wrong.
    """

    clusters: int
    with_mates: int
    changed: int
    even: bool
    reviewer_error: float

    @classmethod
    def of(cls, samples: AuditSamples) -> Self | None:
        """That of an audit; None where nothing was looked up."""
        look_ups = samples.look_ups
        if look_ups is None:
            return None
        changed = set[int]()
        for fold in samples.folds:
            held_out = np.unique(fold.clusters)
            for cluster, mates in zip(look_ups.clusters.tolist(), look_ups.mates, strict=True):
                if cluster in held_out:
                    likely = set[int]()
                    if fold.likely is not None:
                        likely = set(fold.likely.train_clusters[fold.likely.held_out_clusters == cluster].tolist())
                    if likely != set(np.setdiff1d(mates, held_out).tolist()):
                        changed.add(cluster)
        return cls(
            len(look_ups.clusters),
            sum(len(mates) > 0 for mates in look_ups.mates),
            len(changed),
            bool(np.ptp(look_ups.probability) < 1e-9),
            float(look_ups.reviewer_error),
        )

    @property
    def in_words(self) -> str:
        """How many clusters were looked up, and what came out."""
        looked_up = f"{counted(self.clusters, 'cluster')} {'was' if self.clusters == 1 else 'were'} looked up"
        if not self.with_mates:
            return f"{looked_up}, and no other cluster of the same entity was found."
        shares = "shares its" if self.with_mates == 1 else "share their"
        return f"{looked_up}; {self.with_mates} of them {shares} entity with other clusters."


def rests_on(sources: Sequence[SourceSummary]) -> str:
    """The sources and how much each of them counts; empty where there is nothing to choose from."""
    if not sources or sources[0].source == "curve":
        return ""
    if len(sources) == 1:
        return f"The answer rests on {sources[0].in_words} alone."
    named = [f"on {each.in_words} ({percentage(each.weight, 2)})" for each in sources]
    return f"The answer rests {', '.join(named[:-1])} and {named[-1]}."


def counted(number: int, what: str) -> str:
    """A number of things, of which there may be one."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def in_digits(digits: int, *estimates: Estimate | None) -> list[str]:
    """Estimates and their intervals with so many decimals; empty where there is none."""
    return ["" if each is None else f"{fixed(each.value, digits)} ({between(each, digits)})" for each in estimates]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows of a table as lines of text, with columns that begin below each other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def value_and_ends(estimate: Estimate | None) -> tuple[float, float, float]:
    """The value of an estimate and the ends of its interval; NaN where there is none."""
    return (math.nan,) * 3 if estimate is None else (estimate.value, *estimate.interval)


def mean_rate(leakage: Sequence[Leakage] | None, folds: Sequence[FoldSamples | FoldSummary]) -> float:
    """The leakage rate, averaged over the records that the folds score; NaN without one."""
    if not leakage:
        return math.nan
    return float(np.average([leak.rate for leak in leakage], weights=[fold.n_validation for fold in folds]))
