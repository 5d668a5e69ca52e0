// A fault planted into ladder B's source (BUILD.bazel says which) is caught on each of 20
// seeds: by a rule of the emulator, or by a wrong bit of D.
#include <gtest/gtest.h>

// The changed copy of ladder_b.h and of the headers that it stands on. NOLINTNEXTLINE
#include LADDER_B_HEADER

#include "tests/kernels/sm120/ladder_b_run.h"

namespace gemmd::testing {
namespace {

// A tile of D that TMA stores and one that threads do.
constexpr Shape kShape{128, 253, 288};

Outcome RunFaulty(std::uint64_t seed, emulator::Landing landing) {
  static const std::vector<std::uint16_t> expected = ExpectedOfLadderB(kShape);
  emulator::Options options;
  options.seed = seed;
  options.landing = landing;
  return RunLadderB<sm120::LADDER_B_STEP>(kShape, options, expected);
}

TEST(PlantedFault, IsCaughtOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Outcome outcome = RunFaulty(seed, emulator::Landing::kRandom);
    EXPECT_FALSE(outcome.ok()) << "seed " << seed;
    if (seed == 1) {
      std::printf("%s\n", outcome.report.ok() ? "wrong bits" : outcome.report.message.c_str());
    }
  }
}

TEST(PlantedFault, IsCaughtEvenWhereCopiesLandAtOnce) {
  EXPECT_FALSE(RunFaulty(1, emulator::Landing::kEager).ok());
}

}  // namespace
}  // namespace gemmd::testing
