// Runs kernels that multiply 16-bit matrices in the emulator and compares every bit of D.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

#include "kernels/emulator/launch.h"
#include "kernels/gemm.h"
#include "tests/kernels/emulator/half_matrix.h"

namespace gemmd::testing {

struct Shape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

inline std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  return out << shape.m << "x" << shape.n << "x" << shape.k;
}

// What a run found. A planted fault must leave one of both.
struct Outcome {
  emulator::Report report;
  std::int64_t different = 0;  // elements of D with other bits than expected
  bool ok() const { return report.ok() && different == 0; }
};

// D = A * B with rows padded to 16 bytes, as HalfMatrix has them.
Problem MakeHalfProblem(ProductForm form, const Shape& shape);

// Random A and B, and D full of poison.
struct HalfOperands {
  static constexpr std::uint16_t kPoison = 0x7fc1;

  HalfOperands(ProductForm form, const Shape& shape);
  Arguments arguments();

  HalfMatrix a;
  HalfMatrix b;
  HalfMatrix d;
};

// How many elements of D's padding between rows are no longer poison: it is not a kernel's.
std::int64_t CountWrittenPadding(const HalfMatrix& d);

// Runs a registry entry the way a device does, and compares D with ExactProduct().
Outcome RunEntry(const std::string& name, ProductForm form, const Shape& shape,
                 const emulator::Options& options, HalfOperands* operands);

// "a05_f16_f32_77x131x333": of kernel sm80/a05.
std::string CaseName(const std::string& kernel, ProductForm form, const Shape& shape);

}  // namespace gemmd::testing
