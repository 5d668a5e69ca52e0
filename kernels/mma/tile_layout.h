// The layout of a tile of 16-bit elements in shared memory.
#pragma once

#include "kernels/ptx/platform.h"

namespace gemmd::mma {
inline namespace GEMMD_BACKEND {

// Rows of kColumns elements: 64 bytes, or a whole number of 128-byte bank cycles. With
// kSwizzle the 16-byte chunks of a 128-byte line r trade places: chunk c lies at c XOR r % 8,
// and in rows of 64 bytes, two of which share a line, at c XOR r % 4. Eight rows of one
// chunk, which ldmatrix reads at once, then fall into eight different groups of banks.
// Rows of 64 and of 128 bytes lie as TMA's swizzles of 64 and 128 bytes leave them, where
// the tile is aligned to 512 or 1024 bytes.
template <int kRows_, int kColumns_, bool kSwizzle>
struct TileLayout {
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kChunkElements = 8;
  static constexpr std::uint32_t kChunkBytes = 16;
  static constexpr int kRowChunks = kColumns / kChunkElements;
  static constexpr std::uint32_t kRowBytes = kColumns * 2;
  static constexpr std::uint32_t kBytes = kRows * kRowBytes;
  static_assert(kRowBytes % 128 == 0 || kRowBytes == 64, "a row fills a bank cycle, or half");

  // Offset of a chunk from the start of the tile. Rows 8 apart are swizzled alike.
  static GEMMD_DEVICE std::uint32_t Chunk(std::uint32_t row, std::uint32_t chunk) {
    constexpr std::uint32_t kLineRows = kRowBytes == 64 ? 2 : 1;
    constexpr std::uint32_t kSpanChunks = kRowBytes == 64 ? 4 : 8;
    const std::uint32_t place = kSwizzle ? chunk ^ (row / kLineRows % kSpanChunks) : chunk;
    return row * kRowBytes + place * kChunkBytes;
  }

  // Offset of an element.
  static GEMMD_DEVICE std::uint32_t Element(std::uint32_t row, std::uint32_t column) {
    return Chunk(row, column / kChunkElements) + column % kChunkElements * 2;
  }
};

// Panels of 64 columns one after another, each with swizzled rows of 128 bytes: as TMA loads
// a wider tile, whose boxes may not be wider than the swizzle.
template <int kRows_, int kColumns_>
struct PanelLayout {
  using Panel = TileLayout<kRows_, 64, true>;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kColumns_;
  static constexpr int kPanels = kColumns / Panel::kColumns;
  static constexpr int kRowChunks = kColumns / Panel::kChunkElements;
  static constexpr std::uint32_t kBytes = kPanels * Panel::kBytes;
  static_assert(kColumns % Panel::kColumns == 0, "whole panels");

  static GEMMD_DEVICE std::uint32_t Chunk(std::uint32_t row, std::uint32_t chunk) {
    return chunk / Panel::kRowChunks * Panel::kBytes + Panel::Chunk(row, chunk % Panel::kRowChunks);
  }
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::mma
