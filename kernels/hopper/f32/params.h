// The parameters of the split pass; common/f32_params.h has the product's.
#pragma once

#include <cstdint>

#include "kernels/hopper/common/f32_params.h"

namespace gemmd::hopper::f32 {
inline namespace GEMMD_BACKEND {

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
}  // namespace gemmd::hopper::f32
