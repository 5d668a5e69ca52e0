// Fixtures for the parts of a CUDA device, over a fake runtime.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "server/device/cuda/launches/completion_watcher.h"
#include "server/device/cuda/launches/drain_ring.h"
#include "server/device/cuda/launches/large_issuer.h"
#include "server/device/cuda/memory/host_pools.h"
#include "server/device/cuda/memory/slot_pool.h"
#include "server/device/cuda/planes/staging.h"
#include "server/device/cuda/resident_memory.h"
#include "server/device/thread_executor.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_cuda.h"

namespace gemmd::testing {

// Can keep from its caller that commands have happened.
class HeldCuda final : public FakeCuda {
 public:
  using FakeCuda::FakeCuda;

  void Hold() { is_held_ = true; }
  void Release() { is_held_ = false; }
  absl::StatusOr<bool> IsDone(CudaEvent event) override {
    if (is_held_) return false;
    return FakeCuda::IsDone(event);
  }

 private:
  std::atomic<bool> is_held_ = false;
};

class CudaPartsTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kMemory = 64 << 20;
  static constexpr std::uint64_t kStagingSlabs = 28;
  static constexpr std::uint64_t kDrainSlabs = 4;

  CudaPartsTest() {
    EXPECT_TRUE(cuda_->ReservePool(kMemory).ok());
    HostPools::Options options;
    options.pinned_bytes = 16 << 20;
    options.unpinned_bytes = 1 << 30;
    options.staging_slabs = kStagingSlabs;
    host_ = *HostPools::Create(cuda_, options);
    CudaStreams streams;
    for (CudaStream* stream : {&streams.copy_in, &streams.compute, &streams.copy_out}) {
      *stream = NewStream();
    }
    slots_ = std::make_unique<CudaSlotPool>(std::vector<std::unique_ptr<CudaSlot>>());
    CompletionWatcher::Options watching;
    watching.device = "cuda:0";
    watching.stall_timeout_ms = 1000;
    watching.on_lost = [this](const absl::Status& status) {
      lost_ = std::string(status.message());
      ++losses_;
      slots_->Close();
    };
    watcher_ = std::make_unique<CompletionWatcher>(cuda_, std::move(watching), &clock_);
    drains_ =
        *DrainRing::Create(cuda_.get(), *host_->staging().Take(kDrainSlabs), &gatherers_,
                           [this](CudaEvent event) { return watcher_->WaitUntilDone(event); });
    large_issuer_ =
        std::make_unique<LargeIssuer>(cuda_.get(), host_->pinned(), streams, drains_.get());
  }

  CudaStream NewStream() { return *cuda_->CreateStream(StreamPriority::kNormal); }
  std::unique_ptr<CudaSlot> NewSlot() {
    return *CudaSlot::Create(cuda_.get(), std::move(host_->staging().Take(1)->front()));
  }
  std::unique_ptr<StagingRing> NewRing(std::uint64_t slabs) {
    return *StagingRing::Create(cuda_.get(), *host_->staging().Take(slabs), &gatherers_,
                                [this](CudaEvent event) { return watcher_->WaitUntilDone(event); });
  }
  // Its planes come back through these slabs.
  std::unique_ptr<ResidentMemory> NewResidentMemory(HostBuffer fetch_slabs) {
    ResidentMemory::Resources resources;
    resources.stream = NewStream();
    resources.landing_ring = NewRing(4);
    resources.landing_slot = NewSlot();
    resources.fetch_slot = NewSlot();
    resources.fetch_slabs = std::move(fetch_slabs);
    return std::make_unique<ResidentMemory>(
        ResidentMemory::Parts{cuda_, large_issuer_.get(), &memory_, watcher_.get()},
        std::move(resources));
  }
  // Returns whether all blocks are given back, once the streams have done what they were given.
  bool AllIsFree() {
    const CudaEvent looked = *cuda_->CreateEvent();
    constexpr int kLooks = 10000;
    for (int i = 0; i < kLooks && cuda_->allocated_bytes() != 0; ++i) {
      cuda_->IsDone(looked).status().IgnoreError();
    }
    return cuda_->allocated_bytes() == 0;
  }

  const std::shared_ptr<HeldCuda> cuda_ = std::make_shared<HeldCuda>(1);
  FakeClock clock_;
  ThreadExecutor gatherers_{2};
  MemoryBudget memory_{kMemory};
  std::string lost_;
  std::atomic<int> losses_ = 0;
  std::unique_ptr<HostPools> host_;
  std::unique_ptr<CudaSlotPool> slots_;
  std::unique_ptr<CompletionWatcher> watcher_;
  std::unique_ptr<DrainRing> drains_;
  std::unique_ptr<LargeIssuer> large_issuer_;
};

}  // namespace gemmd::testing
