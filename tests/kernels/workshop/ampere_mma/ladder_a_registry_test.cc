// Tests which problems ladder A's registry entries take, and why not others.
#include <gtest/gtest.h>

#include "kernels/gemm.h"
#include "tests/testing/h200.h"

namespace gemmd {
namespace {

Problem Padded() {
  Problem problem = MakeProblem(100, 200, 300, DataType::kF16, DataType::kF16);
  problem.a.leading_dimension = 304;
  return problem;
}

const Kernel& Entry(const char* name = "sm80/a05") { return *BuiltinRegistry().Find(name); }

TEST(LadderARegistry, NamesEveryStep) {
  for (const char* name : {"sm80/a01a", "sm80/a01b", "sm80/a02", "sm80/a03a", "sm80/a03b",
                           "sm80/a04", "sm80/a05", "sm80/a06"}) {
    ASSERT_NE(BuiltinRegistry().Find(name), nullptr) << name;
    EXPECT_EQ(Entry(name).Rejection(Padded()), "") << name;
  }
}

TEST(LadderARegistry, RunsFromSm80OnAndInTheEmulator) {
  DeviceTraits device;
  EXPECT_EQ(Entry().UnavailableReason(device), "runs on a CUDA or an emulated device");
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 75;
  EXPECT_EQ(Entry().UnavailableReason(device), "needs sm_80, this is sm_75");
  device.compute_capability = 90;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  device.kind = DeviceKind::kEmulated;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
}

TEST(LadderARegistry, NeedsTheSharedMemoryOfItsBlock) {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  for (const int capability : {86, 89, 120}) {
    device.compute_capability = capability;
    EXPECT_EQ(Entry("sm80/a02").UnavailableReason(device), "") << capability;
    EXPECT_EQ(Entry("sm80/a06").UnavailableReason(device), "") << capability;
  }
  EXPECT_EQ(Entry("sm80/a05").UnavailableReason(device),
            "needs 144 KB of shared memory for a block, sm_120 has 99");
  for (const int capability : {80, 87, 90, 100, 103}) {
    device.compute_capability = capability;
    EXPECT_EQ(Entry("sm80/a05").UnavailableReason(device), "") << capability;
  }
}

TEST(LadderARegistry, SaysWhyNot) {
  Problem problem = Padded();
  problem.a.leading_dimension = 300;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes a leading dimension of A that is a multiple of 8, not 300");
  problem = Padded();
  problem.epilogue.alpha = 2;
  EXPECT_EQ(Entry().Rejection(problem), "has no epilogue: alpha 1, beta 0, no bias, no activation");
  problem = Padded();
  problem.accumulate = DataType::kF64;
  EXPECT_EQ(Entry().Rejection(problem), "does not accumulate in f64");
  problem = MakeProblem(8, 8, 8, DataType::kF32, DataType::kF32);
  EXPECT_EQ(Entry().Rejection(problem), "takes f16 or bf16 operands");
  problem = MakeProblem(8, 8, 8, DataType::kBf16, DataType::kBf16, true);
  EXPECT_EQ(Entry().Rejection(problem), "takes operands that are not transposed");
}

double PredictedTflops(const char* name, std::int64_t size, DataType accumulate,
                       const DeviceTraits& device) {
  Problem problem = MakeProblem(size, size, size, DataType::kF16, DataType::kF16);
  problem.accumulate = accumulate;
  const Kernel& kernel = Entry(name);
  const double us = kernel.PredictedUs(problem, kernel.Configure(problem, device), device);
  return 2e-6 * static_cast<double>(size * size * size) / us;
}

DeviceTraits A100() {
  CudaDeviceNumbers numbers;
  numbers.compute_capability_major = 8;
  numbers.multiprocessors = 108;
  numbers.clock_khz = 1410000;
  numbers.memory_clock_khz = 1215000;
  numbers.memory_bus_bits = 5120;
  return MakeCudaTraits(0, numbers);
}

// docs/benchmarks/ladders.md has the figures.
TEST(LadderARegistry, PredictsWhatItsDeviceWasMeasuredToDo) {
  const DeviceTraits h200 = testing::H200();
  EXPECT_NEAR(PredictedTflops("sm80/a02", 8192, DataType::kF32, h200), 278.7, 5);
  EXPECT_NEAR(PredictedTflops("sm80/a05", 8192, DataType::kF32, h200), 437.5, 10);
  EXPECT_NEAR(PredictedTflops("sm80/a05", 8192, DataType::kF16, h200), 486.7, 10);
  EXPECT_NEAR(PredictedTflops("sm80/a05", 4096, DataType::kF32, h200), 425.5, 25);
  EXPECT_NEAR(PredictedTflops("sm80/a05", 8192, DataType::kF16, A100()), 256, 5);
  EXPECT_NEAR(PredictedTflops("sm80/a01b", 8192, DataType::kF16, A100()), 73, 2);
}

TEST(LadderARegistry, PrefersSmallBlocksWhereTheyAreQuicker) {
  const DeviceTraits h200 = testing::H200();
  for (const std::int64_t size : {2048, 4096, 16384}) {
    EXPECT_GT(PredictedTflops("sm80/a06", size, DataType::kF32, h200),
              PredictedTflops("sm80/a05", size, DataType::kF32, h200));
  }
  EXPECT_LT(PredictedTflops("sm80/a06", 8192, DataType::kF16, h200),
            PredictedTflops("sm80/a05", 8192, DataType::kF16, h200));
}

TEST(LadderARegistry, NoLadderServesWhatHoppersOwnKernelsTake) {
  const std::int64_t sizes[] = {8, 64, 136, 256, 1024, 4096, 16384};
  for (const std::int64_t m : sizes) {
    for (const std::int64_t n : sizes) {
      for (const std::int64_t k : sizes) {
        const Problem problem = MakeProblem(m, n, k, DataType::kBf16, DataType::kBf16);
        const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, testing::H200());
        ASSERT_TRUE(plan.ok()) << plan.status();
        const std::string& name = plan->kernel->traits().name;
        EXPECT_EQ(name.substr(0, 5), "sm90/") << name << " " << ToString(problem);
      }
    }
  }
}

TEST(LadderARegistry, SharesOneNumericsIdBetweenSteps) {
  EXPECT_EQ(Entry("sm80/a01a").NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
  EXPECT_EQ(Entry("sm80/a06").NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd
