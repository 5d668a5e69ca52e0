// The innermost parts of RowGemm(), of which each form has its own.
#pragma once

#include <cstdint>

#include "kernels/cpu/row_source.h"

namespace gemmd {

// Elements that fill 64 bytes: a register, or what several make together.
template <typename Real>
inline constexpr std::int64_t kLanes = 64 / sizeof(Real);

// Rows of A that a call of `add_dots` takes at most.
inline constexpr std::int64_t kDotRows = 6;

// The work that RowGemm() does in registers. Each function has the bits of the plain one, but that
// those with FMA round once where it rounds twice.
template <typename Real>
struct RowTile {
  // The tile of `add_tile`: with a line of the strip and an element of A it fills the registers.
  std::int64_t rows;
  std::int64_t columns;

  // tile (`rows` lines of `columns` elements) += A (`rows` x `depth`) * strip (`depth` lines of
  // `columns` elements). Each sum is a chain that `goes_on` from what the tile
  // has, or begins with 0 and is added to that. 1 <= rows <= RowTile::rows.
  void (*add_tile)(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
                   const Real* strip, bool goes_on, Real* tile);

  // With at most so many rows chains along lines of K take less time than packing B.
  std::int64_t few_rows;

  // The next three have chains side by side, as f32 alone does: null for f64.

  // Goes on with the chains of `rows` rows of A by kDotColumns columns of B, `steps` elements of K
  // each: chains[(row * kDotColumns + column) * kLanes + chain]. 1 <= rows <= kDotRows.
  void (*add_dots)(std::int64_t rows, std::int64_t steps, const Real* a, std::int64_t lda,
                   const Real* columns, std::int64_t pitch, Real* chains);

  // sums[j] += the chains of column j, in ascending order, for j < kLanes:
  // chains[j / kDotColumns * pitch + j % kDotColumns * kLanes + chain].
  void (*add_chains)(const Real* chains, std::int64_t pitch, Real* sums);

  // Goes on with one chain of `rows` rows of A by `columns` columns of B, a multiple of kLanes:
  // sums[row * sums_pitch + column] += a[row * lda + i * kLanes] * lines[i * pitch + column] for
  // i < steps. steps <= kLineSteps.
  void (*add_lines)(std::int64_t rows, std::int64_t steps, std::int64_t columns, const Real* a,
                    std::int64_t lda, const Real* lines, std::int64_t pitch, Real* sums,
                    std::int64_t sums_pitch);

  // to[i * to_pitch + j] = from[j * pitch + i], a square of kLanes.
  void (*transpose)(const Real* from, std::int64_t pitch, Real* to, std::int64_t to_pitch);
};

// Transposes for forms that have nothing quicker.
template <typename Real>
void TransposeBySquares(const Real* from, std::int64_t pitch, Real* to, std::int64_t to_pitch);

// Return the form's functions; null where the build has none, because it is for another processor.
template <typename Real>
const RowTile<Real>* PlainRowTile();
template <typename Real>
const RowTile<Real>* Avx2RowTile();
template <typename Real>
const RowTile<Real>* Avx512RowTile();

// Return whether this processor has the instructions that these need.
bool HasAvx2AndFma();
bool HasAvx512();

}  // namespace gemmd
