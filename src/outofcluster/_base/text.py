"""Text for people without what a terminal or a page would act on: names in data may hold anything.

Taken out are whole escape sequences, control characters other than a new line and a tab, marks that change the
direction of what follows (which can make a name look like another one), and halves of characters.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["printable", "printable_data"]

_SEQUENCES = r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|\x9b[0-?]*[ -/]*[@-~]"
_CHARACTERS = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
_UNWANTED = re.compile(f"{_SEQUENCES}|{_CHARACTERS}")


def printable(text: str) -> str:
    r"""The text without escape sequences and control characters.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str

    Examples
    --------
    >>> from outofcluster._base.text import printable
    >>> printable("dose \x1b[31min mg\x1b[0m")
    'dose in mg'
    """
    return _UNWANTED.sub("", text)


def printable_data(value: Any) -> Any:
    """Plain data with the same done to every string in it.

    Parameters
    ----------
    value : dict, list, str, number or None
        Plain data.

    Returns
    -------
    dict, list, str, number or None
    """
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {printable_data(key): printable_data(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [printable_data(inner) for inner in value]
    return value
