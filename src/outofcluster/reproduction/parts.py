"""Finished work that is found again, and what it depends on.

Every run of fits is kept as a file of loss samples, and whatever else takes time as JSON, in the folder ``parts`` of a
study. A file's name holds a digest of all that its content depends on: parameters, seed, data, version of the package.
The same call finds it there; when anything in the digest changes, only the parts that it touches are made again. What a
long run has sampled when it is interrupted lies in a checkpoint beside it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np

from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import InputError
from outofcluster._base.files import write_whole
from outofcluster._base.plain import plain
from outofcluster.problem.problem import digest
from outofcluster.sampling.progress import Progress
from outofcluster.sampling.run import Sampling, package_versions
from outofcluster.sampling.samples import LossSamples
from outofcluster.sampling.store import Checkpoint

__all__ = ["Means", "Parts", "seed_for", "to_json", "versions"]

_CHECKPOINT_FROM = 5_000
"""Fits from which a run is worth a checkpoint."""


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python, of this package and of what it stands on; None for what is not installed."""
    installed: dict[str, str | None] = {**package_versions()}
    for name in ("clarabel", "matplotlib", "cvxpy"):
        installed[name] = None
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def seed_for(root: int, *words: object) -> int:
    """A seed of 63 bits out of the run's seed and the name of a part, whatever else is run and in whatever order.

    Examples
    --------
    >>> seed_for(0, "heart", "paper", 3) != seed_for(0, "heart", "paper", 4)
    True
    """
    name = "/".join(map(str, (root, *words)))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 1


def to_json(data: Any) -> str:
    """Plain data as strict JSON; lists of numbers take one line."""
    text = json.dumps(plain(data), indent=1, allow_nan=False)
    return re.sub(r"\[[^\[\]{}\"]*\]", lambda match: " ".join(match.group().split()), text) + "\n"


@dataclass(frozen=True, eq=False)
class Means:
    """Mean loss at each injected fraction: all that is needed of loss samples to fit a curve and to draw them.

    Attributes
    ----------
    injected, means, standard_errors : array
        Injected fractions, mean losses, and their Monte-Carlo standard errors.
    n_fits : array of int
        Fits at each level.
    size : int
        Training records of a replicate.
    """

    injected: Array
    means: Array
    standard_errors: Array
    n_fits: Any
    size: int

    @classmethod
    def of(cls, samples: LossSamples) -> Self:
        """Of loss samples."""
        counts = np.array([len(level) for level in samples.losses])
        return cls(samples.injected, samples.means, samples.standard_errors, counts, samples.size)

    def levels(self, leakage: float) -> Array:
        """The true shares p = p0 + (1 - p0) a."""
        return leakage + (1 - leakage) * self.injected

    def seen_by_user(self, leakage: float) -> Means:
        """The same losses for one whose training pool holds a share of leaked records already.

        Injecting p into clean pools gives what injecting (p - p0) / (1 - p0) gives on top of p0.

        Examples
        --------
        >>> clean = Means(np.array([0.1, 1.0]), np.array([0.3, 0.2]), np.array([0.01, 0.01]), np.array([50, 50]), 100)
        >>> clean.seen_by_user(0.1).injected
        array([0., 1.])
        >>> clean.seen_by_user(0.1).levels(0.1)
        array([0.1, 1. ])
        """
        injected = np.clip((self.injected - leakage) / (1 - leakage), 0, 1)
        return Means(injected, self.means, self.standard_errors, self.n_fits, self.size)

    @classmethod
    def pooled(cls, runs: list[Means]) -> Self:
        """Several runs of the same levels as one."""
        counts = np.array([run.n_fits for run in runs])
        total = counts.sum(axis=0)
        mean = (counts * np.array([run.means for run in runs])).sum(axis=0) / total
        error = np.sqrt(((counts * np.array([run.standard_errors for run in runs])) ** 2).sum(axis=0)) / total
        return cls(runs[0].injected, mean, error, total, runs[0].size)

    def binned(self, most: int) -> Means:
        """Neighbouring levels averaged, in equal numbers, until there are at most so many.

        Averages of equally spaced levels over equally many neighbours keep a decreasing or convex shape.
        """
        width = -(-len(self.means) // most)
        whole = len(self.means) // width * width
        injected, means, variances = (
            np.asarray(values[:whole], dtype=float).reshape(-1, width).mean(axis=1)
            for values in (self.injected, self.means, self.standard_errors**2)
        )
        counts = np.asarray(self.n_fits)[:whole].reshape(-1, width).sum(axis=1)
        return Means(injected, means, np.sqrt(variances / width), counts, self.size)


@dataclass
class Parts:
    """Finished work of one study.

    Attributes
    ----------
    folder : Path
        Where the files lie.
    common : dict
        What every part depends on: version, data, seed.
    progress : Progress
        Counts the fits, those found included.
    """

    folder: Path
    common: Mapping[str, Any]
    progress: Progress

    def samples(
        self,
        name: str,
        parameters: Any,
        n_fits: int,
        start: Callable[[Checkpoint | None], Sampling],
        n_jobs: int | None,
    ) -> LossSamples:
        """Loss samples from their file, or fitted; ``start`` prepares a run of that many fits or fewer."""
        path = self._path(name, parameters, "samples")
        with suppress(InputError):
            samples = LossSamples.load(path)
            self.progress.found(samples.n_fits)
            return samples
        # A checkpoint goes on with the same bits under the same libraries only, so each set of versions has its own.
        checkpoint = Checkpoint(path.with_suffix(f".{digest(package_versions())[:6]}.checkpoint"))
        samples = start(checkpoint if n_fits >= _CHECKPOINT_FROM else None).run_within(self.progress, n_jobs=n_jobs)
        samples.save(path)
        checkpoint.path.unlink(missing_ok=True)
        return samples

    def plain(self, name: str, parameters: Any, compute: Callable[[], Any], *, n_fits: int = 0) -> Any:
        """A result that is not of loss samples, as plain data."""
        path = self._path(name, parameters, "json")
        with suppress(OSError, ValueError):
            stored = json.loads(path.read_text())
            self.progress.found(n_fits)
            return stored
        text = to_json(compute())
        self.progress.add(n_fits)
        write_whole("out", path, text)
        # Through JSON at once, so that a result is the same whether it was computed or found.
        return json.loads(text)

    def _path(self, name: str, parameters: Any, suffix: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{name}-{digest([self.common, name, parameters])[:16]}.{suffix}"
