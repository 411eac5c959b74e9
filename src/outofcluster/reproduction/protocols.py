"""What is run in a study: the paper's protocol, the field protocol, the hypothesis test, and a check of the learner.

*The paper's protocol.* Replicates are drawn without replacement from the oracle pools: training records come from the
clean T and from V with probability p, so the injected fraction *is* the level p. Levels are equidistant from p0 to 1, a
trial has t replicates at each, and trials are independent. All that differs between trials is which replicates were
drawn: their spread is Monte-Carlo noise, and says nothing about other records. Every replicate is scored on all of V
that it did not train on; the paper's table has 100 validation records, which changes the noise of a replicate and not
what is estimated. The default has the same fits at its own levels above p0 and its own sizes (fewer on the census and
on Dota 2, see :mod:`.studies`). The true loss is that of replicates with p = 0, by many fits; in the synthetic study it
is known.

*The field protocol* is what a user lives through. Which records of V leak into T̂ is drawn once (p0 = 0.1), and with it
T̂ and V̂ are all that is known. Every estimator is run on them as a user would: resamples with replacement of n records,
levels injected on top of what leaked. The default spends a quarter of its fits below p0, on resamples with weights that
leave out what looks like V̂; the paper's protocol has no T̂ to tell from V̂. (An audit also draws at a level that adds
what looks like V̂, to check that leaving it out works; in these studies that hardly changes an estimate.) The draw of
the leak is repeated, and errors are against the loss of the same learner trained on resamples of the clean T and scored
on all of V. The naive estimate is the loss at level 0 of the default's run, which has most of its fits there. Where V
is too small to make up a tenth of T̂ (the census), every draw also takes some of T at random; in the synthetic study it
makes new records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import outofcluster as ooc
from outofcluster._base.arguments import Array
from outofcluster.datasets import Bunch, make_partition, partition_losses
from outofcluster.reproduction.parts import Means, seed_for
from outofcluster.reproduction.sources import Source, learner, load, quiet
from outofcluster.reproduction.studies import LEAKAGE, TRUE_LEVELS, Effort, Study

__all__ = [
    "Leak",
    "Replicate",
    "default_design",
    "field_draws",
    "field_leaks",
    "field_records",
    "run_checks",
    "run_tests",
    "trials",
    "truth",
]

Counts = NDArray[np.int64]

_CHECK_LEVELS = (0.0, LEAKAGE, 1.0)
_LEVELS, _LEVEL_SHARES = np.array([0.0, 0.05, 0.2, 0.6]), (0.25,) * 4
_SIZE_SHARES = (0.6, 0.4)
"""The levels that ``audit`` samples for its own curve, and which shares of the fits these and its two sizes get."""


@dataclass(frozen=True)
class Replicate:
    """One trial of the paper's protocol, or one draw of the leak in the field protocol.

    Attributes
    ----------
    equidistant, default : Means, tuple of Means
        Losses at the paper's levels, and those of the default's sizes, as a user at p0 sees them.
    below : LossSamples or None
        The default's losses below p0, which only a draw of the leak has: the oracle pools hold no T̂.
    iid, naive, truth : float
        The loss on random splits, the loss at p0, and the true loss.
    rate, records, pvalue : float, tuple of int, float or None
        Of a draw of the leak: its rate, how many records are on either side, and the p-value of the hypothesis test.
    """

    equidistant: Means
    default: tuple[Means, ...]
    iid: float
    naive: float
    truth: float
    rate: float = LEAKAGE
    records: tuple[int, int] = (0, 0)
    pvalue: float | None = None
    below: ooc.LossSamples | None = None


def default_design(
    n: int, n_fits: int, *, y: Any = None, n_validation: int | None = None
) -> tuple[Array, dict[int, Counts]]:
    """The levels that ``audit`` samples when no curve is asked for, and by size, the full one first, the fits at each.

    ``y`` are the classes, where there are some: of the rarest, the smallest training sets hold two records on average.
    With a number of validation records, the largest level leaves a fifth of them, and at least five, to score on.
    """
    smallest, largest = 8, 1.0
    if y is not None:
        counts = np.unique(np.asarray(y), return_counts=True)[1]
        smallest = max(smallest, math.ceil(2 * counts.sum() / counts.min()))
    if n_validation is not None:
        largest = -n_validation * math.expm1(math.log(max(0.2, 5 / n_validation)) / n)
    levels = _LEVELS * min(1.0, largest / _LEVELS[-1])
    if n < 4 * smallest:
        return levels, {n: _allocated(_LEVEL_SHARES, n_fits)}
    sizes = (n, smallest)
    fits = _allocated(_SIZE_SHARES, n_fits)
    return levels, {size: _allocated(_LEVEL_SHARES, int(count)) for size, count in zip(sizes, fits, strict=True)}


def _allocated(shares: Sequence[float], total: int) -> Counts:
    """Whole numbers in proportion to shares that sum exactly to a total."""
    numbers: Counts = np.diff(np.rint(total * np.cumsum([0, *shares])).astype(np.int64))
    return numbers


def truth(source: Source, effort: Effort, root: int) -> Means:
    """The true curve at some levels p, of which the first is 0: measured, or known in the synthetic study."""
    p = np.array(TRUE_LEVELS)
    if source.bunch is None:
        losses = ooc.BinomialOperator(p, source.study.n).matrix() @ partition_losses(source.study.n)
        return Means(p, losses, np.zeros(len(p)), np.zeros(len(p), dtype=int), source.study.n)
    counts = np.full(len(p), effort.curve_fits)
    counts[0] = effort.truth_fits
    return source.losses("truth", p, counts, seed=seed_for(root, source.study.name, "truth"))


def trials(source: Source, effort: Effort, root: int, e0: float) -> Iterator[Replicate]:
    """Every trial of the paper's protocol."""
    study, bunch = source.study, source.bunch
    classes = None if bunch is None else bunch.target[bunch.train_rows]
    injected, default_fits = default_design(study.n, effort.default_fits, y=classes)
    p, counts = np.linspace(LEAKAGE, 1, study.levels), np.full(study.levels, effort.fits)
    default_p = LEAKAGE + (1 - LEAKAGE) * injected
    for trial in range(effort.trials):
        seed, name = seed_for(root, study.name, "paper", trial), f"paper-{trial:02d}"
        equidistant = source.losses(name, p, counts, seed=seed_for(seed, 0), apart=True).seen_by_user(LEAKAGE)
        iid = source.iid(f"{name}-iid", effort.iid_splits, seed=seed_for(seed, 2))
        default = tuple(
            source.losses(f"{name}-default-{size}", default_p, fits, seed=seed_for(seed, 1, size), n=size)
            for size, fits in default_fits.items()
        )
        seen = tuple(run.seen_by_user(LEAKAGE) for run in default)
        yield Replicate(equidistant, seen, iid, float(equidistant.means[0]), e0)


