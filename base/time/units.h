// Units of time, as times are counted here: in nanoseconds.
#pragma once

#include <cstdint>

namespace gemmd {

inline constexpr std::int64_t kMicrosecond = 1'000;
inline constexpr std::int64_t kMillisecond = 1'000'000;
inline constexpr std::int64_t kSecond = 1'000'000'000;

}  // namespace gemmd
