// Tests which problems ladder D's registry entries take, why not others, and that a plan by name
// computes a product.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/sm100/ladder_d_run.h"

namespace gemmd::testing {
namespace {

const Kernel& Entry(const std::string& name = "sm100/d11") { return *BuiltinRegistry().Find(name); }

Problem Padded(DataType a = DataType::kFp8E4M3, DataType b = DataType::kFp8E5M2) {
  return MxOperands(MxCase{{100, 200, 300}, a, b, 3}).MakeProblem();
}

TEST(LadderDRegistry, EveryStepComputesByName) {
  const MxCase each = {{100, 200, 300}, DataType::kFp8E4M3, DataType::kFp8E5M2, 4};
  const MxOperands right(each);
  const std::vector<float> expected = MxProduct(right.a, right.b);
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  for (int step = 0; step <= 12; ++step) {
    const std::string name = "sm100/d" + std::to_string(step);
    ASSERT_NE(BuiltinRegistry().Find(name), nullptr) << name;
    EXPECT_TRUE(Entry(name).traits().only_by_name) << name;
    MxOperands operands(each);
    const absl::StatusOr<Plan> plan =
        Select(BuiltinRegistry(), operands.MakeProblem(), device, name);
    ASSERT_TRUE(plan.ok()) << plan.status();
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = plan->kernel->Launch(operands.MakeProblem(), plan->config,
                                                     operands.MakeArguments(), target);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(FindWrong(operands, expected), "") << name;
  }
}

TEST(LadderDRegistry, RunsWhereItsCodeDoes) {
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 100;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  for (const int capability : {90, 103, 120}) {
    device.compute_capability = capability;
    EXPECT_EQ(Entry().UnavailableReason(device),
              "needs sm_100, this is sm_" + std::to_string(capability));
  }
}

TEST(LadderDRegistry, TakesMxfp8InTiles) {
  EXPECT_EQ(Entry().Rejection(Padded()), "");
  EXPECT_EQ(Entry().Rejection(Padded(DataType::kInt8)),
            "takes fp8_e4m3 or fp8_e5m2 as A, not int8");
  Problem problem = Padded();
  problem.b_scaling.order = ScaleOrder::kAlongK;
  EXPECT_EQ(Entry().Rejection(problem), "takes scales of B as e8m0/1x32@tiles, not e8m0/1x32");
  problem = Padded();
  problem.a_scaling = Scaling::kTensor;
  EXPECT_EQ(Entry().Rejection(problem), "takes scales of A as e8m0/1x32@tiles, not tensor");
}

TEST(LadderDRegistry, TakesKMajorOperandsWithAlignedLines) {
  Problem problem = Padded();
  problem.transpose_a = true;
  EXPECT_EQ(Entry().Rejection(problem), "takes a K-major A");
  problem = Padded();
  problem.transpose_b = false;
  EXPECT_EQ(Entry().Rejection(problem), "takes a K-major B");
  problem.b.order = Order::kColumnMajor;
  EXPECT_EQ(Entry().Rejection(problem), "");
  problem = Padded();
  problem.b.leading_dimension = 301;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes a leading dimension of B that is a multiple of 16, not 301");
  problem.b.leading_dimension = std::int64_t{1} << 40;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes leading dimensions up to 1099511627760, not 1099511627776");
}

TEST(LadderDRegistry, WritesF32WithoutAnEpilogue) {
  Problem problem = Padded();
  problem.d.type = DataType::kBf16;
  EXPECT_EQ(Entry().Rejection(problem), "writes f32, not bf16");
  problem = Padded();
  problem.accumulate = DataType::kF16;
  EXPECT_EQ(Entry().Rejection(problem), "does not accumulate in f16");
  problem = Padded();
  problem.d.order = Order::kColumnMajor;
  EXPECT_EQ(Entry().Rejection(problem), "takes a row-major D");
  problem = Padded();
  problem.epilogue.has_bias = true;
  EXPECT_EQ(Entry().Rejection(problem), "has no epilogue: alpha 1, beta 0, no bias, no activation");
}

TEST(LadderDRegistry, StepsShareTheirNumerics) {
  for (int step = 1; step <= 12; ++step) {
    EXPECT_EQ(Entry("sm100/d" + std::to_string(step)).NumericsId(Padded()),
              Entry("sm100/d0").NumericsId(Padded()));
  }
  EXPECT_NE(Entry().NumericsId(Padded()), Entry().NumericsId(Padded(DataType::kFp8E5M2)));
}

}  // namespace
}  // namespace gemmd::testing
