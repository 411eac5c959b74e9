"""What is fitted once per audit (the user's own folds, random folds, the test's models), kept beside a checkpoint.

A finished run that is started again from its checkpoint then fits nothing at all. The whole file is written after each
part. It belongs to one problem, and is refused for another one by the names of what differs. A damaged file, and a part
whose arrays are not what they should be, are computed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.exceptions import InputError
from outofcluster.sampling.checkpoint import Place, check_same_problem

__all__ = ["BaselineStore"]

_KIND, _FORMAT = "the baselines of an audit's checkpoint", 1
_ENDING = ".baselines"

Arrays = dict[str, NDArray[Any]]


class BaselineStore:
    """Named parts, each a few arrays, computed once and read again.

    Parameters
    ----------
    place : Place or None
        Where the run keeps its work; without one nothing is stored.
    """

    def __init__(self, place: Place | None) -> None:
        self._place = place
        self._problem: dict[str, Any] = {}
        self._about: dict[str, Any] = {}
        self._arrays: Arrays = {}
        if place is not None:
            with suppress(InputError):
                self._about, self._arrays = read_archive(place.file(_ENDING), _KIND, _FORMAT)
            if not isinstance(self._about.get("problem"), dict) or not isinstance(self._about.get("parts"), list):
                self._about, self._arrays = {}, {}

    @property
    def stored_seed(self) -> int | None:
        """The seed of the run that the file belongs to; None where there is none yet."""
        seed = str(self._about.get("problem", {}).get("random_state", ""))
        return int(seed) if seed.isdecimal() else None

    def open(self, problem: dict[str, Any]) -> None:
        """Set the problem that the parts belong to; a file of another problem is refused."""
        if self._place is not None and self._about:
            check_same_problem(self._place.file(_ENDING), self._about["problem"], problem)
        self._problem = problem

    def part(self, name: str, compute: Callable[[], Arrays], sound: Callable[[Arrays], bool]) -> Arrays:
        """The arrays of a part: from the file if they are in it and sound, otherwise computed and stored."""
        prefix = f"{name}_"
        if name in self._about.get("parts", []):
            stored = {key.removeprefix(prefix): a for key, a in self._arrays.items() if key.startswith(prefix)}
            # Arrays of other names or kinds than those that are looked for are no more sound than wrong numbers.
            with suppress(KeyError, ValueError, TypeError, IndexError):
                if sound(stored):
                    return stored
        arrays = {key: np.asarray(array) for key, array in compute().items()}
        others = {key: array for key, array in self._arrays.items() if not key.startswith(prefix)}
        self._arrays = others | {f"{prefix}{key}": array for key, array in arrays.items()}
        parts = [part for part in self._about.get("parts", []) if part != name]
        self._about = {"problem": self._problem, "parts": [*parts, name]}
        self._write()
        return arrays

    def _write(self) -> None:
        if self._place is None or not self._place.usable:
            return
        try:
            write_archive(self._place.file(_ENDING), _KIND, _FORMAT, self._about, self._arrays)
        except (InputError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error).rpartition(": ")[2].rstrip(".")
            self._place.give_up(f"cannot be written ({why})")
