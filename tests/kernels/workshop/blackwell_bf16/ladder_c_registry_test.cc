// Tests which problems ladder C's registry entries take, and why not others.
#include <gtest/gtest.h>

#include "kernels/gemm.h"

namespace gemmd {
namespace {

const Kernel& Entry(const char* name = "sm100/c4") { return *BuiltinRegistry().Find(name); }

// B of n x k, as the ladder was published.
Problem Padded() {
  Problem problem = MakeProblem(100, 200, 300, DataType::kBf16, DataType::kBf16, false, true);
  problem.a.leading_dimension = 304;
  problem.b.leading_dimension = 304;
  return problem;
}

TEST(LadderCRegistry, NamesEveryStep) {
  for (const char* name : {"sm100/c1", "sm100/c2", "sm100/c3", "sm100/c4", "sm100/c2_256",
                           "sm100/c3_256", "sm100/c4_256", "sm100/c4_elected"}) {
    ASSERT_NE(BuiltinRegistry().Find(name), nullptr) << name;
    EXPECT_EQ(Entry(name).Rejection(Padded()), "") << name;
  }
}

TEST(LadderCRegistry, RunsWhereItsCodeDoes) {
  DeviceTraits device;
  EXPECT_EQ(Entry().UnavailableReason(device),
            "runs on a CUDA or an emulated device; emulated, compiled, not run");
  device.kind = DeviceKind::kEmulated;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 100;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  for (const int capability : {90, 103, 120}) {
    device.compute_capability = capability;
    EXPECT_EQ(
        Entry().UnavailableReason(device),
        "needs sm_100, this is sm_" + std::to_string(capability) + "; emulated, compiled, not run");
  }
}

TEST(LadderCRegistry, AnotherDeviceFailsThePrecondition) {
  DeviceTraits device;
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 90;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), Padded(), device, "sm100/c3");
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kFailedPrecondition) << plan.status();
  EXPECT_NE(plan.status().ToString().find(
                "sm100/c3: needs sm_100, this is sm_90; emulated, compiled, not run"),
            std::string::npos)
      << plan.status();
}

TEST(LadderCRegistry, TakesEitherMajorOfB) {
  Problem problem = MakeProblem(100, 200, 304, DataType::kF16, DataType::kF16);
  EXPECT_EQ(Entry().Rejection(problem), "");
  problem.transpose_a = true;
  EXPECT_EQ(Entry().Rejection(problem), "takes operands that are not transposed");
  problem = Padded();
  problem.b.leading_dimension = 301;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes a leading dimension of B that is a multiple of 8, not 301");
  problem = Padded();
  problem.a.order = Order::kColumnMajor;
  EXPECT_EQ(Entry().Rejection(problem), "takes a row-major A");
}

TEST(LadderCRegistry, SaysWhyNot) {
  Problem problem = Padded();
  problem.accumulate = DataType::kF16;
  EXPECT_EQ(Entry().Rejection(problem), "does not accumulate in f16");
  problem = MakeProblem(8, 8, 8, DataType::kBf16, DataType::kF32);
  EXPECT_EQ(Entry().Rejection(problem), "writes bf16");
  problem = Padded();
  problem.epilogue.alpha = 2;
  EXPECT_EQ(Entry().Rejection(problem), "has no epilogue: alpha 1, beta 0, no bias, no activation");
  problem = Padded();
  problem.m = 1;
  problem.a.rows = 1;
  problem.a.leading_dimension = std::int64_t{1} << 39;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes leading dimensions up to 549755813880, not 549755813888");
  EXPECT_EQ(Entry("sm100/c1").Rejection(problem), "");
}

// Measurements of Hopper promise nothing of Blackwell.
TEST(LadderCRegistry, HasNumericsOfItsOwn) {
  EXPECT_EQ(Entry("sm100/c2").NumericsId(Padded()), Entry("sm100/c4").NumericsId(Padded()));
  EXPECT_NE(Entry("sm100/c1").NumericsId(Padded()), Entry("sm100/c4").NumericsId(Padded()));
  EXPECT_NE(Entry().NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd
