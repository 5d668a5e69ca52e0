// Single mma.sync.m16n8k16, one a warp, on random operands.
#pragma once

#include "kernels/ptx/convert.h"
#include "kernels/ptx/mma_sync.h"
#include "tests/kernels/conformance/vector_sink.h"

namespace gemmd::conformance {

enum class Form : int { kF16ToF32, kBf16ToF32, kF16ToF16 };

inline constexpr std::uint32_t kMmaInstructions = 128;  // a block
inline constexpr std::uint32_t kMmaWords = 4;           // a lane; two of an f16 accumulator

inline namespace GEMMD_BACKEND {

template <Form kForm>
GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    MmaVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  constexpr bool kIsBf16 = kForm == Form::kBf16ToF32;
  constexpr std::uint32_t kWords = kForm == Form::kF16ToF16 ? 2 : 4;
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  const auto operands = static_cast<OperandClass>(block % kOperandClasses);
  VectorSink sink(params, 32, kMmaInstructions, kWords);
  for (std::uint32_t instruction = 0; instruction < kMmaInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    const std::uint32_t first = ptx::ThreadIndex() * 10;
    std::uint32_t a[4];
    std::uint32_t b[2];
    for (std::uint32_t i = 0; i < 4; ++i) {
      a[i] = RandomPair(kIsBf16, operands, false, RandomBits(key, first + i));
    }
    for (std::uint32_t i = 0; i < 2; ++i) {
      b[i] = RandomPair(kIsBf16, operands, true, RandomBits(key, first + 4 + i));
    }
    if constexpr (kForm == Form::kF16ToF16) {
      std::uint32_t d[2];
      for (std::uint32_t i = 0; i < 2; ++i) {
        d[i] = RandomPair(false, operands, false, RandomBits(key, first + 6 + i));
      }
      ptx::MmaF16AccumulateF16(d, a, b);
      for (std::uint32_t i = 0; i < 2; ++i) sink.Add(instruction, i, d[i]);
    } else {
      float d[4];
      for (std::uint32_t i = 0; i < 4; ++i) {
        d[i] = ptx::FloatOfBits(RandomAddend(operands, RandomBits(key, first + 6 + i)));
      }
      if constexpr (kIsBf16) {
        ptx::MmaBf16(d, a, b);
      } else {
        ptx::MmaF16(d, a, b);
      }
      for (std::uint32_t i = 0; i < 4; ++i) sink.Add(instruction, i, ptx::BitsOfFloat(d[i]));
    }
  }
  sink.Finish();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
