"""Checks of arguments. Each fails with one sentence that names the argument, its value and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outofcluster._base.exceptions import InputError, one_line

Array = NDArray[np.floating[Any]]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]
AnyArray = NDArray[Any]

# Losses beyond this would overflow where variances of variances are computed, that is, in their fourth power.
LARGEST = 1e70


def check_vector(name: str, values: ArrayLike, *, finite: bool = True) -> Array:
    """A one-dimensional, non-empty array of floats, which must be finite unless ``finite`` is False."""
    vector = check_numbers(name, values)
    if vector.ndim != 1 or vector.size == 0:
        raise InputError(f"{name} must be a non-empty array of one dimension, got shape {vector.shape}.")
    if finite and (i := first_missing(vector, infinite=True)) is not None:
        raise InputError(f"{name} must be finite, got {name}[{i}] = {vector[i]}.")
    return vector


def check_numbers(name: str, values: Any) -> Array:
    """An array of floats of any shape.

    What numpy would turn into other numbers without a word is refused: strings of digits, truth values, complex
    numbers, and masked arrays, whose mask would be lost.
    """
    wanted = f"{name} must be an array of numbers"
    if isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{wanted} without a mask, got a masked array; leave out or fill what is masked.")
    try:
        array = np.asarray(values)
        objects = array.flat if array.dtype.kind == "O" else ()
        if array.dtype.kind not in "iufO" or any(isinstance(one, str | bytes | bool | np.bool_) for one in objects):
            raise TypeError
        return array.astype(float, copy=False)
    except Exception:  # Whatever an object does that is asked for its numbers.
        raise InputError(f"{wanted}, got {short(values)}.") from None


def as_array(must: str, values: Any, got: str = "") -> NDArray[Any]:
    """An array of these values; what cannot become one is refused by a sentence that starts with ``must``.

    The sentence shows the values, or says in the words ``got`` what they are.
    """
    try:
        return np.asarray(values)
    except Exception:  # Whatever an object does that is asked for its values.
        raise InputError(f"{must}, got {got or short(values)}.") from None


def check_integer(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """A whole number in [least, most]; 5.0 counts as 5, True and 5.5 do not count."""
    allowed = f"at least {least}" if most is None else f"between {least} and {most}"
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = int(value) if isinstance(value, float) and value.is_integer() else index(value)
    except Exception:
        raise InputError(f"{name} must be a whole number {allowed}, got {short(value)}.") from None
    if number < least or (most is not None and number > most):
        raise InputError(f"{name} must be a whole number {allowed}, got {short(number)}.")
    return number


def check_number(name: str, value: Any, *, least: float, strict: bool = False) -> float:
    """A finite number that is at least ``least``, or above it if ``strict``."""
    allowed = "" if least == -math.inf else f" above {least:g}" if strict else f" at least {least:g}"
    try:
        # numpy would make a number of a truth value, a string of digits, or an array of one number.
        array = np.asarray(value)
        if array.ndim or array.dtype.kind not in "iufO" or isinstance(value, np.ma.MaskedArray):
            raise TypeError
        number = float(value)
    except Exception:
        raise InputError(f"{name} must be a number{allowed}, got {short(value)}.") from None
    if not math.isfinite(number) or number < least or (strict and number == least):
        raise InputError(f"{name} must be a finite number{allowed}, got {number:g}.")
    return number


def check_share(name: str, value: Any, within: str = "[0, 1]") -> float:
    """A number between 0 and 1; a round bracket in ``within``, such as "[0, 1)", leaves that end out."""
    share = check_number(name, value, least=0)
    if share > 1 or (share == 1 and within[-1] == ")") or (share == 0 and within[0] == "("):
        raise InputError(f"{name} must lie in {within}, got {share:g}.")
    return share


def listed(name: str, values: Any) -> list[Any]:
    """The values of a sequence as Python's own, in a list; a string, or what cannot be gone through, is refused."""
    try:
        if isinstance(values, str | bytes):
            raise TypeError
        array_like = hasattr(values, "tolist") and not hasattr(values, "columns")
        return list(values.tolist() if array_like else values)
    except Exception:
        raise InputError(f"{name} must be a sequence with one entry each, got {short(values)}.") from None


def refuse_unhashable(name: str, labels: list[Any]) -> list[Any]:
    """The labels, unless one of them is a list or something else that cannot be looked up."""
    try:
        set(labels)
    except Exception:
        raise InputError(f"{name} must hold labels such as numbers or strings, got {short(labels)}.") from None
    return labels


def check_choice(name: str, value: Any, allowed: tuple[Any, ...]) -> None:
    """One of a few values."""
    # Of anything but a single value, an array say, it cannot be told in one word whether it is among them.
    if not isinstance(value, str | int | float | np.generic) or value not in allowed:
        choices = " or ".join(repr(choice) for choice in allowed)
        raise InputError(f"{name} must be {choices}, got {short(value)}.")


def check_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {short(value)}.")
    return bool(value)


def short(value: Any) -> str:
    """A value as it is shown in a message: at most 60 characters."""
    try:
        return one_line(repr(value.item() if isinstance(value, np.number) else value), 60)
    except Exception:
        return f"a {type(value).__name__}"


def shown(values: Iterable[Any], most: int = 6) -> str:
    """Several values as they are shown in a message: the first few, and dots for the rest."""
    every = list(values)
    return ", ".join(short(value) for value in every[:most]) + (", …" if len(every) > most else "")


def first_missing(values: Any, *, infinite: bool = False) -> int | None:
    """Row of the first missing value: None, NaN, NaT or the NA of pandas; of the first infinite one too, if asked."""
    # A list stays objects: as an array of strings it would hide a NaN.
    array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtype=object)
    marks = ~np.isfinite(array) if infinite and array.dtype.kind in "fc" else missing_values(array)
    rows = np.nonzero(np.atleast_1d(marks))[0]
    return int(rows[0]) if len(rows) else None


def missing_values(array: AnyArray) -> Bools:
    """Which values of an array are None, NaN, NaT or the NA of pandas."""
    if array.dtype.kind in "fcmM":
        return np.asarray(array != array)
    if array.dtype.kind == "O":
        return np.asarray(np.frompyfunc(is_missing, 1, 1)(array)).astype(bool)
    return np.zeros(array.shape, dtype=bool)


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or the NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating) and bool(value != value)


def turns(losses: Array, strata: int) -> Array:
    """Means of turns of so many replicates where there are two turns, else the replicates themselves."""
    count = len(losses) // strata
    return losses[: count * strata].reshape(count, strata).mean(axis=1) if strata > 1 and count > 1 else losses
