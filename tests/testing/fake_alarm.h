// An alarm that rings when the test says so.
#pragma once

#include <functional>
#include <utility>

#include "base/sync/mutex.h"
#include "server/scheduling/alarm.h"
#include "server/scheduling/scheduler.h"

namespace gemmd::testing {

// Thread-safe.
class FakeAlarm final : public Alarm {
 public:
  void Start(std::function<void()> ring) override { ring_ = std::move(ring); }
  void Set(TimeNs at) override {
    const MutexLock lock(mutex_);
    at_ = at;
  }
  void Stop() override {}

  TimeNs at() const {
    const MutexLock lock(mutex_);
    return at_;
  }
  // Rings if its time has come; whether it did.
  bool RingIfDue(TimeNs now) {
    {
      const MutexLock lock(mutex_);
      if (at_ > now) return false;
      at_ = kNoDeadline;
    }
    ring_();
    return true;
  }

 private:
  std::function<void()> ring_;
  mutable Mutex mutex_;
  TimeNs at_ ABSL_GUARDED_BY(mutex_) = kNoDeadline;
};

// Defaults, but for the number of jobs that may wait.
inline SchedulerOptions BoundOf(std::size_t jobs) {
  SchedulerOptions options;
  options.bounds.jobs = jobs;
  return options;
}

}  // namespace gemmd::testing
