// sm120/mx in the emulator: each bit of D, on whole and ragged shapes, and what a block takes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/workshop/sm120_mxfp8/mx_launch.h"
#include "tests/kernels/mma/mx_run.h"

namespace gemmd::testing {
namespace {

constexpr DataType kE4m3 = DataType::kFp8E4M3;
constexpr DataType kE5m2 = DataType::kFp8E5M2;

class Mx : public ::testing::TestWithParam<MxCase> {};

TEST_P(Mx, GivesEveryBitOfTheProductHoweverCopiesLand) {
  const MxOperands operands(GetParam());
  const std::vector<float> expected = MxProduct(operands.a, operands.b);
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    options.seed = 7;
    EXPECT_EQ(RunMx(sm120_mxfp8::LaunchMx, GetParam(), options, expected), "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Mx,
    ::testing::Values(MxCase{{256, 256, 256}}, MxCase{{128, 128, 1024}, kE5m2, kE5m2},
                      MxCase{{300, 200, 173}, kE4m3, kE5m2, 3, 1},  // D's rows aligned to nothing
                      MxCase{{300, 201, 640}, kE5m2, kE4m3, 1},     // N ends inside a pair
                      MxCase{{1, 1, 1}}, MxCase{{1, 132, 40}, kE5m2, kE4m3, 4}));

TEST(MxSeeds, RaiseNothing) {
  const MxCase each = {{130, 250, 700}, kE5m2, kE4m3};
  const MxOperands operands(each);
  const std::vector<float> expected = MxProduct(operands.a, operands.b);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    ASSERT_EQ(RunMx(sm120_mxfp8::LaunchMx, each, options, expected), "") << "seed " << seed;
  }
}

// Two stages of two tiles of 16 KB and two of 512 bytes of scales, and an mbarrier each.
TEST(MxLayout, FitsSm120) {
  EXPECT_EQ(std::uint32_t{sm120_mxfp8::MxLayout::kSharedBytes}, 67600u);
  EXPECT_LE(std::uint32_t{sm120_mxfp8::MxLayout::kSharedBytes}, sm120_mxfp8::kSharedBytesLimit);
  EXPECT_EQ(int{sm120_mxfp8::MxLayout::kThreads}, 256);
}

// Fragments are free of conflicts. A word of scales is 16 bytes from the next lane's, so that 32 of
// them take four passes, three more than their bytes need: three words for each of eight warps.
TEST(MxBanks, OnlyScalesConflict) {
  for (const std::int64_t k : {std::int64_t{128}, std::int64_t{384}}) {
    MxOperands operands(MxCase{{128, 128, k}});
    emulator::Session session;
    session.options.count_bank_conflicts = true;
    LaunchTarget target;
    target.emulator = &session;
    ASSERT_TRUE(
        sm120_mxfp8::LaunchMx(operands.MakeProblem(), operands.MakeArguments(), target).ok());
    EXPECT_EQ(session.report.statistics.extra_wavefronts(),
              static_cast<std::uint64_t>(k / 128) * 8 * 3 * 3);
  }
}

}  // namespace
}  // namespace gemmd::testing
