#include "server/device/cuda/launches/launch_queue.h"

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/device/cuda/planes/landing.h"
#include "server/device/cuda/traits.h"
#include "tests/server/device/cuda/parts.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference_kernel.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::Operands;

class LaunchQueueTest : public testing::CudaPartsTest {
 protected:
  // One slot, so that a second launch waits.
  LaunchQueueTest() {
    slots_->GiveBack(NewSlot());
    queue_ = std::make_unique<LaunchQueue>(
        LaunchQueue::Parts{cuda_, &traits_, host_->pinned(), large_issuer_.get(), drains_.get(),
                           &memory_, slots_.get(), watcher_.get()},
        NewRing(8), std::uint64_t{64} << 10);
  }

  struct Product {
    Product(const Problem& given, std::uint32_t seed)
        : problem(given), operands(given, Distribution::kNormal, seed) {}
    Problem problem;
    Operands operands;
    HostBuffer d;
    std::future<DeviceResult> ended;
  };

  std::unique_ptr<Product> Submit(const Problem& problem, std::uint32_t seed) {
    auto product = std::make_unique<Product>(problem, seed);
    product->d = *host_->AllocateResult(problem.d);
    DeviceWork work;
    work.problem = problem;
    work.plan = *Select(registry_, LandedProblem(problem), traits_);
    work.buffers[WorkPlane::kA] = product->operands.a.data();
    work.buffers[WorkPlane::kB] = product->operands.b.data();
    work.buffers.d = product->d;
    std::promise<DeviceResult> promise;
    product->ended = promise.get_future();
    queue_->Submit(std::move(work), [promise = std::move(promise)](DeviceResult result) mutable {
      promise.set_value(std::move(result));
    });
    return product;
  }
  static bool HasEnded(const Product& product) {
    return product.ended.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  // Returns an error in the product; empty if there is none.
  static std::string Check(Product* product) {
    const DeviceResult result = product->ended.get();
    if (!result.status.ok()) return result.status.ToString();
    char* to = product->operands.d.data();
    for (const HostPiece& piece : product->d) {
      std::memcpy(to, piece.data, piece.size_bytes);
      to += piece.size_bytes;
    }
    return CompareWithReference(product->problem, product->operands);
  }

  static Registry MakeRegistry() {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::make_unique<testing::ReferenceKernel>());
    return Registry(std::move(kernels));
  }

  const Registry registry_ = MakeRegistry();
  const DeviceTraits traits_ = TraitsOf(cuda_->properties());
  const Problem small_ = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  const Problem large_ = MakeProblem(3000, 4, 200, DataType::kF32, DataType::kF32);
  std::unique_ptr<LaunchQueue> queue_;
};

TEST_F(LaunchQueueTest, ASmallWorkIsIssuedBeforeSubmitReturns) {
  cuda_->Hold();
  const std::unique_ptr<Product> product = Submit(small_, 1);
  EXPECT_TRUE(watcher_->lost().ok());
  EXPECT_EQ(slots_->TryTake(), nullptr);  // the work has it
  EXPECT_GT(cuda_->allocated_bytes(), 0U);
  cuda_->Release();
  EXPECT_EQ(Check(product.get()), "");
  EXPECT_NE(slots_->TryTake(), nullptr);
}

TEST_F(LaunchQueueTest, ALargeWorkGoesThroughTheFeeder) {
  const std::unique_ptr<Product> product = Submit(large_, 2);
  EXPECT_EQ(Check(product.get()), "");
  EXPECT_GE(watcher_->copied().in, large_.a.size_bytes());
}

TEST_F(LaunchQueueTest, WithoutASlotAWorkWaits) {
  std::unique_ptr<CudaSlot> slot = slots_->TryTake();
  const std::unique_ptr<Product> product = Submit(small_, 3);
  EXPECT_FALSE(HasEnded(*product));
  slots_->GiveBack(std::move(slot));
  EXPECT_EQ(Check(product.get()), "");
}

TEST_F(LaunchQueueTest, ALossEndsWhatWaitsForASlot) {
  const std::unique_ptr<CudaSlot> slot = slots_->TryTake();
  const std::unique_ptr<Product> first = Submit(small_, 4);
  const std::unique_ptr<Product> second = Submit(large_, 5);
  watcher_->Noticed(absl::UnavailableError("gone")).IgnoreError();
  for (const auto* product : {&first, &second}) {
    EXPECT_EQ((*product)->ended.get().status.message(), "device cuda:0 is lost: gone");
  }
  EXPECT_EQ(losses_, 1);
}

TEST_F(LaunchQueueTest, WhatFindsNoMemoryIsIssuedAgain) {
  slots_->GiveBack(NewSlot());
  cuda_->Hold();
  const std::unique_ptr<Product> first = Submit(small_, 6);
  // The try on this thread fails: the feeder takes over.
  cuda_->FailCall("Allocate", absl::ResourceExhaustedError("fragments"));
  const std::unique_ptr<Product> second = Submit(small_, 7);
  cuda_->Release();
  EXPECT_EQ(Check(first.get()), "");
  EXPECT_EQ(Check(second.get()), "");
  EXPECT_EQ(losses_, 0);
}

TEST_F(LaunchQueueTest, WhatWasSubmittedIsFinishedThoughTheQueueIsGone) {
  std::vector<std::unique_ptr<Product>> products;
  for (std::uint32_t i = 0; i < 4; ++i) products.push_back(Submit(i % 2 == 0 ? large_ : small_, i));
  queue_.reset();
  watcher_.reset();
  for (const std::unique_ptr<Product>& product : products) {
    ASSERT_TRUE(HasEnded(*product));
    EXPECT_EQ(Check(product.get()), "");
  }
  EXPECT_TRUE(AllIsFree());
}

}  // namespace
}  // namespace gemmd
