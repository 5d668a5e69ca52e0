// Weights land as landed.h says, byte for byte, whatever their layout.
#include "kernels/hopper/quant/landing.h"

#include <gtest/gtest.h>

#include "kernels/hopper/quant/zero_kind.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::LandWeights;
using hopper::quant::WeightPlanes;

TEST(Landing, GivesEveryByte) {
  for (int which = 0; which < 24; ++which) {
    QuantCase c;
    c.n = which % 3 == 0 ? 64 : which % 3 == 1 ? 200 : 1;
    c.k = which % 3 == 0 ? 256 : which % 3 == 1 ? 130 : 5;
    c.b = which / 3 % 2 == 0 ? DataType::kInt4 : DataType::kUint4;
    c.has_zero_points = which / 6 % 2 == 0;
    c.b_is_k_major = which / 12 % 2 == 0;
    SCOPED_TRACE(which);
    QuantRun run(c);
    Bytes landed(run.landed_bytes);
    const emulator::Report report = QuantRun::RunIn(
        [&](const LaunchTarget& target) {
          return LandWeights(run.problem,
                             {run.codes.data(), run.scales.data(), run.zeros.data(), landed.data()},
                             target);
        },
        {});
    ASSERT_EQ(report.message, "");
    EXPECT_EQ(
        std::memcmp(landed.data(), run.landed.data(), static_cast<std::size_t>(run.landed_bytes)),
        0);
  }
}

TEST(Landing, SaysWhatItDoesNotTake) {
  Problem problem = MakeQuantProblem({});
  EXPECT_EQ(hopper::quant::WeightRejection(problem), "");
  problem.b_scaling.block_k = 64;
  EXPECT_EQ(hopper::quant::WeightRejection(problem),
            "takes f16 scales of 1 x 128 for B, not f16/1x64");
  problem.b.type = DataType::kInt8;
  EXPECT_EQ(hopper::quant::WeightRejection(problem), "takes B of int4 or uint4, not int8");
}

}  // namespace
}  // namespace gemmd::testing
