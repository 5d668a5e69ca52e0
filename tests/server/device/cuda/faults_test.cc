// CudaDevice under many threads, without memory, and as it fails. Its works need no
// transposition, so that all of this runs under TSan.
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/device/cuda/cuda_fixture.h"

namespace gemmd {
namespace {

using testing::CudaDeviceTest;
using testing::FakeCuda;
using testing::kMiB;
using testing::Operands;

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

// The budget to the last byte, one over, and from many threads; afterwards zero.
TEST_F(CudaDeviceTest, TheBudgetIsExact) {
  Start(7, 4 * kMiB);
  const Problem problem = MakeProblem(1000, 4, 256, DataType::kF32, DataType::kF32);
  const Plan plan = *Select(registry_, device_->Landed(problem), device_->traits());
  const Footprint footprint = device_->FootprintOf(problem, plan, {});
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
  // The launch takes exactly what was reserved: the pool is as large as the budget.
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
      device_->AllocateResult({DataType::kF32, 70000, 5000, Order::kRowMajor, 5000}).status()));
  // A reader may hold a piece longer than the device lives.
  HostPiece kept = first->front();
  first = absl::UnknownError("released");
  EXPECT_EQ(device_->host_memory_usage().in_flight_bytes, kMiB);
  device_.reset();
  std::memset(kept.data, 1, kept.size_bytes);
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

TEST_F(CudaDeviceTest, WhatCannotStartSaysWhy) {
  CudaDevice::Options options;
  options.memory_bytes = std::uint64_t{1} << 50;
  options.pinned_bytes = 16 * kMiB;
  options.unpinned_bytes = std::uint64_t{1} << 30;
  const auto device = CudaDevice::Create(std::make_shared<FakeCuda>(1), options, &clock_);
  EXPECT_TRUE(absl::IsResourceExhausted(device.status()));
}

}  // namespace
}  // namespace gemmd
