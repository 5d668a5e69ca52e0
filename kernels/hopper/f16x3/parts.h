// A binary32 as two f16 numbers, once its line's power of two has made it small enough.
//
// A line is multiplied by 2^s, so that its largest magnitude lies in [2^14, 2^15), or, where that
// would take more than 2^127, by 2^127. Then hi = rn(x) and lo = rn(x - hi), whose difference is
// exact. f16 has 11 bits, so |x - hi - lo| <= 2^-23 |x|; and steps of 2^-24 at the least, so the
// error may be up to 2^-25, which is 2^-39 of the line's largest. Nothing is lost to the factor
// itself: the smallest subnormal becomes 2^-22.
//
// A line with an infinity or a NaN is multiplied by 2^-114: hi keeps it, lo is NaN, and so is each
// sum that the line is part of. Such sums are made again from the elements (common/f32_finish.h).
#pragma once

#include <cstdint>

#include "kernels/ptx/convert.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

inline constexpr int kParts = 2;

// The magnitude of a number, as bits that compare as it does.
GEMMD_DEVICE std::uint32_t MagnitudeOf(float x) { return ptx::BitsOfFloat(x) & 0x7fffffff; }

// Returns the exponent of the power of two for a line whose largest magnitude has these bits: -114
// to 127.
GEMMD_DEVICE std::int32_t ShiftOf(std::uint32_t largest) {
  const std::int32_t shift = 141 - static_cast<std::int32_t>(largest >> 23);
  return shift < 127 ? shift : 127;
}

// 2^exponent, for -126 to 127; 0 for -127.
GEMMD_DEVICE float PowerOfTwo(std::int32_t exponent) {
  return ptx::FloatOfBits(static_cast<std::uint32_t>(exponent + 127) << 23);
}

// x times 2^exponent for -254 to 228, rounded once. x is a multiple of 2^-48, as sums of products
// are: where the first factor makes it subnormal, the second makes it zero.
GEMMD_DEVICE float TimesPowerOfTwo(float x, std::int32_t exponent) {
  const std::int32_t first = exponent >> 1;
  return x * PowerOfTwo(first) * PowerOfTwo(exponent - first);
}

// The parts of two neighbours of K, the first in the low half: [0] hi, [1] lo.
struct PartWords {
  std::uint32_t word[kParts];
};

GEMMD_DEVICE PartWords SplitPair(float x, float y, float power) {
  x *= power;
  y *= power;
  PartWords parts;
  parts.word[0] = ptx::PackF16(x, y);
  x -= ptx::WidenF16(static_cast<std::uint16_t>(parts.word[0] & 0xffff));
  y -= ptx::WidenF16(static_cast<std::uint16_t>(parts.word[0] >> 16));
  parts.word[1] = ptx::PackF16(x, y);
  return parts;
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
