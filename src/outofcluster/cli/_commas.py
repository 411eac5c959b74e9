"""Numbers with decimal commas, as spreadsheets of many countries write them into files with semicolons.

A reader that expects points takes such a column for text, and a model would then learn from words. A column is read as
numbers if every value that is not missing is one and one of them has a comma. Lists such as "1,2,3" and numbers with
points as well, such as "1.234,5", are no such numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

_NUMBER = r"\s*[-+]?(?:\d+(?:,\d*)?|,\d+)(?:[eE][-+]?\d+)?\s*"
_NEARLY_ALL = 0.9
"""Share of numbers from which a column of text was probably meant as numbers."""
_FIRST = 500
"""Records that are looked at first; most columns of text are done with after them."""


def with_decimal_commas(frame: Any, names: Iterable[str]) -> tuple[Any, list[str], dict[str, str]]:
    """A frame whose columns with decimal commas are numbers."""
    read, nearly = dict[str, Any](), dict[str, str]()
    for name in names:
        numbers, other = read_decimal_commas(frame[name])
        if numbers is not None:
            read[name] = numbers
        elif other is not None:
            nearly[name] = other
    if read:
        frame = frame.copy()
        for name, numbers in read.items():
            frame[name] = numbers
    return frame, list(read), nearly


def read_decimal_commas(values: Any) -> tuple[Any, str | None]:
    """A column of text as numbers, None where it holds none; and a value that is no number where nearly all are."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(values.dtype) or values.dtype.kind != "O":
        return None, None
    known = values.dropna()
    for words in (known[:_FIRST], known):
        if not len(words) or not all(isinstance(word, str) for word in words):
            return None, None
        numeric = words.str.fullmatch(_NUMBER)
        if numeric.mean() < _NEARLY_ALL or not (numeric & words.str.contains(",", regex=False)).any():
            return None, None
    if not numeric.all():
        return None, str(words[~numeric].iloc[0])
    # Python reads each word by itself, so the numbers are as exact as those with points.
    return known.map(lambda word: float(word.replace(",", "."))).astype(float).reindex(values.index), None
