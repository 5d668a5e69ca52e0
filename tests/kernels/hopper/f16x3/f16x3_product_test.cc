// sm90/f32_f16x3 in the emulator: each bit of D, whatever tiling, shape and layout; what it makes
// of infinities, NaN, large and subnormal numbers; its bound; and that nothing chooses it by
// itself.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/f16x3/f16x3_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();

void ExpectEveryBit(int tiling, const F32Case& c, emulator::Landing landing,
                    std::uint64_t seed = 1) {
  F16x3Run run(c);
  ASSERT_EQ(F16x3Kernel().Rejection(run.problem), "");
  emulator::Options options;
  options.landing = landing;
  options.seed = seed;
  const emulator::Report report = LaunchF16x3(&run, tiling, options);
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(run.CountWrongHalves(), 0);
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
}

std::string TilingName(int tiling) {
  return absl::StrCat(F16x3Config(tiling).tile_m, "x", F16x3Config(tiling).tile_n);
}

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},       // almost nothing
    {77, 131, 200},  // every edge ragged
    {200, 140, 72},  // several tiles, K a little over a stage
    {16, 400, 64},   // few rows
    {9, 70, 1000},   // more stages than the ring has
    {3, 5, 8300},    // lines longer than the split keeps
    {9, 5, 4100},    // lines that it takes one by one, and keeps
};

class F16x3Product : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(F16x3Product, GivesEveryBitOfTheModel) {
  const auto& [tiling, shape] = GetParam();
  ExpectEveryBit(tiling, {shape.m, shape.n, shape.k},
                 shape.m % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
}

INSTANTIATE_TEST_SUITE_P(All, F16x3Product,
                         ::testing::Combine(::testing::Range(0, hopper::f16x3::kTilingCount),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(TilingName(std::get<0>(info.param)), "_", shape.m,
                                               "x", shape.n, "x", shape.k);
                         });

class F16x3Tilings : public ::testing::TestWithParam<int> {};

// NN, NT, TN, TT and D in both orders, lines that start anywhere too.
TEST_P(F16x3Tilings, TakeEveryLayout) {
  for (int which = 0; which < 16; ++which) {
    F32Case c = {21, 140, 70, (which & 1) != 0, (which & 2) != 0};
    c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.a_gap = (which & 8) != 0 ? 1 : 0;
    c.b_gap = (which & 5) != 0 ? 3 : 0;
    SCOPED_TRACE(which);
    ExpectEveryBit(GetParam(), c, emulator::Landing::kRandom);
  }
}

TEST_P(F16x3Tilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ExpectEveryBit(GetParam(), {40, 300, 200, false, seed % 2 == 0},
                   seed > 7 ? emulator::Landing::kLazy : emulator::Landing::kRandom, seed);
  }
}

// D equals the sums after an epilogue that is computed step by step.
TEST_P(F16x3Tilings, FuseTheEpilogue) {
  F32Case c = {37, 71, 70, false, false};
  for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
    c.d_order = order;
    c.epilogue = {};
    F16x3Run sums(c);
    ASSERT_EQ(LaunchF16x3(&sums, GetParam(), {}).message, "");
    c.epilogue = {0.5, -1.5, true, Activation::kRelu};
    F16x3Run run(c);
    ASSERT_EQ(LaunchF16x3(&run, GetParam(), {}).message, "");
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        float value = 0.5F * sums.D(row, column);
        value += -1.5F * (static_cast<float>((row * 3 + column) % 11) / 4 - 1);
        value += static_cast<float>(column % 7) - 3;
        wrong += run.BitsAt(row, column) != F32Run::Bits(value < 0 ? 0 : value);
      }
    }
    EXPECT_EQ(wrong, 0);
    EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
  }
}

