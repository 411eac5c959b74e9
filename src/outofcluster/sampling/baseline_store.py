"""What is fitted once per audit (the user's own folds, random folds, the test's models), kept beside a checkpoint.

A finished run that is started again from its checkpoint then fits nothing at all. The whole file is written after each
part. It belongs to one problem, and is refused for another one by the names of what differs.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import read_archive, write_archive
from outofcluster.sampling.checkpoint import check_same_problem

__all__ = ["BaselineStore"]

_KIND, _FORMAT = "the baselines of an audit's checkpoint", 1

Arrays = dict[str, NDArray[Any]]


class BaselineStore:
    """Named parts, each a few arrays, computed once and read again.

    Parameters
    ----------
    path : path or None
        The file; without one nothing is stored.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._problem: dict[str, Any] = {}
        self._about: dict[str, Any] = {}
        self._arrays: Arrays = {}
        if path is not None and path.exists():
            self._about, self._arrays = read_archive(path, _KIND, _FORMAT)

    @property
    def stored_seed(self) -> int | None:
        """The seed of the run that the file belongs to; None where there is none yet."""
        seed = self._about.get("problem", {}).get("random_state")
        return None if seed is None else int(seed)

    def open(self, problem: dict[str, Any]) -> None:
        """Set the problem that the parts belong to; a file of another problem is refused."""
        if self._path is not None and self._about:
            check_same_problem(self._path, self._about["problem"], problem)
        self._problem = problem

    def part(self, name: str, compute: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part: from the file if they are in it, otherwise computed and stored."""
        if name not in self._about.get("parts", []):
            arrays = {f"{name}_{key}": np.asarray(array) for key, array in compute().items()}
            self._arrays = self._arrays | arrays
            self._about = {"problem": self._problem, "parts": [*self._about.get("parts", []), name]}
            if self._path is not None:
                write_archive(self._path, _KIND, _FORMAT, self._about, self._arrays)
        prefix = f"{name}_"
        return {key.removeprefix(prefix): array for key, array in self._arrays.items() if key.startswith(prefix)}
