// What ladder B's registry entries take, and why not otherwise.
#include <gtest/gtest.h>

#include "kernels/gemm.h"

namespace gemmd {
namespace {

const Kernel& Entry(const char* name = "sm120/tma_rw") { return *BuiltinRegistry().Find(name); }

Problem Padded() {
  Problem problem = MakeProblem(100, 200, 300, DataType::kBf16, DataType::kBf16);
  problem.a.leading_dimension = 304;
  return problem;
}

TEST(LadderBRegistry, NamesEveryStep) {
  for (const char* name : {"sm120/bcf_dbf_rw", "sm120/k_stages", "sm120/tma_loads",
                           "sm120/tma_r_32", "sm120/tma_r_64", "sm120/tma_rw"}) {
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

TEST(LadderBRegistry, SharesTheNumericsIdOfLadderA) {
  EXPECT_EQ(Entry().NumericsId(Padded()), Entry("sm80/a05").NumericsId(Padded()));
}

}  // namespace
}  // namespace gemmd
