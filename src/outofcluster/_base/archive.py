"""Results on disk: a zip of arrays and JSON in which nothing is ever unpickled, and which is read whole or refused.

The zip holds ``about.json``, one ``TYPE.npy`` for each type of numbers, in which all arrays of that type lie one after
the other (``about.json`` has their names and shapes: opening hundreds of small entries would take most of the time),
and ``digest.txt``, the SHA-256 digest of all of them. A file that was cut short, damaged or edited does not match its
digest and is refused by name, as is a file of another kind or of another format.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.files import check_path, shown_path, write_whole

__all__ = ["read_archive", "starting_with", "write_archive"]

_ABOUT, _DIGEST, _ARRAY = "about.json", "digest.txt", ".npy"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the same content gives the same file."""


def write_archive(
    path: str | os.PathLike[str],
    kind: str,
    format_number: int,
    about: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Write arrays and plain data to a file, which is complete or not there at all.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        What the file holds, in words; a file of another kind is refused when it is read.
    format_number : int
        Version of the layout.
    about : dict
        Plain data that JSON can hold.
    arrays : dict of array
        Arrays of numbers, by name.
    """
    by_type = dict[str, list[tuple[str, NDArray[Any]]]]()
    for name, array in arrays.items():
        by_type.setdefault(array.dtype.str.lstrip("<|=>"), []).append((name, array))
    shapes = {type_name: [(name, array.shape) for name, array in named] for type_name, named in by_type.items()}
    head = {"kind": kind, "format": format_number, "about": about, "arrays": shapes}
    entries = {_ABOUT: json.dumps(head).encode()}
    for type_name, named in by_type.items():
        buffer = io.BytesIO()
        np.save(buffer, np.concatenate([array.ravel() for _, array in named]), allow_pickle=False)
        entries[type_name + _ARRAY] = buffer.getvalue()
    entries[_DIGEST] = _digest(entries).encode()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name, _EARLIEST), content, zipfile.ZIP_DEFLATED)
    write_whole("path", path, whole.getvalue())


def read_archive(
    path: str | os.PathLike[str], kind: str, format_number: int
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The plain data and the arrays that `write_archive` wrote.

    Parameters
    ----------
    path : path
        The file.
    kind : str
        What the file must hold.
    format_number : int
        The layout that can be read.

    Returns
    -------
    about : dict
        The plain data.
    arrays : dict of array
        The arrays by name.
    """
    must = f"path must be a file of {kind}"
    check_path("path", path)
    try:
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
    except FileNotFoundError:
        raise InputError(f"{must}, got {shown_path(path)}, which does not exist.") from None
    except (OSError, zipfile.BadZipFile, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error):
        raise InputError(f"{must}, got {shown_path(path)}, which is not one or was cut short.") from None
    digest = entries.pop(_DIGEST, b"").decode(errors="replace")
    if _ABOUT not in entries or not digest:
        raise InputError(f"{must}, got {shown_path(path)}, which is not one.")
    if digest != _digest(entries):
        raise InputError(f"{must} as it was written, got {shown_path(path)}, which was altered.")
    try:
        head = json.loads(entries.pop(_ABOUT))
        own_kind, own_format, about = head["kind"], head["format"], dict(head["about"])
        arrays = dict[str, NDArray[Any]]()
        for type_name, shapes in head["arrays"].items():
            numbers = np.load(io.BytesIO(entries[type_name + _ARRAY]), allow_pickle=False)
            ends = np.cumsum([math.prod(shape) for _, shape in shapes])
            parts = zip(shapes, np.split(numbers, ends[:-1]), strict=True)
            arrays |= {name: part.reshape(shape) for (name, shape), part in parts}
    except (KeyError, TypeError, ValueError, EOFError):
        raise InputError(f"{must}, got {shown_path(path)}, which is not one.") from None
    if own_kind != kind:
        raise InputError(f"{must}, got {shown_path(path)}, which is a file of {own_kind}.")
    if own_format != format_number:
        raise InputError(f"{must} of format {format_number}, got {shown_path(path)}, which has format {own_format!r}.")
    return about, arrays


def starting_with(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """The arrays whose names start with a prefix, by the rest of their names.

    Parameters
    ----------
    arrays : dict of array
        Arrays by name.
    prefix : str
        What the names start with.

    Returns
    -------
    dict of array
    """
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _digest(entries: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(entries):
        total.update(f"{name} {len(entries[name])}\n".encode() + entries[name])
    return total.hexdigest()
