// The form of any processor. The build's own instructions have no FMA, so products and sums stay
// apart.
#include <algorithm>
#include <cstring>

#include "kernels/cpu/row_tile.h"

namespace gemmd {
namespace {

template <typename Real>
constexpr std::int64_t kColumns = 64 / sizeof(Real);

template <typename Real>
void AddTile(std::int64_t rows, std::int64_t depth, const Real* a, std::int64_t lda,
             const Real* strip, bool goes_on, Real* tile) {
  constexpr std::int64_t kWidth = kColumns<Real>;
  for (std::int64_t row = 0; row < rows; ++row) {
    Real* const to = tile + row * kWidth;
    Real sums[kWidth] = {};
    if (goes_on) std::copy_n(to, kWidth, sums);
    for (std::int64_t p = 0; p < depth; ++p) {
      const Real x = a[row * lda + p];
      for (std::int64_t i = 0; i < kWidth; ++i) sums[i] += x * strip[p * kWidth + i];
    }
    for (std::int64_t i = 0; i < kWidth; ++i) to[i] = goes_on ? sums[i] : to[i] + sums[i];
  }
}

void AddDots(std::int64_t rows, std::int64_t steps, const float* a, std::int64_t lda,
             const float* columns, std::int64_t pitch, float* chains) {
  constexpr std::int64_t kWidth = kLanes<float>;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t j = 0; j < kDotColumns; ++j) {
      float* const to = chains + (row * kDotColumns + j) * kWidth;
      float sums[kWidth];
      std::copy_n(to, kWidth, sums);
      for (std::int64_t p = 0; p < steps * kWidth; p += kWidth) {
        for (std::int64_t i = 0; i < kWidth; ++i) {
          sums[i] += a[row * lda + p + i] * columns[j * pitch + p + i];
        }
      }
      std::copy_n(sums, kWidth, to);
    }
  }
}

void AddChains(const float* chains, std::int64_t pitch, float* sums) {
  for (std::int64_t j = 0; j < kLanes<float>; ++j) {
    const float* const from = chains + j / kDotColumns * pitch + j % kDotColumns * kLanes<float>;
    for (std::int64_t chain = 0; chain < kLanes<float>; ++chain) sums[j] += from[chain];
  }
}

void AddLines(std::int64_t rows, std::int64_t steps, std::int64_t columns, const float* a,
              std::int64_t lda, const float* lines, std::int64_t pitch, float* sums,
              std::int64_t sums_pitch) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < steps; ++i) {
      const float x = a[row * lda + i * kLanes<float>];
      for (std::int64_t j = 0; j < columns; ++j) {
        sums[row * sums_pitch + j] += x * lines[i * pitch + j];
      }
    }
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

constexpr RowTile<float> kPlainOfF32 = {
    6, kColumns<float>, AddTile<float>, 8, AddDots, AddChains, AddLines, TransposeBySquares<float>};
constexpr RowTile<double> kPlainOfF64 = {
    6, kColumns<double>, AddTile<double>, 0, nullptr, nullptr, nullptr, TransposeBySquares<double>};

}  // namespace

template <typename Real>
void TransposeBySquares(const Real* from, std::int64_t pitch, Real* to, std::int64_t to_pitch) {
  for (std::int64_t i = 0; i < kLanes<Real>; i += kSquare) {
    for (std::int64_t j = 0; j < kLanes<Real>; j += kSquare) {
      TransposeSquare(from + i * pitch + j, pitch, to + j * to_pitch + i, to_pitch);
    }
  }
}
template void TransposeBySquares(const float*, std::int64_t, float*, std::int64_t);
template void TransposeBySquares(const double*, std::int64_t, double*, std::int64_t);

template <>
const RowTile<float>* PlainRowTile() {
  return &kPlainOfF32;
}
template <>
const RowTile<double>* PlainRowTile() {
  return &kPlainOfF64;
}

}  // namespace gemmd
