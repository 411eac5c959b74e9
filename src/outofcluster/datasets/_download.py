"""Download: the archive's packed form, opened in memory, checked, and only then kept on disk.

What is kept lies in pooch's folder for caches, laid out as a ``data_home`` is. A file there is always whole: it is
written under another name and renamed. One that was altered since is fetched again.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster.datasets._files import VARIABLE, read_plain_or_gzipped
from outofcluster.datasets._sources import Source, verified

__all__ = ["cache_folder", "fetch"]

BASE_URL = "https://archive.ics.uci.edu/static/public/"
TIMEOUT = 30
"""Seconds without an answer after which the network counts as missing."""

_CLOSED = (".rar", ".7z", ".tar", ".tgz", ".tar.gz", ".z")
"""Endings of archives within the archive that are not opened here, most of which the standard library cannot."""

_DAMAGED = (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error)
"""What zipfile raises on what is no zip archive, is damaged, locked, or packed in a way it does not know."""


def cache_folder() -> Path:
    """The folder in which downloads are kept."""
    try:
        import pooch
    except ImportError:
        raise MissingExtraError(
            f"downloading data needs pooch: pip install 'outofcluster[data]', or give the files by data_home or "
            f"{VARIABLE}."
        ) from None
    return Path(pooch.os_cache("outofcluster"))


def fetch(source: Source, names: Sequence[str]) -> list[bytes]:
    """Checked contents of files, from the cache or from the archive."""
    folder = cache_folder() / source.folder
    held = {name: _held(source, name, folder) for name in names}
    absent = [name for name, content in held.items() if content is None]
    if absent:
        fresh = _download(source, absent)
        for name, content in fresh.items():
            _keep(folder / name, content)
        held |= fresh
    return [content for content in held.values() if content is not None]


def _held(source: Source, name: str, folder: Path) -> bytes | None:
    """What the cache holds, unless it is damaged."""
    with suppress(OSError, EOFError, zlib.error, InputError):
        content = read_plain_or_gzipped(folder / name)
        return None if content is None else verified(source, name, content, str(folder))
    return None


def _download(source: Source, names: Sequence[str]) -> dict[str, bytes]:
    """The files out of the archive, all of them checked."""
    import pooch

    url = BASE_URL + source.address
    wanted = ", ".join(f"{source.folder}/{name}" for name in names)
    by_hand = (
        f"get it by hand from {source.page}, put it into a folder {source.folder}, and give the folder above that one "
        f"as data_home or {VARIABLE}"
    )
    packed = io.BytesIO()
    try:
        # Read in one go: a stream that fails would leave its connection open.
        pooch.HTTPDownloader(timeout=TIMEOUT, stream=False, chunk_size=1 << 16)(url, packed, None)
    except OSError as error:  # every error of requests is one
        response = getattr(error, "response", None)
        reason = type(error).__name__ if response is None else f"HTTP status {response.status_code}"
        raise InputError(f"{wanted} could not be downloaded from {url} ({reason}); {by_hand}.") from error
    try:
        found, closed = _unpack(packed.getvalue(), names)
    except _DAMAGED as error:
        raise InputError(f"{url} must be a whole zip archive, got {type(error).__name__}; {by_hand}.") from error
    missing = [name for name in names if name not in found]
    if missing and closed:
        raise InputError(
            f"{source.folder}/{missing[0]} could not be taken out of {closed[0]}, which lies in {url} and has to be "
            f"unpacked by hand; {by_hand}."
        )
    if missing:
        raise InputError(f"{url} must hold {missing[0]}, which is missing there; {by_hand}.")
    return {name: verified(source, name, found[name], url) for name in names}


def _unpack(packed: bytes, names: Sequence[str], depth: int = 2) -> tuple[dict[str, bytes], list[str]]:
    """Members by the last part of their path, in archives within the archive too; and the archives left closed."""
    found: dict[str, bytes] = {}
    closed: list[str] = []
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for member in archive.namelist():
            name = PurePosixPath(member).name
            if name in names:
                found.setdefault(name, archive.read(member))
            elif name.lower().endswith(".zip") and depth > 1:
                inner, still_closed = _unpack(archive.read(member), names, depth - 1)
                found = inner | found
                closed += still_closed
            elif name.lower().endswith((*_CLOSED, ".zip")):
                closed.append(name)
    return found, closed


def _keep(path: Path, content: bytes) -> None:
    """Write a file so that it is whole or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, half = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
        try:
            with open(handle, "wb") as file:
                file.write(content)
            os.replace(half, path)
        except BaseException:
            Path(half).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(
            f"the cache folder {str(path.parent)!r} must be one that can be written, got {type(error).__name__}; get "
            f"the files by hand and name their folder by data_home or {VARIABLE}."
        ) from error
