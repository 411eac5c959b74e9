"""Finished work that is stored and used again, and what it depends on.

Every run of fits is kept as a file of loss samples, and whatever else takes time as JSON, in the folder ``parts`` of a
study. A file's name holds a digest of all that its content depends on: parameters, seed, data, version of the package.
The same call reads it from there; when anything in the digest changes, only the parts that it touches are made again.
What a long run has sampled when it is interrupted lies in a checkpoint beside it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np

import outofcluster as ooc
from outofcluster._base.arguments import Array
from outofcluster._base.files import write_whole
from outofcluster._base.plain import plain

__all__ = ["Means", "Parts", "Progress", "digest", "seed_for", "to_json", "versions"]

_CHECKPOINT_FROM = 5_000
"""Fits from which a run is worth a checkpoint."""

_PACKAGES = ("outofcluster", "numpy", "scipy", "scikit-learn", "numba", "clarabel", "matplotlib", "cvxpy")


@cache
def versions() -> dict[str, str | None]:
    """Versions of Python, of this package and of what it stands on; None for what is not installed."""
    installed: dict[str, str | None] = {"python": platform.python_version()}
    for name in _PACKAGES:
        installed[name] = None
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def digest(data: Any) -> str:
    """A digest of data or parameters."""
    import joblib

    return str(joblib.hash(data))


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
    def of(cls, samples: ooc.LossSamples) -> Self:
        """Of loss samples."""
        return cls(samples.injected, samples.means, samples.standard_errors, samples.counts, samples.size)

    @classmethod
    def joined(cls, runs: list[Means]) -> Self:
        """Runs of different levels as one."""
        columns = ("injected", "means", "standard_errors", "n_fits")
        joined = {name: np.concatenate([getattr(run, name) for run in runs]) for name in columns}
        order = np.argsort(joined["injected"])
        return cls(**{name: column[order] for name, column in joined.items()}, size=runs[0].size)

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


class Progress:
    """Counts the fits of all studies, and shows them in one line of a terminal while it is entered as a context."""

    def __init__(self, total: int, *, show: bool = False) -> None:
        self.total, self.done = total, 0
        self._fitted, self._started = 0, time.monotonic()
        self._shown = show and sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            print(file=sys.stderr)

    def add(self, count: int, *, stored: bool = False) -> None:
        """Report finished fits; those that were stored do not count for the rate."""
        self.done += count
        self._fitted += 0 if stored else count
        if self._shown:
            rate = self._fitted / max(time.monotonic() - self._started, 1e-3)
            left = f", {(self.total - self.done) / rate / 60:,.0f} minutes left" if rate else ""
            line = f"{self.done:,}/{self.total:,} fits, {rate:,.0f}/s{left}"
            print(f"\r{line:<70s}", end="", file=sys.stderr, flush=True)


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
        Counts the fits, those that were stored included.
    """

    folder: Path
    common: Mapping[str, Any]
    progress: Progress

    def samples(
        self, name: str, parameters: Any, n_fits: int, sample: Callable[[Path | None], ooc.LossSamples]
    ) -> ooc.LossSamples:
        """Loss samples from their file, or from ``sample``, which takes the path of a checkpoint or None."""
        path = self._path(name, parameters, "samples")
        with suppress(ooc.InputError):
            samples = ooc.LossSamples.load(path)
            self.progress.add(samples.n_fits, stored=True)
            return samples
        # A checkpoint goes on with the same bits under the same libraries only, so each set of versions has its own.
        checkpoint = path.with_suffix(f".{digest(versions())[:6]}.checkpoint")
        samples = sample(checkpoint if n_fits >= _CHECKPOINT_FROM else None)
        self.progress.add(samples.n_fits)
        samples.save(path)
        checkpoint.unlink(missing_ok=True)
        return samples

    def plain(self, name: str, parameters: Any, compute: Callable[[], Any], *, n_fits: int = 0) -> Any:
        """A result that is not of loss samples, as plain data."""
        path = self._path(name, parameters, "json")
        with suppress(OSError, ValueError):
            stored = json.loads(path.read_text())
            self.progress.add(n_fits, stored=True)
            return stored
        text = to_json(compute())
        self.progress.add(n_fits)
        write_whole("out", path, text)
        # Through JSON at once, so that a result is the same whether it was computed or stored.
        return json.loads(text)

    def _path(self, name: str, parameters: Any, suffix: str) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        return self.folder / f"{name}-{digest([self.common, name, parameters])[:16]}.{suffix}"
