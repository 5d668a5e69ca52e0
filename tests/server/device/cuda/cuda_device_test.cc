#include "server/device/cuda/cuda_device.h"

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/device/cuda/warm_up.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::Distribution;
using testing::FakeCuda;
using testing::kMiB;
using testing::Operands;

TEST_F(CudaDeviceTest, EveryLayoutTypeAndEpilogueComesBackRight) {
  Start(1);
  const std::pair<DataType, DataType> types[] = {
      {DataType::kF32, DataType::kF32},   {DataType::kTf32, DataType::kF32},
      {DataType::kBf16, DataType::kBf16}, {DataType::kInt8, DataType::kInt32},
      {DataType::kInt8, DataType::kF32},  {DataType::kFp8E4M3, DataType::kBf16}};
  for (const auto& [type, output_type] : types) {
    std::uint32_t seed = 0;
    for (const Problem& problem : testing::SmallProblems(type, output_type)) {
      // One problem in three, walking through the variants.
      if (++seed % 3 != 0) continue;
      EXPECT_EQ(Compute(problem, seed), "");
    }
  }
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);
}

// Panels travel over three streams; a missing wait between them gives a wrong result for some seed.
TEST_F(CudaDeviceTest, LargeOperandsTravelInPanels) {
  Problem tall = MakeProblem(1024, 8, 70, DataType::kF32, DataType::kF32);
  tall.epilogue.beta = 2;
  tall.epilogue.has_bias = true;
  const Problem tall_by_columns = MakeProblem(1200, 6, 50, DataType::kF32, DataType::kF32, true);
  const Problem wide = MakeProblem(8, 1500, 60, DataType::kF32, DataType::kF32);
  Problem wide_by_columns = wide;
  wide_by_columns.b.order = Order::kColumnMajor;
  wide_by_columns.b.leading_dimension = 63;
  wide_by_columns.d.order = Order::kColumnMajor;
  wide_by_columns.d.leading_dimension = 11;
  const Problem big_result = MakeProblem(400, 300, 3, DataType::kF32, DataType::kF32);
  for (std::uint32_t seed = 0; seed < 20; ++seed) {
    Start(seed);
    for (const Problem& problem : {tall, tall_by_columns, wide, wide_by_columns, big_result}) {
      EXPECT_EQ(Compute(problem, seed), "") << "seed " << seed;
    }
    EXPECT_GE(cuda_->most_busy_streams(), 3u);
    EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, 0u);
  }
}

TEST_F(CudaDeviceTest, PanelsOfWhatIsTransposedOnLanding) {
  Start(3);
  const Problem problem = MakeProblem(2500, 5, 64, DataType::kInt8, DataType::kInt32, true);
  EXPECT_FALSE(problem.a_is_k_major());
  const Problem landed = LandedProblem(problem);
  EXPECT_TRUE(landed.a_is_k_major());
  const Plan plan = *Select(registry_, landed, device_->traits());
  ASSERT_EQ(CutIntoPanels(landed, {}, plan, 64 << 10).size(), 2u);
  EXPECT_EQ(Compute(problem, 1), "");
}

// They come as the client laid them out, so what pads them is zeroed on the device.
TEST_F(CudaDeviceTest, OperandsInPinnedMemoryAreReadInPlace) {
  Start(14);
  const Problem problem = MakeProblem(4500, 5, 70, DataType::kInt8, DataType::kInt32, false, true);
  ASSERT_FALSE(IsTransposed(problem.a, LandedProblem(problem).a));
  Operands operands(problem, testing::Distribution::kNormal, 1);
  const HostBuffer pinned = *device_->pinned()->Take(2);
  std::memcpy(pinned[0].data, operands.a.data(), operands.a.size());
  std::memcpy(pinned[1].data, operands.b.data(), operands.b.size());
  DeviceWork work = MakeWork(problem, operands);
  work.buffers[WorkPlane::kA] = pinned[0].data;
  work.buffers[WorkPlane::kB] = pinned[1].data;
  const DeviceResult result = Submit(work).get();
  ASSERT_TRUE(result.status.ok()) << result.status;
  CopyOut(work.buffers.d, &operands.d);
  EXPECT_EQ(CompareWithReference(problem, operands), "");
}

TEST_F(CudaDeviceTest, OperandsLieInOnePinnedPieceWhileThereIsOne) {
  Start(15);
  const std::shared_ptr<PinnedPool>& pool = device_->pinned();
  const std::uint64_t slab = pool->slab_bytes();
  std::vector<HostPiece> singles;
  for (std::uint64_t i = 0; i < pool->total_bytes() / slab; ++i) {
    singles.push_back(*device_->AllocateOperand(slab));
  }
  // Every second slab is free: no two neighbours.
  for (std::size_t i = 0; i < singles.size(); i += 2) singles[i] = {};
  HostPiece ordinary = *device_->AllocateOperand(slab + 1);
  EXPECT_FALSE(pool->Contains(ordinary.data, ordinary.size_bytes));
  ordinary = {};
  singles[5] = {};
  const HostPiece pinned = *device_->AllocateOperand(3 * slab);
  EXPECT_EQ(pinned.size_bytes, 3 * slab);
  EXPECT_TRUE(pool->Contains(pinned.data, pinned.size_bytes));
  singles.clear();
  EXPECT_EQ(pool->usage().in_flight_bytes, 3 * slab);
}

