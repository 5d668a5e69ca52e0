// Page-locked host memory in slabs of one size, all taken at start: where results land
// and leave from, and what operands pass through.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/cuda/backend.h"
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

  // `count` slabs, or none.
  // RESOURCE_EXHAUSTED: fewer are free now. INVALID_ARGUMENT: there are fewer in all.
  absl::StatusOr<HostBuffer> Take(std::uint64_t count);

  std::uint64_t slab_bytes() const { return slab_bytes_; }

  // Whether the bytes lie in the pool, so that a device reads them without staging.
  bool Contains(const void* data, std::uint64_t bytes) const;

  // Slabs taken count as in flight.
  MemoryUsage usage() const;

 private:
  PinnedPool(std::shared_ptr<CudaBackend> backend, char* memory, std::uint64_t slab_bytes,
             std::uint64_t slabs);
  void GiveBack(char* slab);

  const std::shared_ptr<CudaBackend> backend_;
  char* const memory_;
  const std::uint64_t slab_bytes_;
  const std::uint64_t slabs_;

  mutable std::mutex mutex_;
  std::vector<char*> free_;  // guarded by mutex_
};

}  // namespace gemmd
