"""Draw, fit, score: one block of replicates of one level, by scikit-learn or by a compiled kernel.

Replicate r of level i has its own stream of random numbers, numpy's Philox with a key from the run's seed and
the counter (0, 0, i, r), so it comes out the same whoever computes it, in whatever order. Blocks have a fixed
length, so the jackknife's sums are added in the same order as well, and everything is the same to the bit for
any number of workers and any size of batch.

A resample with a single class, or with nothing left to score, is drawn again from the same stream, at most 100
times, and counted. So is one whose scored records have a single class, where a metric such as AUC is not defined then,
and one whose predictions leave a metric such as the calibration slope without a value.

Several metrics are scored from the same fits, and share what the model predicts. The sums of the first metric come
first, then those of the second, and so on. Of a metric that takes long to compute without each unit, one replicate of a
block, picked by the block's number, gives the effects E and stands for all of the block.

*Models that fail* say what went wrong and where, and never show another package's traceback. A worker returns a
`Failure` instead of raising, so that the error of a model reaches the caller even where it cannot be sent from one
process to another; the caller raises a `FitError` that names the place. A worker process that is killed, for lack of
memory as a rule, and work that cannot be sent to one, become a `FitError` as well (`lost_workers`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import LARGEST, Array, Codes
from outofcluster._base.exceptions import FitError, InputError, described, portable
from outofcluster._base.rows import bytes_per_row, is_plain_array, n_rows, take_rows
from outofcluster._base.threads import give_back, one_thread
from outofcluster.metrics.base import NotDefinedError, Partition, shared_predictions
from outofcluster.metrics.predictions import Predictions
from outofcluster.problem.problem import Task
from outofcluster.sampling.backends import in_order
from outofcluster.sampling.kernels.kernel import Kernel, Units
from outofcluster.sampling.resamplers import Draw, DrawRecords, Resampler, WeighRecords
from outofcluster.sampling.samples import TRAIN_SUMS, VALIDATION_SUMS

# Attempts to draw a replicate.
MAX_DRAWS = 100
# Bytes of a training set from which memory counts more than the milliseconds that it takes to give some back.
_LARGE = 16 * 2**20


@dataclass(frozen=True)
class Compiled:
    """What a kernel works on: dense numbers, labels as 0 and 1, and a start that depends on the problem only."""

    kernel: Kernel
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    start: NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """All that a worker needs; nothing in it changes while sampling.

    Attributes
    ----------
    task : Task
        What is fitted and scored.
    train, validation : array of int
        Rows of T̂ and of V̂.
    resampler : Resampler
        How they are resampled.
    key : array of int
        Key of the streams of random numbers.
    train_units, validation_units : tuple of Units
        Partitions of T̂ and of V̂ that the jackknife's sums are kept for: none, one or two.
    compiled : Compiled or None
        The kernel, where there is one; it knows a single metric.
    """

    task: Task
    train: Codes
    validation: Codes
    resampler: Resampler
    key: NDArray[np.uint64]
    train_units: tuple[Units, ...]
    validation_units: tuple[Units, ...]
    compiled: Compiled | None

    def stream(self, level: int, replicate: int) -> np.random.Generator:
        """The random numbers of a replicate."""
        return np.random.Generator(np.random.Philox(key=self.key, counter=[0, 0, level, replicate]))

    def no_sums(self) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
        """Sums of no replicates, of T̂ and of V̂, for every metric and partition, in the memory of one number."""

        def nothing(partitions: tuple[Units, ...], columns: int) -> tuple[Array, ...]:
            sums = tuple(np.broadcast_to(np.zeros(1), (units.count, columns)) for units in partitions)
            return sums * len(self.task.metrics)

        return nothing(self.train_units, TRAIN_SUMS), nothing(self.validation_units, VALIDATION_SUMS)


@dataclass(frozen=True)
class Block:
    """Replicates first, …, first + count - 1 of a level."""

    level: int
    injected: float
    first: int
    count: int


@dataclass(frozen=True)
class BlockLosses:
    """What a block gives: losses, redraws, and its part of the jackknife's sums.

    There is one row of losses per metric, and one array of sums for each metric and partition.
    """

    losses: Array
    redraws: int
    train_sums: tuple[Array, ...]
    validation_sums: tuple[Array, ...]


@dataclass(frozen=True)
class Failure:
    """An estimator that failed, returned rather than raised, so that what came before it is kept."""

    error: Exception
    replicate: int = 0


@one_thread()
def run_blocks(problem: Workload, blocks: list[Block]) -> list[BlockLosses | Failure]:
    """The blocks one after the other, up to the first failure."""
    results: list[BlockLosses | Failure] = []
    for block in blocks:
        result = _fit_block(problem, block) if problem.compiled is None else _run_kernel(problem, block)
        if isinstance(result, BlockLosses):
            # Nothing else than finite losses may enter a mean.
            wrong = np.flatnonzero(~(np.abs(result.losses) <= LARGEST).all(axis=0))
            if len(wrong):
                error = InputError(f"the loss must be finite, got {result.losses[:, wrong[0]].max():g}.")
                result = Failure(error, block.first + int(wrong[0]))
        results.append(result)
        if isinstance(result, Failure):
            break
    return results


def run_timed(problem: Workload, blocks: list[Block]) -> tuple[float, list[BlockLosses | Failure]]:
    """The blocks up to the first failure, after the seconds that one took, by which the next batches are cut."""
    started = time.monotonic()
    results = run_blocks(problem, blocks)
    return max((time.monotonic() - started) / len(blocks), 1e-6), results


def _run_kernel(problem: Workload, block: Block) -> BlockLosses | Failure:
    """The replicates of a block by the kernel; what it cannot do (a singular design, say) scikit-learn does."""
    compiled = problem.compiled
    assert compiled is not None
    losses, redraws = np.empty((1, block.count)), 0
    train_sums, validation_sums = problem.no_sums()
    for part, drawing, plain in _kernel_parts(problem, block):
        result = compiled.kernel.run_block(
            compiled.X,
            compiled.y,
            part.train,
            part.validation,
            injected=plain.injected,
            n_train=drawing.n_train,
            replace=drawing.replace,
            key=problem.key,
            level=plain.level,
            first_replicate=plain.first,
            count=plain.count,
            train_units=part.train_units,
            validation_units=part.validation_units,
            start=compiled.start,
        )
        start = plain.first - block.first
        losses[0, start : start + plain.count] = result.losses
        redraws += int(result.redraws.sum())
        if part.train_units:
            train_sums = add_sums(train_sums, result.train_sums)
        validation_sums = add_sums(validation_sums, result.validation_sums)
        for i in np.flatnonzero(~result.handled):
            one = _fit_block(problem, replace(block, first=plain.first + int(i), count=1))
            if isinstance(one, Failure):
                return one
            losses[:, start + i] = one.losses[:, 0]
            redraws += one.redraws - int(result.redraws[i])
            train_sums = add_sums(train_sums, one.train_sums)
            validation_sums = add_sums(validation_sums, one.validation_sums)
    return BlockLosses(losses, redraws, train_sums, validation_sums)


def _kernel_parts(problem: Workload, block: Block) -> Iterator[tuple[Workload, DrawRecords, Block]]:
    """What a kernel runs: the block as it is, or each replicate of a level that is drawn by weights.

    Such a replicate is a plain one, with pools of its own and no injection.
    """
    resampler = problem.resampler
    if not isinstance(resampler, WeighRecords) or not resampler.is_weighted(block.injected):
        drawing = resampler.plain if isinstance(resampler, WeighRecords) else resampler
        assert isinstance(drawing, DrawRecords)
        yield problem, drawing, block
        return
    for replicate in range(block.first, block.first + block.count):
        rng = problem.stream(block.level, replicate)
        listed, scored, drawing = resampler.pools(rng, block.injected, replicate)
        part = replace(
            problem,
            train=problem.train[listed],
            validation=problem.validation[scored],
            train_units=(),
            validation_units=tuple(Units(units.of[scored], units.sizes) for units in problem.validation_units),
        )
        yield part, drawing, Block(block.level, 0.0, replicate, 1)


def add_sums(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
    """The sums of two sets of replicates together, partition by partition."""
    return tuple(
        left if is_nothing(right) else right if is_nothing(left) else left + right
        for left, right in zip(one, other, strict=True)
    )


def is_nothing(sums: Array) -> bool:
    """Whether sums are those of no replicates."""
    return sums.strides == (0, 0)


def _fit_block(problem: Workload, block: Block) -> BlockLosses | Failure:
    metrics = problem.task.metrics
    losses = np.empty((len(metrics), block.count))
    redraws = 0
    train_sums, nothing = problem.no_sums()
    validation_sums = tuple(np.zeros(sums.shape) for sums in nothing)
    # The replicate that stands for the block: scattered, so that all parts of V̂ have their turn.
    stands_for_all = ((block.first * 2654435761) >> 12) % block.count
    for k in range(block.count):
        replicate = block.first + k
        try:
            draw, scores, again = _draw_and_score(problem, block, replicate, k == stands_for_all)
        except Exception as error:
            return Failure(portable(error), replicate)
        redraws += again
        losses[:, k] = [loss for loss, _ in scores]
        if not draw.weighted:
            assert draw.from_train is not None
            train_sums = tuple(np.zeros(sums.shape) if is_nothing(sums) else sums for sums in train_sums)
            _add_draws(train_sums, problem.train_units, draw.from_train, losses[:, k])
        counts = _add_draws(validation_sums, problem.validation_units, draw.from_validation, losses[:, k])
        M = len(draw.from_validation)
        for m, (t, effects) in enumerate(scores):
            stands_for = block.count if metrics[m].costly else 1
            for sums, N, E in zip(validation_sums[m * len(counts) :], counts, effects, strict=False):
                NE = N * E
                sums[:, TRAIN_SUMS:] += stands_for * np.stack([E, E**2, NE, NE * t, M * E, M * E * t], axis=1)
    return BlockLosses(losses, redraws, train_sums, validation_sums)


def _add_draws(sums: tuple[Array, ...], partitions: tuple[Units, ...], drawn: Codes, losses: Array) -> list[Array]:
    """Add the draws of a pool to the sums of every metric and partition, and give N for every partition."""
    counts, M = list[Array](), len(drawn)
    for index, units in enumerate(partitions):
        N = np.bincount(units.of[drawn], minlength=units.count).astype(float)
        counts.append(N)
        # Columns N, Nt, N², N²t, N²t², NM, NMt, NMt²; those without t are the same for all metrics.
        columns = np.empty((TRAIN_SUMS, units.count))
        columns[0], columns[2], columns[5] = N, N * N, N * M
        for of_metric, t in zip(sums[index :: len(partitions)], losses, strict=True):
            for base, target in ((0, 1), (2, 3), (3, 4), (5, 6), (6, 7)):
                np.multiply(columns[base], t, out=columns[target])
            of_metric[:, :TRAIN_SUMS] += columns.T
    return counts


def _draw(problem: Workload, rng: np.random.Generator, injected: float, replicate: int) -> tuple[Draw, int]:
    """A resample of several classes with something to score, and the number of draws before it."""
    task = problem.task
    labels = np.asarray(task.y) if task.classifier else None
    for again in range(MAX_DRAWS):
        draw = problem.resampler.draw(rng, injected, replicate)
        rows, scored = _rows(problem, draw), problem.validation[draw.scored]
        if len(rows) == 0 or len(scored) == 0:
            continue
        if labels is not None and (labels[rows] == labels[rows[0]]).all():
            continue
        if any(metric.undefined(take_rows(task.y, scored)) for metric in task.metrics if not metric.is_mean):
            continue
        return draw, again
    raise RuntimeError(f"{MAX_DRAWS} resamples in a row held a single class or left no validation record to score")


def _rows(problem: Workload, draw: Draw) -> Codes:
    """The rows that train."""
    from_train = problem.train if draw.from_train is None else problem.train[draw.from_train]
    return np.concatenate([from_train, problem.validation[draw.from_validation]])


def _draw_and_score(
    problem: Workload, block: Block, replicate: int, stands_for_all: bool
) -> tuple[Draw, list[tuple[float, list[Array]]], int]:
    """A draw whose predictions define every metric, its scores, and the number of draws before it."""
    rng, redraws = problem.stream(block.level, replicate), 0
    for _ in range(MAX_DRAWS):
        draw, again = _draw(problem, rng, block.injected, replicate)
        redraws += again
        try:
            return draw, _fit_and_score(problem, rng, draw, replicate, stands_for_all), redraws
        except NotDefinedError as error:
            why, redraws = str(error), redraws + 1
    raise RuntimeError(f"the metric was not defined for {MAX_DRAWS} resamples in a row, since {why}")


def _fit_and_score(
    problem: Workload, rng: np.random.Generator, draw: Draw, replicate: int, stands_for_all: bool
) -> list[tuple[float, list[Array]]]:
    """For every metric the loss of the scored records, and each unit's effect on it, one array per partition."""
    task, scored = problem.task, problem.validation[draw.scored]
    predictions = predict(task, fit_clone(task, _rows(problem, draw), rng), scored, salt=replicate)
    weight = None if task.score_weight is None else task.score_weight[scored]
    partitions = [Partition(units.of[draw.scored], units.count) for units in problem.validation_units]
    return [
        metric.score(predictions, weight, partitions if stands_for_all or not metric.costly else ())
        for metric in task.metrics
    ]


