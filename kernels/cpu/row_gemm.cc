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
                  const Strip<Real>& strip, const Ahead<Real>& /*ahead*/, Real* tile,
                  std::int64_t tile_pitch) {
  constexpr std::int64_t kWidth = kColumns<Real, NarrowTile>;
  for (std::int64_t row = 0; row < rows; ++row) {
    Real sums[kWidth];
    std::copy_n(tile + row * tile_pitch, kWidth, sums);
    for (std::int64_t p = 0; p < depth; ++p) {
      const Real x = a[row * lda + p];
      for (std::int64_t i = 0; i < kWidth; ++i) sums[i] += x * strip.lines[p * strip.pitch + i];
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

// op(B) as it lies in memory.
template <typename Real>
struct Right {
  const Real* At(std::int64_t p, std::int64_t column) const {
    return transposed ? data + column * pitch + p : data + p * pitch + column;
  }

  const bool transposed;
  const std::int64_t n;
  const Real* const data;
  const std::int64_t pitch;
};

// `depth` lines of the kWidth columns from `column` on, zeros for those that B does not have.
template <std::int64_t kWidth, typename Real>
void Pack(const Right<Real>& b, std::int64_t p, std::int64_t depth, std::int64_t column,
          Real* strip) {
  const Real* const from = b.At(p, column);
  const std::int64_t columns = std::min(kWidth, b.n - column);
  if (!b.transposed) {
    for (std::int64_t i = 0; i < depth; ++i) {
      Real* const to = strip + i * kWidth;
      if (columns == kWidth) {
        std::copy_n(from + i * b.pitch, kWidth, to);
        continue;
      }
      std::copy_n(from + i * b.pitch, columns, to);
      std::fill(to + columns, to + kWidth, Real{0});
    }
    return;
  }
  const std::int64_t whole_columns = columns / kSquare * kSquare;
  const std::int64_t whole_depth = depth / kSquare * kSquare;
  for (std::int64_t j = 0; j < whole_columns; j += kSquare) {
    for (std::int64_t i = 0; i < whole_depth; i += kSquare) {
      TransposeSquare(from + j * b.pitch + i, b.pitch, strip + i * kWidth + j, kWidth);
    }
  }
  for (std::int64_t i = 0; i < depth; ++i) {
    for (std::int64_t j = i < whole_depth ? whole_columns : 0; j < kWidth; ++j) {
      strip[i * kWidth + j] = j < columns ? from[j * b.pitch + i] : Real{0};
    }
  }
}

// The kWidth columns from `column` on, where they lie in memory; nothing if B has fewer.
template <std::int64_t kWidth, typename Real>
Ahead<Real> AheadOf(const Right<Real>& b, std::int64_t p, std::int64_t depth, std::int64_t column) {
  if (b.n - column < kWidth || depth <= 0) return {};
  if (b.transposed) return {b.At(p, column), kWidth, b.pitch, depth / kWidth};
  return {b.At(p, column), depth, b.pitch, 1};
}

// Each strip of B is packed once, just before all rows of A meet it: so it is in the cache then,
// and the more rows there are, the less of the time goes into packing. The first rows fetch the
// next strip.
template <typename Tile, typename Real>
void Multiply(AddRows<Real> add_rows, const Right<Real>& b, std::int64_t m, std::int64_t k,
              const Real* a, std::int64_t lda, Real* c, std::int64_t ldc) {
  constexpr std::int64_t kWidth = kColumns<Real, Tile>;
  constexpr std::int64_t kTileRows = Tile::kRows;
  thread_local std::vector<Real> left;
  left.resize(static_cast<std::size_t>(m * kLeftPitch));
  alignas(64) Real packed[kDepth * kWidth];
  alignas(64) Real edge[kTileRows * kWidth];
  for (std::int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, b.n, Real{0});
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p);
    for (std::int64_t row = 0; row < m; ++row) {
      std::copy_n(a + row * lda + p, depth, left.data() + row * kLeftPitch);
    }
    for (std::int64_t column = 0; column < b.n; column += kWidth) {
      const std::int64_t columns = std::min(kWidth, b.n - column);
      Strip<Real> strip{b.At(p, column), b.pitch};
      if (b.transposed || m > kFewRows || columns < kWidth) {
        Pack<kWidth>(b, p, depth, column, packed);
        strip = {packed, kWidth};
      }
      Ahead<Real> ahead = column + kWidth < b.n
                              ? AheadOf<kWidth>(b, p, depth, column + kWidth)
                              : AheadOf<kWidth>(b, p + kDepth, std::min(kDepth, k - p - kDepth), 0);
      for (std::int64_t row = 0; row < m; row += kTileRows) {
        const std::int64_t rows = std::min(kTileRows, m - row);
        const Real* const rows_of_a = left.data() + row * kLeftPitch;
        Real* const to = c + row * ldc + column;
        if (columns == kWidth) {
          add_rows(rows, depth, rows_of_a, kLeftPitch, strip, ahead, to, ldc);
          ahead = {};
          continue;
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(to + i * ldc, columns, edge + i * kWidth);
          std::fill(edge + i * kWidth + columns, edge + (i + 1) * kWidth, Real{0});
        }
        add_rows(rows, depth, rows_of_a, kLeftPitch, strip, ahead, edge, kWidth);
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(edge + i * kWidth, columns, to + i * ldc);
        }
        ahead = {};
      }
    }
  }
}

template <typename Real>
void MultiplyWith(RowGemmForm form, const Right<Real>& b, std::int64_t m, std::int64_t k,
                  const Real* a, std::int64_t lda, Real* c, std::int64_t ldc) {
  switch (form) {
    case RowGemmForm::kPlain:
      return Multiply<NarrowTile, Real>(AddRowsPlain<Real>, b, m, k, a, lda, c, ldc);
    case RowGemmForm::kAvx2:
      return Multiply<NarrowTile, Real>(AddRowsWithAvx2<Real>(), b, m, k, a, lda, c, ldc);
    case RowGemmForm::kAvx512:
      return Multiply<WideTile, Real>(AddRowsWithAvx512<Real>(), b, m, k, a, lda, c, ldc);
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
  MultiplyWith<float>(form, {transpose_b, n, b, ldb}, m, k, a, lda, c, ldc);
}

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
             std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc,
             RowGemmForm form) {
  MultiplyWith<double>(form, {transpose_b, n, b, ldb}, m, k, a, lda, c, ldc);
}

const char* RowGemmArithmetic() {
  return BestRowGemmForm() == RowGemmForm::kPlain ? "multiply-add" : "fma";
}

}  // namespace gemmd
