r"""The fits behind the tests for a cluster effect: pairs of models that know different clusters, or disjoint folds.

**Pairs of models.** A *drawing* puts the held-out clusters in two arms of about as many records, at random, and cuts
every cluster in two halves, at random. Model 1 trains on the first halves of arm 1, model 2 on those of arm 2, on
equally many records, and both on the clusters that no fold holds out. Both score the second halves of all clusters.
With :math:`u_v = ℓ_2(v) - ℓ_1(v)` the difference of the losses of record v, the effect is

.. math:: Δ = \tfrac12\Bigl(\operatorname*{mean}_{v \in \text{arm } 1} u_v - \operatorname*{mean}_{v \in \text{arm } 2}
          u_v\Bigr) ,

half the sum of what the clusters of both arms gain from training. That one model is better than the other on all
records cancels. Where clusters are alike, the scored records are independent of the models and u has the same law in
both arms: Δ has mean 0 exactly, for every learner and loss. It is averaged over five drawings.

*The standard error.* :math:`d_c`, the part of the sum that is made of the records of cluster c, over all drawings:
Σ_c d_c = Δ. What cluster c learns from cluster c' has a random sign, that of their arms in the drawing. One drawing
trains on the first half of c' and scores the second half of c, or the reverse, which are different records: what c
learns from c' and c' from c is not correlated. What a cluster learns from itself is independent of other clusters. So
clusters are the units,

.. math:: \operatorname{Var} Δ = \frac{K}{K-1} \sum_c (d_c - Δ\,n_c/n)^2 ,

with :math:`(\sum n_c)^2/\sum n_c^2 - 1` degrees of freedom, n_c the records of cluster c.

*Few clusters.* With fewer than ten clusters (by that effective number) the signs do not average out, and the records
are the units. That record v gains from record w and w from v is then the same fact seen twice, in two drawings that
exchange the halves. In the sum over records of :math:`d_v^2` it counts once per record, in the variance of the sum
twice as much: :math:`\operatorname{Var} Δ = 2\sum_v (d_v - \bar d)^2`. Where some clusters are never held out, as in
a single split, they are the other arm.

*Metrics that are no mean over records* have pseudo losses (:mod:`outofcluster.metrics.base`) in the
place of ℓ. Several metrics are scored from the same fits.

*Large data.* At most 100,000 records are compared. Where there are more, clusters are drawn at random, or records where
clusters are large; all of the above then holds for these.

**Disjoint folds**, the paper's test: models of T̂ and of V̂, each scored on its own fold. For a split T̂, V̂: m
training folds of n' records from T̂ and m from V̂, each with a validation fold of its own of n_V records from V̂, all
disjoint (the paper's Section 4). The test of their losses is described in :mod:`outofcluster.auditing.effect_test`.

Decisions. *One record, one role:* over all splits of a cross-validation no record is used twice. The V̂s of a k-fold are
disjoint, and what one of them leaves unused trains models for the other splits. So without a cluster effect, when
records are independent, all losses are independent and have one distribution, and K splits keep the level as one does.
Splits that shared records would be dependent, and tests that allow for this (by twice the mean of the p-values, for
example) have less power. *Equally many folds of both kinds:* z̄ - z̄' is then symmetric without a cluster effect, also
for skewed losses, for which a t test is not exact. *Drawn at random, not by class:* V̂'s shares of the
classes differ by chance from those of T̂, and a stratified training fold would know them, which would look like an
effect where there is none. A draw in which a training fold of a classifier (with a scorer, also a validation fold) has
a single class is drawn again as a whole.

*Sizes* are the same in all splits. m is the smallest number, at least 2, with 2K(m-1) ≥ 10 degrees of freedom: more and
smaller folds gain little over that, and n' should be as close as possible to the size that a model is really trained
on. The splits with the largest V̂ are used, at most 25 of them. Their number, n' and n_V are those that make K m n_V n'
largest: records scored, times records trained on. Where nothing fits, m is lowered, down to 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import InputError
from outofcluster._base.rows import order_of_codes, take_rows
from outofcluster.metrics.base import NotDefinedError
from outofcluster.problem.folds import Fold, some_records
from outofcluster.problem.problem import Task
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes
from outofcluster.sampling.baselines import losses_by_units
from outofcluster.sampling.fitting import MAX_DRAWS, fit_clone, predict, run_calls
from outofcluster.sampling.progress import Part

Folds = tuple[Fold, ...]

# Pairs of models: with more the test has a little more power, and its price is felt by every audit.
_DRAWINGS = 5
# Effective number of held-out clusters from which on clusters are the units.
_FEW = 10.0
# Records that each arm, or each fold, must train on and have scored.
_LEAST = 5
# Records that are compared, drawn at random where there are more (`some_records`): the effect of a cluster on its own
# records does not become clearer by models that take ten times as long.
_MOST_RECORDS = 100_000
# Random arms of which the most balanced ones are taken.
_BALANCED_OF = 10
# Degrees of freedom that disjoint folds should have, and splits that they use at most.
_DEGREES, _MOST_SPLITS = 10, 25
# Shares of the records for which sizes are tried in turn, since splits may compete for the same records.
_SHARES = (1.0, 0.97, 0.94, 0.9, 0.8, 0.7, 0.6, 0.5, 0.35, 0.25)
_FITTING = "the models of the test for a cluster effect were fitted"


def _labels(task: Task) -> Codes | None:
    """The class of every record as a number, where there is one class per record."""
    target = np.asarray(task.y)
    if not task.classifier or (target.ndim > 1 and target.shape[1] > 1):
        return None
    return np.unique(target, return_inverse=True)[1].ravel()


def sample_effect(
    task: Task, folds: Folds, *, seed: np.random.SeedSequence, n_jobs: int | None = None, progress: Part | None = None
) -> list[EffectLosses | str]:
    """Draw arms and halves, fit the models and score them; the effect by every metric, or why there is none."""
    assert task.clusters is not None
    rng = np.random.default_rng(seed.spawn(1)[0])
    design, labels = _Design.of(task.clusters, folds, rng), _labels(task)
    drawings = [_draw_usable(task, design, labels, rng) for _ in range(_DRAWINGS)]
    calls = [(drawing, design.units) for drawing in drawings]
    names = [f"drawing {i} of the test for a cluster effect" for i in range(_DRAWINGS)]
    options: dict[str, Any] = {"seed": seed, "doing": _FITTING, "n_jobs": n_jobs, "progress": progress}
    losses = run_calls(_score_drawing, task, calls, names, fits_per_call=2, **options)
    return [_effect(design, drawings, list(of_metric)) for of_metric in zip(*losses, strict=True)]


@dataclass(frozen=True, eq=False)
class _Design:
    """Which clusters are compared.

    Attributes
    ----------
    clusters : array of int
        Cluster of every record.
    sizes : array of int
        Records of every cluster that the folds use.
    held_out : array of int
        Clusters that are scored.
    others : array of int
        The other arm where there are few of those and clusters that no fold holds out; empty for random arms.
    common : array of int
        Records that train both models.
    units : {"clusters", "records"}
        The independent units.
    """

    clusters: Codes
    rows: Codes
    sizes: Codes
    held_out: Codes
    others: Codes
    common: Codes
    units: str

    @classmethod
    def of(cls, clusters: Codes, folds: Folds, rng: np.random.Generator) -> _Design:
        """The design that the folds allow."""
        used, is_scored = np.zeros(len(clusters), dtype=bool), np.zeros(int(clusters.max()) + 1, dtype=bool)
        for fold in folds:
            used[fold.train] = used[fold.validation] = True
            is_scored[clusters[fold.validation]] = True
        rows = some_records(np.flatnonzero(used), clusters, _MOST_RECORDS, rng)
        sizes = np.bincount(clusters[rows], minlength=len(is_scored))
        held_out = np.flatnonzero(is_scored & (sizes >= 2))
        never = np.flatnonzero((sizes > 0) & ~is_scored)
        few = len(held_out) == 0 or sizes[held_out].sum() ** 2 / (sizes[held_out] ** 2).sum() < _FEW
        others = never if few else never[:0]
        if len(held_out) == 0 or (len(held_out) < 2 and len(others) == 0):
            raise InputError(
                "groups must hold at least two clusters with two records or more for the test for a cluster effect, "
                f"got {len(held_out)}."
            )
        common = rows[~is_scored[clusters[rows]]] if len(others) == 0 else rows[:0]
        arms = [held_out, others] if len(others) else [held_out]
        least = min(int(sizes[arm].sum()) for arm in arms) // (2 if len(others) else 4)
        if least < _LEAST:
            raise InputError(
                f"cv must leave each model of the test for a cluster effect at least {_LEAST} records of held-out "
                f"clusters with two records or more, got {least}; more records are needed."
            )
        return cls(clusters, rows, sizes, held_out, others, common, "records" if few else "clusters")


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Rows that train each of the two models, the rows that both score, and which of these are in the first arm."""

    training: tuple[Codes, Codes]
    scored: Codes
    first: NDArray[np.bool_]


def _draw_usable(task: Task, design: _Design, labels: Codes | None, rng: np.random.Generator) -> _Drawing:
    """A drawing whose models see two classes, and whose scored records define every metric, if there is one."""
    usable = None
    for _ in range(MAX_DRAWS):
        drawing = _draw(design, rng)
        enough = 2 <= drawing.first.sum() <= len(drawing.first) - 2
        mixed = labels is None or all(np.ptp(labels[rows]) > 0 for rows in drawing.training)
        if enough and mixed:
            usable = drawing
            if not any(metric.undefined(take_rows(task.y, drawing.scored)) for metric in task.metrics):
                return drawing
    if usable is None:
        raise InputError(
            "y must hold two classes in random halves of the held-out clusters for the test for a cluster effect, "
            f"got none in {MAX_DRAWS} draws."
        )
    return usable


def _draw(design: _Design, rng: np.random.Generator) -> _Drawing:
    clusters, sizes = design.clusters, design.sizes
    # A cluster of an odd number of records has one more in either half.
    trains = (sizes + rng.integers(0, 2, len(sizes))) // 2
    shuffled = rng.permutation(design.rows)
    shuffled = shuffled[order_of_codes(clusters[shuffled])]
    position = np.arange(len(shuffled)) - (np.cumsum(sizes) - sizes)[clusters[shuffled]]
    in_training = position < trains[clusters[shuffled]]
    arm = np.zeros(len(sizes), dtype=np.int64)
    if len(design.others):
        arm[design.held_out], arm[design.others] = 1, 2
    else:
        arm[design.held_out] = _balanced(trains[design.held_out], rng)
    arms = arm[clusters[shuffled]]
    sides = [rng.permutation(shuffled[in_training & (arms == side)]) for side in (1, 2)]
    count = min(map(len, sides))
    first, second = (np.concatenate([side[:count], design.common]) for side in sides)
    scored = np.sort(shuffled[~in_training & (arms > 0)])
    return _Drawing((first, second), scored, arm[clusters[scored]] == 1)


