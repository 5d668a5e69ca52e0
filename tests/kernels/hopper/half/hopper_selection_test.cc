// Tests which tiling serves which problem on a Hopper device, and why not the others. Needs no
// device.
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "kernels/gemm.h"
#include "tests/kernels/hopper/half/hopper_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

std::string Chosen(const HopperCase& c) {
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), MakeHopperProblem(c), H200());
  return plan.ok() ? plan->kernel->traits().name : plan.status().ToString();
}

// Selection chooses the entries that experiments found quickest (docs/lab/hopper-tiles.md), weights
// K-major.
TEST(HopperSelection, TakesWhatMeasuredBest) {
  struct Expected {
    std::int64_t m, n, k;
    const char* entry;
  };
  for (const Expected& e : {Expected{512, 512, 512, "sm90/one64x64"},
                            {1024, 1024, 1024, "sm90/one64x128"},
                            {2048, 2048, 2048, "sm90/coop128x256"},
                            {4096, 4096, 4096, "sm90/coop128x256c2"},
                            {8192, 8192, 8192, "sm90/pp128x192c2"},
                            {16384, 16384, 16384, "sm90/coop256x192c2"},
                            {128, 8192, 28672, "sm90/one64x128c2"},
                            {256, 7168, 4096, "sm90/coop128x112c2"},
                            {256, 8192, 8192, "sm90/coop128x128c2"},
                            {512, 4096, 4096, "sm90/coop128x128c2"},
                            {512, 8192, 8192, "sm90/coop128x256c2"},
                            {4096, 4096, 7168, "sm90/coop128x256c2"},
                            {4096, 24576, 1536, "sm90/pp128x192c2"},
                            {4096, 7168, 16384, "sm90/coop128x256c2"},
                            {4096, 32768, 512, "sm90/pp128x192c2"},
                            {1, 8192, 8192, "sm90/one64x64"},
                            {64, 8192, 8192, "sm90/one64x64"},
                            {300, 300, 300, "sm90/one64x32"}}) {
    EXPECT_EQ(Chosen({e.m, e.n, e.k, DataType::kBf16, false, true}), e.entry)
        << e.m << "x" << e.n << "x" << e.k;
  }
}

// In every layout and for every M some tiling serves, and all have one numerics id.
TEST(HopperSelection, ServesEveryLayoutWithOneNumericsId) {
  for (int which = 0; which < 32; ++which) {
    for (const std::int64_t m : {1, 2, 65, 130, 1000, 5000}) {
      for (const std::int64_t k : {1, 16, 64, 1000}) {
        HopperCase c = {m, 1000, k, DataType::kF16, (which & 1) != 0, (which & 2) != 0};
        c.writes_f32 = (which & 4) != 0;
        c.d_order = (which & 8) != 0 ? Order::kColumnMajor : Order::kRowMajor;
        if ((which & 16) != 0) c.epilogue = {0.5, 2, true, Activation::kSilu};
        const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), MakeHopperProblem(c), H200());
        ASSERT_TRUE(plan.ok()) << plan.status();
        EXPECT_TRUE(absl::StartsWith(plan->kernel->traits().name, "sm90/"))
            << plan->kernel->traits().name << " for " << ToString(MakeHopperProblem(c));
        EXPECT_EQ(plan->numerics_id, "tensor-core-k16:f16:f32");
      }
    }
  }
}

TEST(HopperSelection, SaysWhyNot) {
  const Kernel& entry = *BuiltinRegistry().Find("sm90/coop128x112c2");
  HopperCase c = {64, 64, 64, DataType::kBf16, false, true};
  EXPECT_EQ(entry.Rejection(MakeHopperProblem(c)), "");
  c.writes_f32 = true;
  EXPECT_EQ(entry.Rejection(MakeHopperProblem(c)), "has no epilogue and writes the operands' type");
  c = {64, 64, 64, DataType::kBf16, true, true};
  EXPECT_EQ(entry.Rejection(MakeHopperProblem(c)), "takes A with neighbours along K");
  Problem odd = MakeProblem(64, 63, 64, DataType::kBf16, DataType::kBf16);
  EXPECT_EQ(entry.Rejection(odd), "takes a leading dimension of B that is a multiple of 8, not 63");
  EXPECT_EQ(entry.Rejection(MakeProblem(8, 8, 8, DataType::kF32, DataType::kF32)),
            "takes f16 or bf16 operands");
  DeviceTraits device = H200();
  device.compute_capability = 100;
  EXPECT_EQ(entry.UnavailableReason(device), "needs sm_90a, this is sm_100");
}

// Measuring tries orders that walk the tiles differently, the planned one first, and no other
// twice; what has one row of tiles has one order.
TEST(HopperSelection, OffersRastersToMeasure) {
  const Kernel& pairs = *BuiltinRegistry().Find("sm90/coop128x256c2");
  const Kernel& alone = *BuiltinRegistry().Find("sm90/coop128x256");
  const Problem large = MakeHopperProblem({8192, 8192, 8192, DataType::kBf16, false, true});
  const Problem wide = MakeHopperProblem({256, 8192, 8192, DataType::kBf16, false, true});
  const std::vector<Config> configs = pairs.Alternatives(large, H200());
  EXPECT_EQ(configs.size(), 9U);
  EXPECT_EQ(configs[0], pairs.Configure(large, H200()));
  for (std::size_t i = 0; i < configs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(configs[i], configs[j]);
  }
  EXPECT_EQ(pairs.Alternatives(wide, H200()).size(), 1U);
  for (const Config& config : alone.Alternatives(large, H200())) EXPECT_EQ(config.by_place, 0);
}

}  // namespace
}  // namespace gemmd::testing
