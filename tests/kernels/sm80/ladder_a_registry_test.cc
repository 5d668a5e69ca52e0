// What ladder A's registry entries take, and why not otherwise.
#include <gtest/gtest.h>

#include "kernels/gemm.h"

namespace gemmd {
namespace {

Problem Padded() {
  Problem problem = MakeProblem(100, 200, 300, DataType::kF16, DataType::kF16);
  problem.a.leading_dimension = 304;
  return problem;
}

const Kernel& Entry(const char* name = "sm80/a05") { return *BuiltinRegistry().Find(name); }

TEST(LadderARegistry, NamesEveryStep) {
  for (const char* name :
       {"sm80/a01a", "sm80/a01b", "sm80/a02", "sm80/a03a", "sm80/a03b", "sm80/a04", "sm80/a05"}) {
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

TEST(LadderARegistry, SharesOneNumericsIdBetweenSteps) {
  EXPECT_EQ(Entry("sm80/a01a").NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd
