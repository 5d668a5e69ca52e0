// The device over the allocator that a GPU has: blocks of one allocation, used again and again.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "server/device/cuda/reserved_memory.h"
#include "tests/server/device/cuda_fixture.h"

namespace gemmd::testing {
namespace {

class ReservedFakeCuda final : public FakeCuda {
 public:
  explicit ReservedFakeCuda(std::uint32_t seed) : FakeCuda(seed) {}

  absl::Status ReservePool(std::uint64_t bytes) override {
    if (absl::Status s = FakeCuda::ReservePool(bytes); !s.ok()) return s;
    const absl::StatusOr<CudaStream> stream = CreateStream(StreamPriority::kNormal);
    const absl::StatusOr<void*> all = FakeCuda::Allocate(bytes, *stream, BlockLife::kStays);
    if (!all.ok()) return all.status();
    const CudaEvent poisoned = *CreateEvent();
    if (absl::Status s = Record(poisoned, *stream); !s.ok()) return s;
    while (!*IsDone(poisoned)) {
    }
    memory_ = std::make_unique<ReservedMemory>(this, *all, bytes);
    bytes_ = bytes;
    return absl::OkStatus();
  }
  absl::StatusOr<void*> Allocate(std::uint64_t bytes, CudaStream stream, BlockLife life) override {
    absl::StatusOr<void*> block = memory_->Allocate(bytes, stream, life);
    if (!block.ok()) return block;
    // Whoever still reads or writes the block, for want of a wait, is found out.
    const auto poison = [data = static_cast<char*>(*block), bytes](const LaunchTarget&) {
      std::fill_n(data, bytes, 'p');
      return absl::OkStatus();
    };
    if (absl::Status s = Launch(poison, stream); !s.ok()) return s;
    given_bytes_ += bytes;
    return block;
  }
  absl::Status Free(void* memory, CudaStream stream) override {
    return memory_->Free(memory, stream);
  }

  // How often the whole was given out.
  std::uint64_t rounds() const { return given_bytes_ / bytes_; }

 private:
  std::unique_ptr<ReservedMemory> memory_;
  std::uint64_t bytes_ = 1;
  std::atomic<std::uint64_t> given_bytes_{0};
};

TEST_F(CudaDeviceTest, ProductsAreRightWhereMemoryIsUsedAgain) {
  for (std::uint32_t seed = 1; seed <= 4; ++seed) {
    const auto cuda = std::make_shared<ReservedFakeCuda>(seed);
    StartOver(cuda, 700 << 10);
    std::mt19937 random(seed);
    struct Product {
      Problem problem;
      std::unique_ptr<Operands> operands;
      HostBuffer d;
      MemoryReservation reservation;
      std::future<DeviceResult> result;
    };
    std::vector<Product> products;
    const auto finish = [&](Product& product) {
      const DeviceResult result = product.result.get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      CopyOut(product.d, &product.operands->d);
      EXPECT_EQ(CompareWithReference(product.problem, *product.operands), "") << "seed " << seed;
    };
    for (int i = 0; i < 25; ++i) {
      const bool is_large = random() % 3 == 0;
      const std::int64_t size = is_large ? 150 + random() % 60 : 1 + random() % 60;
      Product product;
      product.problem = MakeProblem(size, size, 40, DataType::kF32, DataType::kF32);
      product.operands = std::make_unique<Operands>(product.problem, Distribution::kNormal, i);
      DeviceWork work = MakeWork(product.problem, *product.operands);
      product.d = work.buffers.d;
      const Footprint footprint = device_->FootprintOf(product.problem, work.plan, {});
      // As admission does: no more than the budget has.
      absl::StatusOr<MemoryReservation> reservation =
          device_->memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
      while (!reservation.ok()) {
        ASSERT_FALSE(products.empty());
        finish(products.front());
        products.erase(products.begin());
        reservation =
            device_->memory().Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
      }
      product.reservation = *std::move(reservation);
      product.result = Submit(std::move(work));
      products.push_back(std::move(product));
    }
    for (Product& product : products) finish(product);
    EXPECT_GT(cuda->rounds(), 1U);
  }
}

}  // namespace
}  // namespace gemmd::testing
