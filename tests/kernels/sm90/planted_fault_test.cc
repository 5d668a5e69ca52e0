// A fault planted into a source of the Hopper GEMM (BUILD.bazel says which) is caught on each of
// 10 seeds: by a rule of the emulator, or by a wrong bit of D.
#include <gtest/gtest.h>

// The changed copy of wgmma_gemm.h, with changed or equal copies of what it includes.
#include SM90_HEADER

#include "tests/kernels/sm90/direct_launch.h"

namespace gemmd::testing {
namespace {

TEST(PlantedFault, IsCaughtOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::Options options;
    options.seed = seed;
    const std::string wrong = RunDirect<SM90_TILING, false>({SM90_SHAPE}, options);
    EXPECT_NE(wrong, "") << "seed " << seed;
    if (seed == 1) std::printf("%s\n", wrong.c_str());
  }
}

}  // namespace
}  // namespace gemmd::testing
