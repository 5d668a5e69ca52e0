// A binary32 as the sum of three bf16 numbers: hi = rn(x), mid = rn(x - hi), lo = rn(x - hi - mid).
//
// Both differences are exact, because each has fewer bits than x, and 8 + 8 + 8 bits hold the 24
// of x: hi + mid + lo = x. bf16 has binary32's exponents but not its smallest subnormals, so
// every x is multiplied by 2^24 first, which makes the least of them normal, and the product by
// 2^-48 last. From 2^103 on that overflows: hi or what is left of it is then infinite, lo is NaN,
// and so is every sum that the element is part of; infinities and NaN do the same. Such sums are
// made again from the elements themselves (common/f32_finish.h).
#pragma once

#include <cstdint>

#include "kernels/ptx/convert.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

inline constexpr int kParts = 3;
inline constexpr float kScale = 0x1p24F;
inline constexpr float kUnscale = 0x1p-48F;  // of a product of two

// The parts of two neighbours of K, the first in the low half: [0] hi, [1] mid, [2] lo.
struct PartWords {
  std::uint32_t word[kParts];
};

GEMMD_DEVICE PartWords SplitPair(float x, float y) {
  PartWords parts;
  x *= kScale;
  y *= kScale;
  GEMMD_UNROLL
  for (int part = 0; part < kParts; ++part) {
    const std::uint32_t word = ptx::PackBf16(x, y);
    parts.word[part] = word;
    x -= ptx::FloatOfBits(word << 16);
    y -= ptx::FloatOfBits(word & 0xffff0000);
  }
  return parts;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f32