def _balanced(counts: Codes, rng: np.random.Generator) -> Codes:
    """Two arms, 1 and 2, of half of the clusters each and of about as many records."""
    arms = [rng.permutation(len(counts)) for _ in range(_BALANCED_OF)]
    half = len(counts) // 2 + (int(rng.integers(0, 2)) if len(counts) % 2 else 0)
    order = min(arms, key=lambda order: abs(int(counts[order[:half]].sum()) - int(counts[order[half:]].sum())))
    arm = np.full(len(counts), 2)
    arm[order[:half]] = 1
    return arm


def _score_drawing(task: Task, drawing: _Drawing, units: str, seed: np.random.SeedSequence) -> list[list[Array] | str]:
    """The losses of the scored records by each of the two models, for every metric; or why a metric has none."""
    predictions = [
        predict(task, fit_clone(task, rows, np.random.default_rng(child)), drawing.scored)
        for rows, child in zip(drawing.training, seed.spawn(2), strict=True)
    ]
    by_metric = list[list[Array] | str]()
    for metric in task.metrics:
        try:
            losses = [losses_by_units(task, metric, each, drawing.scored, units)[units] for each in predictions]
            by_metric.append(losses)
        except NotDefinedError as error:
            by_metric.append(str(error))
    return by_metric


def _effect(design: _Design, drawings: list[_Drawing], scored: list[list[Array] | str]) -> EffectLosses | str:
    """The effect by one metric with its standard error, from what all drawings say."""
    gains, knowing, other = np.zeros(len(design.clusters)), list[list[float]](), list[list[float]]()
    for drawing, losses in zip(drawings, scored, strict=True):
        if isinstance(losses, str):
            return f"The metric is not defined for some halves of the held-out clusters: {losses}"
        first, u = drawing.first, losses[1] - losses[0]
        # One row per model, one column per arm.
        means = [[float(by_model[arm].mean()) for arm in (first, ~first)] for by_model in losses]
        knowing.append([means[0][0], means[1][1]])
        other.append([means[1][0], means[0][1]])
        middle = (u[first].mean() + u[~first].mean()) / 2
        gains[drawing.scored] += np.where(first, 1 / first.sum(), -1 / (~first).sum()) * (u - middle) / 2
    gains /= len(drawings)
    difference = float(gains.sum())
    compared = np.concatenate([design.held_out, design.others])
    if design.units == "clusters":
        of_units, counts = np.bincount(design.clusters, gains, len(design.sizes))[compared], design.sizes[compared]
        factor = len(compared) / (len(compared) - 1)
        df = float(counts.sum() ** 2 / (counts**2).sum()) - 1
    else:
        rows = design.rows[np.isin(design.clusters[design.rows], compared)]
        of_units, counts = gains[rows], np.ones(len(rows), dtype=np.int64)
        factor, df = 2.0, len(rows) / 2 - 1
    left = of_units - difference * counts / counts.sum()
    error = float(np.sqrt(factor * (left**2).sum()))
    n_train = int(np.median([len(drawing.training[0]) for drawing in drawings]))
    n_scored = int(np.median([len(drawing.scored) for drawing in drawings])) // 2
    numbers = np.array([difference, error, df, len(of_units)], dtype=float)
    return EffectLosses(np.array(other), np.array(knowing), FoldSizes(2, 2, n_train, n_scored), numbers, design.units)


