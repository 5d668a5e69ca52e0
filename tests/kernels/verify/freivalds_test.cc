#include "kernels/verify/freivalds.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/numbers/float_bits.h"
#include "base/numbers/fp8.h"
#include "gtest/gtest.h"
#include "kernels/gemm.h"
#include "tests/testing/products/cpu_launch.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"

namespace gemmd {
namespace {

using testing::Distribution;
using testing::Operands;

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

void Compute(const Problem& problem, Operands* operands) {
  const absl::Status status = testing::LaunchOnCpu(problem, operands->arguments());
  ASSERT_TRUE(status.ok()) << status;
}

double Residual(const Problem& problem, Operands* operands, std::uint64_t seed = 1,
                int vectors = 3) {
  VerificationOptions options;
  options.vectors = vectors;
  options.seed = seed;
  return VerificationResidual(problem, operands->arguments(), options);
}

struct Types {
  DataType a;
  DataType b;
  DataType output;
};

std::string TypesName(const ::testing::TestParamInfo<Types>& info) {
  return std::string(Name(info.param.a)) + "_" + std::string(Name(info.param.b)) + "_" +
         std::string(Name(info.param.output));
}

class AllTypes : public ::testing::TestWithParam<Types> {};

TEST_P(AllTypes, TakesRightProducts) {
  constexpr Distribution kDistributions[] = {Distribution::kNormal, Distribution::kUniform,
                                             Distribution::kWideScale};
  const std::vector<Problem> problems =
      testing::SmallProblems(GetParam().a, GetParam().b, GetParam().output);
  double worst = 0;
  // A third of them has every shape with every order and transpose of some operand.
  for (std::size_t i = 0; i < problems.size(); i += 3) {
    Problem problem = problems[i];
    const auto seed = static_cast<std::uint32_t>(i / 3 + 1);
    problem.epilogue.activation = Activation::kNone;
    Operands operands(problem, kDistributions[seed % 3], seed);
    Compute(problem, &operands);
    const double residual = Residual(problem, &operands, seed);
    ASSERT_LE(residual, 1) << ToString(problem) << " seed " << seed;
    worst = std::max(worst, residual);
  }
  RecordProperty("worst_residual", std::to_string(worst));
  // A tolerance far too wide would let wrong products pass. The tolerance of fp8 is for tensor
  // cores, and nothing beside what the CPU loses in f32; int32 has none.
  const bool is_fp8_in_f32 = IsFp8(GetParam().a) && GetParam().output == DataType::kF32;
  if (GetParam().output != DataType::kInt32 && !is_fp8_in_f32) {
    EXPECT_GT(worst, 0.001);
  }
}

// An element as wrong as elements are large.
TEST_P(AllTypes, CatchesEveryPlantedElement) {
  std::mt19937 random(7);
  for (std::uint32_t trial = 0; trial < 200; ++trial) {
    const bool transpose = trial % 2 == 1;
    Problem problem = MakeProblem(40 + trial % 30, 50 + trial % 41, 60 + trial % 7, GetParam().a,
                                  GetParam().output, transpose, !transpose);
    problem.b.type = GetParam().b;
    Operands operands(problem, Distribution::kNormal, trial + 1);
    Compute(problem, &operands);
    ASSERT_LE(Residual(problem, &operands, trial), 1) << trial;

    double square = 0;
    for (std::int64_t i = 0; i < problem.m; ++i) {
      for (std::int64_t j = 0; j < problem.n; ++j) {
        const double d = LoadElement(problem.d, operands.d.data(), i, j);
        square += d * d / static_cast<double>(problem.m * problem.n);
      }
    }
    const auto row = static_cast<std::int64_t>(random() % problem.m);
    const auto column = static_cast<std::int64_t>(random() % problem.n);
    const double right = LoadElement(problem.d, operands.d.data(), row, column);
    const double wrong = right + (random() % 2 == 0 ? 1 : -1) * std::sqrt(square);
    StoreElement(problem.d, operands.d.data(), row, column, wrong);
    EXPECT_GT(Residual(problem, &operands, trial), 1) << "trial " << trial;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , AllTypes,
    ::testing::Values(Types{DataType::kF64, DataType::kF64, DataType::kF64},
                      Types{DataType::kF32, DataType::kF32, DataType::kF32},
                      Types{DataType::kF16, DataType::kF16, DataType::kF16},
                      Types{DataType::kF16, DataType::kF16, DataType::kF32},
                      Types{DataType::kBf16, DataType::kBf16, DataType::kBf16},
                      Types{DataType::kBf16, DataType::kBf16, DataType::kF32},
                      Types{DataType::kInt8, DataType::kInt8, DataType::kInt32},
                      Types{DataType::kInt8, DataType::kInt8, DataType::kF32},
                      Types{DataType::kInt8, DataType::kInt8, DataType::kBf16},
                      Types{DataType::kFp8E4M3, DataType::kFp8E4M3, DataType::kBf16},
                      Types{DataType::kFp8E4M3, DataType::kFp8E5M2, DataType::kF32}),
    TypesName);

TEST(Freivalds, CatchesErrorsThatCancelInSomeVectors) {
  // Two errors of one row cancel in half of all vectors: in all of 20 once in a million.
  const Problem problem = MakeProblem(20, 30, 40, DataType::kF32, DataType::kF32);
  int missed_by_one = 0;
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    Operands operands(problem, Distribution::kNormal, seed);
    Compute(problem, &operands);
    for (const std::int64_t column : {3, 17}) {
      StoreElement(problem.d, operands.d.data(), 5, column,
                   LoadElement(problem.d, operands.d.data(), 5, column) + 10);
    }
    if (Residual(problem, &operands, seed, 1) <= 1) ++missed_by_one;
    EXPECT_GT(Residual(problem, &operands, seed, 20), 1) << seed;
  }
  EXPECT_GT(missed_by_one, 20);
  EXPECT_LT(missed_by_one, 80);
}

TEST(Freivalds, IsTheSameForTheSameSeedAndForManyThreads) {
  const Problem problem = MakeProblem(200, 300, 100, DataType::kBf16, DataType::kBf16);
  Operands operands(problem, Distribution::kNormal, 3);
  Compute(problem, &operands);
  testing::InlineExecutor executor;
  VerificationOptions options;
  options.seed = 5;
  options.executor = &executor;
  const double residual = VerificationResidual(problem, operands.arguments(), options);
  EXPECT_EQ(residual, Residual(problem, &operands, 5));
  EXPECT_NE(residual, Residual(problem, &operands, 6));
}

TEST(Freivalds, TakesLongSumsOfOneSign) {
  for (const DataType type : {DataType::kF32, DataType::kBf16, DataType::kFp8E4M3}) {
    const Problem problem = MakeProblem(8, 16, 20000, type, DataType::kF32);
    Operands operands(problem, Distribution::kUniform, 3);
    Compute(problem, &operands);
    EXPECT_LE(Residual(problem, &operands), 1) << Name(type);
  }
}

TEST(Freivalds, TakesValuesAtTheEndsOfF64) {
  const Problem problem = MakeProblem(9, 10, 11, DataType::kF64, DataType::kF64);
  for (const double scale : {1e-200, 1e-153, 1e150}) {
    Operands operands(problem, Distribution::kNormal, 3);
    for (auto* plane : {&operands.a, &operands.b}) {
      auto* const values = reinterpret_cast<double*>(plane->data());
      for (std::size_t i = 0; i < plane->size() / sizeof(double); ++i) values[i] *= scale;
    }
    Compute(problem, &operands);
    EXPECT_LE(Residual(problem, &operands), 1) << scale;
  }
}

// ------------------------------------------------------------- NaN and infinities

struct NonFinite {
  Problem problem = MakeProblem(10, 12, 14, DataType::kF32, DataType::kF32);
  Operands operands{problem, Distribution::kNormal, 9};