// Rows and columns with such elements are those of a sum in f64, rounded; all others keep their
// bits.
TEST_P(F16x3Tilings, TakeInfinitiesAndNaN) {
  const F32Case c = {20, 140, 100};
  F32Run plain(c);
  ASSERT_EQ(LaunchF16x3(&plain, GetParam(), {}).message, "");
  F32Run run(c);
  run.SetA(3, 5, kInfinity);
  run.SetA(4, 99, kNaN);
  run.SetB(7, 130, -kInfinity);
  run.SetB(8, 64, kNaN);
  run.SetA(3, 7, kInfinity);  // meets B's -infinity: the sum is NaN
  ASSERT_EQ(LaunchF16x3(&run, GetParam(), {}).message, "");
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < c.m; ++row) {
    for (std::int64_t column = 0; column < c.n; ++column) {
      const bool is_special = row == 3 || row == 4 || column == 130 || column == 64;
      double sum = 0;
      for (std::int64_t i = 0; i < c.k; ++i) {
        sum += static_cast<double>(run.A(row, i)) * static_cast<double>(run.B(i, column));
      }
      const auto expected = static_cast<float>(sum);
      if (!is_special) {
        wrong += run.BitsAt(row, column) != plain.BitsAt(row, column);
      } else if (std::isnan(expected)) {
        wrong += !std::isnan(run.D(row, column));
      } else {
        wrong += run.D(row, column) != expected;
      }
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(F16x3Tilings, CauseNoBankConflicts) {
  for (const bool transpose_b : {false, true}) {
    F16x3Run run({64, 128, 128, false, transpose_b});
    emulator::Options options;
    options.count_bank_conflicts = true;
    const emulator::Report report = LaunchF16x3(&run, GetParam(), options);
    ASSERT_EQ(report.message, "");
    EXPECT_EQ(report.statistics.extra_wavefronts(), 0U) << transpose_b;
  }
}

INSTANTIATE_TEST_SUITE_P(All, F16x3Tilings, ::testing::Range(0, hopper::f16x3::kTilingCount),
                         [](const auto& info) { return TilingName(info.param); });

// One numerics id: rows have the same bits in every product that contains them.
TEST(F16x3Numerics, RowsDoNotDependOnMNorOnTheTiling) {
  const F32Case whole_case = {150, 70, 150};
  F16x3Run whole(whole_case);
  ASSERT_EQ(LaunchF16x3(&whole, 0, {}).message, "");
  for (int tiling = 0; tiling < hopper::f16x3::kTilingCount; ++tiling) {
    for (const std::int64_t m : {1, 7, 64, 129}) {
      F32Case c = whole_case;
      c.m = m;
      F16x3Run run(c);
      ASSERT_EQ(LaunchF16x3(&run, tiling, {}).message, "");
      std::int64_t different = 0;
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          different += run.BitsAt(row, column) != whole.BitsAt(row, column);
        }
      }
      EXPECT_EQ(different, 0) << TilingName(tiling) << " M " << m;
    }
  }
}

// Lines of any magnitude, subnormal ones and zeros among them, whose products are large, small,
// subnormal or nothing.
TEST(F16x3Numerics, TakesLinesOfAnyMagnitude) {
  F32Run run({40, 40, 70});
  const auto place = [](std::int64_t line) { return static_cast<int>(line) * 7 - 150; };
  for (std::int64_t i = 0; i < 70; ++i) {
    for (std::int64_t line = 0; line < 40; ++line) {
      run.SetA(line, i, std::ldexp(ElementOf(5, line, i), place(line) - 6));
      run.SetB(i, line, std::ldexp(ElementOf(6, line, i), place(39 - line) - 6));
      if (line == 17) run.SetA(line, i, i % 2 == 0 ? 0.0F : -0.0F);
      if (line == 23) run.SetB(i, line, 0);
    }
  }
  ASSERT_EQ(LaunchF16x3(&run, 2, {}).message, "");
  std::vector<HalfLineModel> columns;
  const auto model = [&](bool is_a, std::int64_t line) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < 70; ++i) values.push_back(is_a ? run.A(line, i) : run.B(i, line));
    return MakeHalfLine(values);
  };
  int subnormal = 0;
  int large = 0;
  for (std::int64_t row = 0; row < 40; ++row) {
    for (std::int64_t column = 0; column < 40; ++column) {
      const float expected = HalfElement(model(true, row), model(false, column));
      subnormal += expected != 0 && std::fabs(expected) < 0x1p-126F;
      large += std::fabs(expected) > 0x1p100F && std::isfinite(expected);
      if (row == 17 || column == 23) {
        EXPECT_EQ(run.BitsAt(row, column), 0U);
      }
      if (std::isfinite(expected)) {
        EXPECT_EQ(run.BitsAt(row, column), F32Run::Bits(expected)) << row << " " << column;
      } else {
        EXPECT_EQ(run.D(row, column), expected);
      }
    }
  }
  EXPECT_GT(subnormal, 0);
  EXPECT_GT(large, 0);
}

TEST(F16x3Numerics, SumsPastTheLargestNumber) {
  F32Run run({2, 2, 64});
  for (std::int64_t i = 0; i < 64; ++i) {
    run.SetA(0, i, kLargest);
    run.SetA(1, i, 0x1p60F);
    run.SetB(i, 0, i == 0 ? 1.0F : 0.0F);
    run.SetB(i, 1, 0x1p70F);
  }
  ASSERT_EQ(LaunchF16x3(&run, 3, {}).message, "");
  EXPECT_NEAR(static_cast<double>(run.D(0, 0)) / static_cast<double>(kLargest), 1, 0x1p-21);
  EXPECT_EQ(run.D(0, 1), kInfinity);
  EXPECT_EQ(run.D(1, 0), 0x1p60F);
  EXPECT_EQ(run.D(1, 1), kInfinity);  // 2^136
}

