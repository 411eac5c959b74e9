"""Durable progress: finished batches appended to one file, from which a killed run goes on with the same bits.

The file starts with a line that says what it is. A sequence of records follows; each has its length, a digest, and
JSON and arrays in an npz without pickles. The first holds the problem, each of the others a batch of replicates of one
level: the number of its first replicate, its losses, and the summed effects of units *up to and including this batch*.
The digest is the SHA-256 of the record and of the digest before it, so a record that was cut short, altered, repeated,
moved, or copied from another run does not match, and is dropped with all that follows. Whoever goes on from the file
takes a batch only if it holds the very replicates that come next (:mod:`outofcluster.sampling.engine`), and computes
the rest anew.

One process at a time writes to a file. It holds a lock beside the file while it does, which the system ends with it. A
second one works without the file, and so does a run whose disk is full: keeping work must never cost work.

What is fitted once per audit (the user's own folds, random folds, the test's models) is kept beside these files, so
that a finished run that is started again from its checkpoint fits nothing at all. The whole file is written after each
part. It belongs to one problem, and is refused for another one by the names of what differs. What was in a damaged file
is computed anew.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import struct
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.archive import read_archive, write_archive
from outofcluster._base.arguments import Array
from outofcluster._base.exceptions import CheckpointError, CheckpointWarning, InputError
from outofcluster._base.files import check_path, release_lock, shown_path, take_lock
from outofcluster._base.plain import from_arrays, to_arrays
from outofcluster._base.seeds import RandomState, seed_of
from outofcluster.sampling.samples import differing

_FAMILY = b"outofcluster checkpoint "
_MAGIC = _FAMILY + b"6\n"
_HEAD = struct.Struct("<Q32s")

Content = TypeVar("Content")


@dataclass(frozen=True)
class Batch:
    """Consecutive replicates of one level, and the summed effects of units after them.

    There is one row of losses per metric, and one array of effects for each metric and kind of units.
    """

    level: int
    first: int
    losses: Array
    redraws: int
    effects: tuple[Array, ...]


def _packed(value: Any) -> dict[str, Any]:
    """A value as named arrays, one of which holds its plain data as JSON."""
    about, arrays = to_arrays(value)
    return {"about": np.array(json.dumps(about)), **arrays}


def _unpacked(kind: type[Content], arrays: dict[str, Any]) -> Content:
    """The value that `_packed` was called on."""
    return from_arrays(kind, json.loads(str(arrays["about"])), arrays)


def check_same_problem(path: Path, stored: dict[str, Any], problem: dict[str, Any]) -> None:
    """Refuse a checkpoint that belongs to another problem, by the names of what differs."""
    names = differing(stored, json.loads(json.dumps(problem)))
    if names:
        raise CheckpointError(
            f"checkpoint {shown_path(path)} belongs to a different problem: {', '.join(names)} "
            f"{'differs' if len(names) == 1 else 'differ'}."
        )


class CheckpointFiles:
    """Where a run keeps finished work, in one file or in several whose names begin alike.

    Parameters
    ----------
    path : path
        The file, or the beginning of the names.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = check_path("checkpoint", path)
        self.usable = True
        self._lock: Any = None
        if not os.path.isdir(self.path.parent):
            raise CheckpointError(f"checkpoint must lie in a folder that exists, got {shown_path(path)}.")

    def file(self, suffix: str) -> Path:
        """One of several files."""
        return Path(f"{self.path}{suffix}")

    def begin(self) -> bool:
        """Take all files for this run; False, with a warning, where another one has them or nothing can be written."""
        with self.doing_without():
            self._lock = take_lock(f"{self.path}.lock")
            if self._lock is None:
                self.give_up("is in use by another process")
        return self.usable

    def end(self) -> None:
        """Leave the files to others."""
        if self._lock is not None:
            release_lock(self._lock)
            self._lock = None

    @contextmanager
    def doing_without(self, verb: str = "written") -> Iterator[None]:
        """A context in which an error of the disk means that the run goes on without the files."""
        try:
            yield
        except OSError as error:
            self.give_up(f"cannot be {verb} ({error.strerror or error})")

    def give_up(self, why: str) -> None:
        """Go on without, and say so once."""
        if self.usable:
            self.usable = False
            warnings.warn(
                f"checkpoint {shown_path(self.path)} {why}, so this run goes on without it.",
                CheckpointWarning,
                stacklevel=2,
            )


