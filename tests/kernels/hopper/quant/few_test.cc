// The products of few rows in the emulator: each bit of D, whatever tiling, format, shape and
// layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/few_entries.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/hopper/quant/zero_kind.h"
#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::kFewTilingCount;
using hopper::quant::kFewTilings;

static_assert(kFewTilingCount == hopper::quant::kFewVariants);

void ExpectEveryBit(int tiling, QuantCase c, const emulator::Options& options) {
  c.m = std::min<std::int64_t>(c.m, kFewTilings[tiling].rows);
  if (kFewTilings[tiling].strips > 4) c.n = (c.n + 127) / 128 * 128 - c.n % 3;
  QuantRun run(c);
  const emulator::Report report = QuantRun::RunIn(
      [&](const LaunchTarget& target) {
        return hopper::quant::FewFor(target, tiling)(run.problem, run.MakeArguments(), target);
      },
      options);
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(run.CountWrong(), 0);
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
}

class FewProduct : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(FewProduct, GivesEveryBitOfTheModel) {
  const auto& [tiling, shape] = GetParam();
  if (shape.m > kFewTilings[tiling].rows) GTEST_SKIP();
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    ExpectEveryBit(tiling, {shape.m, shape.n, shape.k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, FewProduct,
    ::testing::Combine(::testing::Range(0, kFewTilingCount),
                       ::testing::Values(Shape{1, 64, 128},                        // one unit
                                         Shape{1, 1, 64},                          // almost nothing
                                         Shape{5, 70, 1024}, Shape{8, 128, 5120},  // rings go round
                                         Shape{11, 130, 1216}, Shape{16, 33, 4160})),
    [](const auto& info) {
      const Shape& shape = std::get<1>(info.param);
      return absl::StrCat(std::get<0>(info.param), "_", shape.m, "x", shape.n, "x", shape.k);
    });

class FewTilings : public ::testing::TestWithParam<int> {};

TEST_P(FewTilings, TakeEveryFormatAndLayout) {
  for (int which = 0; which < 32; ++which) {
    QuantCase c = {3, 72, 704};
    c.a = (which & 1) != 0 ? DataType::kF16 : DataType::kBf16;
    c.b = (which & 2) != 0 ? DataType::kUint4 : DataType::kInt4;
    c.has_zero_points = (which & 4) != 0;
    c.b_is_k_major = (which & 8) != 0;
    c.d_order = (which & 16) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.d = which % 3 == 0 ? DataType::kF32 : c.a;
    c.b_is_settled = which % 5 != 0;
    SCOPED_TRACE(which);
    ExpectEveryBit(GetParam(), c, {});
  }
}

TEST_P(FewTilings, FuseTheEpilogue) {
  for (const DataType type : {DataType::kBf16, DataType::kF16, DataType::kF32}) {
    QuantCase c = {4, 70, 256};
    c.d = type;
    c.epilogue = {0.5, -1.5, true, Activation::kRelu};
    ExpectEveryBit(GetParam(), c, {});
  }
}

TEST_P(FewTilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 15 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    const std::int64_t k = seed % 4 == 0 ? 6400 : 128 * static_cast<std::int64_t>(seed);
    ExpectEveryBit(GetParam(), {static_cast<std::int64_t>(seed % 8 + 1), 64, k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FewTilings, ::testing::Range(0, kFewTilingCount));

}  // namespace
}  // namespace gemmd::testing
