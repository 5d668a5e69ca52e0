// The Hopper GEMM on tf32 operands in the emulator: each bit of D, whatever tiling and shape; its
// epilogue, batches and bound; and what it takes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "tests/kernels/hopper/half/tf32_run.h"
#include "tests/testing/h200.h"

namespace gemmd::testing {
namespace {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},       // almost nothing
    {77, 131, 100},  // every edge ragged
    {300, 20, 36},   // several tiles, K a little over a stage
    {9, 70, 500},    // more stages than the ring has
};

std::string TestName(const std::string& entry) { return entry.substr(5); }

class Tf32Gemm : public ::testing::TestWithParam<std::tuple<std::string, Shape>> {};

TEST_P(Tf32Gemm, GivesEveryBit) {
  const auto& [name, shape] = GetParam();
  Tf32Run run({shape.m, shape.n, shape.k});
  ASSERT_EQ(Tf32Kernel(name).Rejection(run.problem), "");
  emulator::Options options;
  options.landing = shape.m % 2 == 0 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
  ASSERT_EQ(run.Launch(name, options).message, "");
  EXPECT_EQ(run.CountWrong(), 0);
  EXPECT_TRUE(run.d_plane.IsPaddingUntouched());
}

INSTANTIATE_TEST_SUITE_P(All, Tf32Gemm,
                         ::testing::Combine(::testing::ValuesIn(AllTf32Entries()),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return absl::StrCat(TestName(std::get<0>(info.param)), "_", shape.m, "x",
                                               shape.n, "x", shape.k);
                         });

class Tf32Entries : public ::testing::TestWithParam<std::string> {};

// A transposed, B, D column-major, operands that settle, on many seeds.
TEST_P(Tf32Entries, RaiseNothingOnAnySeed) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    F32Case c = {40, 70, 68};
    c.d_order = seed % 2 == 0 ? Order::kColumnMajor : Order::kRowMajor;
    Tf32Run run(c);
    run.b_is_settled = seed % 3 == 0;
    emulator::Options options;
    options.seed = seed;
    options.landing = seed > 4 ? emulator::Landing::kLazy : emulator::Landing::kRandom;
    ASSERT_EQ(run.Launch(GetParam(), options).message, "");
    EXPECT_EQ(run.CountWrong(), 0);
  }
}

// D equals the sums after an epilogue that is computed step by step.
TEST_P(Tf32Entries, FuseTheEpilogue) {
  F32Case c = {37, 71, 44};
  Tf32Run sums(c);
  ASSERT_EQ(sums.Launch(GetParam(), {}).message, "");
  c.epilogue = {0.5, -1.5, true, Activation::kRelu};
  Tf32Run run(c);
  ASSERT_EQ(run.Launch(GetParam(), {}).message, "");
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
}

TEST_P(Tf32Entries, SayWhatTheyTake) {
  const Kernel& kernel = Tf32Kernel(GetParam());
  EXPECT_EQ(kernel.traits().determinism, Determinism::kBatchInvariant);
  EXPECT_FALSE(kernel.traits().only_by_name);
  const Problem problem = MakeTf32Problem({100, 101, 102});
  EXPECT_EQ(kernel.Rejection(problem), "");
  Problem other = problem;
  other.b.leading_dimension = 103;
  EXPECT_NE(kernel.Rejection(other), "");
  other = problem;
  other.a.type = DataType::kF32;
  EXPECT_NE(kernel.Rejection(other), "");
  other = problem;
  other.k = std::int64_t{1} << 30;
  EXPECT_NE(kernel.Rejection(other), "");
  EXPECT_NE(kernel.Rejection(MakeTf32Problem({8, 8, 8, true, true})), "");
  EXPECT_NE(kernel.Rejection(MakeTf32Problem({8, 8, 8, false, false})), "");
}

INSTANTIATE_TEST_SUITE_P(All, Tf32Entries, ::testing::ValuesIn(AllTf32Entries()),
                         [](const auto& info) { return TestName(info.param); });

