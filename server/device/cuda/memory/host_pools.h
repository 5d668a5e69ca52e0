// Host memory for planes of requests in flight: slabs of pinned memory, small and large, and
// ordinary memory for operands that find none, and for results that these never hold.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/memory/pinned_pool.h"
#include "server/device/device.h"
#include "server/device/host_memory_pool.h"

namespace gemmd {

// Thread-safe; each pool has its own lock.
class HostPools {
 public:
  struct Options {
    std::uint64_t pinned_bytes = 0;    // for operands and results
    std::uint64_t unpinned_bytes = 0;  // for what finds no room there
    std::uint64_t staging_slabs = 0;   // beside them, large ones
  };

  static absl::StatusOr<std::unique_ptr<HostPools>> Create(
      const std::shared_ptr<CudaBackend>& backend, const Options& options);

  // Pinned memory where there is enough in one piece, else ordinary memory.
  absl::StatusOr<HostPiece> AllocateOperand(std::uint64_t bytes);
  absl::StatusOr<HostPiece> AllocateOrdinaryOperand(std::uint64_t bytes);
  // Pinned memory, or for a D that is larger than all of it one piece of ordinary memory: D is
  // sent from there, and whoever waits for pinned memory gets it soon.
  absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d);

  MemoryUsage usage() const;
  HostMemoryLimits limits() const;

  // Pools whose memory operands may come from without staging, and results go to.
  std::vector<const PinnedPool*> pinned() const { return {large_.get(), small_.get()}; }
  const std::shared_ptr<PinnedPool>& large() const { return large_; }
  // The pool of the device's own slots and rings, which keep their memory for good.
  PinnedPool& staging() { return *staging_; }

 private:
  explicit HostPools(std::uint64_t unpinned_bytes)
      : unpinned_(HostMemoryPool::Create(unpinned_bytes)) {}

  const std::shared_ptr<HostMemoryPool> unpinned_;
  std::shared_ptr<PinnedPool> small_;  // constant after Create(), like the next two
  std::shared_ptr<PinnedPool> large_;
  std::shared_ptr<PinnedPool> staging_;
};

}  // namespace gemmd
