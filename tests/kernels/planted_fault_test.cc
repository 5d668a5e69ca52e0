// A fault planted into a kernel's source (the BUILD file says which) is caught on each seed: by a
// rule of the emulator, or by a wrong bit of D.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <string>

#include "kernels/emulator/options.h"

// Copies of the family's headers, one of them changed.
#include PLANTED_HEADER

// The header of the code that runs them.
#include PLANTED_RUN_HEADER

namespace gemmd::testing {
namespace {

std::string WhatIsWrong(const emulator::Options& options) { return PLANTED_RUN; }

TEST(PlantedFault, IsCaughtOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= PLANTED_SEEDS; ++seed) {
    emulator::Options options;
    options.seed = seed;
    const std::string wrong = WhatIsWrong(options);
    EXPECT_NE(wrong, "") << "seed " << seed;
    if (seed == 1) std::printf("%s\n", wrong.c_str());
  }
}

#if PLANTED_IS_CAUGHT_AT_ONCE
TEST(PlantedFault, IsCaughtEvenWhereCopiesLandAtOnce) {
  emulator::Options options;
  options.landing = emulator::Landing::kEager;
  EXPECT_NE(WhatIsWrong(options), "");
}
#endif

}  // namespace
}  // namespace gemmd::testing
