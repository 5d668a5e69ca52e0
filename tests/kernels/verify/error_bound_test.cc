// Products of plain types by the CPU's kernels are within the bound that receipts state; those of
// quantized types are wherever CheckQuantizedProduct() is asked.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/cpu_launch.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::Operands;

void Compute(const Problem& problem, Operands* operands) {
  const absl::Status status = testing::LaunchOnCpu(problem, operands->arguments());
  ASSERT_TRUE(status.ok()) << status;
}

double HalfUlp(DataType type) {
  return type == DataType::kF64   ? 0x1p-53
         : type == DataType::kF32 ? 0x1p-24
         : type == DataType::kF16 ? 0x1p-11
                                  : 0x1p-8;
}

// The largest error, less D's own rounding, over the magnitude.
double WorstShare(const Problem& problem, Operands* operands) {
  const Arguments arguments = operands->arguments();
  const ReferenceResult exact = ReferenceGemm(problem, arguments);
  double worst = 0;
  for (std::int64_t row = 0; row < problem.m; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      const auto at = static_cast<std::size_t>(row * problem.n + column);
      const double stored = LoadElement(problem.d, arguments.d, row, column);
      const double own =
          HalfUlp(problem.d.type) * std::max(std::abs(stored), std::abs(exact.d[at]));
      const double error = std::abs(stored - exact.d[at]) - own - 0x1p-24;
      if (error > 0) worst = std::max(worst, error / exact.magnitude[at]);
    }
  }
  return worst;
}

class PlainTypes : public ::testing::TestWithParam<std::pair<DataType, DataType>> {};

