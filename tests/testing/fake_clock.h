// A clock that tests own.
#pragma once

#include <atomic>

#include "base/time/clock.h"

namespace gemmd::testing {

// Thread-safe.
class FakeClock final : public Clock {
 public:
  TimeNs Now() const override { return now_; }
  void Advance(TimeNs nanoseconds) { now_ += nanoseconds; }

 private:
  std::atomic<TimeNs> now_{1000000000};
};

}  // namespace gemmd::testing
