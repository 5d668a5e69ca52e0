// Products of 16-bit matrices for kernel tests: a problem, its operands, and what a run found.
#pragma once

#include <cstdint>

#include "kernels/emulator/options.h"
#include "kernels/kernel.h"
#include "tests/kernels/emulator/half_matrix.h"
#include "tests/kernels/emulator/shape.h"

namespace gemmd::testing {

// The findings of a run. A planted fault must leave one of both.
struct Outcome {
  emulator::Report report;
  std::int64_t different = 0;  // elements of D with other bits than expected
  bool ok() const { return report.ok() && different == 0; }
};

// D = A * B with rows padded to 16 bytes, as HalfMatrix has them.
inline Problem MakeHalfProblem(ProductForm form, const Shape& shape) {
  const DataType type = form == ProductForm::kBf16AccumulateF32 ? DataType::kBf16 : DataType::kF16;
  const auto padded = [type](std::int64_t rows, std::int64_t columns) {
    return MatrixLayout{type, rows, columns, Order::kRowMajor, (columns + 7) / 8 * 8};
  };
  Problem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.a = padded(shape.m, shape.k);
  problem.b = padded(shape.k, shape.n);
  problem.c = problem.d = padded(shape.m, shape.n);
  if (form == ProductForm::kF16AccumulateF16) problem.accumulate = DataType::kF16;
  return problem;
}

// Random A and B, and D full of poison.
struct HalfOperands {
  static constexpr std::uint16_t kPoison = 0x7fc1;

  HalfOperands(ProductForm form, const Shape& shape)
      : a(shape.m, shape.k), b(shape.k, shape.n), d(shape.m, shape.n) {
    a.FillRandom(FormatOf(form), 1);
    b.FillRandom(FormatOf(form), 2);
    d.Fill(kPoison);
  }

  Arguments arguments() {
    Arguments arguments;
    arguments.a = a.data();
    arguments.b = b.data();
    arguments.d = d.data();
    return arguments;
  }

  HalfMatrix a;
  HalfMatrix b;
  HalfMatrix d;
};

// Counts the elements of D's padding between rows that are no longer poison: it is not a kernel's.
inline std::int64_t CountWrittenPadding(const HalfMatrix& d) {
  std::int64_t written = 0;
  for (std::int64_t row = 0; row + 1 < d.rows(); ++row) {
    for (std::int64_t column = d.columns(); column < d.leading_dimension(); ++column) {
      written += d.At(row, column) != HalfOperands::kPoison;
    }
  }
  return written;
}

}  // namespace gemmd::testing
