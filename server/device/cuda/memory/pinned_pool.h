// Page-locked host memory in slabs of one size, all taken at start: where results land
// and leave from, and what operands pass through.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/host_buffer.h"
#include "server/device/memory_budget.h"

namespace gemmd {

// Thread-safe. Pieces keep the pool alive, so that a slow reader may hold them longer than
// the device lives.
class PinnedPool : public std::enable_shared_from_this<PinnedPool> {
 public:
  static absl::StatusOr<std::shared_ptr<PinnedPool>> Create(std::shared_ptr<CudaBackend> backend,
                                                            std::uint64_t slab_bytes,
                                                            std::uint64_t slabs);
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // `count` slabs, or none; the lowest addresses first, so that neighbours in a result are
  // neighbours in memory while the pool is not fragmented.
  // RESOURCE_EXHAUSTED: fewer are free now. INVALID_ARGUMENT: there are fewer in all.
  absl::StatusOr<HostBuffer> Take(std::uint64_t count);

  // Neighbouring slabs that hold so many bytes in one piece. Empty: nowhere are enough of
  // them free.
  std::optional<HostPiece> TakeInOnePiece(std::uint64_t bytes);

  std::uint64_t slab_bytes() const { return slab_bytes_; }
  std::uint64_t total_bytes() const { return slabs_ * slab_bytes_; }

  // Returns whether the bytes lie in the pool, so that a device reads them without staging.
  bool Contains(const void* data, std::uint64_t bytes) const;

  // Slabs taken count as in flight.
  MemoryUsage usage() const;

 private:
  PinnedPool(std::shared_ptr<CudaBackend> backend, char* memory, std::uint64_t slab_bytes,
             std::uint64_t slabs);
  // Shares the slabs from that one on.
  std::shared_ptr<void> Own(char* slab, std::uint64_t count);
  void GiveBack(char* slab, std::uint64_t count);
  // Takes `count` free neighbours and returns the first one's number; slabs_: there are none.
  std::uint64_t TakeLocked(std::uint64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::shared_ptr<CudaBackend> backend_;
  char* const memory_;
  const std::uint64_t slab_bytes_;
  const std::uint64_t slabs_;

  mutable AdaptiveMutex mutex_;
  // Bits, because each small request takes two slabs.
  std::vector<std::uint64_t> free_ ABSL_GUARDED_BY(mutex_);  // slab 64 i + j: bit j of word i
  std::uint64_t free_count_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t first_free_ ABSL_GUARDED_BY(mutex_) = 0;  // no slab before it is free
};

}  // namespace gemmd
