#include "kernels/cpu/row_gemm.h"

#include <immintrin.h>

#include <algorithm>
#include <vector>

namespace gemmd {
namespace {

// Of K at a time: a strip of packed B of that length stays in the first cache.
constexpr std::int64_t kDepth = 256;
// Rows of A are copied to lie apart by what is no power of two, which the cache would mind.
constexpr std::int64_t kLeftPitch = kDepth + 16;
constexpr std::int64_t kTileRows = 6;
constexpr int kVectors = 2;  // of columns in a tile; with kTileRows they fill 16 registers

template <typename Real>
constexpr std::int64_t kLanes = 32 / sizeof(Real);  // of a vector
template <typename Real>
constexpr std::int64_t kColumns = kVectors* kLanes<Real>;

#define GEMMD_WITH_FMA __attribute__((target("avx2,fma"), always_inline)) inline

GEMMD_WITH_FMA __m256 Load(const float* p) { return _mm256_loadu_ps(p); }
GEMMD_WITH_FMA void Store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
GEMMD_WITH_FMA __m256 Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
GEMMD_WITH_FMA __m256 Fma(__m256 x, __m256 y, __m256 z) { return _mm256_fmadd_ps(x, y, z); }
GEMMD_WITH_FMA __m256d Load(const double* p) { return _mm256_loadu_pd(p); }
GEMMD_WITH_FMA void Store(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
GEMMD_WITH_FMA __m256d Broadcast(const double* p) { return _mm256_broadcast_sd(p); }
GEMMD_WITH_FMA __m256d Fma(__m256d x, __m256d y, __m256d z) { return _mm256_fmadd_pd(x, y, z); }
template <typename Real>
using Vector = decltype(Load(static_cast<const Real*>(nullptr)));

// tile (kRows lines of kColumns, `tile_pitch` apart) += A * a strip of B.
template <int kRows, typename Real>
GEMMD_WITH_FMA void AddTileWithFma(std::int64_t depth, const Real* a, std::int64_t lda,
                                   const Real* strip, std::int64_t strip_pitch, Real* tile,
                                   std::int64_t tile_pitch) {
  constexpr std::int64_t kStep = kLanes<Real>;
  Vector<Real> sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) sums[row][i] = Load(tile + row * tile_pitch + i * kStep);
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const auto b0 = Load(strip + p * strip_pitch);
    const auto b1 = Load(strip + p * strip_pitch + kStep);
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
      const auto x = Broadcast(a + row * lda + p);
      sums[row][0] = Fma(x, b0, sums[row][0]);
      sums[row][1] = Fma(x, b1, sums[row][1]);
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) Store(tile + row * tile_pitch + i * kStep, sums[row][i]);
  }
}

template <typename Real>
__attribute__((target("avx2,fma"))) void AddRowsWithFma(std::int64_t rows, std::int64_t depth,
                                                        const Real* a, std::int64_t lda,
                                                        const Real* strip, std::int64_t strip_pitch,
                                                        Real* tile, std::int64_t tile_pitch) {
  switch (rows) {
    case 1:
      return AddTileWithFma<1>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
    case 2:
      return AddTileWithFma<2>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
    case 3:
      return AddTileWithFma<3>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
    case 4:
      return AddTileWithFma<4>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
    case 5:
      return AddTileWithFma<5>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
    default:
      return AddTileWithFma<kTileRows>(depth, a, lda, strip, strip_pitch, tile, tile_pitch);
  }
}

// The build's own instructions have no FMA, so products and sums stay apart.
template <typename Real>
void AddRowsPlain(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
                  const Real* strip, std::int64_t strip_pitch, Real* tile,
                  std::int64_t tile_pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    Real sums[kColumns<Real>];
    std::copy_n(tile + row * tile_pitch, kColumns<Real>, sums);
    for (std::int64_t p = 0; p < depth; ++p) {
      const Real x = a[row * lda + p];
      for (std::int64_t i = 0; i < kColumns<Real>; ++i) sums[i] += x * strip[p * strip_pitch + i];
    }
    std::copy_n(sums, kColumns<Real>, tile + row * tile_pitch);
  }
}

bool HasFma() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

// 4 x 4 elements.
void TransposeSquare(const float* from, std::int64_t pitch, float* to, std::int64_t to_pitch) {
  __m128 x0 = _mm_loadu_ps(from);
  __m128 x1 = _mm_loadu_ps(from + pitch);
  __m128 x2 = _mm_loadu_ps(from + 2 * pitch);
  __m128 x3 = _mm_loadu_ps(from + 3 * pitch);
  _MM_TRANSPOSE4_PS(x0, x1, x2, x3);
  _mm_storeu_ps(to, x0);
  _mm_storeu_ps(to + to_pitch, x1);
  _mm_storeu_ps(to + 2 * to_pitch, x2);
  _mm_storeu_ps(to + 3 * to_pitch, x3);
}

void TransposeSquare(const double* from, std::int64_t pitch, double* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 4; ++j) to[j * to_pitch + i] = from[i * pitch + j];
  }
}

// `depth` lines of columns [begin, n) of op(B) as strips of kColumns, zeros beside them; begin is
// a multiple of kColumns.
template <typename Real>
void Pack(bool transpose_b, std::int64_t depth, std::int64_t begin, std::int64_t n, const Real* b,
          std::int64_t ldb, Real* strips) {
  constexpr std::int64_t kWidth = kColumns<Real>;
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
  constexpr std::int64_t kSquare = 4;
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

template <typename Real>
void Multiply(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const Real* a,
              std::int64_t lda, const Real* b, std::int64_t ldb, Real* c, std::int64_t ldc) {
  constexpr std::int64_t kWidth = kColumns<Real>;
  const auto add_rows = HasFma() ? AddRowsWithFma<Real> : AddRowsPlain<Real>;
  thread_local std::vector<Real> strips;
  thread_local std::vector<Real> left;
  strips.resize(static_cast<std::size_t>((n + kWidth - 1) / kWidth * kDepth * kWidth));
  left.resize(static_cast<std::size_t>(m * kLeftPitch));
  Real edge[kTileRows * kWidth];
  // Few rows do not pay for packing.
  const bool in_place = !transpose_b && m <= kTileRows;
  for (std::int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, Real{0});
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p);
    for (std::int64_t row = 0; row < m; ++row) {
      std::copy_n(a + row * lda + p, depth, left.data() + row * kLeftPitch);
    }
    const std::int64_t packed_from = in_place ? n / kWidth * kWidth : 0;
    Pack(transpose_b, depth, packed_from, n, transpose_b ? b + p : b + p * ldb, ldb, strips.data());
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

}  // namespace

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  Multiply(transpose_b, m, n, k, a, lda, b, ldb, c, ldc);
}

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const double* a,
             std::int64_t lda, const double* b, std::int64_t ldb, double* c, std::int64_t ldc) {
  Multiply(transpose_b, m, n, k, a, lda, b, ldb, c, ldc);
}

const char* RowGemmArithmetic() { return HasFma() ? "fma" : "multiply-add"; }

}  // namespace gemmd
