// Every step of ladder C in the emulator: each bit of D, on whole and ragged shapes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/gemm.h"
#include "tests/kernels/workshop/blackwell_bf16/ladder_c_run.h"

namespace gemmd::testing {
namespace {

constexpr const char* kSteps[] = {"sm100/c1",     "sm100/c2",        "sm100/c3",
                                  "sm100/c4",     "sm100/c2_256",    "sm100/c3_256",
                                  "sm100/c4_256", "sm100/c4_elected"};
constexpr ProductForm kForms[] = {ProductForm::kBf16AccumulateF32, ProductForm::kF16AccumulateF32};

constexpr Shape kShapes[] = {
    {64, 64, 64},    // one tile
    {128, 64, 448},  // seven tiles of K a block: both mbarriers go round more than once
    {1, 1, 1},       // almost nothing
    {77, 131, 333},  // every edge ragged, six tiles of K
    {130, 72, 328},  // N ends in a whole unit of 16 bytes, K in one
    {65, 40, 1000},  // N below a tile, K long
    {40, 328, 100},  // two tiles of 256 columns, the second of a box and a whole unit
};

Sums SumsOf(const std::string& step) {
  return step == "sm100/c1" ? Sums::kOneByOne : Sums::kTensorCore;
}

// Runs a step as a device does, by name.
emulator::Report RunStep(const char* step, const BlackwellCase& each,
                         const emulator::Options& options, BlackwellOperands* operands) {
  const Problem problem = MakeBlackwellProblem(each);
  DeviceTraits device;
  device.kind = DeviceKind::kEmulated;
  const absl::StatusOr<Plan> plan = Select(BuiltinRegistry(), problem, device, step);
  emulator::Session session;
  session.options = options;
  if (!plan.ok()) {
    session.report.violation = emulator::Violation::kBadLaunch;
    session.report.message = plan.status().ToString();
    return session.report;
  }
  LaunchTarget target;
  target.emulator = &session;
  const absl::Status status =
      plan->kernel->Launch(problem, plan->config, operands->arguments(), target);
  EXPECT_EQ(status.ok(), session.report.ok()) << status;
  return session.report;
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

class LadderC : public ::testing::TestWithParam<std::tuple<const char*, Shape>> {};

TEST_P(LadderC, GivesEveryBitOfTheProduct) {
  const auto& [step, shape] = GetParam();
  for (const ProductForm form : kForms) {
    for (const bool b_is_k_major : {true, false}) {
      const BlackwellCase each = {shape, form, b_is_k_major};
      BlackwellOperands operands(each);
      const std::vector<std::uint16_t> expected = operands.Expected(SumsOf(step));
      for (const emulator::Landing landing :
           {emulator::Landing::kEager, emulator::Landing::kLazy, emulator::Landing::kRandom}) {
        emulator::Options options;
        options.landing = landing;
        operands.d.Fill(HalfOperands::kPoison);
        const emulator::Report report = RunStep(step, each, options, &operands);
        ASSERT_TRUE(report.ok()) << each << ": " << report.message;
        EXPECT_EQ(CountDifferent(operands.d, expected), 0) << each;
        EXPECT_EQ(CountWrittenPadding(operands.d), 0) << each;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderC,
                         ::testing::Combine(::testing::ValuesIn(kSteps),
                                            ::testing::ValuesIn(kShapes)),
                         [](const auto& info) {
                           const Shape& shape = std::get<1>(info.param);
                           return std::string(std::get<0>(info.param)).substr(6) + "_" +
                                  std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
                                  std::to_string(shape.k);
                         });

class LadderCSeeds : public ::testing::TestWithParam<const char*> {};

TEST_P(LadderCSeeds, RaiseNothing) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    emulator::Options options;
    options.seed = seed;
    const BlackwellCase each = {{77, 100, 328}, kForms[seed % 2], seed % 4 < 2};
    BlackwellOperands operands(each);
    const emulator::Report report = RunStep(GetParam(), each, options, &operands);
    ASSERT_TRUE(report.ok()) << "seed " << seed << ": " << report.message;
    EXPECT_EQ(CountDifferent(operands.d, operands.Expected(SumsOf(GetParam()))), 0)
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(AllSteps, LadderCSeeds, ::testing::ValuesIn(kSteps),
                         [](const auto& info) { return std::string(info.param).substr(6); });

// c1 rounds after each product, the others after 16; where nothing is rounded all are one.
TEST(LadderCNumerics, StepsAgreeWhereSumsAreExact) {
  for (const Shape& shape : kShapes) {
    for (const ProductForm form : kForms) {
      const BlackwellCase each = {shape, form, true};
      BlackwellOperands operands(each);
      operands.FillWithWholeNumbers();
      const auto run = [&](const char* step) {
        operands.d.Fill(HalfOperands::kPoison);
        const emulator::Report report = RunStep(step, each, {}, &operands);
        EXPECT_TRUE(report.ok()) << report.message;
        return ElementsOf(operands.d);
      };
      const std::vector<std::uint16_t> expected = run(kSteps[0]);
      for (const char* step : kSteps) EXPECT_TRUE(run(step) == expected) << step << " " << each;
    }
  }
}

// Shared memory of threads alone: what c4's stmatrix costs. Accesses of TMA and tcgen05 are not
// counted.
TEST(LadderCBanks, NoStepHasConflicts) {
  const BlackwellCase each = {{64, 64, 64}};
  for (const char* step : kSteps) {
    emulator::Options options;
    options.count_bank_conflicts = true;
    BlackwellOperands operands(each);
    const emulator::Report report = RunStep(step, each, options, &operands);
    EXPECT_EQ(report.statistics.extra_wavefronts(), 0u) << step;
  }
}

}  // namespace
}  // namespace gemmd::testing
