#include "tests/testing/products/matrices.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/testing/products/reference.h"

namespace gemmd::testing {
namespace {

constexpr char kPoison = static_cast<char>(0xA5);

double Draw(DataType type, Distribution distribution, std::mt19937* generator) {
  if (type == DataType::kInt8) return static_cast<double>(static_cast<std::int8_t>((*generator)()));
  if (type == DataType::kInt32) return static_cast<double>((*generator)() % 2001) - 1000;
  switch (distribution) {
    case Distribution::kNormal:
      return std::normal_distribution<double>()(*generator);
    case Distribution::kUniform:
      return std::uniform_real_distribution<double>()(*generator);
    case Distribution::kWideScale:
      return std::ldexp(std::normal_distribution<double>()(*generator),
                        static_cast<int>((*generator)() % 13) - 6);
  }
  return 0;
}

MatrixLayout BiasLayout(const Problem& problem) {
  return {problem.d.type, 1, problem.n, Order::kRowMajor, problem.n};
}

// Relative spacing of the type the kernel accumulates in and of the one it writes.
double Epsilon(DataType type) {
  switch (type) {
    case DataType::kF64:
      return 0x1p-53;
    case DataType::kF32:
      return 0x1p-24;
    case DataType::kF16:
      return 0x1p-11;
    case DataType::kBf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

// Small, of several magnitudes, and now and then zero, which is a legal scale.
std::vector<float> RandomScales(Scaling scaling, std::int64_t count, std::uint32_t seed) {
  if (scaling == Scaling::kNone) return {};
  std::mt19937 generator(seed);
  std::vector<float> scales(static_cast<std::size_t>(scaling == Scaling::kTensor ? 1 : count));
  for (float& scale : scales) {
    scale = generator() % 16 == 0
                ? 0
                : std::ldexp(std::uniform_real_distribution<float>(1, 2)(generator),
                             -4 - static_cast<int>(generator() % 6));
  }
  return scales;
}

// Walks through every pair of scalings. int8 without scales would overflow f16.
void AddScales(int variant, Problem* problem) {
  constexpr Scaling kScalings[] = {Scaling::kVector, Scaling::kTensor, Scaling::kNone};
  problem->a_scaling = kScalings[variant % (problem->d.type == DataType::kF16 ? 2 : 3)];
  problem->b_scaling = kScalings[variant / 3 % 3];
}

void Reorder(MatrixLayout* layout, Order order, std::int64_t padding) {
  layout->order = order;
  layout->leading_dimension = layout->inner() + padding;
}

bool IsExactProduct(const Problem& problem) { return problem.d.type == DataType::kInt32; }

}  // namespace

PlaneBytes RandomPlane(const MatrixLayout& layout, Distribution distribution, std::uint32_t seed) {
  std::mt19937 generator(seed);
  PlaneBytes bytes = PoisonedPlane(layout);
  for (std::int64_t row = 0; row < layout.rows; ++row) {
    for (std::int64_t column = 0; column < layout.columns; ++column) {
      StoreElement(layout, bytes.data(), row, column, Draw(layout.type, distribution, &generator));
    }
  }
  return bytes;
}

PlaneBytes PoisonedPlane(const MatrixLayout& layout) {
  return PlaneBytes(layout.size_bytes(), kPoison);
}

Operands::Operands(const Problem& problem, Distribution distribution, std::uint32_t seed)
    : a(RandomPlane(problem.a, distribution, seed)),
      b(RandomPlane(problem.b, distribution, seed + 1)),
      d(PoisonedPlane(problem.d)) {
  if (problem.epilogue.beta != 0) c = RandomPlane(problem.c, distribution, seed + 2);
  if (problem.epilogue.has_bias) bias = RandomPlane(BiasLayout(problem), distribution, seed + 3);
  a_scales = RandomScales(problem.a_scaling, problem.m, seed + 4);
  b_scales = RandomScales(problem.b_scaling, problem.n, seed + 5);
}

Arguments Operands::arguments() {
  return {a.data(),
          b.data(),
          c.empty() ? nullptr : c.data(),
          bias.empty() ? nullptr : bias.data(),
          d.data(),
          nullptr,
          a_scales.empty() ? nullptr : a_scales.data(),
          b_scales.empty() ? nullptr : b_scales.data()};
}

std::vector<Problem> SmallProblems(DataType type, DataType output_type) {
  return SmallProblems(type, type, output_type);
}

std::vector<Problem> SmallProblems(DataType type, DataType type_of_b, DataType output_type) {
  struct Shape {
    std::int64_t m, n, k;
  };
  constexpr Shape kShapes[] = {{1, 1, 1},     {1, 7, 3},     {5, 1, 1100},  {63, 65, 64},
                               {64, 512, 16}, {65, 513, 17}, {130, 40, 33}, {3, 1030, 5}};
  std::vector<Problem> problems;
  int variant = 0;
  for (const Shape& shape : kShapes) {
    // Bits choose transposes and orders; the epilogue walks along, so that pairs mix.
    for (int bits = 0; bits < 32; ++bits, ++variant) {
      Problem problem = MakeProblem(shape.m, shape.n, shape.k, type, output_type, (bits & 1) != 0,
                                    (bits & 2) != 0);
      const auto order = [bits](int bit) {
        return (bits & bit) != 0 ? Order::kColumnMajor : Order::kRowMajor;
      };
      problem.b.type = type_of_b;
      Reorder(&problem.a, order(4), variant % 3);
      Reorder(&problem.b, order(8), variant % 2 * 5);
      Reorder(&problem.d, order(16), variant % 4);
      Reorder(&problem.c, order(4), variant % 5);
      if (!IsExactProduct(problem)) {
        constexpr double kAlphas[] = {1, -0.5, 3};
        constexpr double kBetas[] = {0, 1, -2, 0, 0.25};
        problem.epilogue.alpha = kAlphas[variant % 3];
        problem.epilogue.beta = kBetas[variant % 5];
        problem.epilogue.has_bias = variant % 2 == 1;
        problem.epilogue.activation = static_cast<Activation>(variant % 7 % 4);
        if (SizeBits(type) == 8) AddScales(variant, &problem);
      }
      problems.push_back(problem);
    }
  }
  return problems;
}

std::string CompareWithReference(const Problem& problem, const Operands& operands, double slack) {
  Operands copy = operands;
  const ReferenceResult reference = ReferenceGemm(problem, copy.arguments());
  const DataType accumulate =
      problem.accumulate == DataType::kInt32 ? DataType::kF32 : problem.accumulate;
  for (std::int64_t row = 0; row < problem.m; ++row) {
    for (std::int64_t column = 0; column < problem.n; ++column) {
      const std::int64_t i = row * problem.n + column;
      const double expected = reference.d[i];
      const double actual = LoadElement(problem.d, operands.d.data(), row, column);
      double bound = 0;
      if (!IsExactProduct(problem)) {
        const double slope = problem.epilogue.activation == Activation::kNone ? 1 : 2;
        const double smallest_step = problem.d.type == DataType::kF16 ? 0x1p-25 : 0;
        bound = slope * (static_cast<double>(problem.k) + 4) * Epsilon(accumulate) *
                    reference.magnitude[i] +
                Epsilon(problem.d.type) * std::abs(expected) * slope + smallest_step;
      }
      bound += slack * reference.magnitude[i];
      if (std::abs(actual - expected) <= bound) continue;
      return absl::StrCat(ToString(problem), ": d(", row, ", ", column, ") is ", actual,
                          ", expected ", expected, " within ", bound);
    }
  }
  return "";
}

}  // namespace gemmd::testing
