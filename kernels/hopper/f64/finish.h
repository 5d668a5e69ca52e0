// From a thread's sums to D.
#pragma once

#include "kernels/epilogue/arithmetic.h"
#include "kernels/hopper/f64/line_order.h"
#include "kernels/hopper/f64/params.h"
#include "kernels/ptx/global_memory.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

// A thread's accumulators, by blocks of 16 rows and 8 columns. Element e of a block is row
// lane / 4 + 8 * (e / 2) and column lane % 4 * 2 + e % 2 in the instruction's order of lines.
template <class Layout>
struct Sums {
  double block[Layout::kRowBlocks][Layout::kColumnBlocks][4];
};

// A sum of zeros is +0. K is filled up with zeros to whole stages, and one more product of zeros
// makes +0 of -0, so that tilings with other stages would differ otherwise.
GEMMD_DEVICE double WithoutNegativeZero(double sum) { return sum == 0 ? 0.0 : sum; }

// Compiled without contraction, so that the device, the emulator and kernels/epilogue round the
// same operations.
GEMMD_DEVICE double FinishElement(const ProductParams& params, double value, std::int32_t row,
                                  std::int32_t column) {
  value = params.alpha * value;
  if (params.c != nullptr) {
    value += params.beta * ptx::LoadGlobal(params.c + row * params.c_row_stride +
                                           column * params.c_column_stride);
  }
  if (params.bias != nullptr) value += ptx::LoadGlobal(params.bias + row);
  return epilogue::Activate(params.activation, value);
}

template <class Layout>
struct BlockPlace {
  static GEMMD_DEVICE constexpr std::int32_t Row(int i, int e) {
    return static_cast<std::int32_t>(
        LineOrder<typename Layout::Rows>::Octet(static_cast<std::uint32_t>(2 * i + e / 2)));
  }
  static GEMMD_DEVICE constexpr std::int32_t Column(int j, int e) {
    using Order = LineOrder<typename Layout::Columns>;
    return static_cast<std::int32_t>(Order::Octet(static_cast<std::uint32_t>(j)) +
                                     static_cast<std::uint32_t>(e % 2) * Order::kNext);
  }
};

template <class Layout>
GEMMD_DEVICE void StorePlain(const ProductParams& params, const Sums<Layout>& sums,
                             std::int32_t row, std::int32_t column) {
  using Place = BlockPlace<Layout>;
  double* const d = params.d + row * params.d_row_stride + column * params.d_column_stride;
  GEMMD_UNROLL
  for (int j = 0; j < Layout::kColumnBlocks; ++j) {
    GEMMD_UNROLL
    for (int i = 0; i < Layout::kRowBlocks; ++i) {
      GEMMD_UNROLL
      for (int e = 0; e < 4; ++e) {
        const std::int32_t down = Place::Row(i, e);
        const std::int32_t right = Place::Column(j, e);
        if (row + down >= params.m || column + right >= params.n) continue;
        ptx::StoreGlobal(d + down * params.d_row_stride + right * params.d_column_stride,
                         WithoutNegativeZero(sums.block[i][j][e]));
      }
    }
  }
}

// Block by block in a loop that moves all blocks down by one, so that the code for an element,
// which is long, exists four times and not as often as there are sums.
template <class Layout>
GEMMD_DEVICE void StoreFinished(const ProductParams& params, Sums<Layout>& sums, std::int32_t row,
                                std::int32_t column) {
  using Place = BlockPlace<Layout>;
  constexpr int kBlocks = Layout::kRowBlocks * Layout::kColumnBlocks;
  GEMMD_NO_UNROLL
  for (int at = 0; at < kBlocks; ++at) {
    const int i = at / Layout::kColumnBlocks;
    const int j = at % Layout::kColumnBlocks;
    GEMMD_UNROLL
    for (int e = 0; e < 4; ++e) {
      const std::int32_t d_row = row + Place::Row(i, e);
      const std::int32_t d_column = column + Place::Column(j, e);
      if (d_row >= params.m || d_column >= params.n) continue;
      ptx::StoreGlobal(
          params.d + d_row * params.d_row_stride + d_column * params.d_column_stride,
          FinishElement(params, WithoutNegativeZero(sums.block[0][0][e]), d_row, d_column));
    }
    GEMMD_UNROLL
    for (int to = 0; to + 1 < kBlocks; ++to) {
      constexpr int kRow = Layout::kColumnBlocks;
      GEMMD_UNROLL
      for (int e = 0; e < 4; ++e) {
        sums.block[to / kRow][to % kRow][e] = sums.block[(to + 1) / kRow][(to + 1) % kRow][e];
      }
    }
  }
}

// `row`, `column`: of the thread's first sum.
template <class Layout>
GEMMD_DEVICE void StoreSums(const ProductParams& params, Sums<Layout>& sums, std::int32_t row,
                            std::int32_t column) {
  if (params.has_epilogue) {
    StoreFinished<Layout>(params, sums, row, column);
  } else {
    StorePlain<Layout>(params, sums, row, column);
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
