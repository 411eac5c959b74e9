"""Results as plain data and back: the numbers, strings, lists and dicts that strict JSON can hold.

Numbers that are not finite become None, since JSON has no word for them, and None is read as "not known". Floats keep
all their bits both ways. Reading trusts nothing: a value that is missing or of another kind is refused in one sentence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from outofcluster._base.exceptions import InputError, MissingExtraError, one_line
from outofcluster._base.validation import short

__all__ = [
    "check_schema",
    "data_frame",
    "finite",
    "flag",
    "number",
    "numbers",
    "plain",
    "read_json",
    "reading",
    "share",
    "text",
    "whole",
]


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
