// One allocation of the device's memory, handed out in stream-ordered blocks.
//
// If CUDA's own stream-ordered pool finds a freed block that is still in use, it makes the new
// stream wait for it even when other memory is free: copies in then waited for copies out, a
// seventh of the time of large products. Here a stream waits only where nothing else is left.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/cuda/backend/backend.h"

namespace gemmd {

// Thread-safe. Blocks that stay come from one end and others from the other, so that they do
// not cut each other's free memory to pieces.
class ReservedMemory {
 public:
  // `memory` of `bytes` is aligned to 256 bytes. It uses the events of the backend, which outlives
  // this.
  ReservedMemory(CudaBackend* backend, void* memory, std::uint64_t bytes);

  // See CudaBackend. RESOURCE_EXHAUSTED: there is no such piece.
  absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life);
  // INTERNAL: it is no block.
  absl::Status Free(void* memory, CudaStream stream);

  // In no block, whether or not it is in use still.
  std::uint64_t free_bytes() const;

 private:
  // Recorded in the stream that freed it; kept for reuse once no range needs it.
  using Event = std::shared_ptr<CUevent_st>;
  struct Range {
    std::uint64_t bytes = 0;
    Event freed;  // null: it is no longer in use
  };
  // Neighbouring ranges, from `first` to before `last`, of `bytes` together.
  using Ranges = std::map<std::uint64_t, Range>;
  struct Run {
    Ranges::iterator first;
    Ranges::iterator last;
    std::uint64_t bytes = 0;
  };

  absl::StatusOr<Event> NewEventLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Joins what is no longer in use.
  absl::Status SettleLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs that hold `bytes`: of what is not in use, or else of what may be.
  bool FindLocked(std::uint64_t bytes, BlockLife life, bool may_be_in_use, Run* found)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Cuts the bytes out of the run.
  std::uint64_t TakeLocked(const Run& run, std::uint64_t bytes, BlockLife life)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  CudaBackend* const backend_;
  char* const memory_;

  mutable Mutex mutex_;
  std::vector<CudaEvent> spare_events_ ABSL_GUARDED_BY(mutex_);
  Ranges free_ ABSL_GUARDED_BY(mutex_);  // by offset
  // Bytes by offset.
  std::unordered_map<std::uint64_t, std::uint64_t> taken_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gemmd