TEST_F(CudaDeviceTest, OrdinaryMemoryForOperandsIsBounded) {
  Start(16);
  constexpr std::uint64_t kUnpinned = std::uint64_t{1} << 30;  // as the fixture has it
  EXPECT_EQ(device_->AllocateOperand(kUnpinned + 1).status().code(),
            absl::StatusCode::kInvalidArgument);
  absl::StatusOr<HostPiece> large = device_->AllocateOperand(kUnpinned - 1);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ(device_->AllocateOperand(kUnpinned / 2).status().code(),
            absl::StatusCode::kResourceExhausted);
  *large = {};
  EXPECT_TRUE(device_->AllocateOperand(kUnpinned / 2).ok());
}

TEST_F(CudaDeviceTest, ALineLongerThanASlabIsCut) {
  Start(4);
  EXPECT_EQ(Compute(MakeProblem(2, 300000, 2, DataType::kF32, DataType::kF32), 1), "");
  EXPECT_EQ(Compute(MakeProblem(2, 1, 600000, DataType::kF64, DataType::kF64), 2), "");
}

TEST_F(CudaDeviceTest, SpansFollowOneAnotherAndEndBeforeTheCallback) {
  Start(5);
  const Problem problem = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  const Operands operands(problem, testing::Distribution::kNormal, 1);
  const DeviceResult result = Submit(MakeWork(problem, operands)).get();
  ASSERT_EQ(result.spans.size(), 3u);
  EXPECT_EQ(result.spans[0].stage, Stage::kCopyIn);
  EXPECT_EQ(result.spans[1].stage, Stage::kCompute);
  EXPECT_EQ(result.spans[2].stage, Stage::kCopyOut);
  for (const StageSpan& span : result.spans) EXPECT_LT(span.start, span.end);
  EXPECT_EQ(result.spans[0].end, result.spans[1].start);
  EXPECT_LE(result.spans[2].end, clock_.Now());
}

