"""How the loops are compiled: in IEEE arithmetic as written, on one thread, without the interpreter's lock.

Machine code is kept on disk, beside the sources or where numba keeps it for the user. Numba looks for it by the
modification time of a function's own file, which says nothing of the functions that were compiled into it, and which an
installer may set as it likes. So a digest of all sources of this folder is a part of the key under which code is found,
and code of other sources that lies beside them is deleted. Where code can be neither read nor written (a disk that is
full or read-only, a file that was cut short, no home) the loop is compiled anew in each process.

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


def _digest_of(folder: Path) -> str:
    """A digest of all sources of a folder."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()


_DIGEST = _digest_of(_FOLDER)


def compiled(function: Function) -> Function:
    """Compile on the first call from Python, and keep the machine code on disk where that can be done."""
    dispatcher: Any = _decorate(function)
    # Without a home, numba would make a folder of the name ~ wherever the user is.
    if os.path.isabs(os.path.expanduser("~")) or os.access(_FOLDER, os.W_OK):
        with suppress(Exception):
            dispatcher._cache = _KeptCode(function)
    return dispatcher  # type: ignore[no-any-return]


def called(function: Function) -> Function:
    """Compile once for the compiled functions that call it; Python cannot call it, which saves the way in."""
    return _decorate(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Compile as a part of the functions that call it, for those that are called from one place or are short."""
    return _decorate(function, inline="always")


def _decorate(function: Function, **options: Any) -> Function:
    dispatcher: Function = _njit(**_OPTIONS, **options)(function)
    return dispatcher


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


def drop_stale_code(folder: Path) -> None:
    """Delete machine code that was made from other sources than those of the folder."""
    digest = _digest_of(folder)
    stamp = folder / "__pycache__" / "sources.sha256"
    # Code that lies elsewhere stays: it is not found under the key of other sources.
    with suppress(OSError):
        if stamp.exists() and stamp.read_bytes() == digest.encode():
            return
        for path in stamp.parent.glob("*.nb[ic]"):
            path.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_bytes(digest.encode())


drop_stale_code(_FOLDER)
