#include "server/device/cuda/memory/slot_pool.h"

#include <utility>

namespace gemmd {

std::unique_ptr<CudaSlot> CudaSlotPool::TryTake() {
  const MutexLock lock(mutex_);
  return waiting_ == 0 ? TakeLocked() : nullptr;
}

std::unique_ptr<CudaSlot> CudaSlotPool::Take() {
  const MutexLock lock(mutex_);
  ++waiting_;
  while (free_.empty() && !is_closed_) is_free_.wait(mutex_);
  --waiting_;
  return TakeLocked();
}

std::unique_ptr<CudaSlot> CudaSlotPool::TakeLocked() {
  if (free_.empty()) return nullptr;
  std::unique_ptr<CudaSlot> slot = std::move(free_.back());
  free_.pop_back();
  return slot;
}

void CudaSlotPool::GiveBack(std::unique_ptr<CudaSlot> slot) {
  slot->Reset();
  {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(slot));
  }
  is_free_.notify_all();
}

void CudaSlotPool::Close() {
  {
    const MutexLock lock(mutex_);
    is_closed_ = true;
  }
  is_free_.notify_all();
}

}  // namespace gemmd
