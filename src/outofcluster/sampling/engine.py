"""``sample_losses``: from an estimator and a split to LossSamples.

Everything is checked first, then the levels are planned, then models are fitted in rounds. A round is a target number
of fits for each level: a pilot, from whose noise the budget is allocated, then the rest; with a wanted standard error,
as many further rounds as it takes. Work is cut into blocks of fixed length, blocks into batches that take a worker
about a quarter of a second, and results are taken in order, so that what has come in so far is always the beginning of
the whole run: this is what checkpoints store, and what is left after an error.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import FitError, described
from outofcluster.sampling.backends import count_workers, in_order
from outofcluster.sampling.fitting import (
    MAX_DRAWS,
    Block,
    BlockLosses,
    Failure,
    Workload,
    add_sums,
    lost_workers,
    nothing,
    run_timed,
)
from outofcluster.sampling.levels import Plan
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.samples import TRAIN_SUMS, VALIDATION_SUMS, LossSamples, UnitSums
from outofcluster.sampling.store import Batch, Checkpoint

_BATCH_SECONDS = 0.25
_FLUSH_SECONDS = 1.0
_COMPILED_BLOCK, _FITTED_BLOCK = 64, 4
"""Replicates in a block. They fix the bits of the jackknife's sums, so they must not depend on the machine."""


@dataclass(frozen=True)
class Identity:
    """What the samples must know about the run that they come from.

    Attributes
    ----------
    problem : dict
        What is sampled.
    names : tuple of str
        Name of every metric, in the order of the workload's; the losses of each are samples of their own.
    units : dict
        For every kind of units that sums are kept for, the numbers of T̂'s and of V̂'s units.
    seed : int
        Entropy of the run.
    versions : dict
        Versions of the packages that it is made with.
    """

    problem: dict[str, Any]
    names: tuple[str, ...]
    units: dict[str, tuple[Any, Any]]
    seed: int
    versions: dict[str, str]


@dataclass(frozen=True)
class _State:
    """How far a level is: the parts of its losses, replicates, redraws, and sums over them."""

    parts: int
    done: int
    redraws: int
    train_sums: tuple[Array, ...]
    validation_sums: tuple[Array, ...]


class _Level:
    """What has come in at one level, and how much of it a checkpoint holds."""

    def __init__(self, train_sums: tuple[Array, ...], validation_sums: tuple[Array, ...]) -> None:
        self.losses: list[Array] = []
        self.state = self.stored = _State(0, 0, 0, train_sums, validation_sums)

    @property
    def done(self) -> int:
        """Number of replicates."""
        return self.state.done

    def add(self, result: BlockLosses) -> None:
        """Take a finished block."""
        train_sums = add_sums(self.state.train_sums, result.train_sums)
        validation_sums = add_sums(self.state.validation_sums, result.validation_sums)
        self._advance(result.losses, result.redraws, train_sums, validation_sums)

    def restore(self, batch: Batch) -> None:
        """Take a batch that a checkpoint holds; its sums are those up to and including it."""
        self._advance(batch.losses, batch.redraws, batch.train_sums, batch.validation_sums)
        self.stored = self.state

    def batch(self, level: int) -> Batch:
        """What a checkpoint does not hold yet."""
        last, state = self.stored, self.state
        losses = np.concatenate(self.losses[last.parts : state.parts], axis=1)
        return Batch(level, last.done, losses, state.redraws - last.redraws, state.train_sums, state.validation_sums)

    def _advance(
        self, losses: Array, redraws: int, train_sums: tuple[Array, ...], validation_sums: tuple[Array, ...]
    ) -> None:
        self.losses.append(losses)
        # One assignment: a run that is stopped in between must not keep sums without their losses.
        self.state = _State(
            self.state.parts + 1,
            self.state.done + losses.shape[1],
            self.state.redraws + redraws,
            train_sums,
            validation_sums,
        )


class _Store:
    """The levels in memory and, where there is a checkpoint, on disk: batches of one level, about one per second."""

    def __init__(self, workload: Workload, n_levels: int, checkpoint: Checkpoint | None) -> None:
        self._metrics = len(workload.losses)
        train = tuple(nothing(units, TRAIN_SUMS) for units in workload.train_units) * self._metrics
        validation = tuple(np.zeros((units.count, VALIDATION_SUMS)) for units in workload.validation_units)
        validation *= self._metrics
        self.levels = [_Level(train, validation) for _ in range(n_levels)]
        self._checkpoint = checkpoint
        self._level = 0
        self._flushed = time.monotonic()

    def restore(self, blocks: list[Block]) -> list[Block]:
        """Take what the checkpoint holds of a round, and give the blocks that are left to be done."""
        done = 0
        while self._checkpoint is not None and done < len(blocks):
            batch = self._checkpoint.following()
            count = 0 if batch is None else self._blocks_in(batch, blocks, done)
            if batch is None or count == 0:
                break
            self._checkpoint.take()
            self.levels[batch.level].restore(batch)
            done += count
        return blocks[done:]

    def _blocks_in(self, batch: Batch, blocks: list[Block], start: int) -> int:
        """The number of blocks that a batch consists of; 0 if it is not what the run comes to next."""
        level, first = blocks[start].level, blocks[start].first
        if (batch.level, batch.first) != (level, first) or batch.losses.ndim != 2:
            return 0
        state, replicates = self.levels[level].state, batch.losses.shape[1]
        shapes = [[array.shape for array in (*one.train_sums, *one.validation_sums)] for one in (batch, state)]
        sides = len(batch.train_sums), len(batch.validation_sums)
        if shapes[0] != shapes[1] or sides != (len(state.train_sums), len(state.validation_sums)):
            return 0
        if batch.losses.shape[0] != self._metrics or not 0 <= batch.redraws <= MAX_DRAWS * replicates:
            return 0
        place, end = start, first
        while place < len(blocks) and blocks[place].level == level and end < first + replicates:
            end += blocks[place].count
            place += 1
        return place - start if end == first + replicates else 0

    def add(self, level: int, result: BlockLosses) -> None:
        if level != self._level:
            self.flush()
        self._level = level
        self.levels[level].add(result)
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def losses(self, counts: Any) -> list[Array]:
        """The first losses of each level by the first metric, as many of them as ``counts`` says."""
        return [self.of_level(level)[0, :count] for level, count in zip(self.levels, counts, strict=True)]

    def of_level(self, level: _Level) -> Array:
        """All losses of a level, one row per metric."""
        return np.concatenate([np.zeros((self._metrics, 0)), *level.losses[: level.state.parts]], axis=1)

    def flush(self) -> None:
        level = self.levels[self._level]
        if self._checkpoint is not None and level.stored is not level.state:
            self._checkpoint.add(level.batch(self._level))
            level.stored = level.state
        self._flushed = time.monotonic()