@dataclass(frozen=True)
class Leak:
    """One draw of which records leak.

    Attributes
    ----------
    name, seed : str, int
        The beginning of the names of its parts, and its seed.
    source : Source
        The records that the user has.
    split : SimulatedLeakage
        T̂, V̂, and the approximate clusters.
    """

    name: str
    seed: int
    source: Source
    split: Any

    @property
    def rows(self) -> tuple[Any, Any]:
        """Rows of T̂ and of V̂."""
        return self.split.train, self.split.validation

    def default(self, effort: Effort) -> tuple[tuple[Means, ...], ooc.LossSamples | None]:
        """The default's losses at its own levels for every size, and those below p0, if there are any."""
        study, bunch = self.source.study, self.source.bunch
        assert bunch is not None
        below = self.source.below(
            f"{self.name}-below",
            effort.field_fits // 4,
            seed=seed_for(self.seed, 7),
            rows=self.rows,
            groups=self.split.groups,
        )
        injected, default_fits = default_design(
            study.n,
            effort.field_fits - (0 if below is None else below.n_fits),
            y=bunch.target[self.split.train] if study.loss == "zero_one" else None,
            n_validation=len(self.split.validation),
        )
        above = tuple(
            self.losses(f"default-{size}", injected, fits, seed=seed_for(self.seed, 3, size), n=size)
            for size, fits in default_fits.items()
        )
        return above, below

    def losses(self, name: str, injected: Any, counts: Any, *, seed: int, n: int | None = None) -> Means:
        """Losses of resamples of T̂ with records of V̂ injected."""
        name = f"{self.name}-{name}" if name else self.name
        return self.source.losses(name, injected, counts, seed=seed, replace=True, n=n, rows=self.rows)


def field_leaks(source: Source, effort: Effort, root: int) -> Iterator[Leak]:
    """Every draw of the leak."""
    study = source.study
    for draw in range(effort.draws):
        seed = seed_for(root, study.name, "field", draw)
        clean = field_records(study, source.bunch, seed_for(seed, 0))
        split = ooc.simulate_leakage(
            clean.groups, clean.validation_groups, rate=LEAKAGE, unit="records", random_state=seed_for(seed, 1)
        )
        here = source if clean is source.bunch else replace(source, bunch=clean)
        yield Leak(f"field-{draw:03d}", seed, here, split)


