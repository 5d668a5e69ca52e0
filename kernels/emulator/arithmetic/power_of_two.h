// Powers of two as binary64.
#pragma once

#include <cstdint>
#include <cstring>

namespace gemmd::emulator {

// REQUIRES: -1022 <= exponent <= 1023. By its bits, because std::ldexp is a call.
inline double PowerOfTwo(std::int32_t exponent) {
  const std::uint64_t bits = static_cast<std::uint64_t>(1023 + exponent) << 52;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace gemmd::emulator
