// A bound of the bytes that threads work on at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/sync/mutex.h"

namespace gemmd {

// Thread-safe. One piece of work may be larger than the bound, and is alone then.
class BytesInFlight {
 public:
  explicit BytesInFlight(std::uint64_t most_bytes) : most_bytes_(most_bytes) {}

  // Waits until others leave room.
  void Enter(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    while (entered_ > 0 && bytes > most_bytes_ - std::min(bytes_, most_bytes_)) {
      left_.wait(mutex_);
    }
    ++entered_;
    bytes_ += bytes;
  }
  // Takes bytes off a piece that stays. REQUIRES: it entered with more.
  void Shrink(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    bytes_ -= bytes;
    left_.notify_all();
  }
  // REQUIRES: so many entered.
  void Leave(std::uint64_t bytes) {
    const MutexLock lock(mutex_);
    --entered_;
    bytes_ -= bytes;
    left_.notify_all();
  }

 private:
  const std::uint64_t most_bytes_;
  Mutex mutex_;
  CondVar left_;
  int entered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd
