// The producer: one thread that keeps the ring of stages full by TMA.
#pragma once

#include "kernels/hopper/common/raster.h"
#include "kernels/hopper/f16x3/layout.h"
#include "kernels/hopper/f16x3/params.h"
#include "kernels/mma/ring.h"
#include "kernels/ptx/grid_dependency.h"
#include "kernels/ptx/indices.h"
#include "kernels/ptx/tensor_copy.h"

namespace gemmd::hopper::f16x3 {
inline namespace GEMMD_BACKEND {

template <class Layout>
using Block = mma::Ring<Layout>;

GEMMD_DEVICE std::int32_t StagesOfK(const ProductParams& params) {
  return (params.sums.k + kStageK - 1) / kStageK;
}
GEMMD_DEVICE std::uint32_t TilesOf(const ProductParams& params) {
  return params.sums.raster.tiles_m * params.sums.raster.tiles_n;
}

template <class Layout>
GEMMD_DEVICE void Produce(const ProductParams& params, const Block<Layout>& block) {
  const std::int32_t k_stages = StagesOfK(params);
  ptx::WaitForPrecedingGrid();
  mma::RingPosition<Layout::kStages> ring;
  ring.parity = 1;  // every stage was empty to begin with
  for (std::uint32_t tile = ptx::BlockIndexX(); tile < TilesOf(params); tile += ptx::GridSizeX()) {
    const hopper::RasterTile at = hopper::TileAt(params.sums.raster, tile);
    std::int32_t row_piece = static_cast<std::int32_t>(at.row) * k_stages * Layout::kRowPieceLines;
    std::int32_t column_piece =
        static_cast<std::int32_t>(at.column) * k_stages * Layout::kColumnPieceLines;
    GEMMD_NO_UNROLL
    for (std::int32_t k_stage = 0; k_stage < k_stages; ++k_stage) {
      ptx::MbarrierWait(block.Empty(ring.stage), ring.parity);
      ptx::MbarrierArriveExpect(block.Full(ring.stage), Layout::kStageBytes);
      ptx::TensorLoad2DCached(block.Stage(ring.stage), &params.sums.rows, 0, row_piece,
                              block.Full(ring.stage), ptx::CachePolicy::kNormal);
      ptx::TensorLoad2DCached(block.Stage(ring.stage) + Layout::kColumnOffset, &params.sums.parts,
                              0, column_piece, block.Full(ring.stage), ptx::CachePolicy::kNormal);
      row_piece += Layout::kRowPieceLines;
      column_piece += Layout::kColumnPieceLines;
      ring.Next();
    }
  }
}

}  // namespace GEMMD_BACKEND
}  // namespace gemmd::hopper::f16x3