// One numerics id: rows have the same bits in every product that contains them.
TEST(Tf32Numerics, RowsDoNotDependOnMNorOnTheTiling) {
  const F32Case whole_case = {150, 70, 76};
  Tf32Run whole(whole_case);
  ASSERT_EQ(whole.Launch(AllTf32Entries().front(), {}).message, "");
  for (const std::string& name : AllTf32Entries()) {
    for (const std::int64_t m : {1, 64, 129}) {
      F32Case c = whole_case;
      c.m = m;
      Tf32Run run(c);
      ASSERT_EQ(run.Launch(name, {}).message, "");
      std::int64_t different = 0;
      for (std::int64_t row = 0; row < m; ++row) {
        for (std::int64_t column = 0; column < c.n; ++column) {
          different += run.BitsAt(row, column) != whole.BitsAt(row, column);
        }
      }
      EXPECT_EQ(different, 0) << name << " M " << m;
    }
  }
}

// tf32_registry.h says how near it is, and that it is no nearer.
TEST(Tf32Numerics, KeepsItsBound) {
  const F32Case c = {24, 64, 512};
  Tf32Run run(c);
  ASSERT_EQ(run.Launch("sm90/tf32_one64x64", {}).message, "");
  const double bound = 0x1p-10 + 0x1p-22 + (512.0 / 8 + 1) * 10 * 0x1p-24;
  double largest = 0;
  for (std::int64_t row = 0; row < c.m; ++row) {
    for (std::int64_t column = 0; column < c.n; ++column) {
      double exact = 0;
      double magnitude = 0;
      for (std::int64_t i = 0; i < c.k; ++i) {
        const double product =
            static_cast<double>(run.A(row, i)) * static_cast<double>(run.B(i, column));
        exact += product;
        magnitude += std::fabs(product);
      }
      largest = std::fmax(largest, std::fabs(run.D(row, column) - exact) / magnitude);
    }
  }
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0x1p-14);
}

TEST(Tf32Numerics, BatchesHaveTheBitsOfOne) {
  Tf32Run one({20, 70, 44});
  ASSERT_EQ(one.Launch("sm90/tf32_one64x64", {}).message, "");
  Tf32Run first({20, 70, 44});
  Tf32Run second({20, 70, 44});
  std::vector<Arguments> batch;
  for (Tf32Run* const run : {&first, &second}) {
    Arguments arguments;
    arguments.a = run->a_plane.data();
    arguments.b = run->b_plane.data();
    arguments.d = run->d_plane.data();
    batch.push_back(arguments);
  }
  emulator::Session session;
  LaunchTarget target;
  target.emulator = &session;
  const Kernel& kernel = Tf32Kernel("sm90/tf32_one64x64");
  ASSERT_TRUE(
      kernel.LaunchBatch(one.problem, kernel.Configure(one.problem, H200()), batch, target).ok());
  ASSERT_EQ(session.report.message, "");
  for (const Tf32Run* const run : {&first, &second}) {
    std::int64_t different = 0;
    for (std::int64_t row = 0; row < 20; ++row) {
      for (std::int64_t column = 0; column < 70; ++column) {
        different += run->BitsAt(row, column) != one.BitsAt(row, column);
      }
    }
    EXPECT_EQ(different, 0);
  }
}

// By default on sm_90, whatever class is asked for.
TEST(Tf32Selection, TakesThemByDefault) {
  for (const F32Case& c : {F32Case{1, 8192, 8192}, F32Case{512, 512, 512}, F32Case{64, 8192, 8192},
                           F32Case{4096, 4096, 4096}, F32Case{8192, 8192, 8192}}) {
    const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), MakeTf32Problem(c), H200());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->numerics_id, "tensor-core-k8:tf32:f32");
  }
}

}  // namespace
}  // namespace gemmd::testing
