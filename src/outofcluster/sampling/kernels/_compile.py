"""How the loops are compiled: in IEEE arithmetic as written, on one thread, without the interpreter's lock.

Machine code is kept on disk beside the sources. Numba looks for it by the modification time of a function's own
file, which says nothing of the functions that were compiled into it, and which an installer may set as it
likes. So a digest of all sources of this folder lies with the machine code, and code of other sources is
deleted before any is loaded.

A function that is compiled by itself is optimised again in each function that calls it, and passing it a tuple of
arrays takes about a hundred instructions. So most functions are only compiled as parts of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba

__all__ = ["called", "compiled", "drop_stale_code", "inlined"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Division by zero gives an infinity, as in numpy: the check for it would keep loops from using vector registers.
_OPTIONS = {"nogil": True, "error_model": "numpy"}
_njit: Any = numba.njit


def compiled(function: Function) -> Function:
    """Compile on the first call from Python, and keep the machine code on disk."""
    return _decorate(function, cache=True)


def called(function: Function) -> Function:
    """Compile once for the compiled functions that call it; Python cannot call it, which saves the way in."""
    return _decorate(function, no_cpython_wrapper=True, no_cfunc_wrapper=True)


def inlined(function: Function) -> Function:
    """Compile as a part of the functions that call it, for those that are called from one place or are short."""
    return _decorate(function, inline="always")


def _decorate(function: Function, **options: Any) -> Function:
    dispatcher: Function = _njit(**_OPTIONS, **options)(function)
    return dispatcher


def drop_stale_code(folder: Path) -> None:
    """Delete machine code that was made from other sources than those of the folder."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))).hexdigest()
    stamp = folder / "__pycache__" / "sources.sha256"
    # A folder that cannot be written to holds no code of ours: numba keeps it elsewhere then.
    with suppress(OSError):
        if stamp.exists() and stamp.read_text() == digest:
            return
        for path in stamp.parent.glob("*.nb[ic]"):
            path.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(digest)


drop_stale_code(Path(__file__).parent)
