// Tests which problems ladder B's registry entries take, and why not others.
#include <gtest/gtest.h>

#include "kernels/gemm.h"
#include "tests/testing/h200.h"

namespace gemmd {
namespace {

const Kernel& Entry(const char* name = "sm120/tma_rw") { return *BuiltinRegistry().Find(name); }

Problem Padded() {
  Problem problem = MakeProblem(100, 200, 300, DataType::kBf16, DataType::kBf16);
  problem.a.leading_dimension = 304;
  return problem;
}

TEST(LadderBRegistry, NamesEveryStep) {
  for (const char* name :
       {"sm120/bcf_dbf_rw", "sm120/k_stages", "sm120/tma_loads", "sm120/tma_r_32", "sm120/tma_r_64",
        "sm120/tma_rw", "sm120/pair_boxes", "sm120/warp_release", "sm120/warps_64x64",
        "sm120/warps_64x64_k64", "sm120/tma_rw_64x64"}) {
    ASSERT_NE(BuiltinRegistry().Find(name), nullptr) << name;
    EXPECT_EQ(Entry(name).Rejection(Padded()), "") << name;
  }
}

TEST(LadderBRegistry, RunsWhereItsCodeDoes) {
  DeviceTraits device;
  EXPECT_EQ(Entry().UnavailableReason(device), "runs on a CUDA or an emulated device");
  device.kind = DeviceKind::kEmulated;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  device.kind = DeviceKind::kCuda;
  for (const int capability : {90, 120}) {
    device.compute_capability = capability;
    EXPECT_EQ(Entry().UnavailableReason(device), "") << capability;
  }
  device.compute_capability = 80;
  EXPECT_EQ(Entry().UnavailableReason(device), "needs sm_90 or sm_120, this is sm_80");
  device.compute_capability = 100;
  EXPECT_EQ(Entry().UnavailableReason(device), "needs sm_90 or sm_120, this is sm_100");
}

TEST(LadderBRegistry, SaysWhyNot) {
  Problem problem = Padded();
  problem.d.leading_dimension = 201;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes a leading dimension of D that is a multiple of 8, not 201");
  problem = Padded();
  problem.accumulate = DataType::kF16;
  EXPECT_EQ(Entry().Rejection(problem), "does not accumulate in f16");
  problem = MakeProblem(8, 8, 8, DataType::kF16, DataType::kF16);
  problem.accumulate = DataType::kF16;
  EXPECT_EQ(Entry().Rejection(problem), "does not accumulate in f16");
  problem = MakeProblem(8, 8, 8, DataType::kBf16, DataType::kF32);
  EXPECT_EQ(Entry().Rejection(problem), "writes bf16");
}

TEST(LadderBRegistry, StridesOfTensorMapsHave40Bits) {
  Problem problem = Padded();
  problem.m = 1;
  problem.a.rows = 1;
  problem.a.leading_dimension = std::int64_t{1} << 39;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes leading dimensions up to 549755813880, not 549755813888");
  EXPECT_EQ(Entry("sm120/k_stages").Rejection(problem), "");
}

double PredictedTflops(const char* name, std::int64_t size, const DeviceTraits& device) {
  const Problem problem = MakeProblem(size, size, size, DataType::kF16, DataType::kF16);
  const Kernel& kernel = Entry(name);
  const double us = kernel.PredictedUs(problem, kernel.Configure(problem, device), device);
  return 2e-6 * static_cast<double>(size * size * size) / us;
}

// docs/benchmarks/ladders.md has the figures.
TEST(LadderBRegistry, PredictsWhatItsDeviceWasMeasuredToDo) {
  const DeviceTraits h200 = testing::H200();
  EXPECT_NEAR(PredictedTflops("sm120/k_stages", 8192, h200), 363.6, 5);
  EXPECT_NEAR(PredictedTflops("sm120/tma_rw_64x64", 8192, h200), 518.9, 5);
  EXPECT_NEAR(PredictedTflops("sm120/tma_rw_64x64", 4096, h200), 508.2, 15);
  CudaDeviceNumbers numbers;  // of an RTX 5060 Laptop
  numbers.compute_capability_major = 12;
  numbers.multiprocessors = 26;
  numbers.clock_khz = 2500000;
  numbers.memory_clock_khz = 12000000;
  numbers.memory_bus_bits = 128;
  EXPECT_NEAR(PredictedTflops("sm120/tma_r_32", 4096, MakeCudaTraits(0, numbers)), 34.31, 1);
}

TEST(LadderBRegistry, SharesTheNumericsIdOfLadderA) {
  EXPECT_EQ(Entry().NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd
