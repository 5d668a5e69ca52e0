// The units that CPU kernels compute D in, and the memory that those at work at a time share.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sync/mutex.h"

namespace gemmd {

inline std::int64_t UnitsIn(std::int64_t size, std::int64_t unit) {
  return (size + unit - 1) / unit;
}
inline std::uint64_t RoundUpTo64(std::uint64_t value) { return (value + 63) / 64 * 64; }

// A part of D.
struct Unit {
  std::int64_t first_row;
  std::int64_t rows;
  std::int64_t first_column;
  std::int64_t columns;
};

// Numbers from 0 on, each with one owner at a time. REQUIRES: there are never more owners than
// numbers.
class SlotPool {
 public:
  explicit SlotPool(std::int64_t slots) {
    for (std::int64_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
  }

  std::int64_t Take() {
    const MutexLock lock(mutex_);
    const std::int64_t slot = free_.back();
    free_.pop_back();
    return slot;
  }

  void Give(std::int64_t slot) {
    const MutexLock lock(mutex_);
    free_.push_back(slot);
  }

 private:
  Mutex mutex_;
  std::vector<std::int64_t> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
