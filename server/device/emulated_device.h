// GPU kernels on the CPU, every memory access checked: what a server offers to somebody
// who writes kernels, and to CI. Thousands of times slower than a GPU.
#pragma once

#include <memory>
#include <utility>

#include "server/device/device.h"
#include "server/device/launch_thread.h"

namespace gemmd {

class EmulatedDevice final : public Device {
 public:
  EmulatedDevice(std::uint64_t memory_bytes, const Clock* clock);

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return 1; }

  // Lines padded to 16 bytes, as TMA and 16-byte copies need them; quantized operands that are
  // decoded lie as they were sent.
  Problem Landed(const Problem& problem) const override;
  // It packs them anew for each product.
  bool packs_weights() const override { return true; }

  // The form is that of a GPU, so that its kernels meet batches wherever there is none.
  BatchForm FormOf(const DeviceWork& work) const override;
  std::shared_ptr<SlicedWork> Cut(const DeviceWork& work, double slice_us) override;

  void Submit(DeviceLaunch launch, Callback done) override {
    thread_.Submit(std::move(launch), std::move(done));
  }

 private:
  DeviceResult Launch(const DeviceLaunch& launch);
  DeviceResult Run(const DeviceWork& work) const;

  const Clock* const clock_;
  MemoryBudget memory_;
  DeviceTraits traits_;
  LaunchThread thread_;  // last: it uses all else
};

}  // namespace gemmd
