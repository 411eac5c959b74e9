"""``sample_losses``: from an estimator and a split to LossSamples.

Everything is checked first, then the levels are planned, then models are fitted in rounds. A round is a target number
of fits for each level: a pilot, from whose noise the budget is allocated, then the rest; with a wanted standard error,
as many further rounds as it takes. Work is cut into blocks of fixed length, blocks into batches that take a worker
about a quarter of a second, and results are taken in order, so that what has come in so far is always the beginning of
the whole run: this is what checkpoints store, and what is left after an error.
"""

from __future__ import annotations

import platform
import time
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np

from outofcluster._base.arguments import Array, Codes
from outofcluster._base.exceptions import FitError, described
from outofcluster.sampling.backends import count_workers, in_order
from outofcluster.sampling.fitting import (
    Block,
    BlockLosses,
    Failure,
    Workload,
    add_effects,
    lost_workers,
    run_timed,
)
from outofcluster.sampling.levels import Plan
from outofcluster.sampling.progress import Part
from outofcluster.sampling.samples import LossSamples, UnitEffects
from outofcluster.sampling.store import Batch, Checkpoint

_BATCH_SECONDS = 0.25
_FLUSH_SECONDS = 1.0
# Replicates in a block. They fix the bits of the summed effects, so they must not depend on the machine.
_COMPILED_BLOCK, _FITTED_BLOCK = 64, 4


@dataclass(frozen=True)
class Identity:
    """What the samples must know about the run that they come from.

    Attributes
    ----------
    problem : dict
        What is sampled.
    unit_numbers : dict
        For every kind of units whose effects are kept, their numbers.
    seed : int
        Entropy of the run.
    """

    problem: dict[str, Any]
    unit_numbers: dict[str, Codes]
    seed: int


@cache
def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide the bits of a result."""
    names = ("outofcluster", "numpy", "scipy", "scikit-learn", *(("numba",) if find_spec("numba") else ()))
    return {"python": platform.python_version()} | {name: version(name) for name in names}


@dataclass(frozen=True)
class _Level:
    """What has come in at one level: losses in parts, one row per metric in each, redraws, and summed effects."""

    parts: tuple[Array, ...]
    redraws: int
    effects: tuple[Array, ...]

    @property
    def count(self) -> int:
        """Number of replicates."""
        return sum(part.shape[1] for part in self.parts)


class _Store:
    """The levels in memory and, where there is a checkpoint, on disk: batches of one level, about one per second.

    A level is replaced as a whole: a run that is stopped in between must not keep effects without their losses.
    """

    def __init__(self, workload: Workload, n_levels: int, checkpoint: Checkpoint | None) -> None:
        self._no_losses = np.zeros((len(workload.task.metrics), 0))
        self.levels = [_Level((), 0, workload.no_effects())] * n_levels
        # What the checkpoint holds of each level.
        self._stored = list(self.levels)
        self._checkpoint = checkpoint
        self._level = 0
        self._flushed = time.monotonic()

    def restore(self, blocks: list[Block]) -> list[Block]:
        """Take what the checkpoint holds of a round, and give the blocks that are left to be done."""
        done = 0
        while self._checkpoint is not None and done < len(blocks):
            batch = self._checkpoint.following()
            count = 0 if batch is None else _blocks_in(batch, blocks[done:])
            if batch is None or count == 0:
                break
            self._checkpoint.take()
            level = self.levels[batch.level]
            # The effects of a batch are those up to and including it.
            self.levels[batch.level] = self._stored[batch.level] = _Level(
                (*level.parts, batch.losses), level.redraws + batch.redraws, batch.effects
            )
            done += count
        return blocks[done:]

    def add(self, index: int, result: BlockLosses) -> None:
        """Take a finished block of a level."""
        if index != self._level:
            self.flush()
        self._level, level = index, self.levels[index]
        self.levels[index] = _Level(
            (*level.parts, result.losses),
            level.redraws + result.redraws,
            add_effects(level.effects, result.effects),
        )
        if time.monotonic() - self._flushed > _FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what the checkpoint does not hold yet."""
        level, stored = self.levels[self._level], self._stored[self._level]
        if self._checkpoint is not None and level is not stored:
            losses = np.concatenate(level.parts[len(stored.parts) :], axis=1)
            redraws = level.redraws - stored.redraws
            self._checkpoint.add(Batch(self._level, stored.count, losses, redraws, level.effects))
            self._stored[self._level] = level
        self._flushed = time.monotonic()

    def losses(self, index: int) -> Array:
        """All losses of a level, one row per metric."""
        return np.concatenate([self._no_losses, *self.levels[index].parts], axis=1)


