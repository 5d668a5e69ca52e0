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
#include "tests/kernels/hopper/quant/every_case.h"
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
  ExpectBitsOfTheModel(
      &run,
      [&](const LaunchTarget& target) {
        return hopper::quant::FewFor(target, tiling)(run.problem, run.MakeArguments(), target);
      },
      options);
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
  ForEveryFormatAndLayout({3, 72, 704},
                          [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
}

TEST_P(FewTilings, FuseTheEpilogue) {
  ForEveryEpilogue({4, 70, 256}, [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
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
