// sm90/f32_bf16x6 in the emulator: each bit of D, whatever tiling, shape and layout; what it makes
// of infinities, NaN, large and subnormal numbers; and its error beside SGEMM's.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/f32/f32_run.h"

namespace gemmd::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kLargest = std::numeric_limits<float>::max();
constexpr float kSmallest = 0x1p-149F;

void ExpectEveryBit(int tiling, const F32Case& c, emulator::Landing landing, std::uint64_t seed = 1,
                    bool b_is_settled = false) {
  F32Run run(c);
  run.b_is_settled = b_is_settled;
  ASSERT_EQ(F32Kernel().Rejection(run.problem), "");
  emulator::Options options;
  options.landing = landing;
  options.seed = seed;
  const emulator::Report report = LaunchF32(&run, tiling, options);
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(run.CountWrong(), 0);
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
}

std::string TilingName(int tiling) {
  return absl::StrCat(F32Config(tiling).tile_m, "x", F32Config(tiling).tile_n);
}

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},       // almost nothing
    {77, 131, 200},  // every edge ragged
    {130, 140, 72},  // several tiles, K a little over a stage
    {16, 400, 64},   // few rows
    {9, 70, 1000},   // more stages than the ring has
};

class F32Product : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(F32Product, GivesEveryBitOfTheModel) {
  const auto& [tiling, shape] = GetParam();
  ExpectEveryBit(tiling, {shape.m, shape.n, shape.k},
                 shape.m % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
}

INSTANTIATE_TEST_SUITE_P(All, F32Product,
                         ::testing::Combine(::testing::Range(0, hopper::f32::kTilingCount),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(TilingName(std::get<0>(info.param)), "_", shape.m,
                                               "x", shape.n, "x", shape.k);
                         });

class F32Tilings : public ::testing::TestWithParam<int> {};

// NN, NT, TN, TT and D in both orders, lines of A that start anywhere too.
TEST_P(F32Tilings, TakeEveryLayout) {
  for (int which = 0; which < 16; ++which) {
    F32Case c = {21, 140, 70, (which & 1) != 0, (which & 2) != 0};
    c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.a_gap = (which & 8) != 0 ? 1 : 0;
    SCOPED_TRACE(which);
    ExpectEveryBit(GetParam(), c, emulator::Landing::kRandom);
  }
}

TEST_P(F32Tilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    ExpectEveryBit(GetParam(), {40, 300, 200, false, seed % 2 == 0},
                   seed > 7 ? emulator::Landing::kLazy : emulator::Landing::kRandom, seed,
                   seed % 3 == 0);
  }
}

// D equals the sums after an epilogue that is computed step by step.
TEST_P(F32Tilings, FuseTheEpilogue) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
    F32Case c = {37, 71, 70, false, false};
    c.d_order = activation == Activation::kRelu ? Order::kColumnMajor : Order::kRowMajor;
    F32Run sums(c);
    ASSERT_EQ(LaunchF32(&sums, GetParam(), {}).message, "");
    c.epilogue = {0.5, -1.5, true, activation};
    F32Run run(c);
    ASSERT_EQ(LaunchF32(&run, GetParam(), {}).message, "");
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        float value = 0.5F * sums.D(row, column);
        value += -1.5F * (static_cast<float>((row * 3 + column) % 11) / 4 - 1);
        value += static_cast<float>(column % 7) - 3;
        if (activation == Activation::kRelu) value = value < 0 ? 0 : value;
        if (activation == Activation::kSilu) value = value / (1 + std::exp(-value));
        if (activation == Activation::kGeluTanh) {
          value = 0.5F * value *
                  (1 + std::tanh(0.79788456080286535588F *
                                 (value + 0.044715F * value * value * value)));
        }
        wrong += run.BitsAt(row, column) != F32Run::Bits(value);
      }
    }
    EXPECT_EQ(wrong, 0) << Name(activation);
    EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
  }
}

