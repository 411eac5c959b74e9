r"""The fits behind the test for a cluster effect: pairs of models that know different clusters.

A *drawing* puts the held-out clusters in two arms of about as many records, at random, and cuts every cluster in two
halves, at random. Model 1 trains on the first halves of arm 1, model 2 on those of arm 2, on equally many records, and
both on the clusters that no fold holds out. Both score the second halves of all clusters. With
:math:`u_v = ℓ_2(v) - ℓ_1(v)` the difference of the losses of record v, the effect is

.. math:: Δ = \tfrac12\Bigl(\operatorname*{mean}_{v \in \text{arm } 1} u_v - \operatorname*{mean}_{v \in \text{arm } 2}
          u_v\Bigr) ,

half the sum of what the clusters of both arms gain from training. That one model is better than the other on all
records cancels. Where clusters are alike, the scored records are independent of the models and u has the same law in
both arms: Δ has mean 0 exactly, for every learner and loss. It is averaged over many drawings.

*The standard error.* :math:`d_c`, the part of the sum that is made of the records of cluster c, over all drawings:
Σ_c d_c = Δ. What cluster c learns from cluster c' has a random sign, that of their arms in the drawing, and averages
out over the drawings; what it learns from itself stays, and is independent of other clusters. So clusters are the
units,

.. math:: \operatorname{Var} Δ = \frac{K}{K-1} \sum_c (d_c - Δ\,n_c/n)^2 ,

with :math:`(\sum n_c)^2/\sum n_c^2 - 1` degrees of freedom, n_c the records of cluster c.

*Few clusters.* With fewer than ten clusters (by that effective number) the signs do not average out, and the records
are the units. That record v gains from record w and w from v is then the same fact seen twice, in two drawings that
exchange the halves. In the sum over records of :math:`d_v^2` it counts once per record, in the variance of the sum
twice as much: :math:`\operatorname{Var} Δ = 2\sum_v (d_v - \bar d)^2`. Where some clusters are never held out, as in
a single split, they are the other arm.

*Metrics that are no mean over records* have pseudo losses (:mod:`outofcluster.sampling.metrics.partitions`) in the
place of ℓ. Several metrics are scored from the same fits.

*Large data.* At most 100,000 records are compared. Where there are more, clusters are drawn at random, or records where
clusters are large; all of the above then holds for these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.ordering import in_increasing_order, order_of_codes
from outofcluster._base.rows import take_rows
from outofcluster._base.threads import one_thread
from outofcluster._base.validation import Array
from outofcluster.sampling.audit_samples import EffectLosses, FoldSizes
from outofcluster.sampling.backends import all_calls
from outofcluster.sampling.baselines import pseudo_losses_of
from outofcluster.sampling.failures import lost_workers, returns_failures, succeeded
from outofcluster.sampling.fitting import fit_clone
from outofcluster.sampling.metrics.losses import Loss, shared_predictions
from outofcluster.sampling.metrics.partitions import NotDefinedError
from outofcluster.sampling.metrics.predictions import Predictions
from outofcluster.sampling.task import Task
from outofcluster.split.folds import Fold, some_records

__all__ = ["sample_effect"]

Rows = NDArray[np.int64]

_DRAWINGS = 30
"""Pairs of models."""
_FEW = 10.0
"""Effective number of held-out clusters from which on clusters are the units."""
_LEAST = 5
"""Records that each arm must train on, and have scored."""
_MAX_DRAWS = 100
_MOST_RECORDS = 100_000
"""Records that are compared, drawn at random where there are more (`some_records`): the effect of a cluster on its own
records does not become clearer by models that take ten times as long."""
_BALANCED_OF = 10
"""Random arms of which the most balanced ones are taken."""


def sample_effect(
    task: Task, folds: tuple[Fold, ...], *, seed: np.random.SeedSequence, n_jobs: int | None = None
) -> list[EffectLosses | str]:
    """Draw arms and halves, fit the models and score them.

    Parameters
    ----------
    task : Task
        The checked estimator, records and metrics.
    folds : tuple of Fold
        The splits of the cross-validation.
    seed : SeedSequence
        Source of all random numbers.
    n_jobs : int, optional
        Workers, as in joblib.

    Returns
    -------
    list of EffectLosses or str
        One for each metric; a string says why there is none.
    """
    assert task.clusters is not None
    drawing_seed, *seeds = seed.spawn(1 + _DRAWINGS)
    rng = np.random.default_rng(drawing_seed)
    design = _Design.of(task.clusters, folds, rng)
    target, labels = np.asarray(task.y), None
    if task.classifier and (target.ndim == 1 or target.shape[1] == 1):
        labels = np.unique(target, return_inverse=True)[1].ravel()
    drawings = [_draw_usable(task, design, labels, rng) for _ in range(_DRAWINGS)]
    with lost_workers("the models of the test for a cluster effect were fitted"):
        calls = ((drawing, design.units, child) for drawing, child in zip(drawings, seeds, strict=True))
        scored = all_calls(_fit_and_score, task, calls, n_jobs=n_jobs)
    scored = succeeded(scored, [f"drawing {i} of the test for a cluster effect" for i in range(_DRAWINGS)])
    return [_effect(design, drawings, [own[place] for own in scored]) for place in range(len(task.losses))]


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

    clusters: Rows
    rows: Rows
    sizes: Rows
    held_out: Rows
    others: Rows
    common: Rows
    units: str

    @classmethod
    def of(cls, clusters: Rows, folds: tuple[Fold, ...], rng: np.random.Generator) -> _Design:
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
        design = cls(clusters, rows, sizes, held_out, others, common, "records" if few else "clusters")
        arms = [held_out, others] if len(others) else [held_out]
        least = min(int(sizes[arm].sum()) for arm in arms) // (2 if len(others) else 4)
        if least < _LEAST:
            raise InputError(
                f"cv must leave each model of the test for a cluster effect at least {_LEAST} records of held-out "
                f"clusters with two records or more, got {least}; more records are needed."
            )
        return design


@dataclass(frozen=True, eq=False)
class _Drawing:
    """Rows that train each of the two models, the rows that both score, and which of these are in the first arm."""

    training: tuple[Rows, Rows]
    scored: Rows
    first: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class _Scored:
    """What a drawing says by one metric.

    Attributes
    ----------
    gain : array
        Loss of every scored record by the second model, less that by the first.
    means : list of list of float
        Mean losses: one row per model, one column per arm.
    """

    gain: Array
    means: list[list[float]]


def _draw_usable(task: Task, design: _Design, labels: Rows | None, rng: np.random.Generator) -> _Drawing:
    """A drawing whose models see two classes, and whose scored records define every metric, if there is one."""
    usable = None
    for _ in range(_MAX_DRAWS):
        drawing = _draw(design, rng)
        enough = min(int(drawing.first.sum()), int((~drawing.first).sum())) >= 2
        mixed = labels is None or all(np.ptp(labels[rows]) > 0 for rows in drawing.training)
        if enough and mixed:
            usable = drawing
            if not any(loss.undefined(take_rows(task.y, drawing.scored)) for loss in task.losses):
                return drawing
    if usable is None:
        raise InputError(
            "y must hold two classes in random halves of the held-out clusters for the test for a cluster effect, "
            f"got none in {_MAX_DRAWS} draws."
        )
    return usable


def _draw(design: _Design, rng: np.random.Generator) -> _Drawing:
    clusters, sizes = design.clusters, design.sizes
    # A cluster of an odd number of records has one more in either half.
    trains = (sizes + rng.integers(0, 2, len(sizes))) // 2
    shuffled = rng.permutation(design.rows)
    shuffled = shuffled[order_of_codes(clusters[shuffled])]
    place = np.arange(len(shuffled)) - (np.cumsum(sizes) - sizes)[clusters[shuffled]]
    in_training = place < trains[clusters[shuffled]]
    arm = np.zeros(len(sizes), dtype=np.int64)
    if len(design.others):
        arm[design.held_out], arm[design.others] = 1, 2
    else:
        arm[design.held_out] = _balanced(trains[design.held_out], rng)
    own = arm[clusters[shuffled]]
    sides = [rng.permutation(shuffled[in_training & (own == side)]) for side in (1, 2)]
    count = min(map(len, sides))
    first, second = (np.concatenate([side[:count], design.common]) for side in sides)
    scored = in_increasing_order(shuffled[~in_training & (own > 0)])
    return _Drawing((first, second), scored, arm[clusters[scored]] == 1)


def _balanced(counts: Rows, rng: np.random.Generator) -> Rows:
    """Two arms, 1 and 2, of half of the clusters each and of about as many records."""
    arms = [rng.permutation(len(counts)) for _ in range(_BALANCED_OF)]
    half = len(counts) // 2 + (int(rng.integers(0, 2)) if len(counts) % 2 else 0)
    order = min(arms, key=lambda order: abs(int(counts[order[:half]].sum()) - int(counts[order[half:]].sum())))
    arm = np.full(len(counts), 2)
    arm[order[:half]] = 1
    return arm


@returns_failures
@one_thread()
def _fit_and_score(task: Task, drawing: _Drawing, units: str, seed: np.random.SeedSequence) -> list[_Scored | str]:
    """The losses of the scored records by the two models compared, for every metric; or why a metric has none."""
    X, y = take_rows(task.X, drawing.scored), take_rows(task.y, drawing.scored)
    predictions = list[Predictions]()
    for rows, child in zip(drawing.training, seed.spawn(2), strict=True):
        model = fit_clone(task.estimator, task.X, task.y, rows, task.params, np.random.default_rng(child))
        predictions.append(shared_predictions(task.losses, model, X, y))
    by_metric = list[_Scored | str]()
    for loss in task.losses:
        problem = loss.undefined(y)
        if problem:
            by_metric.append(problem)
            continue
        try:
            first, second = (_losses(task, loss, own, drawing.scored, units) for own in predictions)
        except NotDefinedError as error:
            by_metric.append(str(error))
            continue
        arms = drawing.first, ~drawing.first
        by_metric.append(_Scored(second - first, [[float(own[arm].mean()) for arm in arms] for own in (first, second)]))
    return by_metric


def _losses(task: Task, loss: Loss, predictions: Predictions, rows: Rows, units: str) -> Array:
    if loss.measure is None:
        return loss.records(predictions, predictions.X, predictions.y)
    losses: Array = pseudo_losses_of(task, loss, predictions, rows, units)[units]
    return losses


def _effect(design: _Design, drawings: list[_Drawing], scored: list[_Scored | str]) -> EffectLosses | str:
    """The effect by one metric with its standard error, from what all drawings say."""
    gains, knowing, other = np.zeros(len(design.clusters)), list[list[float]](), list[list[float]]()
    for drawing, own in zip(drawings, scored, strict=True):
        if isinstance(own, str):
            return f"The metric is not defined for some halves of the held-out clusters: {own}"
        first, u, means = drawing.first, own.gain, own.means
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
    sizes = FoldSizes(
        2,
        2,
        int(np.median([len(drawing.training[0]) for drawing in drawings])),
        int(np.median([len(drawing.scored) for drawing in drawings])) // 2,
    )
    numbers = np.array([difference, error, df, len(of_units)], dtype=float)
    return EffectLosses(np.array(other), np.array(knowing), sizes, numbers, design.units)
