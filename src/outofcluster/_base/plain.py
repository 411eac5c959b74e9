"""Results as plain data or as arrays, and back: one codec, driven by the types of the fields of dataclasses.

`plain` gives the numbers, strings, lists and dicts that strict JSON can hold. Numbers that are not finite become None,
since JSON has no word for them, and None is read as "not known". Floats keep all their bits both ways. `read` trusts
nothing: a value that is missing, or is of another kind than its field, is refused in one sentence.

`to_arrays` gives the same with every array kept as it is, under the path of names that leads to it, which stands in the
array's place in the plain data. There all numbers stay what they are. `from_arrays` reads both
(:mod:`outofcluster._base.archive` writes them to a file).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from outofcluster._base.arguments import AnyArray, Array, short
from outofcluster._base.exceptions import InputError, needing, one_line
from outofcluster._base.text import Printed
from outofcluster._base.version import __version__

Kind = TypeVar("Kind")
Arrays = Mapping[str, AnyArray]


def plain(value: Any) -> Any:
    """Dataclasses become dicts, arrays and tuples become lists, and numbers that are not finite become None.

    A class with a method ``__plain__`` says itself which of its fields matter; the others are at their defaults. The
    method ``__read__`` of a class has the last word when it is read: it checks how the fields go together.
    """
    return _plain(value, "", None)


def to_arrays(value: Any) -> tuple[Any, dict[str, AnyArray]]:
    """Plain data that hold the path of every array in its place, and the arrays by these paths."""
    arrays = dict[str, AnyArray]()
    return _plain(value, "", arrays), arrays


def _plain(value: Any, path: str, arrays: dict[str, AnyArray] | None) -> Any:
    if isinstance(value, type):
        return value
    if hasattr(value, "__plain__"):
        value = value.__plain__()
    elif is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif isinstance(value, np.ndarray) and arrays is not None:
        arrays[path] = value
        return path
    elif isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    inside = f"{path}/" if path else ""
    if isinstance(value, Mapping):
        return {str(name): _plain(part, f"{inside}{name}", arrays) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, f"{inside}{index}", arrays) for index, part in enumerate(value)]
    if isinstance(value, float) and arrays is None:
        return value if math.isfinite(value) else None
    return value


def read(kind: type[Kind], data: Any, what: str) -> Kind:
    """The value of a type whose plain data these are; ``what`` names it where the data are something else."""
    with reading(what):
        value: Kind = _read(kind, data, None)
        return value


def from_arrays(kind: type[Kind], about: Any, arrays: Arrays) -> Kind:
    """The value that `to_arrays` was called on; what does not fit is a KeyError, a TypeError or a ValueError."""
    value: Kind = _read(kind, about, arrays)
    return value


def _read(hint: Any, data: Any, arrays: Arrays | None) -> Any:
    if hint is Any:
        return data
    if hint in _SIMPLE:
        return _read_simple(hint, data)
    origin, parts = get_origin(hint), get_args(hint)
    if is_dataclass(hint):
        with reading(hint._what) if hasattr(hint, "_what") else nullcontext():
            return _read_fields(hint, data, arrays)
    if origin is Annotated:
        value = _read(parts[0], data, arrays)
        for check in parts[1:]:
            check(value)
        return value
    if origin in (Union, UnionType):
        (known,) = (part for part in parts if part is not NoneType)
        return None if data is None else _read(known, data, arrays)
    if origin is np.ndarray:
        return np.array(_numbers(data)) if arrays is None else arrays[data]
    if origin is Literal:
        if data not in parts:
            raise ValueError(f"{short(data)} is none of {', '.join(map(repr, parts))}")
        return data
    if origin is tuple:
        return _read_tuple(parts, data, arrays)
    return {parts[0](name): _read(parts[1], part, arrays) for name, part in _object(data).items()}


def _read_fields(kind: Any, data: Any, arrays: Arrays | None) -> Any:
    """A dataclass; every field must be there, unless the class says itself which ones it writes."""
    data, hints, chosen = _object(data), _hints(kind), hasattr(kind, "__plain__")
    names = [field.name for field in fields(kind) if field.name in data or not chosen]
    if chosen and (others := sorted(data.keys() - set(names))):
        raise TypeError(f"it has no {short(others[0])}")
    value = kind(**{name: _read(hints[name], data[name], arrays) for name in names})
    return value.__read__() if hasattr(kind, "__read__") else value


_hints = cache(partial(get_type_hints, include_extras=True))


def _read_tuple(hints: tuple[Any, ...], data: Any, arrays: Arrays | None) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise TypeError(f"{short(data)} is not a list")
    hints = hints[:1] * len(data) if hints[-1] is Ellipsis else hints
    if len(data) != len(hints):
        raise ValueError(f"a list must have {len(hints)} values, and has {len(data)}")
    return tuple(_read(hint, part, arrays) for hint, part in zip(hints, data, strict=True))


def _object(data: Any) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise TypeError(f"{short(data)} is not an object")
    return data


def _read_simple(kind: Any, value: Any) -> Any:
    if kind is float and value is None:
        return math.nan
    wanted = int | float if kind is float else kind
    if not isinstance(value, wanted) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{short(value)} is not {_SIMPLE[kind]}")
    return kind(value)


_SIMPLE = {float: "a number", int: "a whole number", str: "a string", bool: "true or false"}


def _numbers(data: Any) -> Any:
    return [_numbers(part) for part in data] if isinstance(data, list | tuple) else _read_simple(float, data)


def _finite(value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"a number is {'not known' if math.isnan(value) else 'infinite'}")


def _within_one(value: float) -> None:
    if value < 0 or value > 1:
        raise ValueError(f"{value:g} does not lie in [0, 1]")


def _has_rows(array: Array) -> None:
    if array.ndim != 2:
        raise ValueError("a table must be a list of rows of the same length")


Finite = Annotated[float, _finite]
# A float between 0 and 1, or NaN.
Chance = Annotated[float, _within_one]
KnownChance = Annotated[Finite, _within_one]
Matrix = Annotated[Array, _has_rows]


def _not_strict(token: str) -> Any:
    raise ValueError(f"{token} is not JSON")


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


class PlainData(Printed):
    """A dataclass that becomes plain data and is read back; two are equal when all that they would write is equal."""

    _what: ClassVar[str]

    def __init_subclass__(cls, *, what: str) -> None:
        super().__init_subclass__()
        cls._what = what

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; numbers that are not finite are None.

        Returns
        -------
        dict
            The attributes by their names.
        """
        return dict(plain(self))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` was called on.

        Parameters
        ----------
        data : dict
            What `to_dict` returned.

        Returns
        -------
        object of this class
            An equal one.
        """
        value: Self = _read(cls, data, None)
        return value

    def __eq__(self, other: object) -> bool:
        return self.to_dict() == other.to_dict() if isinstance(other, type(self)) else NotImplemented


class JsonData(PlainData, what=""):
    """A result that is written as JSON with the number of its schema; one of another number is not read."""

    _schema: ClassVar[int]

    def __init_subclass__(cls, *, what: str, schema: int) -> None:
        super().__init_subclass__(what=what)
        cls._schema = schema

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data that JSON can hold; numbers that are not finite are None.

        Returns
        -------
        dict
            What `to_json` writes.
        """
        return {"schema": self._schema, **super().to_dict()}

    def to_json(self) -> str:
        """Everything as JSON.

        Returns
        -------
        str
            The JSON text.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """What `to_dict` was called on.

        Parameters
        ----------
        data : dict
            What `to_dict` returned.

        Returns
        -------
        object of this class
            An equal one.
        """
        if not isinstance(data, Mapping):
            raise InputError(f"data must be a dict as to_dict gives it, got {type(data).__name__}.")
        schema, version = data.get("schema"), data.get("version")
        if type(schema) is not int or schema != cls._schema:
            known = f"schema {cls._schema}, as outofcluster {__version__} does"
            by = f"written by outofcluster {one_line(version, 60)}" if isinstance(version, str) else "of unknown origin"
            raise InputError(f"data must follow {known}, got {short(schema)}, {by}.")
        return super().from_dict(data)

    @classmethod
    def from_json(cls, written: str) -> Self:
        """What `to_json` was called on.

        Parameters
        ----------
        written : str
            What `to_json` returned.

        Returns
        -------
        object of this class
            An equal one.
        """
        try:
            data = json.loads(written, parse_constant=_not_strict)
        except (TypeError, ValueError, RecursionError) as error:
            reason = one_line(error, 120).rstrip(".")
            raise InputError(f"text must be JSON as to_json writes it, but it cannot be read: {reason}.") from None
        if not isinstance(data, dict):
            raise InputError(f"text must be JSON as to_json writes it, an object, got a {type(data).__name__}.")
        return cls.from_dict(data)


def data_frame(columns: Any) -> Any:
    """A pandas DataFrame; without pandas, an error that says how to install it."""
    with needing("to_frame() needs pandas", "pandas"):
        import pandas as pd
    return pd.DataFrame(columns)
