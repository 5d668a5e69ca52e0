// Single mma.sync.m16n8k32 with block scales (sm_120a), one a warp, on random operands and scales.
#pragma once

#include <utility>

#include "kernels/ptx/convert.h"
#include "kernels/ptx/mma_sync_scaled.h"
#include "tests/kernels/conformance/vector_sink.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kMmaMxInstructions = 128;  // a block
// The byte and the lanes that have the scales are known to the compiler: eight ways, in turn.
inline constexpr std::uint32_t kMmaMxWays = 8;

inline namespace GEMMD_BACKEND {

template <ptx::MmaMxType kA, ptx::MmaMxType kB, int kWay>
GEMMD_DEVICE void MmaMxVector(OperandClass operands, std::uint64_t key, std::uint32_t instruction,
                              VectorSink* sink) {
  const std::uint32_t first = ptx::ThreadIndex() * 12;
  std::uint32_t a[4];
  std::uint32_t b[2];
  for (std::uint32_t i = 0; i < 4; ++i) {
    a[i] = RandomFp8s(kA == ptx::MmaMxType::kE4m3, operands, false, key, first + i);
  }
  for (std::uint32_t i = 0; i < 2; ++i) {
    b[i] = RandomFp8s(kB == ptx::MmaMxType::kE4m3, operands, true, key, first + 4 + i);
  }
  float d[4];
  for (std::uint32_t i = 0; i < 4; ++i) {
    d[i] = ptx::FloatOfBits(RandomAddend(operands, RandomBits(Mix(key + 1), first + 6 + i)));
  }
  const std::uint32_t a_scales = RandomScales(false, operands, Mix(key + 2), first);
  const std::uint32_t b_scales = RandomScales(false, operands, Mix(key + 3), first);
  ptx::MmaMx<kA, kB>(d, a, b, {a_scales, kWay % 4, kWay / 4},
                     {b_scales, (kWay + kWay / 4) % 4, (3 * kWay + 1) % 4});
  for (std::uint32_t i = 0; i < 4; ++i) sink->Add(instruction, i, ptx::BitsOfFloat(d[i]));
}

template <ptx::MmaMxType kA, ptx::MmaMxType kB, int... kWays>
GEMMD_DEVICE void MmaMxWays(const VectorParams& params, std::integer_sequence<int, kWays...>) {
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  VectorSink sink(params, 32, kMmaMxInstructions, 4);
  GEMMD_NO_UNROLL
  for (std::uint32_t first = 0; first < kMmaMxInstructions; first += kMmaMxWays) {
    (MmaMxVector<kA, kB, kWays>(operands, KeyOf(params.set, block, first + kWays), first + kWays,
                                &sink),
     ...);
  }
  sink.Finish();
}

template <ptx::MmaMxType kA, ptx::MmaMxType kB>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    MmaMxVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  MmaMxWays<kA, kB>(params, std::make_integer_sequence<int, kMmaMxWays>());
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
