r"""Uniforms of numpy's Philox generator, by position in the stream.

Philox4x64-10 (Salmon et al., 2011) maps a counter :math:`c` and a key :math:`k` to four words by ten rounds of

.. math:: (c_0, c_1, c_2, c_3) \mapsto
          (hi(M_1 c_2) ⊕ c_1 ⊕ k_0,\ lo(M_1 c_2),\ hi(M_0 c_0) ⊕ c_3 ⊕ k_1,\ lo(M_0 c_0)),

after each of which :math:`k` grows by (W_0, W_1). numpy increments the counter before each block of four words, and
turns a word x into the uniform (x >> 11) 2⁻⁵³. So uniform number j of a stream whose counter starts at (0, 0, i, r) is
word j mod 4 of the block at (⌊j/4⌋ + 1, 0, i, r), and no state has to be carried.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from outofcluster.sampling.kernels._compile import compiled, inlined

_M0, _M1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)
_W0, _W1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_SHIFT = np.uint64(11)
_HALF, _BITS = np.uint64(2**32 - 1), np.uint64(32)
_UNIT = 2.0**-53


@inlined
def _high(a: Any, b: Any) -> Any:
    """The upper 64 bits of a product, from the products of its 32-bit halves."""
    a0, a1, b0, b1 = a & _HALF, a >> _BITS, b & _HALF, b >> _BITS
    middle = a1 * b0 + (a0 * b0 >> _BITS)
    return a1 * b1 + (middle >> _BITS) + ((middle & _HALF) + a0 * b1 >> _BITS)


@compiled
def fill_uniforms(key: Any, level: int, replicate: int, first: int, out: Any) -> None:
    """Write the uniforms first, first + 1, ... of the stream of a level's replicate."""
    count = out.size
    block = first // 4
    at = -(first % 4)
    while at < count:
        c0, c1, c2, c3 = np.uint64(block + 1), np.uint64(0), np.uint64(level), np.uint64(replicate)
        k0, k1 = key[0], key[1]
        for _ in range(10):
            high0, low0 = _high(_M0, c0), _M0 * c0
            high1, low1 = _high(_M1, c2), _M1 * c2
            c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
            k0 += _W0
            k1 += _W1
        u0, u1 = np.int64(c0 >> _SHIFT) * _UNIT, np.int64(c1 >> _SHIFT) * _UNIT
        u2, u3 = np.int64(c2 >> _SHIFT) * _UNIT, np.int64(c3 >> _SHIFT) * _UNIT
        if at >= 0 and at + 4 <= count:
            out[at], out[at + 1], out[at + 2], out[at + 3] = u0, u1, u2, u3
        else:
            if 0 <= at < count:
                out[at] = u0
            if 0 <= at + 1 < count:
                out[at + 1] = u1
            if 0 <= at + 2 < count:
                out[at + 2] = u2
            if 0 <= at + 3 < count:
                out[at + 3] = u3
        at += 4
        block += 1
