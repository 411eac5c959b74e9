"""How the loops are compiled: in IEEE arithmetic as written, on one thread, without the interpreter's lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba

__all__ = ["compiled"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Division by zero gives an infinity, as in numpy: the check for it would keep loops from using vector registers.
_decorate: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


def compiled(function: Function) -> Function:
    """Compile on the first call, and keep the machine code on disk."""
    dispatcher: Function = _decorate(function)
    return dispatcher