class Checkpoint:
    """One file that, once opened, gives the batches in it one by one and takes further ones.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist.
    files : CheckpointFiles, optional
        What it shares with the other files of its run.
    """

    def __init__(self, path: str | os.PathLike[str], files: CheckpointFiles | None = None) -> None:
        self._files, self._alone = files or CheckpointFiles(path), files is None
        self.path = Path(path)
        self._problem: dict[str, Any] = {}
        self._file: BinaryIO | None = None
        # Where the records that count end, with the digest of the last one; and where the one that was read last ends.
        self._end = self._next = (0, b"")
        with self._files.doing_without(), suppress(FileNotFoundError):
            kind = os.stat(self.path).st_mode
            if stat.S_ISDIR(kind):
                raise CheckpointError(f"checkpoint must be a file, got the folder {shown_path(path)}.")
            if not stat.S_ISREG(kind):
                raise CheckpointError(f"checkpoint must be an ordinary file, got {shown_path(path)}.")

    def stored_problem(self) -> dict[str, Any] | None:
        """The problem that the file belongs to, or None where there is none yet."""
        with self._files.doing_without("read"), suppress(FileNotFoundError), open(self.path, "rb") as file:
            return self._read_problem(file)
        return None

    def begin(self, problem: dict[str, Any]) -> None:
        """Set the problem; a file of another one is refused by the names of what differs."""
        self._problem = problem
        if self._files.usable and (stored := self.stored_problem()) is not None:
            check_same_problem(self.path, stored, problem)

    def open(self) -> None:
        """Lock the file; where that cannot be done, or nothing can be written, there is a warning and no batch."""
        if not self._files.usable or (self._alone and not self._files.begin()):
            return
        with self._files.doing_without():
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
                self._file = os.fdopen(descriptor, "r+b")
                stored = self._read_problem(self._file)
                if stored is None:
                    self._end = (0, b"")
                    self._write(_MAGIC, self._problem)
                else:
                    check_same_problem(self.path, stored, self._problem)
            except BaseException:
                self.close()
                raise

    def following(self) -> Batch | None:
        """The batch after the last one that was taken; None where there is no whole one."""
        if self._file is None:
            return None
        with suppress(OSError):
            self._file.seek(self._end[0])
            batch, self._next = self._read(self._file, Batch)
            return batch
        return None

    def take(self) -> None:
        """Count the batch that `following` gave; what is added replaces those that were not taken."""
        self._end = self._next

    def add(self, batch: Batch) -> None:
        """Append a batch; on return it is on the disk, or there was a warning."""
        self._write(b"", batch)

    def close(self) -> None:
        """Leave the file to others."""
        file, self._file = self._file, None
        if file is not None:
            with self._files.doing_without():
                file.close()
        if self._alone:
            self._files.end()

    def _write(self, start: bytes, value: Any) -> None:
        """Write a record after the last one that counts; where that fails, the file is closed."""
        if self._file is None:
            return
        buffer = io.BytesIO()
        np.savez(buffer, **_packed(value))
        data = buffer.getvalue()
        end, chain = self._end
        chain = hashlib.sha256(chain + data).digest()
        record = start + _HEAD.pack(len(data), chain) + data
        descriptor = self._file.fileno()
        with self._files.doing_without():
            os.ftruncate(descriptor, end)
            os.lseek(descriptor, end, os.SEEK_SET)
            left = memoryview(record)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        if self._files.usable:
            self._end = (end + len(record), chain)
            return
        # What is left of a record that did not fit is no record; where it cannot be cut off, readers drop it.
        file, self._file = self._file, None
        with suppress(OSError):
            os.ftruncate(descriptor, end)
            file.close()

    def _read_problem(self, file: BinaryIO) -> dict[str, Any] | None:
        """The problem of an open file, after which its batches can be read."""
        start = file.read(len(_MAGIC))
        # A run that was killed while it created the file leaves a part of the line, or the line and no whole record.
        if not _MAGIC.startswith(start):
            made = "another release has written" if start.startswith(_FAMILY) else "is not one"
            raise CheckpointError(
                f"checkpoint must be a file that a run has written, got {shown_path(self.path)}, which {made}."
            )
        self._end = (len(start), b"")
        if len(start) < len(_MAGIC):
            return None
        problem, self._end = self._read(file, dict[str, Any])
        return problem

    def _read(self, file: BinaryIO, kind: type[Content]) -> tuple[Content | None, tuple[int, bytes]]:
        """The next record, or None where there is no whole one, and where the one after it begins."""
        end, chain = self._end
        head = file.read(_HEAD.size)
        length, digest = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, b"")
        if length <= os.fstat(file.fileno()).st_size - end - len(head):
            data = file.read(length)
            # Where the digest is right and the content is not, somebody made it so.
            with suppress(Exception):
                if hashlib.sha256(chain + data).digest() == digest:
                    with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                        content = _unpacked(kind, {name: stored[name] for name in stored.files})
                    return content, (end + _HEAD.size + length, digest)
        return None, self._end


