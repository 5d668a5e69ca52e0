// Every step of ladder A in the emulator: each bit of D, on whole and ragged shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>

#include "tests/kernels/mma/half_run.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {"sm80/a01a", "sm80/a01b", "sm80/a02", "sm80/a03a",
                                  "sm80/a03b", "sm80/a04",  "sm80/a05", "sm80/a06"};

constexpr Shape kShapes[] = {
    {256, 128, 64},    // one tile
    {512, 128, 320},   // more tiles of K than stages
    {1, 1, 1},         // almost nothing
    {77, 131, 333},    // every edge ragged
    {260, 257, 40},    // a few rows and columns over, K below a tile
    {300, 40, 72},     // N far below a tile
    {129, 136, 1000},  // K long and ragged
};

class LadderA : public ::testing::TestWithParam<std::tuple<const char*, ProductForm, Shape>> {};

TEST_P(LadderA, GivesEveryBitOfTheProduct) {
  const auto& [step, form, shape] = GetParam();
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    HalfOperands operands(form, shape);
    const Outcome outcome = RunEntry(step, form, shape, options, &operands);
    EXPECT_TRUE(outcome.report.ok()) << outcome.report.message;
    EXPECT_EQ(outcome.different, 0);
    EXPECT_EQ(CountWrittenPadding(operands.d), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderA,
                         ::testing::Combine(::testing::ValuesIn(kSteps),
                                            ::testing::ValuesIn(kProductForms),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           return CaseName(std::get<0>(info.param), std::get<1>(info.param),
                                           std::get<2>(info.param));
                         });

TEST(LadderAError, IsBelowTheStatedBound) {
  const Shape shape{64, 72, 1000};
  for (const ProductForm form : kProductForms) {
    HalfOperands operands(form, shape);
    const Outcome outcome = RunEntry("sm80/a05", form, shape, {}, &operands);
    ASSERT_TRUE(outcome.report.ok()) << outcome.report.message;
    const emulator::HalfFormat format = FormatOf(form);
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        double exact = 0;
        double magnitude = 0;
        for (std::int64_t k = 0; k < shape.k; ++k) {
          const double product = static_cast<double>(Widen(format, operands.a.At(i, k))) *
                                 Widen(format, operands.b.At(k, j));
          exact += product;
          magnitude += std::fabs(product);
        }
        const double steps = static_cast<double>(shape.k) / 16 + 1;
        double bound = steps * 18 * std::ldexp(magnitude, -24);
        if (form == ProductForm::kF16AccumulateF16) bound += steps * std::ldexp(magnitude, -11);
        bound += std::fabs(exact) * (format == emulator::HalfFormat::kBf16 ? 0x1p-8 : 0x1p-11);
        ASSERT_LE(std::fabs(Widen(format, operands.d.At(i, j)) - exact), bound * 1.001);
      }
    }
  }
}

TEST(LadderASeeds, RaiseNothingInCorrectKernels) {
  const Shape shape{128, 128, 256};
  for (const char* step : kSteps) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      emulator::Options options;
      options.seed = seed;
      HalfOperands operands(ProductForm::kF16AccumulateF32, shape);
      const Outcome outcome =
          RunEntry(step, ProductForm::kF16AccumulateF32, shape, options, &operands);
      ASSERT_TRUE(outcome.ok()) << step << " seed " << seed << ": " << outcome.report.message;
    }
  }
}

emulator::Statistics BanksOf(const char* step) {
  const Shape shape{128, 128, 128};
  emulator::Options options;
  options.count_bank_conflicts = true;
  HalfOperands operands(ProductForm::kF16AccumulateF32, shape);
  return RunEntry(step, ProductForm::kF16AccumulateF32, shape, options, &operands)
      .report.statistics;
}

// Passes over shared memory that a launch needs, and those that conflicts add: a table of
// kernels/workshop/ampere_mma/README.md.
TEST(LadderABanks, TakeAsManyPassesAsTheReadmeSays) {
  struct Passes {
    const char* step;
    std::uint64_t needed;
    std::uint64_t extra;
  };
  constexpr Passes kPasses[] = {{"sm80/a01a", 5632, 24064}, {"sm80/a01b", 3584, 17920},
                                {"sm80/a02", 3584, 0},      {"sm80/a03a", 3584, 0},
                                {"sm80/a03b", 3584, 0},     {"sm80/a04", 3584, 0},
                                {"sm80/a05", 3584, 0},      {"sm80/a06", 2048, 0}};
  for (const Passes& expected : kPasses) {
    const emulator::Statistics statistics = BanksOf(expected.step);
    std::uint64_t needed = 0;
    for (const auto& [line, use] : statistics.banks) needed += use.accesses;
    EXPECT_EQ(needed, expected.needed) << expected.step;
    EXPECT_EQ(statistics.extra_wavefronts(), expected.extra) << expected.step;
  }
}

TEST(LadderABanks, EightWayConflictsWithoutSwizzle) {
  EXPECT_EQ(BanksOf("sm80/a01a").worst_bank_ways(), 8);
  EXPECT_EQ(BanksOf("sm80/a01b").worst_bank_ways(), 8);
}

TEST(LadderABanks, NoConflictsWithSwizzle) {
  for (const char* step :
       {"sm80/a02", "sm80/a03a", "sm80/a03b", "sm80/a04", "sm80/a05", "sm80/a06"}) {
    const emulator::Statistics statistics = BanksOf(step);
    EXPECT_EQ(statistics.extra_wavefronts(), 0u) << step;
    EXPECT_GT(statistics.banks.size(), 3u) << step;
  }
}

}  // namespace
}  // namespace gemmd::testing
