"""Results as plain data and back: the numbers, strings, lists and dicts that strict JSON can hold.

Numbers that are not finite become None, since JSON has no word for them, and None is read as "not known". Floats keep
all their bits both ways. Reading trusts nothing: a value that is missing or of another kind is refused in one sentence.

Results on disk: a zip of arrays and JSON in which nothing is ever unpickled, and which is read whole or refused.

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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.arguments import short
from outofcluster._base.exceptions import InputError, MissingExtraError, one_line
from outofcluster._base.files import check_path, shown_path, write_whole


def plain(value: Any) -> Any:
    """Dataclasses become dicts, arrays and tuples become lists, and numbers that are not finite become None."""
    if hasattr(value, "__plain__") and not isinstance(value, type):  # It says itself which of its fields matter.
        return plain(value.__plain__())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def read_json(written: Any) -> dict[str, Any]:
    """The object that a text in JSON holds, as a dict."""
    try:
        data = json.loads(written, parse_constant=_not_strict)
    except (TypeError, ValueError, RecursionError) as error:
        reason = one_line(error, 120).rstrip(".")
        raise InputError(f"text must be JSON as to_json writes it, but it cannot be read: {reason}.") from None
    if not isinstance(data, dict):
        raise InputError(f"text must be JSON as to_json writes it, an object, got a {type(data).__name__}.")
    return data


def _not_strict(token: str) -> Any:
    raise ValueError(f"{token} is not JSON")


def check_schema(data: Any, known: int) -> None:
    """Refuse data of another schema in a message that names the versions."""
    from outofcluster._base.version import __version__

    if not isinstance(data, Mapping):
        raise InputError(f"data must be a dict as to_dict gives it, got {type(data).__name__}.")
    schema = data.get("schema")
    if type(schema) is not int or schema != known:
        version = data.get("version")
        by = f"written by outofcluster {one_line(version, 60)}" if isinstance(version, str) else "of unknown origin"
        raise InputError(
            f"data must follow schema {known}, as outofcluster {__version__} does, got {short(schema)}, {by}."
        )


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn any error that malformed data cause into one sentence; ``what`` names the result that is read."""
    try:
        yield
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"data of {what} must be as to_dict gives it, but {error} is missing.") from None
    except Exception as error:
        reason = one_line(error, 120).rstrip(".")
        raise InputError(f"data of {what} must be as to_dict gives it, but a value does not fit: {reason}.") from None


def number(value: Any) -> float:
    """A float; NaN for None."""
    if value is None:
        return math.nan
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{short(value)} is not a number")
    return float(value)


def numbers(values: Any) -> tuple[float, ...]:
    """Floats."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{short(values)} is not a list of numbers")
    return tuple(number(value) for value in values)


def share(value: Any) -> float:
    """A float between 0 and 1."""
    part = number(value)
    if not 0 <= part <= 1:
        raise ValueError(f"{short(value)} does not lie in [0, 1]")
    return part


def finite(value: Any) -> float:
    """A float that is neither infinite nor unknown."""
    amount = number(value)
    if not math.isfinite(amount):
        raise ValueError(f"{short(value)} is not finite")
    return amount


def whole(value: Any) -> int:
    """An int."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{short(value)} is not a whole number")
    return value


def text(value: Any) -> str:
    """A string."""
    if not isinstance(value, str):
        raise TypeError(f"{short(value)} is not a string")
    return value


def flag(value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{short(value)} is not true or false")
    return value


def data_frame(columns: Any, *, asked: str = "to_frame()") -> Any:
    """A pandas DataFrame; without pandas, an error that says what was ``asked`` for and how to install pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtraError(f"{asked} needs pandas: pip install 'outofcluster[pandas]'.") from None
    return pd.DataFrame(columns)


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
    """Write arrays and plain data to a file, which is complete or not there at all."""
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
    """The plain data and the arrays that `write_archive` wrote."""
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
    """The arrays whose names start with a prefix, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _digest(entries: Mapping[str, bytes]) -> str:
    total = hashlib.sha256()
    for name in sorted(entries):
        total.update(f"{name} {len(entries[name])}\n".encode() + entries[name])
    return total.hexdigest()
