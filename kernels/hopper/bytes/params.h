// The parameters of a product of 8-bit operands, in the kernel's frame (../common/frame.h).
#pragma once

#include <cstdint>

#include "kernels/hopper/common/warpgroup.h"
#include "kernels/hopper/half/wgmma_pipeline.h"

namespace gemmd::hopper::bytes {
inline namespace GEMMD_BACKEND {

using half::Block;
using half::TileCorner;
using half::TileWalk;

// Columns whose sums the tensor cores hold at a time: with those that were promoted they have to
// fit a thread's registers.
template <class Layout>
inline constexpr int kPartColumns = Layout::kTileN > 128 ? Layout::kTileN / 2 : Layout::kTileN;

// Behind the ring: scales of two chunks of columns for each consumer.
template <class Layout>
inline constexpr int kColumnScales = (Layout::kSharedBytes + 15) / 16 * 16;
template <class Layout>
inline constexpr int kSharedBytes =
    kColumnScales<Layout> + Layout::kConsumers * 2 * kPartColumns<Layout> * 4;

// f32 scales of whole lines. Null: there are none. One for each line, or one for all.
struct LineScales {
  const float* data;
  std::int64_t step;  // 1, or 0 for all
};

// f32 scales of blocks of 128 of K, for one line each or for 128. Null: there are none.
struct BlockScales {
  const float* data;
  std::int64_t line_step;   // from a block of lines to the next
  std::int64_t k_step;      // from a block of K to the next
  std::int32_t line_shift;  // 7 where a block has 128 lines, else 0
};

// K is counted in units of 16 bits, as maps and stages of the half family are.
struct ByteParams : half::WgmmaGemmParams {
  LineScales row_scales;
  LineScales column_scales;
  BlockScales row_blocks;
  BlockScales column_blocks;
  bool is_swapped;  // the kernel's rows are B's lines
  DataType d_type;
};

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::bytes
