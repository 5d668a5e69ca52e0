// Counts the calls under way, so that their channel can outlive them.
#pragma once

#include <memory>
#include <utility>

#include "base/sync/mutex.h"

namespace gemmd::client {

// Thread-safe. REQUIRES: every Begin() is followed by exactly one End().
class CallCount {
 public:
  void Begin() {
    const MutexLock lock(mutex_);
    ++count_;
  }

  void End() {
    const MutexLock lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

  // REQUIRES: no Begin() from now on.
  void WaitForNone() {
    const MutexLock lock(mutex_);
    while (count_ > 0) none_.wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar none_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Counts one call as long as it lives. It is the first member of what makes a call, so that it goes
// last: a context and a stub refer to the channel, and a channel whose last reference goes on one
// of gRPC's threads frees what that thread still uses (gRPC 1.51).
class CountedCall {
 public:
  explicit CountedCall(std::shared_ptr<CallCount> count) : count_(std::move(count)) {
    count_->Begin();
  }
  ~CountedCall() { count_->End(); }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

 private:
  const std::shared_ptr<CallCount> count_;
};

}  // namespace gemmd::client
