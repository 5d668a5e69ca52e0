// sm90/f64 in the emulator: each bit of D, whatever tiling, shape and layout; what it makes of
// infinities, NaN, zeros and subnormal numbers; and that the CPU's sums have the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/f64/f64_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr double kSmallest = 0x1p-1074;

void ExpectEveryBit(int tiling, F64Run* run, const emulator::Options& options) {
  ASSERT_EQ(F64Kernel().Rejection(run->problem), "");
  const emulator::Report report = LaunchF64(run, tiling, options);
  ASSERT_EQ(report.message, "");
  EXPECT_EQ(run->CountWrong(), 0);
  EXPECT_TRUE(run->d_plane.IsPaddingUntouched());
}

void ExpectEveryBit(int tiling, const F64Case& c, emulator::Landing landing) {
  F64Run run(c);
  emulator::Options options;
  options.landing = landing;
  ExpectEveryBit(tiling, &run, options);
}

std::string TilingName(int tiling) {
  const Config config = F64Config(tiling);
  return absl::StrCat(config.tile_m, "x", config.tile_n, "x", config.tile_k, "s", config.stages,
                      "w", config.warps);
}

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},      // almost nothing
    {77, 131, 40},  // every edge ragged
    {9, 70, 400},   // more stages than the ring has
    {16, 400, 32},  // more tiles than blocks
};

class F64Product : public ::testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(F64Product, GivesEveryBitOfTheModel) {
  const auto& [tiling, shape] = GetParam();
  ExpectEveryBit(tiling, {shape.m, shape.n, shape.k},
                 shape.m % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom);
}

INSTANTIATE_TEST_SUITE_P(All, F64Product,
                         ::testing::Combine(::testing::Range(0, hopper::f64::kTilingCount),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(TilingName(std::get<0>(info.param)), "_", shape.m,
                                               "x", shape.n, "x", shape.k);
                         });

class F64Tilings : public ::testing::TestWithParam<int> {};

// NN, NT, TN, TT and D in both orders; lines that start anywhere too.
TEST_P(F64Tilings, TakeEveryLayout) {
  for (int which = 0; which < 16; ++which) {
    F64Case c = {21, 70, 35, (which & 1) != 0, (which & 2) != 0};
    c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    c.has_units = (which & 8) == 0;
    SCOPED_TRACE(which);
    ExpectEveryBit(GetParam(), c, emulator::Landing::kRandom);
  }
}

TEST_P(F64Tilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    F64Case c = {20, 150, 100, seed % 4 == 1, seed % 2 == 0};
    c.has_units = seed % 3 != 0;
    F64Run run(c);
    run.a_is_settled = seed % 4 >= 2;
    run.b_is_settled = seed % 2 == 0;
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 5 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    ExpectEveryBit(GetParam(), &run, options);
  }
}

// D equals the sums after an epilogue that is computed step by step.
TEST_P(F64Tilings, FuseTheEpilogue) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
    F64Case c = {37, 71, 20, false, false};
    c.d_order = activation == Activation::kRelu ? Order::kColumnMajor : Order::kRowMajor;
    c.epilogue = {0.3, -1.5, true, activation};
    F64Run run(c);
    ASSERT_EQ(LaunchF64(&run, GetParam(), {}).message, "");
    std::int64_t wrong = 0;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        double value = 0.3 * run.Chain(row, column);
        value += -1.5 * F64Run::C(row, column);
        value += F64Run::Bias(column);
        if (activation == Activation::kRelu) value = value < 0 ? 0 : value;
        if (activation == Activation::kSilu) value = value / (1 + std::exp(-value));
        if (activation == Activation::kGeluTanh) {
          value =
              0.5 * value *
              (1 + std::tanh(0.79788456080286535588 * (value + 0.044715 * value * value * value)));
        }
        wrong += BitsOfF64(run.D(row, column)) != BitsOfF64(value);
      }
    }
    EXPECT_EQ(wrong, 0) << Name(activation);
    EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
  }
}

TEST_P(F64Tilings, CauseNoBankConflictsInTheirLoads) {
  for (int which = 0; which < 4; ++which) {
    F64Run run({64, 128, 128, (which & 1) != 0, (which & 2) != 0});
    emulator::Options options;
    options.count_bank_conflicts = true;
    const emulator::Report report = LaunchF64(&run, GetParam(), options);
    ASSERT_EQ(report.message, "");
    // Eight lines of an MN-major A are half of what a line of shared memory has.
    const bool is_narrow = run.problem.transpose_a && F64Config(GetParam()).tile_m == 8;
    if (!is_narrow) {
      EXPECT_EQ(report.statistics.extra_wavefronts(), 0U) << which;
    }
    for (const auto& [site, use] : report.statistics.banks) EXPECT_LE(use.worst_ways, 2) << site;
  }
}

INSTANTIATE_TEST_SUITE_P(All, F64Tilings, ::testing::Range(0, hopper::f64::kTilingCount),
                         [](const auto& info) { return TilingName(info.param); });

// One numerics id: rows have the same bits in every product that contains them, whatever tiling
// and layout, and they are those of kernels/cpu.
// Runs pieces of work one after another.
class OneThread final : public ParallelExecutor {
 public:
  void Run(std::int64_t count,
           absl::FunctionRef<void(int worker, std::int64_t index)> body) override {
    for (std::int64_t i = 0; i < count; ++i) body(0, i);
  }
  int workers() const override { return 1; }
};

