// The parameters of both kernels, split pass and product.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/f32_params.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

struct ProductParams {
  // Its maps `rows` and `parts` are of the rows' parts and the columns' (layout.h).
  hopper::F32Params sums;
  // Sums are to be multiplied by 2^(a row's exponent + a column's). Both planes have whole tiles of
  // lines.
  const std::int32_t* row_exponents;
  const std::int32_t* column_exponents;
};

struct SplitOperand {
  hopper::Lines from;
  std::uint16_t* to;
  std::int32_t* exponents;  // of lines, those past `lines` too
  std::int32_t lines;
  std::uint32_t groups;       // of 8 lines, of whole tiles: lines past `lines` are zeros
  std::uint32_t tile_groups;  // of a tile
  bool has_units;             // K runs in aligned units of 16 bytes
};

struct SplitParams {
  SplitOperand rows;
  SplitOperand columns;
  std::int32_t k;
  std::uint32_t k_stages;  // of 64: what lies past k is zeros
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
