// The product in binary64, one dot product at a time: what tests compare kernels with.
#pragma once

#include <vector>

#include "kernels/kernel.h"

namespace gemmd {

struct ReferenceResult {
  // activation(alpha * op(A) * op(B) + beta * C + bias), m x n row-major, unrounded.
  std::vector<double> d;
  // |alpha| * |op(A)| * |op(B)| + |beta * C| + |bias|: what rounding errors scale with.
  // Scales are part of A and B.
  std::vector<double> magnitude;
};

// REQUIRES: operands of type f64, f32, tf32, f16, bf16, int8, fp8 or int32, and scales of whole
// lines; tests/testing/products/exact_product.h is for all others.
ReferenceResult ReferenceGemm(const Problem& problem, const Arguments& arguments);

// Element (row, column) of a plane, widened.
double LoadElement(const MatrixLayout& layout, const void* data, std::int64_t row,
                   std::int64_t column);

// Rounds to the type and stores.
void StoreElement(const MatrixLayout& layout, void* data, std::int64_t row, std::int64_t column,
                  double value);

double Activate(Activation activation, double x);

}  // namespace gemmd
