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

Models that fail: what went wrong and where, and never another package's traceback.

A function that fits and scores models and is marked by `returns_failures` returns a `Failed` instead of raising, so
that the error of a model reaches the caller even where it cannot be sent from one process to another; `succeeded` then
raises a `FitError` that names the place. A worker process that is killed, for lack of memory as a rule, and work that
cannot be sent to one, become a `FitError` as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from pickle import PicklingError
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import LARGEST, Array
from outofcluster._base.exceptions import FitError, InputError, described, portable
from outofcluster._base.rows import bytes_per_row, is_plain_array, take_rows
from outofcluster._base.threads import give_back, one_thread
from outofcluster.metrics.base import Metric, NotDefinedError, Partition, shared_predictions
from outofcluster.sampling.kernels.kernel import Kernel, Units
from outofcluster.sampling.resamplers import Draw, DrawRecords, Resampler, WeighRecords
from outofcluster.sampling.samples import TRAIN_SUMS, VALIDATION_SUMS

MAX_DRAWS = 100
"""Attempts to draw a replicate."""
_LARGE = 16 * 2**20
"""Bytes of a training set from which memory counts more than the milliseconds that it takes to give some back."""

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Compiled:
    """What a kernel works on: dense numbers, labels as 0 and 1, and a start that depends on the problem only."""

    kernel: Kernel
    X: NDArray[np.float64]
    y: NDArray[np.float64]
    start: NDArray[np.float64]


@dataclass(frozen=True)
class Workload:
    """All that a worker needs; nothing in it changes while sampling."""

    estimator: Any
    X: Any
    y: Any
    train: Rows
    validation: Rows
    resampler: Resampler
    loss: Metric
    classifier: bool
    params: dict[str, Any]
    key: NDArray[np.uint64]
    train_units: tuple[Units, ...]
    """Partitions of T that the jackknife's sums are kept for: none, one or two."""
    validation_units: tuple[Units, ...]
    compiled: Compiled | None
    more_losses: tuple[Metric, ...] = ()
    """Further metrics that are scored from the same fits; a kernel knows one only."""
    score_weight: Array | None = None
    """Weight of every record of the data in scoring."""

    @property
    def losses(self) -> tuple[Metric, ...]:
        """All metrics."""
        return (self.loss, *self.more_losses)


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
    """An estimator that failed, and where; returned rather than raised, so that what came before it is kept."""

    block: Block
    replicate: int
    error: Exception


@one_thread()
def run_blocks(problem: Workload, blocks: list[Block]) -> list[BlockLosses | Failure]:
    """The blocks one after the other, up to the first failure."""
    results: list[BlockLosses | Failure] = []
    for block in blocks:
        fitted = _fit_block(problem, block) if problem.compiled is None else _run_kernel(problem, block)
        results.append(_finite(block, fitted))
        if isinstance(results[-1], Failure):
            break
    return results


def _finite(block: Block, result: BlockLosses | Failure) -> BlockLosses | Failure:
    """The result if all its losses are finite, else a failure: nothing else may enter a mean."""
    if isinstance(result, BlockLosses):
        wrong = ~(np.abs(result.losses) <= LARGEST).all(axis=0)
        if wrong.any():
            place = int(wrong.argmax())
            loss = result.losses[:, place].max()
            return Failure(block, block.first + place, InputError(f"the loss must be finite, got {loss:g}."))
    return result


def run_timed(problem: Workload, blocks: list[Block]) -> tuple[float, list[BlockLosses | Failure]]:
    """The blocks up to the first failure, after the seconds that one took, by which the next batches are cut."""
    started = time.monotonic()
    results = run_blocks(problem, blocks)
    return max((time.monotonic() - started) / len(blocks), 1e-6), results


def _run_kernel(problem: Workload, block: Block) -> BlockLosses | Failure:
    resampler = problem.resampler
    if isinstance(resampler, WeighRecords):
        if resampler.is_weighted(block.injected):
            return _run_weighted(problem, resampler, block)
        resampler = resampler.plain
    assert isinstance(resampler, DrawRecords)
    return _run_compiled(problem, resampler, block)


