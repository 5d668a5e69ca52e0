// Tests which problems ladder D's registry entries take, why not others, and that a plan by name
// computes a product.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/mma/mx_run.h"

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
  std::vector<std::string> names = {"sm100/d7_evict_first", "sm100/d7_any_hilbert",
                                    "sm100/d9_boxes"};
  for (int step = 0; step <= 15; ++step) names.push_back("sm100/d" + std::to_string(step));
  for (const std::string& name : names) {
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

struct Fp4Row {
  const char* name;
  MxCase each;
};
const Fp4Row kFp4Rows[] = {{"sm100/d11_mxfp4", Mxfp4Case({100, 200, 300}, 4)},
                           {"sm100/d11_nvfp4", Nvfp4Case({100, 200, 300}, 4)}};

TEST(LadderDRegistry, FormsOfD11ComputeByName) {
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  for (const Fp4Row& row : kFp4Rows) {
    ASSERT_NE(BuiltinRegistry().Find(row.name), nullptr) << row.name;
    EXPECT_TRUE(Entry(row.name).traits().only_by_name) << row.name;
    MxOperands operands(row.each);
    const absl::StatusOr<Plan> plan =
        Select(BuiltinRegistry(), operands.MakeProblem(), device, row.name);
    ASSERT_TRUE(plan.ok()) << plan.status();
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    const absl::Status status = plan->kernel->Launch(operands.MakeProblem(), plan->config,
                                                     operands.MakeArguments(), target);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(FindWrong(operands, MxProduct(operands.a, operands.b)), "") << row.name;
  }
}

TEST(LadderDRegistry, FormsOfD11TakeE2m1InWholeBytes) {
  const Kernel& mxfp4 = Entry("sm100/d11_mxfp4");
  const Kernel& nvfp4 = Entry("sm100/d11_nvfp4");
  const Problem of_mxfp4 = MxOperands(kFp4Rows[0].each).MakeProblem();
  const Problem of_nvfp4 = MxOperands(kFp4Rows[1].each).MakeProblem();
  EXPECT_EQ(mxfp4.Rejection(of_mxfp4), "");
  EXPECT_EQ(nvfp4.Rejection(of_nvfp4), "");
  EXPECT_EQ(mxfp4.Rejection(of_nvfp4),
            "takes scales of A as e8m0/1x32@tiles, not fp8_e4m3/1x16+tensor@tiles");
  EXPECT_EQ(nvfp4.Rejection(of_mxfp4),
            "takes scales of A as fp8_e4m3/1x16+tensor@tiles, not e8m0/1x32@tiles");
  EXPECT_EQ(mxfp4.Rejection(Padded()), "takes fp4_e2m1 as A, not fp8_e4m3");
  EXPECT_EQ(Entry().Rejection(of_mxfp4), "takes fp8_e4m3 or fp8_e5m2 as A, not fp4_e2m1");
  Problem problem = of_mxfp4;
  problem.a.leading_dimension = 304;
  EXPECT_EQ(mxfp4.Rejection(problem),
            "takes a leading dimension of A that is a multiple of 32, not 304");
  problem.a.leading_dimension = std::int64_t{1} << 41;
  EXPECT_EQ(mxfp4.Rejection(problem),
            "takes leading dimensions up to 2199023255520, not 2199023255552");
  EXPECT_EQ(mxfp4.Rejection(MxOperands(Mxfp4Case({100, 200, 301})).MakeProblem()),
            "takes an even K, not 301");
  EXPECT_EQ(mxfp4.NumericsId(of_mxfp4), "tcgen05-mxf4-k64:fp4_e2m1,fp4_e2m1");
  EXPECT_EQ(nvfp4.NumericsId(of_nvfp4), "tcgen05-nvf4-k64:fp4_e2m1,fp4_e2m1");
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
    EXPECT_EQ(
        Entry().UnavailableReason(device),
        "needs sm_100, this is sm_" + std::to_string(capability) + "; emulated, compiled, not run");
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
  for (int step = 1; step <= 15; ++step) {
    EXPECT_EQ(Entry("sm100/d" + std::to_string(step)).NumericsId(Padded()),
              Entry("sm100/d0").NumericsId(Padded()));
  }
  EXPECT_NE(Entry().NumericsId(Padded()), Entry().NumericsId(Padded(DataType::kFp8E5M2)));
}

}  // namespace
}  // namespace gemmd::testing
