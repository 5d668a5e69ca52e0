// How a tile of 16-bit elements lies in shared memory.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::sm80 {
inline namespace GEMMD_BACKEND {

// Rows of kColumns elements, each row a whole number of 128-byte bank cycles. With
// kSwizzle the 16-byte chunks of a row trade places: chunk c of row r lies at c XOR r % 8.
// Eight rows of one chunk, which ldmatrix reads at once, then fall into eight different
// groups of banks instead of one.
template <int kRows_, int kColumns_, bool kSwizzle>
struct TileLayout {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kChunkElements = 8;
  static constexpr std::uint32_t kChunkBytes = 16;
  static constexpr int kRowChunks = kColumns / kChunkElements;
  static constexpr std::uint32_t kRowBytes = kColumns * 2;
  static constexpr std::uint32_t kBytes = kRows * kRowBytes;
  static_assert(kRowBytes % 128 == 0, "a row is a whole number of bank cycles");

  // Offset of a chunk from the start of the tile.
  static GEMMD_DEVICE std::uint32_t Chunk(std::uint32_t row, std::uint32_t chunk) {
    return row * kRowBytes + ((kSwizzle ? chunk ^ (row % 8) : chunk) * kChunkBytes);
  }

  // Offset of an element.
  static GEMMD_DEVICE std::uint32_t Element(std::uint32_t row, std::uint32_t column) {
    return Chunk(row, column / kChunkElements) + column % kChunkElements * 2;
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm80
