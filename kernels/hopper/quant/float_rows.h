// Rows of f32: each is three rows of bf16, whose products are added.
//
// hi has the upper eight bits of an element's fraction, mid the next eight and lo the rest, each
// cut and not rounded, so that hi + mid + lo is the element; of elements below 2^-109 what is below
// 2^-133 is lost, which no bf16 holds. The sum of an element of D is (lo + mid) + hi, each a
// product's sum of f32.
#pragma once

#include <cstdint>

#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/params.h"
#include "kernels/ptx/convert.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/shared_memory.h"

namespace gemmd::hopper::quant {

inline constexpr int kRowParts = 3;
inline constexpr int kFloatRowThreads = 256;

inline namespace GEMMD_BACKEND {

struct SplitRowsParams {
  const float* a;
  std::int64_t row_stride;  // elements, a multiple of 4
  std::int32_t k;           // a multiple of 8
  std::uint16_t* parts;     // 3 M x K: hi, mid and lo of a row, one after another
};

// Takes the part that comes next from x, and returns it as the upper half of a word. Infinity and
// NaN leave zero.
GEMMD_DEVICE std::uint32_t TakePart(float& x) {
  const std::uint32_t bits = ptx::BitsOfFloat(x);
  if ((bits & 0x7f800000) == 0x7f800000) {
    x = 0;
    return (bits & 0x007fffff) == 0 ? bits : 0x7fff0000;
  }
  const std::uint32_t part = bits & 0xffff0000;
  x -= ptx::FloatOfBits(part);
  return part;
}

// A thread for eight elements of a row, which is the block's.
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kFloatRowThreads, 4)
    SplitRows(GEMMD_GRID_CONSTANT const SplitRowsParams params) {
  // The launch ahead may write A, or read the parts of the product before.
  ptx::WaitForPrecedingGrid();
  ptx::LaunchDependentGrid();
  const auto k =
      static_cast<std::int32_t>(ptx::BlockIndexX() * kFloatRowThreads + ptx::ThreadIndex()) * 8;
  if (k >= params.k) return;
  const std::int64_t row = ptx::BlockIndexY();
  const float* const from = params.a + row * params.row_stride + k;
  float x[8];
  GEMMD_UNROLL
  for (int half = 0; half < 2; ++half) {
    const auto four = ptx::LoadGlobal(reinterpret_cast<const SumsOfRow<4>*>(from + half * 4));
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) x[half * 4 + i] = four.value[i];
  }
  std::uint16_t* const to = params.parts + row * kRowParts * params.k + k;
  GEMMD_UNROLL
  for (int part = 0; part < kRowParts; ++part) {
    std::uint32_t word[4];
    GEMMD_UNROLL
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t low = TakePart(x[2 * i]);
      word[i] = TakePart(x[2 * i + 1]) | low >> 16;
    }
    ptx::StoreGlobal(reinterpret_cast<ptx::Vector4*>(to + std::int64_t{part} * params.k),
                     ptx::Vector4{word[0], word[1], word[2], word[3]});
  }
}

struct AddRowsParams {
  QuantParams result;  // its D and epilogue
  const float* sums;   // of 3 M rows, by N
  std::int64_t row_stride;
  std::int64_t column_stride;
  std::uint32_t row_threads_log2;  // of a block, side by side; the others are of its columns
};

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kFloatRowThreads, 4)
    AddRows(GEMMD_GRID_CONSTANT const AddRowsParams params) {
  ptx::WaitForPrecedingGrid();
  ptx::LaunchDependentGrid();
  const std::uint32_t thread = ptx::ThreadIndex();
  const std::uint32_t log2 = params.row_threads_log2;
  const auto row =
      static_cast<std::int32_t>((ptx::BlockIndexY() << log2) + (thread & ((1u << log2) - 1)));
  const auto column =
      static_cast<std::int32_t>(ptx::BlockIndexX() * (kFloatRowThreads >> log2) + (thread >> log2));
  if (row >= params.result.m || column >= params.result.n) return;
  const float* const from = params.sums + std::int64_t{row} * kRowParts * params.row_stride +
                            column * params.column_stride;
  const float hi = ptx::LoadGlobal(from);
  const float mid = ptx::LoadGlobal(from + params.row_stride);
  const float lo = ptx::LoadGlobal(from + 2 * params.row_stride);
  FinishElement(params.result, (lo + mid) + hi, row, column);
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
