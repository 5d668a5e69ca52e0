// A fault planted into a source of the f32 product (BUILD.bazel says which) is caught on each of
// 10 seeds: by a rule of the emulator, or by a wrong bit of D.
#include <gtest/gtest.h>

// The changed copy of launch.h, with changed or equal copies of what it includes.
#include SM90F32_HEADER

#include "tests/kernels/sm90f32/direct_run.h"

namespace gemmd::testing {
namespace {

TEST(PlantedFault, IsCaughtOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::Options options;
    options.seed = seed;
    const std::string wrong = RunDirect<SM90F32_TILING, ptx::Major::kK>(SM90F32_SHAPE, options);
    EXPECT_NE(wrong, "") << "seed " << seed;
    if (seed == 1) std::printf("%s\n", wrong.c_str());
  }
}

}  // namespace
}  // namespace gemmd::testing
