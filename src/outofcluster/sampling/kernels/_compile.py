"""How the loops are compiled: in IEEE arithmetic as written, on one thread, without the interpreter's lock.

Machine code is kept on disk beside the sources. Numba looks for it by the modification time of a function's own
file, which says nothing of the functions that were compiled into it, and which an installer may set as it
likes. So a digest of all sources of this folder lies with the machine code, and code of other sources is
deleted before any is loaded.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba

__all__ = ["compiled", "drop_stale_code"]

Function = TypeVar("Function", bound=Callable[..., Any])

# Division by zero gives an infinity, as in numpy: the check for it would keep loops from using vector registers.
_decorate: Any = numba.njit(cache=True, nogil=True, error_model="numpy")


def compiled(function: Function) -> Function:
    """Compile on the first call, and keep the machine code on disk."""
    dispatcher: Function = _decorate(function)
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
