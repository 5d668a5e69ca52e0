// Tests which problems sm120/mx takes, why not others, and that a plan by its name computes a
// product with ladder D's bits.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

const Kernel& Entry() { return *BuiltinRegistry().Find("sm120/mx"); }

Problem Padded(DataType a = DataType::kFp8E4M3, DataType b = DataType::kFp8E5M2) {
  return MxOperands(MxCase{{100, 200, 300}, a, b, 3}).MakeProblem();
}

TEST(MxRegistry, ComputesByName) {
  const MxCase each = {{100, 200, 300}, DataType::kFp8E4M3, DataType::kFp8E5M2, 4};
  ASSERT_NE(BuiltinRegistry().Find("sm120/mx"), nullptr);
  EXPECT_TRUE(Entry().traits().only_by_name);
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  MxOperands operands(each);
  const absl::StatusOr<Plan> plan =
      Select(BuiltinRegistry(), operands.MakeProblem(), device, "sm120/mx");
  ASSERT_TRUE(plan.ok()) << plan.status();
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status =
      plan->kernel->Launch(operands.MakeProblem(), plan->config, operands.MakeArguments(), target);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FindWrong(operands, MxProduct(operands.a, operands.b)), "");
}

TEST(MxRegistry, RunsWhereItsCodeDoes) {
  DeviceTraits device;
  EXPECT_EQ(Entry().UnavailableReason(device),
            "runs on a CUDA or an emulated device; emulated, compiled, not run");
  device.kind = DeviceKind::kEmulated;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  device.kind = DeviceKind::kCuda;
  device.compute_capability = 120;
  EXPECT_EQ(Entry().UnavailableReason(device), "");
  for (const int capability : {90, 100}) {
    device.compute_capability = capability;
    EXPECT_EQ(
        Entry().UnavailableReason(device),
        "needs sm_120, this is sm_" + std::to_string(capability) + "; emulated, compiled, not run");
  }
}

TEST(MxRegistry, SaysWhyNot) {
  for (const DataType a : {DataType::kFp8E4M3, DataType::kFp8E5M2}) {
    for (const DataType b : {DataType::kFp8E4M3, DataType::kFp8E5M2}) {
      EXPECT_EQ(Entry().Rejection(Padded(a, b)), "");
    }
  }
  EXPECT_EQ(Entry().Rejection(Padded(DataType::kInt8)),
            "takes fp8_e4m3 or fp8_e5m2 as A, not int8");
  Problem problem = Padded();
  problem.b_scaling.order = ScaleOrder::kAlongK;
  EXPECT_EQ(Entry().Rejection(problem), "takes scales of B as e8m0/1x32@tiles, not e8m0/1x32");
  problem = Padded();
  problem.transpose_b = false;
  EXPECT_EQ(Entry().Rejection(problem), "takes a K-major B");
  problem = Padded();
  problem.a.leading_dimension = 301;
  EXPECT_EQ(Entry().Rejection(problem),
            "takes a leading dimension of A that is a multiple of 16, not 301");
  problem = Padded();
  problem.d.type = DataType::kBf16;
  EXPECT_EQ(Entry().Rejection(problem), "writes f32, not bf16");
  problem = Padded();
  problem.epilogue.has_bias = true;
  EXPECT_EQ(Entry().Rejection(problem), "has no epilogue: alpha 1, beta 0, no bias, no activation");
}

TEST(MxRegistry, NumericsAreItsOwn) {
  EXPECT_EQ(Entry().NumericsId(Padded()), "mma-mx-k32:fp8_e4m3,fp8_e5m2");
  EXPECT_NE(Entry().NumericsId(Padded()),
            BuiltinRegistry().Find("sm100/d11")->NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd::testing
