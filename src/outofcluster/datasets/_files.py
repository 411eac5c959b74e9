"""Where files are looked for: in ``data_home``, else in the folder that the environment names, else in the archive.

If a folder is named, only that folder counts: a file that it lacks is reported, and never downloaded instead.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from pathlib import Path

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import InputError
from outofcluster._base.files import shown_path
from outofcluster.datasets import _download
from outofcluster.datasets._sources import VARIABLE, Source, read_plain_or_gzipped, verified

DataHome = str | os.PathLike[str] | None


def read_files(source: Source, names: Sequence[str], data_home: DataHome) -> list[bytes]:
    """Checked contents of some files of a data set, in the order of their names."""
    if data_home is not None and not isinstance(data_home, str | os.PathLike):
        raise InputError(f"data_home must be the path of a folder or None, got {short(data_home)}.")
    folder, named_by = (os.environ.get(VARIABLE), VARIABLE) if data_home is None else (data_home, "data_home")
    if data_home is None and not folder:
        return _download.fetch(source, names)
    return [_read(source, name, Path(folder or "").expanduser(), named_by) for name in names]


def _read(source: Source, name: str, home: Path, named_by: str) -> bytes:
    file, available = f"{source.folder}/{name}", f"the file is available at {source.page}"
    try:
        content = read_plain_or_gzipped(home / source.folder / name)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(
            f"{named_by} must hold a readable {file} (plain or .gz), got {type(error).__name__} in {shown_path(home)}; "
            f"{available}."
        ) from error
    if content is None:
        raise InputError(
            f"{named_by} must be a folder that holds {file} (plain or .gz), got {shown_path(home)}, where it is "
            f"missing; {available}."
        )
    return verified(source, name, content, repr(str(home)))
