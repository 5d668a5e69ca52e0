"""Codes of 4 and 6 bits in memory: a stream without gaps, lowest bits first (base/numbers/quant/packed_codes.h).

So of two codes of 4 bits in a byte the even one is in the low half, and four codes of 6 bits are 3 bytes,
little-endian.
"""

from __future__ import annotations

import numpy as np

from gemmd._layout import Array


def pack(codes: Array, bits: int) -> Array:
    """1-D codes, a byte each, as 1-D uint8 of ceil(codes * bits / 8) bytes. Bits above the code are ignored."""
    low = codes & np.uint8((1 << bits) - 1)
    if bits == 4:
        low = _whole(low, 2)
        pairs: Array = low[0::2] | (low[1::2] << 4)
        return pairs
    count = (codes.size * bits + 7) // 8
    a, b, c, d = (_whole(low, 4)[at::4] for at in range(4))
    packed = np.empty((a.size, 3), np.uint8)
    packed[:, 0] = a | (b << 6)
    packed[:, 1] = (b >> 2) | (c << 4)
    packed[:, 2] = (c >> 4) | (d << 2)
    return packed.reshape(-1)[:count]


def unpack(packed: Array, bits: int, count: int) -> Array:
    """The first `count` codes of a packed stream, a byte each."""
    codes: Array
    if bits == 4:
        codes = np.empty((packed.size, 2), np.uint8)
        codes[:, 0] = packed & 15
        codes[:, 1] = packed >> 4
        return codes.reshape(-1)[:count]
    x, y, z = (_whole(packed, 3)[at::3] for at in range(3))
    codes = np.empty((x.size, 4), np.uint8)
    codes[:, 0] = x & 63
    codes[:, 1] = (x >> 6) | ((y & 15) << 2)
    codes[:, 2] = (y >> 4) | ((z & 3) << 4)
    codes[:, 3] = z >> 2
    return codes.reshape(-1)[:count]


def _whole(flat: Array, group: int) -> Array:
    """Filled up with zeros to a multiple of `group`."""
    lack = -flat.size % group
    return np.concatenate([flat, np.zeros(lack, flat.dtype)]) if lack else flat
