// Shares of limits.
#pragma once

#include <cstdint>

namespace gemmd {

// Rounded up, so that nobody's share is nothing. The product of both may be over 64 bits.
// REQUIRES: 0 <= percent <= 100.
inline std::uint64_t PercentOf(std::uint64_t whole, std::int64_t percent) {
  constexpr std::uint64_t kWhole = 100;
  const auto share = static_cast<std::uint64_t>(percent);
  return whole / kWhole * share + (whole % kWhole * share + kWhole - 1) / kWhole;
}

}  // namespace gemmd
