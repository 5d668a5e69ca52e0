// Runs a step of ladder A in the emulator and compares every bit of D.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "kernels/emulator/launch.h"
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

}  // namespace gemmd::testing
