// One monotonic clock, injected so that tests own the time.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace gemmd {

// Nanoseconds since an arbitrary origin that is fixed for the process.
using TimeNs = std::int64_t;

inline constexpr TimeNs kNoDeadline = std::numeric_limits<TimeNs>::max();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs Now() const = 0;
};

class SteadyClock final : public Clock {
 public:
  TimeNs Now() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace gemmd
