// The products of 8-bit operands in the emulator: each bit of D, whatever tiling, shape, format and
// scales; the epilogue and the bound; and what they take.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/numbers/fp8.h"
#include "kernels/gemm.h"
#include "tests/kernels/hopper/bytes/byte_forms.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

std::string Launch(const std::string& name, const emulator::Options& options, ByteRun* run) {
  const Kernel& kernel = KernelOf(name);
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  if (std::string rejection = kernel.Rejection(run->problem); !rejection.empty()) return rejection;
  const Config config = kernel.Configure(run->problem, device);
  return run
      ->LaunchBy(
          [&](const Arguments& arguments, const LaunchTarget& target) {
            return kernel.Launch(run->problem, config, arguments, target);
          },
          options)
      .message;
}

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},       // almost nothing
    {77, 131, 100},  // every edge ragged
    {20, 300, 129},  // several tiles, K a little over a stage
    {9, 70, 1700},   // more stages than the ring has
};

class ByteGemm : public ::testing::TestWithParam<std::tuple<int, Form, Shape>> {};

TEST_P(ByteGemm, GivesEveryBit) {
  const auto& [tiling, form, shape] = GetParam();
  if (tiling >= TilingsOf(form.a)) return;
  ByteRun run(CaseOf(form, shape.m, shape.n, shape.k));
  emulator::Options options;
  options.landing = shape.m % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
  ASSERT_EQ(Launch(EntryOf(tiling, run.c), options, &run), "");
  EXPECT_EQ(run.CountWrong(), 0);
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
}

INSTANTIATE_TEST_SUITE_P(All, ByteGemm,
                         ::testing::Combine(::testing::Range(0, kMostTilings),
                                            ::testing::ValuesIn(kForms),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Form& form = std::get<1>(info.param);
                           const Shape& shape = std::get<2>(info.param);
                           return absl::StrCat(form.name, "_", std::get<0>(info.param), "_",
                                               shape.m, "x", shape.n, "x", shape.k);
                         });

class ByteTilings : public ::testing::TestWithParam<int> {};

// On many seeds, with operands that settle too.
TEST_P(ByteTilings, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    ByteCase c = {140, 70, 400};
    if (seed % 2 == 0) c.a = c.b = kE4M3, c.d = DataType::kF32;
    if (GetParam() >= TilingsOf(c.a)) continue;
    ByteRun run(c);
    run.settles = seed % 3 == 0;
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 4 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    ASSERT_EQ(Launch(EntryOf(GetParam(), c), options, &run), "");
    EXPECT_EQ(run.CountWrong(), 0);
  }
}

// D equals scaled sums after an epilogue that is computed step by step.
TEST_P(ByteTilings, FuseTheEpilogue) {
  for (const bool is_int8 : {true, false}) {
    const DataType type = is_int8 ? DataType::kInt8 : kE4M3;
    if (GetParam() >= TilingsOf(type)) continue;
    ByteRun run({37,
                 71,
                 144,
                 type,
                 type,
                 DataType::kF32,
                 kLines,
                 kLines,
                 Order::kRowMajor,
                 {0.5, -1.5, true, Activation::kRelu}});
    for (std::int64_t column = 0; column < run.c.n; ++column) {
      run.bias.push_back(static_cast<float>(column % 7) - 3);
      for (std::int64_t row = 0; row < run.c.m; ++row) {
        run.c_plane.Set(row, column, static_cast<float>((row * 3 + column) % 11) / 4 - 1);
      }
    }
    ASSERT_EQ(Launch(EntryOf(GetParam(), run.c), {}, &run), "");
    std::int64_t wrong = 0;
    run.ForEach(
        [&](std::int64_t row, std::int64_t column, const ByteRun::Line& a, const ByteRun::Line& b) {
          float value = 0.5F * run.Scaled(a, b, row, column);
          value += -1.5F * (static_cast<float>((row * 3 + column) % 11) / 4 - 1);
          value += static_cast<float>(column % 7) - 3;
          wrong += run.BitsAt(row, column) != BitsOf(value < 0 ? 0 : value);
        });
    EXPECT_EQ(wrong, 0);
  }
}

TEST_P(ByteTilings, SayWhatTheyTake) {
  const ByteCase int8 = {100, 101, 102};
  const Kernel& integers = KernelOf(EntryOf(GetParam(), int8));
  EXPECT_EQ(integers.traits().determinism, Determinism::kBatchInvariant);
  EXPECT_FALSE(integers.traits().only_by_name);
  const Problem problem = MakeByteProblem(int8);
  EXPECT_EQ(integers.Rejection(problem), "");
  const auto rejects = [](const Kernel& kernel, Problem p, auto change) {
    change(&p);
    return !kernel.Rejection(p).empty();
  };
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->b.leading_dimension = 103; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->a.type = DataType::kUint8; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->epilogue.alpha = 2; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->a_scaling = kLines; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->b_scaling = k1x128; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->k = 131073; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->transpose_b = false; }));
  EXPECT_TRUE(rejects(integers, problem, [](Problem* p) { p->accumulate = DataType::kF32; }));

  if (GetParam() >= TilingsOf(kE4M3)) return;
  const ByteCase fp8 = {100, 101, 102, kE4M3, kE5M2, DataType::kF32};
  const Kernel& floats = KernelOf(EntryOf(GetParam(), fp8));
  const Problem plain = MakeByteProblem(fp8);
  EXPECT_EQ(floats.Rejection(plain), "");
  EXPECT_TRUE(AccuracyOf(floats).sums_fp8);
  EXPECT_FALSE(AccuracyOf(integers).sums_fp8);
  EXPECT_TRUE(rejects(floats, plain, [](Problem* p) { p->d.type = DataType::kInt32; }));
  EXPECT_TRUE(rejects(floats, plain, [](Problem* p) { p->a_scaling = k1x128; }));
  EXPECT_TRUE(rejects(floats, plain, [](Problem* p) {
    p->a_scaling = p->b_scaling = {true, DataType::kE8M0, 1, 32};
  }));
  EXPECT_TRUE(rejects(floats, plain, [](Problem* p) { p->k = std::int64_t{1} << 33; }));
  EXPECT_TRUE(rejects(floats, plain, [](Problem* p) { p->a.type = DataType::kBf16; }));
}