// Rows and columns with such elements are those of a sum in f64, rounded; all others keep their
// bits.
TEST_P(F32Tilings, TakeElementsWithoutParts) {
  F32Case c = {20, 140, 100};
  F32Run plain(c);
  ASSERT_EQ(LaunchF32(&plain, GetParam(), {}).message, "");
  F32Run run(c);
  run.SetA(3, 5, kInfinity);
  run.SetA(4, 99, kNaN);
  run.SetA(5, 0, kLargest);
  run.SetA(6, 31, 0x1p103F);
  run.SetB(7, 130, -kInfinity);
  run.SetB(8, 64, kNaN);
  run.SetB(9, 65, -kLargest);
  run.SetA(3, 7, kInfinity);  // meets B's -infinity: the sum is NaN
  ASSERT_EQ(LaunchF32(&run, GetParam(), {}).message, "");
  std::int64_t wrong = 0;
  for (std::int64_t row = 0; row < c.m; ++row) {
    for (std::int64_t column = 0; column < c.n; ++column) {
      const bool is_special =
          (row >= 3 && row <= 6) || column == 130 || column == 64 || column == 65;
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

TEST_P(F32Tilings, CauseNoBankConflictsInTheirLoads) {
  for (const bool transpose_b : {false, true}) {
    F32Run run({64, 128, 128, false, transpose_b});
    emulator::Options options;
    options.count_bank_conflicts = true;
    const emulator::Report report = LaunchF32(&run, GetParam(), options);
    ASSERT_EQ(report.message, "");
    EXPECT_EQ(report.statistics.extra_wavefronts(), 0U) << transpose_b;
  }
}

INSTANTIATE_TEST_SUITE_P(All, F32Tilings, ::testing::Range(0, hopper::f32::kTilingCount),
                         [](const auto& info) { return TilingName(info.param); });

// One numerics id: rows have the same bits in every product that contains them.
TEST(F32Numerics, RowsDoNotDependOnMNorOnTheTiling) {
  const F32Case whole_case = {150, 70, 150};
  F32Run whole(whole_case);
  ASSERT_EQ(LaunchF32(&whole, 0, {}).message, "");
  for (int tiling = 0; tiling < hopper::f32::kTilingCount; ++tiling) {
    for (const std::int64_t m : {1, 7, 64, 129}) {
      F32Case c = whole_case;
      c.m = m;
      F32Run run(c);
      ASSERT_EQ(LaunchF32(&run, tiling, {}).message, "");
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

// Products of subnormals with large numbers, and results that are subnormal themselves.
TEST(F32Numerics, KeepsSubnormals) {
  F32Run run({8, 8, 40});
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t line = 0; line < 8; ++line) {
      const auto factor = static_cast<float>(1 + (line * 7 + i * 3) % 61);
      run.SetA(line, i, kSmallest * factor);
      run.SetB(i, line, line < 4 ? 0x1p100F * (1 + 0x1p-23F * factor) : factor);
    }
  }
  ASSERT_EQ(LaunchF32(&run, 6, {}).message, "");
  for (std::int64_t row = 0; row < 8; ++row) {
    for (std::int64_t column = 0; column < 8; ++column) {
      double exact = 0;
      for (std::int64_t i = 0; i < 40; ++i) {
        exact += static_cast<double>(run.A(row, i)) * static_cast<double>(run.B(i, column));
      }
      // The last place of a subnormal result is an absolute one.
      EXPECT_LE(std::fabs(run.D(row, column) - exact), std::fmax(exact * 0x1p-22, 0x1p-150));
    }
  }
}

TEST(F32Numerics, KeepsTheSignsOfZeros) {
  F32Run run({4, 4, 20});
  for (std::int64_t i = 0; i < 20; ++i) {
    for (std::int64_t line = 0; line < 4; ++line) {
      run.SetA(line, i, line % 2 == 0 ? -0.0F : 0.0F);
      run.SetB(i, line, line < 2 ? -1.0F : 3.0F);
    }
  }
  ASSERT_EQ(LaunchF32(&run, 5, {}).message, "");
  // A sum that begins with +0 gives +0.
  for (std::int64_t row = 0; row < 4; ++row) {
    for (std::int64_t column = 0; column < 4; ++column) EXPECT_EQ(run.BitsAt(row, column), 0U);
  }
}

// Sums past what parts can hold, and past what f32 can.
TEST(F32Numerics, SumsOfLargeProducts) {
  F32Run run({2, 2, 64});
  for (std::int64_t i = 0; i < 64; ++i) {
    run.SetA(0, i, 0x1p60F);
    run.SetA(1, i, 0x1p60F);
    run.SetB(i, 0, 0x1p50F);
    run.SetB(i, 1, i % 2 == 0 ? 0x1p70F : -0x1p69F);
  }
  ASSERT_EQ(LaunchF32(&run, 6, {}).message, "");
  EXPECT_EQ(run.D(0, 0), 0x1p116F);
  EXPECT_EQ(run.D(1, 1), kInfinity);  // 2^134
}

// |D - exact| over |A| |B|, in units of 2^-24.
struct Error {
  double largest = 0;
  double square = 0;
  void Add(double value, double exact, double magnitude) {
    const double error = std::fabs(value - exact) / magnitude * 0x1p24;
    largest = std::fmax(largest, error);
    square += error * error;
  }
};

TEST(F32Numerics, ErrsLessThanASumInF32) {
  for (const bool is_positive : {false, true}) {
    const F32Case c = {24, 64, 1024};
    F32Run run(c);
    if (is_positive) {
      for (std::int64_t i = 0; i < c.k; ++i) {
        for (std::int64_t row = 0; row < c.m; ++row) run.SetA(row, i, std::fabs(run.A(row, i)));
        for (std::int64_t n = 0; n < c.n; ++n) run.SetB(i, n, std::fabs(run.B(i, n)));
      }
    }
    ASSERT_EQ(LaunchF32(&run, 4, {}).message, "");
    Error ours;
    Error sgemm;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        double exact = 0;
        double magnitude = 0;
        float chain = 0;
        for (std::int64_t i = 0; i < c.k; ++i) {
          const double product =
              static_cast<double>(run.A(row, i)) * static_cast<double>(run.B(i, column));
          exact += product;
          magnitude += std::fabs(product);
          chain = std::fma(run.A(row, i), run.B(i, column), chain);
        }
        ours.Add(run.D(row, column), exact, magnitude);
        sgemm.Add(chain, exact, magnitude);
      }
    }
    EXPECT_LE(ours.largest, sgemm.largest);
    EXPECT_LE(ours.square, sgemm.square);
    EXPECT_LE(ours.largest, 41);  // f32_registry.h
  }
}

TEST(F32Entry, SaysWhatItTakes) {
  const Kernel& kernel = F32Kernel();
  EXPECT_FALSE(kernel.traits().only_by_name);
  EXPECT_EQ(kernel.traits().determinism, Determinism::kBatchInvariant);
  Problem problem = MakeF32Problem({100, 101, 102});
  EXPECT_EQ(kernel.Rejection(problem), "");
  problem.b.leading_dimension = 103;
  EXPECT_NE(kernel.Rejection(problem), "");
  EXPECT_NE(kernel.Rejection(MakeProblem(8, 8, 8, DataType::kBf16, DataType::kF32)), "");
}

// Each shape has a tiling that fits it, and the workspace is that tiling's.
TEST(F32Entry, ChoosesATilingByShape) {
  DeviceTraits h200;
  h200.kind = DeviceKind::kCuda;
  h200.compute_capability = 90;
  h200.compute_units = 132;
  h200.memory_gbps = 4800;
  const auto tile = [&](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Problem problem = MakeF32Problem({m, n, k});
    const Config config = F32Kernel().Configure(problem, h200);
    const std::int64_t lines = (m + config.tile_m - 1) / config.tile_m * config.tile_m;
    EXPECT_EQ(F32Kernel().WorkspaceBytes(problem, config),
              static_cast<std::uint64_t>(lines * ((k + 63) / 64 * 64) * 6));
    return absl::StrCat(config.tile_m, "x", config.tile_n);
  };
  EXPECT_EQ(tile(1, 8192, 8192), "8x64");
  EXPECT_EQ(tile(16, 8192, 8192), "16x64");
  EXPECT_EQ(tile(64, 8192, 8192), "64x64");
  EXPECT_EQ(tile(128, 8192, 28672), "64x128");
  EXPECT_EQ(tile(512, 512, 512), "32x64");
  EXPECT_EQ(tile(1024, 1024, 1024), "64x128");
  EXPECT_EQ(tile(4096, 4096, 4096), "128x128");
  EXPECT_EQ(tile(512, 8192, 8192), "128x128");
}

}  // namespace
}  // namespace gemmd::testing
