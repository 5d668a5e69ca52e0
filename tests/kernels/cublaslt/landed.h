// A problem as a CUDA device lands it, for programs that launch kernels by themselves:
// lines padded to 16 bytes; 8-bit operands K-major, with K and what runs fastest in D padded to 16
// by zeros.
#pragma once

#include <cstdint>

#include "kernels/kernel.h"
#include "tests/testing/products/matrices.h"

namespace gemmd::testing {

// Scales of both operands are f32 vectors of m and n elements.
struct HostProblem {
  Problem problem;
  PlaneBytes a;
  PlaneBytes b;
  PlaneBytes c;
  PlaneBytes bias;
  PlaneBytes d;
  PlaneBytes a_scales;
  PlaneBytes b_scales;
};

// Seeded random data; D is poisoned.
HostProblem RandomProblem(const Problem& problem, std::uint32_t seed);

// The problem and its data in landed layouts; D is poisoned.
HostProblem Land(const HostProblem& from);

// Element (row, column) of a plane, fp8 among them, without its scale.
double Value(const MatrixLayout& layout, const PlaneBytes& plane, std::int64_t row,
             std::int64_t column);

// Seeded elements of a normal distribution (of the whole range for int8), poison between.
PlaneBytes RandomValues(const MatrixLayout& layout, std::uint32_t seed);

// Copies the elements of the landed D into the D of `to`.
void Leave(const HostProblem& landed, HostProblem* to);

// The worst |D - exact| over its bound, the product's error being
// (terms * k + fixed) * |alpha| |A| |B|; infinite where D holds a NaN. `exact` is true of
// integer output: any difference is infinite.
struct ErrorBound {
  double per_term = 0;
  double fixed = 0;
  double gelu = 0;  // more through gelu_tanh, whose tanh the library approximates
  // The library may round to D's 16-bit type before a fused bias or activation, and again.
  bool rounds_before_bias = false;
  bool exact = false;
};
double WorstError(const HostProblem& host, const ErrorBound& bound);

}  // namespace gemmd::testing
