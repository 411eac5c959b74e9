"""Odd values for a fuzz: whatever a caller may pass by mistake, made anew for every call."""

from __future__ import annotations

import decimal
import fractions
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

__all__ = ["ODD", "Rude", "array_like", "odd", "spoiled"]


class Rude:
    """An object of which nothing can be asked."""

    def __repr__(self) -> str:
        raise RuntimeError("no\nrepresentation")

    def __len__(self) -> int:
        raise RuntimeError("no\nlength")

    def __iter__(self) -> Any:
        raise RuntimeError("no\niteration")

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no\narray")


class Endless:
    """An object that compares to an array, as arrays do, and has a long name of several lines."""

    def __repr__(self) -> str:
        return "line\nof text\x1b[31m\r" * 200

    def __eq__(self, other: object) -> Any:
        return np.array([True, False])

    __hash__ = None  # type: ignore[assignment]


ODD = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "nan": lambda: float("nan"),
    "inf": lambda: float("inf"),
    "-inf": lambda: float("-inf"),
    "0": lambda: 0,
    "1": lambda: 1,
    "2": lambda: 2,
    "-1": lambda: -1,
    "0.5": lambda: 0.5,
    "1.5": lambda: 1.5,
    "-0.0": lambda: -0.0,
    "tiny": lambda: 5e-324,
    "1e308": lambda: 1e308,
    "10**400": lambda: 10**400,
    "2**63": lambda: 2**63,
    "text": lambda: "x",
    "digits": lambda: "0.1",
    "empty text": lambda: "",
    "lines": lambda: "several\nlines\x1b[31m\x00",
    "bytes": lambda: b"x",
    "[]": lambda: [],
    "()": lambda: (),
    "{}": lambda: {},
    "set": lambda: {1, 2},
    "dict": lambda: {"a": 1},
    "[None]": lambda: [None],
    "[nan]": lambda: [float("nan")],
    "[0.1]": lambda: [0.1],
    "[True]": lambda: [True, False],
    "strings": lambda: ["a", "b", "c"],
    "digits in a list": lambda: ["0.1", "0.2", "0.3"],
    "uneven": lambda: [[1, 2], [3]],
    "nested": lambda: [[[[]]]],
    "mixed": lambda: [1, "a", None],
    "object": object,
    "class": lambda: dict,
    "function": lambda: lambda *args: 1 / 0,
    "generator": lambda: (i for i in range(3)),
    "range": lambda: range(5),
    "0-d": lambda: np.array(0.1),
    "0-d text": lambda: np.array("x"),
    "empty array": lambda: np.zeros(0),
    "3-d": lambda: np.zeros((3, 2, 2)),
    "complex": lambda: 1 + 2j,
    "complex array": lambda: np.array([0.1 + 1j, 0.2, 0.3]),
    "masked": lambda: np.ma.masked_array([0.1, 0.2, 0.3], [False, True, False]),
    "date": lambda: np.datetime64("2020-01-01"),
    "NaT": lambda: np.datetime64("NaT"),
    "dates": lambda: np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]"),
    "NA": lambda: pd.NA,
    "nullable": lambda: pd.array([1, None, 3], dtype="Int64"),
    "series": lambda: pd.Series([0.1, 0.2, 0.3], index=[2, 1, 0]),
    "frame": lambda: pd.DataFrame({"a": [1, 2], "b": [3.0, 4.0]}),
    "empty frame": pd.DataFrame,
    "sparse": lambda: sparse.coo_matrix(np.eye(3)),
    "fraction": lambda: fractions.Fraction(1, 3),
    "decimal": lambda: decimal.Decimal("0.2"),
    "float16": lambda: np.float16(0.2),
    "uint8": lambda: np.uint8(200),
    "numpy bool": lambda: np.bool_(True),
    "numpy text": lambda: np.str_("records"),
    "path": lambda: Path("no such folder/file"),
    "structured": lambda: np.zeros(3, dtype=[("a", "f8"), ("b", "i4")]),
    "recursive": lambda: _recursive(),
    "rude": Rude,
    "endless": Endless,
    "RandomState": lambda: np.random.RandomState(0),
    "Generator": lambda: np.random.default_rng(0),
}
"""By a name that shows in the report."""


