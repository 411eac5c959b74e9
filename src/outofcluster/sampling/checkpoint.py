"""Durable progress: finished batches appended to one file, from which a killed run goes on with the same bits.

The file starts with a line that says what it is. A sequence of records follows; each has its length, its CRC-32, and an
npz without pickles. The first holds the problem, each of the others a batch of replicates of one level, in order, with
the level's jackknife sums *up to and including this batch*. Every record is on the disk before the next batch is
waited for. A record that was cut short when the process was killed does not have its length or its checksum, and is
dropped with all that follows.
"""

from __future__ import annotations

import io
import json
import os
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError
from outofcluster._base.validation import Array
from outofcluster.sampling.samples import differing

__all__ = ["Batch", "Checkpoint", "check_same_problem"]

_MAGIC = b"outofcluster checkpoint 3\n"
_HEAD = struct.Struct("<QI")


@dataclass(frozen=True)
class Batch:
    """Consecutive replicates of one level, and the level's sums after them.

    There is one row of losses per metric, and one array of sums for each metric and kind of units.
    """

    level: int
    losses: Array
    redraws: int
    train_sums: tuple[Array, ...]
    validation_sums: tuple[Array, ...]

    def to_arrays(self) -> dict[str, Any]:
        """The batch as named arrays."""
        kinds = range(len(self.train_sums))
        return (
            {"level": np.array(self.level), "losses": self.losses, "redraws": np.array(self.redraws)}
            | {f"train_sums{k}": self.train_sums[k] for k in kinds}
            | {f"validation_sums{k}": self.validation_sums[k] for k in kinds}
        )

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Batch:
        """The batch that `to_arrays` was called on."""
        kinds = range(sum(name.startswith("train_sums") for name in arrays))
        return cls(
            int(arrays["level"]),
            arrays["losses"],
            int(arrays["redraws"]),
            tuple(arrays[f"train_sums{k}"] for k in kinds),
            tuple(arrays[f"validation_sums{k}"] for k in kinds),
        )


def check_same_problem(path: Path, stored: dict[str, Any], problem: dict[str, Any]) -> None:
    """Refuse a checkpoint that belongs to another problem, by the names of what differs."""
    names = differing(stored, json.loads(json.dumps(problem)))
    if names:
        raise InputError(
            f"checkpoint {str(path)!r} belongs to a different problem: {', '.join(names)} "
            f"{'differs' if len(names) == 1 else 'differ'}."
        )


class Checkpoint:
    """One file that, once opened for a problem, returns the batches in it and takes further ones.

    Parameters
    ----------
    path : path
        The file; it is created if it does not exist.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.parent.is_dir():
            raise InputError(f"checkpoint must lie in a folder that exists, got {str(path)!r}.")
        if self.path.is_dir():
            raise InputError(f"checkpoint must be a file, got the folder {str(path)!r}.")

    def stored_problem(self) -> dict[str, Any] | None:
        """The problem that the file belongs to, or None where there is none yet."""
        if not self.path.exists():
            return None
        with open(self.path, "rb") as file:
            start = file.read(len(_MAGIC))
        # A run that was killed while it created the file leaves a part of the line, or the line and no whole record.
        if not _MAGIC.startswith(start):
            raise InputError(
                f"checkpoint must be a file that a run has written, got {str(self.path)!r}, which is not one."
            )
        first = next(self._records(), None)
        return None if first is None else dict(json.loads(str(first[0]["problem"])))

    def open(self, problem: dict[str, Any]) -> list[Batch]:
        """The batches that are already there; a file of another problem is refused by the names of what differs."""
        stored = self.stored_problem()
        if stored is not None:
            check_same_problem(self.path, stored, problem)
        batches, good = [], 0
        if stored is not None:
            for content, end in self._records():
                good = end
                if "problem" not in content:
                    batches.append(Batch.from_arrays(content))
        if stored is None:
            self.path.write_bytes(_MAGIC)
            self._append(problem=np.array(json.dumps(problem)))
        else:
            with open(self.path, "ab") as file:
                file.truncate(good)
        return batches

    def add(self, batch: Batch) -> None:
        """Append a batch; on return it is on the disk."""
        self._append(**batch.to_arrays())

    def _append(self, **content: Any) -> None:
        buffer = io.BytesIO()
        np.savez(buffer, **content)
        data = buffer.getvalue()
        with open(self.path, "ab") as file:
            file.write(_HEAD.pack(len(data), zlib.crc32(data)) + data)
            file.flush()
            os.fsync(file.fileno())

    def _records(self) -> Iterator[tuple[dict[str, Any], int]]:
        """All records up to the first that is not whole, each with the position where it ends."""
        size = self.path.stat().st_size
        with open(self.path, "rb") as file:
            file.seek(len(_MAGIC))
            while len(head := file.read(_HEAD.size)) == _HEAD.size:
                length, checksum = _HEAD.unpack(head)
                if length > size - file.tell():
                    return
                data = file.read(length)
                if zlib.crc32(data) != checksum:
                    return
                with np.load(io.BytesIO(data), allow_pickle=False) as stored:
                    yield {name: stored[name] for name in stored.files}, file.tell()
