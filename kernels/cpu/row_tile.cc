// The forms of x86-64, which are chosen when the program runs: the build's own instructions have
// neither.
#include "kernels/cpu/row_tile.h"

#if defined(__x86_64__)

#include <algorithm>

#include "kernels/cpu/intrinsics.h"

namespace gemmd {
namespace {

#define GEMMD_AVX2 __attribute__((target("avx2,fma"), always_inline)) inline
#define GEMMD_AVX512 __attribute__((target("avx512f"), always_inline)) inline

// A vector of each form, so that the loops below are written once: a function of one target cannot
// be inlined into a template for several, so each form has its own copies of them.
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

// ------------------------------------------------------------- tiles

template <int kRows, typename Real>
GEMMD_AVX2 void AddTile256(std::int64_t depth, const Real* a, std::int64_t lda, const Real* strip,
                           bool goes_on, Real* tile) {
  constexpr std::int64_t kStep = 32 / sizeof(Real);
  constexpr std::int64_t kWidth = 2 * kStep;
  decltype(Load256(tile)) sums[kRows][2] = {};
#pragma GCC unroll 13
  for (int row = 0; row < kRows && goes_on; ++row) {
    sums[row][0] = Load256(tile + row * kWidth);
    sums[row][1] = Load256(tile + row * kWidth + kStep);
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const auto b0 = Load256(strip + p * 2 * kStep);
    const auto b1 = Load256(strip + p * 2 * kStep + kStep);
#pragma GCC unroll 13
    for (int row = 0; row < kRows; ++row) {
      const auto x = Broadcast256(a + row * lda + p);
      sums[row][0] = Fma(x, b0, sums[row][0]);
      sums[row][1] = Fma(x, b1, sums[row][1]);
    }
  }
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    Real* const to = tile + row * kWidth;
    if (!goes_on) {
      sums[row][0] += Load256(to);
      sums[row][1] += Load256(to + kStep);
    }
    Store256(to, sums[row][0]);
    Store256(to + kStep, sums[row][1]);
  }
}

template <int kRows, typename Real>
GEMMD_AVX512 void AddTile512(std::int64_t depth, const Real* a, std::int64_t lda, const Real* strip,
                             bool goes_on, Real* tile) {
  constexpr std::int64_t kStep = 64 / sizeof(Real);
  constexpr std::int64_t kWidth = 2 * kStep;
  decltype(Load512(tile)) sums[kRows][2] = {};
#pragma GCC unroll 13
  for (int row = 0; row < kRows && goes_on; ++row) {
    sums[row][0] = Load512(tile + row * kWidth);
    sums[row][1] = Load512(tile + row * kWidth + kStep);
  }
  for (std::int64_t p = 0; p < depth; ++p) {
    const auto b0 = Load512(strip + p * 2 * kStep);
    const auto b1 = Load512(strip + p * 2 * kStep + kStep);
#pragma GCC unroll 13
    for (int row = 0; row < kRows; ++row) {
      const auto x = Broadcast512(a + row * lda + p);
      sums[row][0] = Fma(x, b0, sums[row][0]);
      sums[row][1] = Fma(x, b1, sums[row][1]);
    }
  }
#pragma GCC unroll 13
  for (int row = 0; row < kRows; ++row) {
    Real* const to = tile + row * kWidth;
    if (!goes_on) {
      sums[row][0] += Load512(to);
      sums[row][1] += Load512(to + kStep);
    }
    Store512(to, sums[row][0]);
    Store512(to + kStep, sums[row][1]);
  }
}

template <typename Real>
__attribute__((target("avx2,fma"))) void AddTileRows256(std::int64_t rows, std::int64_t depth,
                                                        const Real* a, std::int64_t lda,
                                                        const Real* strip, bool goes_on,
                                                        Real* tile) {
  switch (rows) {
    case 1:
      return AddTile256<1>(depth, a, lda, strip, goes_on, tile);
    case 2:
      return AddTile256<2>(depth, a, lda, strip, goes_on, tile);
    case 3:
      return AddTile256<3>(depth, a, lda, strip, goes_on, tile);
    case 4:
      return AddTile256<4>(depth, a, lda, strip, goes_on, tile);
    case 5:
      return AddTile256<5>(depth, a, lda, strip, goes_on, tile);
    default:
      return AddTile256<6>(depth, a, lda, strip, goes_on, tile);
  }
}

template <typename Real>
__attribute__((target("avx512f"))) void AddTileRows512(std::int64_t rows, std::int64_t depth,
                                                       const Real* a, std::int64_t lda,
                                                       const Real* strip, bool goes_on,
                                                       Real* tile) {
  switch (rows) {
    case 1:
      return AddTile512<1>(depth, a, lda, strip, goes_on, tile);
    case 2:
      return AddTile512<2>(depth, a, lda, strip, goes_on, tile);
    case 3:
      return AddTile512<3>(depth, a, lda, strip, goes_on, tile);
    case 4:
      return AddTile512<4>(depth, a, lda, strip, goes_on, tile);
    case 5:
      return AddTile512<5>(depth, a, lda, strip, goes_on, tile);
    case 6:
      return AddTile512<6>(depth, a, lda, strip, goes_on, tile);
    case 7:
      return AddTile512<7>(depth, a, lda, strip, goes_on, tile);
    case 8:
      return AddTile512<8>(depth, a, lda, strip, goes_on, tile);
    case 9:
      return AddTile512<9>(depth, a, lda, strip, goes_on, tile);
    case 10:
      return AddTile512<10>(depth, a, lda, strip, goes_on, tile);
    case 11:
      return AddTile512<11>(depth, a, lda, strip, goes_on, tile);
    case 12:
      return AddTile512<12>(depth, a, lda, strip, goes_on, tile);
    default:
      return AddTile512<13>(depth, a, lda, strip, goes_on, tile);
  }
}

// ------------------------------------------------------------- dots

// Half of the chains at a time: 16 registers hold no more.
template <int kRows>
GEMMD_AVX2 void AddDots256(std::int64_t steps, const float* a, std::int64_t lda,
                           const float* columns, std::int64_t pitch, float* chains) {
  constexpr std::int64_t kStep = 32 / sizeof(float);
  for (std::int64_t half = 0; half < 2 * kStep; half += kStep) {
    __m256 sums[kRows][kDotColumns];
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int j = 0; j < kDotColumns; ++j) {
        sums[row][j] = Load256(chains + (row * kDotColumns + j) * kLanes<float> + half);
      }
    }
    for (std::int64_t p = half; p < steps * kLanes<float>; p += kLanes<float>) {
#pragma GCC unroll 4
      for (int j = 0; j < kDotColumns; ++j) {
        const auto b = Load256(columns + j * pitch + p);
#pragma GCC unroll 6
        for (int row = 0; row < kRows; ++row) {
          sums[row][j] = Fma(Load256(a + row * lda + p), b, sums[row][j]);
        }
      }
    }
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
      for (int j = 0; j < kDotColumns; ++j) {
        Store256(chains + (row * kDotColumns + j) * kLanes<float> + half, sums[row][j]);
      }
    }
  }
}