INSTANTIATE_TEST_SUITE_P(All, ByteTilings, ::testing::Range(0, kMostTilings));

// One numerics id: rows have the same bits in every product that contains them.
TEST(ByteNumerics, RowsDoNotDependOnMNorOnTheTiling) {
  for (const Form& form : kForms) {
    if (form.a_scaling.block_lines == 128) continue;  // rows of a block share their scale
    ByteCase whole_case = CaseOf(form, 150, 70, 276);
    // Scales along K keep a row's in a smaller product.
    if (form.a_scaling.block_k == 128) whole_case.a_scaling = k1x128AlongK;
    ByteRun whole(whole_case);
    ASSERT_EQ(Launch(EntryOf(0, whole_case), {}, &whole), "");
    for (int tiling = 0; tiling < TilingsOf(form.a); ++tiling) {
      for (const std::int64_t m : {1, 64, 129}) {
        ByteCase c = whole_case;
        c.m = m;
        ByteRun run(c);
        ASSERT_EQ(Launch(EntryOf(tiling, c), {}, &run), "");
        std::int64_t different = 0;
        for (std::int64_t row = 0; row < m; ++row) {
          for (std::int64_t column = 0; column < c.n; ++column) {
            different += run.BitsAt(row, column) != whole.BitsAt(row, column);
          }
        }
        EXPECT_EQ(different, 0) << form.name << " tiling " << tiling << " M " << m;
      }
    }
  }
}

// Infinities and NaN count as IEEE 754 has them.
TEST(ByteNumerics, CarriesWhatIsNotFinite) {
  ByteRun run({4, 8, 260, kE5M2, kE5M2, DataType::kF32});
  run.a_plane.Set<std::uint8_t>(1, 130, 0x7c);  // infinity
  run.a_plane.Set<std::uint8_t>(2, 5, 0x7d);    // NaN
  run.b_plane.Set<std::uint8_t>(0, 130, 0x3c);  // one
  ASSERT_EQ(Launch("sm90/fp8_one64x64", {}, &run), "");
  EXPECT_EQ(run.d_plane.Get<float>(1, 0), INFINITY);
  for (std::int64_t column = 0; column < 8; ++column) {
    EXPECT_TRUE(std::isfinite(run.d_plane.Get<float>(0, column)));
    EXPECT_TRUE(std::isnan(run.d_plane.Get<float>(2, column)));
  }
}

// docs/numerics.md says how near sums of floats are.
TEST(ByteNumerics, KeepsItsBound) {
  ByteRun run({24, 64, 1024, kE4M3, kE4M3, DataType::kF32});
  ASSERT_EQ(Launch("sm90/fp8_one64x64", {}, &run), "");
  const double bound = *ErrorBound(run.problem, AccuracyOf(KernelOf("sm90/fp8_one64x64")));
  double largest = 0;
  for (std::int64_t row = 0; row < run.c.m; ++row) {
    for (std::int64_t column = 0; column < run.c.n; ++column) {
      double exact = 0;
      double magnitude = 0;
      for (std::int64_t i = 0; i < run.c.k; ++i) {
        const double product = double{FromFp8E4M3(run.a_plane.Get<std::uint8_t>(row, i))} *
                               double{FromFp8E4M3(run.b_plane.Get<std::uint8_t>(column, i))};
        exact += product;
        magnitude += std::fabs(product);
      }
      const double error = std::fabs(run.d_plane.Get<float>(row, column) - exact);
      largest = std::fmax(largest, error / magnitude);
    }
  }
  RecordProperty("largest", absl::StrCat(largest));
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0x1p-16);  // sums of more bits would be nearer
}

// By default on sm_90.
TEST(ByteSelection, TakesThemByDefault) {
  for (const Shape& shape : {Shape{1, 8192, 8192}, Shape{64, 8192, 8192}, Shape{512, 512, 512},
                             Shape{4096, 4096, 4096}, Shape{1000, 4096, 1024}}) {
    for (const Form& form : kForms) {
      const Problem problem = MakeByteProblem(CaseOf(form, shape.m, shape.n, shape.k));
      const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, H200());
      ASSERT_TRUE(plan.ok()) << plan.status();
      EXPECT_EQ(plan->kernel->traits().name.rfind(
                    IsInt8({1, 1, 1, form.a}) ? "sm90/int8_" : "sm90/fp8_", 0),
                0U)
          << form.name << ": " << plan->kernel->traits().name;
    }
  }
}

}  // namespace
}  // namespace gemmd::testing