def run_plan(
    workload: Workload,
    plan: Plan,
    identity: Identity,
    *,
    checkpoint: Checkpoint | None,
    n_jobs: int | None,
    progress: Progress,
) -> tuple[LossSamples, ...]:
    """Samples of every metric, once the plan is fulfilled; if an estimator fails, FitError with the first's so far."""
    store = _Store(workload, len(plan.injected), checkpoint)

    def samples() -> tuple[LossSamples, ...]:
        sampled = [i for i, level in enumerate(store.levels) if level.done]
        weighting = workload.resampler.weighting(plan.injected[sampled])
        losses = [store.of_level(store.levels[i]) for i in sampled]
        kinds = len(identity.units)

        def of_metric(metric: int) -> LossSamples:
            own = LossSamples(
                injected=plan.injected[sampled],
                losses=tuple(level[metric] for level in losses),
                redraws=np.array([store.levels[i].state.redraws for i in sampled]),
                size=workload.resampler.size,
                sums={
                    kind: UnitSums(
                        *identity.units[kind],
                        workload.train_units[k].sizes,
                        workload.validation_units[k].sizes,
                        _stacked([store.levels[i].state.train_sums[metric * kinds + k] for i in sampled]),
                        _stacked([store.levels[i].state.validation_sums[metric * kinds + k] for i in sampled]),
                    )
                    for k, kind in enumerate(identity.units)
                },
                effective=weighting.effective,
                kept=weighting.kept,
                strata=weighting.strata,
                problem=identity.problem | {"loss": identity.names[metric]},
                seeds=(identity.seed,),
                versions=identity.versions,
            )
            return own.shifted(workload.losses[metric].shift)

        return tuple(of_metric(metric) for metric in range(len(workload.losses)))

    target = np.zeros(len(plan.injected), dtype=np.int64)
    try:
        if checkpoint is not None:
            checkpoint.open()
        while (following := plan.following(target, store.losses(target))) is not None:
            blocks = store.restore(_blocks(workload, plan.injected, target, following))
            # What a checkpoint held does not count for the rate of the progress bar.
            done = int(following.sum() - target.sum()) - sum(block.count for block in blocks)
            progress.found(done)
            with (
                lost_workers("models were fitted to resamples", lambda: samples()[0]),
                closing(_results(workload, blocks, n_jobs)) as results,
            ):
                for block, result in results:
                    if isinstance(result, Failure):
                        raise FitError(
                            f"The estimator failed at level {block.level} (injected fraction {block.injected:g}), "
                            f"replicate {result.replicate}: {described(result.error)}",
                            samples()[0],
                        ) from result.error
                    store.add(block.level, result)
                    progress.add(block.count)
            # Batches end with their round, so that a run that goes on can tell what comes next.
            store.flush()
            target = following
    finally:
        store.flush()
        if checkpoint is not None:
            checkpoint.close()
    return samples()


def _stacked(by_level: list[Array]) -> Array:
    """The sums of all levels that were sampled; those that are 0 everywhere take no memory."""
    if by_level and all(sums.strides == (0, 0) for sums in by_level):
        return np.broadcast_to(np.zeros(1), (len(by_level), *by_level[0].shape))
    return np.array(by_level)


def _blocks(workload: Workload, injected: Array, start: Any, stop: Any) -> list[Block]:
    """The blocks of a round, in order."""
    length = _FITTED_BLOCK if workload.compiled is None else _COMPILED_BLOCK
    return [
        Block(level, float(a), first, min(length, int(stop[level]) - first))
        for level, a in enumerate(injected)
        for first in range(int(start[level]), int(stop[level]), length)
    ]


def _results(
    workload: Workload, blocks: list[Block], n_jobs: int | None
) -> Generator[tuple[Block, BlockLosses | Failure]]:
    """Each block with its result, in order."""
    compiled = workload.compiled is not None
    workers = count_workers(n_jobs, threads=compiled)
    # A kernel is compiled here, once, before several threads would ask for it.
    here = len(blocks) if workers == 1 else int(compiled)
    pace = 0.0
    for block in blocks[:here]:
        pace, results = run_timed(workload, [block])
        yield block, results[0]
    rest, sent = blocks[here:], deque[list[Block]]()

    def batches() -> Iterator[list[Block]]:
        """As many blocks as take a quarter of a second, fewer towards the end, and one by one until that is known."""
        place = 0
        while place < len(rest):
            length = min(round(_BATCH_SECONDS / pace), (len(rest) - place) // (2 * workers)) if pace else 1
            sent.append(rest[place : place + max(length, 1)])
            place += len(sent[-1])
            yield sent[-1]

    # Compiled kernels leave the interpreter free, so threads serve them best: nothing is copied.
    with closing(in_order(run_timed, workload, batches(), n_jobs=n_jobs, threads=compiled)) as by_batch:
        for seconds, results in by_batch:
            pace = seconds
            yield from zip(sent.popleft(), results, strict=False)
