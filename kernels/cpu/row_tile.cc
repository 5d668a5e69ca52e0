// The forms of x86-64, which are chosen when the program runs: the build's own instructions have
// neither.
#include "kernels/cpu/row_tile.h"

#if defined(__x86_64__)

#include <immintrin.h>

namespace gemmd {
namespace {

#define GEMMD_AVX2 __attribute__((target("avx2,fma"), always_inline)) inline
#define GEMMD_AVX512 __attribute__((target("avx512f"), always_inline)) inline

GEMMD_AVX2 __m256 Load256(const float* p) { return _mm256_loadu_ps(p); }
GEMMD_AVX2 __m256d Load256(const double* p) { return _mm256_loadu_pd(p); }
GEMMD_AVX2 void Store256(float* p, __m256 v) { _mm256_storeu_ps(p, v); }
GEMMD_AVX2 void Store256(double* p, __m256d v) { _mm256_storeu_pd(p, v); }
GEMMD_AVX2 __m256 Broadcast256(const float* p) { return _mm256_broadcast_ss(p); }
GEMMD_AVX2 __m256d Broadcast256(const double* p) { return _mm256_broadcast_sd(p); }
GEMMD_AVX2 __m256 Fma(__m256 x, __m256 y, __m256 z) { return _mm256_fmadd_ps(x, y, z); }
GEMMD_AVX2 __m256d Fma(__m256d x, __m256d y, __m256d z) { return _mm256_fmadd_pd(x, y, z); }

GEMMD_AVX512 __m512 Load512(const float* p) { return _mm512_loadu_ps(p); }
GEMMD_AVX512 __m512d Load512(const double* p) { return _mm512_loadu_pd(p); }
GEMMD_AVX512 void Store512(float* p, __m512 v) { _mm512_storeu_ps(p, v); }
GEMMD_AVX512 void Store512(double* p, __m512d v) { _mm512_storeu_pd(p, v); }
GEMMD_AVX512 __m512 Broadcast512(const float* p) { return _mm512_set1_ps(*p); }
GEMMD_AVX512 __m512d Broadcast512(const double* p) { return _mm512_set1_pd(*p); }
GEMMD_AVX512 __m512 Fma(__m512 x, __m512 y, __m512 z) { return _mm512_fmadd_ps(x, y, z); }
GEMMD_AVX512 __m512d Fma(__m512d x, __m512d y, __m512d z) { return _mm512_fmadd_pd(x, y, z); }

// Into the second cache, which has room for a strip beside what is multiplied. A piece that begins
// within a cache line ends in one more; its first line came with the piece before it.
template <typename Tile, typename Real>
inline void Prefetch(const Real* piece) {
  constexpr std::int64_t kLine = 64 / sizeof(Real);
  for (std::int64_t i = 1; i * 64 <= Tile::kColumnBytes; ++i) {
    __builtin_prefetch(piece + i * kLine - 1, 0, 2);
  }
}

// Twice the same: a function of one target cannot be inlined into a template for several.
template <int kRows, typename Real, typename Vector>
GEMMD_AVX2 void AddStep256(const Real* a, std::int64_t lda, const Real* line,
                           Vector (&sums)[kRows][2]) {
  constexpr std::int64_t kStep = 32 / sizeof(Real);
  const Vector b0 = Load256(line);
  const Vector b1 = Load256(line + kStep);
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    const Vector x = Broadcast256(a + row * lda);
    sums[row][0] = Fma(x, b0, sums[row][0]);
    sums[row][1] = Fma(x, b1, sums[row][1]);
  }
}

template <int kRows, typename Real>
GEMMD_AVX2 void AddTile256(std::int64_t depth, const Real* a, std::int64_t lda,
                           const Strip<Real>& strip, const Ahead<Real>& ahead, Real* tile,
                           std::int64_t tile_pitch) {
  constexpr std::int64_t kStep = 32 / sizeof(Real);
  decltype(Load256(tile)) sums[kRows][2];
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    sums[row][0] = Load256(tile + row * tile_pitch);
    sums[row][1] = Load256(tile + row * tile_pitch + kStep);
  }
  std::int64_t p = 0;
  for (std::int64_t line = 0; line < ahead.lines; ++line) {
    for (std::int64_t piece = 0; piece < ahead.pieces; ++piece, ++p) {
      Prefetch<NarrowTile>(ahead.from + line * ahead.pitch + piece * 2 * kStep);
      AddStep256<kRows>(a + p, lda, strip.lines + p * strip.pitch, sums);
    }
  }
  for (; p < depth; ++p) AddStep256<kRows>(a + p, lda, strip.lines + p * strip.pitch, sums);
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    Store256(tile + row * tile_pitch, sums[row][0]);
    Store256(tile + row * tile_pitch + kStep, sums[row][1]);
  }
}

template <int kRows, typename Real, typename Vector>
GEMMD_AVX512 void AddStep512(const Real* a, std::int64_t lda, const Real* line,
                             Vector (&sums)[kRows][2]) {
  constexpr std::int64_t kStep = 64 / sizeof(Real);
  const Vector b0 = Load512(line);
  const Vector b1 = Load512(line + kStep);
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    const Vector x = Broadcast512(a + row * lda);
    sums[row][0] = Fma(x, b0, sums[row][0]);
    sums[row][1] = Fma(x, b1, sums[row][1]);
  }
}

template <int kRows, typename Real>
GEMMD_AVX512 void AddTile512(std::int64_t depth, const Real* a, std::int64_t lda,
                             const Strip<Real>& strip, const Ahead<Real>& ahead, Real* tile,
                             std::int64_t tile_pitch) {
  constexpr std::int64_t kStep = 64 / sizeof(Real);
  decltype(Load512(tile)) sums[kRows][2];
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    sums[row][0] = Load512(tile + row * tile_pitch);
    sums[row][1] = Load512(tile + row * tile_pitch + kStep);
  }
  std::int64_t p = 0;
  for (std::int64_t line = 0; line < ahead.lines; ++line) {
    for (std::int64_t piece = 0; piece < ahead.pieces; ++piece, ++p) {
      Prefetch<WideTile>(ahead.from + line * ahead.pitch + piece * 2 * kStep);
      AddStep512<kRows>(a + p, lda, strip.lines + p * strip.pitch, sums);
    }
  }
  for (; p < depth; ++p) AddStep512<kRows>(a + p, lda, strip.lines + p * strip.pitch, sums);
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    Store512(tile + row * tile_pitch, sums[row][0]);
    Store512(tile + row * tile_pitch + kStep, sums[row][1]);
  }
}

template <typename Real>
__attribute__((target("avx2,fma"))) void Add256(std::int64_t rows, std::int64_t depth,
                                                const Real* a, std::int64_t lda,
                                                const Strip<Real>& strip, const Ahead<Real>& ahead,
                                                Real* tile, std::int64_t tile_pitch) {
  switch (rows) {
    case 1:
      return AddTile256<1>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 2:
      return AddTile256<2>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 3:
      return AddTile256<3>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 4:
      return AddTile256<4>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 5:
      return AddTile256<5>(depth, a, lda, strip, ahead, tile, tile_pitch);
    default:
      return AddTile256<NarrowTile::kRows>(depth, a, lda, strip, ahead, tile, tile_pitch);
  }
}

template <typename Real>
__attribute__((target("avx512f"))) void Add512(std::int64_t rows, std::int64_t depth, const Real* a,
                                               std::int64_t lda, const Strip<Real>& strip,
                                               const Ahead<Real>& ahead, Real* tile,
                                               std::int64_t tile_pitch) {
  switch (rows) {
    case 1:
      return AddTile512<1>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 2:
      return AddTile512<2>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 3:
      return AddTile512<3>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 4:
      return AddTile512<4>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 5:
      return AddTile512<5>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 6:
      return AddTile512<6>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 7:
      return AddTile512<7>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 8:
      return AddTile512<8>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 9:
      return AddTile512<9>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 10:
      return AddTile512<10>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 11:
      return AddTile512<11>(depth, a, lda, strip, ahead, tile, tile_pitch);
    case 12:
      return AddTile512<12>(depth, a, lda, strip, ahead, tile, tile_pitch);
    default:
      return AddTile512<WideTile::kRows>(depth, a, lda, strip, ahead, tile, tile_pitch);
  }
}

}  // namespace

template <>
AddRows<float> AddRowsWithAvx2() {
  return Add256<float>;
}
template <>
AddRows<double> AddRowsWithAvx2() {
  return Add256<double>;
}
template <>
AddRows<float> AddRowsWithAvx512() {
  return Add512<float>;
}
template <>
AddRows<double> AddRowsWithAvx512() {
  return Add512<double>;
}

bool HasAvx2AndFma() {
  static const bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return has;
}

bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") != 0;
  return has;
}

}  // namespace gemmd

#else

namespace gemmd {

template <>
AddRows<float> AddRowsWithAvx2() {
  return nullptr;
}
template <>
AddRows<double> AddRowsWithAvx2() {
  return nullptr;
}
template <>
AddRows<float> AddRowsWithAvx512() {
  return nullptr;
}
template <>
AddRows<double> AddRowsWithAvx512() {
  return nullptr;
}

bool HasAvx2AndFma() { return false; }
bool HasAvx512() { return false; }

}  // namespace gemmd

#endif
