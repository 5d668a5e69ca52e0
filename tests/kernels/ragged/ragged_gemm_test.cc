// The product of lines that start anywhere, in the emulator: each bit of D.
#include <gtest/gtest.h>

#include "tests/kernels/sm90/hopper_run.h"

namespace gemmd::testing {
namespace {

constexpr char kEntry[] = "sm90/ragged256x128";

void ExpectEveryBit(const HopperCase& c, emulator::Landing landing, std::uint64_t seed = 1) {
  HopperRun run(c);
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
TEST(RaggedGemm, GivesEveryBitWhateverThePitch) {
  for (int gap = 0; gap < 8; ++gap) {
    const DataType type = gap % 2 == 0 ? DataType::kF16 : DataType::kBf16;
    ExpectEveryBit({40, 136, 128 + gap, type, false, true, false, Order::kRowMajor, {}, gap},
                   gap % 3 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
  }
}

TEST(RaggedGemm, GivesEveryBitOfRaggedShapes) {
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
TEST(RaggedGemm, TakesAlignedLinesToo) {
  HopperCase c = {70, 200, 96, DataType::kBf16, false, true};
  ExpectEveryBit(c, emulator::Landing::kRandom);
}

TEST(RaggedGemm, RaisesNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    HopperCase c = {90, 140, 601, DataType::kF16, false, true};
    c.gap = 0;
    ExpectEveryBit(c, seed % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom, seed);
  }
}

// Rows have the bits of the aligned kernels.
TEST(RaggedGemm, SharesTheNumericsIdOfAlignedLines) {
  const Kernel& ragged = *BuiltinRegistry().Find(kEntry);
  const Problem problem = MakeHopperProblem({64, 64, 64, DataType::kBf16, false, true});
  EXPECT_EQ(ragged.NumericsId(problem),
            BuiltinRegistry().Find("sm90/one64x64")->NumericsId(problem));
}

TEST(RaggedGemm, SaysWhyNot) {
  const Kernel& ragged = *BuiltinRegistry().Find(kEntry);
  EXPECT_EQ(ragged.Rejection(MakeProblem(9, 9, 9, DataType::kBf16, DataType::kBf16)),
            "takes B with neighbours along K");
  EXPECT_EQ(ragged.Rejection(MakeProblem(9, 9, 9, DataType::kBf16, DataType::kF32, false, true)),
            "has no epilogue and writes the operands' type");
}

}  // namespace
}  // namespace gemmd::testing
