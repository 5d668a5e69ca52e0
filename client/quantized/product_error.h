// The error of a product against another one that is taken for right.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "client/matrix.h"

namespace gemmd::client {

struct ProductError {
  // ||D - D_full|| / ||D_full||, Frobenius norms in binary64. 0 where both are 0; NaN where an
  // element of either is not finite.
  double relative = 0;
  // The largest |D - D_full|, where it is, and both elements. The first element that is not finite
  // counts as the largest.
  double largest = 0;
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  double d = 0;
  double full = 0;
};

// INVALID_ARGUMENT: shapes differ, or a type is none of f64, f32, f16, bf16 and int32. Orders and
// leading dimensions may be any.
absl::StatusOr<ProductError> CompareProducts(const MatrixView& d, const MatrixView& full);

}  // namespace gemmd::client
