"""One thread per fit: linear algebra (BLAS) and OpenMP, limited while models are fitted and scored.

Many small fits lose more to threads than they gain, above all on a busy machine, where threads wait for each other; and
sums in another order would be other bits. More workers (``n_jobs``) are how to use more cores.

Both limits are counted, so that calls may be nested and threads may run audits side by side: the first one in sets the
limit, and the last one out restores what was there before. BLAS has one limit for the whole process, and so has one
counter. OpenMP has a limit for each thread that calls it, so each thread counts for itself.

Memory that was freed, and is given back to the system.

The C library of Linux keeps freed memory for later, up to twice the size of the largest array below 32 MB. Beside a fit
to many records that is memory which nobody uses, several tens of megabytes of it.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any


class _Limit:
    """A limit that lasts from the first call that needs it to the end of the last one."""

    def __init__(self, kind: str) -> None:
        self._kind, self._calls = kind, 0
        self._limit: Any = None

    def enter(self) -> None:
        if self._calls == 0:
            _free_control()
            self._limit = _controllers(len(sys.modules))[self._kind].limit(limits=1)
        self._calls += 1

    def leave(self) -> None:
        self._calls -= 1
        if self._calls == 0:
            _free_control()
            self._limit.restore_original_limits()
            _free_control()


_lock = threading.RLock()
_blas = _Limit("blas")
_of_thread = threading.local()


@contextmanager
def one_thread() -> Iterator[None]:
    """A context, or a decorator, in which linear algebra and OpenMP use one thread."""
    openmp = vars(_of_thread).setdefault("openmp", _Limit("openmp"))
    with _lock:
        _blas.enter()
        openmp.enter()
    try:
        yield
    finally:
        with _lock:
            openmp.leave()
            _blas.leave()


@lru_cache(maxsize=1)
def _controllers(n_modules: int) -> dict[str, Any]:
    """The thread pools of all libraries that are loaded, by kind; looked up anew when there are new modules."""
    from threadpoolctl import ThreadpoolController

    every = ThreadpoolController()
    return {kind: every.select(user_api=kind) for kind in ("blas", "openmp")}


def _free_control() -> None:
    """Let this thread set the limit of BLAS: newer releases of threadpoolctl mind only the thread that did so first.

    The one that restores the limit here may be another one than the one that set it.
    """
    import threadpoolctl

    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


def _forget_the_lock() -> None:
    """In a forked process: another thread of the parent may hold the lock, and does not exist here."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_the_lock)


def give_back() -> None:
    """Give freed memory back to the system; does nothing where the C library cannot.

    Examples
    --------
    >>> from outofcluster._base.threads import give_back
    >>> give_back()
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
