"""How the loops are compiled: in IEEE arithmetic as written, on one thread, without the interpreter's lock.

Machine code is kept on disk, beside the sources or where numba keeps it for the user. Numba looks for it by the
modification time of a function's own file, which says nothing of the functions that were compiled into it, and which an
installer may set as it likes. So a digest of all sources of this folder is a part of the key under which code is found.
Where code can be neither read nor written (a disk that is full or read-only, a file that was cut short, no home) the
loop is compiled anew in each process.

A function that is compiled by itself is optimised again in each function that calls it, and passing it a tuple of
arrays takes about a hundred instructions. So most functions are only compiled as parts of others.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core import caching

Function = TypeVar("Function", bound=Callable[..., Any])

# Division by zero gives an infinity, as in numpy: the check for it would keep loops from using vector registers.
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_njit: Any = numba.njit
_FunctionCache: Any = caching.FunctionCache
_FOLDER = Path(__file__).parent
_DIGEST = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(_FOLDER.glob("*.py")))).hexdigest()


def compiled(function: Function) -> Function:
    """Compile on the first call from Python, and keep the machine code on disk where that can be done."""
    dispatcher: Any = _njit(**_OPTIONS)(function)
    # Without a home, numba would make a folder of the name ~ wherever the user is.
    if os.path.isabs(os.path.expanduser("~")) or os.access(_FOLDER, os.W_OK):
        with suppress(Exception):
            dispatcher._cache = _KeptCode(function)
    return dispatcher  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile once for the compiled functions that call it; Python cannot call it, which saves the way in."""
    return _njit(**_OPTIONS, no_cpython_wrapper=True, no_cfunc_wrapper=True)(function)  # type: ignore[no-any-return]


def inlined(function: Function) -> Function:
    """Compile as a part of the functions that call it, for those that are called from one place or are short."""
    return _njit(**_OPTIONS, inline="always")(function)  # type: ignore[no-any-return]


class _KeptCode(_FunctionCache):  # type: ignore[misc]
    """Machine code on disk that is only ever a saving of time."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The code of a signature, or None where there is none that can be read."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            with suppress(Exception):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep the code of a signature, if that can be done."""
        with suppress(Exception):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        return (*super()._index_key(sig, codegen), _DIGEST)
