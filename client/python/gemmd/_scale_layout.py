"""Scales in tiles of 128 lines by 4 blocks of K, as tcgen05 and cuBLASLt read them (base/numbers/scaling.h).

A tile is 512 scales, tiles of the same lines follow each other, and within a tile (line, k) is at
(line % 32) * 16 + (line / 32) * 4 + k. Tiles are whole; padding is 0. Sources: PTX ISA, "tcgen05", "Scale factor
A/B"; cuBLAS documentation, "1D Block Scaling Factors Layout".
"""

from __future__ import annotations

import numpy as np

from gemmd._layout import Array

PLAIN, BLOCKED = "plain", "blocked-128x4"
LAYOUTS = {PLAIN: 0, BLOCKED: 1}  # ScaleLayout in matrix.proto


def tiled_shape(line_blocks: int, k_blocks: int) -> tuple[int, int]:
    """Lines and blocks of K, rounded up to whole tiles."""
    return -(-line_blocks // 128) * 128, -(-k_blocks // 4) * 4


def to_tiles(scales: Array) -> Array:
    """1-D, of scales by lines x blocks of K."""
    lines, blocks = tiled_shape(*scales.shape)
    whole = np.zeros((lines, blocks), scales.dtype)
    whole[: scales.shape[0], : scales.shape[1]] = scales
    # (tile row, line / 32, line % 32, tile column, k)
    split = whole.reshape(lines // 128, 4, 32, blocks // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 1, 4)).reshape(-1)


def from_tiles(tiles: Array, line_blocks: int, k_blocks: int) -> Array:
    """The other way round: lines x blocks of K, without the padding."""
    lines, blocks = tiled_shape(line_blocks, k_blocks)
    split = tiles.reshape(lines // 128, blocks // 4, 32, 4, 4)
    plain: Array = split.transpose(0, 3, 2, 1, 4).reshape(lines, blocks)
    return plain[:line_blocks, :k_blocks]