def field_draws(source: Source, effort: Effort, root: int) -> Iterator[Replicate]:
    """What every estimator is fitted to in every draw of the leak."""
    study, common = source.study, None
    if study.field_train is None:
        common = _true_loss(source, "field-truth", effort, seed_for(root, study.name, "field truth"))
    levels, counts = np.linspace(0, 1, study.levels), np.full(study.levels, study.field_count(effort))
    for leak in field_leaks(source, effort, root):
        here, seed, split = leak.source, leak.seed, leak.split
        e0 = _true_loss(here, f"{leak.name}-truth", effort, seed_for(seed, 4)) if common is None else common
        equidistant = leak.losses("", levels, counts, seed=seed_for(seed, 2))
        iid = here.iid(f"{leak.name}-iid", 1, seed=seed_for(seed, 5), replace=True)
        pvalue = _pvalue(here, leak.name, split, seed_for(seed, 6))
        above, below = leak.default(effort)
        records = (len(split.train), len(split.validation))
        yield Replicate(equidistant, above, iid, float(above[0].means[0]), e0, split.rate, records, pvalue, below)


def field_records(study: Study, bunch: Bunch | None, seed: int) -> Bunch:
    """The records that a user of the field protocol has: all, or some of the training clusters', or fresh ones."""
    if bunch is None:
        assert study.field_train is not None
        return make_partition(study.field_train, random_state=seed)
    if study.field_train is None:
        return bunch
    rng = np.random.default_rng(seed)
    few = rng.choice(bunch.train_rows, min(study.field_train, len(bunch.train_rows)), replace=False)
    rows = np.sort(np.concatenate([few, bunch.validation_rows]))
    return replace(bunch, data=bunch.data[rows], target=bunch.target[rows], groups=bunch.groups[rows])


def _true_loss(source: Source, name: str, effort: Effort, seed: int) -> float:
    """The loss of models trained on resamples of the clean T."""
    return float(source.losses(name, [0.0], [effort.field_truth_fits], seed=seed, replace=True).means[0])


def _test(study: Study, bunch: Bunch, split: tuple[Any, Any], groups: Any, seed: int) -> Any:
    """The hypothesis test on one split."""
    model = learner(study.loss)
    with quiet():
        return ooc.leakage_test(
            model,
            bunch.data,
            bunch.target,
            groups=groups,
            cv=[split],
            loss=study.loss,
            method="welch",
            random_state=seed,
        )


def _pvalue(source: Source, name: str, split: Any, seed: int) -> float | None:
    """The hypothesis test on what the user has; None where the records do not suffice for it."""
    bunch = source.bunch
    assert bunch is not None

    def compute() -> float | None:
        try:
            test = _test(source.study, bunch, (split.train, split.validation), split.groups, seed)
            return float(test.pvalue)
        except (ooc.FitError, ooc.InputError):
            return None

    pvalue: float | None = source.parts.plain(f"{name}-test", [seed, len(bunch.target)], compute)
    return pvalue


def run_tests(source: Source, effort: Effort, root: int) -> dict[str, Any]:
    """The hypothesis test on the paper's split: once as a user would, then with the folds dealt anew."""
    study = source.study

    def compute() -> dict[str, Any]:
        bunch = source.bunch or make_partition(1000, 1000, random_state=seed_for(root, "test data"))
        split = (bunch.train_rows, bunch.validation_rows)
        seeds = [seed_for(root, study.name, "test", deal) for deal in range(effort.tests)]
        tests = [_test(study, bunch, split, bunch.groups, seed) for seed in seeds]
        return {
            "first": tests[0].to_dict() | {"sentence": tests[0].sentence},
            "pvalues": [test.pvalue for test in tests],
            "rejected": sum(test.rejected for test in tests),
            "deals": len(tests),
            "mean_difference": float(np.mean([test.difference for test in tests])),
            "median_detectable": float(np.median([test.detectable for test in tests])),
        }

    result: dict[str, Any] = source.parts.plain("test", effort.tests, compute)
    return result


def run_checks(source: Source, effort: Effort, data_home: Any, root: int) -> dict[str, Any]:
    """Losses at p = 0, p0 and 1 with the published learner, and for Dota 2 with the type of game as a feature."""
    if source.bunch is None or effort.check_fits == 0:
        return {}
    if source.study.name == "dota2":
        label, name = "with the type of game as a feature", "check-type"
        other = replace(source, bunch=load("dota2", data_home, include_type=True))
    else:
        label, name = "SVC(kernel='linear', C=1), hinge loss", "check-hinge"
        other = replace(source, estimator=learner("hinge"))
    counts = np.full(len(_CHECK_LEVELS), effort.check_fits)
    return {label: other.losses(name, _CHECK_LEVELS, counts, seed=seed_for(root, source.study.name, "check"))}
