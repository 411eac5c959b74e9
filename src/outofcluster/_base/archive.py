"""Results on disk: a zip of arrays and JSON in which nothing is ever unpickled, and which is read whole or refused.

The zip holds ``about.json``, ``arrays.bin``, in which the numbers of all arrays lie one after the other (``about.json``
has their names, types and shapes: opening hundreds of small entries would take most of the time), and ``digest.txt``,
the SHA-256 digest of both. A file that was cut short, damaged or edited does not match its
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
from typing import Any, BinaryIO, TypeVar

import numpy as np

from outofcluster._base.arguments import AnyArray
from outofcluster._base.exceptions import InputError
from outofcluster._base.files import check_path, shown_path, write_whole
from outofcluster._base.plain import from_arrays, to_arrays

Kind = TypeVar("Kind")

_ABOUT, _NUMBERS, _DIGEST = "about.json", "arrays.bin", "digest.txt"
# The date of every entry, so that the same content gives the same file.
_EARLIEST = (1980, 1, 1, 0, 0, 0)


def write_archive(path: str | os.PathLike[str] | BinaryIO, kind: str, format_number: int, value: Any) -> None:
    """Write a dataclass to a file, which is complete or not there at all, or to one that is open."""
    about, arrays = to_arrays(value)
    places = [(name, array.dtype.str, array.shape, _stored(array).shape) for name, array in arrays.items()]
    head = {"kind": kind, "format": format_number, "about": about, "arrays": places}
    numbers = b"".join(_stored(array).tobytes() for array in arrays.values())
    entries = {_ABOUT: json.dumps(head).encode(), _NUMBERS: numbers}
    entries[_DIGEST] = _digest(entries).encode()
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, content in entries.items():
            file.writestr(zipfile.ZipInfo(name, _EARLIEST), content, zipfile.ZIP_DEFLATED)
    if hasattr(path, "write"):
        path.write(whole.getvalue())
    else:
        write_whole("path", path, whole.getvalue())


def read_archive(path: str | os.PathLike[str], kind: str, format_number: int, type_read: type[Kind]) -> Kind:
    """The dataclass that `write_archive` wrote."""
    check_path("path", path)

    def refusal(reason: str, wanted: str = "") -> InputError:
        return InputError(f"path must be a file of {kind}{wanted}, got {shown_path(path)}, which {reason}.")

    try:
        with zipfile.ZipFile(path) as file:
            entries = {name: file.read(name) for name in file.namelist()}
    except FileNotFoundError:
        raise refusal("does not exist") from None
    except (OSError, zipfile.BadZipFile, EOFError, ValueError, RuntimeError, NotImplementedError, zlib.error):
        raise refusal("is not one or was cut short") from None
    digest = entries.pop(_DIGEST, b"").decode(errors="replace")
    if _ABOUT not in entries or not digest:
        raise refusal("is not one")
    if digest != _digest(entries):
        raise refusal("was altered", " as it was written")
    try:
        head = json.loads(entries.pop(_ABOUT))
        if head["kind"] != kind:
            raise refusal(f"is a file of {head['kind']}")
        if head["format"] != format_number:
            raise refusal(f"has format {head['format']!r}", f" of format {format_number}")
        return from_arrays(type_read, head["about"], _arrays(head["arrays"], entries[_NUMBERS]))
    except InputError:
        raise
    except Exception:  # The digest is right and the content is not: somebody made it so.
        raise refusal("is not one") from None


def _stored(array: AnyArray) -> AnyArray:
    """One of the values that an array repeats along an axis without memory for them."""
    return array[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in array.strides)]


def _arrays(places: list[Any], numbers: bytes) -> dict[str, AnyArray]:
    arrays, offset = dict[str, AnyArray](), 0
    for name, dtype, shape, stored in places:
        # It refuses objects, whose bytes would be taken for places in memory.
        array = np.frombuffer(numbers, dtype, math.prod(stored), offset).reshape(stored).copy()
        arrays[name] = array if shape == stored else np.broadcast_to(array, shape)
        offset += array.nbytes
    return arrays


def _digest(entries: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(entries):
        total.update(f"{name} {len(entries[name])}\n".encode() + entries[name])
    return total.hexdigest()
