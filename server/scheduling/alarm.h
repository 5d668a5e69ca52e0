// Wakes somebody at a time.
#pragma once

#include <functional>
#include <thread>

#include "base/sync/mutex.h"
#include "base/time/clock.h"

namespace gemmd {

// Thread-safe.
class Alarm {
 public:
  virtual ~Alarm() = default;
  // From here on Set() has an effect. `ring` may call Set(), and takes no long time.
  virtual void Start(std::function<void()> ring) = 0;
  // Rings once, soon after `at`; kNoDeadline: not at all. The last call counts.
  virtual void Set(TimeNs at) = 0;
  // No ring runs when this returns, nor comes later.
  virtual void Stop() = 0;
};

// An alarm over a thread that sleeps on the clock of SteadyClock.
class ThreadAlarm final : public Alarm {
 public:
  ThreadAlarm() = default;
  ~ThreadAlarm() override { Stop(); }

  void Start(std::function<void()> ring) override;
  void Set(TimeNs at) override;
  void Stop() override;

 private:
  void Loop();

  std::function<void()> ring_;  // constant while the thread runs
  Mutex mutex_;
  CondVar changed_;
  TimeNs at_ ABSL_GUARDED_BY(mutex_) = kNoDeadline;
  TimeNs wakes_at_ ABSL_GUARDED_BY(mutex_) = kNoDeadline;  // at the latest
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gemmd