def _run_weighted(problem: Workload, resampler: WeighRecords, block: Block) -> BlockLosses | Failure:
    """Replicates of a level that is drawn by weights: each is a plain one, with pools of its own and no injection."""
    results = list[BlockLosses]()
    for replicate in range(block.first, block.first + block.count):
        rng = np.random.Generator(np.random.Philox(key=problem.key, counter=[0, 0, block.level, replicate]))
        listed, scored = resampler.pools(rng, block.injected, replicate)
        drawing = resampler.drawn_from(block.injected, len(listed))
        alone = replace(
            problem,
            train=problem.train[listed],
            validation=problem.validation[scored],
            train_units=(),
            validation_units=tuple(Units(units.of[scored], units.sizes) for units in problem.validation_units),
        )
        one = _run_compiled(alone, drawing, Block(block.level, 0.0, replicate, 1), problem, block.injected)
        if isinstance(one, Failure):
            return one
        results.append(one)
    return BlockLosses(
        np.concatenate([one.losses for one in results], axis=1),
        sum(one.redraws for one in results),
        tuple(nothing(units, TRAIN_SUMS) for units in problem.train_units),
        tuple(np.sum(sums, axis=0) for sums in zip(*(one.validation_sums for one in results), strict=True)),
    )


def _run_compiled(
    problem: Workload,
    drawing: DrawRecords,
    block: Block,
    whole: Workload | None = None,
    injected: float | None = None,
) -> BlockLosses | Failure:
    """The replicates of a block by the kernel; ``whole`` and ``injected`` are what a weighted level stands for."""
    compiled = problem.compiled
    assert compiled is not None
    result = compiled.kernel.run_block(
        compiled.X,
        compiled.y,
        problem.train,
        problem.validation,
        injected=block.injected,
        n_train=drawing.n_train,
        replace=drawing.replace,
        key=problem.key,
        level=block.level,
        first_replicate=block.first,
        count=block.count,
        train_units=problem.train_units,
        validation_units=problem.validation_units,
        start=compiled.start,
    )
    losses, redraws = result.losses[None].copy(), int(result.redraws.sum())
    train_sums: tuple[Array, ...] = result.train_sums
    validation_sums: tuple[Array, ...] = result.validation_sums
    # What a kernel cannot do (a singular design, say) is done as scikit-learn does it, with the same draw.
    for i in np.flatnonzero(~result.handled):
        level = block.injected if injected is None else injected
        one = _fit_block(problem if whole is None else whole, Block(block.level, level, block.first + int(i), 1))
        if isinstance(one, Failure):
            return one
        losses[:, i] = one.losses[:, 0]
        redraws += one.redraws - int(result.redraws[i])
        if whole is None:
            train_sums = add_sums(train_sums, one.train_sums)
        validation_sums = add_sums(validation_sums, one.validation_sums)
    return BlockLosses(losses, redraws, train_sums, validation_sums)


def add_sums(one: tuple[Array, ...], other: tuple[Array, ...]) -> tuple[Array, ...]:
    """The sums of two sets of replicates together, partition by partition."""
    return tuple(left if _is_nothing(right) else left + right for left, right in zip(one, other, strict=True))


def nothing(units: Units, columns: int) -> Array:
    """Sums that are 0 for all units, in the memory of one number."""
    zeros: Array = np.broadcast_to(np.zeros(1), (units.count, columns))
    return zeros


def _is_nothing(sums: Array) -> bool:
    return sums.strides == (0, 0)


def _fit_block(problem: Workload, block: Block) -> BlockLosses | Failure:
    metrics = problem.losses
    losses = np.empty((len(metrics), block.count))
    redraws = 0
    train_sums = tuple(nothing(units, TRAIN_SUMS) for _ in metrics for units in problem.train_units)
    validation_sums = tuple(
        np.zeros((units.count, VALIDATION_SUMS)) for _ in metrics for units in problem.validation_units
    )
    stands_for_all = _picked(block)
    for k in range(block.count):
        replicate = block.first + k
        stream = np.random.Philox(key=problem.key, counter=[0, 0, block.level, replicate])
        rng = np.random.Generator(stream)
        try:
            draw, scores, again = _draw_and_score(problem, rng, block.injected, replicate, k == stands_for_all)
            redraws += again
        except Exception as error:
            return Failure(block, replicate, portable(error))
        losses[:, k] = [loss for loss, _ in scores]
        if not draw.weighted:
            assert draw.from_train is not None
            train_sums = tuple(np.zeros(sums.shape) if _is_nothing(sums) else sums for sums in train_sums)
            _add_all(train_sums, problem.train_units, draw.from_train, losses[:, k])
        _add_all(validation_sums, problem.validation_units, draw.from_validation, losses[:, k])
        M = len(draw.from_validation)
        counted = [_counts(draw.from_validation, units) for units in problem.validation_units]
        for m, (t, effects) in enumerate(scores):
            stands_for = block.count if metrics[m].costly else 1
            for sums, N, E in zip(validation_sums[m * len(counted) :], counted, effects, strict=False):
                NE = N * E
                sums[:, TRAIN_SUMS:] += stands_for * np.stack([E, E**2, NE, NE * t, M * E, M * E * t], axis=1)
    return BlockLosses(losses, redraws, train_sums, validation_sums)


def _picked(block: Block) -> int:
    """The replicate that stands for its block: scattered, so that all parts of V̂ have their turn."""
    return ((block.first * 2654435761) >> 12) % block.count


def _add_all(sums: tuple[Array, ...], partitions: tuple[Units, ...], drawn: Rows, losses: Array) -> None:
    """Add the draws of a pool to the sums of every metric and partition."""
    M = len(drawn)
    for place, units in enumerate(partitions):
        N = _counts(drawn, units)
        # Columns N, Nt, N², N²t, N²t², NM, NMt, NMt²; those without t are the same for all metrics.
        columns = np.empty((TRAIN_SUMS, units.count))
        columns[0] = N
        np.multiply(N, N, out=columns[2])
        np.multiply(N, M, out=columns[5])
        for own, t in zip(sums[place :: len(partitions)], losses, strict=True):
            for base, target in ((0, 1), (2, 3), (3, 4), (5, 6), (6, 7)):
                np.multiply(columns[base], t, out=columns[target])
            own[:, :TRAIN_SUMS] += columns.T


def _counts(positions: Rows, units: Units) -> Array:
    return np.bincount(units.of[positions], minlength=units.count).astype(float)


def _draw(problem: Workload, rng: np.random.Generator, injected: float, replicate: int) -> tuple[Draw, int]:
    labels = np.asarray(problem.y) if problem.classifier else None
    no_means = [metric for metric in problem.losses if not metric.is_mean]
    for again in range(MAX_DRAWS):
        draw = problem.resampler.draw(rng, injected, replicate)
        if _is_empty(draw):
            continue
        if labels is not None:
            drawn = labels[_rows(problem, draw)]
            if (drawn == drawn[0]).all():
                continue
        if no_means:
            target = take_rows(problem.y, problem.validation[draw.scored])
            if any(metric.undefined(target) for metric in no_means):
                continue
        return draw, again
    raise RuntimeError(f"{MAX_DRAWS} resamples in a row held a single class or left no validation record to score")


def _draw_and_score(
    problem: Workload, rng: np.random.Generator, injected: float, replicate: int, stands_for_all: bool
) -> tuple[Draw, list[tuple[float, list[Array]]], int]:
    """A draw whose predictions define every metric, its scores, and the number of draws before it."""
    redraws = 0
    for _ in range(MAX_DRAWS):
        draw, again = _draw(problem, rng, injected, replicate)
        redraws += again
        try:
            return draw, _fit_and_score(problem, rng, draw, replicate, stands_for_all), redraws
        except NotDefinedError as error:
            why, redraws = str(error), redraws + 1
    raise RuntimeError(f"the metric was not defined for {MAX_DRAWS} resamples in a row, since {why}")