void LaunchOnCpu(F64Run* run) {
  const Kernel& kernel = *BuiltinRegistry().Find("cpu/panel_f64");
  DeviceTraits cpu;
  const Config config = kernel.Configure(run->problem, cpu);
  std::vector<char> workspace(kernel.WorkspaceBytes(run->problem, config) + 256);
  OneThread executor;
  LaunchTarget target;
  target.executor = &executor;
  Arguments arguments;
  arguments.a = run->a_plane.data();
  arguments.b = run->b_plane.data();
  arguments.d = run->d_plane.data();
  arguments.workspace =
      workspace.data() + 256 - reinterpret_cast<std::uintptr_t>(workspace.data()) % 256;
  ASSERT_TRUE(kernel.Launch(run->problem, config, arguments, target).ok());
}

// One numerics id: rows have the same bits in every product that contains them, whatever tiling
// and layout, and they are those of the CPU's kernel where it has FMAs.
TEST(F64Numerics, RowsHaveTheBitsOfTheCpu) {
  F64Run whole({70, 40, 90});
  LaunchOnCpu(&whole);
  if (whole.CountWrong() != 0) GTEST_SKIP() << "this machine has no FMAs";
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
    F64Case c = {tiling % 3 == 0 ? 70 : tiling % 3 == 1 ? 7 : 33, 40, 90};
    c.transpose_a = tiling % 2 == 1;
    c.transpose_b = tiling % 5 != 0;
    F64Run run(c);
    ASSERT_EQ(LaunchF64(&run, tiling, {}).message, "");
    std::int64_t different = 0;
    for (std::int64_t row = 0; row < c.m; ++row) {
      for (std::int64_t column = 0; column < c.n; ++column) {
        different += BitsOfF64(run.D(row, column)) != BitsOfF64(whole.D(row, column));
      }
    }
    EXPECT_EQ(different, 0) << TilingName(tiling);
  }
}

TEST(F64Numerics, TakesEveryNumber) {
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; tiling += 5) {
    F64Run run({20, 40, 50});
    run.SetA(3, 5, kInfinity);
    run.SetA(4, 49, kNaN);
    run.SetA(5, 0, kLargest);
    run.SetB(5, 0, 4.0);
    run.SetB(7, 30, -kInfinity);
    run.SetB(8, 20, kNaN);
    run.SetA(3, 7, kInfinity);  // meets B's -infinity: the sum is NaN
    for (std::int64_t i = 0; i < 50; ++i) {
      run.SetA(9, i, kSmallest * static_cast<double>(1 + i % 7));
      run.SetB(i, 35, 0x1p-1030 * static_cast<double>(1 + i % 5));
    }
    ExpectEveryBit(tiling, &run, {});
  }
}

// A sum of zeros and one that underflows are +0, however K is filled up.
TEST(F64Numerics, HasNoNegativeZero) {
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
    for (const std::int64_t k : {16, 19, 128}) {
      F64Run run({4, 4, k});
      for (std::int64_t i = 0; i < k; ++i) {
        for (std::int64_t line = 0; line < 4; ++line) {
          run.SetA(line, i, line % 2 == 0 ? -0.0 : -0x1p-700);
          run.SetB(i, line, line < 2 ? 1.0 : 0x1p-700);
        }
      }
      ExpectEveryBit(tiling, &run, {});
      EXPECT_EQ(BitsOfF64(run.D(0, 0)), 0U);
      EXPECT_EQ(BitsOfF64(run.D(1, 3)), 0U);
    }
  }
}

TEST(F64Entry, SaysWhatItTakes) {
  const Kernel& kernel = F64Kernel();
  EXPECT_FALSE(kernel.traits().only_by_name);
  EXPECT_EQ(kernel.traits().determinism, Determinism::kBatchInvariant);
  Problem problem = MakeF64Problem({100, 101, 102});
  EXPECT_EQ(kernel.Rejection(problem), "");
  problem.b.leading_dimension = 103;
  EXPECT_EQ(kernel.Rejection(problem), "");
  problem.k = std::int64_t{1} << 31;
  EXPECT_NE(kernel.Rejection(problem), "");
  EXPECT_NE(kernel.Rejection(MakeProblem(8, 8, 8, DataType::kF32, DataType::kF32)), "");
}

// A config is one tiling's.
TEST(F64Entry, TilingsHaveDifferentConfigs) {
  std::set<std::string> names;
  for (int tiling = 0; tiling < hopper::f64::kTilingCount; ++tiling) {
    EXPECT_TRUE(names.insert(ToString(F64Config(tiling))).second) << tiling;
  }
}

// Each shape has a tiling that fits it.
TEST(F64Entry, ChoosesATilingByShape) {
  const auto tile = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    const Config config = F64Kernel().Configure(MakeF64Problem({m, n, k}), H200());
    return absl::StrCat(config.tile_m, "x", config.tile_n);
  };
  EXPECT_EQ(tile(1, 8192, 8192), "8x64");
  EXPECT_EQ(tile(16, 8192, 8192), "16x64");
  EXPECT_EQ(tile(64, 8192, 8192), "64x64");
  EXPECT_EQ(tile(128, 8192, 28672), "64x128");
  EXPECT_EQ(tile(512, 512, 512), "32x64");
  EXPECT_EQ(tile(1024, 1024, 1024), "64x128");
  EXPECT_EQ(tile(2048, 2048, 2048), "128x128");
  EXPECT_EQ(tile(4096, 4096, 4096), "128x128");
}

}  // namespace
}  // namespace gemmd::testing
