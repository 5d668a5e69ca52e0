// The epilogue kernel in the emulator: bits equal to the CPU's formula, over ragged
// shapes, both orders, every pair of types and every part of the formula.
#include "kernels/epilogue/epilogue.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <tuple>

#include "kernels/cpu/epilogue.h"
#include "kernels/emulator/session.h"
#include "tests/testing/products/matrices.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {
namespace {

using Types = std::tuple<DataType, DataType>;

// The formula of epilogue.h in the precision T, rounded to D's type by the reference.
template <typename T>
double Expected(const Problem& problem, const Arguments& arguments, double product,
                std::int64_t row, std::int64_t column) {
  const auto scale = [](Scaling scaling, const void* scales, std::int64_t i) {
    return static_cast<T>(static_cast<const float*>(scales)[scaling == Scaling::kVector ? i : 0]);
  };
  T value = static_cast<T>(product);
  if (problem.a_scaling != Scaling::kNone)
    value *= scale(problem.a_scaling, arguments.a_scales, row);
  if (problem.b_scaling != Scaling::kNone) {
    value *= scale(problem.b_scaling, arguments.b_scales, column);
  }
  const Epilogue& e = problem.epilogue;
  value = static_cast<T>(e.alpha) * value;
  if (e.beta != 0) {
    value +=
        static_cast<T>(e.beta) * static_cast<T>(LoadElement(problem.c, arguments.c, row, column));
  }
  const MatrixLayout bias{problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
  if (e.has_bias) value += static_cast<T>(LoadElement(bias, arguments.bias, 0, column));
  return ActivateAs(e.activation, value);
}

class EpilogueKernel : public ::testing::TestWithParam<Types> {};

TEST_P(EpilogueKernel, EqualsTheCpusFormulaBitForBit) {
  const auto& [product_type, output_type] = GetParam();
  int variant = 0;
  for (Problem problem : SmallProblems(DataType::kF32, output_type)) {
    // Operands do not matter here: the product is given.
    problem.a = problem.b = MatrixLayout{DataType::kF32, 1, 1, Order::kRowMajor, 1};
    if (++variant % 9 != 0 && problem.m * problem.n > 1000) continue;
    constexpr Scaling kScalings[] = {Scaling::kNone, Scaling::kTensor, Scaling::kVector};
    problem.a_scaling = kScalings[variant % 3];
    problem.b_scaling = kScalings[variant / 3 % 3];
    Operands operands(problem, Distribution::kNormal, 5);
    const MatrixLayout scales{DataType::kF32, 1, std::max(problem.m, problem.n), Order::kRowMajor,
                              std::max(problem.m, problem.n)};
    const PlaneBytes a_scales = RandomPlane(scales, Distribution::kWideScale, 6);
    const PlaneBytes b_scales = RandomPlane(scales, Distribution::kWideScale, 7);
    MatrixLayout layout = problem.d;
    layout.type = product_type;
    layout.leading_dimension = layout.inner() + variant % 4;
    const PlaneBytes data = RandomPlane(layout, Distribution::kNormal, 8);
    Arguments arguments = operands.arguments();
    arguments.a_scales = reinterpret_cast<const float*>(a_scales.data());
    arguments.b_scales = reinterpret_cast<const float*>(b_scales.data());
    PlaneBytes expected = PoisonedPlane(problem.d);
    for (std::int64_t row = 0; row < problem.m; ++row) {
      for (std::int64_t column = 0; column < problem.n; ++column) {
        const double product = LoadElement(layout, data.data(), row, column);
        const bool is_wide = product_type == DataType::kF64 || product_type == DataType::kInt32;
        StoreElement(problem.d, expected.data(), row, column,
                     is_wide ? Expected<double>(problem, arguments, product, row, column)
                             : Expected<float>(problem, arguments, product, row, column));
      }
    }
    emulator::Session session;
    LaunchTarget target;
    target.emulator = &session;
    const Product product{product_type, data.data(), layout.leading_dimension};
    const absl::Status status = LaunchEpilogue(problem, product, arguments, target);
    ASSERT_TRUE(status.ok()) << ToString(problem) << ": " << status;
    ASSERT_EQ(std::memcmp(operands.d.data(), expected.data(), expected.size()), 0)
        << ToString(problem) << " from " << Name(product_type);
  }
}

INSTANTIATE_TEST_SUITE_P(
    AllTypes, EpilogueKernel,
    ::testing::Values(Types(DataType::kF64, DataType::kF64), Types(DataType::kF64, DataType::kF32),
                      Types(DataType::kF64, DataType::kF16), Types(DataType::kF64, DataType::kBf16),
                      Types(DataType::kF32, DataType::kF32), Types(DataType::kF32, DataType::kF16),
                      Types(DataType::kF32, DataType::kBf16), Types(DataType::kF16, DataType::kF32),
                      Types(DataType::kF16, DataType::kBf16),
                      Types(DataType::kInt32, DataType::kF32),
                      Types(DataType::kInt32, DataType::kF16),
                      Types(DataType::kInt32, DataType::kBf16)),
    [](const auto& info) {
      return std::string(Name(std::get<0>(info.param))) + "_to_" +
             std::string(Name(std::get<1>(info.param)));
    });

TEST(EpilogueRefusal, NamesTheTypes) {
  EXPECT_EQ(EpilogueRejection(DataType::kF64, DataType::kInt32),
            "has no epilogue from f64 to int32");
  EXPECT_EQ(EpilogueRejection(DataType::kInt32, DataType::kInt32),
            "has no epilogue from int32 to int32");
  EXPECT_EQ(EpilogueRejection(DataType::kF32, DataType::kBf16), "");
}

}  // namespace
}  // namespace gemmd::testing
