// The CPU as a device: the default where there is no GPU, so that everything runs and
// is tested anywhere. Host memory is its device memory: nothing is copied.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "server/device/device.h"
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

  // Finishes what was submitted.
  ~CpuDevice() override;

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return 1; }
  void Submit(DeviceWork work, Callback done) override;

 private:
  struct Item {
    DeviceWork work;
    Callback done;
  };

  void Loop();
  DeviceResult Launch(const DeviceWork& work);

  const Clock* const clock_;
  MemoryBudget memory_;
  ThreadExecutor executor_;  // used by the launching thread alone
  DeviceTraits traits_;      // constant after construction

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;  // guarded by mutex_
  bool stopping_ = false;   // guarded by mutex_

  std::thread thread_;  // last: started when all else exists
};

}  // namespace gemmd
