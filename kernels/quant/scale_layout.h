// Where the scales of blocks lie, as indices into a plane of scales.
//
// An operand is looked at as lines of K elements: rows of op(A), columns of op(B). Its scales are a
// matrix of line_blocks x k_blocks, one for each block.
#pragma once

#include <cstdint>

namespace gemmd {

enum class ScaleLayout : std::uint8_t {
  kAlongK,      // index line_block * k_blocks + k_block: A's scales row-major
  kAlongLines,  // index k_block * line_blocks + line_block: B's scales row-major
  // Tiles of 128 lines by 4 blocks of K, 512 scales each, whole at the edges; tiles of the same
  // lines follow each other. Within a tile (line, block) is at (line % 32) * 16 + (line / 32) * 4 +
  // block. What tcgen05.cp.32x128b.warpx4 takes and cuBLASLt reads for VEC32_UE8M0 and VEC16_UE4M3.
  // Sources: PTX ISA, "tcgen05", "Scale factor A/B"; cuBLAS documentation, "1D Block Scaling
  // Factors Layout".
  kTiles128x4,
};

// Places in the plane, those that pad tiles included. Padding is 0, and nobody reads it.
constexpr std::int64_t ScaleCount(ScaleLayout layout, std::int64_t line_blocks,
                                  std::int64_t k_blocks) {
  if (layout != ScaleLayout::kTiles128x4) return line_blocks * k_blocks;
  return (line_blocks + 127) / 128 * ((k_blocks + 3) / 4) * 512;
}

constexpr std::int64_t ScaleIndex(ScaleLayout layout, std::int64_t line_blocks,
                                  std::int64_t k_blocks, std::int64_t line, std::int64_t block) {
  switch (layout) {
    case ScaleLayout::kAlongK:
      return line * k_blocks + block;
    case ScaleLayout::kAlongLines:
      return block * line_blocks + line;
    case ScaleLayout::kTiles128x4:
      break;
  }
  const std::int64_t tile = line / 128 * ((k_blocks + 3) / 4) + block / 4;
  const std::int64_t line_in_tile = line % 128;
  return tile * 512 + line_in_tile % 32 * 16 + line_in_tile / 32 * 4 + block % 4;
}

}  // namespace gemmd
