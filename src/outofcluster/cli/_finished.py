"""Where a command keeps what it has fitted, so that the same command goes on after it was stopped."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from outofcluster._base.exceptions import CheckpointError, InputError
from outofcluster._base.files import check_outputs, release_lock, take_lock
from outofcluster.cli._words import complain


def check_files(file: str, outputs: dict[str, str | None], checkpoint: str | None) -> None:
    """Refuse outputs that cannot be written, or that would replace the records, each other, or finished work."""
    check_outputs(outputs, {"FILE": file})
    if checkpoint is None:
        return
    beginning = f"{os.path.realpath(checkpoint)}."
    for name, path in ({"FILE": file} | outputs).items():
        if path is not None and os.path.realpath(path).startswith(beginning):
            ending = os.path.realpath(path).removeprefix(beginning)
            if ending.startswith(("baselines", "fold", "lock", "threshold")):
                raise InputError(f"{name} must be another file than those of --checkpoint, got {path!r}.")


class FinishedWork:
    """The place of finished work: where the user says, or in a cache until the audit is done."""

    def __init__(self, path: str | None, folder: Path | None = None, lock: Any = None) -> None:
        self.path, self._folder, self._lock = path, folder, lock

    @classmethod
    def of(cls, checkpoint: str | None, parts: list[Any]) -> FinishedWork:
        """The place that the same command finds again."""
        if checkpoint is not None:
            return cls(checkpoint)
        from outofcluster._base.version import __version__

        name = hashlib.sha256(repr([__version__, *parts]).encode(errors="replace")).hexdigest()[:24]
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        folder = Path(cache) / "outofcluster" / "audits" / name
        try:
            if not os.path.isabs(cache):
                raise FileNotFoundError(2, "there is no home")
            folder.parent.mkdir(parents=True, exist_ok=True)
            lock = take_lock(folder.with_suffix(".lock"))
            if lock is None:
                complain("The same command is running already, so this one keeps no finished work.")
                return cls(None)
            folder.mkdir(exist_ok=True)
        except OSError as error:
            complain(f"Finished work cannot be kept in {str(folder.parent)!r}: {error.strerror or error}.")
            return cls(None)
        return cls(str(folder / "fits"), folder, lock)

    def run(self, audit: Callable[[str | None], Any]) -> Any:
        """The audit; a cache that it cannot go on from, because of damage or of other versions, is emptied."""
        try:
            return audit(self.path)
        except CheckpointError:
            if self._folder is None:
                raise
            for file in self._folder.iterdir():
                file.unlink(missing_ok=True)
            return audit(self.path)

    @property
    def exists(self) -> bool:
        """Whether there is finished work."""
        if self.path is None:
            return False
        place = Path(self.path)
        with suppress(OSError):
            return any(
                file.name.startswith(f"{place.name}.") and any(part in file.name for part in (".baselines", ".fold"))
                for file in place.parent.iterdir()
            )
        return False

    def stop(self, err: Any) -> NoReturn:
        """Say what is kept, and leave."""
        err.print()
        if self.exists:
            err.print("Stopped. What was fitted is kept, and the same command goes on from there.", markup=False)
        else:
            err.print("Stopped before anything was fitted. The same command starts again.", markup=False)
        sys.exit(130)

    def tidy(self) -> None:
        """Remove the cache if it is empty."""
        if not self.exists:
            self.drop()

    def drop(self) -> None:
        """Remove the cache once it is no longer needed."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def release(self) -> None:
        """Let other processes have the cache."""
        if self._lock is not None:
            release_lock(self._lock)
