// The time that load is driven and measured by, behind a seam.
#pragma once

#include <cstdint>

namespace gemmd::load {

// Nanoseconds on one monotonic clock whose zero means nothing.
using TimeNs = std::int64_t;

inline constexpr TimeNs kNsPerSecond = 1000000000;

// Thread-safe. Tests replace it by one that plays a script while it is slept on, so that
// no test waits.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimeNs Now() const = 0;
  // Returns at once where `time` has passed.
  virtual void SleepUntil(TimeNs time) = 0;
};

class SteadyClock final : public Clock {
 public:
  TimeNs Now() const override;
  void SleepUntil(TimeNs time) override;
};

}  // namespace gemmd::load