  void Plant(double value) { StoreElement(problem.a, operands.a.data(), 4, 6, value); }
  double ResidualNow() { return Residual(problem, &operands); }
};

TEST(Freivalds, TakesNonFiniteRowsOfOperandsThatAreNot) {
  for (const double value : {kNan, kInf, -kInf}) {
    NonFinite that;
    that.Plant(value);
    Compute(that.problem, &that.operands);
    EXPECT_LE(that.ResidualNow(), 1) << value;
    NonFinite in_b;
    StoreElement(in_b.problem.b, in_b.operands.b.data(), 3, 2, value);
    Compute(in_b.problem, &in_b.operands);
    EXPECT_LE(in_b.ResidualNow(), 1) << value;
  }
}

TEST(Freivalds, CatchesAFiniteRowThatMustNotBe) {
  NonFinite that;
  Compute(that.problem, &that.operands);
  that.Plant(kNan);  // as if the kernel had not seen it
  EXPECT_EQ(that.ResidualNow(), kInf);
}

TEST(Freivalds, CatchesANonFiniteElementThatMustNotBe) {
  for (const double value : {kNan, kInf}) {
    NonFinite that;
    Compute(that.problem, &that.operands);
    StoreElement(that.problem.d, that.operands.d.data(), 8, 1, value);
    EXPECT_EQ(that.ResidualNow(), kInf);
  }
}

TEST(Freivalds, ChecksTheOtherRowsOfAProductWithNan) {
  NonFinite that;
  that.Plant(kNan);
  Compute(that.problem, &that.operands);
  StoreElement(that.problem.d, that.operands.d.data(), 7, 1, 1000);
  EXPECT_GT(that.ResidualNow(), 1);
}

TEST(Freivalds, TakesOverflowOfTheOutputType) {
  const Problem problem = MakeProblem(10, 12, 14, DataType::kF16, DataType::kF16);
  Operands operands(problem, Distribution::kNormal, 9);
  for (std::int64_t k = 0; k < problem.k; ++k) {
    StoreElement(problem.a, operands.a.data(), 2, k, 60000);
  }
  Compute(problem, &operands);
  EXPECT_LE(Residual(problem, &operands), 1);
}

// As cublaslt/f16 sums where a request asks for it; no kernel of the CPU does.
TEST(Freivalds, TakesSumsInF16) {
  Problem problem = MakeProblem(24, 40, 512, DataType::kF16, DataType::kF16);
  problem.accumulate = DataType::kF16;
  Operands operands(problem, Distribution::kUniform, 5);
  for (std::int64_t i = 0; i < problem.m; ++i) {
    for (std::int64_t j = 0; j < problem.n; ++j) {
      float sum = 0;
      for (std::int64_t k = 0; k < problem.k; ++k) {
        const double term = LoadElement(problem.a, operands.a.data(), i, k) *
                            LoadElement(problem.b, operands.b.data(), k, j);
        sum = FromF16(ToF16(static_cast<float>(sum + term)));
      }
      StoreElement(problem.d, operands.d.data(), i, j, sum);
    }
  }
  EXPECT_LE(Residual(problem, &operands), 1);
  const Problem in_f32 = MakeProblem(24, 40, 512, DataType::kF16, DataType::kF16);
  EXPECT_GT(Residual(in_f32, &operands), 1) << "sums in f32 are held to more";
}

}  // namespace
}  // namespace gemmd