def _blocks_in(batch: Batch, blocks: list[Block]) -> int:
    """The number of blocks that a batch consists of; 0 if it is not what the run comes to next."""
    if (batch.level, batch.first) != (blocks[0].level, blocks[0].first):
        return 0
    ends = [block.first + block.count for block in blocks if block.level == batch.level]
    end = batch.first + batch.losses.shape[1]
    return ends.index(end) + 1 if end in ends else 0


def run_plan(
    workload: Workload,
    plan: Plan,
    identity: Identity,
    *,
    checkpoint: Checkpoint | None,
    n_jobs: int | None,
    progress: Part,
) -> tuple[LossSamples, ...]:
    """Samples of every metric, once the plan is fulfilled; if an estimator fails, FitError with the first's so far."""
    store = _Store(workload, len(plan.injected), checkpoint)
    target = np.zeros(len(plan.injected), dtype=np.int64)

    def first_samples() -> LossSamples:
        return _samples(workload, plan, identity, store)[0]

    try:
        if checkpoint is not None:
            checkpoint.open()
        while True:
            sampled = [store.losses(index)[0, :count] for index, count in enumerate(target)]
            following = plan.following(target, sampled)
            if following is None:
                break
            blocks = store.restore(_blocks(workload, plan.injected, target, following))
            # What a checkpoint held does not count for the time that is left.
            progress.skip(int(following.sum() - target.sum()) - sum(block.count for block in blocks))
            with (
                lost_workers("models were fitted to resamples", first_samples),
                closing(_results(workload, blocks, n_jobs)) as results,
            ):
                for block, result, seconds in results:
                    if isinstance(result, Failure):
                        raise FitError(
                            f"The estimator failed at level {block.level} (injected fraction {block.injected:g}), "
                            f"replicate {result.replicate}: {described(result.error)}",
                            first_samples(),
                        ) from result.error
                    store.add(block.level, result)
                    progress.add(block.count, seconds)
            # Batches end with their round, so that a run that goes on can tell what comes next.
            store.flush()
            target = following
    finally:
        store.flush()
        if checkpoint is not None:
            checkpoint.close()
    return _samples(workload, plan, identity, store)


def _samples(workload: Workload, plan: Plan, identity: Identity, store: _Store) -> tuple[LossSamples, ...]:
    """Samples of every metric, of the levels that have replicates."""
    sampled = [index for index, level in enumerate(store.levels) if level.parts]
    levels, losses = [store.levels[index] for index in sampled], [store.losses(index) for index in sampled]
    weighting = workload.resampler.weighting(plan.injected[sampled])
    kinds = len(identity.unit_numbers)

    def effects(metric: int) -> dict[str, UnitEffects]:
        return {
            kind: UnitEffects(numbers, np.array([level.effects[metric * kinds + k] for level in levels]))
            for k, (kind, numbers) in enumerate(identity.unit_numbers.items())
        }

    return tuple(
        LossSamples(
            injected=plan.injected[sampled],
            losses=tuple(level[index] for level in losses),
            redraws=np.array([level.redraws for level in levels]),
            size=workload.resampler.size,
            effects=effects(index),
            effective=weighting.effective,
            kept=weighting.kept,
            strata=weighting.strata,
            problem=identity.problem | {"loss": metric.name},
            seeds=(identity.seed,),
            versions=package_versions(),
        ).shifted(metric.shift)
        for index, metric in enumerate(workload.task.metrics)
    )


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
) -> Generator[tuple[Block, BlockLosses | Failure, float]]:
    """Each block with its result and the seconds that it took, in order."""
    compiled = workload.compiled is not None
    workers = count_workers(n_jobs, threads=compiled)
    # A kernel is compiled here, once, before several threads would ask for it.
    here = len(blocks) if workers == 1 else int(compiled)
    pace = 0.0
    for block in blocks[:here]:
        pace, results = run_timed(workload, [block])
        yield block, results[0], pace
    rest, sent = blocks[here:], deque[list[Block]]()

    def batches() -> Iterator[list[Block]]:
        """As many blocks as take a quarter of a second, fewer towards the end, and one by one until that is known."""
        start = 0
        while start < len(rest):
            length = min(round(_BATCH_SECONDS / pace), (len(rest) - start) // (2 * workers)) if pace else 1
            sent.append(rest[start : start + max(length, 1)])
            start += len(sent[-1])
            yield sent[-1]

    # Compiled kernels leave the interpreter free, so threads serve them best: nothing is copied.
    with closing(in_order(run_timed, workload, batches(), n_jobs=n_jobs, threads=compiled)) as by_batch:
        for seconds, results in by_batch:
            pace = seconds
            for block, result in zip(sent.popleft(), results, strict=False):
                yield block, result, seconds
