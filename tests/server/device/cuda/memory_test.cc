// The device over the allocator that a GPU has: blocks of one allocation, used again and again.
#include <algorithm>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/server/device/cuda/cuda_fixture.h"
#include "tests/server/device/cuda/reserved_fake_cuda.h"

namespace gemmd::testing {
namespace {

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
      // Memory is reserved as admission does it: no more than the budget has.
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
