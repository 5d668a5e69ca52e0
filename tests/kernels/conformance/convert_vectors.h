// Conversions of f32 to f16 and bf16, two at a time.
#pragma once

#include "kernels/ptx/convert.h"
#include "tests/kernels/conformance/vector_sink.h"

namespace gemmd::conformance {

inline constexpr std::uint32_t kConvertInstructions = 64;  // of each kind, a block and lane
inline constexpr std::uint32_t kConvertWords = 2;

inline namespace GEMMD_BACKEND {

// The bits of an f32: of any kind, near a tie of f16 or of bf16, or in f16's subnormal range.
GEMMD_DEVICE std::uint32_t ConvertInput(std::uint32_t kind, std::uint64_t random) {
  const auto bits = static_cast<std::uint32_t>(random);
  const auto near = static_cast<std::uint32_t>(random >> 32) % 3 - 1;  // -1, 0 or 1
  const std::uint32_t sign = bits & 0x80000000u;
  const std::uint32_t exponent_of_f16 = 112 + (bits >> 8) % 32;
  switch (kind) {
    case 0:
      return bits;
    case 1:
      return (sign | exponent_of_f16 << 23 | (bits & 0x3ff) << 13 | 0x1000u) + near;
    case 2:
      return ((bits & 0xffff0000u) | 0x8000u) + near;
    default:
      return sign | (100 + (bits >> 23) % 16) << 23 | (bits & 0x7fffffu);
  }
}

GEMMD_KERNEL void GEMMD_LAUNCH_BOUNDS(32, 1)
    ConvertVectors(const GEMMD_GRID_CONSTANT VectorParams params) {
  const std::uint32_t block = params.first_block + ptx::BlockIndexX();
  VectorSink sink(params, 32, kConvertInstructions, kConvertWords);
  for (std::uint32_t instruction = 0; instruction < kConvertInstructions; ++instruction) {
    const std::uint64_t key = KeyOf(params.set, block, instruction);
    const std::uint32_t first = 2 * ptx::ThreadIndex();
    const float low = ptx::FloatOfBits(ConvertInput(block % 4, RandomBits(key, first)));
    const float high = ptx::FloatOfBits(ConvertInput(block % 4, RandomBits(key, first + 1)));
    sink.Add(instruction, 0, ptx::PackF16(low, high));
    sink.Add(instruction, 1, ptx::PackBf16(low, high));
  }
  sink.Finish();
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::conformance
