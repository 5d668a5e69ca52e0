// D from sums to global memory by TMA, in boxes that one warp fills, or some that lie beside each
// other.
#pragma once

#include "kernels/mma/half_gemm_params.h"
#include "kernels/mma/tensor_copy/params.h"
#include "kernels/ptx/barriers.h"
#include "kernels/ptx/fences.h"
#include "kernels/ptx/matrix_memory.h"
#include "kernels/ptx/platform.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::tensor_copy {
inline namespace GEMMD_BACKEND {

// A warp's sums into its part of a box, by stmatrix; then the box's first thread stores it. `tile`
// has room for all boxes of the block, whose corner in D is `corner`. Warps of a box wait for each
// other, and nobody for another box.
template <class Layout, class Types, int kRowTiles, int kColumnTiles>
GEMMD_DEVICE void StoreBox(const ptx::TensorMap& map,
                           const typename Types::Accumulator (&sum)[kRowTiles][kColumnTiles],
                           ptx::SharedAddress tile, const mma::TileCorner& corner,
                           std::uint32_t warp, std::uint32_t lane) {
  using Box = typename Layout::Box;
  constexpr std::uint32_t kBoxesN = Layout::kWarpsN / Layout::kBoxWarps;
  const std::uint32_t nth = warp / Layout::kBoxWarps;
  const ptx::SharedAddress box = tile + nth * Box::kBytes;
  // Each lane addresses a row of one of the four 8x8 matrices in two column tiles.
  const std::uint32_t row = lane % 16;
  const std::uint32_t chunk = warp % Layout::kBoxWarps * kColumnTiles + lane / 16;
  GEMMD_UNROLL
  for (int i = 0; i < kRowTiles; ++i) {
    GEMMD_UNROLL
    for (int j = 0; j < kColumnTiles; j += 2) {
      const std::uint32_t words[4] = {Types::Output(sum[i][j], 0), Types::Output(sum[i][j], 1),
                                      Types::Output(sum[i][j + 1], 0),
                                      Types::Output(sum[i][j + 1], 1)};
      ptx::StoreMatrix4(box + Box::Chunk(i * 16 + row, j + chunk), words);
    }
  }
  ptx::FenceProxyAsync();
  if constexpr (Layout::kBoxWarps == 1) {
    ptx::SyncWarp();
  } else {
    ptx::NamedBarrierSync(kFirstBox + nth, 32 * Layout::kBoxWarps);
  }
  if (warp % Layout::kBoxWarps == 0 && lane == 0) {
    ptx::TensorStore2D(&map, box,
                       corner.column + static_cast<std::int32_t>(nth % kBoxesN * Box::kColumns),
                       corner.row + static_cast<std::int32_t>(nth / kBoxesN * Box::kRows));
    ptx::BulkCommit();
    ptx::BulkWaitRead<0>();
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::tensor_copy