def _is_empty(draw: Draw) -> bool:
    """Whether nothing trains, or nothing is left to score."""
    nothing_trains = draw.from_train is not None and len(draw.from_train) + len(draw.from_validation) == 0
    return nothing_trains or len(draw.scored) == 0


def _rows(problem: Workload, draw: Draw) -> Rows:
    from_train = problem.train if draw.from_train is None else problem.train[draw.from_train]
    return np.concatenate([from_train, problem.validation[draw.from_validation]])


def _fit_and_score(
    problem: Workload, rng: np.random.Generator, draw: Draw, replicate: int, stands_for_all: bool
) -> list[tuple[float, list[Array]]]:
    """For every metric the loss of the scored records, and each unit's effect on it, one array per partition."""
    estimator = fit_clone(problem.estimator, problem.X, problem.y, _rows(problem, draw), problem.params, rng)
    scored = problem.validation[draw.scored]
    X, y = take_rows(problem.X, scored), take_rows(problem.y, scored)
    predictions = shared_predictions(problem.losses, estimator, X, y, salt=replicate)
    weight = None if problem.score_weight is None else problem.score_weight[scored]
    partitions = [Partition(units.of[draw.scored], units.count) for units in problem.validation_units]
    return [
        metric.score(predictions, weight, partitions if stands_for_all or not metric.costly else ())
        for metric in problem.losses
    ]


def fit_clone(estimator: Any, X: Any, y: Any, rows: Rows, params: dict[str, Any], rng: np.random.Generator) -> Any:
    """A clone of the estimator fitted to some rows, its open random states filled from the stream.

    The rows that a model is fitted to are a copy that nobody else needs, so it may overwrite them. Before a large copy
    is made, what earlier fits freed is given back.
    """
    from sklearn.base import clone

    if len(rows) * bytes_per_row(X) >= _LARGE:
        give_back()
    fitted = clone(estimator)
    seed_open_states(fitted, rng)
    records, targets = take_rows(X, rows), take_rows(y, rows)
    taken = {name: _take_param(value, rows, X) for name, value in params.items()}
    del rows
    with _overwriting(fitted, X):
        fitted.fit(records, targets, **taken)
    return fitted


@contextmanager
def _overwriting(estimator: Any, X: Any) -> Iterator[None]:
    """A context in which a linear model of scikit-learn works on the array itself, with the same results to the bit.

    Its option ``copy_X`` asks it to keep the array as it is. Data frames are left alone: their values are read-only.
    """
    if (
        is_plain_array(X)
        and type(estimator).__module__.startswith("sklearn.linear_model.")
        and getattr(estimator, "copy_X", False) is True
    ):
        estimator.set_params(copy_X=False)
        try:
            yield
        finally:
            estimator.set_params(copy_X=True)
    else:
        yield


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


def _take_param(value: Any, rows: Rows, X: Any) -> Any:
    """Rows of a fit parameter that has one entry per record, else the parameter as it is."""
    length = (
        value.shape[0] if hasattr(value, "shape") and np.ndim(value) else len(value) if isinstance(value, list) else -1
    )
    return take_rows(value, rows) if length == _length(X) else value


def _length(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


@dataclass(frozen=True)
class Failed:
    """What went wrong in a call."""

    error: Exception


def returns_failures(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which returns its errors."""

    @wraps(function)
    def attempt(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            return Failed(portable(error))

    return attempt


def succeeded(results: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """The results, if no call has failed; otherwise a FitError that names the first one that did."""
    for name, result in zip(names, results, strict=True):
        if isinstance(result, Failed):
            raise FitError(f"The estimator failed in {name}: {described(result.error)}") from result.error
    return list(results)


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
