// The device over the allocator that a GPU has: blocks of one allocation, used again and again.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/device/cuda/reserved_memory.h"
#include "tests/server/device/cuda_fixture.h"

namespace gemmd::testing {
namespace {

class ReservedFakeCuda final : public FakeCuda {
 public:
  // Without poison a block has the bytes of who had it before.
  explicit ReservedFakeCuda(std::uint32_t seed, bool poisons = true)
      : FakeCuda(seed), poisons_(poisons) {}

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
    given_bytes_ += bytes;
    if (!poisons_) return block;
    if (absl::Status s = Launch(poison, stream); !s.ok()) return s;
    return block;
  }
  absl::Status Free(void* memory, CudaStream stream) override {
    return memory_->Free(memory, stream);
  }

  // How often the whole was given out.
  std::uint64_t rounds() const { return given_bytes_ / bytes_; }

 private:
  const bool poisons_;
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

// One tenant's operands are NaN, byte by byte, and so are its results; another's products of the
// same shapes follow in the same blocks and the same pinned memory. Whatever of the first one they
// read makes NaN of a result, and where a line has room for more than its numbers, what is sent is
// 0.
TEST_F(CudaDeviceTest, AnotherTenantsBytesAreInNoResult) {
  constexpr char kNan = '\xff';
  const std::pair<DataType, DataType> types[] = {{DataType::kF32, DataType::kF32},
                                                 {DataType::kF16, DataType::kF16},
                                                 {DataType::kInt8, DataType::kF32},
                                                 {DataType::kFp8E4M3, DataType::kF32}};
  const auto cuda = std::make_shared<ReservedFakeCuda>(3, false);
  StartOver(cuda, 2 * kMiB);
  int compared = 0;
  for (const auto& [type, output] : types) {
    std::uint32_t seed = 0;
    for (const Problem& problem : SmallProblems(type, output)) {
      if (++seed % 5 != 0) continue;
      Operands marked(problem, Distribution::kNormal, seed);
      for (PlaneBytes* plane : {&marked.a, &marked.b, &marked.c, &marked.bias}) {
        std::fill(plane->begin(), plane->end(), kNan);
      }
      {
        const DeviceWork work = MakeWork(problem, marked);
        for (const HostPiece& piece : work.buffers.d) {
          std::fill_n(piece.data, piece.size_bytes, kNan);
        }
        ASSERT_TRUE(Submit(work).get().status.ok());
      }
      Operands operands(problem, Distribution::kNormal, seed);
      const DeviceWork work = MakeWork(problem, operands);
      ASSERT_TRUE(Submit(work).get().status.ok());
      ClearPadding(problem.d, work.buffers.d);  // as whoever sends it does
      CopyOut(work.buffers.d, &operands.d);
      ASSERT_EQ(CompareWithReference(problem, operands), "") << ToString(problem);
      const std::string bytes(operands.d.begin(), operands.d.end());
      EXPECT_EQ(bytes.find(std::string(8, kNan)), std::string::npos) << ToString(problem);
      ++compared;
    }
  }
  EXPECT_GT(compared, 20);
  EXPECT_GT(cuda->rounds(), 1U);
}

}  // namespace
}  // namespace gemmd::testing
