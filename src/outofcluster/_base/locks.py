"""Locks on files that die with their process, so that a killed one never stands in the way.

The operating system holds them: ``flock`` on Unix, a locked byte far behind the end of the file on Windows. They are
asked for without waiting. Some network disks know no locks; whoever writes there must be safe without one.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 1 << 40, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    _TAKEN: tuple[type[OSError], ...] = (PermissionError, BlockingIOError)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    _TAKEN = (BlockingIOError,)


def lock_descriptor(descriptor: int) -> bool:
    """Lock an open file until it is closed; False where somebody else has locked it."""
    try:
        _lock(descriptor)
    except _TAKEN:
        return False
    except OSError:
        # The disk knows no locks.
        return True
    return True


def unlock_descriptor(descriptor: int) -> None:
    """Give a lock back before the file is closed, since a forked process may have it open as well."""
    with suppress(OSError):
        _unlock(descriptor)


class FileLock:
    """A file that exists while somebody holds it.

    Parameters
    ----------
    path : path
        The file. It is made when the lock is taken, and removed when it is released.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock without waiting; False where somebody else has it. Errors are those of the disk."""
        while True:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                if not lock_descriptor(descriptor):
                    return False
                # Whoever had the lock may have removed the file just before it was locked here.
                if _is_at(descriptor, self.path):
                    self._descriptor = descriptor
                    return True
            finally:
                if self._descriptor != descriptor:
                    os.close(descriptor)

    def release(self) -> None:
        """Give the lock back, if it is held."""
        if self._descriptor is None:
            return
        with suppress(OSError):
            self.path.unlink(missing_ok=True)
        unlock_descriptor(self._descriptor)
        with suppress(OSError):
            os.close(self._descriptor)
        self._descriptor = None


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
