// The product's parameters, in its frame (tilings.h).
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/hopper/common/raster.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper::f64 {
inline namespace GEMMD_BACKEND {

// An operand as it lies in memory: lines of elements.
struct Plane {
  const double* data;
  std::int64_t stride;  // from line to line, elements
  std::int32_t length;  // of a line
  std::int32_t lines;
};

struct ProductParams {
  ptx::TensorMap row_map;  // of pairs of 32-bit words; unless by_elements
  ptx::TensorMap column_map;
  Plane rows;
  Plane columns;
  // Copies of 8 bytes load both: a line of one does not start at a multiple of 16 bytes.
  bool by_elements;
  // No launch ahead writes them.
  bool rows_are_settled;
  bool columns_are_settled;
  std::int32_t m;  // rows
  std::int32_t n;  // columns
  std::int32_t k;
  ptx::CachePolicy row_policy = ptx::CachePolicy::kNormal;
  hopper::Raster raster;

  double* d;
  std::int64_t d_row_stride;  // elements
  std::int64_t d_column_stride;
  // The epilogue, where there is one.
  bool has_epilogue;
  const double* c;  // null: none
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  const double* bias;  // one element a row; null: none
  double alpha;
  double beta;
  Activation activation;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f64
