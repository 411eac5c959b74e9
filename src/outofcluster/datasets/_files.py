"""The files of a data set: looked for in ``data_home``, else in the folder that the environment names, else downloaded.

If a folder is named, only that folder counts: a file that it lacks is reported, and never downloaded instead.

Every file is known by its sha256, which is checked each time. The sums are taken over the content, so a compressed file
has the same one. They are for line ends of one character; some copies are published with the line ends of Windows,
which hold the same values and are accepted.

A download is the archive's packed form. It is opened in memory and checked, and only then written to the cache, which
is pooch's folder for caches, laid out as a ``data_home`` is. A file there is always whole, since it is written under
another name and renamed. A file that was altered later is downloaded again.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import InputError, MissingExtraError
from outofcluster._base.files import replace_file, shown_path

DataHome = str | os.PathLike[str] | None

# Environment variable that names the folder of the data.
VARIABLE = "OUTOFCLUSTER_DATA"

BASE_URL = "https://archive.ics.uci.edu/static/public/"
# Seconds without an answer after which the network counts as missing.
TIMEOUT = 30

# Endings of archives within the archive that are not opened here; the standard library cannot open most of them.
_CLOSED = (".rar", ".7z", ".tar", ".tgz", ".tar.gz", ".z")

_UNREADABLE = (OSError, EOFError, zlib.error)
# What zipfile raises if a file is not a zip archive, is damaged or locked, or is packed in a way it does not know.
_DAMAGED = (zipfile.BadZipFile, RuntimeError, EOFError, zlib.error)


@dataclass(frozen=True)
class Source:
    """A data set of the UCI archive: where its files are, by which sums they are known, and the clusters in them."""

    folder: str
    number: int
    archive: str
    creators: str
    sha256: Mapping[str, str]
    train_groups: tuple[str, ...]
    validation_groups: tuple[str, ...]
    target_names: tuple[str, ...]

    @property
    def page(self) -> str:
        """Where a reader can get the files by hand."""
        return f"https://archive.ics.uci.edu/dataset/{self.number}"


def read_files(source: Source, names: Sequence[str], data_home: DataHome) -> list[bytes]:
    """Checked contents of some files of a data set, in the order of their names."""
    if data_home is not None and not isinstance(data_home, str | os.PathLike):
        raise InputError(f"data_home must be the path of a folder or None, got {short(data_home)}.")
    folder, named_by = (os.environ.get(VARIABLE), VARIABLE) if data_home is None else (data_home, "data_home")
    if data_home is None and not folder:
        return fetch(source, names)
    return [_read_named(source, name, Path(folder or "").expanduser(), named_by) for name in names]


def _read_named(source: Source, name: str, home: Path, named_by: str) -> bytes:
    """The content of a file in a folder that the user named."""
    file, available = f"{source.folder}/{name} (plain or .gz)", f"the file is available at {source.page}"
    path = home / source.folder / name
    packed = path.with_name(f"{name}.gz")
    try:
        content = path.read_bytes() if path.is_file() else gzip.decompress(packed.read_bytes())
    except FileNotFoundError:
        got = f"{shown_path(home)}, where it is missing"
        raise InputError(f"{named_by} must be a folder that holds {file}, got {got}; {available}.") from None
    except _UNREADABLE as error:
        got = f"{type(error).__name__} in {shown_path(home)}"
        raise InputError(f"{named_by} must hold a readable {file}, got {got}; {available}.") from error
    return _verify(source, name, content, repr(str(home)))


def _verify(source: Source, name: str, content: bytes, where: str) -> bytes:
    """The content, with line ends of one character, if its sum is the right one; ``where`` says where it comes from."""
    for candidate in (content, content.replace(b"\r\n", b"\n")):
        if hashlib.sha256(candidate).hexdigest() == source.sha256[name]:
            return candidate
    raise InputError(
        f"{source.folder}/{name} must have the sha256 {source.sha256[name]}, got {hashlib.sha256(content).hexdigest()} "
        f"in {where}: the file is not the one that the paper used, which is available at {source.page}."
    )


# --- the cache and the archive ---------------------------------------------------------------------------


def cache_folder() -> Path:
    """The folder in which downloads are kept."""
    try:
        import pooch
    except ImportError:
        remedy = f"pip install 'outofcluster[data]', or give the files by data_home or {VARIABLE}"
        raise MissingExtraError(f"downloading data needs pooch: {remedy}.") from None
    return Path(pooch.os_cache("outofcluster"))


def fetch(source: Source, names: Sequence[str]) -> list[bytes]:
    """Checked contents of files, from the cache or from the archive."""
    folder = cache_folder() / source.folder
    contents: dict[str, bytes] = {}
    for name in names:
        with suppress(*_UNREADABLE, InputError):  # A damaged file of the cache counts as missing.
            contents[name] = _verify(source, name, (folder / name).read_bytes(), str(folder))
    if absent := [name for name in names if name not in contents]:
        downloaded = _download(source, absent)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, content in downloaded.items():
                replace_file(folder / name, content)
        except OSError as error:
            raise InputError(
                f"the cache folder {shown_path(folder)} must be one that can be written, got {type(error).__name__}; "
                f"get the files by hand and name their folder by data_home or {VARIABLE}."
            ) from error
        contents |= downloaded
    return [contents[name] for name in names]


def _download(source: Source, names: Sequence[str]) -> dict[str, bytes]:
    """The content of files of the archive, each of them checked."""
    import pooch

    url = f"{BASE_URL}{source.number}/{source.archive}.zip"
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
        wanted = ", ".join(f"{source.folder}/{name}" for name in names)
        raise InputError(f"{wanted} could not be downloaded from {url} ({reason}); {by_hand}.") from error
    try:
        members, closed = _unpack(packed.getvalue(), names)
    except _DAMAGED as error:
        raise InputError(f"{url} must be a whole zip archive, got {type(error).__name__}; {by_hand}.") from error
    missing = [name for name in names if name not in members]
    if missing and closed:
        inside = f"{closed[0]}, which lies in {url} and has to be unpacked by hand"
        raise InputError(f"{source.folder}/{missing[0]} could not be taken out of {inside}; {by_hand}.")
    if missing:
        raise InputError(f"{url} must hold {missing[0]}, which is missing there; {by_hand}.")
    return {name: _verify(source, name, members[name], url) for name in names}


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
