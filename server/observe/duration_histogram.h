// A histogram of durations.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/time/clock.h"

namespace gemmd {

// The greatest duration of each bucket: three a decade, from what decoding a small header takes to
// what a drain may (docs/operations.md says why these).
inline constexpr std::array<TimeNs, 19> kDurationBounds = {
    10'000,        20'000,        50'000,        100'000,       200'000,
    500'000,       1'000'000,     2'000'000,     5'000'000,     10'000'000,
    20'000'000,    50'000'000,    100'000'000,   200'000'000,   500'000'000,
    1'000'000'000, 2'000'000'000, 5'000'000'000, 10'000'000'000};

struct DurationHistogram {
  static std::size_t BucketOf(TimeNs duration) {
    std::size_t bucket = 0;
    while (bucket < kDurationBounds.size() && duration > kDurationBounds[bucket]) ++bucket;
    return bucket;
  }

  void Add(TimeNs duration) {
    ++counts[BucketOf(duration)];
    sum += duration;
  }

  std::array<std::uint64_t, kDurationBounds.size() + 1> counts{};  // the last: longer than all
  TimeNs sum = 0;
};

}  // namespace gemmd
