"""Files that are written whole or not at all, to a place that was checked before the work began.

An ordinary file is written beside its place and put there in one step. A symbolic link stays one: the file that it
leads to is replaced. What is no ordinary file (a device, a pipe, the standard output) is written through as it is.

A lock is a file that one process at a time can hold. The system ends it with its process, so that a killed one never
stands in the way. Some network disks know no locks; whoever writes there must be safe without one.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from contextlib import suppress
from errno import ENOLCK, ENOTSUP
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import InputError, one_line

if TYPE_CHECKING:
    from filelock import BaseFileLock

# Characters of a path that messages show.
_LONGEST_PATH = 300


def shown_path(path: Any) -> str:
    """A path as it is shown in a message: as it was given, unless it is longer than a line of text can be."""
    return one_line(repr(str(path)), _LONGEST_PATH)


def check_path(name: str, path: Any) -> Path:
    """A path, from what names one; ``name`` is the argument, for the message."""
    try:
        target = Path(path)
        if not str(path):
            raise ValueError
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            # A name that no file can have, too long or with a zero in it, is refused here and not by the first write.
            os.lstat(target)
    except Exception:
        raise InputError(f"{name} must be the path of a file, got {short(path)}.") from None
    return target


def check_destination(name: str, path: str | os.PathLike[str]) -> Path:
    """Refuse a file that could not be written, by trying its folder.

    Examples
    --------
    >>> from outofcluster._base.files import check_destination
    >>> check_destination("path", "no such folder/report.html")
    Traceback (most recent call last):
    outofcluster._base.exceptions.InputError: path must lie in a folder that exists, got 'no such folder/report.html'.
    """
    if not isinstance(path, str | os.PathLike):
        # The system takes a number for an open file.
        raise InputError(f"{name} must be the path of a file, got {short(path)}.")
    if not os.fspath(path):
        # An empty name is no file, but the folder that it lies in is taken for one.
        raise InputError(f"{name} must be the path of a file, got an empty text.")
    must = f"{name} must be a file that can be written, got {shown_path(path)}"
    try:
        kind = _kind(path)
        if kind is not None and stat.S_ISDIR(kind):
            raise InputError(f"{name} must be a file, got the folder {shown_path(path)}.")
        if kind is not None and (stat.S_ISSOCK(kind) or not os.access(path, os.W_OK)):
            raise PermissionError(13, "Permission denied")
        if kind is not None and (is_standard_output(path) or not stat.S_ISREG(kind)):
            return Path(path)
        target = Path(os.path.realpath(path))
        if not target.parent.is_dir():
            raise InputError(f"{name} must lie in a folder that exists, got {shown_path(path)}.")
        # Asking for permission is not enough: a full disk or a read-only one says yes.
        with tempfile.TemporaryFile(dir=target.parent) as file:
            file.write(b"1")
    except InputError:
        raise
    except (OSError, TypeError, ValueError) as error:
        raise InputError(f"{must}: {getattr(error, 'strerror', None) or error}.") from None
    return target


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names lead to one file; a device such as /dev/null can be named as often as one likes."""
    try:
        return os.path.samefile(one, other) and not stat.S_ISCHR(os.stat(one).st_mode)
    except (OSError, ValueError):
        return os.path.normcase(os.path.realpath(one)) == os.path.normcase(os.path.realpath(other))


def is_standard_output(path: str | os.PathLike[str]) -> bool:
    """Whether a name such as /dev/stdout leads to where this process prints."""
    if not str(path).startswith(("/dev/", "/proc/")):
        return False
    try:
        return os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError, AttributeError):
        return False


def write_whole(name: str, path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file so that it is never seen half written; what was there stays if anything fails."""
    target = check_destination(name, path)
    replace_file(target, content.encode(errors="replace") if isinstance(content, str) else content)
    return Path(path)


def replace_file(target: Path, content: bytes) -> None:
    """Write a file under another name beside its place, and put it there in one step; errors are those of the disk."""
    kind = _kind(target)
    if is_standard_output(target):
        # Opening it by its name would start at its beginning where it is redirected to a file.
        sys.stdout.flush()
        with open(sys.stdout.fileno(), "wb", closefd=False) as file:
            file.write(content)
    elif kind is not None and not stat.S_ISREG(kind):
        target.write_bytes(content)
    else:
        beside = target.with_name(f".outofcluster.{token_hex(8)}")
        try:
            with open(beside, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if kind is not None:
                shutil.copymode(target, beside)
            os.replace(beside, target)
        except BaseException:
            with suppress(OSError):
                beside.unlink()
            raise


def _kind(path: str | os.PathLike[str]) -> int | None:
    """What is at a place, behind symbolic links; None if nothing is. Names that no file can have are an OSError."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None


def take_lock(path: str | os.PathLike[str]) -> BaseFileLock | None:
    """Take a lock without waiting; None where somebody else has it. Errors are those of the disk."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        return None
    except OSError as error:
        if error.errno not in (ENOLCK, ENOTSUP):
            raise
    return lock


def release_lock(lock: BaseFileLock) -> None:
    """Give a lock back. Its file is removed while it is held: whoever has just opened it sees that, and tries again."""
    with suppress(OSError):
        os.unlink(lock.lock_file)
    lock.release()
