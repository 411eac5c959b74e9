"""What a column must be to serve as a target: no gaps, no dates, no words among numbers, no text that never repeats."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from outofcluster._base.exceptions import InputError
from outofcluster.problem.account import looks_like_dates

_MOST_CLASSES = 20


def with_targets(frame: Any, target: str, *, drop: bool) -> tuple[Any, NDArray[np.int64]]:
    """The records that have a target, where those without are to be dropped, and their rows in the whole frame.

    Where they are not to be dropped, a sentence names the option.
    """
    rows = np.arange(len(frame))
    if target not in frame.columns:
        return frame, rows
    missing = frame[target].isna()
    count = int(missing.sum())
    if not count:
        return frame, rows
    if count == len(frame):
        raise InputError(f"--target must be a column with values, got {target!r}, which is empty.")
    if drop:
        return frame[~missing].reset_index(drop=True), rows[~missing.to_numpy()]
    raise InputError(
        f"--target must be a column without missing values, got {target!r} with {count} of them, the first in record "
        f"{int(missing.to_numpy().argmax()) + 1}; --drop-missing-target leaves these records out."
    )


def check_target(values: NDArray[Any], name: str, *, classes: bool | None) -> None:
    """Refuse a column of dates, numbers with words among them, and text that differs in most records."""
    if looks_like_dates(values):
        raise InputError(
            f"--target must hold classes or numbers, got dates such as {str(values[0])!r} in column {name!r}."
        )
    if values.dtype.kind in "biuf" or classes:
        return
    words = values.astype(str)
    numeric = np.array([_is_number(word) for word in words])
    if numeric.mean() > 0.5:
        wrong = words[~numeric]
        if len(wrong):
            raise InputError(
                f"--target must hold numbers or classes, got numbers with words such as {str(wrong[0])!r} among them "
                f"in column {name!r}; leave the words empty, and give --drop-missing-target."
            )
    different = len(np.unique(words))
    if different > max(_MOST_CLASSES, len(words) / 2):
        raise InputError(
            f"--target must hold classes that occur several times, got {different:,} different values in "
            f"{len(words):,} records of column {name!r}; is it another column?"
        )


def first_word(values: NDArray[Any]) -> str:
    """The first value that is no number, else the first one."""
    words = [str(value) for value in values.tolist()]
    return next((word for word in words if not _is_number(word)), words[0])


def _is_number(word: str) -> bool:
    try:
        float(word.replace(",", "."))
    except ValueError:
        return False
    return True