def fit_clone(task: Task, rows: Codes, rng: np.random.Generator) -> Any:
    """A clone of the estimator fitted to some rows, its open random states filled from the stream.

    The rows that a model is fitted to are a copy that nobody else needs, so that a linear model of scikit-learn may
    overwrite them, with the same results to the bit (its option ``copy_X``). Data frames are left alone: their values
    are read-only. Before a large copy is made, what earlier fits freed is given back.
    """
    from sklearn.base import clone

    if len(rows) * bytes_per_row(task.X) >= _LARGE:
        give_back()
    fitted = clone(task.estimator)
    seed_open_states(fitted, rng)
    records, targets = take_rows(task.X, rows), take_rows(task.y, rows)
    taken = {name: _take_param(value, rows, task.X) for name, value in task.params.items()}
    del rows
    linear = is_plain_array(task.X) and type(fitted).__module__.startswith("sklearn.linear_model.")
    overwrites = linear and getattr(fitted, "copy_X", False) is True
    if overwrites:
        fitted.set_params(copy_X=False)
    fitted.fit(records, targets, **taken)
    if overwrites:
        fitted.set_params(copy_X=True)
    return fitted


def predict(task: Task, model: Any, rows: Codes, *, salt: int = 0) -> Predictions:
    """What a fitted model says about some rows, for all metrics."""
    return shared_predictions(task.metrics, model, take_rows(task.X, rows), take_rows(task.y, rows), salt=salt)