def _recursive() -> list[Any]:
    inside: list[Any] = [1]
    inside.append(inside)
    return inside


def odd(rng: np.random.Generator) -> tuple[str, Any]:
    """The name of an odd value, and the value."""
    name = list(ODD)[rng.integers(len(ODD))]
    return name, ODD[name]()


def spoiled(rng: np.random.Generator, array: Any) -> tuple[str, Any]:
    """An array with something wrong in it, of the same length where that is possible."""
    a = np.asarray(array)
    numbers = a.astype(float) if a.dtype.kind in "biuf" else None

    def put(value: Any) -> Any:
        target = a.astype(object) if numbers is None or not isinstance(value, float) else numbers.copy()
        if target.size:
            target.flat[rng.integers(target.size)] = value
        return target

    forms = {
        "with nan": lambda: put(float("nan")),
        "with inf": lambda: put(float("inf")),
        "with None": lambda: put(None),
        "with text": lambda: put("x"),
        "with a list": lambda: _with_list(a),
        "short": lambda: a[:-1],
        "long": lambda: np.concatenate([a, a[:1]]),
        "reversed": lambda: a[::-1],
        "2-d": lambda: a[:, None] if a.ndim == 1 else a[..., None],
        "1-d": lambda: a.ravel(),
        "objects": lambda: a.astype(object),
        "strings": lambda: a.astype(str),
        "bytes": lambda: a.astype(str).astype("S8"),
        "masked": lambda: np.ma.masked_array(a, np.arange(a.size).reshape(a.shape) % 3 == 0),
        "complex": lambda: a + 1j if a.dtype.kind in "biuf" else a,
        "float32": lambda: a.astype("f4") if a.dtype.kind in "biuf" else a,
        "negative": lambda: -numbers if numbers is not None else a,
        "huge": lambda: numbers * 1e160 if numbers is not None else a,
        "larger": lambda: numbers * 1e60 if numbers is not None else a,
        "small": lambda: numbers * 1e-160 if numbers is not None else a,
        "constant": lambda: np.full_like(a, a.flat[0]) if a.size else a,
        "read-only": lambda: _read_only(a),
        "list": a.tolist,
        "tuple": lambda: tuple(a.tolist()),
        "series": lambda: pd.Series(list(a), index=np.arange(len(a))[::-1]),
        "categorical": lambda: pd.Categorical(a.ravel().tolist()),
        "index": lambda: pd.Index(a.ravel().tolist()),
        "reversed strides": lambda: a[::-1].copy()[::-1],
        "big-endian": lambda: a.astype(a.dtype.newbyteorder(">")),
        "sparse": lambda: sparse.csr_matrix(np.atleast_2d(numbers)) if numbers is not None and a.ndim < 3 else a,
        "bool": lambda: a.astype(bool) if a.dtype.kind in "biuf" else a,
        "empty": lambda: a[:0],
        "iterator": lambda: iter(a.tolist()),
    }
    name = list(forms)[rng.integers(len(forms))]
    return name, forms[name]()


def _with_list(a: Any) -> Any:
    target = a.ravel().astype(object)
    if len(target):
        target[0] = [1, 2]
    return target


def _read_only(a: Any) -> Any:
    copy = a.copy()
    copy.flags.writeable = False
    return copy


def array_like(rng: np.random.Generator, array: Any, odd_share: float) -> tuple[str, Any]:
    """An array as it should be, or a spoiled one, or something else altogether."""
    if rng.random() >= odd_share:
        return "plain", array
    return spoiled(rng, array) if rng.random() < 0.7 else odd(rng)
