// The slots of a CUDA device: as many launches are in flight as there are.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "base/sync/mutex.h"
#include "server/device/cuda/backend/commands.h"

namespace gemmd {

// Thread-safe.
class CudaSlotPool {
 public:
  explicit CudaSlotPool(std::vector<std::unique_ptr<CudaSlot>> slots) : free_(std::move(slots)) {}
  CudaSlotPool(const CudaSlotPool&) = delete;
  CudaSlotPool& operator=(const CudaSlotPool&) = delete;

  // Null: none is free, or somebody waits for one.
  std::unique_ptr<CudaSlot> TryTake();
  // Waits for one. Null: the pool is closed, and none is free.
  std::unique_ptr<CudaSlot> Take();
  // Resets the slot, whose events are of no use from then on.
  void GiveBack(std::unique_ptr<CudaSlot> slot);
  // From now on nobody waits: slots that are out may never come back.
  void Close();

  // Those who wait in Take() now.
  int waiting() const {
    const MutexLock lock(mutex_);
    return waiting_;
  }

 private:
  std::unique_ptr<CudaSlot> TakeLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  CondVar is_free_;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::unique_ptr<CudaSlot>> free_ ABSL_GUARDED_BY(mutex_);
  bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gemmd
