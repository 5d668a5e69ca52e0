// Counts the calls under way, so that their channel can outlive them.
#pragma once

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

}  // namespace gemmd::client