template <int kRows>
GEMMD_AVX512 void AddDots512(std::int64_t steps, const float* a, std::int64_t lda,
                             const float* columns, std::int64_t pitch, float* chains) {
  __m512 sums[kRows][kDotColumns];
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      sums[row][j] = Load512(chains + (row * kDotColumns + j) * kLanes<float>);
    }
  }
  for (std::int64_t p = 0; p < steps * kLanes<float>; p += kLanes<float>) {
    __m512 x[kRows];
#pragma GCC unroll 6
    for (int row = 0; row < kRows; ++row) x[row] = Load512(a + row * lda + p);
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      const auto b = Load512(columns + j * pitch + p);
#pragma GCC unroll 6
      for (int row = 0; row < kRows; ++row) sums[row][j] = Fma(x[row], b, sums[row][j]);
    }
  }
#pragma GCC unroll 6
  for (int row = 0; row < kRows; ++row) {
#pragma GCC unroll 4
    for (int j = 0; j < kDotColumns; ++j) {
      Store512(chains + (row * kDotColumns + j) * kLanes<float>, sums[row][j]);
    }
  }
}

// Two rows at a time, whose sums leave registers free.
__attribute__((target("avx2,fma"))) void AddDotRows256(std::int64_t rows, std::int64_t steps,
                                                       const float* a, std::int64_t lda,
                                                       const float* columns, std::int64_t pitch,
                                                       float* chains) {
  for (; rows >= 2; rows -= 2) {
    AddDots256<2>(steps, a, lda, columns, pitch, chains);
    a += 2 * lda;
    chains += 2 * kDotColumns * kLanes<float>;
  }
  if (rows == 1) AddDots256<1>(steps, a, lda, columns, pitch, chains);
}

