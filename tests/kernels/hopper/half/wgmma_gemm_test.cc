// Every tiling of the Hopper GEMM in the emulator: each bit of D, whatever shape and layout.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/half/hopper_run.h"

namespace gemmd::testing {
namespace {

const Kernel& Entry(const char* name) { return *BuiltinRegistry().Find(name); }

// Runs the case where the entry takes it, and expects every bit.
void ExpectEveryBit(const char* name, const HopperCase& c, emulator::Landing landing,
                    std::uint64_t seed = 1) {
  HopperRun run(c);
  const std::string rejection = Entry(name).Rejection(run.problem);
  ASSERT_EQ(rejection, "") << name;
  emulator::Options options;
  options.landing = landing;
  options.seed = seed;
  const emulator::Report report = run.Launch(name, options);
  ASSERT_EQ(report.message, "") << name;
  EXPECT_EQ(run.CountWrong(), 0) << name;
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched()) << name;
}

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},        // almost nothing
    {77, 131, 333},   // every edge ragged
    {300, 264, 72},   // several tiles, K a little over a block
    {520, 40, 200},   // N far below a tile
    {16, 1000, 128},  // few rows, more tiles than blocks
};

class HopperGemm : public ::testing::TestWithParam<std::tuple<const char*, DataType, Shape>> {};

TEST_P(HopperGemm, GivesEveryBitOfTheProduct) {
  const auto& [name, type, shape] = GetParam();
  // Weights K-major, as every tiling takes them.
  const HopperCase c = {shape.m, shape.n, shape.k, type, false, true};
  const bool is_lazy = (shape.m + static_cast<int>(type)) % 2 == 0;
  ExpectEveryBit(name, c, is_lazy ? emulator::Landing::kLazy : emulator::Landing::kRandom);
}

std::string NameOf(const char* entry) { return std::string(entry).substr(5); }

INSTANTIATE_TEST_SUITE_P(AllTilings, HopperGemm,
                         ::testing::Combine(::testing::ValuesIn(kHopperEntries),
                                            ::testing::Values(DataType::kF16, DataType::kBf16),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<2>(info.param);
                           return absl::StrCat(
                               NameOf(std::get<0>(info.param)), "_",
                               std::get<1>(info.param) == DataType::kF16 ? "f16" : "bf16", "_",
                               shape.m, "x", shape.n, "x", shape.k);
                         });

class HopperTilings : public ::testing::TestWithParam<const char*> {};

// The order of K must be one for all, so more blocks of K than stages.
TEST_P(HopperTilings, GoRoundTheirStages) {
  ExpectEveryBit(GetParam(), {130, 200, 1100, DataType::kBf16, false, true},
                 emulator::Landing::kRandom);
}

// NN, NT, TN, TT and D in both orders, where the tiling takes them, in every type of D.
TEST_P(HopperTilings, TakeEveryLayoutTheySay) {
  int taken = 0;
  for (int which = 0; which < 8; ++which) {
    HopperCase c = {100, 140, 100, DataType::kF16, (which & 1) != 0, (which & 2) != 0};
    c.d_order = (which & 4) != 0 ? Order::kColumnMajor : Order::kRowMajor;
    for (const bool writes_f32 : {false, true}) {
      c.writes_f32 = writes_f32;
      if (!Entry(GetParam()).Rejection(MakeHopperProblem(c)).empty()) continue;
      ++taken;
      SCOPED_TRACE(which);
      ExpectEveryBit(GetParam(), c, emulator::Landing::kRandom);
    }
  }
  EXPECT_GE(taken, 2);
}

