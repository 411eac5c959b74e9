"""Files of a run: finished parts that are found again, and results that are whole or not there.

A part is a piece of sampling with a name and parameters. Its result is kept in ``parts/<name>-<digest>.json``, with the
digest taken over the parameters, the seed, the data and the version of the package. The same call finds it there; when
anything in the digest changes, only the parts that it touches are made again. What a part has sampled when it is
interrupted lies in checkpoint files next to it, which are deleted once it is finished.

Every file is written under a temporary name and renamed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outofcluster._base.exceptions import InputError
from outofcluster._base.plain import plain
from outofcluster.reproduction.progress import Reporter
from outofcluster.reproduction.versions import versions

__all__ = ["Scratch", "Store", "digest", "make_folder", "write_json", "write_whole"]

Scratch = Callable[[str], Path]
"""Gives the path of a checkpoint file for a suffix."""


def digest(parameters: Any) -> str:
    """A short digest of plain data.

    Examples
    --------
    >>> digest({"n": 15}) == digest({"n": 15}) != digest({"n": 16})
    True
    """
    written = json.dumps(plain(parameters), sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()[:16]


@dataclass
class Store:
    """The folder of one study.

    Attributes
    ----------
    folder : Path
        Where the study's files go.
    common : dict
        What every part's digest covers: version, data, seed.
    report : Reporter
        Is told of every part.
    seconds : float
        Time that went into the parts, whenever they were made.
    """

    folder: Path
    common: dict[str, Any]
    report: Reporter
    seconds: float = field(default=0.0, init=False)

    def part(self, name: str, parameters: dict[str, Any], compute: Callable[[Scratch], Any], *, told: str) -> Any:
        """The result of a part, from its file or computed; ``told`` is its line in the progress."""
        folder = make_folder(self.folder / "parts")
        code = digest(self.common | {"part": name, "parameters": parameters})
        path = folder / f"{name}-{code}.json"
        stored = _read(path, code)
        if stored is None:
            started = time.monotonic()
            # Checkpoints hold bits that depend on the libraries, so each set of versions has its own.
            stem = f"{name}-{code}-{digest(versions())[:6]}"
            result = compute(lambda suffix: folder / f"{stem}-{suffix}.checkpoint")
            seconds = time.monotonic() - started
            stored = {"digest": code, "parameters": parameters, "seconds": round(seconds, 3), "result": result}
            # Through JSON at once, so that a result is the same whether it was computed or found.
            stored = json.loads(write_json(path, stored))
            for left in folder.glob(f"{stem}-*.checkpoint"):
                left.unlink(missing_ok=True)
            self.report.done(told, seconds)
        else:
            self.report.found(told)
        self.seconds += stored["seconds"]
        return stored["result"]


def _read(path: Path, code: str) -> dict[str, Any] | None:
    """A stored part, unless it is missing or damaged."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        stored = json.loads(path.read_text())
        if stored["digest"] == code and "result" in stored and stored["seconds"] >= 0:
            return dict(stored)
    return None


def write_json(path: Path, data: Any) -> str:
    """Write plain data as strict JSON, and give back the text; lists of numbers take one line."""
    text = json.dumps(plain(data), indent=1, allow_nan=False)
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda found: " ".join(found.group().split()), text) + "\n"
    write_whole(path, text.encode())
    return text


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or not there; one that holds the same is left alone."""
    try:
        if path.is_file() and path.read_bytes() == content:
            return
        handle, half = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(content)
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(half, 0o666 & ~umask)  # mkstemp's own mode is for secrets
            os.replace(half, path)
        except BaseException:
            Path(half).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise _unwritable(path.parent, error) from error


def make_folder(folder: Path) -> Path:
    """A folder that exists and can be written to, which is tried out; made if need be, and not left behind if not."""
    made: list[Path] = []
    try:
        for level in (*reversed(folder.parents), folder):
            if not level.exists():
                level.mkdir()
                made.append(level)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        remove_empty(made)
        raise _unwritable(folder, error) from error
    return folder


def remove_empty(folders: list[Path]) -> None:
    """Remove folders that hold nothing, the last first."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _unwritable(folder: Path, error: OSError) -> InputError:
    reason = error.strerror or type(error).__name__
    return InputError(f"out must be a folder that can be written, got {str(folder)!r}: {reason}.")
