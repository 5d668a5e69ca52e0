// The parameters of a product whose sums are f32, in its frame: its rows are D's columns.
#pragma once

#include <cstdint>

#include "base/numbers/types.h"
#include "kernels/hopper/common/raster.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper {
inline namespace GEMMD_BACKEND {

// A plane of f32: lines x K.
struct Lines {
  const float* data;
  std::int64_t line_stride;  // elements
  std::int64_t k_stride;
};

struct F32Params {
  ptx::TensorMap rows;   // f32
  ptx::TensorMap parts;  // pieces of the columns' parts
  Lines row_lines;       // the operands themselves, for sums that parts cannot make
  Lines column_lines;
  std::int32_t m;  // rows
  std::int32_t n;  // columns
  std::int32_t k;
  ptx::CachePolicy row_policy = ptx::CachePolicy::kNormal;
  Raster raster;

  float* d;
  std::int64_t d_row_stride;  // elements
  std::int64_t d_column_stride;
  // The epilogue, where there is one.
  bool has_epilogue;
  const float* c;  // null: none
  std::int64_t c_row_stride;
  std::int64_t c_column_stride;
  const float* bias;  // one element a row; null: none
  float alpha;
  float beta;
  Activation activation;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper
