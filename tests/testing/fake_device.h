// A device that launches nothing and finishes works when the test says so.
#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <utility>

#include "absl/types/span.h"
#include "base/sync/mutex.h"
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
  HostMemoryLimits host_memory_limits() const override { return host_limits; }
  absl::StatusOr<HostPiece> AllocateOrdinaryOperand(std::uint64_t bytes) override {
    ++ordinary_operands;
    return AllocateOperand(bytes);
  }

  // Filled with each byte's offset, the lowest 8 bits of it.
  absl::StatusOr<HostBuffer> AllocateResult(const MatrixLayout& d) override {
    HostBuffer pieces;
    const std::uint64_t bytes = d.size_bytes();
    for (std::uint64_t at = 0; at < bytes;) {
      HostPiece piece = AllocateHostBuffer(std::min(bytes - at, result_piece_bytes)).front();
      for (char& byte : absl::MakeSpan(piece.data, piece.size_bytes)) {
        byte = static_cast<char>(at++);
      }
      pieces.push_back(std::move(piece));
    }
    return pieces;
  }

  // Asked before the scheduler knows the job, and holds its lock.
  BatchForm FormOf(const DeviceWork&) const override {
    if (on_form) on_form();
    return BatchForm::kAlone;
  }

  void Submit(DeviceLaunch launch, Callback done) override {
    const MutexLock lock(mutex_);
    may_run_here_ += launch.may_run_here ? 1 : 0;
    running_.push_back({clock_->Now(), std::move(launch), std::move(done)});
    most_in_flight_ = std::max(most_in_flight_, running_.size());
  }

  // Finishes the oldest work; false if there is none.
  bool FinishOne(absl::Status status = absl::OkStatus()) {
    RelockableMutexLock lock(mutex_);
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
    const MutexLock lock(mutex_);
    return may_run_here_;
  }
  std::size_t running() const {
    const MutexLock lock(mutex_);
    return running_.size();
  }
  std::size_t most_in_flight() const {
    const MutexLock lock(mutex_);
    return most_in_flight_;
  }

  // Set before an admission is made of the device.
  HostMemoryLimits host_limits;
  int ordinary_operands = 0;  // allocated so far
  // Results come in pieces of so much, as page-locked memory does.
  std::uint64_t result_piece_bytes = std::numeric_limits<std::uint64_t>::max();
  // Called just before a job comes to its scheduler; set while nothing is submitted.
  std::function<void()> on_form;

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

  mutable Mutex mutex_;
  std::deque<Item> running_ ABSL_GUARDED_BY(mutex_);
  std::size_t most_in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  int may_run_here_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gemmd::testing
