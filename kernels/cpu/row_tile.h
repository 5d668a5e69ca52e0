// The innermost part of RowGemm(), of which each form has its own: a tile of C in registers.
#pragma once

#include <cstdint>

namespace gemmd {

// tile (`rows` lines of kColumns elements, `tile_pitch` apart) += A (`rows` x `depth`) * a strip of
// B (`depth` lines of kColumns, `strip_pitch` apart). 1 <= rows <= kRows.
template <typename Real>
using AddRows = void (*)(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
                         const Real* strip, std::int64_t strip_pitch, Real* tile,
                         std::int64_t tile_pitch);

// A tile's rows, and its columns in bytes. With the strip's line and an element of A they fill 16
// registers of 32 bytes, or 32 of 64, where a processor multiplies with memory: a panel's 64 rows
// are then four tiles and one of 12.
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
