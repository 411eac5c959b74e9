"""Memory that was freed, and is given back to the system.

The C library of Linux keeps freed memory for later, up to twice the size of the largest array below 32 MB. Beside a fit
to many records that is memory which nobody uses, several tens of megabytes of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

__all__ = ["give_back"]


def give_back() -> None:
    """Give freed memory back to the system; does nothing where the C library cannot.

    Examples
    --------
    >>> from outofcluster._base.memory import give_back
    >>> give_back()
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    """The function ``malloc_trim`` of the C library; None where it has none."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    trim.argtypes, trim.restype = [ctypes.c_size_t], ctypes.c_int
    return trim
