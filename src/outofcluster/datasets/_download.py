"""Download: the archive's packed form is opened in memory and checked, and only then written to the cache.

The cache is pooch's folder for caches, laid out as a ``data_home`` is. A file there is always whole, since it is
written under another name and renamed. A file that was altered later is downloaded again.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.files import replace_file, shown_path
from outofcluster.datasets._sources import VARIABLE, Source, read_plain_or_gzipped, verified

BASE_URL = "https://archive.ics.uci.edu/static/public/"
TIMEOUT = 30
"""Seconds without an answer after which the network counts as missing."""

_CLOSED = (".rar", ".7z", ".tar", ".tgz", ".tar.gz", ".z")
"""Endings of archives within the archive that are not opened here; the standard library cannot open most of them."""

_DAMAGED = (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error)
"""What zipfile raises if a file is not a zip archive, is damaged or locked, or is packed in a way it does not know."""


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
    contents = {name: _read_cached(source, name, folder) for name in names}
    absent = [name for name, content in contents.items() if content is None]
    if absent:
        downloaded = _download(source, absent)
        for name, content in downloaded.items():
            _write_cached(folder / name, content)
        contents |= downloaded
    return [content for content in contents.values() if content is not None]


def _read_cached(source: Source, name: str, folder: Path) -> bytes | None:
    """The content of a file in the cache; None if it is missing or damaged."""
    with suppress(OSError, EOFError, zlib.error, InputError):
        content = read_plain_or_gzipped(folder / name)
        return None if content is None else verified(source, name, content, str(folder))
    return None


def _download(source: Source, names: Sequence[str]) -> dict[str, bytes]:
    """The content of files of the archive, each of them checked."""
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
        members, closed = _unpack(packed.getvalue(), names)
    except _DAMAGED as error:
        raise InputError(f"{url} must be a whole zip archive, got {type(error).__name__}; {by_hand}.") from error
    missing = [name for name in names if name not in members]
    if missing and closed:
        raise InputError(
            f"{source.folder}/{missing[0]} could not be taken out of {closed[0]}, which lies in {url} and has to be "
            f"unpacked by hand; {by_hand}."
        )
    if missing:
        raise InputError(f"{url} must hold {missing[0]}, which is missing there; {by_hand}.")
    return {name: verified(source, name, members[name], url) for name in names}


def _unpack(packed: bytes, names: Sequence[str], depth: int = 2) -> tuple[dict[str, bytes], list[str]]:
    """Members by the last part of their path, also those of inner archives; and the names of archives left closed."""
    members: dict[str, bytes] = {}
    closed: list[str] = []
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        for member in archive.namelist():
            name = PurePosixPath(member).name
            if name in names:
                members.setdefault(name, archive.read(member))
            elif name.lower().endswith(".zip") and depth > 1:
                inner, still_closed = _unpack(archive.read(member), names, depth - 1)
                members = inner | members
                closed += still_closed
            elif name.lower().endswith((*_CLOSED, ".zip")):
                closed.append(name)
    return members, closed


def _write_cached(path: Path, content: bytes) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
    except OSError as error:
        raise InputError(
            f"the cache folder {shown_path(path.parent)} must be one that can be written, got {type(error).__name__}; "
            f"get the files by hand and name their folder by data_home or {VARIABLE}."
        ) from error
