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

constexpr std::int64_t kLanes = 8;
constexpr std::int64_t kColumns = kVectors * kLanes;

#define GEMMD_WITH_FMA __attribute__((target("avx2,fma"), always_inline)) inline

GEMMD_WITH_FMA __m256 Load(const float* p) { return _mm256_loadu_ps(p); }
GEMMD_WITH_FMA void Store(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
GEMMD_WITH_FMA __m256 Broadcast(const float* p) { return _mm256_broadcast_ss(p); }
GEMMD_WITH_FMA __m256 Fma(__m256 x, __m256 y, __m256 z) { return _mm256_fmadd_ps(x, y, z); }

// tile (kRows lines of kColumns, `tile_pitch` apart) += A * a strip of B.
template <int kRows>
GEMMD_WITH_FMA void AddTileWithFma(std::int64_t depth, const float* a, std::int64_t lda,
                                   const float* strip, std::int64_t strip_pitch, float* tile,
                                   std::int64_t tile_pitch) {
  __m256 sums[kRows][kVectors];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) sums[row][i] = Load(tile + row * tile_pitch + i * kLanes);
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const auto b0 = Load(strip + p * strip_pitch);
    const auto b1 = Load(strip + p * strip_pitch + kLanes);
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
    for (int i = 0; i < kVectors; ++i) Store(tile + row * tile_pitch + i * kLanes, sums[row][i]);
  }
}

__attribute__((target("avx2,fma"))) void AddRowsWithFma(std::int64_t rows, std::int64_t depth,
                                                        const float* a, std::int64_t lda,
                                                        const float* strip,
                                                        std::int64_t strip_pitch, float* tile,
                                                        std::int64_t tile_pitch) {
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
void AddRowsPlain(std::int64_t rows, std::int64_t depth, const float* a, std::int64_t lda,
                  const float* strip, std::int64_t strip_pitch, float* tile,
                  std::int64_t tile_pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    float sums[kColumns];
    std::copy_n(tile + row * tile_pitch, kColumns, sums);
    for (std::int64_t p = 0; p < depth; ++p) {
      const float x = a[row * lda + p];
      for (std::int64_t i = 0; i < kColumns; ++i) sums[i] += x * strip[p * strip_pitch + i];
    }
    std::copy_n(sums, kColumns, tile + row * tile_pitch);
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

// `depth` lines of columns [begin, n) of op(B) as strips of kColumns, zeros beside them; begin is
// a multiple of kColumns.
void Pack(bool transpose_b, std::int64_t depth, std::int64_t begin, std::int64_t n, const float* b,
          std::int64_t ldb, float* strips) {
  if (!transpose_b) {
    // Whole lines, as they lie in memory.
    for (std::int64_t p = 0; p < depth; ++p) {
      for (std::int64_t column = begin; column < n; column += kColumns) {
        float* const to = strips + column * kDepth + p * kColumns;
        const std::int64_t columns = std::min(kColumns, n - column);
        std::copy_n(b + p * ldb + column, columns, to);
        std::fill(to + columns, to + kColumns, 0.0f);
      }
    }
    return;
  }
  constexpr std::int64_t kSquare = 4;
  for (std::int64_t column = begin; column < n; column += kSquare) {
    const std::int64_t columns = std::min(kSquare, n - column);
    const float* const from = b + column * ldb;
    float* const to = strips + column / kColumns * kColumns * kDepth + column % kColumns;
    std::int64_t p = 0;
    for (; columns == kSquare && p + kSquare <= depth; p += kSquare) {
      TransposeSquare(from + p, ldb, to + p * kColumns, kColumns);
    }
    for (; p < depth; ++p) {
      for (std::int64_t i = 0; i < kSquare; ++i) {
        to[p * kColumns + i] = i < columns ? from[i * ldb + p] : 0.0f;
      }
    }
  }
  for (std::int64_t column = (n + kSquare - 1) / kSquare * kSquare; column % kColumns != 0;
       column += kSquare) {
    float* const to = strips + column / kColumns * kColumns * kDepth + column % kColumns;
    for (std::int64_t p = 0; p < depth; ++p) std::fill_n(to + p * kColumns, kSquare, 0.0f);
  }
}

}  // namespace

void RowGemm(bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
             std::int64_t lda, const float* b, std::int64_t ldb, float* c, std::int64_t ldc) {
  const auto add_rows = HasFma() ? AddRowsWithFma : AddRowsPlain;
  thread_local std::vector<float> strips;
  thread_local std::vector<float> left;
  const std::int64_t strip_floats = kDepth * kColumns;
  strips.resize(static_cast<std::size_t>((n + kColumns - 1) / kColumns * strip_floats));
  left.resize(static_cast<std::size_t>(m * kLeftPitch));
  float edge[kTileRows * kColumns];
  // Few rows do not pay for packing.
  const bool in_place = !transpose_b && m <= kTileRows;
  for (std::int64_t row = 0; row < m; ++row) std::fill_n(c + row * ldc, n, 0.0f);
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p);
    for (std::int64_t row = 0; row < m; ++row) {
      std::copy_n(a + row * lda + p, depth, left.data() + row * kLeftPitch);
    }
    const std::int64_t packed_from = in_place ? n / kColumns * kColumns : 0;
    Pack(transpose_b, depth, packed_from, n, transpose_b ? b + p : b + p * ldb, ldb, strips.data());
    for (std::int64_t column = 0; column < n; column += kColumns) {
      const std::int64_t columns = std::min(kColumns, n - column);
      const bool is_packed = column >= packed_from;
      const float* const right = is_packed ? strips.data() + column * kDepth : b + p * ldb + column;
      const std::int64_t pitch = is_packed ? kColumns : ldb;
      for (std::int64_t row = 0; row < m; row += kTileRows) {
        const std::int64_t rows = std::min(kTileRows, m - row);
        const float* const rows_of_a = left.data() + row * kLeftPitch;
        float* const to = c + row * ldc + column;
        if (columns == kColumns) {
          add_rows(rows, depth, rows_of_a, kLeftPitch, right, pitch, to, ldc);
          continue;
        }
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(to + i * ldc, columns, edge + i * kColumns);
          std::fill(edge + i * kColumns + columns, edge + (i + 1) * kColumns, 0.0f);
        }
        add_rows(rows, depth, rows_of_a, kLeftPitch, right, pitch, edge, kColumns);
        for (std::int64_t i = 0; i < rows; ++i) {
          std::copy_n(edge + i * kColumns, columns, to + i * ldc);
        }
      }
    }
  }
}

const char* RowGemmArithmetic() { return HasFma() ? "fma" : "multiply-add"; }

}  // namespace gemmd
