// The products of many rows in the emulator: each bit of D, whatever tiling, format, shape and
// layout.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/hopper/quant/wide_entries.h"
#include "kernels/hopper/quant/zero_kind.h"
#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::kWideTilingCount;
using hopper::quant::kWideTilings;
using hopper::quant::WideTiling;

void ExpectEveryBit(int tiling, QuantCase c, const emulator::Options& options) {
  const WideTiling& tiling_of = kWideTilings[tiling];
  const std::int64_t lines = 64 * tiling_of.groups * tiling_of.line_blocks * tiling_of.cluster;
  c.n = (c.n + lines - 1) / lines * lines - c.n % 3;
  QuantRun run(c);
  ExpectBitsOfTheModel(
      &run,
      [&](const LaunchTarget& target) {
        return hopper::quant::WideFor(target, tiling)(run.problem, run.MakeArguments(), target);
      },
      options);
}

class WideProduct : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(WideProduct, GivesEveryBitOfTheModel) {
  const auto& [tiling, shape] = GetParam();
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    ExpectEveryBit(tiling, {shape.m, shape.n, shape.k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WideProduct,
                         ::testing::Combine(::testing::Range(0, kWideTilingCount),
                                            ::testing::Values(Shape{1, 1, 64}, Shape{40, 64, 128},
                                                              Shape{130, 200, 704},
                                                              Shape{70, 64, 1856})),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(std::get<0>(info.param), "_", shape.m, "x", shape.n,
                                               "x", shape.k);
                         });

class WideTilings : public ::testing::TestWithParam<int> {};

TEST_P(WideTilings, TakeEveryFormatAndLayout) {
  ForEveryFormatAndLayout({33, 72, 320},
                          [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
}

TEST_P(WideTilings, FuseTheEpilogue) {
  ForEveryEpilogue({35, 70, 256}, [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
}

TEST_P(WideTilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 7 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    const std::int64_t k = 128 * static_cast<std::int64_t>(seed);
    ExpectEveryBit(GetParam(), {static_cast<std::int64_t>(seed * 5), 64, k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, WideTilings, ::testing::Range(0, kWideTilingCount));

}  // namespace
}  // namespace gemmd::testing
