// The products by mxfp4 in the emulator, of few rows and of many: each bit of D is that of a chain
// over K, whatever tiling, shape, layout and scale.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/hopper/quant/chain_entries.h"
#include "kernels/hopper/quant/tilings.h"
#include "kernels/hopper/quant/wide_entries.h"
#include "kernels/hopper/quant/zero_kind.h"
#include "tests/kernels/emulator/shape.h"
#include "tests/kernels/hopper/quant/every_case.h"
#include "tests/kernels/hopper/quant/quant_planes.h"

namespace gemmd::testing {
namespace {

using hopper::quant::kChainTilingCount;
using hopper::quant::kChainTilings;
using hopper::quant::kWideTilingCount;
using hopper::quant::kWideTilings;
using hopper::quant::WideTiling;

static_assert(kChainTilingCount == hopper::quant::kChainVariants &&
              kWideTilingCount == hopper::quant::kWideVariants);

// Tilings of few rows come first.
constexpr int kForms = kChainTilingCount + kWideTilingCount;

absl::Status LaunchForm(int form, QuantRun* run, const LaunchTarget& target) {
  if (form < kChainTilingCount) {
    return hopper::quant::ChainFor(target, form)(run->problem, run->MakeArguments(), target);
  }
  return hopper::quant::WideFor(target, form - kChainTilingCount)(run->problem,
                                                                  run->MakeArguments(), target);
}

// M and N are made such that the form takes them.
void ExpectEveryBit(int form, QuantCase c, const emulator::Options& options) {
  c.b = DataType::kFp4E2M1;
  if (form < kChainTilingCount) {
    c.m = std::min<std::int64_t>(c.m, kChainTilings[form].rows);
    if (kChainTilings[form].strips > 4) c.n = (c.n + 127) / 128 * 128 - c.n % 3;
  } else {
    const WideTiling& tiling = kWideTilings[form - kChainTilingCount];
    const std::int64_t lines = 64 * tiling.groups * tiling.line_blocks * tiling.cluster;
    c.n = (c.n + lines - 1) / lines * lines - c.n % 3;
  }
  QuantRun run(c);
  ExpectBitsOfTheModel(
      &run, [&](const LaunchTarget& target) { return LaunchForm(form, &run, target); }, options);
}

class ChainProduct : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(ChainProduct, GivesEveryBitOfTheModel) {
  const auto& [form, shape] = GetParam();
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    ExpectEveryBit(form, {shape.m, shape.n, shape.k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ChainProduct,
    ::testing::Combine(::testing::Range(0, kForms),
                       ::testing::Values(Shape{1, 1, 64},      // almost nothing
                                         Shape{1, 64, 128},    // one unit
                                         Shape{11, 130, 704},  // of no tile whole
                                         Shape{70, 33, 1856},
                                         // Rings go round.
                                         Shape{8, 64, 6208})),
    [](const auto& info) {
      const Shape& shape = std::get<1>(info.param);
      return absl::StrCat(std::get<0>(info.param), "_", shape.m, "x", shape.n, "x", shape.k);
    });

class ChainForms : public ::testing::TestWithParam<int> {};

TEST_P(ChainForms, TakeEveryLayoutAndScale) {
  ForEveryLayoutOfMxfp4({33, 72, 704},
                        [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
}

TEST_P(ChainForms, FuseTheEpilogue) {
  ForEveryEpilogue({35, 70, 256}, [](const QuantCase& c) { ExpectEveryBit(GetParam(), c, {}); });
}

TEST_P(ChainForms, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 7 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    const std::int64_t k = 128 * static_cast<std::int64_t>(seed);
    ExpectEveryBit(GetParam(), {static_cast<std::int64_t>(seed * 5), 64, k}, options);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChainForms, ::testing::Range(0, kForms));

}  // namespace
}  // namespace gemmd::testing