def sample_disjoint_folds(
    task: Task, folds: Folds, *, seed: np.random.SeedSequence, n_jobs: int | None = None, progress: Part | None = None
) -> EffectLosses:
    """Draw the folds, fit the models and score them."""
    rng = np.random.default_rng(seed.spawn(1)[0])
    sizes, pairs = _draw_folds(folds, task.n_records, _labels(task), not task.metrics[0].is_mean, rng)
    names = [f"training fold {i}" for i in range(len(pairs))]
    options: dict[str, Any] = {"seed": seed, "doing": _FITTING, "n_jobs": n_jobs, "progress": progress}
    losses = run_calls(_score_pair, task, pairs, names, **options)
    by_side = np.array(losses, dtype=float).reshape(-1, 2, sizes.n_train_folds)
    return EffectLosses(by_side[:, 0], by_side[:, 1], sizes)


def _score_pair(task: Task, train: Codes, scored: Codes, seed: np.random.SeedSequence) -> float:
    """The loss of a model of one fold on another one."""
    return task.metrics[0].value(predict(task, fit_clone(task, train, np.random.default_rng(seed)), scored))


def _draw_folds(
    folds: Folds, n: int, labels: Codes | None, both: bool, rng: np.random.Generator
) -> tuple[FoldSizes, list[tuple[Codes, Codes]]]:
    """Sizes, and the rows of every training fold with those of its validation fold: by split, those from T̂ first."""
    if labels is not None:
        folds = tuple(f for f in folds if np.ptp(labels[f.train]) > 0 and np.ptp(labels[f.validation]) > 0)
        if not folds:
            raise InputError("y must hold at least two classes on both sides of a fold of cv, got no such fold.")
    folds = tuple(sorted(folds, key=lambda fold: -len(fold.validation)))[:_MOST_SPLITS]
    for lowered, share in product(range(_DEGREES // 2), _SHARES):
        k, sizes = _plan(folds, n, labels, both, lowered, share)
        for _ in range(MAX_DRAWS if k else 0):
            pairs = _deal(folds[:k], n, sizes, rng)
            if pairs is None:
                break
            # Two classes in every training fold, or in both kinds of folds.
            mixed = (rows for pair in pairs for rows in (pair if both else pair[:1]))
            if labels is None or all(np.ptp(labels[rows]) > 0 for rows in mixed):
                return sizes, pairs
    least = min(_least((fold,), 2, labels) for fold in folds)
    smallest = FoldSizes(2, 2, least, least if both else _LEAST)
    raise InputError(
        f"cv must leave at least {smallest.from_validation} validation and {smallest.from_train} training records per "
        f"split (training folds of {smallest.n_train} records, validation folds of {smallest.n_scored}), got at most "
        f"{len(folds[0].validation)} and {max(len(fold.train) for fold in folds)}; use fewer folds or more records."
    )


def _plan(folds: Folds, n: int, labels: Codes | None, both: bool, lowered: int, share: float) -> tuple[int, FoldSizes]:
    """Splits to use, and the sizes with the largest K m n_V n' that a share of the records allows; 0 if none fit."""
    best, plan = 1, (0, FoldSizes(0, 0, 0, 0))
    used = np.zeros(n, dtype=bool)
    for k, last in enumerate(folds, start=1):
        used[last.train] = used[last.validation] = True
        m = ceil(1 + _DEGREES / 2 / k) - lowered
        least, most = _least(folds[:k], m, labels), min(len(fold.train) for fold in folds[:k]) // max(m, 2)
        if m < 2 or most < least:
            continue
        n_train = np.unique(np.geomspace(least, most, 300).astype(int))
        of_validation, of_all = int(share * len(last.validation)) // m, int(share * used.sum()) // (2 * k * m)
        scored = np.minimum((of_validation - n_train) // 2, of_all - n_train)
        merit = np.where(scored >= (least if both else _LEAST), k * m * scored * n_train, 0)
        i = int(merit.argmax())
        if merit[i] >= best:
            best, plan = int(merit[i]), (k, FoldSizes(m, m, int(n_train[i]), int(scored[i])))
    return plan


def _least(folds: Folds, m: int, labels: Codes | None) -> int:
    """Size of the smallest training folds with which every second draw or so has two classes in all of them."""
    n_train = _LEAST
    if labels is not None:
        sides = [labels[rows] for fold in folds for rows in (fold.train, fold.validation)]
        shares = [np.bincount(side) / len(side) for side in sides]
        while m * sum(float((share**n_train).sum()) for share in shares) > 0.5:
            n_train += max(1, n_train // 20)
    return n_train


def _deal(folds: Folds, n: int, sizes: FoldSizes, rng: np.random.Generator) -> list[tuple[Codes, Codes]] | None:
    """Give every record one role at most; None if the records do not suffice."""
    # A record that several splits would validate on goes to one of them, each with the same probability.
    home, seen = np.full(n, -1), np.zeros(n)
    for i, fold in enumerate(folds):
        seen[fold.validation] += 1
        home[fold.validation[rng.random(len(fold.validation)) * seen[fold.validation] < 1]] = i
    held_out = [rng.permutation(np.flatnonzero(home == i))[: sizes.from_validation] for i in range(len(folds))]
    if min(map(len, held_out)) < sizes.from_validation:
        return None
    free = np.ones(n, dtype=bool)
    free[np.concatenate(held_out)] = False
    # Training records are dealt in four rounds, each to the split with the fewest free records first, so that none is
    # left with nothing and each gets a sample of all its T̂.
    taken: list[Codes] = [np.zeros(0, dtype=np.int64) for _ in folds]
    for share in np.diff(np.linspace(0, sizes.from_train, 5).round().astype(int)):
        for i in np.argsort([free[fold.train].sum() for fold in folds], kind="stable"):
            pool = folds[i].train[free[folds[i].train]]
            if len(pool) < share:
                return None
            taken[i] = np.concatenate([taken[i], rng.permutation(pool)[:share]])
            free[taken[i]] = False
    pairs: list[tuple[Codes, Codes]] = []
    for from_train, from_validation in zip(taken, held_out, strict=True):
        inner, scored = np.split(from_validation, [sizes.n_validation_folds * sizes.n_train])
        training = np.concatenate([rng.permutation(from_train), inner]).reshape(-1, sizes.n_train)
        pairs.extend(zip(training, scored.reshape(-1, sizes.n_scored), strict=True))
    return pairs
