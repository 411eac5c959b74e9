r"""How loops are compiled, and dense linear algebra for small symmetric matrices in them.

*Compiling* keeps to IEEE arithmetic as written, on one thread, without the interpreter's lock.

Machine code is kept on disk, beside the sources or where numba keeps it for the user. Numba looks for it by the
modification time of a function's own file, which says nothing of the functions that were compiled into it, and which an
installer may set as it likes. So a digest of all sources of this folder is a part of the key under which code is found.
Where code can be neither read nor written (a disk that is full or read-only, a file that was cut short, no home) the
loop is compiled anew in each process.

A function that is compiled by itself is optimised again in each function that calls it, and passing it a tuple of
arrays takes about a hundred instructions. So most functions are only compiled as parts of others.

*The algebra* compiles to vector instructions.

The compiler takes several columns at a time where the inner loop runs along a row, but does not reassociate a sum: so
products with a vector go through a copy by columns. Rows are padded with zeros to a multiple of eight, and several of
them are added at once, so that the target is loaded and stored less often. A symmetric matrix is held in the rows of
its upper triangle, each from the start of the block of columns on that has the diagonal.

Every entry of a sum of outer products is summed in the order of the records, with one rounding for the product and one
for the sum, so that the width of the registers does not matter.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
import numpy as np
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


# --- linear algebra ---------------------------------------------------------------------------------------

# Columns that rows are padded to a multiple of.
BLOCK = 8
# Spare places that a list of rows to add needs at its end.
PADDING = 4


def padded(width: int) -> int:
    """The least multiple of a block that holds a width."""
    return (width + BLOCK - 1) // BLOCK * BLOCK


@called
def copy(source: Any, target: Any) -> None:
    """The assignment target[:] = source, whose check of the lengths would take the compiler seconds."""
    for k in range(target.size):
        target[k] = source[k]


@called
def set_diagonal(H: Any, q: int, value: float) -> None:
    """The multiple of the identity of order q."""
    H[:] = 0.0
    for a in range(q):
        H[a, a] = value


@called
def add_outer(H: Any, q: int, Z: Any, picked: Any, weights: Any, count: int) -> None:
    """H += Σ weights[k] z zᵀ over the rows z = Z[picked[k]]; overwrites the spare places of the lists."""
    _fill_spare(picked, weights, count)
    for k in range(0, count, 4):
        z0, z1, z2, z3 = Z[picked[k]], Z[picked[k + 1]], Z[picked[k + 2]], Z[picked[k + 3]]
        for a in range(q):
            low = a // BLOCK * BLOCK
            row, t0, t1, t2, t3 = H[a, low:], z0[low:], z1[low:], z2[low:], z3[low:]
            w0, w1, w2, w3 = weights[k] * z0[a], weights[k + 1] * z1[a], weights[k + 2] * z2[a], weights[k + 3] * z3[a]
            for b in range(row.size):
                row[b] = row[b] + w0 * t0[b] + w1 * t1[b] + w2 * t2[b] + w3 * t3[b]


@called
def add_rows(out: Any, Z: Any, picked: Any, weights: Any, count: int) -> None:
    """The sum out += Σ weights[k] Z[picked[k]]; overwrites the spare places of the lists."""
    _fill_spare(picked, weights, count)
    for k in range(0, count, 4):
        z0, z1, z2, z3 = Z[picked[k]], Z[picked[k + 1]], Z[picked[k + 2]], Z[picked[k + 3]]
        w0, w1, w2, w3 = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        for b in range(out.size):
            out[b] += (w0 * z0[b] + w1 * z1[b]) + (w2 * z2[b] + w3 * z3[b])


@called
def _fill_spare(picked: Any, weights: Any, count: int) -> None:
    """Rows of weight 0 make their number a multiple of four."""
    for k in range(count, (count + 3) // 4 * 4):
        picked[k] = picked[0]
        weights[k] = 0.0


@called
def by_columns(Z: Any, n: int, q: int, columns: Any) -> None:
    """Copy the first n rows by columns, a few rows at a time: what is read and written then stays at hand."""
    for first in range(0, n, 8):
        last = min(first + 8, n)
        for j in range(q):
            for i in range(first, last):
                columns[j, i] = Z[i, j]


@called
def products(columns: Any, q: int, w: Any, constant: float, out: Any) -> None:
    """The sum of the first q columns weighted by w, plus a constant."""
    n = out.size
    out[:] = constant
    for j in range(0, q - 3, 4):
        x0, x1, x2, x3 = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
        w0, w1, w2, w3 = w[j], w[j + 1], w[j + 2], w[j + 3]
        for i in range(n):
            out[i] += (w0 * x0[i] + w1 * x1[i]) + (w2 * x2[i] + w3 * x3[i])
    for j in range(q // 4 * 4, q):
        x0, w0 = columns[j], w[j]
        for i in range(n):
            out[i] += w0 * x0[i]


@called
def factor(H: Any, q: int, U: Any, inverse: Any, own: float, largest: float) -> bool:
    """H = Uᵀ D⁻¹ U, with D the diagonal of U, and its inverse.

    False if H is near singular: a pivot at most ``own`` times its diagonal entry or ``largest`` times the largest one.
    """
    top = 0.0
    for a in range(q):
        top = max(top, H[a, a])
        copy(H[a], U[a])
    for k in range(q):
        pivot = U[k, k]
        if not (pivot > own * H[k, k] and pivot > largest * top and pivot < np.inf):
            return False
        r = 1.0 / pivot
        inverse[k] = r
        for i in range(k + 1, q):
            c = U[k, i] * r
            low = i // BLOCK * BLOCK
            u, v = U[k, low:], U[i, low:]
            for b in range(v.size):
                v[b] -= c * u[b]
    return True


@called
def solve(U: Any, q: int, inverse: Any, right: Any, x: Any) -> None:
    """The solution of Uᵀ D⁻¹ U x = right, with zeros in the padding of x."""
    copy(right, x)
    for k in range(q):
        t = x[k] * inverse[k]
        for j in range(k + 1, q):
            x[j] -= t * U[k, j]
    for k in range(q - 1, -1, -1):
        total = x[k]
        for j in range(k + 1, q):
            total -= U[k, j] * x[j]
        x[k] = total * inverse[k]
    for k in range(q, x.size):
        x[k] = 0.0
