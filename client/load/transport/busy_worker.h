// A stand-in for a device, for the echo that a server with one is compared with.
#pragma once

#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "base/sync/mutex.h"

namespace gemmd::load {

// Works on one task after another, for a time that each names, and never sleeps, so that no wake-up
// adds to that time. Thread-safe.
class BusyWorker {
 public:
  using Done = absl::AnyInvocable<void() &&>;

  BusyWorker() : thread_([this] { Run(); }) {}
  // Drops what it has not begun.
  ~BusyWorker() {
    {
      const MutexLock lock(mutex_);
      stops_ = true;
    }
    thread_.join();
  }
  BusyWorker(const BusyWorker&) = delete;
  BusyWorker& operator=(const BusyWorker&) = delete;

  // Calls `done` on its thread, after its turn came and so much time passed.
  void Work(std::chrono::microseconds time, Done done) {
    const MutexLock lock(mutex_);
    tasks_.push_back({time, std::move(done)});
  }

 private:
  struct Task {
    std::chrono::microseconds time;
    Done done;
  };

  void Run() {
    while (true) {
      Task task;
      {
        const MutexLock lock(mutex_);
        if (stops_) return;
        if (tasks_.empty()) continue;
        task = std::move(tasks_.front());
        tasks_.pop_front();
      }
      const auto end = std::chrono::steady_clock::now() + task.time;
      while (std::chrono::steady_clock::now() < end) {
      }
      std::move(task.done)();
    }
  }

  Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stops_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: it uses all else
};

}  // namespace gemmd::load