TEST_F(CudaDeviceTest, AStoredOperandComesBackAsItWas) {
  Start(17);
  const auto check = [this](DataType type, std::int64_t k, std::int64_t n, bool transpose) {
    const Problem problem = MakeProblem(3, n, k, type, DefaultOutputType(type), false, transpose);
    std::string bytes(problem.b.size_bytes(), '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * i / 7 + i);
    const auto stored = device_->Store(problem, WorkPlane::kB, bytes.data());
    ASSERT_TRUE(stored.ok()) << stored.status();
    std::string back(bytes.size(), '\0');
    ASSERT_TRUE(device_->Fetch(**stored, back.data()).ok());
    EXPECT_EQ(back == bytes, true) << ToString(problem);
  };
  // 8-bit types and tf32 are transposed on landing where they are not K-major.
  for (const DataType type : {DataType::kF32, DataType::kBf16, DataType::kInt8, DataType::kTf32}) {
    for (const bool transpose : {false, true}) {
      check(type, 50, 70, transpose);
      check(type, 1, 1, transpose);
    }
  }
  // Lines that are longer than what is copied at a time.
  check(DataType::kF64, 2, 140001, false);
}

// It is transposed when it is whole. See resident_memory_test.cc for others.
TEST_F(CudaDeviceTest, APlaneThatIsTransposedMayComeInParts) {
  const Problem problem = MakeProblem(300, 9, 501, DataType::kInt8, DataType::kInt32, true, false);
  const Operands operands(problem, Distribution::kNormal, 7);
  for (const std::uint64_t cut : {1, 299, 300, 70000}) {
    Start(7);
    auto arrival = device_->BeginStore(problem, WorkPlane::kA);
    ASSERT_TRUE(arrival.ok()) << arrival.status();
    EXPECT_GT(device_->memory().usage().in_flight_bytes, 0U);  // it comes through a block
    ASSERT_TRUE((*arrival)->Bring(operands.a.data(), cut, operands.a.size()).ok());
    ASSERT_TRUE((*arrival)->Bring(operands.a.data(), 0, cut).ok());
    const auto landed = (*arrival)->Finish();
    ASSERT_TRUE(landed.ok()) << landed.status();
    testing::PlaneBytes back(operands.a.size(), '?');
    ASSERT_TRUE(device_->Fetch(**landed, back.data()).ok());
    EXPECT_TRUE(back == operands.a);
    *arrival = nullptr;
    EXPECT_EQ(device_->memory().usage().in_flight_bytes, 0U);
  }
}

TEST_F(CudaDeviceTest, AStoredOperandStaysUntilItsLastUse) {
  Start(6);
  for (const DataType type : {DataType::kF32, DataType::kInt8}) {
    const Problem problem =
        MakeProblem(3, 70, 50, type, DefaultOutputType(type));  // B is not K-major
    Operands operands(problem, testing::Distribution::kNormal, 9);
    auto stored = device_->Store(problem, WorkPlane::kB, operands.b.data());
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_GT(device_->memory().usage().resident_bytes, 0u);
    DeviceWork work = MakeWork(problem, operands);
    work.buffers[WorkPlane::kB] = nullptr;
    work.resident[WorkPlane::kB] = *std::move(stored);
    stored = absl::UnknownError("moved");
    for (int repeat = 0; repeat < 3; ++repeat) {
      const DeviceResult result = Submit(work).get();
      ASSERT_TRUE(result.status.ok()) << result.status;
      CopyOut(work.buffers.d, &operands.d);
      EXPECT_EQ(CompareWithReference(problem, operands), "");
    }
    work = {};
    EXPECT_EQ(device_->memory().usage().resident_bytes, 0u);
  }
}

// Records what its launches were told of their operands.
class SettledKernel final : public testing::ReferenceKernel {
 public:
  absl::Status Launch(const Problem& problem, const Config& config, const Arguments& arguments,
                      const LaunchTarget& target) const override {
    told.insert({arguments.a_is_settled, arguments.b_is_settled});
    return ReferenceKernel::Launch(problem, config, arguments, target);
  }
  // Filled by one work at a time, whose launches follow each other.
  mutable std::set<std::pair<bool, bool>> told;
};

class SettledOperands : public CudaDeviceTest {
 protected:
  // Returns whether A and B of the product's launches were settled.
  std::pair<bool, bool> Told(const Problem& problem, bool stores_b) {
    const Operands operands(problem, Distribution::kNormal, 1);
    SettledKernel kernel;
    DeviceWork work = MakeWork(problem, operands);
    work.plan.kernel = &kernel;
    if (stores_b) {
      auto b = device_->Store(problem, WorkPlane::kB, operands.b.data());
      EXPECT_TRUE(b.ok()) << b.status();
      work.resident[WorkPlane::kB] = *std::move(b);
      work.buffers[WorkPlane::kB] = nullptr;
    }
    const DeviceResult result = Submit(std::move(work)).get();
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_EQ(kernel.told.size(), 1u);
    return kernel.told.empty() ? std::pair(false, false) : *kernel.told.begin();
  }
};

// 8-bit operands land K-major, which takes a launch just ahead of the product's where they came
// otherwise: a kernel that started before that launch's end would read half an operand.
TEST_F(SettledOperands, AreThoseOfSmallWorksThatNoLaunchTransposes) {
  Start(1);
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Problem problem =
          MakeProblem(16, 32, 48, DataType::kInt8, DataType::kInt32, transpose_a, transpose_b);
      EXPECT_EQ(Told(problem, false), std::pair(!transpose_a, transpose_b));
      EXPECT_EQ(Told(problem, true), std::pair(!transpose_a, true));
    }
  }
}

// Their copies run on streams of their own while kernels do.
TEST_F(SettledOperands, AreTheStoredOnesAloneOfLargeWorks) {
  Start(1);
  const Problem problem = MakeProblem(300, 200, 300, DataType::kF32, DataType::kF32);
  EXPECT_EQ(Told(problem, false), std::pair(false, false));
  EXPECT_EQ(Told(problem, true), std::pair(false, true));
}

TEST_F(CudaDeviceTest, WarmUpRunsEveryKernelAndAPanelledWork) {
  Start(9);
  ASSERT_TRUE(WarmUp(registry_, device_.get()).ok());
  const auto& kernel =
      static_cast<const testing::ReferenceKernel&>(*registry_.Find("test/reference"));
  EXPECT_GT(kernel.launches(), 7);
}

TEST_F(CudaDeviceTest, AMigSliceIsASmallerDevice) {
  CudaDevice::Options options;
  options.memory_bytes = 8 * kMiB;
  options.pinned_bytes = 16 * kMiB;
  options.unpinned_bytes = std::uint64_t{1} << 30;
  auto device =
      CudaDevice::Create(std::make_shared<FakeCuda>(1, FakeCuda::MigSlice()), options, &clock_);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->traits().model, "NVIDIA H200 MIG 1g.18gb");
  EXPECT_EQ((*device)->traits().compute_units, 16);
  EXPECT_EQ((*device)->memory().usage().limit_bytes, 8 * kMiB);
}

}  // namespace
}  // namespace gemmd
