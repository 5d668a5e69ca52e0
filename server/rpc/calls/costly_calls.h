// Calls that cost the server far more than their request costs its client.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "base/time/clock.h"

namespace gemmd {

// A few at a time, because their answers are large until they are read; and for a tenth of the time
// at most, however often they come, because other calls wait for the threads that work them off.
// Thread-safe.
class CostlyCalls {
 public:
  // A call's place, which it keeps until its end.
  using Place = std::shared_ptr<void>;

  // The clock outlives this and all places.
  CostlyCalls(int most, const Clock* clock) : most_(most), clock_(clock) {}

  // RESOURCE_EXHAUSTED, with a time to retry: there is no place, or it is too soon.
  absl::StatusOr<Place> Enter();
  // A call's answer was begun at `start` and is made now. A long one delays the next call.
  void Worked(TimeNs start);

 private:
  const int most_;
  const Clock* const clock_;
  mutable Mutex mutex_;
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
  TimeNs next_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd
