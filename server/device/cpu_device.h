// The CPU as a device: the default where there is no GPU, so that everything runs and
// is tested anywhere. Host memory is its device memory: nothing is copied.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "server/device/device.h"
#include "server/device/host_memory_pool.h"
#include "server/device/launch_thread.h"
#include "server/device/thread_executor.h"

namespace gemmd {

class CpuDevice final : public Device {
 public:
  struct Options {
    int threads = 1;                 // at least 1
    std::uint64_t memory_bytes = 0;  // what requests may hold together
  };

  // Warms the kernels up and measures the roofline, which takes some milliseconds.
  CpuDevice(const Options& options, const Clock* clock);

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_->budget(); }
  // Operands and results are counted as they are allocated, until their last reader is done.
  Footprint FootprintOf(const Problem&, const Plan& plan, const Residency&) const override {
    return {0, plan.workspace_bytes};
  }
  // Products that go side by side have a workspace each.
  Footprint StackFootprintOf(const Problem& problem, const Stack& stack, const Plan& plan,
                             const Residency& resident) const override;
  Footprint GroupsFootprintOf(const DeviceWork& grouped, const Residency& resident) const override;
  HostMemoryLimits host_memory_limits() const override { return {true}; }
  absl::StatusOr<HostPiece> AllocateOperand(std::uint64_t bytes) override;
  absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d) override;
  int max_in_flight() const override { return 1; }
  // Kernels compute a tile's rows at a time, so fewer gain by company.
  BatchForm FormOf(const DeviceWork& work) const override;
  bool takes_stacks() const override { return true; }
  // In parts of what the plan's kernel computes as units of its own; of a stack, in products.
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) override;
  // A launch that may run on the caller's thread takes worker 0's part there.
  void Submit(DeviceLaunch launch, Callback done) override {
    thread_.Submit(std::move(launch), std::move(done));
  }

 private:
  void MeasureRoofline();
  DeviceResult Launch(const DeviceLaunch& launch);
  DeviceResult Run(const DeviceWork& work);
  DeviceResult RunSlices(const DeviceLaunch& launch);
  // Each of them on all cores.
  DeviceResult RunInTurn(const std::vector<DeviceWork>& works);
  // Each of them on one core, unless cores would go without.
  DeviceResult RunSideBySide(const std::vector<DeviceWork>& works);
  // Workspace is allocated here, as the config says.
  absl::Status RunKernel(const DeviceWork& work, const Config& config, ParallelExecutor* executor);
  // Returns whether the stack's products go side by side, each of them on one core.
  bool GoSideBySide(const Stack& stack) const {
    return !stack.is_one() && stack.count >= executor_.workers();
  }
  // An empty piece where the kernel needs none.
  absl::StatusOr<HostPiece> AllocateWorkspace(const DeviceWork& work, const Config& config);

  const Clock* const clock_;
  const std::shared_ptr<HostMemoryPool> memory_;  // outlived by what gRPC still sends
  ThreadExecutor executor_;                       // used by one launch at a time
  DeviceTraits traits_;                           // constant after construction
  LaunchThread thread_;                           // last: it uses all else
};

}  // namespace gemmd