TEST_P(PlainTypes, AreWithinTheBound) {
  const auto [type, output] = GetParam();
  int number = 0;
  for (const Problem& problem : testing::SmallProblems(type, output)) {
    if (++number % 4 != 0) continue;
    const std::optional<double> bound = ErrorBound(problem, {});
    ASSERT_EQ(bound.has_value(), problem.epilogue.activation == Activation::kNone);
    if (!bound.has_value()) continue;
    Operands operands(problem, Distribution::kNormal, 3);
    Compute(problem, &operands);
    EXPECT_LE(WorstShare(problem, &operands), *bound) << ToString(problem);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, PlainTypes,
                         ::testing::Values(std::pair(DataType::kF64, DataType::kF64),
                                           std::pair(DataType::kF32, DataType::kF32),
                                           std::pair(DataType::kF16, DataType::kF32),
                                           std::pair(DataType::kBf16, DataType::kBf16),
                                           std::pair(DataType::kInt8, DataType::kInt32),
                                           std::pair(DataType::kFp8E4M3, DataType::kF32)));

// A row whose terms are alike loses most: each partial sum is rounded at its own, larger unit.
TEST(ErrorBound, HoldsOfASumThatRoundsTheSameWay) {
  Problem problem = MakeProblem(1, 1, 5000, DataType::kF32, DataType::kF32);
  Operands operands(problem, Distribution::kNormal, 3);
  const float tenth = 0.1F;
  for (std::int64_t k = 0; k < problem.k; ++k) {
    StoreElement(problem.a, operands.a.data(), 0, k, tenth);
    StoreElement(problem.b, operands.b.data(), k, 0, 1);
  }
  Compute(problem, &operands);
  const double share = WorstShare(problem, &operands);
  EXPECT_GT(share, 0x1p-24);  // a test of nothing otherwise
  EXPECT_LE(share, *ErrorBound(problem, {}));
}

TEST(ErrorBound, IsWhatTheTableSays) {
  const auto bound = [](DataType type, DataType output, DataType accumulate) {
    Problem problem = MakeProblem(16, 16, 1024, type, output);
    problem.accumulate = accumulate;
    return *ErrorBound(problem, {});
  };
  EXPECT_EQ(bound(DataType::kF64, DataType::kF64, DataType::kF64), 1056 * 0x1p-53);
  EXPECT_EQ(bound(DataType::kF32, DataType::kF32, DataType::kF64), 1056 * 0x1p-53 + 0x1p-23);
  EXPECT_EQ(bound(DataType::kBf16, DataType::kBf16, DataType::kF32), 1056 * 0x1p-23);
  EXPECT_EQ(bound(DataType::kTf32, DataType::kF32, DataType::kF32), 1056 * 0x1p-23 + 0x1p-9);
  EXPECT_EQ(bound(DataType::kFp8E4M3, DataType::kBf16, DataType::kF32), 1056 * 0x1p-23);
  EXPECT_EQ(bound(DataType::kF16, DataType::kF16, DataType::kF16), 1056 * 0x1p-11);
  EXPECT_EQ(bound(DataType::kNf4, DataType::kBf16, DataType::kF32), 1056 * 0x1p-23);
  EXPECT_EQ(bound(DataType::kInt8, DataType::kInt32, DataType::kInt32), 0);
  EXPECT_EQ(bound(DataType::kInt8, DataType::kF32, DataType::kInt32), 0x1p-20);
  const Problem f32 = MakeProblem(16, 16, 1024, DataType::kF32, DataType::kF32);
  EXPECT_EQ(*ErrorBound(f32, {true, false}), 1056 * 0x1p-23 + 0x1p-9);
}

TEST(ErrorBound, CountsTheTermsOfATable) {
  Problem problem = MakeProblem(16, 16, 64, DataType::kBf16, DataType::kF32);
  for (const DataType rows : {DataType::kF16, DataType::kBf16, DataType::kF32, DataType::kInt8}) {
    problem.a.type = rows;
    const double more = rows == DataType::kInt8 ? 0 : 0x1p-17;
    for (const DataType table : {DataType::kNf4, DataType::kBnbFp4, DataType::kIq4Nl}) {
      problem.b.type = table;
      const bool is_rounded = table != DataType::kIq4Nl;
      EXPECT_EQ(*ErrorBound(problem, {}), 96 * 0x1p-23 + (is_rounded ? more : 0));
      EXPECT_EQ(AccumulationLoss(problem, {}), 16 * 0x1p-23 + (is_rounded ? more : 0));
    }
  }
}

// cuBLASLt may round to D's type before it adds a bias.
TEST(ErrorBound, CountsARoundingBeforeAFusedBias) {
  Problem problem = MakeProblem(16, 16, 1024, DataType::kBf16, DataType::kBf16);
  EXPECT_EQ(*ErrorBound(problem, {false, true}), 1056 * 0x1p-23);
  problem.epilogue.has_bias = true;
  EXPECT_EQ(*ErrorBound(problem, {}), 1056 * 0x1p-23);
  EXPECT_EQ(*ErrorBound(problem, {false, true}), 1056 * 0x1p-23 + 0x1p-8);
  problem.d.type = DataType::kF32;
  EXPECT_EQ(*ErrorBound(problem, {false, true}), 1056 * 0x1p-23);
  problem.a.type = problem.b.type = problem.d.type = DataType::kF16;
  EXPECT_EQ(*ErrorBound(problem, {false, true}), 1056 * 0x1p-23 + 0x1p-11);
}

// Tensor cores multiply the codes of fp8 with scales of blocks in class fast, and in kernels that
// say so.
TEST(ErrorBound, OfFp8InBlocksDependsOnTheKernel) {
  Problem problem = MakeProblem(16, 16, 1024, DataType::kFp8E4M3, DataType::kBf16);
  problem.a_scaling = problem.b_scaling = Scaling::kVector;
  problem.a_scaling.block_k = problem.b_scaling.block_k = 128;
  EXPECT_EQ(*ErrorBound(problem, {}), 1056 * 0x1p-23);
  EXPECT_EQ(AccumulationLoss(problem, {}), 136 * 0x1p-23);
  EXPECT_EQ(*ErrorBound(problem, {false, true}), 1056 * 0x1p-23 + 132 * 0x1p-13);
  EXPECT_EQ(*ErrorBound(problem, {true, true}), 1056 * 0x1p-23 + 33 * 32 * 0x1p-13 + 0x1p-9);
  EXPECT_EQ(AccumulationLoss(problem, {false, true}), 36 * 0x1p-13);
  EXPECT_EQ(*ErrorBound(problem, {false, false, true}), 1056 * 0x1p-23 + 132 * 0x1p-13);
  EXPECT_EQ(AccumulationLoss(problem, {false, false, true}), 36 * 0x1p-13);
}

}  // namespace
}  // namespace gemmd
