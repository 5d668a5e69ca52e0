// Sums of A's elements, by which offsets of weights are multiplied: a launch ahead of wide.h's.
// few.h makes its own.
//
// Each part of K that has an offset has a sum of each row: products by ones in mma.sync's steps of
// 16, ascending, from zero, as few.h makes them. Where in a step an element stands does not matter
// (kernels/emulator/arithmetic/tensor_core.h).
//
// Sums lie as wide.h's tiles load them, in f32: by groups of 128 of K, and there by eight rows of
// A, and there by parts, each of which has the eight rows' sums side by side.
#pragma once

#include <cstdint>

#include "kernels/hopper/quant/decoder.h"
#include "kernels/hopper/quant/finish.h"
#include "kernels/hopper/quant/packed.h"
#include "kernels/ptx/global_memory.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"

namespace gemmd::hopper::quant {

inline constexpr int kRowSumThreads = 256;

inline namespace GEMMD_BACKEND {

struct RowSumParams {
  const std::uint16_t* a;
  std::int64_t row_stride;  // elements, a multiple of 8
  std::int32_t m;
  std::int32_t k;
  std::int32_t eights;  // of rows, with the last tile's padding
  std::int32_t groups;
  float* sums;
};

// Four elements of a row, or zeros where A has none.
struct alignas(8) FourElements {
  std::uint32_t word[2];
};

// A warp for eight rows by a group of K.
template <class Rows, int kParts>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(kRowSumThreads, 2)
    SumRows(GEMMD_GRID_CONSTANT const RowSumParams params) {
  constexpr std::uint32_t kOnes = Rows::kOneBits * 0x00010001;
  constexpr std::uint32_t kFragment[4] = {kOnes, kOnes, kOnes, kOnes};
  constexpr int kPartSteps = kSteps / kParts;
  // The launch ahead may write A, or read the sums of the product before.
  ptx::WaitForPrecedingGrid();
  ptx::LaunchDependentGrid();
  const std::uint32_t lane = ptx::LaneIndex();
  const auto index = static_cast<std::int32_t>(ptx::BlockIndexX() * (kRowSumThreads / 32) +
                                               ptx::ThreadIndex() / 32);
  if (index >= params.eights * params.groups) return;
  const std::int32_t eight = index % params.eights;
  const std::int32_t first = index / params.eights * kGroupK;
  const std::int32_t row = eight * 8 + static_cast<std::int32_t>(lane / 4);
  FourElements elements[kSteps];
  GEMMD_UNROLL
  for (int step = 0; step < kSteps; ++step) {
    const std::int32_t k = first + step * kStepK + static_cast<std::int32_t>(lane % 4) * 4;
    elements[step] = {};
    if (row < params.m && k < params.k) {
      elements[step] = ptx::LoadGlobal(
          reinterpret_cast<const FourElements*>(params.a + row * params.row_stride + k));
    }
  }
  float* const to = params.sums + std::int64_t{index} * (kParts * 8) + lane % 4 * 2;
  GEMMD_UNROLL
  for (int part = 0; part < kParts; ++part) {
    float sums[4] = {};
    GEMMD_UNROLL
    for (int step = part * kPartSteps; step < (part + 1) * kPartSteps; ++step) {
      Rows::Multiply(sums, kFragment, elements[step].word);
    }
    if (lane < 4) {
      ptx::StoreGlobal(reinterpret_cast<SumsOfRow<2>*>(to + part * 8), {{sums[0], sums[1]}});
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::quant
