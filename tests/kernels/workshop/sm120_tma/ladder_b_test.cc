// Every step of ladder B in the emulator: each bit of D, on whole and ragged shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <string>
#include <tuple>
#include <vector>

#include "tests/kernels/mma/half_run.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {
    "sm120/bcf_dbf_rw",  "sm120/k_stages",        "sm120/tma_loads",   "sm120/tma_r_32",
    "sm120/tma_r_64",    "sm120/tma_rw",          "sm120/pair_boxes",  "sm120/warp_release",
    "sm120/warps_64x64", "sm120/warps_64x64_k64", "sm120/tma_rw_64x64"};

constexpr ProductForm kForms[] = {ProductForm::kF16AccumulateF32, ProductForm::kBf16AccumulateF32};

constexpr Shape kShapes[] = {
    {128, 128, 32},    // one tile
    {256, 128, 416},   // more tiles of K than stages, twice around
    {1, 1, 1},         // almost nothing
    {77, 131, 333},    // every edge ragged
    {260, 257, 40},    // a few rows and columns over
    {300, 40, 72},     // N below a panel
    {129, 136, 1000},  // K long, N ends in a whole unit of 16 bytes
    {1100, 140, 24},   // nine rows of tiles: a raster group and one more
};

class LadderB : public ::testing::TestWithParam<std::tuple<const char*, ProductForm, Shape>> {};

TEST_P(LadderB, GivesEveryBitOfTheProduct) {
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

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderB,
                         ::testing::Combine(::testing::ValuesIn(kSteps),
                                            ::testing::ValuesIn(kForms),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           return CaseName(std::get<0>(info.param), std::get<1>(info.param),
                                           std::get<2>(info.param));
                         });

class LadderBSeeds : public ::testing::TestWithParam<const char*> {};

TEST_P(LadderBSeeds, RaiseNothing) {
  const Shape shape{128, 250, 288};
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    const ProductForm form = kForms[seed % 2];
    HalfOperands operands(form, shape);
    const Outcome outcome = RunEntry(GetParam(), form, shape, options, &operands);
    ASSERT_TRUE(outcome.ok()) << "seed " << seed << ": " << outcome.report.message;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderBSeeds, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param).substr(6); });

// A numerics id promises equal bits. Its hardest case: values that make sums cancel, lose
// bits, overflow or be NaN, and a K that the ladders fill up to different multiples.
void FillWithAnyBits(emulator::HalfFormat format, HalfMatrix* matrix) {
  constexpr std::uint16_t kNegativeSubnormal = 0x8001;
  for (std::int64_t row = 0; row < matrix->rows(); ++row) {
    for (std::int64_t column = 0; column < matrix->columns(); ++column) {
      const auto bits = static_cast<std::uint16_t>(matrix->At(row, column) * 40503u);
      // NaN and infinity in every fourth row alone.
      const bool is_kept = row % 4 == 0 || std::isfinite(Widen(format, bits));
      matrix->At(row, column) = is_kept ? bits : kNegativeSubnormal;
    }
  }
}

std::vector<std::uint16_t> ElementsOf(const HalfMatrix& matrix) {
  std::vector<std::uint16_t> elements;
  for (std::int64_t row = 0; row < matrix.rows(); ++row) {
    for (std::int64_t column = 0; column < matrix.columns(); ++column) {
      elements.push_back(matrix.At(row, column));
    }
  }
  return elements;
}

TEST(LadderBNumerics, GivesTheBitsOfLadderA) {
  for (const ProductForm form : kForms) {
    for (const std::int64_t k : {16, 40, 100}) {
      const Shape shape{128, 128, k};
      HalfOperands operands(form, shape);
      FillWithAnyBits(FormatOf(form), &operands.a);
      const auto run = [&](const char* kernel) {
        operands.d.Fill(HalfOperands::kPoison);
        const Outcome outcome = RunEntry(kernel, form, shape, {}, &operands);
        EXPECT_TRUE(outcome.report.ok()) << outcome.report.message;
        return ElementsOf(operands.d);
      };
      const std::vector<std::uint16_t> expected = run("sm80/a05");
      for (const char* step : kSteps) {
        EXPECT_TRUE(run(step) == expected) << step << " " << Name(form) << " " << shape;
      }
    }
  }
}

// Passes over shared memory that a launch needs: a table of kernels/workshop/sm120_tma/README.md.
TEST(LadderBBanks, NoStepHasConflictsAndPassesAreAsTheReadmeSays) {
  struct Passes {
    const char* step;
    std::uint64_t needed;
  };
  constexpr Passes kPasses[] = {
      {"sm120/bcf_dbf_rw", 2560},      {"sm120/k_stages", 2560},     {"sm120/tma_loads", 2048},
      {"sm120/tma_r_32", 2048},        {"sm120/tma_r_64", 2048},     {"sm120/tma_rw", 1792},
      {"sm120/pair_boxes", 1792},      {"sm120/warp_release", 2048}, {"sm120/warps_64x64", 1536},
      {"sm120/warps_64x64_k64", 1536}, {"sm120/tma_rw_64x64", 1280}};
  static_assert(std::size(kPasses) == std::size(kSteps));
  const Shape shape{128, 128, 128};
  for (const Passes& expected : kPasses) {
    emulator::Options options;
    options.count_bank_conflicts = true;
    HalfOperands operands(ProductForm::kF16AccumulateF32, shape);
    const emulator::Statistics statistics =
        RunEntry(expected.step, ProductForm::kF16AccumulateF32, shape, options, &operands)
            .report.statistics;
    EXPECT_EQ(statistics.extra_wavefronts(), 0u) << expected.step;
    EXPECT_GE(statistics.banks.size(), 3u) << expected.step;  // loads of A and of B, stores of D
    std::uint64_t needed = 0;
    for (const auto& [line, use] : statistics.banks) needed += use.accesses;
    EXPECT_EQ(needed, expected.needed) << expected.step;
  }
}

}  // namespace
}  // namespace gemmd::testing
