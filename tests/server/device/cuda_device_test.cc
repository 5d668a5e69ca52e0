#include "server/device/cuda/cuda_device.h"

#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/testing/fake_clock.h"
#include "tests/testing/fake_cuda.h"
#include "tests/testing/matrices.h"
#include "tests/testing/reference_kernel.h"

namespace gemmd {
namespace {

using testing::FakeCuda;
using testing::Operands;

constexpr std::uint64_t kMiB = 1 << 20;

class CudaDeviceTest : public ::testing::Test {
 protected:
  // Makes the device anew over a fake of that seed.
  void Start(std::uint32_t seed, std::uint64_t memory_bytes = 256 * kMiB) {
    device_.reset();
    cuda_ = std::make_shared<FakeCuda>(seed);
    CudaDevice::Options options;
    options.memory_bytes = memory_bytes;
    options.pinned_bytes = 64 * kMiB;
    options.staging_threads = 2;
    options.panel_bytes = 256 << 10;
    options.stall_timeout_ms = 1000;
    options.on_lost = [this](const absl::Status& status) {
      lost_.push_back(std::string(status.message()));
    };
    absl::StatusOr<std::unique_ptr<CudaDevice>> device =
        CudaDevice::Create(cuda_, options, &clock_);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  DeviceWork MakeWork(const Problem& problem, const Operands& operands) {
    DeviceWork work;
    work.problem = problem;
    absl::StatusOr<Plan> plan = Select(registry_, device_->Landed(problem), device_->traits());
    EXPECT_TRUE(plan.ok()) << plan.status();
    work.plan = *std::move(plan);
    work.buffers.a = operands.a.data();
    work.buffers.b = operands.b.data();
    if (!operands.c.empty()) work.buffers.c = operands.c.data();
    if (!operands.bias.empty()) work.buffers.bias = operands.bias.data();
    absl::StatusOr<HostBuffer> d = device_->AllocateResult(problem.d);
    EXPECT_TRUE(d.ok()) << d.status();
    work.buffers.d = *std::move(d);
    return work;
  }

  std::future<DeviceResult> Submit(DeviceWork work) {
    std::promise<DeviceResult> promise;
    std::future<DeviceResult> result = promise.get_future();
    device_->Submit(std::move(work), [promise = std::move(promise)](DeviceResult done) mutable {
      promise.set_value(std::move(done));
    });
    return result;
  }

  // What is wrong with the product; empty if nothing.
  std::string Compute(const Problem& problem, std::uint32_t seed) {
    Operands operands(problem, testing::Distribution::kNormal, seed);
    const DeviceWork work = MakeWork(problem, operands);
    const DeviceResult result = Submit(work).get();
    if (!result.status.ok()) return result.status.ToString();
    CopyOut(work.buffers.d, &operands.d);
    return CompareWithReference(problem, operands);
  }

  static void CopyOut(const HostBuffer& d, testing::PlaneBytes* plane) {
    std::uint64_t offset = 0;
    for (const HostPiece& piece : d) {
      ASSERT_LE(offset + piece.size_bytes, plane->size());
      std::memcpy(plane->data() + offset, piece.data, piece.size_bytes);
      offset += piece.size_bytes;
    }
    EXPECT_EQ(offset, plane->size());
  }

  static Registry MakeRegistry() {
    std::vector<std::unique_ptr<const Kernel>> kernels;
    kernels.push_back(std::make_unique<testing::ReferenceKernel>());
    return Registry(std::move(kernels));
  }

  const Registry registry_ = MakeRegistry();
  testing::FakeClock clock_;
  std::shared_ptr<FakeCuda> cuda_;
  std::vector<std::string> lost_;
  std::unique_ptr<CudaDevice> device_;
};

TEST_F(CudaDeviceTest, EveryLayoutTypeAndEpilogueComesBackRight) {
  Start(1);
  const std::pair<DataType, DataType> types[] = {{DataType::kF32, DataType::kF32},
                                                 {DataType::kTf32, DataType::kF32},
                                                 {DataType::kBf16, DataType::kBf16},
                                                 {DataType::kInt8, DataType::kInt32}};
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

// Over three streams; a missing wait between them gives a wrong result for some seed.
TEST_F(CudaDeviceTest, LargeOperandsTravelInPanels) {
  Problem tall = MakeProblem(2048, 8, 200, DataType::kF32, DataType::kF32);
  tall.epilogue.beta = 2;
  tall.epilogue.has_bias = true;
  const Problem tall_by_columns = MakeProblem(2500, 6, 100, DataType::kF32, DataType::kF32, true);
  const Problem wide = MakeProblem(8, 3000, 150, DataType::kF32, DataType::kF32);
  Problem wide_by_columns = wide;
  wide_by_columns.b.order = Order::kColumnMajor;
  wide_by_columns.b.leading_dimension = 153;
  wide_by_columns.d.order = Order::kColumnMajor;
  wide_by_columns.d.leading_dimension = 11;
  const Problem big_result = MakeProblem(700, 600, 3, DataType::kF32, DataType::kF32);
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
  const Problem problem = MakeProblem(2500, 5, 250, DataType::kInt8, DataType::kInt32, true);
  EXPECT_FALSE(problem.a_is_k_major());
  const Problem landed = LandedProblem(problem);
  EXPECT_TRUE(landed.a_is_k_major());
  const Plan plan = *Select(registry_, landed, device_->traits());
  ASSERT_EQ(CutIntoPanels(landed, {}, plan, 256 << 10).size(), 2u);
  EXPECT_EQ(Compute(problem, 1), "");
}

TEST_F(CudaDeviceTest, ALineLongerThanASlabIsCut) {
  Start(4);
  EXPECT_EQ(Compute(MakeProblem(2, 300000, 2, DataType::kF32, DataType::kF32), 1), "");
  EXPECT_EQ(Compute(MakeProblem(2, 1, 600000, DataType::kF64, DataType::kF64), 2), "");
}

TEST_F(CudaDeviceTest, ManyThreadsShareTheDevice) {
  for (std::uint32_t seed = 0; seed < 4; ++seed) {
    Start(seed);
    std::vector<std::thread> threads;
    for (std::uint32_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([this, thread] {
        for (std::uint32_t i = 0; i < 10; ++i) {
          const std::int64_t size = i % 5 == 0 ? 900 : 30 + thread;
          const Problem problem = MakeProblem(size, 40, 90, DataType::kF32, DataType::kF32);
          EXPECT_EQ(Compute(problem, 100 * thread + i), "");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(cuda_->allocated_bytes(), 0u);
    EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, 0u);
  }
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

TEST_F(CudaDeviceTest, AStoredOperandStaysUntilItsLastUse) {
  Start(6);
  for (const DataType type : {DataType::kF32, DataType::kInt8}) {
    const Problem problem =
        MakeProblem(3, 70, 50, type, DefaultOutputType(type));  // B is not K-major
    Operands operands(problem, testing::Distribution::kNormal, 9);
    auto stored = device_->Store(problem, CudaDevice::Side::kB, operands.b.data());
    ASSERT_TRUE(stored.ok()) << stored.status();
    EXPECT_GT(device_->memory().usage().resident_bytes, 0u);
    DeviceWork work = MakeWork(problem, operands);
    work.buffers.b = nullptr;
    work.resident_b = *std::move(stored);
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

// The budget to the last byte, one over, and from many threads; afterwards zero.
TEST_F(CudaDeviceTest, TheBudgetIsExact) {
  Start(7, 4 * kMiB);
  const Problem problem = MakeProblem(1000, 4, 256, DataType::kF32, DataType::kF32);
  const Plan plan = *Select(registry_, device_->Landed(problem), device_->traits());
  const Footprint footprint = device_->FootprintOf(problem, plan);
  MemoryBudget& memory = device_->memory();
  {
    auto filler =
        memory.Reserve(4 * kMiB - footprint.in_flight_bytes - footprint.workspace_bytes, 0);
    ASSERT_TRUE(filler.ok());
    auto exact = memory.Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
    ASSERT_TRUE(exact.ok());
    EXPECT_EQ(memory.usage().free_bytes(), 0u);
    EXPECT_TRUE(absl::IsResourceExhausted(memory.Reserve(1, 0).status()));
    EXPECT_TRUE(absl::IsResourceExhausted(memory.ReserveResident(1).status()));
    exact->Release();
    EXPECT_TRUE(absl::IsResourceExhausted(
        memory.Reserve(footprint.in_flight_bytes, footprint.workspace_bytes + 1).status()));
  }
  // What was reserved is what the launch takes: the pool is exactly as large as the budget.
  std::vector<std::thread> threads;
  std::atomic<int> admitted{0};
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 5; ++i) {
        auto reservation = memory.Reserve(footprint.in_flight_bytes, footprint.workspace_bytes);
        if (!reservation.ok()) {
          EXPECT_TRUE(absl::IsResourceExhausted(reservation.status()));
          continue;
        }
        EXPECT_EQ(Compute(problem, thread), "");
        ++admitted;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(admitted, 0);
  EXPECT_EQ(memory.usage().free_bytes(), 4 * kMiB);
  EXPECT_EQ(cuda_->allocated_bytes(), 0u);
}

TEST_F(CudaDeviceTest, PinnedMemoryRunsOutWithAnAnswer) {
  Start(8);
  const MatrixLayout half{DataType::kF32, 7000, 1000, Order::kRowMajor, 1000};
  auto first = device_->AllocateResult(half);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(absl::IsResourceExhausted(
      device_->AllocateResult({DataType::kF32, 8000, 1000, Order::kRowMajor, 1000}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      device_->AllocateResult({DataType::kF32, 70000, 1000, Order::kRowMajor, 1000}).status()));
  // A reader may hold a piece longer than the device lives.
  HostPiece kept = first->front();
  first = absl::UnknownError("released");
  EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, kMiB);
  device_.reset();
  std::memset(kept.data, 1, kept.size_bytes);
}

TEST_F(CudaDeviceTest, WarmUpRunsEveryKernelAndAPanelledWork) {
  Start(9);
  ASSERT_TRUE(device_->WarmUp(registry_).ok());
  const auto& kernel =
      static_cast<const testing::ReferenceKernel&>(*registry_.Find("test/reference"));
  EXPECT_GT(kernel.launches(), 7);
}

TEST_F(CudaDeviceTest, AFailedLaunchFailsItsWorkAlone) {
  for (const std::int64_t m : {16, 3000}) {
    Start(10);
    const Problem problem = MakeProblem(m, 4, 200, DataType::kF32, DataType::kF32);
    cuda_->FailCall("Launch", absl::InternalError("cudaLaunchKernel: too many resources"));
    EXPECT_NE(Compute(problem, 1).find("too many resources"), std::string::npos);
    EXPECT_EQ(Compute(problem, 2), "");
    EXPECT_EQ(cuda_->allocated_bytes(), 0u);
    EXPECT_TRUE(lost_.empty());
  }
}

TEST_F(CudaDeviceTest, AnAllocationThatFailsWhileWorksRunIsTriedAgain) {
  Start(11);
  const Problem problem = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  cuda_->FailCall("Allocate", absl::ResourceExhaustedError("fragments"));
  EXPECT_EQ(Compute(problem, 1), "");  // the second try, on the feeder, succeeds
  EXPECT_TRUE(lost_.empty());
}

// A fault in any call that a work makes ends every work with UNAVAILABLE and tells once.
TEST_F(CudaDeviceTest, ALostDeviceFailsAllWorksAndTellsOnce) {
  const std::pair<const char*, int> faults[] = {
      {"Launch", 0}, {"Copy", 0},   {"Copy", 2}, {"Record", 1},   {"Record", 5},
      {"IsDone", 0}, {"IsDone", 3}, {"Wait", 0}, {"Allocate", 1}, {"Free", 0}};
  for (const auto& [method, skip] : faults) {
    for (const std::int64_t m : {16, 3000}) {
      if (m == 16 && std::string(method) == "Wait") continue;  // a small work has none
      SCOPED_TRACE(std::string(method) + " of " + std::to_string(m));
      lost_.clear();
      Start(12);
      const Problem problem = MakeProblem(m, 4, 200, DataType::kF32, DataType::kF32);
      const Operands operands(problem, testing::Distribution::kNormal, 1);
      const DeviceWork work = MakeWork(problem, operands);
      cuda_->FailCall(method, absl::UnavailableError("cudaErrorIllegalAddress"), skip);
      std::vector<std::future<DeviceResult>> results;
      for (int i = 0; i < 3; ++i) results.push_back(Submit(work));
      int unavailable = 0;
      for (auto& result : results) {
        const absl::Status status = result.get().status;
        if (status.ok()) continue;
        ++unavailable;
        EXPECT_TRUE(absl::IsUnavailable(status)) << status;
        EXPECT_NE(status.message().find("device cuda:0 is lost"), std::string::npos) << status;
      }
      EXPECT_GT(unavailable, 0);
      EXPECT_EQ(lost_.size(), 1u);
      EXPECT_TRUE(absl::IsUnavailable(Submit(work).get().status));
      EXPECT_TRUE(absl::IsUnavailable(device_->AllocateResult(problem.d).status()));
    }
  }
}

TEST_F(CudaDeviceTest, AStalledDeviceIsLost) {
  Start(13);
  const Problem problem = MakeProblem(16, 16, 16, DataType::kF32, DataType::kF32);
  const Operands operands(problem, testing::Distribution::kNormal, 1);
  const DeviceWork work = MakeWork(problem, operands);
  cuda_->Stall();
  std::future<DeviceResult> result = Submit(work);
  clock_.Advance(1000000001);
  const absl::Status status = result.get().status;
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "device cuda:0 is lost: no work ended for 1000 ms");
  EXPECT_EQ(lost_.size(), 1u);
}

TEST_F(CudaDeviceTest, AMigSliceIsASmallerDevice) {
  CudaDevice::Options options;
  options.memory_bytes = 8 * kMiB;
  options.pinned_bytes = 16 * kMiB;
  auto device =
      CudaDevice::Create(std::make_shared<FakeCuda>(1, FakeCuda::MigSlice()), options, &clock_);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->traits().model, "NVIDIA H200 MIG 1g.18gb");
  EXPECT_EQ((*device)->traits().compute_units, 16);
  EXPECT_EQ((*device)->memory().usage().limit_bytes, 8 * kMiB);
}

TEST_F(CudaDeviceTest, WhatCannotStartSaysWhy) {
  CudaDevice::Options options;
  options.memory_bytes = std::uint64_t{1} << 50;
  options.pinned_bytes = 16 * kMiB;
  const auto device = CudaDevice::Create(std::make_shared<FakeCuda>(1), options, &clock_);
  EXPECT_TRUE(absl::IsResourceExhausted(device.status()));
}

}  // namespace
}  // namespace gemmd