// The product keeps the bound of f16x3_registry.h, on data without a wide range and with one. A
// wide range breaks a bound by the elements themselves, which the entry does not promise.
TEST(F16x3Numerics, KeepsItsBound) {
  for (const bool is_wide : {false, true}) {
    const F32Case c = {24, 64, 1024};
    F32Run run(c);
    if (is_wide) {
      for (std::int64_t i = 0; i < c.k; ++i) {
        for (std::int64_t row = 0; row < c.m; ++row) {
          run.SetA(row, i, std::ldexp(run.A(row, i), i == row ? 40 : -static_cast<int>(i % 9)));
        }
        // The large element meets zeros, so that D is made of the others.
        for (std::int64_t n = 0; n < c.n; ++n) {
          if (i < c.m) run.SetB(i, n, 0);
        }
      }
    }
    ASSERT_EQ(LaunchF16x3(&run, 1, {}).message, "");
    double of_bound = 0;
    double of_magnitude = 0;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        double exact = 0;
        double magnitude = 0;
        double a = 0;
        double b = 0;
        for (std::int64_t i = 0; i < c.k; ++i) {
          const double x = run.A(row, i);
          const double y = run.B(i, column);
          exact += x * y;
          magnitude += std::fabs(x * y);
          a = std::fmax(a, std::fabs(x));
          b = std::fmax(b, std::fabs(y));
        }
        const double error = std::fabs(run.D(row, column) - exact);
        const double bound = 85 * 0x1p-24 * magnitude + 0x1p-38 * static_cast<double>(c.k) * a * b;
        of_bound = std::fmax(of_bound, error / bound);
        of_magnitude = std::fmax(of_magnitude, error / magnitude * 0x1p24);
      }
    }
    EXPECT_LE(of_bound, 1) << is_wide;
    if (is_wide) {
      EXPECT_GT(of_magnitude, 85);
    } else {
      EXPECT_LT(of_magnitude, 8);
    }
  }
}

TEST(F16x3Entry, SaysWhatItTakes) {
  const Kernel& kernel = F16x3Kernel();
  EXPECT_EQ(kernel.traits().determinism, Determinism::kBatchInvariant);
  Problem problem = MakeF32Problem({100, 101, 102});
  EXPECT_EQ(kernel.Rejection(problem), "");
  problem.b.leading_dimension = 103;
  EXPECT_EQ(kernel.Rejection(problem), "");
  EXPECT_NE(kernel.Rejection(MakeProblem(8, 8, 8, DataType::kBf16, DataType::kF32)), "");
  problem.m = std::int64_t{1} << 31;
  EXPECT_NE(kernel.Rejection(problem), "");
}

// Its predicted time does not matter.
TEST(F16x3Entry, ServesThoseWhoNameItAlone) {
  ASSERT_TRUE(F16x3Kernel().traits().only_by_name);
  for (const Determinism determinism : {Determinism::kFast, Determinism::kBatchInvariant}) {
    for (const F32Case& c : {F32Case{16, 512, 512}, F32Case{4096, 4096, 4096}}) {
      Problem problem = MakeF32Problem(c);
      problem.determinism = determinism;
      const absl::StatusOr<Plan> chosen = Select(BuiltinRegistry(), problem, H200());
      ASSERT_TRUE(chosen.ok()) << chosen.status();
      EXPECT_NE(chosen->kernel->traits().name, kF16x3Entry);
      const absl::StatusOr<Plan> named = Select(BuiltinRegistry(), problem, H200(), kF16x3Entry);
      ASSERT_TRUE(named.ok()) << named.status();
      EXPECT_EQ(named->kernel->traits().name, kF16x3Entry);
      EXPECT_LT(named->predicted_us, 1.5 * chosen->predicted_us);
    }
  }
}

// Each shape has a tiling that fits it, and the workspace is that tiling's.
TEST(F16x3Entry, ChoosesATilingByShape) {
  const auto tile = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem problem = MakeF32Problem({m, n, k});
    const Config config = F16x3Kernel().Configure(problem, H200());
    const std::int64_t lines = (m + config.tile_m - 1) / config.tile_m * config.tile_m +
                               (n + config.tile_n - 1) / config.tile_n * config.tile_n;
    EXPECT_EQ(F16x3Kernel().WorkspaceBytes(problem, config),
              static_cast<std::uint64_t>(lines * ((k + 63) / 64 * 64 + 1) * 4));
    return absl::StrCat(config.tile_m, "x", config.tile_n);
  };
  EXPECT_EQ(tile(16, 8192, 8192), "16x64");
  EXPECT_EQ(tile(2048, 2048, 2048), "128x128");
}

}  // namespace
}  // namespace gemmd::testing
