#include "server/scheduling/alarm.h"

#include <chrono>
#include <utility>

namespace gemmd {

void ThreadAlarm::Start(std::function<void()> ring) {
  ring_ = std::move(ring);
  thread_ = std::thread([this] { Loop(); });
}

void ThreadAlarm::Set(TimeNs at) {
  bool is_too_late = false;
  {
    const MutexLock lock(mutex_);
    at_ = at;
    is_too_late = at < wakes_at_;
  }
  // A thread that wakes too early looks, and sleeps again: cheaper than waking it each time.
  if (is_too_late) changed_.notify_one();
}

void ThreadAlarm::Stop() {
  {
    const MutexLock lock(mutex_);
    stops_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ThreadAlarm::Loop() {
  const SteadyClock clock;
  RelockableMutexLock lock(mutex_);
  while (!stops_) {
    wakes_at_ = at_;
    if (at_ == kNoDeadline) {
      changed_.wait(mutex_);
    } else if (const TimeNs left = at_ - clock.Now(); left > 0) {
      changed_.wait_for(mutex_, std::chrono::nanoseconds(left));
    } else {
      at_ = kNoDeadline;
      lock.unlock();
      ring_();
      lock.lock();
    }
  }
}

}  // namespace gemmd