__attribute__((target("avx512f"))) void AddDotRows512(std::int64_t rows, std::int64_t steps,
                                                      const float* a, std::int64_t lda,
                                                      const float* columns, std::int64_t pitch,
                                                      float* chains) {
  switch (rows) {
    case 1:
      return AddDots512<1>(steps, a, lda, columns, pitch, chains);
    case 2:
      return AddDots512<2>(steps, a, lda, columns, pitch, chains);
    case 3:
      return AddDots512<3>(steps, a, lda, columns, pitch, chains);
    case 4:
      return AddDots512<4>(steps, a, lda, columns, pitch, chains);
    case 5:
      return AddDots512<5>(steps, a, lda, columns, pitch, chains);
    default:
      return AddDots512<kDotRows>(steps, a, lda, columns, pitch, chains);
  }
}

// ------------------------------------------------------------- lines

template <int kSteps>
GEMMD_AVX2 void AddLines256(std::int64_t rows, std::int64_t columns, const float* a,
                            std::int64_t lda, const float* lines, std::int64_t pitch, float* sums,
                            std::int64_t sums_pitch) {
  constexpr std::int64_t kStep = 32 / sizeof(float);
  for (std::int64_t column = 0; column < columns; column += kStep) {
    __m256 b[kSteps];
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) b[i] = Load256(lines + i * pitch + column);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* const to = sums + row * sums_pitch + column;
      auto sum = Load256(to);
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; ++i) {
        sum = Fma(Broadcast256(a + row * lda + i * kLanes<float>), b[i], sum);
      }
      Store256(to, sum);
    }
  }
}

__attribute__((target("avx2,fma"))) void AddLineSteps256(std::int64_t rows, std::int64_t steps,
                                                         std::int64_t columns, const float* a,
                                                         std::int64_t lda, const float* lines,
                                                         std::int64_t pitch, float* sums,
                                                         std::int64_t sums_pitch) {
  if (steps == kLineSteps) {
    return AddLines256<kLineSteps>(rows, columns, a, lda, lines, pitch, sums, sums_pitch);
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    AddLines256<1>(rows, columns, a + i * kLanes<float>, lda, lines + i * pitch, pitch, sums,
                   sums_pitch);
  }
}

template <int kSteps>
GEMMD_AVX512 void AddLines512(std::int64_t rows, std::int64_t columns, const float* a,
                              std::int64_t lda, const float* lines, std::int64_t pitch, float* sums,
                              std::int64_t sums_pitch) {
  constexpr std::int64_t kStep = 64 / sizeof(float);
  for (std::int64_t column = 0; column < columns; column += kStep) {
    __m512 b[kSteps];
#pragma GCC unroll 4
    for (int i = 0; i < kSteps; ++i) b[i] = Load512(lines + i * pitch + column);
    for (std::int64_t row = 0; row < rows; ++row) {
      float* const to = sums + row * sums_pitch + column;
      auto sum = Load512(to);
#pragma GCC unroll 4
      for (int i = 0; i < kSteps; ++i) {
        sum = Fma(Broadcast512(a + row * lda + i * kLanes<float>), b[i], sum);
      }
      Store512(to, sum);
    }
  }
}

__attribute__((target("avx512f"))) void AddLineSteps512(std::int64_t rows, std::int64_t steps,
                                                        std::int64_t columns, const float* a,
                                                        std::int64_t lda, const float* lines,
                                                        std::int64_t pitch, float* sums,
                                                        std::int64_t sums_pitch) {
  if (steps == kLineSteps) {
    return AddLines512<kLineSteps>(rows, columns, a, lda, lines, pitch, sums, sums_pitch);
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    AddLines512<1>(rows, columns, a + i * kLanes<float>, lda, lines + i * pitch, pitch, sums,
                   sums_pitch);
  }
}

// ------------------------------------------------------------- transposing

