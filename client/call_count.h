// How many calls are under way, so that their channel can outlive them.
#pragma once

#include <condition_variable>
#include <mutex>

namespace gemmd::client {

// Thread-safe. REQUIRES: every Begin() is followed by exactly one End().
class CallCount {
 public:
  void Begin() {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++count_;
  }

  void End() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

  // REQUIRES: no Begin() from now on.
  void WaitForNone() {
    std::unique_lock<std::mutex> lock(mutex_);
    none_.wait(lock, [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;  // guarded by mutex_
};

}  // namespace gemmd::client