_KIND, _FORMAT = "the baselines of an audit's checkpoint", 3
_SUFFIX = ".baselines"


@dataclass(frozen=True)
class _Baselines:
    """The baselines by name, and the problem that they belong to."""

    problem: dict[str, Any]
    parts: dict[str, dict[str, NDArray[Any]]]


class Store:
    """What an audit has finished, in files whose names begin alike; without a path nothing is stored.

    What is fitted once per audit (the user's own folds, random folds, the test's models) is kept in one file, and the
    batches of every run in a file of its own.
    """

    def __init__(self, files: CheckpointFiles | None) -> None:
        self._files = files
        self._stored: _Baselines | None = None
        if files is not None:
            with suppress(InputError):
                self._stored = read_archive(files.file(_SUFFIX), _KIND, _FORMAT, _Baselines)

    @classmethod
    @contextmanager
    def at(cls, path: str | os.PathLike[str] | None) -> Iterator[Self]:
        """The store of a checkpoint, which others may use once the context is left."""
        if path is None:
            yield cls(None)
            return
        files = CheckpointFiles(path)
        try:
            yield cls(files if files.begin() else None)
        finally:
            files.end()

    def seed(self, random_state: RandomState) -> int | None:
        """The seed of a call, else that of the run that the file belongs to; None where there is none yet."""
        seed = seed_of(random_state)
        if seed is not None or self._stored is None:
            return seed
        stored = str(self._stored.problem.get("random_state", ""))
        return int(stored) if stored.isdecimal() else None

    def checkpoint(self, fold: int, role: str) -> Checkpoint | None:
        """Where the batches of a run are kept."""
        if self._files is None:
            return None
        return Checkpoint(self._files.file(f".fold{fold}.{role.replace(', ', '-').replace(' ', '-')}"), self._files)

    def open(self, problem: dict[str, Any]) -> None:
        """Set the problem that the parts belong to; a file of another problem is refused."""
        if self._files is not None and self._stored is not None:
            check_same_problem(self._files.file(_SUFFIX), self._stored.problem, problem)
        self._stored = _Baselines(problem, {} if self._stored is None else self._stored.parts)

    def holds(self, name: str) -> bool:
        """Whether a part with this name is in the file; another problem is refused once the file is opened."""
        return self._stored is not None and name in self._stored.parts

    def part(self, name: str, kind: type[Content], compute: Callable[[], Content]) -> Content:
        """A value that is computed once: from the file if it is in it, otherwise computed and stored."""
        assert self._stored is not None
        # A part of another make than what is looked for is computed anew.
        with suppress(KeyError, TypeError, ValueError):
            return _unpacked(kind, self._stored.parts[name])
        value = compute()
        if self._files is not None:
            self._stored.parts[name] = _packed(value)
        if self._files is not None and self._files.usable:
            try:
                with self._files.doing_without():
                    write_archive(self._files.file(_SUFFIX), _KIND, _FORMAT, self._stored)
            except InputError as error:
                self._files.give_up(f"cannot be written ({str(error).rpartition(': ')[2].rstrip('.')})")
        return value
