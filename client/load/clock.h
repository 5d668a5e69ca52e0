// The time that load is driven and measured by, behind a seam.
#pragma once

#include "base/time/clock.h"
#include "base/time/units.h"

namespace gemmd::load {

using gemmd::TimeNs;

// Thread-safe. Tests replace it by one that plays a script while it is slept on, so that
// no test waits.
class Clock : public gemmd::Clock {
 public:
  // Returns at once where `time` has passed.
  virtual void SleepUntil(TimeNs time) = 0;
};

class SteadyClock final : public Clock {
 public:
  TimeNs Now() const override;
  void SleepUntil(TimeNs time) override;
};

}  // namespace gemmd::load
