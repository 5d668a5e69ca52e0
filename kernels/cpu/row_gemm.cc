#include "kernels/cpu/row_gemm.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "kernels/cpu/row_tile.h"

namespace gemmd {
namespace {

// The elements of K at a time: a strip of packed B of that length stays in the first cache, or the
// second.
constexpr std::int64_t kDepth = 256;
// Rows of A are copied to lie apart by what is no power of two, which the cache would mind.
constexpr std::int64_t kLeftPitch = kDepth + 16;
// Fewer do not pay for packing.
constexpr std::int64_t kFewRows = 6;

template <typename Real, typename Tile>
constexpr std::int64_t kColumns = Tile::kColumnBytes / sizeof(Real);

// The build's own instructions have no FMA, so products and sums stay apart.
template <typename Real>
void AddRowsPlain(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
                  const Real* strip, std::int64_t strip_pitch, Real* tile,
                  std::int64_t tile_pitch) {
  constexpr std::int64_t kWidth = kColumns<Real, NarrowTile>;
  for (std::int64_t row = 0; row < rows; ++row) {
    Real sums[kWidth];
    std::copy_n(tile + row * tile_pitch, kWidth, sums);
    for (std::int64_t p = 0; p < depth; ++p) {
      const Real x = a[row * lda + p];
      for (std::int64_t i = 0; i < kWidth; ++i) sums[i] += x * strip[p * strip_pitch + i];
    }
    std::copy_n(sums, kWidth, tile + row * tile_pitch);
  }
}

constexpr std::int64_t kSquare = 4;

// 4 x 4 elements. GCC's and Clang's own vectors, which every processor has in some form.
void TransposeSquare(const float* from, std::int64_t pitch, float* to, std::int64_t to_pitch) {
  using Four = float __attribute__((vector_size(16)));
  Four x[kSquare];
  for (std::int64_t i = 0; i < kSquare; ++i) std::memcpy(&x[i], from + i * pitch, sizeof(Four));
  const Four low_01 = __builtin_shufflevector(x[0], x[1], 0, 4, 1, 5);
  const Four high_01 = __builtin_shufflevector(x[0], x[1], 2, 6, 3, 7);
  const Four low_23 = __builtin_shufflevector(x[2], x[3], 0, 4, 1, 5);
  const Four high_23 = __builtin_shufflevector(x[2], x[3], 2, 6, 3, 7);
  const Four lines[kSquare] = {__builtin_shufflevector(low_01, low_23, 0, 1, 4, 5),
                               __builtin_shufflevector(low_01, low_23, 2, 3, 6, 7),
                               __builtin_shufflevector(high_01, high_23, 0, 1, 4, 5),
                               __builtin_shufflevector(high_01, high_23, 2, 3, 6, 7)};
  for (std::int64_t i = 0; i < kSquare; ++i) {
    std::memcpy(to + i * to_pitch, &lines[i], sizeof(Four));
  }
}

void TransposeSquare(const double* from, std::int64_t pitch, double* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < kSquare; ++i) {
    for (std::int64_t j = 0; j < kSquare; ++j) to[j * to_pitch + i] = from[i * pitch + j];
  }
}

// `depth` lines of columns [begin, n) of op(B) as strips of kWidth, zeros beside them; begin is
// a multiple of kWidth.
template <std::int64_t kWidth, typename Real>
void Pack(bool transpose_b, std::int64_t depth, std::int64_t begin, std::int64_t n, const Real* b,
          std::int64_t ldb, Real* strips) {
  if (!transpose_b) {
    // Whole lines, as they lie in memory.
    for (std::int64_t p = 0; p < depth; ++p) {
      for (std::int64_t column = begin; column < n; column += kWidth) {
        Real* const to = strips + column * kDepth + p * kWidth;
        const std::int64_t columns = std::min(kWidth, n - column);
        std::copy_n(b + p * ldb + column, columns, to);
        std::fill(to + columns, to + kWidth, Real{0});
      }
    }
    return;
  }
  for (std::int64_t column = begin; column < n; column += kSquare) {
    const std::int64_t columns = std::min(kSquare, n - column);
    const Real* const from = b + column * ldb;
    Real* const to = strips + column / kWidth * kWidth * kDepth + column % kWidth;
    std::int64_t p = 0;
    for (; columns == kSquare && p + kSquare <= depth; p += kSquare) {
      TransposeSquare(from + p, ldb, to + p * kWidth, kWidth);
    }
    for (; p < depth; ++p) {
      for (std::int64_t i = 0; i < kSquare; ++i) {
        to[p * kWidth + i] = i < columns ? from[i * ldb + p] : Real{0};
      }
    }
  }
  for (std::int64_t column = (n + kSquare - 1) / kSquare * kSquare; column % kWidth != 0;
       column += kSquare) {
    Real* const to = strips + column / kWidth * kWidth * kDepth + column % kWidth;
    for (std::int64_t p = 0; p < depth; ++p) std::fill_n(to + p * kWidth, kSquare, Real{0});
  }
}

template <typename Tile, typename Real>
void Multiply(AddRows<Real> add_rows, bool transpose_b, std::int64_t m, std::int64_t n,
              std::int64_t k, const Real* a, std::int64_t lda, const Real* b, std::int64_t ldb,
              Real* c, std::int64_t ldc) {
  constexpr std::int64_t kWidth = kColumns<Real, Tile>;
  constexpr std::int64_t kTileRows = Tile::kRows;
  thread_local std::vector<Real> strips;
  thread_local std::vector<Real> left;
  strips.resize(static_cast<std::size_t>((n + kWidth - 1) / kWidth * kDepth * kWidth));
  left.resize(static_cast<std::size_t>(m * kLeftPitch));
  Real edge[kTileRows * kWidth];
  const bool in_place = !transpose_b && m <= kFewRows;
  for (std::int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, Real{0});
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p);
    for (std::int64_t row = 0; row < m; ++row) {
      std::copy_n(a + row * lda + p, depth, left.data() + row * kLeftPitch);
    }
    const std::int64_t packed_from = in_place ? n / kWidth * kWidth : 0;
    Pack<kWidth>(transpose_b, depth, packed_from, n, transpose_b ? b + p : b + p * ldb, ldb,
                 strips.data());
    for (std::int64_t column = 0; column < n; column += kWidth) {
      const std::int64_t columns = std::min(kWidth, n - column);
      const bool is_packed = column >= packed_from;
      const Real* const right = is_packed ? strips.data() + column * kDepth : b + p * ldb + column;
      const std::int64_t pitch = is_packed ? kWidth : ldb;
      for (std::int64_t row = 0; row < m; row += kTileRows) {
        const std::int64_t rows = std::min(kTileRows, m - row);
        const Real* const rows_of_a = left.data() + row * kLeftPitch;
        Real* const to = c + row * ldc + column;
        if (columns == kWidth) {
          add_rows(rows, depth, rows_of_a, kLeftPitch, right, pitch, to, ldc);
          continue;
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(to + i * ldc, columns, edge + i * kWidth);
          std::fill(edge + i * kWidth + columns, edge + (i + 1) * kWidth, Real{0});
        }
        add_rows(rows, depth, rows_of_a, kLeftPitch, right, pitch, edge, kWidth);
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(edge + i * kWidth, columns, to + i * ldc);
        }
      }
    }
  }
}

