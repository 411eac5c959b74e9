r"""Dense linear algebra for small symmetric matrices, in loops that compile to vector instructions.

The compiler takes several columns at a time where the inner loop runs along a row, but does not reassociate a sum: so
products with a vector go through a copy by columns. Rows are padded with zeros to a multiple of eight, and several of
them are added at once, so that the target is loaded and stored less often. A symmetric matrix is held in the rows of
its upper triangle, each from the start of the block of columns on that has the diagonal.

Every entry of a sum of outer products is summed in the order of the records, with one rounding for the product and one
for the sum, so that the width of the registers does not matter.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster.sampling.kernels.compile import called

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
