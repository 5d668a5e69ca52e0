// The parameters of both kernels, split pass and product, in the product's frame (tilings.h).
#pragma once

#include <cstdint>

#include "kernels/ptx/tensor_copy.h"
#include "kernels/sm90/raster.h"
#include "base/numbers/types.h"

namespace gemmd::sm90f32 {
inline namespace GEMMD_BACKEND {

// A plane of f32: lines x K.
struct Lines {
  const float* data;
  std::int64_t line_stride;  // elements
  std::int64_t k_stride;
};

struct ProductParams {
  ptx::TensorMap rows;   // f32
  ptx::TensorMap parts;  // pieces of the columns' parts (layout.h)
  Lines row_lines;       // the operands themselves, for sums that parts cannot make
  Lines column_lines;
  std::int32_t m;  // rows
  std::int32_t n;  // columns
  std::int32_t k;
  ptx::CachePolicy row_policy;
  sm90::Raster raster;

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

struct SplitParams {
  Lines from;
  std::uint16_t* to;
  std::int32_t lines;
  std::int32_t k;
  std::int32_t k_blocks;     // of 32, a multiple of a stage's: what lies past k is zeros
  std::int32_t tiles;        // of columns: lines past `lines` are zeros
  std::int32_t tile_groups;  // of 8 lines, in a tile
  // The product may start before this launch's turn has come: no launch ahead writes its rows.
  bool starts_product_early;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::sm90f32
