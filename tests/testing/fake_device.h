// A device that launches nothing and finishes works when the test says so.
#pragma once

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "server/device/device.h"

namespace gemmd::testing {

// Thread-safe.
class FakeDevice final : public Device {
 public:
  FakeDevice(const Clock* clock, std::uint64_t memory_bytes, int max_in_flight,
             DeviceKind kind = DeviceKind::kCpu)
      : clock_(clock), memory_(memory_bytes), max_in_flight_(max_in_flight) {
    traits_.name = "fake";
    traits_.kind = kind;
    traits_.f32_gflops = 1;
    traits_.memory_gbps = 1;
  }

  const DeviceTraits& traits() const override { return traits_; }
  MemoryBudget& memory() override { return memory_; }
  int max_in_flight() const override { return max_in_flight_; }

  void Submit(DeviceLaunch launch, Callback done) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    may_run_here_ += launch.may_run_here ? 1 : 0;
    running_.push_back({clock_->Now(), std::move(launch), std::move(done)});
    most_in_flight_ = std::max(most_in_flight_, running_.size());
  }

  // Finishes the oldest work; false if there is none.
  bool FinishOne(absl::Status status = absl::OkStatus()) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (running_.empty()) return false;
    Item item = std::move(running_.front());
    running_.pop_front();
    lock.unlock();
    DeviceResult result;
    result.status = std::move(status);
    result.spans.push_back({Stage::kCompute, item.start, clock_->Now()});
    std::move(item.done)(std::move(result));
    return true;
  }

  // Launches that could have run on their submitters' threads.
  int may_run_here() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return may_run_here_;
  }
  std::size_t running() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return running_.size();
  }
  std::size_t most_in_flight() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return most_in_flight_;
  }

 private:
  struct Item {
    TimeNs start = 0;
    DeviceLaunch launch;
    Callback done;
  };

  const Clock* const clock_;
  MemoryBudget memory_;
  const int max_in_flight_;
  DeviceTraits traits_;

  mutable std::mutex mutex_;
  std::deque<Item> running_;
  std::size_t most_in_flight_ = 0;
  int may_run_here_ = 0;
};

}  // namespace gemmd::testing
