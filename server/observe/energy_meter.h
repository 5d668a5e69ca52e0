// Tells requests what they drew of a device's energy, from a counter that is read once a second or
// so. Each period's energy is shared by the launches that computed in it, by their time, the idle
// device's part included: so the shares add up to what the counter took while the device was busy.
#pragma once

#include <optional>

#include "base/sync/mutex.h"
#include "base/time/clock.h"

namespace gemmd {

// Meters one device. Thread-safe.
class EnergyMeter {
 public:
  // A launch computed from `start` to `end`, by the clock of `now` below. Launches may overlap.
  void AddLaunch(TimeNs start, TimeNs end);

  // The counter has been read: `joules` since some moment, which only ever grows unless the counter
  // begins anew. A period runs from one reading to the next. One in which launches computed for
  // less than a tenth of the time says little of what they draw: the period before it holds on.
  void AddReading(TimeNs now, double joules);

  // Returns the energy of so many seconds of a launch's computing. Nothing: no period was busy
  // enough yet.
  std::optional<double> JoulesOf(double seconds) const;

 private:
  struct Reading {
    TimeNs at = 0;
    double joules = 0;
  };

  mutable AdaptiveMutex mutex_;
  std::optional<Reading> last_ ABSL_GUARDED_BY(mutex_);
  TimeNs computed_ ABSL_GUARDED_BY(mutex_) = 0;          // since then, by all launches together
  std::optional<double> watts_ ABSL_GUARDED_BY(mutex_);  // joules a second of computing
};

}  // namespace gemmd
