// A GPU as a device: a facade over its parts, which Start() puts together.
//
//   launch_queue.h        which way each launch takes: on its caller's thread, or the feeder's
//   completion_watcher.h  how launches end, and whether the device is lost
//   resident_memory.h     planes that stay
//   slot_pool.h           how many launches are in flight
//   host_pools.h          host memory for planes of requests
//
// The queue and the resident memory know the watcher, and nobody knows the queue. See
// small_issuer.h and large_issuer.h for the commands and landing.h for layouts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/device/cuda/backend/backend.h"
#include "server/device/cuda/launches/completion_watcher.h"
#include "server/device/cuda/launches/drain_ring.h"
#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/launches/launch_queue.h"
#include "server/device/cuda/memory/host_pools.h"
#include "server/device/cuda/memory/slot_pool.h"
#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/planes/staging.h"
#include "server/device/cuda/resident_memory.h"
#include "server/device/device.h"
#include "server/device/thread_executor.h"

namespace gemmd {

class CudaDevice final : public Device {
 public:
  struct Options {
    std::uint64_t memory_bytes = 0;       // of the device, that requests may hold together
    std::uint64_t pinned_bytes = 0;       // of the host, for operands and results
    std::uint64_t unpinned_bytes = 0;     // of the host, for what finds no room there
    int staging_threads = 1;              // gather large operands, and bring such results back
    int in_flight = 8;                    // works at a time
    std::uint64_t panel_bytes = 4 << 20;  // see CutIntoPanels()
    std::int64_t stall_timeout_ms = 30000;
    // Called once, on any thread, before works end for the loss.
    std::function<void(const absl::Status&)> on_lost = [](const absl::Status&) {};
  };

  // Takes all memory at once. The clock outlives the device.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(std::shared_ptr<CudaBackend> backend,
                                                            const Options& options,
                                                            const Clock* clock);
  // Finishes what was submitted.
  ~CudaDevice() override = default;

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  MemoryUsage host_memory_usage() const override { return host_->usage(); }
  HostMemoryLimits host_memory_limits() const override { return host_->limits(); }
  Problem Landed(const Problem& problem) const override { return LandedProblem(problem); }
  bool packs_weights() const override { return traits_.compute_capability == 90; }
  Footprint FootprintOf(const Problem& problem, const Plan& plan,
                        const Residency& resident) const override;
  Footprint StackFootprintOf(const Problem& problem, const Stack& stack, const Plan& plan,
                             const Residency& resident) const override;
  Footprint GroupsFootprintOf(const DeviceWork& grouped, const Residency& resident) const override;
  // Pinned memory where there is enough in one piece, else ordinary memory, which is slower
  // by what the copy through the staging ring takes.
  absl::StatusOr<HostPiece> AllocateOperand(std::uint64_t bytes) override;
  absl::StatusOr<HostPiece> AllocateOrdinaryOperand(std::uint64_t bytes) override {
    return host_->AllocateOrdinaryOperand(bytes);
  }
  absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d) override;
  absl::StatusOr<std::shared_ptr<const SharedMapping>> MapShared(int file, std::uint64_t offset,
                                                                 std::uint64_t bytes) override;
  absl::StatusOr<std::shared_ptr<const SharedMapping>> MapDeviceMemory(
      absl::string_view handle, std::uint64_t offset, std::uint64_t bytes) override;
  int max_in_flight() const override { return options_.in_flight; }
  // One computes while the next one's rows arrive.
  int busy_in_flight() const override { return std::min(2, options_.in_flight); }
  bool takes_stacks() const override { return true; }
  bool takes_groups() const override { return true; }
  BatchForm FormOf(const DeviceWork& work) const override { return queue_->FormOf(work); }
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) override {
    return queue_->Cut(work, slice_us);
  }
  void Submit(DeviceLaunch launch, Callback done) override;

  bool uses_host_memory() const override { return false; }
  // Ordinary memory, not counted here: an operand waits in it for its first use.
  absl::StatusOr<HostPiece> AllocateResident(std::uint64_t bytes) override;
  absl::StatusOr<std::shared_ptr<ResidentResult>> AllocateKept(const MatrixLayout& d) override;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> Store(const Problem& problem,
                                                               WorkPlane plane,
                                                               const void* data) override;
  absl::StatusOr<std::unique_ptr<ArrivingOperand>> BeginStore(const Problem& problem,
                                                              WorkPlane plane) override;
  absl::StatusOr<std::shared_ptr<const ResidentOperand>> StoreAgain(const ResidentOperand& operand,
                                                                    const Problem& problem,
                                                                    WorkPlane plane) override;
  absl::Status Fetch(const ResidentOperand& operand, void* to) override;
  CopiedBytes copied() const override;

  // Pinned memory that operands may come from without staging.
  const std::shared_ptr<PinnedPool>& pinned() const { return host_->large(); }

 private:
  CudaDevice(std::shared_ptr<CudaBackend> backend, const Options& options);
  absl::Status Start(const Clock* clock);
  // Slots for launches, and two more.
  absl::StatusOr<std::vector<std::unique_ptr<CudaSlot>>> MakeSlots();
  absl::StatusOr<std::unique_ptr<StagingRing>> MakeRing(std::uint64_t slabs,
                                                        ThreadExecutor* gatherers);
  absl::StatusOr<std::unique_ptr<DrainRing>> MakeDrains();

  const std::shared_ptr<CudaBackend> backend_;
  const Options options_;
  const DeviceTraits traits_;
  MemoryBudget memory_;
  ThreadExecutor gatherers_;  // for the feeder, and the ring of drains
  ThreadExecutor landing_gatherers_;

  // Constant after Start(). Each uses those above it: the queue ends first, then the ring of
  // drains, which gives launches to the watcher, and then this, which tells what was issued and
  // gives slots back.
  std::unique_ptr<HostPools> host_;
  std::unique_ptr<CudaSlotPool> slots_;
  std::unique_ptr<CompletionWatcher> watcher_;
  std::unique_ptr<DrainRing> drains_;
  std::unique_ptr<LargeIssuer> large_issuer_;
  std::unique_ptr<ResidentMemory> resident_;
  std::unique_ptr<LaunchQueue> queue_;
};

}  // namespace gemmd
