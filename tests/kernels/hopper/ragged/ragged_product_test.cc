// The product of lines that start anywhere, in the emulator: each bit of D.
#include <gtest/gtest.h>

#include "tests/kernels/hopper/half/hopper_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

class RaggedGemm : public ::testing::TestWithParam<const char*> {
 protected:
  void ExpectEveryBit(const HopperCase& c, emulator::Landing landing, std::uint64_t seed = 1,
                      bool b_is_settled = false);
};

void RaggedGemm::ExpectEveryBit(const HopperCase& c, emulator::Landing landing, std::uint64_t seed,
                                bool b_is_settled) {
  const char* const kEntry = GetParam();
  HopperRun run(c);
  run.b_is_settled = b_is_settled;
  ASSERT_EQ(BuiltinRegistry().Find(kEntry)->Rejection(run.problem), "");
  emulator::Options options;
  options.landing = landing;
  options.seed = seed;
  const emulator::Report report = run.Launch(kEntry, options);
  ASSERT_EQ(report.message, "") << ToString(run.problem) << " gap " << c.gap;
  EXPECT_EQ(run.CountWrong(), 0) << ToString(run.problem) << " gap " << c.gap;
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched()) << ToString(run.problem) << " gap " << c.gap;
}

// Odd and even pitches of B and D, of every remainder by 8; K below, at and past blocks of 64.
TEST_P(RaggedGemm, GivesEveryBitWhateverThePitch) {
  for (int gap = 0; gap < 8; ++gap) {
    const DataType type = gap % 2 == 0 ? DataType::kF16 : DataType::kBf16;
    ExpectEveryBit({40, 136, 128 + gap, type, false, true, false, Order::kRowMajor, {}, gap},
                   gap % 3 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
  }
}

TEST_P(RaggedGemm, GivesEveryBitOfRaggedShapes) {
  for (const HopperCase& c : {HopperCase{1, 1, 1, DataType::kF16},
                              {5, 3, 70, DataType::kBf16},     // classes without a row
                              {77, 131, 333, DataType::kF16},  // tight, all odd
                              {300, 264, 71, DataType::kBf16},
                              {257, 129, 513, DataType::kBf16}}) {
    HopperCase tight = c;
    tight.transpose_b = true;
    tight.gap = 0;
    ExpectEveryBit(tight, emulator::Landing::kRandom);
  }
}

// A that is aligned is not copied; then nothing is read before the grid's turn.
TEST_P(RaggedGemm, TakesAlignedLinesToo) {
  HopperCase c = {70, 200, 96, DataType::kBf16, false, true};
  ExpectEveryBit(c, emulator::Landing::kRandom);
}

TEST_P(RaggedGemm, RaisesNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    HopperCase c = {90, 140, 601, DataType::kF16, false, true};
    c.gap = 0;
    ExpectEveryBit(c, seed % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom, seed);
  }
}

// B that nothing ahead writes is read while the repack runs.
TEST_P(RaggedGemm, TakesASettledB) {
  for (const int gap : {-1, 0, 3}) {
    HopperCase c = {90, 140, 601, DataType::kF16, false, true};
    c.gap = gap;
    ExpectEveryBit(c, emulator::Landing::kRandom, 1, true);
  }
}

// Rows have the bits of the aligned kernels.
TEST_P(RaggedGemm, SharesTheNumericsIdOfAlignedLines) {
  const Kernel& ragged = *BuiltinRegistry().Find(GetParam());
  const Problem problem = MakeHopperProblem({64, 64, 64, DataType::kBf16, false, true});
  EXPECT_EQ(ragged.NumericsId(problem),
            BuiltinRegistry().Find("sm90/one64x64")->NumericsId(problem));
}

TEST_P(RaggedGemm, SaysWhyNot) {
  const Kernel& ragged = *BuiltinRegistry().Find(GetParam());
  EXPECT_EQ(ragged.Rejection(MakeProblem(9, 9, 9, DataType::kBf16, DataType::kBf16)),
            "takes B with neighbours along K");
  EXPECT_EQ(ragged.Rejection(MakeProblem(9, 9, 9, DataType::kBf16, DataType::kF32, false, true)),
            "has no epilogue and writes the operands' type");
}

INSTANTIATE_TEST_SUITE_P(All, RaggedGemm,
                         ::testing::Values("sm90/ragged256x128", "sm90/ragged64x64"),
                         [](const auto& info) { return std::string(info.param).substr(5); });

// Copies of small products cost less than tiles that they do not fill.
TEST(RaggedSelection, TakesSmallTilesForSmallProducts) {
  const auto chosen = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    HopperCase c = {m, n, k, DataType::kBf16, false, true};
    c.gap = 0;
    return Select(BuiltinRegistry(), MakeHopperProblem(c), H200())->kernel->traits().name;
  };
  EXPECT_EQ(chosen(1023, 4095, 4097), "sm90/ragged256x128");
  EXPECT_EQ(chosen(300, 301, 303), "sm90/ragged64x64");
  EXPECT_EQ(chosen(77, 1000, 4111), "sm90/ragged64x64");
}

}  // namespace
}  // namespace gemmd::testing