// Squares of 4 x 4, then of 16 x 16 by halves of lines: 64 shuffles. `x` becomes its transpose.
GEMMD_AVX512 void Transpose(__m512 (&x)[16]) {
  __m512 y[16];
  // Pairs of lines, then fours: y[4 i + c] has column 4 q + c of lines 4 i to 4 i + 3 in quarter q.
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const __m512 low_01 = _mm512_unpacklo_ps(x[i], x[i + 1]);
    const __m512 high_01 = _mm512_unpackhi_ps(x[i], x[i + 1]);
    const __m512 low_23 = _mm512_unpacklo_ps(x[i + 2], x[i + 3]);
    const __m512 high_23 = _mm512_unpackhi_ps(x[i + 2], x[i + 3]);
    y[i] = _mm512_shuffle_ps(low_01, low_23, 0x44);
    y[i + 1] = _mm512_shuffle_ps(low_01, low_23, 0xee);
    y[i + 2] = _mm512_shuffle_ps(high_01, high_23, 0x44);
    y[i + 3] = _mm512_shuffle_ps(high_01, high_23, 0xee);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    const __m512 even_01 = _mm512_shuffle_f32x4(y[c], y[4 + c], 0x88);
    const __m512 odd_01 = _mm512_shuffle_f32x4(y[c], y[4 + c], 0xdd);
    const __m512 even_23 = _mm512_shuffle_f32x4(y[8 + c], y[12 + c], 0x88);
    const __m512 odd_23 = _mm512_shuffle_f32x4(y[8 + c], y[12 + c], 0xdd);
    x[c] = _mm512_shuffle_f32x4(even_01, even_23, 0x88);
    x[4 + c] = _mm512_shuffle_f32x4(odd_01, odd_23, 0x88);
    x[8 + c] = _mm512_shuffle_f32x4(even_01, even_23, 0xdd);
    x[12 + c] = _mm512_shuffle_f32x4(odd_01, odd_23, 0xdd);
  }
}

__attribute__((target("avx512f"))) void Transpose512(const float* from, std::int64_t pitch,
                                                     float* to, std::int64_t to_pitch) {
  __m512 x[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) x[i] = Load512(from + i * pitch);
  Transpose(x);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) Store512(to + i * to_pitch, x[i]);
}

// ------------------------------------------------------------- adding chains

__attribute__((target("avx512f"))) void AddChains512(const float* chains, std::int64_t pitch,
                                                     float* sums) {
  __m512 x[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    x[i] = Load512(chains + i / kDotColumns * pitch + i % kDotColumns * kLanes<float>);
  }
  Transpose(x);
  __m512 sum = Load512(sums);
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) sum += x[i];
  Store512(sums, sum);
}

__attribute__((target("avx2,fma"))) void AddChains256(const float* chains, std::int64_t pitch,
                                                      float* sums) {
  alignas(64) float gathered[kLanes<float> * kLanes<float>];
  alignas(64) float by_chain[kLanes<float> * kLanes<float>];
  for (std::int64_t j = 0; j < kLanes<float>; j += kDotColumns) {
    std::copy_n(chains + j / kDotColumns * pitch, kDotColumns * kLanes<float>,
                gathered + j * kLanes<float>);
  }
  TransposeBySquares(gathered, kLanes<float>, by_chain, kLanes<float>);
  __m256 low = Load256(sums);
  __m256 high = Load256(sums + 8);
  for (std::int64_t chain = 0; chain < kLanes<float>; ++chain) {
    low += Load256(by_chain + chain * kLanes<float>);
    high += Load256(by_chain + chain * kLanes<float> + 8);
  }
  Store256(sums, low);
  Store256(sums + 8, high);
}

constexpr RowTile<float> kAvx2OfF32 = {6,
                                       16,
                                       AddTileRows256<float>,
                                       8,
                                       AddDotRows256,
                                       AddChains256,
                                       AddLineSteps256,
                                       TransposeBySquares<float>};
constexpr RowTile<double> kAvx2OfF64 = {6,       8,       AddTileRows256<double>,    0, nullptr,
                                        nullptr, nullptr, TransposeBySquares<double>};
constexpr RowTile<float> kAvx512OfF32 = {
    13, 32, AddTileRows512<float>, 16, AddDotRows512, AddChains512, AddLineSteps512, Transpose512};
constexpr RowTile<double> kAvx512OfF64 = {13,      16,      AddTileRows512<double>,    0, nullptr,
                                          nullptr, nullptr, TransposeBySquares<double>};

}  // namespace

template <>
const RowTile<float>* Avx2RowTile() {
  return &kAvx2OfF32;
}
template <>
const RowTile<double>* Avx2RowTile() {
  return &kAvx2OfF64;
}
template <>
const RowTile<float>* Avx512RowTile() {
  return &kAvx512OfF32;
}
template <>
const RowTile<double>* Avx512RowTile() {
  return &kAvx512OfF64;
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
const RowTile<float>* Avx2RowTile() {
  return nullptr;
}
template <>
const RowTile<double>* Avx2RowTile() {
  return nullptr;
}
template <>
const RowTile<float>* Avx512RowTile() {
  return nullptr;
}
template <>
const RowTile<double>* Avx512RowTile() {
  return nullptr;
}

bool HasAvx2AndFma() { return false; }
bool HasAvx512() { return false; }

}  // namespace gemmd

#endif