def seed_open_states(estimator: Any, rng: np.random.Generator) -> None:
    """Give every random_state that was left open one from the replicate's stream."""
    open_states = [
        name
        for name, value in sorted(estimator.get_params(deep=True).items())
        if value is None and (name == "random_state" or name.endswith("__random_state"))
    ]
    if open_states:
        seeds = rng.integers(2**31 - 1, size=len(open_states))
        estimator.set_params(**{name: int(seed) for name, seed in zip(open_states, seeds, strict=True)})


def _take_param(value: Any, rows: Codes, X: Any) -> Any:
    """Rows of a fit parameter that has one entry per record, else the parameter as it is."""
    listed = isinstance(value, list) or (hasattr(value, "shape") and np.ndim(value) > 0)
    return take_rows(value, rows) if listed and n_rows("params", value) == n_rows("X", X) else value


def run_calls(
    function: Callable[..., Any],
    task: Task,
    calls: Sequence[tuple[Any, ...]],
    names: Sequence[str],
    *,
    seed: np.random.SeedSequence,
    doing: str,
    n_jobs: int | None,
) -> list[Any]:
    """``function(task, *call, seed)`` for every call, each with a seed of its own.

    If one fails, there is a FitError that names the first one that did.
    """
    items = [(function, (*call, child)) for call, child in zip(calls, seed.spawn(len(calls)), strict=True)]
    with lost_workers(doing):
        results = list(in_order(_attempt, task, items, n_jobs=n_jobs))
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Failure):
            raise FitError(f"The estimator failed in {name}: {described(result.error)}") from result.error
    return results


def _attempt(task: Task, item: tuple[Callable[..., Any], tuple[Any, ...]]) -> Any:
    function, call = item
    try:
        with one_thread():
            return function(task, *call)
    except Exception as error:
        return Failure(portable(error))


@contextmanager
def lost_workers(doing: str, samples: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Turn the loss of a worker process into a FitError."""
    try:
        yield
    except BrokenExecutor as error:
        raise FitError(
            f"A worker process was lost while {doing}, as happens when memory runs out; try fewer workers by n_jobs.",
            samples(),
        ) from error
    except PicklingError as error:
        raise FitError(
            f"Work could not be sent to a worker process while {doing}, use n_jobs=1: {described(error)}", samples()
        ) from error
