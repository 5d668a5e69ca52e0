// The variant that docs/writing-a-kernel.md adds to ladder A gives the right bits.
#include <gtest/gtest.h>

#include "kernels/workshop/ampere_mma/ladder_a_launch.h"
#include "tests/kernels/guide/a07.h"
#include "tests/kernels/mma/direct_run.h"

namespace gemmd::testing {
namespace {

TEST(GuideVariant, IsRightOnEverySeed) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    emulator::Options options;
    options.seed = seed;
    EXPECT_EQ(RunDirect(copy_async::Launch<ampere_mma::A07, mma::F16AccumulateF32>, {128, 136, 328},
                        options),
              "")
        << "seed " << seed;
  }
}

// It has the shared memory that the page says: two thirds of a06's.
TEST(GuideVariant, TakesAThirdLessSharedMemory) {
  EXPECT_EQ(copy_async::BlockShape<ampere_mma::A07>::kSharedBytes * 3,
            copy_async::BlockShape<ampere_mma::A06>::kSharedBytes * 2);
}

}  // namespace
}  // namespace gemmd::testing
