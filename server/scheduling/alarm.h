// Wakes somebody at a time.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "server/observe/clock.h"

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

// By a thread that sleeps on the clock of SteadyClock.
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
  std::mutex mutex_;
  std::condition_variable changed_;
  TimeNs at_ = kNoDeadline;        // guarded by mutex_
  TimeNs wakes_at_ = kNoDeadline;  // guarded by mutex_; at the latest
  bool stops_ = false;             // guarded by mutex_
  std::thread thread_;
};

}  // namespace gemmd