template <typename Real>
void MultiplyWith(RowGemmForm form, bool transpose_b, std::int64_t m, std::int64_t n,
                  std::int64_t k, const Real* a, std::int64_t lda, const Real* b, std::int64_t ldb,
                  Real* c, std::int64_t ldc) {
  switch (form) {
    case RowGemmForm::kPlain:
      return Multiply<NarrowTile, Real>(AddRowsPlain<Real>, transpose_b, m, n, k, a, lda, b, ldb, c,
                                        ldc);
    case RowGemmForm::kAvx2:
      return Multiply<NarrowTile, Real>(AddRowsWithAvx2<Real>(), transpose_b, m, n, k, a, lda, b,
                                        ldb, c, ldc);
    case RowGemmForm::kAvx512:
      return Multiply<WideTile, Real>(AddRowsWithAvx512<Real>(), transpose_b, m, n, k, a, lda, b,
                                      ldb, c, ldc);
  }
}

}  // namespace

bool HasRowGemmForm(RowGemmForm form) {
  switch (form) {
    case RowGemmForm::kPlain:
      return true;
    case RowGemmForm::kAvx2:
      return HasAvx2AndFma();
    case RowGemmForm::kAvx512:
      return HasAvx512();
  }
  return false;
}

RowGemmForm BestRowGemmForm() {
  if (HasAvx512()) return RowGemmForm::kAvx512;
  return HasAvx2AndFma() ? RowGemmForm::kAvx2 : RowGemmForm::kPlain;
}

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc,
             RowGemmForm form) {
  MultiplyWith(form, transpose_b, m, n, k, a, lda, b, ldb, c, ldc);
}

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
             std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc,
             RowGemmForm form) {
  MultiplyWith(form, transpose_b, m, n, k, a, lda, b, ldb, c, ldc);
}

const char* RowGemmArithmetic() {
  return BestRowGemmForm() == RowGemmForm::kPlain ? "multiply-add" : "fma";
}

}  // namespace gemmd
