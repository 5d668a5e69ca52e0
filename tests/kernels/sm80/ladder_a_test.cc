// Every step of ladder A in the emulator: each bit of D, on whole and ragged shapes.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "kernels/emulator/session.h"
#include "kernels/gemm.h"
#include "tests/kernels/sm80/ladder_a_run.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {"sm80/a01a", "sm80/a01b", "sm80/a02",
                                  "sm80/a03",  "sm80/a04",  "sm80/a05"};

constexpr Shape kShapes[] = {
    {256, 128, 64},    // one tile
    {512, 128, 320},   // more tiles of K than stages
    {1, 1, 1},         // almost nothing
    {77, 131, 333},    // every edge ragged
    {260, 257, 40},    // a few rows and columns over, K below a tile
    {300, 40, 72},     // N far below a tile
    {129, 136, 1000},  // K long and ragged
};

Problem MakeHalfProblem(ProductForm form, const Shape& shape) {
  const DataType type = form == ProductForm::kBf16AccumulateF32 ? DataType::kBf16 : DataType::kF16;
  Problem problem = MakeProblem(shape.m, shape.n, shape.k, type, type);
  if (form == ProductForm::kF16AccumulateF16) problem.accumulate = DataType::kF16;
  return problem;
}

struct Operands {
  Operands(ProductForm form, const Shape& shape)
      : a(shape.m, shape.k), b(shape.k, shape.n), d(shape.m, shape.n) {
    a.FillRandom(FormatOf(form), 1);
    b.FillRandom(FormatOf(form), 2);
    d.Fill(kPoison);
  }
  static constexpr std::uint16_t kPoison = 0x7fc1;
  HalfMatrix a;
  HalfMatrix b;
  HalfMatrix d;
};

// Runs a registry entry the way a device does.
Outcome RunEntry(const std::string& name, ProductForm form, const Shape& shape,
                 const emulator::Options& options, Operands* operands) {
  Problem problem = MakeHalfProblem(form, shape);
  problem.a.leading_dimension = operands->a.leading_dimension();
  problem.b.leading_dimension = operands->b.leading_dimension();
  problem.d.leading_dimension = operands->d.leading_dimension();
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, device, name);
  EXPECT_TRUE(plan.ok()) << plan.status();
  Arguments arguments;
  arguments.a = operands->a.data();
  arguments.b = operands->b.data();
  arguments.d = operands->d.data();
  emulator::Session session;
  session.options = options;
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status = plan->kernel->Launch(problem, plan->config, arguments, target);
  EXPECT_EQ(status.ok(), session.report.ok());
  Outcome outcome;
  outcome.report = session.report;
  if (outcome.report.ok()) {
    outcome.different =
        CountDifferent(operands->d, ExactProduct(form, operands->a, operands->b, false));
  }
  return outcome;
}

class LadderA : public ::testing::TestWithParam<std::tuple<const char*, ProductForm, Shape>> {};

TEST_P(LadderA, GivesEveryBitOfTheProduct) {
  const auto& [step, form, shape] = GetParam();
  for (const emulator::Landing landing : {emulator::Landing::kLazy, emulator::Landing::kRandom}) {
    emulator::Options options;
    options.landing = landing;
    Operands operands(form, shape);
    const Outcome outcome = RunEntry(step, form, shape, options, &operands);
    EXPECT_TRUE(outcome.report.ok()) << outcome.report.message;
    EXPECT_EQ(outcome.different, 0);
    // The padding between rows is not ours.
    for (std::int64_t row = 0; row + 1 < shape.m; ++row) {
      for (std::int64_t c = shape.n; c < operands.d.leading_dimension(); ++c) {
        ASSERT_EQ(operands.d.At(row, c), Operands::kPoison) << row << ", " << c;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderA,
                         ::testing::Combine(::testing::ValuesIn(kSteps),
                                            ::testing::ValuesIn(kProductForms),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<2>(info.param);
                           return absl::StrCat(std::string(std::get<0>(info.param)).substr(5), "_",
                                               Name(std::get<1>(info.param)), "_", shape.m, "x",
                                               shape.n, "x", shape.k);
                         });

TEST(LadderAError, IsBelowTheStatedBound) {
  const Shape shape{64, 72, 1000};
  for (const ProductForm form : kProductForms) {
    Operands operands(form, shape);
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
      Operands operands(ProductForm::kF16AccumulateF32, shape);
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
  Operands operands(ProductForm::kF16AccumulateF32, shape);
  return RunEntry(step, ProductForm::kF16AccumulateF32, shape, options, &operands)
      .report.statistics;
}

TEST(LadderABanks, EightWayConflictsWithoutSwizzle) {
  EXPECT_EQ(BanksOf("sm80/a01a").worst_bank_ways(), 8);
  EXPECT_EQ(BanksOf("sm80/a01b").worst_bank_ways(), 8);
}

TEST(LadderABanks, NoConflictsWithSwizzle) {
  for (const char* step : {"sm80/a02", "sm80/a03", "sm80/a04", "sm80/a05"}) {
    const emulator::Statistics statistics = BanksOf(step);
    EXPECT_EQ(statistics.extra_wavefronts(), 0u) << step;
    EXPECT_GT(statistics.banks.size(), 3u) << step;
  }
}

}  // namespace
}  // namespace gemmd::testing
