"""Results on disk: a zip of arrays and JSON in which nothing is ever unpickled, and which is read whole or refused.

The zip holds ``about.json``, one ``TYPE.npy`` for each type of numbers, in which all arrays of that type lie one after
the other (``about.json`` has their names and shapes: opening hundreds of small entries would take most of the time),
and ``digest.txt``, the SHA-256 digest of all of them. A file that was cut short, damaged or edited does not match its
digest and is refused by name, as is a file of another kind or of another format. An array that repeats one value along
an axis without memory for it (`numpy.broadcast_to`) takes no more in the file, and none after it was read.
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
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster._base.files import check_path, shown_path, write_whole
from outofcluster._base.plain import from_arrays, to_arrays

Kind = TypeVar("Kind")

_ABOUT, _DIGEST, _ARRAY = "about.json", "digest.txt", ".npy"
_EARLIEST = (1980, 1, 1, 0, 0, 0)
"""The date of every entry, so that the same content gives the same file."""


def write_archive(path: str | os.PathLike[str], kind: str, format_number: int, value: Any) -> None:
    """Write a dataclass to a file, which is complete or not there at all."""
    about, arrays = to_arrays(value)
    by_type = dict[str, dict[str, NDArray[Any]]]()
    for name, array in arrays.items():
        by_type.setdefault(array.dtype.str.lstrip("<|=>"), {})[name] = array
    shapes = {
        type_name: [(name, array.shape, _stored(array).shape) for name, array in named.items()]
        for type_name, named in by_type.items()
    }
    head = {"kind": kind, "format": format_number, "about": about, "arrays": shapes}
    entries = {_ABOUT: json.dumps(head).encode()}
    for type_name, named in by_type.items():
        buffer = io.BytesIO()
        np.save(buffer, np.concatenate([_stored(array).ravel() for array in named.values()]), allow_pickle=False)
        entries[type_name + _ARRAY] = buffer.getvalue()
    entries[_DIGEST] = _digest(entries).encode()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name, _EARLIEST), content, zipfile.ZIP_DEFLATED)
    write_whole("path", path, whole.getvalue())


def read_archive(path: str | os.PathLike[str], kind: str, format_number: int, type_read: type[Kind]) -> Kind:
    """The dataclass that `write_archive` wrote."""
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
        if head["kind"] != kind:
            raise InputError(f"{must}, got {shown_path(path)}, which is a file of {head['kind']}.")
        if head["format"] != format_number:
            has = f"which has format {head['format']!r}"
            raise InputError(f"{must} of format {format_number}, got {shown_path(path)}, {has}.")
        return from_arrays(type_read, head["about"], _arrays(head["arrays"], entries))
    except InputError:
        raise
    except Exception:  # The digest is right and the content is not: somebody made it so.
        raise InputError(f"{must}, got {shown_path(path)}, which is not one.") from None


def _stored(array: NDArray[Any]) -> NDArray[Any]:
    """One of the values that an array repeats along an axis without memory for them."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _arrays(shapes: Mapping[str, Any], entries: Mapping[str, bytes]) -> dict[str, NDArray[Any]]:
    arrays = dict[str, NDArray[Any]]()
    for type_name, named in shapes.items():
        numbers = np.load(io.BytesIO(entries[type_name + _ARRAY]), allow_pickle=False)
        ends = np.cumsum([math.prod(stored) for _, _, stored in named])
        for (name, shape, stored), part in zip(named, np.split(numbers, ends[:-1]), strict=True):
            array = part.reshape(stored)
            arrays[name] = array if shape == stored else np.broadcast_to(array, shape)
    return arrays


def _digest(entries: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(entries):
        total.update(f"{name} {len(entries[name])}\n".encode() + entries[name])
    return total.hexdigest()
