// d11's forms for mxfp4 and nvfp4 in the emulator: each bit of D, on whole and ragged shapes, and
// where scales lie.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "kernels/workshop/blackwell_mxfp8/ladder_d_launch.h"
#include "tests/kernels/mma/mx_run.h"
#include "tests/testing/products/exact_product.h"

namespace gemmd::testing {
namespace {

// Forms of d11 as they are where products are large, which store D by TMA.
struct LargeMxfp4 : blackwell_mxfp8::D11Mxfp4 {
  static constexpr int kLargeFrom = 1;
};
struct LargeNvfp4 : blackwell_mxfp8::D11Nvfp4 {
  static constexpr int kLargeFrom = 1;
};

using MakeCase = MxCase(const Shape&, std::int64_t, std::int64_t);
struct Step {
  const char* name;
  MxLaunch* launch;
  MakeCase* make_case;
};

std::ostream& operator<<(std::ostream& out, const Step& step) { return out << step.name; }

const Step kSteps[] = {
    {"mxfp4", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D11Mxfp4>, Mxfp4Case},
    {"mxfp4_large", blackwell_mxfp8::LaunchLadderD<LargeMxfp4>, Mxfp4Case},
    {"nvfp4", blackwell_mxfp8::LaunchLadderD<blackwell_mxfp8::D11Nvfp4>, Nvfp4Case},
    {"nvfp4_large", blackwell_mxfp8::LaunchLadderD<LargeNvfp4>, Nvfp4Case},
};

class LadderDFp4 : public ::testing::TestWithParam<Step> {
 public:
  static std::vector<MxCase> Cases() {
    MakeCase* const make = GetParam().make_case;
    return {make({256, 256, 256}, 0, 0), make({512, 256, 768}, 0, 0),
            make({300, 200, 346}, 3, 1),  // every edge ragged, D's rows aligned to nothing
            make({1, 132, 40}, 4, 0)};    // N ends in a whole unit of 16 bytes
  }
};

TEST_P(LadderDFp4, GivesEveryBitOfTheProduct) {
  for (const MxCase& each : Cases()) EXPECT_EQ(RunMx(GetParam().launch, each, {}), "") << each;
}

// Five tiles on two pairs: each accumulator is taken again.
TEST_P(LadderDFp4, RaisesNothingHoweverCopiesLand) {
  const MxCase each = GetParam().make_case({256, 1280, 128}, 0, 0);
  const MxOperands operands(each);
  const std::vector<float> expected = MxProduct(operands.a, operands.b);
  for (const emulator::Landing landing :
       {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    options.seed = 7;
    EXPECT_EQ(RunMx(GetParam().launch, each, options, expected), "");
  }
}

// Two tiles, with more stages than slots of scales.
TEST_P(LadderDFp4, RaisesNothingOn20Seeds) {
  const MxCase each = GetParam().make_case({130, 300, 900}, 0, 0);
  const MxOperands operands(each);
  const std::vector<float> expected = MxProduct(operands.a, operands.b);
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    ASSERT_EQ(RunMx(GetParam().launch, each, options, expected), "") << "seed " << seed;
  }
}

// As ladder_d_test has it for each step.
TEST_P(LadderDFp4, RaisesNothingOnAsManySeedsAsAsked) {
  const char* const seeds = std::getenv("GEMMD_LADDER_D_SEEDS");
  if (seeds == nullptr) GTEST_SKIP() << "GEMMD_LADDER_D_SEEDS is not set";
  for (const Shape& shape : {Shape{256, 256, 256}, Shape{512, 256, 384}, Shape{512, 1280, 256}}) {
    const MxCase each = GetParam().make_case(shape, 0, 0);
    const MxOperands operands(each);
    const std::vector<float> expected = MxProduct(operands.a, operands.b);
    for (int seed = 1; seed <= std::atoi(seeds); ++seed) {
      emulator::Options options;
      options.seed = static_cast<std::uint64_t>(seed);
      options.landing = emulator::Landing::kRandom;
      ASSERT_EQ(RunMx(GetParam().launch, each, options, expected), "") << each << ", seed " << seed;
    }
  }
}

// The registry's bound: L is the largest product of two scales rounded down to powers of two, or
// the sum of all products' magnitudes, which no partial sum exceeds.
TEST_P(LadderDFp4, BitsAreWithinTheirBound) {
  for (const MxCase& each : Cases()) {
    const MxOperands operands(each);
    const ExactProductResult exact = ExactProduct(operands.a.View(), operands.b.View());
    const std::vector<float> bits = MxProduct(operands.a, operands.b);
    const auto largest = [](const MxOperand& operand) {
      int exponent = -126;
      for (std::int64_t line = 0; line < operand.lines(); ++line) {
        for (const Fp4Block& block : Fp4Blocks(operand, line)) {
          for (const Fp4Group& group : block) exponent = std::max(exponent, group.exponent);
        }
      }
      return exponent;
    };
    const double tensor = operands.a.View().tensor_scale * operands.b.View().tensor_scale;
    const double scales = std::ldexp(tensor, largest(operands.a) + largest(operands.b));
    const std::int64_t blocks = (each.shape.k + 63) / 64;
    const auto products = static_cast<double>(blocks);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      const double l = std::max(scales, exact.magnitude[i]);
      const double bound = products * (5 * 0x1p-35 * l + 0x1p-23 * exact.magnitude[i]) +
                           0x1.01p-23 * std::fabs(exact.d[i]);
      ASSERT_LE(std::fabs(bits[i] - exact.d[i]), bound) << each << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, LadderDFp4, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param.name); });

template <class Step, bool kTensorStores>
void ExpectLayout(int stages, int shared_bytes, int slots, int columns) {
  using Layout = blackwell_mxfp8::LadderDLayout<Step, kTensorStores>;
  EXPECT_EQ(int{Layout::kStages}, stages) << Step::kName;
  EXPECT_EQ(int{Layout::kSharedBytes}, shared_bytes) << Step::kName;
  EXPECT_EQ(int{Layout::kSlots}, slots) << Step::kName;
  EXPECT_EQ(int{Layout::kColumns}, columns) << Step::kName;
}

TEST(LadderDFp4Layouts, FitInSharedAndTensorMemory) {
  ExpectLayout<blackwell_mxfp8::D11Mxfp4, false>(6, 215192, 2, 496);
  ExpectLayout<blackwell_mxfp8::D11Mxfp4, true>(6, 231576, 2, 496);
  ExpectLayout<blackwell_mxfp8::D11Nvfp4, false>(5, 194696, 2, 480);
  ExpectLayout<blackwell_mxfp8::D11Nvfp4, true>(5, 211080, 2, 480);
}

}  // namespace
}  // namespace gemmd::testing
