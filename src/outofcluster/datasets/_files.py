"""Where files are looked for: the folder given, else the one the environment names, else the archive itself.

A folder that was named is taken at its word: a file that it lacks is reported, never fetched from elsewhere.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from outofcluster._base.exceptions import InputError
from outofcluster.datasets._sources import Source, verified

__all__ = ["VARIABLE", "DataHome", "read_files", "read_plain_or_gzipped"]

VARIABLE = "OUTOFCLUSTER_DATA"
"""Environment variable that names the folder of the data."""

DataHome = str | os.PathLike[str] | None


def read_files(source: Source, names: Sequence[str], data_home: DataHome) -> list[bytes]:
    """Checked contents of some files of a data set, in the order of their names."""
    if data_home is not None and not isinstance(data_home, str | os.PathLike):
        raise InputError(f"data_home must be the path of a folder or None, got {data_home!r}.")
    if data_home is not None:
        return [_find(source, name, Path(data_home), "data_home") for name in names]
    named = os.environ.get(VARIABLE)
    if named:
        return [_find(source, name, Path(named), VARIABLE) for name in names]

    from outofcluster.datasets._download import fetch

    return fetch(source, names)


def _find(source: Source, name: str, home: Path, told_by: str) -> bytes:
    folder = home.expanduser()
    file = f"{source.folder}/{name}"
    try:
        content = read_plain_or_gzipped(folder / source.folder / name)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{told_by} must hold a readable {file} (plain or .gz), got {type(error).__name__} in {str(folder)!r}; "
            f"the file can be had at {source.page}."
        ) from error
    if content is None:
        raise InputError(
            f"{told_by} must be a folder that holds {file} (plain or .gz), got {str(folder)!r}, where it is missing; "
            f"the file can be had at {source.page}."
        )
    return verified(source, name, content, repr(str(folder)))


def read_plain_or_gzipped(path: Path) -> bytes | None:
    """What a file holds, be it plain or gzipped under its name with ``.gz``; None if there is neither."""
    if path.is_file():
        return path.read_bytes()
    packed = path.with_name(f"{path.name}.gz")
    return gzip.decompress(packed.read_bytes()) if packed.is_file() else None
