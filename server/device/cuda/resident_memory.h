// Planes that stay in a CUDA device's memory: how they come there, how they go, and what a D that
// stays is written into. They come and go on their callers' threads, over streams of their own,
// so that no product waits for them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "base/sync/mutex.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/backend/commands.h"
#include "server/device/cuda/launches/completion_watcher.h"
#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/planes/resident.h"
#include "server/device/cuda/planes/staging.h"
#include "server/device/device.h"
#include "server/device/host_buffer.h"
#include "server/device/memory_budget.h"

namespace gemmd {

// Thread-safe. Planes may outlive it, but not the budget.
class ResidentMemory {
 public:
  // All outlive it.
  struct Parts {
    std::shared_ptr<CudaBackend> backend;
    const LargeIssuer* large_issuer = nullptr;
    MemoryBudget* memory = nullptr;
    CompletionWatcher* watcher = nullptr;
  };
  // Resources that only landing and fetching use.
  struct Resources {
    CudaStream stream = nullptr;  // in whose order blocks of results that stay come and go
    std::unique_ptr<StagingRing> landing_ring;
    std::unique_ptr<CudaSlot> landing_slot;
    std::unique_ptr<CudaSlot> fetch_slot;
    HostBuffer fetch_slabs;  // pinned, of one size
  };

  ResidentMemory(Parts parts, Resources resources);
  ResidentMemory(const ResidentMemory&) = delete;
  ResidentMemory& operator=(const ResidentMemory&) = delete;

  // See the device's functions of these names (device.h).
  absl::StatusOr<std::shared_ptr<ResidentResult>> AllocateKept(const MatrixLayout& d);
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem,
                                                               WorkPlane plane, const void* data);
  absl::StatusOr<std::unique_ptr<ArrivingOperand>> BeginStore(const Problem& problem,
                                                              WorkPlane plane);
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreAgain(const ResidentOperand& operand,
                                                                    const Problem& problem,
                                                                    WorkPlane plane);
  absl::Status Fetch(const ResidentOperand& operand, void* to);

  // Bytes copied by Store() and Fetch().
  CopiedBytes copied() const { return {copied_in_bytes_, copied_out_bytes_}; }

 private:
  class Arrival;

  // A block for a plane of the problem that stays, with nothing in it. `scratch_bytes`: of a block
  // that it comes through; 0: it needs none.
  absl::StatusOr<std::unique_ptr<Arrival>> Begin(const Problem& problem, WorkPlane plane,
                                                 std::uint64_t scratch_bytes);
  // StoreAgain() of a packed plane, through the host: it has no kernel that unpacks.
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreUnpacked(
      const ResidentOperand& operand, const Problem& problem, WorkPlane plane);
  void CountCopied(const CopiedBytes& copied);

  const Parts parts_;
  const std::shared_ptr<EventPool> events_;
  const CudaStream stream_;
  const CudaStream landing_stream_;
  std::atomic<std::uint64_t> copied_in_bytes_ = 0;
  std::atomic<std::uint64_t> copied_out_bytes_ = 0;

  // Held while commands that land a plane are issued, not while they run.
  Mutex landing_;
  const std::unique_ptr<StagingRing> landing_ring_ ABSL_PT_GUARDED_BY(landing_);
  const std::unique_ptr<CudaSlot> landing_slot_ ABSL_PT_GUARDED_BY(landing_);
  // Held while a plane is fetched.
  Mutex fetching_;
  const std::unique_ptr<CudaSlot> fetch_slot_ ABSL_PT_GUARDED_BY(fetching_);
  const HostBuffer fetch_slabs_ ABSL_GUARDED_BY(fetching_);
};

}  // namespace gemmd
