// The innermost part of RowGemm(), of which each form has its own: a tile of C in registers.
#pragma once

#include <cstdint>

namespace gemmd {

// `depth` lines of a tile's columns of B, or memory that holds such lines.
template <typename Real>
struct Strip {
  const Real* lines = nullptr;
  std::int64_t pitch = 0;
};

// Memory that is needed next: `lines` lines, `pitch` apart, of `pieces` times a tile's columns. A
// tile asks the caches for a piece at each step of K, which costs it nothing; the processor would
// not find these lines by itself, because they lie too far apart.
template <typename Real>
struct Ahead {
  const Real* from = nullptr;
  std::int64_t lines = 0;
  std::int64_t pitch = 0;
  std::int64_t pieces = 0;
};

// tile (`rows` lines of kColumns elements, `tile_pitch` apart) += A (`rows` x `depth`) * a strip of
// B. 1 <= rows <= kRows; `ahead` has at most `depth` pieces.
template <typename Real>
using AddRows = void (*)(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
                         const Strip<Real>& strip, const Ahead<Real>& ahead, Real* tile,
                         std::int64_t tile_pitch);

// A tile's rows, and its columns in bytes. With the strip's line and an element of A they fill 16
// registers of 32 bytes, or 32 of 64, where a processor multiplies with memory.
struct NarrowTile {
  static constexpr std::int64_t kRows = 6;
  static constexpr std::int64_t kColumnBytes = 64;
};
struct WideTile {
  static constexpr std::int64_t kRows = 13;
  static constexpr std::int64_t kColumnBytes = 128;
};

// Return the function for NarrowTile, and the one for WideTile; null where the build has none,
// because it is for another processor.
template <typename Real>
AddRows<Real> AddRowsWithAvx2();
template <typename Real>
AddRows<Real> AddRowsWithAvx512();

// Return whether this processor has the instructions that these need.
bool HasAvx2AndFma();
bool HasAvx512();

}  // namespace gemmd
