// Computes how long devices make the lines of a plane that they may lay out themselves. Pure.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/problem.h"

namespace gemmd {

// Elements from one line to the next: a multiple of 128 bytes where that costs little, else of
// 16. TMA and vector loads need 16, and a line that starts within a 128-byte sector group costs
// Hopper a third of the bandwidth (docs/lab/hopper-ragged.md).
inline std::int64_t PaddedLine(const MatrixLayout& layout) {
  constexpr std::int64_t kVectorBits = std::int64_t{16} * 8;
  constexpr std::int64_t kSectorBits = std::int64_t{128} * 8;
  // Below this the wider alignment would add more than an eighth.
  constexpr std::int64_t kLongLineBits = 8 * kSectorBits;
  const std::int64_t bits = SizeBits(layout.type);
  const std::int64_t step =
      (layout.inner() * bits >= kLongLineBits ? kSectorBits : kVectorBits) / bits;
  return RoundUp(layout.inner(), step);
}

}  // namespace gemmd