// D equals the sums after an epilogue that is computed step by step in f32.
TEST_P(HopperTilings, FuseTheEpilogue) {
  for (const Activation activation :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh, Activation::kSilu}) {
    for (const bool writes_f32 : {false, true}) {
      HopperCase c = {90, 141, 70, DataType::kBf16, false, false};
      c.writes_f32 = true;
      HopperRun sums(c);
      if (!Entry(GetParam()).Rejection(sums.problem).empty()) GTEST_SKIP() << "has no epilogue";
      ASSERT_EQ(sums.Launch(GetParam(), {}).message, "");
      c.writes_f32 = writes_f32;
      c.epilogue = {0.5, -1.5, true, activation};
      HopperRun run(c);
      ASSERT_EQ(run.Launch(GetParam(), {}).message, "");
      std::int64_t wrong = 0;
      for (std::int64_t row = 0; row < c.m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          float value = 0.5F * sums.d_plane.Get<float>(row, column);
          value += -1.5F * (static_cast<float>((row * 3 + column) % 11) / 4 - 1);
          value += static_cast<float>(column % 7) - 3;
          if (activation == Activation::kRelu) value = value < 0 ? 0 : value;
          if (activation == Activation::kSilu) value = value / (1 + std::exp(-value));
          if (activation == Activation::kGeluTanh) {
            value = 0.5F * value *
                    (1 + std::tanh(0.79788456080286535588F *
                                   (value + 0.044715F * value * value * value)));
          }
          wrong += writes_f32 ? run.d_plane.Get<float>(row, column) != value
                              : run.d_plane.Get<std::uint16_t>(row, column) !=
                                    emulator::Narrow(emulator::HalfFormat::kBf16, value);
        }
      }
      EXPECT_EQ(wrong, 0) << Name(activation);
      EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
    }
  }
}

// No report on any seed, with more tiles than blocks.
TEST_P(HopperTilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    ExpectEveryBit(GetParam(), {280, 520, 200, DataType::kF16, false, true},
                   emulator::Landing::kRandom, seed);
  }
}

// Before the grid's turn, where nothing ahead writes them; in every order of K's blocks and stages.
TEST_P(HopperTilings, LoadSettledOperandsAhead) {
  for (const HopperCase& c : {HopperCase{130, 264, 700, DataType::kF16, false, true},
                              HopperCase{70, 40, 72, DataType::kBf16, false, true}}) {
    for (const Order order : {Order::kRowMajor, Order::kColumnMajor}) {
      HopperCase ordered = c;
      ordered.d_order = order;
      HopperRun run(ordered);
      if (!Entry(GetParam()).Rejection(run.problem).empty()) continue;
      for (std::uint64_t seed = 1; seed <= 9; ++seed) {
        run.a_is_settled = seed % 3 != 0;
        run.b_is_settled = seed % 3 != 1;
        emulator::Options options;
        options.seed = seed;
        options.landing = seed > 6 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
        ASSERT_EQ(run.Launch(GetParam(), options).message, "");
        EXPECT_EQ(run.CountWrong(), 0);
      }
    }
  }
}

// Each tile is computed, and once, whatever the order of the tiles.
TEST_P(HopperTilings, WalkTheTilesInEveryOrder) {
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  for (const HopperCase& c : {HopperCase{600, 1100, 70, DataType::kF16, false, true},
                              HopperCase{128, 64, 70, DataType::kF16, false, true}}) {
    HopperRun run(c);
    Config config = Entry(GetParam()).Configure(run.problem, device);
    for (const int order : {0, 1, 2}) {
      for (const int by_place : {0, 1}) {
        config.raster_order = order;
        config.raster_group = 2;
        config.by_place = by_place;
        run.d_plane = Plane(run.problem.d);
        ASSERT_EQ(run.Launch(GetParam(), config, {}).message, "");
        EXPECT_EQ(run.CountWrong(), 0) << ToString(config);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HopperTilings, ::testing::ValuesIn(kHopperEntries),
                         [](const auto& info) { return NameOf(info.param); });

// One numerics id: rows have the same bits in every product that contains them.
TEST(HopperNumerics, RowsDoNotDependOnMNorOnTheTiling) {
  const HopperCase whole_case = {200, 96, 150, DataType::kBf16, false, true};
  HopperRun whole(whole_case);
  ASSERT_EQ(whole.Launch(kHopperEntries[0], {}).message, "");
  for (const char* entry : kHopperEntries) {
    EXPECT_EQ(Entry(entry).NumericsId(whole.problem),
              Entry(kHopperEntries[0]).NumericsId(whole.problem));
    for (const std::int64_t m : {1, 7, 64, 129, 200}) {
      HopperCase c = whole_case;
      c.m = m;
      HopperRun run(c);
      // These rows of A are the first rows of the whole product's.
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t i = 0; i < c.k; ++i) {
          run.a_plane.Set(row, i, whole.a.At(row, i));
        }
      }
      ASSERT_EQ(run.Launch(entry, {}).message, "") << entry;
      std::int64_t different = 0;
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          different += run.d_plane.Get<std::uint16_t>(row, column) !=
                       whole.d_plane.Get<std::uint16_t>(row, column);
        }
      }
      EXPECT_EQ(different, 0) << entry << " M " << m;
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
