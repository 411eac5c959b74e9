"""Files that are written whole or not at all, to a place that was checked before the work began."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import short

__all__ = ["check_destination", "check_path", "replace_file", "write_whole"]


def check_path(name: str, path: Any) -> Path:
    """A path, from what names one; ``name`` is the argument, for the message."""
    try:
        target = Path(path)
        if "\0" in str(target) or not str(path):
            raise ValueError
        target.exists()
    except (TypeError, ValueError, OSError):
        raise InputError(f"{name} must be the path of a file, got {short(path)}.") from None
    return target


def check_destination(name: str, path: str | os.PathLike[str]) -> Path:
    """Refuse a file that could not be written, by trying its folder.

    Parameters
    ----------
    name : str
        The argument that names the file, for the message.
    path : path
        The file.

    Returns
    -------
    Path

    Examples
    --------
    >>> from outofcluster._base.files import check_destination
    >>> check_destination("path", "no such folder/report.html")
    Traceback (most recent call last):
    outofcluster._base.exceptions.InputError: path must lie in a folder that exists, got 'no such folder/report.html'.
    """
    target = check_path(name, path)
    if target.is_dir():
        raise InputError(f"{name} must be a file, got the folder {str(path)!r}.")
    if not target.parent.is_dir():
        raise InputError(f"{name} must lie in a folder that exists, got {str(path)!r}.")
    try:
        # Asking for permission is not enough: a full disk or a read-only one says yes.
        with tempfile.TemporaryFile(dir=target.parent) as file:
            file.write(b"1")
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise InputError(f"{name} must be a file that can be written, got {str(path)!r}: {error.strerror}.") from None
    return target


def write_whole(name: str, path: str | os.PathLike[str], content: str | bytes) -> Path:
    """Write a file so that it is never seen half written; what was there stays if anything fails.

    Parameters
    ----------
    name : str
        The argument that names the file, for the message if it cannot be written.
    path : path
        The file.
    content : str or bytes
        What it shall hold; text is written as UTF-8.

    Returns
    -------
    Path
    """
    target = check_destination(name, path)
    replace_file(target, content.encode() if isinstance(content, str) else content)
    return target


def replace_file(target: Path, content: bytes) -> None:
    """Write a file under another name beside its place, and put it there in one step; errors are those of the disk."""
    descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(beside, _mode(target))
        os.replace(beside, target)
    except BaseException:
        Path(beside).unlink(missing_ok=True)
        raise


def _mode(target: Path) -> int:
    """Permissions as an ordinary new file has them, or as they were."""
    if target.exists():
        return target.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
